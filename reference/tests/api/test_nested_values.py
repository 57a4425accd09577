"""What goes in comes out: values of every type that a table may have, laid out in every way, at every step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ..kit.cells import Cell, array
from ..kit.journey import ID, Rows, found, journey
from ..kit.nested_types import cell, nested
from ..kit.types_page import PAGE, page, types, verdict

admitted = nested.filter(lambda arrow: not verdict(arrow))
"""What the door lets in has to come out; docs/types.md holds that it lets in enough."""


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    types = draw(st.lists(admitted, min_size=1, max_size=5))
    columns = [
        pa.field(f"c{at}", arrow, nullable=pa.types.is_null(arrow) or draw(st.booleans()))
        for at, arrow in enumerate(types)
    ]
    return pa.schema([pa.field(ID, pa.int64(), nullable=False), *columns])


Row = tuple[Cell, ...]


def puts(schema: pa.Schema, random: Random, *, nulls: bool) -> tuple[list[pa.Table], pa.Table, Rows]:
    """Rows with ids of their own, rows of which some replace those, and what has to be read of both."""
    older, newer = (
        [tuple(cell(field, random, nulls=nulls) for field in list(schema)[1:]) for _ in range(count)]
        for count in (random.randrange(7), random.randrange(1, 5))
    )
    first = len(older) - random.randint(0, min(len(older), len(newer)))
    expected = dict(enumerate(older)) | dict(enumerate(newer, start=first))
    cut = random.randint(0, len(older))
    parts = [laid_out(schema, older[:cut], 0, random), laid_out(schema, older[cut:], cut, random)]
    return parts, laid_out(schema, newer, first, random), expected


def laid_out(schema: pa.Schema, rows: Sequence[Row], first: int, random: Random) -> pa.Table:
    """The rows, with ids from ``first`` on, in two chunks, each of them with its own layout."""
    cut = random.randint(0, len(rows))
    chunks = [_chunk(schema, rows[:cut], first, random), _chunk(schema, rows[cut:], first + cut, random)]
    table = pa.concat_tables(chunks)
    assert found(table) == dict(enumerate(rows, start=first))
    return table


def _chunk(schema: pa.Schema, rows: Sequence[Row], first: int, random: Random) -> pa.Table:
    """The rows, sliced at any level, or filtered where pyarrow does that right."""
    ids = pa.array(range(first, first + len(rows)), pa.int64())
    columns = [
        array([row[at] for row in rows], field.type, random.randrange) for at, field in enumerate(list(schema)[1:])
    ]
    table = pa.table([ids, *columns], schema=schema)
    if rows and random.random() < 0.3:
        doubled = pa.concat_tables([table.slice(0, 1), table]).combine_chunks()
        kept = doubled.filter(pa.array([False] + [True] * len(rows)))
        if found(kept) == found(table):
            return kept
    return table


def _comes_out(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    older, newer, expected = puts(schema, Random(data.draw(st.integers(0, 2**32))), nulls=data.draw(st.booleans()))
    revision = data.draw(st.sampled_from("ABR"))
    with TemporaryDirectory() as root:
        for step, rows in journey(Path(root) / "t", schema, revision, older, newer):
            assert found(rows) == expected, step
            assert rows.schema.types == schema.types, step


@pytest.mark.clause("AMB-136", "WRITER-015")
@settings(max_examples=12)
@given(st.data())
def test_every_cell_that_is_put_is_read_at_every_step(data: st.DataObject) -> None:
    _comes_out(data)


@pytest.mark.long
@pytest.mark.clause("AMB-136")
@settings(max_examples=int(os.environ.get("MEMWAL_TYPE_CASES", "1000")))
@given(st.data())
def test_every_cell_that_is_put_is_read_at_every_step_in_many_cases(data: st.DataObject) -> None:
    _comes_out(data)


def test_the_page_of_types_says_what_the_door_says() -> None:
    assert PAGE.read_text() == page()


PARTS = 12
"""Tables on which the types of the page are spread."""


def _page_comes_out(place: Path, part: int, revision: str) -> None:
    carried = [arrow for _, _, arrow in types() if not verdict(arrow)][part::PARTS]
    columns = [pa.field(f"c{at}", arrow) for at, arrow in enumerate(carried)]
    schema = pa.schema([pa.field(ID, pa.int64(), nullable=False), *columns])
    older, newer, expected = puts(schema, Random(part), nulls=True)
    for step, rows in journey(place, schema, revision, older, newer):
        assert found(rows) == expected, step


@pytest.mark.clause("AMB-136")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_type_of_the_page_that_may_come_in_comes_out(part: int, tmp_path: Path) -> None:
    _page_comes_out(tmp_path / "t", part, "ABR"[part % 3])


@pytest.mark.clause("AMB-136")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_fixed_size_lists_of_fixed_size_lists_without_nulls_come_out_of_slices(revision: str, tmp_path: Path) -> None:
    square = pa.list_(pa.list_(pa.int32(), 3), 2)
    columns = [("c0", square), ("c1", pa.list_(square)), ("c2", pa.struct([("a", square)]))]
    schema = pa.schema([pa.field(ID, pa.int64(), nullable=False), *(pa.field(*column) for column in columns)])
    older, newer, expected = puts(schema, Random(3), nulls=False)
    for step, rows in journey(tmp_path / "t", schema, revision, older, newer):
        assert found(rows) == expected, step


@pytest.mark.long
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_every_type_of_the_page_that_may_come_in_comes_out_of_every_revision(revision: str, tmp_path: Path) -> None:
    for part in range(PARTS):
        _page_comes_out(tmp_path / f"t{part}", part, revision)
