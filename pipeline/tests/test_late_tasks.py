"""Attempts of Spark tasks that come late, without Spark: a task is what runs a writer over batches of rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import memwal
import pyarrow as pa
import pytest
from memwal_spark import write
from memwal_spark.source import AnotherClaim, MemWalWriter
from memwal_spark.write import TaskWritten
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


def job(path: Path, **options: str) -> MemWalWriter:
    return MemWalWriter({"path": str(path), "sequenceBy": "seq", **options}, STRUCT, overwrite=False)


def attempt(job: MemWalWriter, first: int = 0) -> TaskWritten:
    rows = pa.table({"id": [0, 1, 2], "seq": [first, first + 1, first + 2]}, schema=SCHEMA)
    done = job.write(iter(rows.to_batches(max_chunksize=2)))
    assert isinstance(done, TaskWritten)
    return done


def entries(path: Path) -> int:
    """Objects in the WAL: entries with rows, marks, and the barriers of claims."""
    return sum(1 for file in (path / "_mem_wal").rglob("wal/*") if file.is_file())


@pytest.mark.clause("AMB-148")
def test_a_claim_between_a_task_and_the_commit_fails_the_commit_with_both_epochs(path: Path) -> None:
    one = job(path)
    done = attempt(one)
    one.commit([done])
    memwal.open(path).writer(done.region_id).close()
    with pytest.raises(PySparkException, match="written under epoch 1, now it is 2") as refused:
        one.commit([done])
    assert isinstance(refused.value.__cause__, AnotherClaim)
    assert refused.value.__cause__.others == ((done.region_id, 1, 2),)


@pytest.mark.clause("AMB-149")
def test_a_batch_that_is_replayed_puts_no_entry_and_claims_nothing(path: Path) -> None:
    batch = {"txnAppId": "app", "txnVersion": "7"}
    attempt(job(path, **batch))
    before, manifest = entries(path), memwal.open(path).regions()[0].manifest
    again = job(path, **batch)
    done = attempt(again, first=100)
    again.commit([done])
    assert (done.skipped, done.rows, done.puts) == (True, 0, 0)
    assert (entries(path), memwal.open(path).regions()[0].manifest) == (before, manifest)


@pytest.mark.clause("AMB-148")
def test_a_batch_that_is_replayed_without_a_mark_puts_no_entry_either(path: Path) -> None:
    attempt(job(path))
    before = entries(path)
    done = attempt(job(path))
    assert (done.rows, done.late) == (3, 3)
    assert entries(path) == before + 1, "the barrier of its claim"


@pytest.mark.clause("AMB-149")
def test_an_attempt_that_looked_before_the_other_one_was_finished_looks_again_after_its_claim(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = {"txnAppId": "app", "txnVersion": "7"}
    attempt(job(path, **batch))
    before = entries(path)
    monkeypatch.setattr(memwal.Table, "done", lambda *_: ())
    done = attempt(job(path, **batch), first=100)
    assert (done.skipped, done.rows) == (True, 0)
    assert entries(path) == before + 1, "the barrier of its claim"
