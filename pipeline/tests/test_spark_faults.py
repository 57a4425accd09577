"""Planned faults: what a seed draws, where they strike, and what counts as proof that they did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument
from memwal.index.opening import region_of
from memwal.index.snapshot_file import RegionRow
from memwal.region.claim import claim
from memwal_spark import drivers, faults, proofs, striking
from memwal_spark.faults import Fault
from memwal_spark.options import TableOption
from memwal_spark.striking import Blow, PlannedFault, Strikes


def test_what_can_be_asked_for_is_a_group_or_a_list_without_order() -> None:
    assert faults.chosen("none") == ()
    assert faults.chosen("light") == ("task-error", "worker-kill")
    assert faults.chosen("all") == tuple(faults.KINDS)
    assert faults.chosen("orphan, task-error") == ("task-error", "orphan")
    with pytest.raises(InvalidArgument, match=r"orphans.*orphan"):
        faults.chosen("task-error,orphans")
    with pytest.raises(InvalidArgument, match="MEMWAL_OPTION"):
        faults.chosen(" , ")
    page = (Path(__file__).parents[2] / "docs" / "validate.md").read_text("utf-8")
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == list(faults.KINDS)


def test_faults_are_drawn_by_seed_for_different_tasks_with_rows_enough(tmp_path: Path) -> None:
    rows = {0: 149, 1: 150, 2: 151, 3: 400, 5: 1000}  # a task flushes at 100
    plans = [faults.planned(faults.LIGHT, seed, [{7: 1}, rows], 100, tmp_path) for seed in range(9)]
    assert plans[0] == faults.planned(faults.LIGHT, 0, [{7: 1}, rows], 100, tmp_path)
    assert {fault.job for plan in plans for fault in plan} == {1}
    hit = {tuple(fault.partition for fault in plan) for plan in plans}
    assert len(hit) > 1
    assert all(len(set(tasks)) == 2 and {2, 3, 5}.issuperset(tasks) for tasks in hit)
    assert all(150 <= fault.rows < rows[fault.partition] for plan in plans for fault in plan)
    assert len({fault.rows for plan in plans for fault in plan}) > 2


def test_a_fault_without_a_task_of_its_own_is_planned_for_rows_that_never_come(tmp_path: Path) -> None:
    first, second = faults.planned(faults.LIGHT, 0, [{4: 180, 3: 100}], 100, tmp_path)
    assert (first.kind, first.partition, first.rows < 180) == ("task-error", 4, True)
    assert (second.kind, second.partition, second.rows) == ("worker-kill", 4, 181)


def test_each_fault_of_a_cluster_has_a_job_of_its_own_and_the_others_share_one(tmp_path: Path) -> None:
    kinds, rows = tuple(faults.KINDS), {0: 400, 1: 500, 2: 600}
    assert faults.jobs_needed(kinds) == 8
    plans = [faults.planned(kinds, seed, [rows] * 8, 100, tmp_path) for seed in range(20)]
    for plan in plans:
        assert sorted(fault.kind for fault in plan) == sorted(kinds)
        shared = [fault.job for fault in plan if fault.kind in faults.LIGHT]
        assert len(set(shared)) == 1
        assert sorted({fault.job for fault in plan}) == list(range(8))
    cuts = {(f.partition, f.rows) for plan in plans for f in plan if f.kind == "stream-restart"}
    assert all(0 <= first < batches and 3 <= batches <= 5 for first, batches in cuts)
    assert len(cuts) > 3
    with pytest.raises(InvalidArgument, match="need 8 jobs, and there are 2"):
        faults.planned(kinds, 0, [rows] * 2, 100, tmp_path)


def fault(tmp_path: Path, kind: str = "task-error") -> Fault:
    return Fault(kind=kind, job=0, partition=3, rows=6, puts=3, evidence=str(tmp_path / "evidence.json"))


def place(tmp_path: Path, *, spec: bool = False) -> TableOption:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    made = memwal.bucket("b", "id", 1) if spec else None
    table = memwal.create(tmp_path / "t", schema, primary_key=["id"], spec=made)
    with table.writer(values={"b": 0}) if spec else table.writer() as writer:
        writer.put(pa.table({"id": [1]}, schema=schema))
        writer.flush()
    return TableOption(path=str(tmp_path / "t"))


def batches(*sizes: int) -> list[pa.RecordBatch]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [
        pa.record_batch({"id": list(range(start, start + size))}) for start, size in zip(starts, sizes, strict=True)
    ]


def blow(tmp_path: Path, kind: str = "task-error", attempt: int = 0, **strikes: Any) -> Blow:
    where = TableOption(path=str(tmp_path / "t")) if (tmp_path / "t").exists() else place(tmp_path)
    return Blow(fault(tmp_path, kind), Strikes(**strikes), where, attempt)


@pytest.mark.parametrize("sizes", [(10,), (4, 4), (1, 1, 1, 1, 1, 1, 1), (6,)])
def test_a_fault_strikes_after_its_rows_whatever_the_batches(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    seen: list[list[int]] = []
    with pytest.raises(PlannedFault, match="planned: partition 3 fails after 6 rows"):
        seen.extend(part["id"].to_pylist() for part in blow(tmp_path).given(iter(batches(*sizes))))
    assert [row for part in seen for row in part] == [0, 1, 2, 3, 4, 5]
    assert max(map(len, seen)) == min(2, max(sizes))


def test_a_fault_notes_the_state_of_all_regions_before_it_strikes_and_strikes_once(tmp_path: Path) -> None:
    with pytest.raises(PlannedFault):
        list(blow(tmp_path).given(iter(batches(10))))
    (region,) = memwal.open(tmp_path / "t").regions()
    assert json.loads((tmp_path / "evidence.json").read_text()) == {"generations": {region.region_id: 1}}
    again = blow(tmp_path).given(iter(batches(10)))
    assert [part.num_rows for part in again] == [10]


def test_a_task_with_fewer_rows_is_not_harmed(tmp_path: Path) -> None:
    parts = blow(tmp_path).given(iter(batches(3, 2)))
    assert [row for part in parts for row in part["id"].to_pylist()] == [0, 1, 2, 3, 4]


def test_a_lost_stage_loses_what_tasks_hand_to_each_other_and_nothing_else(tmp_path: Path) -> None:
    shuffled = tmp_path / "local" / "blockmgr-1" / "0c"
    shuffled.mkdir(parents=True)
    for name in ("shuffle_0_1_0.data", "shuffle_0_1_0.index", "broadcast_1"):
        (shuffled / name).touch()
    with pytest.raises(PlannedFault):
        list(blow(tmp_path, "stage-retry", shuffled=str(tmp_path / "local")).given(iter(batches(10))))
    assert [file.name for file in shuffled.iterdir()] == ["broadcast_1"]


def test_a_driver_is_killed_with_its_group_and_the_task_goes_on(tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        parts = list(blow(tmp_path, "driver-kill", driver=driver.pid).given(iter(batches(10))))
        assert driver.wait(30) == -signal.SIGKILL
    finally:
        driver.kill()
        assert driver.stdin is not None
        driver.stdin.close()
    assert [row for part in parts for row in part["id"].to_pylist()] == list(range(10))


def test_a_copy_waits_until_the_original_stands_still_and_then_gives_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(striking, "WAIT_S", 0.01)
    with pytest.raises(PlannedFault, match="no kill reached"):
        list(blow(tmp_path, "copy-wins").given(iter(batches(10))))
    assert [part.num_rows for part in blow(tmp_path, "copy-wins", 1).given(iter(batches(10)))] == [10]


def test_a_copy_that_is_to_lose_gives_its_rows_when_the_original_has_put_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(striking, "WAIT_S", 0.01)
    copy, original = blow(tmp_path, "original-wins", 1), blow(tmp_path, "original-wins")
    assert [part.num_rows for part in original.given(iter(batches(10)))] == [10]
    assert not (tmp_path / "evidence.json").exists()
    done = original.written(lambda: SimpleNamespace(rows=10))  # type: ignore[arg-type,return-value]
    assert (done.rows, (tmp_path / "evidence.json").exists()) == (10, True)
    given = copy.given(iter(batches(10)))
    assert [next(given)["id"].to_pylist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    assert not (tmp_path / "evidence.copy").exists()
    with pytest.raises(PlannedFault, match="no kill reached"):
        next(given)
    assert (tmp_path / "evidence.copy").exists()


ORPHAN = """
import os, sys
sys.path[:0] = {path!r}
import pyarrow as pa, memwal
from pathlib import Path
from memwal_spark import striking
from memwal_spark.faults import Fault
from memwal_spark.options import TableOption
from memwal_spark.striking import Blow, Strikes
evidence, table = sys.argv[1:]
fault = Fault(kind="orphan", job=0, partition=3, rows=6, puts=3, evidence=evidence)
if os.fork():
    os.wait()  # the executor
