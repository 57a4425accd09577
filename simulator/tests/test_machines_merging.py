from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from machine_bugs import found, planted_bug
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal_sim import machines
from memwal_sim.machines import Merging


def test_no_history_of_mergers_and_writers_breaks_anything() -> None:
    machines.run(Merging, settings(machines.chosen(), max_examples=12))


def _none(_manifest: RegionManifest, _progress: int) -> tuple[FlushedGeneration, ...]:
    return ()


def test_generations_that_nobody_reads_or_merges_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Merging, tmp_path, monkeypatch, planted_bug(memwal__read__sources___unmerged=_none), shrunk=False)
    assert broken.violation.clause in ("WAL-001", "MERGE-001")


def _unchanged(table: pa.Table, _keys: pa.Table) -> pa.Table:
    return table


def test_base_rows_that_no_newer_row_hides_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(Merging, tmp_path, monkeypatch, planted_bug(memwal__keys___without=_unchanged), shrunk=False)
    assert "a merged read returned a key twice" in broken.violation.reason
