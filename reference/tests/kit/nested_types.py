"""Nested Arrow types as Hypothesis strategies, and cells of a type with NULLs wherever they may be."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from .cells import Cell, item_type, stored_as

LEAVES: tuple[pa.DataType, ...] = (
    pa.null(), pa.bool_(),
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(),
    pa.decimal128(1, 0), pa.decimal128(10, -2), pa.decimal128(38, 9), pa.decimal256(50, 5), pa.decimal256(76, 76),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Zurich")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
    pa.binary(0), pa.binary(1), pa.binary(16),
)  # fmt: skip

_DAY = 86_400
_TIMES = {"s": _DAY, "ms": _DAY * 10**3, "us": _DAY * 10**6, "ns": _DAY * 10**9}


def _field(name: str, inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    def named(arrow: pa.DataType, strict: bool) -> pa.Field:
        return pa.field(name, arrow, nullable=not strict or pa.types.is_null(arrow))

    return st.builds(named, inner, st.booleans())


def around(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    """Types one level deeper than ``inner``."""
    return st.one_of(
        _field("item", inner).map(pa.list_),
        _field("element", inner).map(pa.large_list),
        st.builds(pa.list_, inner, st.integers(0, 3)),
        st.integers(0, 3).flatmap(lambda n: st.tuples(*(_field(f"f{i}", inner) for i in range(n)))).map(pa.struct),
    )


leaves = st.sampled_from(LEAVES)
nested = leaves | around(leaves) | around(leaves | around(leaves)) | around(around(around(leaves)))


def cell(field: pa.Field, random: Random, *, nulls: bool) -> Cell:
    """A cell of a column or of a child; ``nulls``: a NULL now and then, wherever there may be one."""
    if pa.types.is_null(field.type) or (nulls and field.nullable and random.random() < 0.3):
        return None
    arrow = field.type
    if pa.types.is_struct(arrow):
        return tuple(cell(below, random, nulls=nulls) for below in arrow)
    if item_type(arrow) is not None:
        size = arrow.list_size if pa.types.is_fixed_size_list(arrow) else random.randrange(4)
        return [cell(arrow.value_field, random, nulls=nulls) for _ in range(size)]
    return _leaf(arrow, random)


def _leaf(arrow: pa.DataType, random: Random) -> Cell:
    if pa.types.is_boolean(arrow):
        return random.random() < 0.5
    if pa.types.is_floating(arrow):
        number = random.choice([0.0, -0.0, math.inf, -math.inf, math.nan, random.uniform(-60_000, 60_000)])
        return repr(float(pa.scalar(number, arrow).as_py()))
    if pa.types.is_time(arrow):
        return random.randrange(_TIMES[arrow.unit])
    if pa.types.is_date64(arrow):
        return random.randrange(-(10**6), 10**6) * _DAY * 1000
    if pa.types.is_decimal(arrow):
        return _number(1 - 10**arrow.precision, 10**arrow.precision - 1, random)
    if pa.types.is_integer(arrow) or stored_as(arrow) is not None:
        limits: Any = np.iinfo((stored_as(arrow) or arrow).to_pandas_dtype())
        return _number(int(limits.min), int(limits.max), random)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return "".join(random.choices("aZ \0\n\u00e9\u4e16\U0001f600", k=random.randrange(9)))
    fixed = pa.types.is_fixed_size_binary(arrow)
    return random.randbytes(arrow.byte_width if fixed else random.randrange(9))


def _number(low: int, high: int, random: Random) -> int:
    return random.choice([low, high, 0, max(low, -1), random.randint(low, high)])
