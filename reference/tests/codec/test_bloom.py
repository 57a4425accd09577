"""Bloom filters of generations: no false negatives, in the self-describing format and in revision R's."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.codec import bloom, split_block
from memwal.codec.asked_keys import AskedKeys
from memwal.codec.bloom import AlwaysPositive
from memwal.codec.canonical import by_length
from memwal.codec.siphash import siphash13, siphash13_values
from memwal.errors import ArtifactError, InvalidArgument
from memwal.revisions import REVISIONS, A, B, R, Revision
from pybloom_live import BloomFilter

KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint16": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=12)),
    "large_string": (pa.large_string(), st.text(max_size=12)),
    "binary": (pa.binary(), st.binary(max_size=12)),
    "large_binary": (pa.large_binary(), st.binary(max_size=12)),
    "fixed": (pa.binary(4), st.binary(min_size=4, max_size=4)),
    "date32": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.integers(-(2**60), 2**60)),
    "decimal": (pa.decimal128(20, 2), st.decimals(-(10**15), 10**15, places=2)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), st.text(max_size=12)),
}


@pytest.mark.clause("GEN-010", "PLAN-003", "AMB-47")
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda r: r.name)
@pytest.mark.parametrize("name", KEYS)
@given(data=st.data())
@settings(max_examples=15)
def test_a_written_key_is_never_denied(name: str, revision: Revision, data: st.DataObject) -> None:
    kind, values = KEYS[name]
    keys = pa.table({"k": pa.array(data.draw(st.lists(values, max_size=20)), kind)})
    assert bloom.decode(bloom.encode(keys, revision), revision, "f").might_contain(keys).all()


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda r: r.name)
@given(
    rows=st.lists(
        st.tuples(st.text(max_size=5) | st.none(), st.integers(0, 3) | st.none(), st.binary(max_size=5) | st.none())
    )
)
def test_a_written_composite_key_is_never_denied_even_with_nulls(rows: list[Any], revision: Revision) -> None:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    kinds = (pa.string(), pa.int64(), pa.binary())
    keys = pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names=["a", "b", "c"])
    assert bloom.decode(bloom.encode(keys, revision), revision, "f").might_contain(keys).all()


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda r: r.name)
def test_about_one_absent_key_in_a_hundred_is_let_through(revision: Revision) -> None:
    present = pa.table({"id": np.arange(20_000), "name": pa.array([f"n{i}" for i in range(20_000)])})
    absent = pa.table({"id": np.arange(20_000) + 10**6, "name": present.column("name")})
    found = bloom.decode(bloom.encode(present, revision), revision, "f").might_contain(absent)
    assert 0.001 < found.mean() < 0.016


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda r: r.name)
def test_no_key_of_very_many_is_denied(revision: Revision) -> None:
    keys = pa.table({"id": np.arange(10_000)})
    assert bloom.decode(bloom.encode(keys, revision), revision, "f").might_contain(keys).all()


def test_in_revision_r_half_a_million_keys_fill_the_filter() -> None:
    assert bloom.encode(pa.table({"id": np.arange(500_000)}), R) == b"\xff" * 32_768


@pytest.mark.parametrize("rows", [1, 7, 1_000, 40_000])
def test_the_bits_are_those_that_pybloom_sets(rows: int) -> None:
    numbers = np.arange(rows) * 977
    data = bloom.encode(pa.table({"id": numbers}), B)
    theirs = BloomFilter(rows, 0.01)
    for number in numbers.tolist():
        key = struct.pack("<I", 8) + struct.pack("<q", number)
        theirs.add(key.decode("latin-1"), skip_check=True)
    assert data.endswith(theirs.bitarray.tobytes())
    header = json.loads(data[12 : 12 + struct.unpack_from("<I", data, 8)[0]])
    assert (header["m"], header["k"], header["count"]) == (theirs.num_bits, theirs.num_slices, rows)
    assert len(data) == 12 + struct.unpack_from("<I", data, 8)[0] + 4 + (theirs.num_bits + 7) // 8


def test_a_stored_filter_may_set_more_bits_of_a_key_than_one_digest_has_words() -> None:
    keys = pa.table({"id": [977]})
    written = bloom.encode(keys, B)
    header = json.loads(written[12 : 12 + struct.unpack_from("<I", written, 8)[0]])
    theirs = BloomFilter(1, 2**-33)
    theirs.add((struct.pack("<I", 8) + struct.pack("<q", 977)).decode("latin-1"), skip_check=True)
    assert theirs.num_slices == 33  # a digest has 32 words
    header |= {"hash": "sha512/u16", "m": theirs.num_bits, "k": 33, "error_rate": 2**-33}
    said, bits = json.dumps(header).encode(), theirs.bitarray.tobytes()
    check = struct.pack("<I", zlib.crc32(bits, zlib.crc32(said)))
    found = bloom.decode(written[:8] + struct.pack("<I", len(said)) + said + check + bits, B, "f")
    assert found.might_contain(pa.table({"id": [977, 978]})).tolist() == [True, False]


def test_columns_of_a_key_do_not_run_into_each_other() -> None:
    one = pa.table({"a": ["ab"], "b": ["c"]})
    other = pa.table({"a": ["a"], "b": ["bc"]})
    assert not bloom.decode(bloom.encode(one, B), B, "f").might_contain(other).any()


def test_a_key_is_found_after_its_column_was_promoted() -> None:
    written = bloom.decode(bloom.encode(pa.table({"id": pa.array([5, -6], pa.int16())}), A), A, "f")
    assert written.might_contain(pa.table({"id": pa.array([5, -6, 7], pa.int64())})).tolist() == [True, True, False]


def test_a_key_of_a_nested_type_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="AMB-59"):
        bloom.encode(pa.table({"k": pa.array([[1]])}), B)


@pytest.mark.clause("AMB-47")
@pytest.mark.parametrize("data", [b"", b"MEMWAL", b"another format", bytes(40_000)])
def test_a_file_of_an_unknown_format_answers_perhaps_for_every_key(data: bytes) -> None:
    assert bloom.decode(data, B, "f").might_contain(pa.table({"k": [1, 2]})).tolist() == [True, True]


@pytest.mark.clause("AMB-47")
@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"hash": "md5/u32"}, {"key_encoding": "other"}, {"seed": 1}, {"k": 6}, {"capacity": 2**60},
     {"capacity": "many"}, {"error_rate": 0}, {"new": 1}],
    ids=str,
)  # fmt: skip
def test_an_unknown_parameter_makes_the_filter_answer_perhaps(change: dict[str, Any]) -> None:
    data = bloom.encode(pa.table({"k": np.arange(100)}), B)
    end = 12 + struct.unpack_from("<I", data, 8)[0]
    header = json.dumps(json.loads(data[12:end]) | change).encode()
    packed = data[end + 4 :]
    check = struct.pack("<I", zlib.crc32(header + packed))
    changed = bloom.MAGIC + struct.pack("<I", len(header)) + header + check + packed
    assert isinstance(bloom.decode(changed, B, "f"), AlwaysPositive)


@pytest.mark.parametrize("more", [1, 2**40])
def test_a_header_cannot_make_the_reader_allocate_more_than_the_file_holds(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bloom.encode(pa.table({"k": np.arange(100)}), B)
    end = 12 + struct.unpack_from("<I", data, 8)[0]
    bits = 8 * len(data[end + 4 :])
    header = json.dumps(json.loads(data[12:end]) | {"capacity": bits + more}).encode()
    check = struct.pack("<I", zlib.crc32(header + data[end + 4 :]))

    def refuse(capacity: int, error_rate: float) -> None:
        raise AssertionError(f"asked for a filter of {capacity} keys")

    monkeypatch.setattr(bloom, "BloomFilter", refuse)
    changed = bloom.MAGIC + struct.pack("<I", len(header)) + header + check + data[end + 4 :]
    assert isinstance(bloom.decode(changed, B, "f"), AlwaysPositive)


@pytest.mark.clause("AMB-47")
@given(st.data())
def test_a_cut_file_with_our_magic_is_an_error(data: st.DataObject) -> None:
    whole = bloom.encode(pa.table({"k": np.arange(50)}), B)
    cut = data.draw(st.integers(len(bloom.MAGIC), len(whole) - 1))
    with pytest.raises(ArtifactError, match="AMB-47"):
        bloom.decode(whole[:cut], B, "regions/f")


@pytest.mark.clause("AMB-47")
@given(st.data())
def test_a_flipped_bit_behind_our_magic_is_an_error(data: st.DataObject) -> None:
    whole = bytearray(bloom.encode(pa.table({"k": np.arange(50)}), B))
    at = data.draw(st.integers(len(bloom.MAGIC), len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ArtifactError, match="AMB-47"):
        bloom.decode(bytes(whole), B, "regions/f")


def test_fewer_bits_than_announced_are_an_error_even_with_a_right_checksum() -> None:
    data = bloom.encode(pa.table({"k": np.arange(100)}), B)
    end = 12 + struct.unpack_from("<I", data, 8)[0]
    check = struct.pack("<I", zlib.crc32(data[12:end] + data[end + 4 : -1]))
    with pytest.raises(ArtifactError, match="announced"):
        bloom.decode(data[:end] + check + data[end + 4 : -1], B, "f")


def test_in_revision_r_another_size_answers_perhaps_and_a_broken_block_is_an_error() -> None:
    assert isinstance(bloom.decode(bytes(16_384), R, "f"), AlwaysPositive)
    for size in (0, 32_767):
        with pytest.raises(ArtifactError, match="AMB-47"):
            bloom.decode(bytes(size), R, "f")


def siphash13_by_hand(data: bytes) -> int:
    """Written from the paper's definition, one word at a time, on Python integers."""
    mask = 2**64 - 1
    v = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]

    def rotated(x: int, b: int) -> int:
        return (x << b | x >> (64 - b)) & mask

    def round_() -> None:
        v[0] = (v[0] + v[1]) & mask
        v[2] = (v[2] + v[3]) & mask
        v[1] = rotated(v[1], 13) ^ v[0]
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] = rotated(v[0], 32)
        v[2] = (v[2] + v[1]) & mask
        v[0] = (v[0] + v[3]) & mask
        v[1] = rotated(v[1], 17) ^ v[2]
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] = rotated(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        round_()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        round_()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_siphash_of_many_values_is_that_of_each(values: list[bytes]) -> None:
    found = siphash13_values(pa.array(values, pa.large_binary()))
    assert found.tolist() == [siphash13_by_hand(value) for value in values]


def test_siphash_13_of_nothing_under_key_0_is_the_known_number() -> None:
    # The standard library of Rust: DefaultHasher::new().finish().
    assert siphash13(np.empty((1, 0), np.uint8)).tolist() == [15130871412783076140]


@given(st.lists(st.binary(max_size=3) | st.none(), max_size=20), st.integers(0, 3))
def test_values_are_grouped_by_length_without_loss(values: list[bytes | None], skipped: int) -> None:
    array = pa.array(values, pa.large_binary())[skipped:]
    found = {
        int(p): bytes(row) for group in by_length(array) for p, row in zip(group.positions, group.data, strict=True)
    }
    assert found == {i: v or b"" for i, v in enumerate(values[skipped:])}


# --- the native implementation ---------------------------------------------------------------------------------------

NATIVE: dict[str, tuple[list[tuple[str, pa.DataType]], list[tuple[Any, ...]]]] = {
    "int64": ([("id", pa.int64())], [(1,), (-2,), (2**62,)]),
    "int32": ([("id", pa.int32())], [(1,), (-2,), (2**30,)]),
    "int16, which the native filter does not look into": ([("id", pa.int16())], [(1,), (-2,)]),
    "uint64, which the native filter does not look into": ([("id", pa.uint64())], [(1,), (2**63,)]),
    "bool, which the native filter does not look into": ([("id", pa.bool_())], [(True,)]),
    "large text, which the native filter does not look into": ([("id", pa.large_string())], [("x",), ("yy",)]),
    "text": ([("id", pa.string())], [("",), ("x",), ("naïve",), ("z" * 100,)]),
    "binary": ([("id", pa.binary())], [(b"",), (b"x",), (b"\x00\xff",)]),
    "integers and text": ([("a", pa.int64()), ("b", pa.string())], [(1, "x"), (2, "x"), (-3, "")]),
    "five columns": (
        [("a", pa.string()), ("b", pa.int64()), ("c", pa.binary()), ("d", pa.uint8()), ("e", pa.int32())],
        [("ab", 1, b"xy", 4, -1), ("c", -5, b"", 5, 0), ("", 2**62, b"\0\xff", 6, 9)],
    ),
}  # fmt: skip


def native_table(folder: Path, columns: list[tuple[str, pa.DataType]], rows: list[tuple[Any, ...]]) -> tuple[Any, Any]:
    """A native table whose one shard has ``rows`` as a flushed generation; its dataset and its shard folder."""
    import lance

    key = {b"lance-schema:unenforced-primary-key": b"true"}
    fields = [pa.field(n, k, nullable=False, metadata=key) for n, k in columns]
    schema = pa.schema([*fields, pa.field("v", pa.string())])
    values = [pa.array(c, k) for c, (_, k) in zip(zip(*rows, strict=True), columns, strict=True)]
    table = pa.table([*values, pa.array(["v"] * len(rows))], schema=schema)
    dataset = lance.write_dataset(schema.empty_table(), folder / "t", schema=schema)
    dataset.initialize_mem_wal(unsharded=True)
    shard = UUID("0b8e4d7a-9a3f-4c11-8a57-1d3f5b2c7e90")
    with dataset.mem_wal_writer(str(shard)) as writer:
        writer.put(table)
    return dataset, folder / "t" / "_mem_wal" / str(shard)


@pytest.mark.parametrize("name", NATIVE)
def test_the_native_filter_of_the_same_keys_has_the_same_bytes(name: str, tmp_path: Path) -> None:
    columns, rows = NATIVE[name]
    _, shard = native_table(tmp_path, columns, rows)
    (native,) = shard.glob("*_gen_*/bloom_filter.bin")
    values = [pa.array(c, k) for c, (_, k) in zip(zip(*rows, strict=True), columns, strict=True)]
    keys = pa.table(values, names=[n for n, _ in columns])
    assert bloom.encode(keys, R) == native.read_bytes()
    assert bloom.decode(native.read_bytes(), R, "f").might_contain(keys).all()


def test_a_null_in_a_key_of_revision_r_makes_the_filter_answer_perhaps() -> None:
    data = bloom.encode(pa.table({"k": pa.array([1, None], pa.int64())}), R)
    assert data == b"\xff" * 32_768
    without = bloom.decode(bloom.encode(pa.table({"k": pa.array([1], pa.int64())}), R), R, "f")
    assert without.might_contain(pa.table({"k": pa.array([None, 1, 2], pa.int64())})).tolist() == [True, True, False]


def test_null_and_the_empty_text_are_two_keys_in_a_self_describing_filter() -> None:
    written = bloom.decode(bloom.encode(pa.table({"k": pa.array([""] * 3)}), B), B, "f")
    assert written.might_contain(pa.table({"k": pa.array(["", None])})).tolist() == [True, False]


def test_values_of_every_layout_of_one_text_are_one_key_in_a_self_describing_filter() -> None:
    texts = ["a", "bc", ""]
    written = bloom.decode(bloom.encode(pa.table({"k": pa.array(texts, pa.string_view())}), B), B, "f")
    layouts: list[Callable[[], pa.DataType]] = [
        pa.string,
        pa.large_string,
        lambda: pa.dictionary(pa.int8(), pa.string()),
    ]
    for layout in layouts:
        assert written.might_contain(pa.table({"k": pa.array(texts, layout())})).all()


def test_dates_decimals_and_moments_are_told_apart() -> None:
    keys = pa.table(
        {
            "d": [date(2024, 2, 29)],
            "t": pa.array([datetime(2024, 2, 29, 12)], pa.timestamp("ms")),
            "n": pa.array([Decimal("1.20")], pa.decimal128(9, 2)),
        }
    )
    filter_ = bloom.decode(bloom.encode(keys, B), B, "f")
    assert filter_.might_contain(keys).all()
    for name, value in (("d", date(2024, 3, 1)), ("t", datetime(2024, 2, 29, 13)), ("n", Decimal("1.21"))):
        at = keys.schema.names.index(name)
        changed = keys.set_column(at, name, pa.array([value], keys.schema.field(name).type))
        assert not filter_.might_contain(changed).any()


@pytest.mark.parametrize("revision", [B, R], ids=lambda each: each.name)
def test_keys_are_hashed_once_for_all_filters_that_are_asked_for_them(
    revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = pa.table({"id": range(100)})
    filters = [bloom.decode(bloom.encode(keys.slice(at, 40), revision), revision, "f") for at in (0, 30, 60)]
    told = [each.might_contain(keys) for each in filters]
    hashed = []
    for module, name in ((split_block, "_hashes"), (bloom, "key_rows")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda of, real=real: hashed.append(of.num_rows) or real(of))
    asked = AskedKeys(keys)
    for each, whole in zip(filters, told, strict=True):
        assert each.might_contain(asked).tolist() == whole.tolist()
        some = asked.at(np.arange(99, -1, -3))
        assert each.might_contain(some).tolist() == whole[::-3].tolist()
        assert each.might_contain(some.at(np.array([1, 0]))).tolist() == [whole[96], whole[99]]
    assert hashed == [100]
