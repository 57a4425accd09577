"""Histories of watched keys: what counts as a write, and that a read which goes back is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow as pa
import pytest
from memwal_spark import watching
from memwal_spark.change_log import ChangeLog
from memwal_spark.watching import NOBODYS, KeyReader, WatchedRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("seq", pa.int64(), nullable=False)])
LOG = ChangeLog(name="log", key=("id",), sequence="seq", schema=SCHEMA, rows=6, region_by=("id",))
ROWS = [(7, 10), (8, 20), (7, 30), (9, 40), (7, 50), (8, 60)]


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> WatchedRows:
    """Every key is watched: 7, 8, 9 have the numbers 1, 2, 3."""
    assert watching.watch(LOG, spark.createDataFrame(ROWS, "id bigint, seq bigint"), tmp_path / "watched.parquet") == 6
    (tmp_path / "notes").mkdir()
    return WatchedRows(
        file=str(tmp_path / "watched.parquet"), folder=str(tmp_path / "notes"), key=("id",), sequence="seq"
    )


def batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": key, "seq": seq} for key, seq in rows], schema=SCHEMA)


def lines(rows: WatchedRows) -> list[dict[str, Any]]:
    """What the one attempt that wrote has noted."""
    (file,) = Path(rows.folder).glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_an_attempt_notes_the_last_row_of_each_key_of_a_batch_and_when_it_is_durable(rows: WatchedRows) -> None:
    asked: Iterator[pa.RecordBatch] = rows.noted(iter([batch((7, 10), (8, 20), (7, 30)), batch((7, 31))]))
    assert next(asked).num_rows == 3
    (begun,) = lines(rows)
    assert begun["rows"] == [[1, 2], [2, 1]]
    next(asked)
    durable, unknown = lines(rows)[1:]
    assert durable["durable"] > begun["begun"]
    assert unknown["rows"] == [[1, NOBODYS]]


def test_behind_the_first_watched_rows_a_task_waits_for_a_lookup_that_begins_then(
    rows: WatchedRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = list[int]()

    def sleeping(_: float) -> None:
        waited.append(len(waited))
        rows.looked(7 + len(waited))

    monkeypatch.setattr(watching.time, "sleep", sleeping)
    batches = [batch((7, 10)), batch((5, 10)), batch((8, 20)), batch((9, 40))]
    assert sum(each.num_rows for each in rows.noted(iter(batches))) == 4
    assert waited == [], "there is no reader"
    rows.looked(7)
    assert sum(each.num_rows for each in rows.noted(iter(batches))) == 4
    assert len(waited) == 2, "one lookup was under way, and only the next one counts"
    monkeypatch.setattr(watching, "LOOK_S", 0.0)
    assert sum(each.num_rows for each in rows.noted(iter(batches))) == 4
    assert len(waited) == 2, "a reader that has ended keeps no task from its work"


def test_deleted_keys_are_not_watched(spark: SparkSession, tmp_path: Path) -> None:
    log = replace(LOG, delete="gone")
    events = spark.createDataFrame([(*row, row == (8, 20)) for row in ROWS], "id bigint, seq bigint, gone boolean")
    assert watching.watch(log, events, tmp_path / "watched.parquet") == 4


def note(folder: Path, attempt: str, *notes: dict[str, Any]) -> None:
    folder.joinpath(f"{attempt}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in notes) + '{"cut')


def test_attempts_of_one_row_are_one_write_and_late_rows_are_none(tmp_path: Path) -> None:
    note(tmp_path, "0", {"begun": 10, "rows": [[1, 1]]}, {"durable": 20}, {"begun": 30, "rows": [[1, 2]]})
    note(tmp_path, "1", {"begun": 40, "rows": [[1, 2]]}, {"durable": 50}, {"begun": 60, "rows": [[1, 3], [2, 1]]})
    note(tmp_path, "2", {"begun": 70, "rows": [[1, 1]]}, {"durable": 80}, {"begun": 90, "rows": [[2, 2]]})
    note(tmp_path, "3", {"begun": 95, "rows": [[3, 5]]}, {"durable": 96}, {"begun": 97, "rows": [[3, 4]]})
    writes = [(w["key"], w["value"], w["invoked"], w["returned"]) for w in watching.history(tmp_path, [])]
    assert writes == [
        ("1", 1, 10, 20), ("1", 2, 30, 50), ("1", 3, 60, None), ("2", 1, 60, None), ("2", 2, 90, None),
        ("3", 5, 95, 96),
    ]  # fmt: skip


def test_a_reader_finds_ranks_absences_and_rows_that_nobody_wrote(tmp_path: Path, rows: WatchedRows) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    reader = KeyReader(tmp_path / "t", rows)
    with table.writer() as writer:
        writer.put(pa.table([[7, 8], [30, 21]], schema=SCHEMA), durable=True)
        reader.step()
    assert [(each["key"], each["value"]) for each in reader.found] == [("1", 2), ("2", NOBODYS), ("3", None)]
    assert all(each["invoked"] < each["returned"] for each in reader.found)
    assert Path(rows.folder, "lookups").read_text() == "1"


def test_a_read_that_goes_back_is_an_impossible_history(tmp_path: Path) -> None:
    note(tmp_path, "0", {"begun": 10, "rows": [[1, 1]]}, {"durable": 20}, {"begun": 30, "rows": [[1, 2]]})
    reads = [
        {"key": "1", "kind": "read", "value": value, "invoked": at, "returned": at + 1, "name": f"lookup {at}"}
        for value, at in ((None, 5), (1, 15), (2, 40), (1, 50))
    ]
    possible = watching.check(watching.history(tmp_path, reads[:3]), tmp_path / "history")
    assert (possible.operations, possible.keys, possible.reads, possible.conflicts) == (5, 1, 3, ())
    assert possible.overlapping == 1
    found = watching.check(watching.history(tmp_path, reads), tmp_path / "history")
    (conflict,) = found.conflicts
    assert conflict.startswith("key 1: ")
