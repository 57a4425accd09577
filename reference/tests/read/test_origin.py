"""Rows tell where they come from: region, generation, epoch and WAL position, where somebody asks for them by name."""

from __future__ import annotations

import pickle
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument
from memwal.stores.memory import MemoryStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
ORIGIN = ["_region", "_generation", "_epoch", "_position"]
Told = dict[int, tuple[Any, ...]]


def row(number: int) -> pa.Table:
    return pa.table([[number], [f"v{number}"]], schema=SCHEMA)


def told(rows: pa.Table) -> Told:
    return {values["id"]: tuple(values[name] for name in ORIGIN) for values in rows.to_pylist()}


def scene(revision: str) -> tuple[memwal.Table, memwal.Writer, str]:
    """Key 1 in the base, 2 in generation 2, 3 and 4 in entries of one WAL, 5 in memory: two claims of one region."""
    table = memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, store=MemoryStore())
    with table.writer(background=False) as first:
        first.put(row(1))
        first.flush()
        table.merge()
        first.put(row(2))
        first.flush()
        region = str(first.region_id)
    second = table.writer(region, background=False)
    second.put(row(3))
    second.put(row(4))
    return table, second, region


@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_row_tells_region_generation_epoch_and_position_as_far_as_its_source_knows(revision: str) -> None:
    table, _, region = scene(revision)
    (third,) = (e.position for e in table.log_entries(region, 4, 5) if e.rows.column("id").to_pylist() == [3])
    expected: Told = {
        1: (None, None, None, None),
        2: (region, 2, 1, None),
        3: (region, 3, 2, third),
        4: (region, 3, 2, third + 1),
    }
    assert told(table.scan(columns=["id", *ORIGIN])) == expected
    assert told(table.scan(columns=["id", *ORIGIN], filter="v <> 'v2'")) == {n: expected[n] for n in (1, 3, 4)}
    splits = table.plan_read(["id", *ORIGIN], splits=2)
    parts = [part for split in splits for part in table.batches_of(pickle.loads(pickle.dumps(split)))]
    assert told(pa.concat_tables(parts)) == expected
    assert told(table.get(pa.table({"id": [1, 2, 4]}), ["id", *ORIGIN])) == {n: expected[n] for n in (1, 2, 4)}


def test_rows_that_a_writer_lends_have_its_epoch_and_no_position() -> None:
    table, writer, region = scene("B")
    writer.put(row(5), durable=False)
    found = told(table.scan(columns=["id", *ORIGIN], writers=[writer]))
    assert {number: found[number] for number in (4, 5)} == {4: (region, 3, 2, None), 5: (region, 3, 2, None)}


def test_nobody_gets_the_origin_who_does_not_ask() -> None:
    table, _, _ = scene("B")
    assert table.scan().schema.names == ["id", "v"]
    assert table.scan(columns=["_position"]).schema == pa.schema([("_position", pa.int64())])
    with pytest.raises(InvalidArgument, match=r"there are no columns \['_regions'\]"):
        table.scan(columns=["_regions"])


def test_a_column_of_the_table_keeps_its_name() -> None:
    schema = SCHEMA.append(pa.field("_epoch", pa.string()))
    table = memwal.create("t", schema, primary_key=["id"], store=MemoryStore())
    with table.writer() as writer:
        writer.put(pa.table([[1], ["a"], ["ours"]], schema=schema))
        assert table.scan(columns=["_epoch", "_position"]).to_pylist() == [{"_epoch": "ours", "_position": 1}]


def test_a_search_tells_it_too() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("near", pa.list_(pa.float32(), 2))])
    table = memwal.create("t", schema, primary_key=["id"], store=MemoryStore())
    table.base.append(pa.table([[1], [[0.0, 1.0]]], schema=schema))
    with table.writer() as writer:
        writer.put(pa.table([[2], [[0.0, 2.0]]], schema=schema))
    found = table.search([0.0, 0.0], "near", 2, columns=["id", "_generation"], filter="id < 9")
    assert found.select(["id", "_generation"]).to_pylist() == [
        {"id": 1, "_generation": None}, {"id": 2, "_generation": 1},
    ]  # fmt: skip
