"""The streaming source, asked as Spark asks it: nothing is skipped, nothing comes twice, whatever is restarted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument
from memwal_spark.following import ChangeReader, _shares, follow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
Offset = dict[str, Any]
ALL = ReadAllAvailable()


def rows(values: Mapping[int, str]) -> pa.Table:
    return pa.table([list(values), list(values.values())], schema=SCHEMA)


def create(path: Path, revision: str = "B") -> memwal.Table:
    return memwal.create(path / "t", SCHEMA, primary_key=["id"], revision=revision, wal_collection=True)


def put(table: memwal.Table, values: Mapping[int, str], *, merge: bool = False) -> str:
    with table.writer() as writer:
        writer.put(rows(values))
        if merge:
            writer.flush()
    if merge:
        table.merge()
    return str(writer.region_id)


@pytest.fixture(params=["A", "B", "R"])
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Query:
    """A streaming query as Spark runs it: offsets go through JSON, and each batch is read by a reader of its own."""

    def __init__(self, path: Path, **options: str) -> None:
        self.options = {"path": str(path / "t"), "readChangeFeed": "true"} | options
        self.done: Offset | None = None

    def reader(self) -> ChangeReader:
        return ChangeReader(self.options, follow_schema(self.options))

    def plan(self, limit: ReadLimit = ALL) -> tuple[Offset, Offset]:
        start = self.done if self.done is not None else self.reader().initialOffset()
        return start, json.loads(json.dumps(self.reader().latestOffset(start, limit)))

    def rows_of(self, start: Offset, end: Offset) -> list[tuple[Any, ...]]:
        parts = self.reader().partitions(start, end)
        found = [batch for part in parts for batch in self.reader().read(part)]
        return [tuple(row.values()) for batch in found for row in batch.to_pylist()]

    def batch(self, limit: ReadLimit = ALL) -> list[tuple[Any, ...]]:
        """The rows of the next batch: id, v, what happened, region, epoch, position, place in the entry."""
        start, end = self.plan(limit)
        found = self.rows_of(start, end) if start != end else []
        self.done = end
        return found


def test_a_snapshot_comes_first_and_then_each_change_in_order_with_its_place(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, {1: "a", 2: "a"}, merge=True)
    put(table, {1: "b"})
    query = Query(tmp_path)
    nowhere = (None, None, None, None)
    assert sorted(query.batch()) == [(1, "b", "upsert", *nowhere), (2, "a", "upsert", *nowhere)]
    assert query.batch() == []
    region = put(table, {2: "c", 3: "c"}, merge=True)
    assert query.batch() == [(2, "c", "upsert", region, 3, 5, 0), (3, "c", "upsert", region, 3, 5, 1)]


@pytest.mark.parametrize(("start", "expected"), [("snapshot", ["a"]), ("earliest", ["a"]), ("latest", [])])
def test_a_first_batch_that_comes_again_starts_where_it_started_though_rows_came_meanwhile(
    tmp_path: Path, start: str, expected: list[str]
) -> None:
    table = create(tmp_path)
    put(table, {1: "a"})
    query = Query(tmp_path, startingFrom=start)
    _, end = query.plan()
    put(table, {1: "late", 2: "late"})
    assert [row[1] for row in query.rows_of(query.reader().initialOffset(), end)] == expected
    query.done = end
    assert [row[:2] for row in query.batch()] == [(1, "late"), (2, "late")]


def test_a_stream_from_the_earliest_entry_reads_what_was_flushed_and_merged_too(tmp_path: Path, revision: str) -> None:
    table = create(tmp_path, revision)
    put(table, {1: "a"}, merge=True)
    put(table, {1: "b"})
    assert [row[1] for row in Query(tmp_path, startingFrom="earliest").batch()] == ["a", "b"]


def test_a_delete_has_its_key_and_no_other_values(tmp_path: Path) -> None:
    table = create(tmp_path, "R")
    query = Query(tmp_path, startingFrom="earliest")
    assert query.batch() == []
    with table.writer() as writer:
        writer.put(rows({1: "a"}))
        writer.delete(pa.table({"id": pa.array([1], pa.int64())}))
    assert [row[:3] for row in query.batch()] == [(1, "a", "upsert"), (1, None, "delete")]


def test_a_region_that_is_new_is_read_from_its_first_entry(tmp_path: Path) -> None:
    table = create(tmp_path)
    regions = [str(table.register_region()) for _ in range(2)]
    query = Query(tmp_path, startingFrom="latest")
    query.batch()
    for number, region in enumerate(regions):
        with table.writer(region) as writer:
            writer.put(rows({number: "new"}))
        assert [(row[0], row[3]) for row in query.batch()] == [(number, region)]


def test_a_batch_has_no_more_entries_than_the_limit_and_all_come_in_the_end(tmp_path: Path) -> None:
    table = create(tmp_path)
    with table.writer() as writer:
        for number in range(5):
            writer.put(rows({number: "x"}))
    query = Query(tmp_path, startingFrom="earliest", maxEntriesPerTrigger="2")
    limit = query.reader().getDefaultReadLimit()
    assert limit == ReadMaxFiles(2)
    assert [[row[0] for row in query.batch(limit)] for _ in range(4)] == [[0], [1, 2], [3, 4], []]


def test_the_longest_way_to_go_gets_its_share_first_and_the_limit_is_kept() -> None:
    assert _shares({"a": (0, 2), "b": (0, 90), "c": (5, 15)}, 9) == {"b": 3, "c": 8, "a": 2}
    assert _shares({"a": (0, 2), "b": (0, 90), "c": (5, 15)}, 2) == {"b": 1, "c": 6, "a": 0}
    assert _shares({"a": (0, 2), "b": (0, 90)}, None) == {"a": 2, "b": 90}


def test_with_available_now_what_comes_later_is_left_to_the_next_run(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, {1: "a"})
    query = Query(tmp_path, startingFrom="earliest")
    reader = query.reader()
    reader.prepareForTriggerAvailableNow()
    put(table, {1: "b"})
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert [row[1] for row in query.rows_of(reader.initialOffset(), end)] == ["a"]
    assert reader.latestOffset({"regions": end["regions"]}, ALL) == {"regions": end["regions"]}


def test_what_was_collected_unread_is_an_error_or_left_out_if_the_caller_says_so(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, {1: "a"})
    query = Query(tmp_path, startingFrom="earliest")
    query.batch()
    put(table, {2: "b"}, merge=True)
    put(table, {3: "c"})
    table.gc(retain_versions=1)
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_LOG_GONE\] entry 2 of region .* continues at 4\. .*=snapshot"):
        query.batch()
    query.options["failOnDataLoss"] = "false"
    assert [row[1] for row in query.batch()] == ["c"]


def test_a_first_batch_that_comes_again_does_not_start_behind_what_was_collected_meanwhile(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, {1: "a"}, merge=True)
    put(table, {2: "b"})
    query = Query(tmp_path, startingFrom="earliest")
    _, end = query.plan()
    table.gc(retain_versions=1)
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_LOG_GONE\] entry 0 of region"):
        query.rows_of(query.reader().initialOffset(), end)


def test_a_snapshot_that_was_collected_before_it_was_read_is_an_error(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, {1: "a"})
    query = Query(tmp_path)
    planned = query.plan()
    put(table, {1: "b"}, merge=True)
    table.gc(retain_versions=1)
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_CUT_GONE\].*new checkpoint"):
        query.rows_of(*planned)


def test_a_table_that_was_made_anew_is_not_taken_for_the_one_that_was_read(tmp_path: Path) -> None:
    put(create(tmp_path), {1: "a"})
    query = Query(tmp_path)
    query.batch()
    (tmp_path / "t").rename(tmp_path / "old")
    put(create(tmp_path), {1: "a"})
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_OTHER_TABLE\].*no such region.*new checkpoint"):
        query.batch()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readChangeFeed": "false"}, r"\[MEMWAL_NO_CHANGE_FEED\].*readChangeFeed"),
        ({"startingFrom": "now"}, r"\[MEMWAL_OPTION\] option startingFrom must be snapshot, earliest, latest"),
        ({"failOnDataLoss": "no"}, r"\[MEMWAL_OPTION\] option failOnDataLoss must be true or false"),
        ({"version": "1"}, r"\[MEMWAL_UNKNOWN_OPTION\].*'version' for reading a stream; the options are: path"),
    ],
)
def test_a_wrong_option_of_a_stream_says_what_is_possible(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    create(tmp_path)
    with pytest.raises(InvalidArgument, match=message):
        Query(tmp_path, **options).reader()


def test_a_table_whose_columns_have_the_names_of_the_change_feed_is_refused(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_epoch", pa.int64()))
    memwal.create(tmp_path / "t", schema, primary_key=["id"])
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_SCHEMA\] the table has columns \['_epoch'\]"):
        Query(tmp_path).reader()
