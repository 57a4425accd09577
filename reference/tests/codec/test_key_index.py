"""The key index of revision R: bytes as the native writer makes them."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.codec import data_file, key_index

MARK = {"lance-schema:unenforced-primary-key": "true"}


def key(name: str, arrow: pa.DataType) -> pa.Field:
    return pa.field(name, arrow, nullable=False, metadata=MARK)


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        ([key("a", pa.int64())], [[5, -3, 9, 5]]),
        ([key("a", pa.string())], [["b", "", "a\0b", "a"]]),
        (
            [key("a", pa.string()), key("b", pa.binary())],
            [["x\0y", "\0", "", "ab"], [b"\0\0k", b"\0", b"", b"\x01\0\x01"]],
        ),
        ([key("a", pa.int32()), key("b", pa.int64())], [[1, -1, 0, 1], [-(2**63), 2**63 - 1, 0, 7]]),
        ([key("a", pa.int8()), key("b", pa.uint32())], [[-2, 127, 0, -128], [2**31 + 5, 0, 1, 2**32 - 1]]),
        ([key("a", pa.uint64()), key("b", pa.bool_())], [[2**63 + 5, 0, 1, 2**64 - 1], [True, False, True, False]]),
    ],
    ids=["int64", "text", "text and binary", "int32 and int64", "int8 and uint32", "uint64 and bool"],
)
def test_the_key_index_equals_the_native_one(
    tmp_path: Path, fields: list[pa.Field], columns: list[list[object]]
) -> None:
    schema = pa.schema([*fields, pa.field("v", pa.int32())])
    rows = pa.table([*columns, [1, 2, 3, 4]], schema=schema)
    dataset = lance.write_dataset(rows.slice(0, 0), str(tmp_path / "t"))
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.mem_wal_writer(str(uuid.uuid4()), durable_write=True) as writer:
        writer.put(rows)
    (native,) = (tmp_path / "t").glob("_mem_wal/*/*_gen_1/_pk_index")
    ours = key_index.encode(rows.select([f.name for f in fields]))
    for name, data in ours.items():
        expected = data_file.decode((native / Path(name).name).read_bytes(), name)
        found = data_file.decode(data, name)
        assert found.schema.equals(expected.schema)
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([7, -2, 7, 0, -2], pa.int8()),
        pa.array([2**63 - 1, -(2**63), 5, 5], pa.int64()),
        pa.array([2**64 - 1, 0, 2**63], pa.uint64()),
        pa.array([], pa.int32()),
    ],
    ids=["repeated", "far apart", "unsigned", "none"],
)
def test_values_lie_in_order_with_their_offsets_and_equal_ones_in_row_order(values: pa.Array) -> None:
    data = key_index.encode(pa.table({"a": values}))[key_index.PAGE_DATA]
    found = data_file.decode(data, key_index.PAGE_DATA)
    expected = sorted((value, offset) for offset, value in enumerate(values.to_pylist()))
    assert list(zip(found["values"].to_pylist(), found["ids"].to_pylist(), strict=True)) == expected
    assert found["values"].type == values.type


def test_a_composite_key_that_cannot_be_encoded_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.decimal128(10, 2)), ("b", pa.int64())])
    with pytest.raises(memwal.InvalidArgument, match="no known byte order"):
        memwal.create(tmp_path / "t", schema, primary_key=["a", "b"], revision="R")
    assert not (tmp_path / "t").exists()
