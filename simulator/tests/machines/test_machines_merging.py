from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from kit.machine_bugs import found, planted_bug
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal_sim import bugs, machines
from memwal_sim.machines import Merging, RegionLife


def test_no_history_of_mergers_and_writers_breaks_anything() -> None:
    machines.run(Merging, settings(machines.chosen(), max_examples=12))


def _none(_manifest: RegionManifest, _progress: int) -> tuple[FlushedGeneration, ...]:
    return ()


def test_generations_that_nobody_reads_or_merges_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(RegionLife, tmp_path, monkeypatch, planted_bug(memwal__read__sources___unmerged=_none))
    assert broken.violation.clause in ("WAL-001", "MERGE-001", "FLUSH-004", "READ-008")


def test_base_rows_that_no_newer_row_hides_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Merging, tmp_path, monkeypatch, *bugs.choose(["base_not_shadowed"]))
    assert broken.violation.clause == "READ-002"


@pytest.mark.long
def test_a_generation_that_is_merged_twice_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Merging, tmp_path, monkeypatch, *bugs.choose(["merged_twice"]))
    assert broken.violation.oracle == "each key is there once"


def test_a_search_that_takes_an_index_for_complete_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Merging, tmp_path, monkeypatch, *bugs.choose(["credited_without_building"]))
    assert broken.violation.oracle in ("a search equals a scan", "an index covers what it is credited with")
