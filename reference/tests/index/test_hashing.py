"""Murmur3 of columns and buckets, in both profiles."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.errors import InvalidArgument
from memwal.index.hashing import PROFILES, bucket, murmur3, murmur3_multi

INT64 = st.integers(-(2**63), 2**63 - 1)


def eight(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


@pytest.mark.clause("REGION-035")
@given(st.lists(INT64, min_size=1, max_size=20))
def test_an_integer_hashes_as_mmh3_hashes_its_eight_little_endian_bytes(numbers: list[int]) -> None:
    assert murmur3(pa.array(numbers, pa.int64())).to_pylist() == [mmh3.hash(eight(n)) for n in numbers]


@pytest.mark.clause("REGION-035")
@given(st.lists(st.text(max_size=9) | st.none(), max_size=20))
def test_text_hashes_as_mmh3_hashes_its_utf8_bytes_and_null_as_null(texts: list[str | None]) -> None:
    texts = [*texts, "x" * 255, "x" * 257, "é" * 200, ""]  # long ones are hashed in another way
    expected = [None if t is None else mmh3.hash(t.encode()) for t in texts]
    for layout in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        assert murmur3(pa.array(texts, layout)).to_pylist() == expected


@pytest.mark.clause("REGION-035")
def test_published_values_of_murmur3_come_out() -> None:
    # From the C++ reference: seed 0, "" -> 0, "test" -> 0xba6bd213, "Hello, world!" -> 0xc0363e43.
    values = murmur3(pa.array([b"", b"test", b"Hello, world!"], pa.binary())).to_pylist()
    assert [v & 0xFFFFFFFF for v in values] == [0, 0xBA6BD213, 0xC0363E43]


@pytest.mark.clause("REGION-021", "AMB-59")
@given(st.integers(-128, 127))
def test_a_value_keeps_its_hash_when_its_column_is_promoted(number: int) -> None:
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    if number >= 0:
        kinds += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    found = {murmur3(pa.array([number], kind))[0].as_py() for kind in kinds}
    assert found == {mmh3.hash(eight(number))}


@pytest.mark.clause("AMB-59")
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, False]), [eight(1), eight(0)]),
        (pa.array([2**64 - 1], pa.uint64()), [b"\xff" * 8]),
        (pa.array([date(1970, 1, 3)], pa.date32()), [eight(2)]),
        (pa.array([time(0, 0, 1)], pa.time32("ms")), [eight(1000)]),
        (pa.array([time(0, 0, 1)], pa.time64("us")), [eight(1_000_000)]),
        (pa.array([7], pa.timestamp("s")), [eight(7_000_000)]),
        (pa.array([7], pa.timestamp("ms", "Asia/Tokyo")), [eight(7_000)]),
        (pa.array([-1], pa.timestamp("ns")), [eight(-1)]),
        (pa.array([1.5, -0.0, 0.0], pa.float32()), [struct.pack("<d", v) for v in (1.5, 0.0, 0.0)]),
        (pa.array([0.5], pa.float16()), [struct.pack("<d", 0.5)]),
        (pa.array([Decimal("1.27"), Decimal("1.28"), Decimal("-1.28"), Decimal(0)], pa.decimal128(9, 2)),
         [b"\x7f", b"\x00\x80", b"\x80", b"\x00"]),
        (pa.array([Decimal(-(10**50))], pa.decimal256(60, 0)), [(-(10**50)).to_bytes(21, "big", signed=True)]),
        (pa.array([b"abc"], pa.binary(3)), [b"abc"]),
        (pa.array([b"\xff\x00"], pa.binary()), [b"\xff\x00"]),
    ],
    ids=str,
)  # fmt: skip
def test_the_textbook_profile_hashes_the_documented_bytes(column: pa.Array, expected: list[bytes]) -> None:
    assert murmur3(column).to_pylist() == [mmh3.hash(data) for data in expected]


def test_all_nan_have_one_hash() -> None:
    patterns = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000123], np.uint64).view(np.float64)
    assert len(set(murmur3(pa.array(patterns)).to_pylist())) == 1
    narrow = np.array([0x7FC00000, 0x7F800001, 0xFFC00123], np.uint32).view(np.float32)
    assert set(murmur3(pa.array(narrow)).to_pylist()) == set(murmur3(pa.array(patterns)).to_pylist())
    assert len(set(murmur3(pa.array(patterns), "R").to_pylist())) == 3  # a float's own bytes


@pytest.mark.clause("REGION-038", "AMB-58")
@pytest.mark.parametrize("number", [2841062569, -4026370631])
def test_the_least_hash_has_a_bucket_in_range(number: int) -> None:
    hashes = murmur3(pa.array([number], pa.int64()))
    assert hashes.to_pylist() == [-(2**31)]
    assert bucket(hashes, 10).to_pylist() == [8]  # 2147483648 % 10
    assert bucket(hashes, 2**31 - 1).to_pylist() == [1]
    assert bucket(hashes, 10, "R").to_pylist() == [0]  # the sign bit masked off


def test_a_four_byte_value_of_profile_r_reaches_the_least_hash_too() -> None:
    assert murmur3(pa.array([-2089875627], pa.int32()), "R").to_pylist() == [-(2**31)]


@pytest.mark.clause("REGION-031", "REGION-036", "AMB-57")
def test_the_bucket_of_null_is_null_in_the_textbook_profile_and_zero_in_profile_r() -> None:
    hashes = pa.array([-7, None, 5], pa.int32())
    assert bucket(hashes, 4).to_pylist() == [3, None, 1]
    assert bucket(hashes, 4, "R").to_pylist() == [1, 0, 1]  # -7 & 0x7fffffff == 2147483641


@pytest.mark.clause("REGION-036")
@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint64(), pa.bool_(), pa.float32(), pa.string(), pa.binary(), pa.decimal128(5, 1), pa.date32(),
     pa.timestamp("us", "UTC"), pa.time64("ns"), pa.binary(4), pa.null()],
    ids=str,
)  # fmt: skip
def test_the_hash_of_null_is_null_for_every_type(kind: pa.DataType) -> None:
    assert murmur3(pa.nulls(2, kind)).to_pylist() == [None, None]


@pytest.mark.clause("AMB-61")
@pytest.mark.parametrize(("number", "profile"), [(0, "textbook"), (2**31, "textbook"), (0, "R"), (1025, "R")])
def test_a_number_of_buckets_out_of_range_is_refused(number: int, profile: Any) -> None:
    with pytest.raises(InvalidArgument, match="AMB-61"):
        bucket(pa.array([1], pa.int32()), number, profile)


@pytest.mark.clause("REGION-038")
@given(st.lists(INT64, min_size=1, max_size=20), st.integers(1, 2**31 - 1))
def test_buckets_are_in_range(numbers: list[int], count: int) -> None:
    assert all(0 <= b < count for b in bucket(murmur3(pa.array(numbers, pa.int64())), count).to_pylist())


@pytest.mark.clause("REGION-032", "REGION-037", "AMB-60")
@given(st.lists(st.tuples(INT64 | st.none(), st.text(max_size=6) | st.none(), st.booleans() | st.none()), max_size=12))
def test_the_hash_of_each_column_is_the_seed_of_the_next_and_null_is_skipped(rows: list[tuple[Any, ...]]) -> None:
    expected = []
    for row in rows:
        encoded = [v.encode() if isinstance(v, str) else eight(int(v)) for v in row if v is not None]
        seed = 0
        for data in encoded:
            seed = mmh3.hash(data, seed & 0xFFFFFFFF)
        expected.append(seed if encoded else None)
    columns = [pa.array([row[i] for row in rows], k) for i, k in enumerate((pa.int64(), pa.string(), pa.bool_()))]
    assert murmur3_multi(columns).to_pylist() == expected


@pytest.mark.clause("REGION-032")
def test_no_columns_have_no_hash() -> None:
    with pytest.raises(InvalidArgument, match=r"at least one column.*REGION-032"):
        murmur3_multi([])


def test_the_order_of_columns_matters_and_one_column_is_the_single_hash() -> None:
    a, b = pa.array([1]), pa.array(["x"])
    assert murmur3_multi([a, b]) != murmur3_multi([b, a])
    assert murmur3_multi([a]) == murmur3(a)


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.duration("s")], ids=str)
def test_a_type_without_defined_bytes_is_refused(kind: pa.DataType) -> None:
    for profile in PROFILES:
        with pytest.raises(InvalidArgument, match="AMB-59"):
            murmur3(pa.nulls(1, kind), profile)


def test_a_chunked_and_sliced_column_hashes_as_its_values_do() -> None:
    column = pa.chunked_array([pa.array([0, 1, 2, None])[1:], pa.array([], pa.int64()), pa.array([5, 6])[1:]])
    assert murmur3(column) == murmur3(pa.array([1, 2, None, 6]))
    texts = pa.chunked_array([pa.array(["x", "ab", None])[1:], pa.array(["abcde", "z"])[:1]])
    for profile in PROFILES:
        assert murmur3(texts, profile) == murmur3(pa.array(["ab", None, "abcde"]), profile)


def test_a_sliced_column_of_decimals_hashes_as_its_values_do() -> None:
    amounts = [Decimal("1.27"), None, Decimal("-1.28"), Decimal("3.00")]
    column = pa.array(amounts, pa.decimal128(9, 2))
    assert murmur3(column[2:]).to_pylist() == murmur3(column).to_pylist()[2:]
    assert murmur3(column[1:3]).to_pylist() == [None, mmh3.hash(b"\x80")]


def spark_like(data: bytes, seed: int = 0) -> int:
    """Written from the description of the variant, one byte at a time."""

    def rotated(x: int, bits: int) -> int:
        return (x << bits | x >> (32 - bits)) & 0xFFFFFFFF

    whole = len(data) - len(data) % 4
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, whole, 4)]
    words += [b - 256 if b > 127 else b for b in data[whole:]]
    h = seed & 0xFFFFFFFF
    for word in words:
        k = rotated((word & 0xFFFFFFFF) * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        h = (rotated(h ^ k, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & 0xFFFFFFFF
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


@given(st.lists(st.text(max_size=13) | st.none(), max_size=20))
def test_profile_r_mixes_each_tail_byte_of_text_as_a_word_of_its_own(texts: list[str | None]) -> None:
    expected = [None if t is None else spark_like(t.encode()) for t in texts]
    assert murmur3(pa.array(texts, pa.string()), "R").to_pylist() == expected


def test_profile_r_chains_seeds_too() -> None:
    numbers, texts = [1, 2, None], ["naïve", "z", "a"]
    hashed = murmur3_multi([pa.array(numbers, pa.int32()), pa.array(texts)], "R").to_pylist()
    seeds = [0 if n is None else mmh3.hash(n.to_bytes(4, "little")) for n in numbers]
    assert hashed == [spark_like(t.encode(), seed) for t, seed in zip(texts, seeds, strict=True)]


def test_the_variant_equals_the_textbook_function_only_for_whole_words() -> None:
    assert murmur3(pa.array(["abcdefgh"]), "R").to_pylist() == [mmh3.hash(b"abcdefgh")]
    assert murmur3(pa.array(["abcdefg"]), "R").to_pylist() != [mmh3.hash(b"abcdefg")]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2, 3], pa.int32()), [2, 7, 1]),
        (pa.array(["a", "b"]), [1, 5]),
        (pa.array([True]), [2]),
        (pa.array([1.25], pa.float32()), [0]),
        (pa.array([1.25], pa.float64()), [0]),
    ],
    ids=str,
)
def test_profile_r_gives_the_recorded_buckets_of_eight(column: pa.Array, expected: list[int]) -> None:
    assert bucket(murmur3(column, "R"), 8, "R").to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.binary(), pa.decimal128(5, 1), pa.date64(), pa.float16()], ids=str)
def test_profile_r_refuses_the_types_that_the_native_implementation_refuses(kind: pa.DataType) -> None:
    with pytest.raises(InvalidArgument, match="AMB-59"):
        murmur3(pa.nulls(1, kind), "R")


def _native_columns() -> list[pa.Array]:
    def spread(kind: pa.DataType) -> list[int]:
        bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return [low, high, 0, 1, 77, high // 3]

    integers = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    columns = [pa.array([*spread(kind), None], kind) for kind in integers]
    columns.append(pa.array([True, False, None]))
    columns.append(pa.array([date(1969, 1, 1), date(2024, 2, 29), None], pa.date32()))
    columns += [pa.array([0, 1, 86_399, None], kind) for kind in (pa.time32("s"), pa.time32("ms"))]
    columns += [pa.array([0, 1, 86_399_999_999, None], kind) for kind in (pa.time64("us"), pa.time64("ns"))]
    stamps = [pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "Asia/Tokyo")]
    columns += [pa.array([-(2**40), 0, 1_700_000_000, None], kind) for kind in stamps]
    floats = [1.25, -0.0, 0.0, float("nan"), float("inf"), -3.5e-20, None]
    columns += [pa.array(floats, kind) for kind in (pa.float32(), pa.float64())]
    texts = ["", "a", "ab", "abc", "abcd", "abcde", "naïve", "日本語", "\x00", "z" * 101, None]
    columns += [pa.array(texts, kind) for kind in (pa.string(), pa.large_string())]
    return columns


@pytest.mark.parametrize("column", _native_columns(), ids=lambda c: str(c.type))
def test_profile_r_gives_the_buckets_of_the_native_implementation(column: pa.Array, tmp_path: Path) -> None:
    import lance
    from lance import mem_wal

    batch = pa.record_batch({"key": column})
    schema = lance.write_dataset(pa.Table.from_batches([batch]), tmp_path / "table").lance_schema
    for count in (1, 7, 8, 1024):
        field = mem_wal.ShardingField("b", [0], "bucket", None, "int32", {"num_buckets": str(count)})
        native = mem_wal.evaluate_sharding_spec(batch, mem_wal.ShardingSpec(1, [field]), schema)
        assert bucket(murmur3(column, "R"), count, "R").to_pylist() == native.column(0).to_pylist()


@pytest.mark.parametrize("moment", [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime.max])
def test_one_moment_has_one_hash_in_every_unit_that_holds_it(moment: datetime) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    expected = mmh3.hash(eight((moment - epoch) // timedelta(microseconds=1)))
    zone = "UTC" if moment.tzinfo else None
    units: list[Callable[[], pa.Array]] = [lambda: pa.array([moment], pa.timestamp("us", zone))]
    if moment.year < 2262:
        units.append(lambda: pa.array([moment], pa.timestamp("ns", zone)))
    assert [murmur3(build())[0].as_py() for build in units] == [expected] * len(units)


BYTES = {
    b"": 0, b"a": 1009084850, b"ab": -1681926305, b"abc": -1277324294, b"abcd": 1139631978, b"abcde": -392455434,
    b"abcdef": 1635893381, b"abcdefg": -2009294074, b"abcdefgh": 1239272644, b"\xff": -43192051,
    b"\x80\xff": -1709121509, b"\xff\x80\x7f": 93629398, b"\xff\xff\xff\xff": 1982413648, b"abcd\xff": 942004988,
    b"abcd\x80\xff": -427452061, b"abcd\x7f\x80\xff": -388084564,
}  # fmt: skip
"""Standard Murmur3 with seed 0: every length modulo 4, and high bytes in every place after the last whole word."""
TEXTS_R = {
    "": 0, "a": 721651713, "ab": 1142947817, "abc": -849139816, "abcd": 1139631978, "abcde": -1811849892,
    "abcdef": -907404038, "abcdefg": -64563052, "abcdefgh": 1239272644, "é": -153731279, "aé": -349596401,
    "日": -1026383606, "日é": -1699126001, "日日": -1676906932, "日日a": 990817146,
}  # fmt: skip
"""The variant of revision R: the same only where no byte is left after the last whole word."""
INTEGERS = {
    0: (1669671676, 593689054), 1: (1392991556, -68075478), -1: (1651860712, 1982413648), 5: (1740791543, 236698494),
    -5: (1222806974, 1637461840), 123: (823512154, 941089142), 2**31 - 1: (1819228606, -1653689534),
    -(2**31): (-2073034792, -1718298732), 2**63 - 1: (-2106506049, None), -(2**63): (1366273829, None),
    2841062569: (-(2**31), None), -4026370631: (-(2**31), None),
}  # fmt: skip
"""Of 8 little-endian bytes, and of 4 where they hold the number."""


@pytest.mark.clause("REGION-035", "AMB-59")
def test_bytes_of_every_length_modulo_4_hash_to_the_recorded_values() -> None:
    assert murmur3(pa.array(list(BYTES), pa.binary())).to_pylist() == list(BYTES.values())
    texts = {data.decode(): value for data, value in BYTES.items() if data.isascii()}
    assert murmur3(pa.array(list(texts))).to_pylist() == list(texts.values())


@pytest.mark.clause("AMB-59")
def test_text_of_every_length_modulo_4_hashes_to_the_recorded_values_in_profile_r() -> None:
    assert murmur3(pa.array(list(TEXTS_R)), "R").to_pylist() == list(TEXTS_R.values())
    assert len({v for t, v in TEXTS_R.items() if len(t.encode()) % 4} & set(BYTES.values())) == 0


@pytest.mark.clause("REGION-035", "AMB-58", "AMB-59")
def test_integers_hash_to_the_recorded_values_in_both_profiles() -> None:
    eight_bytes = [wide for wide, _ in INTEGERS.values()]
    assert murmur3(pa.array(list(INTEGERS), pa.int64())).to_pylist() == eight_bytes
    assert murmur3(pa.array(list(INTEGERS), pa.int64()), "R").to_pylist() == eight_bytes
    small = {number: narrow for number, (_, narrow) in INTEGERS.items() if narrow is not None}
    assert murmur3(pa.array(list(small), pa.int32()), "R").to_pylist() == list(small.values())
    assert murmur3(pa.array(list(small), pa.int32())).to_pylist() == [INTEGERS[n][0] for n in small]


@pytest.mark.clause("REGION-032", "REGION-037", "AMB-60")
def test_several_columns_hash_to_the_recorded_values() -> None:
    numbers, texts = pa.array([1, 1, None, None], pa.int64()), pa.array(["ab", None, "ab", None])
    chained = mmh3.hash(b"ab", 1392991556)
    assert murmur3_multi([numbers, texts]).to_pylist() == [chained, 1392991556, -1681926305, None]
