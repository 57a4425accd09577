"""Attempts of Spark tasks that come late, without Spark: a task is what runs a writer over batches of rows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import memwal
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument
from memwal_spark import upserting, write
from memwal_spark.options import TableOption, WriteOptions
from memwal_spark.source import AnotherClaim, MemWalWriter
from memwal_spark.upserting import Upserted
from memwal_spark.write import CALL, RegionTask, TaskWritten
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("seq", pa.int64(), False)])
STRUCT = StructType([StructField("id", LongType()), StructField("seq", LongType())])
ONE_TASK = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, taskAttemptId=lambda: 0)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with one bucket, and one task everywhere."""
    monkeypatch.setattr(write, "context", lambda: ONE_TASK)
    memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", 1))
    return tmp_path / "t"


def job(path: Path) -> MemWalWriter:
    return MemWalWriter({"path": str(path), "sequenceBy": "seq"}, STRUCT, overwrite=False)


def attempt(path: Path, batch: tuple[str, int] | None = None, first: int = 0) -> TaskWritten:
    options = WriteOptions(place=TableOption(path=str(path)), sequence_by="seq", batch=batch)
    rows = pa.table({"id": [0, 1, 2], "seq": [first, first + 1, first + 2]}, schema=SCHEMA)
    return RegionTask(options).run(iter(rows.to_batches(max_chunksize=2)))


def entries(path: Path) -> int:
    """Objects in the WAL: entries with rows, marks, and the barriers of claims."""
    return sum(1 for file in (path / "_mem_wal").rglob("wal/*") if file.is_file())


@pytest.mark.clause("AMB-148")
def test_a_claim_between_a_task_and_the_commit_fails_the_commit_with_both_epochs(path: Path) -> None:
    one, done = job(path), attempt(path)
    one.commit([done])
    memwal.open(path).writer(done.region_id).close()
    with pytest.raises(PySparkException, match="written under epoch 1, now it is 2") as refused:
        one.commit([done])
    assert isinstance(refused.value.__cause__, AnotherClaim)
    assert refused.value.__cause__.others == ((done.region_id, 1, 2),)


@pytest.mark.clause("AMB-149")
@pytest.mark.parametrize("partition", [0, 3])
def test_a_batch_that_is_replayed_puts_no_entry_and_claims_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, partition: int
) -> None:
    attempt(path, ("app", 7))
    before, manifest = entries(path), memwal.open(path).regions()[0].manifest
    monkeypatch.setattr(ONE_TASK, "partitionId", lambda: partition)
    done = attempt(path, ("app", 7), first=100)
    job(path).commit([done])
    assert (done.skipped, done.rows, done.puts) == (True, 0, 0)
    assert (entries(path), memwal.open(path).regions()[0].manifest) == (before, manifest)


@pytest.mark.clause("AMB-148")
def test_a_batch_that_is_replayed_without_a_mark_puts_no_entry_either(path: Path) -> None:
    attempt(path)
    before = entries(path)
    done = attempt(path)
    assert (done.rows, done.late) == (3, 3)
    assert entries(path) == before + 1, "the barrier of its claim"


@pytest.mark.clause("AMB-149")
def test_an_attempt_that_looked_before_the_other_one_was_finished_looks_again_after_its_claim(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(path, ("app", 7))
    before = entries(path)
    monkeypatch.setattr(memwal.Table, "done", lambda *_: ())
    done = attempt(path, ("app", 7), first=100)
    assert (done.skipped, done.rows) == (True, 0)
    assert entries(path) == before + 1, "the barrier of its claim"


def test_only_a_write_whose_tasks_were_finished_before_counts_as_skipped(path: Path) -> None:
    first, again = (asdict(attempt(path, ("app", 7))) for _ in range(2))
    empty = {**first, "region_id": None, "rows": 0}
    told = {
        "nothing came": Upserted((empty,)),
        "all written": Upserted((first, empty)),
        "in part": Upserted((first, again)),
        "all before": Upserted((again, empty)),
    }
    assert {name: (done.skipped, done.finished_before) for name, done in told.items()} == {
        "nothing came": (False, 0),
        "all written": (False, 0),
        "in part": (False, 1),
        "all before": (True, 1),
    }


@pytest.mark.clause("AMB-149")
def test_a_call_without_a_batch_is_finished_by_its_own_number_only(path: Path) -> None:
    attempt(path, (CALL, 7))
    earlier = attempt(path, (CALL, 5), first=100)
    assert (earlier.skipped, earlier.rows, earlier.late) == (False, 3, 0)
    later = attempt(path, (CALL, 9), first=200)
    assert (later.skipped, later.rows, later.late) == (False, 3, 0)
    before = entries(path)
    assert attempt(path, (CALL, 9), first=200).skipped
    assert entries(path) == before
    (region,) = memwal.open(path).regions()
    assert [mark.batch for mark in memwal.open(path).done(region.region_id)] == [9]


@pytest.mark.parametrize(("said", "wanted"), [("true", True), ("TRUE", True), ("false", False), (None, False)])
def test_spark_says_whether_it_speculates(said: str | None, wanted: bool) -> None:
    conf = {} if said is None else {"spark.speculation": said}
    session = SimpleNamespace(conf=conf)
    assert upserting.speculates(SimpleNamespace(sparkSession=session)) is wanted  # type: ignore[arg-type]


def test_a_call_is_a_batch_of_its_own_only_where_spark_speculates_and_the_caller_names_none() -> None:
    assert upserting.batch_of(None, speculates=False) is None
    assert upserting.batch_of(("app", 3), speculates=True) == ("app", 3)
    calls = {upserting.batch_of(None, speculates=True) for _ in range(100)}
    assert {found and found[0] for found in calls} == {CALL}
    assert len(calls) == 100
    assert all(found is not None and 0 <= found[1] < 2**63 for found in calls)
    with pytest.raises(InvalidArgument, match="is reserved for calls without a batch"):
        upserting.batch_of((CALL, 3), speculates=False)
