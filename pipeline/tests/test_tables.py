"""Regions, generations, WAL entries and marks as tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument
from memwal_spark import tables
from memwal_spark.options import for_reading
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


def rows(numbers: list[int]) -> pa.Table:
    return pa.table([numbers, [f"v{number}" for number in numbers]], schema=SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two manual regions: one merged, flushed and written, with a mark; one that nobody has claimed."""
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="R")
    first, _ = table.register_region(), table.register_region()
    with table.writer(first, background=False) as writer:
        writer.put(rows([1]))
        writer.flush()
        table.merge(first)
        writer.put(rows([2, 3]))
        writer.flush()
        writer.put(rows([4, 5, 6]))
        writer.finish("job", 7, 2)
    return tmp_path / "t"


def listed(path: Path, name: str) -> dict[bool, list[dict[str, Any]]]:
    """The rows of each region without its id, by whether somebody has claimed it."""
    table = memwal.open(path)
    found = {each.claimed: tables.rows(name, table, each, str(path), {}) for each in tables.regions(table)}
    return {claimed: got.drop_columns(["region"]).to_pylist() for claimed, got in found.items()}


def test_a_region_is_a_row_and_one_that_nobody_claimed_has_nothing_but_its_spec(path: Path) -> None:
    found = listed(path, "regions")
    known = {"spec_id": 0, "values": [], "generation_merged": 1}
    claimed = {
        "manifest_version": 3, "epoch": 1, "generation_current": 3, "generations": 2, "position_replay_after": 2,
        "wal_first": 1, "wal_last": 4, "wal_unflushed": 2, "sealed": False, "damage": None,
    }  # fmt: skip
    assert found == {True: [known | claimed], False: [known | dict.fromkeys(claimed) | {"generation_merged": 0}]}


def test_a_generation_is_a_row_with_what_its_table_holds(path: Path) -> None:
    found = listed(path, "generations")
    told = [(row["generation"], row["merged"], row["rows"], row["fragments"], row["damage"]) for row in found[True]]
    assert sorted(told) == [(1, True, 1, 1, None), (2, False, 2, 1, None)]
    assert found[False] == []


def test_a_wal_entry_is_a_row_and_a_damaged_one_says_why(path: Path) -> None:
    told = [(row["position"], row["epoch"], row["rows"], row["damage"]) for row in listed(path, "wal")[True]]
    assert told == [(1, 1, 1, None), (2, 1, 2, None), (3, 1, 3, None), (4, 1, 0, None)]
    (file,) = (each for each in (path / "_mem_wal").rglob("wal/*") if int(each.stem[::-1], 2) == 3)
    file.write_bytes(b"damaged")
    third = listed(path, "wal")[True][2]
    assert (third["position"], third["rows"]) == (3, None)
    assert third["damage"].startswith("_mem_wal/")


def test_a_mark_is_a_row(path: Path) -> None:
    assert listed(path, "marks") == {True: [{"application": "job", "batch": 7, "partitions": [2]}], False: []}


def test_spark_reads_what_a_table_consists_of(spark: SparkSession, path: Path) -> None:
    def read(**options: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.read.format("memwal").options(**options).load(str(path)).collect()]

    assert sorted(read(table="wal", columns="position,rows")) == [(1, 1), (2, 2), (3, 3), (4, 0)]
    spec_and_values = read(table="regions", columns="spec_id,values", numPartitions="1")
    assert spec_and_values == [(0, {}), (0, {})]
    with pytest.raises(AnalysisException, match=r"no columns \['id'\]; it has \['region', 'application', "):
        read(table="marks", columns="id")


def test_an_unknown_table_is_refused_with_the_names_of_those_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match="option table must be regions, generations, wal, marks, not 'region'"):
        for_reading({"path": "t", "table": "region"})
    with pytest.raises(InvalidArgument, match="option table shows the current state: leave out version"):
        for_reading({"path": "t", "table": "wal", "version": "3"})
