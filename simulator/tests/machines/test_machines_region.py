from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from kit.machine_bugs import found, planted_bug
from memwal.read.tail import Tail
from memwal.region.rows import Rows
from memwal_sim import bugs, machines
from memwal_sim.machines import RegionLife


def test_no_history_of_one_region_breaks_anything() -> None:
    machines.run(RegionLife, settings(machines.chosen(), max_examples=20))


def test_writes_that_are_stored_nowhere_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(RegionLife, tmp_path, monkeypatch, *bugs.choose(["canary"]))
    assert broken.violation.clause == "WAL-001"
    assert len(broken.trace.header.actors) == 1


async def _no_tail(_region: object, _manifest: object, rows: Rows, *_: object) -> Tail:
    return Tail(rows.schema.empty_table(), ())


def test_a_reader_that_ignores_the_wal_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(RegionLife, tmp_path, monkeypatch, planted_bug(memwal__read__tail___wal_tail=_no_tail))
    assert broken.violation.clause in ("WAL-001", "AMB-141")
    assert len(broken.trace.steps) < 40


@pytest.mark.parametrize(
    ("bug", "clauses", "steps"),
    [
        ("plain_wal_put", ("WAL-001", "WAL-013", "FENCE-015"), 39),
        ("pointer_too_far", ("WRITER-013", "WAL-001", "FLUSH-009"), 60),
        ("oldest_row_kept", ("FLUSH-004", "WAL-001"), 40),
    ],
)
def test_planted_bugs_of_wal_and_flush_are_found(
    bug: str, clauses: tuple[str, ...], steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = found(RegionLife, tmp_path, monkeypatch, *bugs.choose([bug]))
    assert broken.violation.clause in clauses
    assert len(broken.trace.steps) <= steps
    assert len(broken.trace.header.actors) <= 3
