"""Tables of the layout before version 2, of many types: what pylance wrote reads as pylance reads it, in parts too."""

from __future__ import annotations

import datetime
import decimal
import functools
import struct
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.codec import table_manifest
from memwal.codec.pb.lance import file_pb2, table_pb2
from memwal.drive import drive
from memwal.effects import Get, Io, StoreRequest
from memwal.errors import ArtifactError
from memwal.revisions import STRICT
from memwal.stores import open_store
from memwal.table import read, stored_file
from memwal.table.legacy import paging, reading, structure
from memwal.table.state import latest

FEW = settings(max_examples=50)
WORDS = ["", "a", "bc", "déjà", "x" * 40]


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def a_struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), whole(8)),
    "int16": (pa.int16(), whole(16)),
    "int64": (pa.int64(), whole(64)),
    "uint8": (pa.uint8(), st.integers(0, 255)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "half": (pa.float16(), st.sampled_from([np.float16(0.5), np.float16(-2)])),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.sampled_from(WORDS)),
    "large text": (pa.large_string(), st.sampled_from(WORDS)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "large binary": (pa.large_binary(), st.binary(max_size=3)),
    "three bytes": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "date32": (pa.date32(), st.dates()),
    "date64": (pa.date64(), st.dates()),
    "timestamp": (pa.timestamp("us"), st.datetimes(min_value=datetime.datetime(1900, 1, 1))),
    "zoned": (pa.timestamp("s", "Asia/Tokyo"), st.integers(0, 10**9)),
    "time32": (pa.time32("ms"), st.integers(0, 86_399_999)),
    "time64": (pa.time64("us"), st.times()),
    "duration": (pa.duration("ms"), st.integers(-(10**9), 10**9)),
    "decimal128": (pa.decimal128(9, 2), st.integers(-(10**6), 10**6).map(lambda n: decimal.Decimal(n) / 100)),
    "decimal256": (pa.decimal256(40, 0), st.integers(-(10**30), 10**30).map(decimal.Decimal)),
    "nothing": (pa.null(), st.none()),
    "list": (pa.list_(pa.int16()), st.lists(whole(16), max_size=3)),
    "large list": (pa.large_list(pa.float64()), st.lists(st.just(1.5), max_size=3)),
    "texts": (pa.list_(pa.string()), st.lists(st.sampled_from(WORDS), max_size=3)),
    "lists": (pa.list_(pa.list_(pa.int8())), st.lists(st.lists(whole(8), max_size=2), max_size=3)),
    "structs": (
        pa.list_(a_struct(p=pa.int32(), q=pa.string())),
        st.lists(st.fixed_dictionaries({"p": whole(32), "q": st.sampled_from(WORDS)}), max_size=2),
    ),
    "struct": (
        a_struct(p=pa.int64(), q=pa.string(), r=pa.list_(pa.bool_())),
        st.fixed_dictionaries({"p": whole(64), "q": st.sampled_from(WORDS), "r": st.lists(st.booleans(), max_size=9)}),
    ),
    "struct in struct": (
        a_struct(o=a_struct(i=pa.int8(), t=pa.binary())),
        st.fixed_dictionaries({"o": st.fixed_dictionaries({"i": whole(8), "t": st.binary(max_size=2)})}),
    ),
    "vector": (pa.list_(pa.float32(), 2), st.lists(st.just(0.25), min_size=2, max_size=2)),
    "flags": (pa.list_(pa.bool_(), 3), st.lists(st.booleans(), min_size=3, max_size=3)),
    "words": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["x", "yy", "zzz"])),
    "numbers": (pa.dictionary(pa.int32(), pa.int64()), st.sampled_from([7, 8])),
}


