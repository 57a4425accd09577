"""The background merger and the memory meter, without Spark."""

from __future__ import annotations

import mmap
import threading
from pathlib import Path

import memwal
import pyarrow as pa
import pytest
from memwal import Conflict, MergeReport, StorageError
from memwal.ids import Generation, RegionId, TableVersion
from memwal_spark.memory import PeakMemory, tree_bytes
from memwal_spark.merging import BackgroundMerger, MergerProgress

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def test_generations_that_appear_are_merged_until_the_end(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    merged_first = threading.Event()
    with BackgroundMerger(str(tmp_path / "t"), lambda merged: merged_first.set()) as merger:
        with table.writer() as writer:
            writer.put(pa.table({"id": [1, 2]}, schema=SCHEMA))
            writer.flush()
        assert merged_first.wait(60)
    assert (merger.merged.generations, merger.merged.rows, merger.merged.conflicts) == (1, 2, 0)
    assert [info.merged for info in table.regions()] == [1]


class _Merges:
    """A table whose merges end as told, and then find nothing to do."""

    def __init__(self, outcomes: list[Exception | MergeReport]) -> None:
        self._outcomes = outcomes
        self.done = threading.Event()

    def merge(self) -> MergeReport:
        outcome = self._outcomes.pop(0) if self._outcomes else MergeReport(merged=(), rows=0, deleted=0, commits=0)
        if not self._outcomes:
            self.done.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def run(monkeypatch: pytest.MonkeyPatch, outcomes: list[Exception | MergeReport]) -> MergerProgress:
    table = _Merges(outcomes)
    monkeypatch.setattr(memwal, "open", lambda path: table)
    with BackgroundMerger("t", lambda merged: None) as merger:
        assert table.done.wait(60)
    return merger.merged


def test_a_lost_conflict_is_counted_and_the_next_pass_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Conflict(TableVersion(3), "Update", "Update", retryable=True)
    report = MergeReport(merged=((RegionId("r"), Generation(1)),), rows=5, deleted=0, commits=1)
    merged = run(monkeypatch, [lost, report])
    assert (merged.conflicts, merged.generations, merged.rows) == (1, 1, 5)


@pytest.mark.parametrize(
    "failure", [StorageError("p", "full"), Conflict(TableVersion(3), "Update", "Restore", retryable=False)]
)
def test_any_other_failure_is_raised_to_the_caller(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    with pytest.raises(type(failure)):
        run(monkeypatch, [failure])


def test_a_failure_of_the_body_is_not_hidden_by_one_of_the_merger(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> None:
        raise StorageError("p", "full")

    monkeypatch.setattr(memwal, "open", broken)

    def failing() -> None:
        with BackgroundMerger("t", lambda merged: None) as merger:
            merger._beside._thread.join()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        failing()


def test_memory_is_that_of_the_process_and_its_descendants(tmp_path: Path) -> None:
    own = tree_bytes()
    with PeakMemory() as memory, mmap.mmap(-1, 80_000_000) as fresh:
        fresh.write(b"x" * 80_000_000)
        measured = tree_bytes()
    assert measured - own > 60_000_000
    assert memory.peak_bytes > 0
    assert tree_bytes(tmp_path) > 10_000_000


def test_memory_follows_children_of_children_and_ignores_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"100": ("1", 5), "101": ("100", 7), "102": ("101", 11), "200": ("1", 1000)}
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    for process, (parent, resident) in pages.items():
        (tmp_path / process).mkdir()
        before = f"S {parent} " + "0 " * 19
        (tmp_path / process / "stat").write_text(f"{process} (a (strange) name) {before}{resident} 0 0")
    monkeypatch.setattr("os.getpid", lambda: 100)
    monkeypatch.setattr("os.sysconf", lambda name: 4096)
    assert tree_bytes(tmp_path) == (5 + 7 + 11) * 4096