elif os.fork():
    os.wait()  # the daemon
else:
    blow = Blow(fault, Strikes(), TableOption(path=table))
    def write():
        with memwal.open(table).writer(values=dict(b=0)) as writer:
            for part in blow.given(iter([pa.record_batch(dict(id=list(range(10))))])):
                writer.put(pa.Table.from_batches([part]).cast(memwal.open(table).schema), durable=True)
    blow.written(write)
"""


@pytest.mark.parametrize("claimed", [True, False])
def test_an_orphan_outlives_its_executor_and_puts_when_another_has_claimed(tmp_path: Path, claimed: bool) -> None:
    where = place(tmp_path, spec=True)
    evidence = tmp_path / "evidence.json"
    program = ORPHAN.format(path=sys.path)
    if not claimed:
        program = program.replace("evidence, table =", "striking.WAIT_S = 0.1; evidence, table =")
    executor = subprocess.Popen([sys.executable, "-W", "ignore", "-c", program, str(evidence), where.path])
    assert executor.wait(60) == -signal.SIGKILL
    with memwal.open(where.path).writer(values={"b": 0}) if claimed else nullcontext():
        seen = proofs.StruckTask(fault=fault(tmp_path, "orphan"), attempts=(), applications=())
        told = seen.orphan
    fenced = "its epoch is 3, and this one has 2"
    assert fenced in told["outcome"] if claimed else told["outcome"] == striking.NOBODY
    assert told["pid"] not in (os.getpid(), executor.pid)


def test_an_orphan_waits_until_the_claim_of_its_successor_stands_in_the_wal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place(tmp_path, spec=True)
    waits: list[Callable[[], bool]] = []
    for name in ("setsid", "kill"):
        monkeypatch.setattr(os, name, lambda *_: None)
    orphan = Blow(fault(tmp_path, "orphan"), Strikes(), where)
    monkeypatch.setattr(orphan, "_wait", lambda there: waits.append(there) or True)
    given = orphan.given(iter(batches(10)))
    assert [next(given)["id"].to_pylist() for _ in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7, 8, 9]]
    (claimed,) = waits
    table = memwal.open(where.path)
    (told,) = table.regions()
    row = RegionRow(region_id=told.region_id, spec_id=told.spec_id, values=tuple(told.values.items()), manifest=None)
    states = [claimed()]
    table._run(claim(region_of(table._io, table._state, row)))
    states.append(claimed())
    with table.writer(values={"b": 0}):
        states.append(claimed())
    assert states == [False, False, True]


def test_a_checkpoint_is_cut_to_a_batch_that_was_planned_and_not_finished(tmp_path: Path) -> None:
    for kind in ("commits", "offsets", "sources/0"):
        (tmp_path / kind).mkdir(parents=True)
        for batch in range(4):
            (tmp_path / kind / str(batch)).touch()
            (tmp_path / kind / f".{batch}.crc").touch()
    (tmp_path / "commits" / "metadata").touch()
    drivers.cut(tmp_path, 2)
    left = {kind: sorted(f.name for f in (tmp_path / kind).iterdir()) for kind in ("commits", "offsets", "sources/0")}
    assert left == {
        "commits": [".0.crc", ".1.crc", "0", "1", "metadata"],
        "offsets": [".0.crc", ".1.crc", ".2.crc", "0", "1", "2"],
        "sources/0": [".0.crc", ".1.crc", ".2.crc", "0", "1", "2"],
    }


def job(group: str, *stages: int) -> dict[str, Any]:
    properties = {"spark.jobGroup.id": group}
    return {"Event": "SparkListenerJobStart", "Job ID": stages[0], "Stage IDs": stages, "Properties": properties}


def ended(job: int, result: str = "JobSucceeded") -> dict[str, Any]:
    return {"Event": "SparkListenerJobEnd", "Job ID": job, "Job Result": {"Result": result}}


def task(
    stage: int, partition: int, attempt: int, failure: str = "", *, why: str = "ExceptionFailure", **more: Any
) -> dict[str, Any]:
    reason = {"Reason": why, "Description": failure} if failure else {"Reason": "Success"}
    info = {
        "Partition ID": partition, "Index": partition, "Attempt": attempt, "Failed": bool(failure),
        "Launch Time": 1000 + attempt, "Finish Time": 3500 + attempt, "Executor ID": "1", "Speculative": False,
        **{name: value for name, value in more.items() if name == "Speculative"},
    }  # fmt: skip
    return {
        "Event": "SparkListenerTaskEnd", "Stage ID": stage, "Stage Attempt ID": more.get("stage_attempt", 0),
        "Task Type": more.get("type", "ResultTask"), "Task Info": info, "Task End Reason": reason,
    }  # fmt: skip


def removed(executor: str, at: int = 3000) -> dict[str, Any]:
    reason = "Command exited with code 137"
    name = "SparkListenerExecutorRemoved"
    return {"Event": name, "Executor ID": executor, "Timestamp": at, "Removed Reason": reason}


def batch(run: str, number: int, rows: int = 5, name: str = "mine") -> dict[str, Any]:
    told = {"name": name, "runId": run, "batchId": number, "sources": [{"numInputRows": rows}]}
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    return {"Event": event, "progress": json.dumps(told)}


RAISED = "Traceback (most recent call last):\n  ...\nmemwal_spark.striking.PlannedFault: planned: partition 3 fails"
CRASHED = "Python worker exited unexpectedly (crashed)."
LOST = {"failure": "ExecutorLostFailure (executor 1 exited)", "why": "ExecutorLostFailure"}
KILLED = {"failure": "TaskKilled (another attempt succeeded)", "why": "TaskKilled"}
UNFETCHED = {"failure": "FetchFailed(null, shuffleId=0)", "why": "FetchFailed"}
END: dict[str, Any] = {"Event": "SparkListenerApplicationEnd"}
WRITTEN = [{"partition": 3, "region_id": "r"}]


def proof(
    tmp_path: Path,
    *logs: list[dict[str, Any]],
    kind: str = "task-error",
    generations: int = 1,
    told: Mapping[str, Mapping[str, Any]] | None = None,
) -> proofs.Proof:
    log = tmp_path / "log"
    log.mkdir()
    (log / ".app-0.crc").touch()
    for number, events in enumerate(logs):
        (log / f"app-{number}.inprogress").write_text(
            "".join(json.dumps(event) + "\n" for event in events) + '{"Event": "cut'
        )
    (tmp_path / "evidence.json").write_text(json.dumps({"generations": {"r": generations}}))
    for suffix, content in (told or {}).items():
        (tmp_path / f"evidence.{suffix}").write_text(json.dumps(content))
    (found,) = proofs.prove(log, lambda number: "mine", [fault(tmp_path, kind)], lambda number: WRITTEN)
    return found


@pytest.mark.parametrize(("kind", "failure"), [("task-error", RAISED), ("worker-kill", CRASHED)])
def test_a_failed_first_attempt_and_a_successful_later_one_prove_the_fault(
    tmp_path: Path, kind: str, failure: str
) -> None:
    events = [
        job("mine", 7),
        task(7, 2, 0),
        task(7, 3, 0, type="ShuffleMapTask"),
        task(7, 3, 0, failure),
        task(7, 3, 1),
    ]
    found = proof(tmp_path, events, kind=kind)
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


J = job("mine", 7)
FENCED = {"at": 4.5, "pid": 77, "outcome": "[MEMWAL_FENCED] epoch 3\nmore"}
WHOLE: Mapping[str, tuple[list[list[dict[str, Any]]], Mapping[str, Any], str]] = {
    "executor-kill": (
        [[J, task(7, 3, 0, **LOST), removed("1"), task(7, 3, 1)]], {},
        "executor 1 was removed (Command exited with code 137), and its task was run again",
    ),
    "stage-retry": (
        [[J, task(7, 3, 0, RAISED), task(7, 3, 1, **UNFETCHED), task(7, 3, 0, stage_attempt=1)]], {},
        "1 task ended with FetchFailed; attempt 1 of the stage was whole",
    ),
    "copy-wins": (
        [[J, task(7, 3, 1, Speculative=True), task(7, 3, 0, **KILLED)]], {},
        "the speculative attempt 1 succeeded, and the original was killed (TaskKilled (another attempt succeeded))",
    ),
    "original-wins": (
        [[J, task(7, 3, 0), task(7, 3, 1, Speculative=True, **KILLED)]], {"copy": {}},
        "the speculative attempt 1 claimed the region and was killed (TaskKilled (another attempt succeeded))",
    ),
    "driver-kill": (
        [[J], [J, task(7, 3, 0), ended(7), END]], {},
        "application app-0 never ended its job, and app-1 ran it again",
    ),
    "orphan": (
        [[J, task(7, 3, 0, **LOST), removed("1"), task(7, 3, 1)]], {"orphan": FENCED},
        "process 77 put 1.5 s after that, and was refused: [MEMWAL_FENCED] epoch 3",
    ),
    "stream-restart": (
        [[batch("x", 2), batch("x", 3), batch("x", 4, 0), batch("y", 3), batch("z", 2, name="another")]], {},
        "the query did the batches [2, 3], was cut, and did [3] again",
    ),
}  # fmt: skip
"""Kind -> the least event logs, and what the task told, that prove it; and the last thing that the report says."""


@pytest.mark.parametrize("kind", WHOLE)
def test_a_fault_is_proved_by_the_whole_of_its_evidence_and_by_no_less(tmp_path: Path, kind: str) -> None:
    logs, told, said = WHOLE[kind]
    found = proof(tmp_path, *logs, kind=kind, told=told)
    assert (found.happened, found.violated, found.facts[-1]) == (True, False, said)
    for number, events in enumerate(logs):
        for left_out, event in enumerate(events):
            if event in (END, batch("x", 2), batch("x", 4, 0), batch("z", 2, name="another")):
                continue  # beside the proof
            if kind == "stage-retry" and "PlannedFault" in str(event):
                continue  # what led to the loss, which others might lead to
            less = [*logs[:number], [*events[:left_out], *events[left_out + 1 :]], *logs[number + 1 :]]
            folder = tmp_path / f"{number}-{left_out}"
            folder.mkdir()
            assert not proof(folder, *less, kind=kind, told=told).happened, event


def test_an_orphan_that_nobody_fences_is_a_violation_and_one_without_a_successor_is_no_proof(tmp_path: Path) -> None:
    for name, outcome, verdict in (("a", striking.ACKNOWLEDGED, (True, True)), ("b", striking.NOBODY, (False, False))):
        (tmp_path / name).mkdir()
        told = {"orphan": {**FENCED, "outcome": outcome}}
        found = proof(tmp_path / name, *WHOLE["orphan"][0], kind="orphan", told=told)
        assert (found.happened, found.violated) == verdict
    (tmp_path / "c").mkdir()
    early = {"orphan": {**FENCED, "at": 2.0}}
    assert not proof(tmp_path / "c", *WHOLE["orphan"][0], kind="orphan", told=early).happened