def array(arrow: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_dictionary(arrow):
        return pa.array(values, arrow.value_type).dictionary_encode().cast(arrow)
    if (pa.types.is_timestamp(arrow) and arrow.tz) or pa.types.is_duration(arrow):
        return pa.array(values, pa.int64()).cast(arrow)
    if pa.types.is_time32(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    return pa.array(values, arrow)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Some columns of some types, with NULLs wherever pylance can write them."""
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(1, 9))
    columns = {}
    for name in names:
        arrow, values = TYPES[name]
        # A dictionary without values, and a NULL half number, are refused by the writer.
        nulls = st.nothing() if name in ("words", "numbers", "half") else st.none()
        columns[name] = array(arrow, draw(st.lists(values | nulls, min_size=rows, max_size=rows)))
    return pa.table(columns)


def scanned(place: Path) -> pa.Table:
    store, root = open_store(str(place))
    state = drive(latest(Io(root, interpretation=STRICT)), store)
    return drive(read.scan(Io(root, interpretation=STRICT), state), store)


def same(found: pa.Table, expected: pa.Table) -> bool:
    """In text, so that NaN equals NaN."""
    return found.schema.equals(expected.schema) and str(found.to_pylist()) == str(expected.to_pylist())


@FEW
@given(rows=tables(), group=st.integers(1, 4), paged=st.booleans())
@pytest.mark.clause("FORMAT-026", "FORMAT-030", "FORMAT-031", "FORMAT-032", "FORMAT-050")
def test_a_table_of_any_types_reads_as_pylance_reads_it(rows: pa.Table, group: int, *, paged: bool) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        place = Path(name) / "t"
        lance.write_dataset(rows, str(place), data_storage_version="legacy", max_rows_per_group=group)
        expected = lance.dataset(str(place)).to_table()
        if paged:
            patched.setattr(stored_file, "WHOLE_BYTES", 0)
            patched.setattr(reading, "END_BYTES", 64)
            patched.setattr(read, "FETCH_BYTES", 200)
            patched.setattr(read, "FIRST_ROWS", 2)
        assert same(scanned(place), expected)


@pytest.mark.clause("FORMAT-021")
@pytest.mark.parametrize("minor", [0, 1, 2])
def test_a_file_whose_version_is_said_to_be_0_0_is_read_as_one_of_0_1_or_0_2(tmp_path: Path, minor: int) -> None:
    place = tmp_path / "t"
    rows = pa.table({"i": [1, 2, 3], "s": ["a", "b", "c"]})
    lance.write_dataset(rows, str(place), data_storage_version="legacy")
    (manifest,) = (place / "_versions").glob("*.manifest")
    (file,) = (place / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-8] + struct.pack("<HH4s", 0, minor, b"LANC"))
    stored = table_manifest.decode(manifest.read_bytes(), "m")
    named = stored.message.fragments[0].files[0]
    named.file_major_version = named.file_minor_version = 0
    assert not named.column_indices
    manifest.write_bytes(table_manifest.encode(stored))
    assert scanned(place).to_pydict() == rows.to_pydict()


def evolved(place: Path) -> pa.Table:
    """A table with added, renamed, retyped and dropped columns, deleted rows and two fragments."""
    rows = pa.table(
        {
            "a": pa.array(range(2500), pa.int32()),
            "s": pa.array([f"s{i}" for i in range(2500)]),
            "t": pa.array([{"p": i, "q": "q" * (i % 3)} for i in range(2500)]),
        }
    )
    table = lance.write_dataset(rows, str(place), data_storage_version="legacy", max_rows_per_group=700)
    table.add_columns({"n": "a * 2", "m": "concat(s, 'k')"})
    table = lance.dataset(str(place))
    table.alter_columns({"path": "a", "name": "aa"})
    table.alter_columns({"path": "n", "data_type": pa.int64()})
    table.drop_columns(["s"])
    more = lance.dataset(str(place)).to_table().slice(0, 10)
    table = lance.write_dataset(more, str(place), mode="append")
    table.delete("aa % 7 = 3")
    return lance.dataset(str(place)).to_table()


@pytest.mark.parametrize("whole_bytes", [0, 1 << 20])
@pytest.mark.clause("FORMAT-020", "FORMAT-023", "FORMAT-035", "FORMAT-050")
def test_columns_are_found_by_their_ids_after_the_schema_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_bytes: int
) -> None:
    expected = evolved(tmp_path / "t")
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", whole_bytes)
    monkeypatch.setattr(read, "FETCH_BYTES", 5000)
    found = scanned(tmp_path / "t")
    assert found.num_rows == 2500 - 357 + 10 - 1
    assert found.schema.names == ["aa", "t", "n", "m"]
    assert same(found.select(expected.schema.names), expected)


@pytest.mark.clause("FORMAT-031", "AMB-128")
def test_equal_offsets_are_empty_values_in_a_column_that_has_no_nulls(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("v", pa.string())])
    rows = pa.table([["a", "", "b"], ["a", "", None]], schema=schema)
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="legacy")
    assert scanned(tmp_path / "t").to_pydict() == {"key": ["a", "", "b"], "v": ["a", None, None]}


class Counting:
    """A store that counts what is read of data files."""

    def __init__(self, place: Path) -> None:
        self.store, self.root = open_store(str(place))
        self.gets: list[Get] = []

    def perform(self, request: StoreRequest[Any]) -> Any:
        if isinstance(request, Get) and request.path.startswith("data/"):
            self.gets.append(request)
        return self.store.perform(request)

    def describe(self) -> str:
        return self.store.describe()

    def close(self) -> None:
        self.store.close()


def test_a_small_file_is_asked_for_once(tmp_path: Path) -> None:
    rows = pa.table({"i": [1, 2, 3], "s": ["a", "b", "c"]})
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="legacy")
    counting = Counting(tmp_path / "t")
    io = Io("", interpretation=STRICT)
    assert drive(read.scan(io, drive(latest(io), counting)), counting).to_pydict() == rows.to_pydict()
    assert len(counting.gets) == 1


def test_a_scan_in_parts_reads_a_large_file_about_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"i": pa.array(range(10_000), pa.int64())})
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="legacy", max_rows_per_group=100)
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(reading, "END_BYTES", 64)
    monkeypatch.setattr(read, "FETCH_BYTES", 8_000)
    counting = Counting(tmp_path / "t")
    io = Io("", interpretation=STRICT)
    assert drive(read.scan(io, drive(latest(io), counting)), counting).to_pydict() == rows.to_pydict()
    assert len(counting.gets) > 10
    assert 80_000 < sum(get.length or 0 for get in counting.gets) < 120_000


@pytest.mark.clause("FORMAT-029")
def test_any_value_is_reached_with_two_reads_once_the_file_is_open(tmp_path: Path) -> None:
    """And what is read is what holds the value, not the file: each page is larger than the gap that joins two."""
    texts = [f"{i:05}" * 10 for i in range(120_000)]
    rows = pa.table({"i": pa.array(range(120_000), pa.int64()), "s": pa.array(texts)})
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="legacy", max_rows_per_group=30_000)
    counting = Counting(tmp_path / "t")
    state = drive(latest(Io("", interpretation=STRICT)), counting)
    (file,) = state.fragments[0].files
    name = f"data/{file.path}"
    for column, row, reads in (("s", 65_000, 2), ("i", 119_999, 1)):
        opened = drive(
            stored_file.open_file(Io("", interpretation=STRICT), name, file, [column], state.fields), counting
        )
        assert opened.paged
        counting.gets.clear()
        found = drive(stored_file.open_rows(Io("", interpretation=STRICT), opened, row, 1), counting).read(row, 1)
        assert found.to_pydict() == rows.select([column]).slice(row, 1).to_pydict()
        assert len(counting.gets) == reads
        assert all(get.length is not None for get in counting.gets)
        assert sum(get.length or 0 for get in counting.gets) < file.file_size_bytes * 0.6


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        (lambda data: data[: len(data) // 2], "FORMAT-024"),
        (lambda data: data[:-4] + b"LANX", "FORMAT-024"),
        (lambda data: data[:-8] + struct.pack("<HH4s", 7, 7, b"LANC"), "FORMAT-021"),
    ],
)
def test_a_damaged_file_of_a_table_is_named(tmp_path: Path, change: Any, clause: str) -> None:
    rows = pa.table({"i": [1, 2, 3], "s": ["a", "b", "c"]})
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="legacy")
    (file,) = (tmp_path / "t" / "data").iterdir()
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ArtifactError, match=clause) as raised:
        scanned(tmp_path / "t")
    assert raised.value.path == f"data/{file.name}"
    assert raised.value.offset is not None
    file.unlink()
    with pytest.raises(ArtifactError, match="FORMAT-018"):
        scanned(tmp_path / "t")


# Damage


def some(arrow: pa.DataType) -> Any:
    """A value of ``arrow``."""
    kinds: list[tuple[Any, Any]] = [
        (pa.types.is_null, None),
        (pa.types.is_boolean, True),
        (pa.types.is_float16, np.float16(1.5)),
        (pa.types.is_decimal, decimal.Decimal(5)),
        (pa.types.is_fixed_size_binary, b"xyz"),
        (lambda t: t in (pa.binary(), pa.large_binary()), b"uv"),
        (lambda t: t in (pa.string(), pa.large_string()), "text"),
        (pa.types.is_date, datetime.date(2000, 1, 2)),
        (lambda t: pa.types.is_timestamp(t) and not t.tz, datetime.datetime(2000, 1, 2)),
        (pa.types.is_time64, datetime.time(1, 2)),
    ]
    if pa.types.is_struct(arrow):
        return {field.name: some(field.type) for field in arrow}
    if pa.types.is_dictionary(arrow):
        return some(arrow.value_type)
    if pa.types.is_nested(arrow):
        return [some(arrow.value_type)] * (arrow.list_size if pa.types.is_fixed_size_list(arrow) else 2)
    return next((value for holds, value in kinds if holds(arrow)), 7)


@functools.cache
def originals() -> tuple[bytes, ...]:
    """Files with all types between them."""
    made = []
    for names in (sorted(TYPES)[::2], sorted(TYPES)[1::2]):
        columns = {name: array(TYPES[name][0], [some(TYPES[name][0])] * 5) for name in names}
        with tempfile.TemporaryDirectory() as folder:
            place = f"{folder}/t"
            lance.write_dataset(pa.table(columns), place, data_storage_version="legacy", max_rows_per_group=2)
            (file,) = Path(place, "data").iterdir()
            made.append(file.read_bytes())
    return tuple(made)


def looked_over(data: bytes) -> None:
    file = structure.decode(data, "f")
    structure.read(file).validate()
    structure.statistics(file)


@settings(max_examples=250)
@given(st.data())
def test_any_damage_gives_rows_or_a_typed_error(data: st.DataObject) -> None:
    original = originals()[data.draw(st.integers(0, 1))]
    changed = bytearray(original)
    # Most of what can go wrong lies in the page table, the schema and the metadata at the end.
    place = st.integers(0, len(original) - 1) | st.integers(len(original) // 2, len(original) - 1)
    for _ in range(data.draw(st.integers(1, 4))):
        at, with_bytes = data.draw(place), data.draw(st.binary(min_size=1, max_size=8))
        changed[at : at + len(with_bytes)] = with_bytes
    start, end = data.draw(st.sampled_from([(0, len(changed)), (0, len(changed) - 5), (7, len(changed))]))
    with suppress(ArtifactError):
        looked_over(bytes(changed[start:end]))


KINDS = [
    "int32", "string", "struct", "list", "list.struct", "large_list", "null", "bool", "dict:string:int8:false",
    "dict:dict:string:int8:true:int8:true", "fixed_size_list:int32:0", "fixed_size_list:string:2",
    "fixed_size_list:int8:99999999999", "fixed_size_binary:0", "fixed_size_binary:99999999999", "decimal:128:99:1",
    "fixed_size_list:" * 2000 + "int8" + ":2" * 2000, "", "🦆",
]  # fmt: skip
NUMBERS = st.integers(-2, 4) | st.sampled_from([2**31 - 1, -(2**31)])
FIELDS = st.builds(
    file_pb2.Field,
    name=st.sampled_from(["a", "b", "0", "null_count", ""]),
    id=NUMBERS,
    parent_id=NUMBERS | st.just(-1),
    logical_type=st.sampled_from(KINDS),
    nullable=st.booleans(),
    dictionary=st.none() | st.builds(file_pb2.Dictionary, offset=NUMBERS, length=NUMBERS),
)


@settings(max_examples=250)
@given(
    fields=st.lists(FIELDS, max_size=5),
    offsets=st.lists(st.integers(0, 3) | st.just(2**31 - 1), max_size=4).map(sorted),
    runs=st.lists(st.integers(-1, 40) | st.sampled_from([2**62, 2**63 - 1]), max_size=40),
    position=st.integers(0, 2**64 - 1) | st.just(64),
)
def test_any_schema_and_page_table_give_rows_or_a_typed_error(
    fields: list[file_pb2.Field], offsets: list[int], runs: list[int], position: int
) -> None:
    body = bytes(range(64)) + struct.pack(f"<{len(runs)}q", *runs)
    manifest = table_pb2.Manifest(fields=fields).SerializeToString()
    schema_at = len(body)
    body += struct.pack("<I", len(manifest)) + manifest
    held = file_pb2.Metadata.StatisticsMetadata(schema=fields, page_table_position=64)
    metadata = file_pb2.Metadata(
        manifest_position=schema_at, batch_offsets=offsets, page_table_position=position, statistics=held
    ).SerializeToString()
    data = body + struct.pack("<I", len(metadata)) + metadata + struct.pack("<QHH4s", len(body), 0, 2, b"LANC")
    with suppress(ArtifactError):
        file = structure.decode(data, "f")
        paging.bytes_of(file, [f.name for f in file.children.get(-1, ())])
        looked_over(data)


@pytest.mark.parametrize(
    ("fields", "clause"),
    [
        ([(0, -1, "struct"), (0, 0, "struct")], "FORMAT-050"),
        ([(3, -1, "int32"), (-1, -1, "int32")], "FORMAT-050"),
        ([(0, 1, "int32"), (1, -1, "struct")], "FORMAT-028"),
        ([(i, i - 1, "struct") for i in range(100)], "FORMAT-028"),
    ],
)
@pytest.mark.clause("FORMAT-050", "FORMAT-028")
def test_fields_that_form_no_tree_are_named(fields: list[tuple[int, int, str]], clause: str) -> None:
    message = table_pb2.Manifest(
        fields=[file_pb2.Field(name=f"f{n}", id=i, parent_id=p, logical_type=t) for n, (i, p, t) in enumerate(fields)]
    ).SerializeToString()
    block = struct.pack("<I", len(message)) + message
    metadata = file_pb2.Metadata(manifest_position=8, batch_offsets=[0]).SerializeToString()
    body = bytes(8) + block
    tail = struct.pack("<QHH4s", len(body), 0, 2, b"LANC")
    with pytest.raises(ArtifactError, match=clause):
        structure.decode(body + struct.pack("<I", len(metadata)) + metadata + tail, "f")
