"""Revision R's region values beside the native implementation's, over generated columns of every type it takes."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance import mem_wal
from memwal.errors import InvalidArgument
from memwal.ids import FieldId, SpecId
from memwal.index import transforms
from memwal.revisions import R

INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
STAMPS = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")]
TEXTS = [pa.string(), pa.large_string()]
FLOATS = [pa.float32(), pa.float64()]
BUCKETED = [*INTEGERS, pa.bool_(), pa.date32(), *TIMES, *STAMPS, *TEXTS, *FLOATS]
IDENTITY = [*INTEGERS, pa.bool_(), *TEXTS]

LEAST = [2841062569, -4026370631, -2089875627]
"""Keys of the least 32-bit hash: the first two in 8 bytes, the third in 4."""


def numbers_of(kind: pa.DataType) -> st.SearchStrategy[int]:
    """Stored integers of a type, its extremes and the keys of the least hash among them."""
    per_day = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
    if pa.types.is_time(kind):
        return st.integers(0, per_day[kind.unit] - 1)
    bits = kind.bit_width
    low, high = (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    special = [n for n in (*LEAST, low, high, 0, -1, 1) if low <= n <= high]
    return st.sampled_from(special) | st.integers(low, high)


def columns(kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    """Columns of a type with NULLs."""
    if pa.types.is_boolean(kind):
        return st.lists(st.none() | st.booleans(), max_size=12).map(lambda v: pa.array(v, kind))
    if pa.types.is_floating(kind):
        floats = st.floats(width=kind.bit_width) | st.sampled_from([0.0, -0.0])
        return st.lists(st.none() | floats, max_size=12).map(lambda v: pa.array(v, kind))
    if kind in TEXTS:
        texts = st.text(max_size=9) | st.sampled_from(["\x7f", "\x80", "é", "日本", "a" * 64])
        return st.lists(st.none() | texts, max_size=12).map(lambda v: pa.array(v, kind))
    stored = pa.int32() if kind.bit_width == 32 else pa.int64()
    if pa.types.is_integer(kind):
        stored = kind
    return st.lists(st.none() | numbers_of(kind), max_size=12).map(lambda v: pa.array(v, stored).cast(kind))


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[pa.DataType, Any]:
    """A native schema with a column ``k`` of each type."""
    place = tmp_path_factory.mktemp("native")
    made = {}
    for number, kind in enumerate(BUCKETED):
        made[kind] = lance.write_dataset(pa.table({"k": pa.array([], kind)}), str(place / str(number))).lance_schema
    return made


def native(schema: Any, column: pa.Array, transform: str, kind: str, parameters: dict[str, str]) -> list[Any]:
    field = mem_wal.ShardingField("f", [0], transform, None, kind, parameters)
    batch = pa.record_batch({"k": column})
    found: list[Any] = (
        mem_wal.evaluate_sharding_spec(batch, mem_wal.ShardingSpec(1, [field]), schema).column(0).to_pylist()
    )
    return found


def ours(column: pa.Array, request: transforms.SpecRequest) -> list[Any]:
    rows = pa.table({"k": column})
    spec = transforms.resolve(request, SpecId(1), rows.schema, {"k": FieldId(0)}, R)
    transforms.check_spec(spec, rows.schema, {FieldId(0): "k"}, (), R)
    found: list[Any] = transforms.evaluate(spec, rows, {FieldId(0): "k"}, revision=R).column(0).to_pylist()
    return found


@pytest.mark.clause("AMB-59")
@pytest.mark.parametrize("kind", BUCKETED, ids=str)
@given(data=st.data(), count=st.sampled_from([1, 2, 7, 8, 1000, 1024]))
@settings(max_examples=15)
def test_buckets_are_those_of_the_native_implementation(
    schemas: dict[pa.DataType, Any], kind: pa.DataType, data: st.DataObject, count: int
) -> None:
    column = data.draw(columns(kind))
    expected = native(schemas[kind], column, "bucket", "int32", {"num_buckets": str(count)})
    assert ours(column, transforms.bucket("f", "k", count)) == expected


@pytest.mark.clause("AMB-59")
@pytest.mark.parametrize("kind", IDENTITY, ids=str)
@given(data=st.data())
@settings(max_examples=10)
def test_identity_is_that_of_the_native_implementation(
    schemas: dict[pa.DataType, Any], kind: pa.DataType, data: st.DataObject
) -> None:
    column = data.draw(columns(kind))
    name = (
        transforms.resolve(transforms.identity("f", "k"), SpecId(1), pa.schema([("k", kind)]), {"k": FieldId(0)}, R)
        .fields[0]
        .result_type
    )
    assert ours(column, transforms.identity("f", "k")) == native(schemas[kind], column, "identity", name, {})


LENGTHS = ["", "a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"]
HIGH = ["é", "ié", "abé", "日", "a日", "日é", "日日", "ÿÿÿÿ"]


@pytest.mark.clause("AMB-59")
@pytest.mark.parametrize("text", LENGTHS + HIGH)
def test_text_of_every_length_modulo_4_and_with_high_bytes_goes_to_the_native_bucket(
    schemas: dict[pa.DataType, Any], text: str
) -> None:
    column = pa.array([text])
    expected = native(schemas[pa.string()], column, "bucket", "int32", {"num_buckets": "1024"})
    assert ours(column, transforms.bucket("f", "k", 1024)) == expected


@pytest.mark.clause("AMB-58")
@pytest.mark.parametrize(("number", "kind"), [(LEAST[0], pa.int64()), (LEAST[1], pa.int64()), (LEAST[2], pa.int32())])
def test_the_keys_of_the_least_hash_go_to_bucket_0_in_both(
    schemas: dict[pa.DataType, Any], number: int, kind: pa.DataType
) -> None:
    column = pa.array([number], kind)
    for count in (7, 1024):
        assert native(schemas[kind], column, "bucket", "int32", {"num_buckets": str(count)}) == [0]
        assert ours(column, transforms.bucket("f", "k", count)) == [0]


VALUE = {
    column.type: column
    for column in (
        pa.array([b"abcd"], pa.binary()),
        pa.array([b"abcd"], pa.large_binary()),
        pa.array([b"abcd"], pa.binary(4)),
        pa.array([Decimal("1.20")], pa.decimal128(9, 2)),
        pa.array([86_400_000], pa.int64()).cast(pa.date64()),
        pa.array([1], pa.duration("s")),
    )
}


@pytest.mark.parametrize("kind", VALUE, ids=str)
def test_what_the_native_implementation_does_not_hash_is_refused_here_too(kind: pa.DataType, tmp_path: Path) -> None:
    column = VALUE[kind]
    schema = lance.write_dataset(pa.table({"k": column}), str(tmp_path / "t")).lance_schema
    with pytest.raises((OSError, ValueError, NotImplementedError)):
        native(schema, column, "bucket", "int32", {"num_buckets": "8"})
    with pytest.raises(InvalidArgument, match="AMB-59"):
        ours(column, transforms.bucket("f", "k", 8))
