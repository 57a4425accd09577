"""What a table with many columns costs, counted in calls: as much for each column, however many there are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import memwal
import pyarrow as pa
import pytest

from ..kit.ground import Ground

ID = pa.field("id", pa.int64(), nullable=False)


def flat(width: int) -> pa.Schema:
    return pa.schema([ID, *[pa.field(f"c{number}", pa.int64()) for number in range(width)]])


def nested(width: int) -> pa.Schema:
    return pa.schema([ID, pa.field("s", pa.struct([(f"c{number}", pa.int64()) for number in range(width)]))])


def two_rows(schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array([1, 2]), *[pa.nulls(2, field.type) for field in list(schema)[1:]]], schema=schema)


def calls(step: Callable[[], object]) -> int:
    """Calls of functions, ours and native ones, that ``step`` makes in this thread."""
    counted = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(None)
    return counted


def costs(schema: pa.Schema) -> dict[str, int]:
    table = memwal.create("t", two_rows(schema), primary_key=["id"], store=Ground())
    writer = table.writer(background=False)
    found = {"put": calls(lambda: writer.put(two_rows(schema)))}
    found["scan of the WAL"] = calls(table.scan)
    found["flush"] = calls(writer.flush)
    found["scan of a generation"] = calls(table.scan)
    found["merge"] = calls(table.merge)
    found["scan of the base"] = calls(table.scan)
    found["catch-up"] = calls(table.catch_up)
    return found


@pytest.mark.parametrize("shape", [flat, nested])
def test_four_times_the_columns_take_at_most_four_times_the_calls(shape: Callable[[int], pa.Schema]) -> None:
    costs(shape(2))  # what is loaded on first use counts for nobody

    narrow, wide = costs(shape(50)), costs(shape(200))

    assert {step: (narrow[step], n) for step, n in wide.items() if n > 4.2 * narrow[step]} == {}
