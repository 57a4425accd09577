"""Hypothesis strategies for Arrow tables over the types that Lance tables hold."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
from hypothesis import strategies as st

_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def _of(arrow: pa.DataType) -> st.SearchStrategy[object]:
    """Python values, NULL included, that an array of type ``arrow`` can be made of."""
    return st.none() | _not_null(arrow)


def _not_null(arrow: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_integer(arrow):
        bits = arrow.bit_width
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(arrow) else (0, 2**bits - 1)
        return st.integers(low, high)
    if pa.types.is_floating(arrow):
        return st.floats(width=arrow.bit_width, allow_nan=False)
    if pa.types.is_boolean(arrow):
        return st.booleans()
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    if pa.types.is_fixed_size_binary(arrow):
        return st.binary(min_size=arrow.byte_width, max_size=arrow.byte_width)
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
        return st.binary(max_size=12)
    if pa.types.is_decimal(arrow):
        digits = 10**arrow.precision - 1
        return st.integers(-digits, digits).map(lambda unscaled: _decimal(unscaled, arrow.scale))
    if pa.types.is_timestamp(arrow):
        return st.integers(-(2**40), 2**40).map(lambda n: pa.scalar(n, pa.int64()).cast(arrow).as_py())
    if pa.types.is_date32(arrow):
        return st.dates()
    if pa.types.is_time64(arrow):
        return st.integers(0, 86_399_999_999).map(lambda n: pa.scalar(n, pa.int64()).cast(arrow).as_py())
    if pa.types.is_duration(arrow):
        return st.integers(-(2**40), 2**40).map(lambda n: timedelta(microseconds=n))
    if pa.types.is_struct(arrow):
        return st.fixed_dictionaries({f.name: _of(f.type) for f in arrow})
    if pa.types.is_fixed_size_list(arrow):
        return st.lists(_not_null(arrow.value_type), min_size=arrow.list_size, max_size=arrow.list_size)
    return st.lists(_of(arrow.value_type), max_size=3)


def _decimal(unscaled: int, scale: int) -> object:
    from decimal import Context, Decimal

    return Decimal(unscaled).scaleb(-scale, Context(prec=80))


_FLAT = st.sampled_from(
    [
        *_INTEGERS,
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.binary(5),
        pa.timestamp("us"),
        pa.timestamp("ms", "UTC"),
        pa.date32(),
        pa.time64("us"),
        pa.duration("us"),
        pa.decimal128(10, 2),
        pa.decimal128(38, 9),
        pa.decimal256(50, 5),
    ]
)
_TYPES = st.recursive(
    _FLAT,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        st.lists(inner, min_size=1, max_size=3).map(lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)])),
    ),
    max_leaves=3,
) | st.sampled_from([pa.list_(pa.float32(), 3), pa.list_(pa.int8(), 2), pa.list_(pa.float64(), 1)])


@st.composite
def tables(draw: st.DrawFn, schema: pa.Schema | None = None) -> pa.Table:
    """A table of up to three columns and twelve rows, empty ones included; of ``schema`` if one is given."""
    if schema is None:
        types = draw(st.lists(_TYPES, min_size=1, max_size=3))
        schema = pa.schema([pa.field(f"c{i}", t) for i, t in enumerate(types)])
    rows = draw(st.integers(0, 12))
    columns = [draw(st.lists(_of(f.type), min_size=rows, max_size=rows)) for f in schema]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
