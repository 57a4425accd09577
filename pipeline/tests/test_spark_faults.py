"""Planned faults: where they strike, and what counts as proof that they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal_spark import faults
from memwal_spark.faults import Fault, PlannedFault
from memwal_spark.options import TableOption


def fault(tmp_path: Path, kind: faults.Kind = "raise") -> Fault:
    return Fault(kind=kind, partition=3, rows=6, puts=3, evidence=str(tmp_path / "evidence.json"))


def place(tmp_path: Path) -> TableOption:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = memwal.create(tmp_path / "t", schema, primary_key=["id"])
    with table.writer() as writer:
        writer.put(pa.table({"id": [1]}, schema=schema))
        writer.flush()
    return TableOption(path=str(tmp_path / "t"))


def batches(*sizes: int) -> list[pa.RecordBatch]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [
        pa.record_batch({"id": list(range(start, start + size))}) for start, size in zip(starts, sizes, strict=True)
    ]


@pytest.mark.parametrize("sizes", [(10,), (4, 4), (1, 1, 1, 1, 1, 1, 1), (6,)])
def test_a_fault_strikes_after_its_rows_whatever_the_batches(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    seen: list[list[int]] = []
    parts = faults.breaking(iter(batches(*sizes)), fault(tmp_path), place(tmp_path))
    with pytest.raises(PlannedFault, match="planned: partition 3 fails after 6 rows"):
        seen.extend(part["id"].to_pylist() for part in parts)
    assert [row for part in seen for row in part] == [0, 1, 2, 3, 4, 5]
    assert max(map(len, seen)) == min(2, max(sizes))


def test_a_fault_notes_the_state_of_all_regions_before_it_strikes(tmp_path: Path) -> None:
    where = place(tmp_path)
    with pytest.raises(PlannedFault):
        list(faults.breaking(iter(batches(10)), fault(tmp_path), where))
    (region,) = memwal.open(where.path).regions()
    assert json.loads((tmp_path / "evidence.json").read_text()) == {"generations": {region.region_id: 1}}


def test_a_task_with_fewer_rows_is_not_harmed(tmp_path: Path) -> None:
    parts = faults.breaking(iter(batches(3, 2)), fault(tmp_path), place(tmp_path))
    assert [row for part in parts for row in part["id"].to_pylist()] == [0, 1, 2, 3, 4]


def job(group: str, *stages: int) -> dict[str, Any]:
    return {"Event": "SparkListenerJobStart", "Stage IDs": stages, "Properties": {"spark.jobGroup.id": group}}


def task(stage: int, partition: int, attempt: int, failure: str = "") -> dict[str, Any]:
    reason = {"Reason": "ExceptionFailure", "Description": failure} if failure else {"Reason": "Success"}
    info = {
        "Partition ID": partition, "Index": partition, "Attempt": attempt, "Failed": bool(failure),
        "Launch Time": 1000, "Finish Time": 3500,
    }  # fmt: skip
    return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info, "Task End Reason": reason}


RAISED = "Traceback (most recent call last):\n  ...\nmemwal_spark.faults.PlannedFault: planned: partition 3 fails"
CRASHED = "Python worker exited unexpectedly (crashed)."
WRITTEN = [{"partition": 3, "region_id": "r"}]


def proof(
    tmp_path: Path, events: list[dict[str, Any]], *, kind: faults.Kind = "raise", generations: int = 1
) -> faults.Proof:
    log = tmp_path / "log"
    log.mkdir()
    (log / "local-1.inprogress").write_text("".join(json.dumps(event) + "\n" for event in events) + '{"Event": "cut')
    (tmp_path / "evidence.json").write_text(json.dumps({"generations": {"r": generations}}))
    (found,) = faults.prove(log, "mine", [fault(tmp_path, kind)], WRITTEN)
    return found


@pytest.mark.parametrize(("kind", "failure"), [("raise", RAISED), ("kill", CRASHED)])
def test_a_failed_first_attempt_and_a_successful_later_one_prove_the_fault(
    tmp_path: Path, kind: faults.Kind, failure: str
) -> None:
    found = proof(tmp_path, [job("mine", 7), task(7, 2, 0), task(7, 3, 0, failure), task(7, 3, 1)], kind=kind)
    assert found.happened
    assert [(a.number, a.failed, a.seconds, a.reason) for a in found.attempts] == [
        (0, True, 2.5, failure.splitlines()[-1]),
        (1, False, 2.5, ""),
    ]


@pytest.mark.parametrize(
    "events",
    [
        [job("mine", 7), task(7, 3, 0)],
        [job("mine", 7), task(7, 3, 0, RAISED)],
        [job("mine", 7), task(7, 3, 0, "disk full"), task(7, 3, 1)],
        [job("mine", 7), task(7, 2, 0, RAISED), task(7, 2, 1), task(7, 3, 0)],
        [job("other", 7), task(7, 3, 0, RAISED), task(7, 3, 1)],
        [],
    ],
    ids=["no failure", "no retry", "another failure", "another task", "another job", "no event"],
)
def test_anything_less_proves_nothing(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    assert not proof(tmp_path, events).happened


def test_a_failure_before_any_flush_proves_nothing(tmp_path: Path) -> None:
    events = [job("mine", 7), task(7, 3, 0, RAISED), task(7, 3, 1)]
    assert not proof(tmp_path, events, generations=0).happened
