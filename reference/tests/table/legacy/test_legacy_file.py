"""Data files of the layout before version 2: what pylance writes in it is decoded, and damage is named."""

from __future__ import annotations

import math
import re
import struct
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memwal.codec.pb.lance import file_pb2, table_pb2
from memwal.errors import ArtifactError
from memwal.ids import FieldId
from memwal.table.legacy import paging, structure
from memwal.table.stored_file import StoredFile

FEW = settings(max_examples=40)
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.dictionary(pa.int32(), pa.string())),
        ("l", pa.list_(pa.int16())),
        ("t", pa.struct([("p", pa.int64()), ("q", pa.string()), ("r", pa.list_(pa.string()))])),
        ("f", pa.list_(pa.float32(), 2)),
        ("x", pa.timestamp("us", "UTC")),
        ("n", pa.large_binary()),
        ("w", pa.binary(3)),
        ("h", pa.float16()),
        ("e", pa.date32()),
    ]
)
INT32, INT16, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (31, 15, 63))
ROW = st.fixed_dictionaries(
    {
        "i": INT32,
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        "b": st.booleans(),
        "d": st.sampled_from(["x", "yy", "zzz"]),
        "l": st.lists(INT16, max_size=4),
        "t": st.fixed_dictionaries(
            {"p": INT64, "q": st.sampled_from(["a", "bc"]), "r": st.lists(st.just("k"), max_size=2)}
        ),
        "f": st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2),
        "x": st.integers(0, 10**15),
        "n": st.none() | st.binary(min_size=1, max_size=5),
        "w": st.binary(min_size=3, max_size=3),
        "h": st.sampled_from([np.float16(0.5), np.float16(-2)]),
        "e": st.integers(-1000, 30_000),
    }
)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = []
    for field in SCHEMA:
        values = [row[field.name] for row in rows]
        if pa.types.is_dictionary(field.type):
            columns.append(pa.array(values, pa.string()).dictionary_encode())
        elif field.name == "x":
            columns.append(pa.array(values, pa.int64()).cast(field.type))
        elif field.name == "e":
            columns.append(pa.array(values, pa.int32()).cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=SCHEMA)


def written(rows: pa.Table, folder: Path, group: int = 1024) -> tuple[bytes, pa.Table]:
    """The one data file that pylance writes for ``rows``, and what pylance reads from it."""
    lance.write_dataset(rows, str(folder / "t"), data_storage_version="legacy", max_rows_per_group=group)
    (file,) = (folder / "t" / "data").iterdir()
    return file.read_bytes(), lance.dataset(str(folder / "t")).to_table()


@FEW
@given(rows=st.lists(ROW, min_size=1, max_size=12), group=st.integers(1, 5))
@example(rows=[], group=1)
@pytest.mark.clause(
    "FORMAT-020", "FORMAT-024", "FORMAT-025", "FORMAT-026", "FORMAT-030", "FORMAT-031", "FORMAT-032", "FORMAT-050",
)  # fmt: skip
def test_a_file_that_pylance_wrote_decodes_to_what_pylance_reads(rows: list[dict[str, Any]], group: int) -> None:
    if not rows:
        return
    with tempfile.TemporaryDirectory() as name:
        data, expected = written(table(rows), Path(name), group)
    file = structure.decode(data, "f.lance")
    assert structure.is_legacy(data)
    assert file.version == (0, 2)
    assert file.metadata.manifest_position > 0
    assert file.batch_offsets == (*range(0, len(rows), group), len(rows))
    assert [field.id for field in file.fields] == list(range(len(file.fields)))
    found = structure.read(file)
    assert found.schema.equals(expected.schema)
    assert found.to_pylist() == expected.to_pylist()
    assert structure.read(file, ["s", "i"]).to_pylist() == expected.select(["s", "i"]).to_pylist()
    struct_id = next(field.id for field in file.fields if field.name == "t")
    assert not file.pages[struct_id].any()


def footer(metadata: file_pb2.Metadata, body: bytes = b"", version: tuple[int, int] = (0, 2)) -> bytes:
    """A file of ``body`` and then ``metadata``."""
    block = metadata.SerializeToString()
    tail = struct.pack("<QHH4s", len(body), *version, b"LANC")
    return body + struct.pack("<I", len(block)) + block + tail


def field(name: str, number: int, kind: str, parent: int = -1, **more: Any) -> file_pb2.Field:
    return file_pb2.Field(name=name, id=number, parent_id=parent, logical_type=kind, nullable=True, **more)


def stored(file: structure.LegacyFile, name: str) -> StoredFile:
    """One column of ``file`` as it is opened to be read."""
    return StoredFile(
        name="f",
        columns=(name,),
        places=(0,),
        fields=len(file.fields),
        size_bytes=file.size_bytes,
        layout=None,
        legacy=file,
        legacy_names=(name,),
    )


@pytest.mark.clause("FORMAT-031")
def test_equal_neighbouring_offsets_are_null_and_offsets_are_absolute() -> None:
    values, at = b"abcc", 8
    body = b"ignored!" + values + struct.pack("<4q", at, at + 1, at + 1, at + 4)
    body += struct.pack("<2q", 12, 3)
    data = footer(file_pb2.Metadata(batch_offsets=[0, 3], page_table_position=len(body) - 16), body)
    file = structure.decode(data, "f", [field("s", 0, "string")])
    assert structure.read(file).to_pydict() == {"s": ["a", None, "bcc"]}
    assert paging.bytes_of(file, ["s"]) == (4 * 8, True)  # and the text that the offsets point to
    assert stored(file, "s").wanted_bytes == len(data)


@pytest.mark.clause("FORMAT-031")
def test_offsets_of_lists_count_from_the_first_of_their_batch() -> None:
    body = struct.pack("<3i", 7, 8, 9) + struct.pack("<3i", 5, 6, 8)
    table_at = len(body)
    body += struct.pack("<4q", 12, 3, 0, 3)  # the offsets, then the items
    data = footer(file_pb2.Metadata(batch_offsets=[0, 2], page_table_position=table_at), body)
    file = structure.decode(data, "f", [field("l", 0, "list"), field("item", 1, "int32", 0)])
    assert structure.read(file).to_pydict() == {"l": [[7], [8, 9]]}


@pytest.mark.clause("FORMAT-025", "FORMAT-020")
def test_a_file_without_a_schema_is_read_with_that_of_its_table_and_ids_may_have_gaps() -> None:
    body = struct.pack("<2i", 7, 8) + struct.pack("<2h", 1, 2)
    runs = [(0, 2), (0, 0), (8, 2)]
    table_at = len(body)
    body += b"".join(struct.pack("<2q", *run) for run in runs)
    data = footer(file_pb2.Metadata(batch_offsets=[0, 2], page_table_position=table_at), body)
    with pytest.raises(ArtifactError, match="FORMAT-025"):
        structure.decode(data, "f")
    file = structure.decode(data, "f", [field("a", 5, "int32"), field("c", 7, "int16")])
    assert structure.read(file).to_pydict() == {"a": [7, 8], "c": [1, 2]}


@pytest.mark.clause("FORMAT-020", "FORMAT-021")
@pytest.mark.parametrize("version", [(0, 0), (0, 1)])
def test_the_page_table_of_the_oldest_files_begins_with_the_id_0(version: tuple[int, int]) -> None:
    body = struct.pack("<2i", 7, 8) + struct.pack("<6q", 0, 0, 0, 0, 0, 2)
    data = footer(file_pb2.Metadata(batch_offsets=[0, 2], page_table_position=8), body, version)
    assert structure.read(structure.decode(data, "f", [field("a", 2, "int32")])).to_pydict() == {"a": [7, 8]}


@pytest.mark.clause("FORMAT-028")
def test_a_file_that_has_two_columns_of_one_name_is_named() -> None:
    block = table_pb2.Manifest(fields=[field("a", 0, "int32"), field("a", 1, "int32")]).SerializeToString()
    body = bytes(8) + struct.pack("<I", len(block)) + block
    data = footer(file_pb2.Metadata(batch_offsets=[0], manifest_position=8), body)
    with pytest.raises(ArtifactError, match=re.escape("f at byte 8: column names are not unique: ['a', 'a']")):
        structure.decode(data, "f")


@pytest.mark.clause("FORMAT-026")
def test_a_column_of_nulls_has_no_more_values_than_a_page_may_have() -> None:
    lists = 2**30
    data = footer(file_pb2.Metadata(batch_offsets=[0, lists]), struct.pack("<2q", 0, lists))
    with pytest.raises(ArtifactError, match=f"column 'z' has {3 * lists} values without bytes"):
        structure.read(structure.decode(data, "f", [field("z", 0, "fixed_size_list:null:3")]))


@pytest.mark.clause("FORMAT-026", "FORMAT-030", "FORMAT-032")
def test_values_are_found_by_the_page_table_one_run_for_each_field_and_batch() -> None:
    body = bytearray(b"front")

    def put(data: bytes) -> int:
        body.extend(data)
        return len(body) - len(data)

    words = put(b"xyy")
    dictionary = put(struct.pack("<3q", words, words + 1, words + 3))
    runs = [
        [(put(struct.pack("<3i", 7, 8, 9)), 3), (put(struct.pack("<2i", 10, -11)), 2)],
        [(0, 0), (0, 0)],
        [(put(struct.pack("<3h", 1, 2, 3)), 3), (put(struct.pack("<2h", 4, 5)), 2)],
        [(put(b"\x05"), 3), (put(b"\x02"), 2)],
        [(put(b"\x00\x01\x00"), 3), (put(b"\x01\x01"), 2)],
        [(put(struct.pack("<6f", 0, 0.5, 1, 1.5, 2, 2.5)), 3), (put(struct.pack("<4f", 3, 3.5, 4, 4.5)), 2)],
    ]
    at = put(b"".join(struct.pack("<2q", *run) for of_field in runs for run in of_field))
    fields = [
        field("i", 0, "int32"),
        field("t", 1, "struct"),
        field("p", 2, "int16", 1),
        field("b", 3, "bool"),
        field("d", 4, "dict:string:int8:false", dictionary=file_pb2.Dictionary(offset=dictionary, length=2)),
        field("v", 5, "fixed_size_list:float:2"),
    ]
    data = footer(file_pb2.Metadata(batch_offsets=[0, 3, 5], page_table_position=at), bytes(body))
    file = structure.decode(data, "f", fields)
    assert paging.bytes_of(file, ["i", "t", "v"]) == (5 * 4 + 5 * 2 + 10 * 4, False)
    assert stored(file, "i").wanted_bytes == 5 * 4
    assert paging.spans(file, fields[0]) == [(runs[0][0][0], 3 * 4), (runs[0][1][0], 2 * 4)]
    assert structure.read(file).to_pydict() == {
        "i": [7, 8, 9, 10, -11],
        "t": [{"p": 1}, {"p": 2}, {"p": 3}, {"p": 4}, {"p": 5}],
        "b": [True, False, True, False, True],
        "d": ["x", "yy", "x", "yy", "yy"],
        "v": [[0, 0.5], [1, 1.5], [2, 2.5], [3, 3.5], [4, 4.5]],
    }


@pytest.mark.clause(
    "FORMAT-042", "FORMAT-043", "FORMAT-044", "FORMAT-045", "FORMAT-046", "FORMAT-051", "FORMAT-053"
)  # fmt: skip
def test_statistics_bound_the_values_of_each_page(tmp_path: Path) -> None:
    floats = [1.5, math.nan, -0.0, 0.0, math.nan, math.nan, -2.0, math.inf]
    ints = [4, -7, 9, None, 5, 5, None, None]
    texts = ["b", "a" * 200, None, "c", None, None, "\U0010ffff" * 60, "z"]
    days = pa.array([1, 2, 3, 4, 5, 6, None, None], pa.int32())
    rows = pa.table(
        {
            "f": pa.array(floats),
            "i": pa.array(ints, pa.int16()),
            "s": pa.array(texts),
            "d": days.cast(pa.date32()),
            "u": days.cast(pa.uint32()),
            "t": pa.array([day and day * 86_400_000 for day in days.to_pylist()], pa.int64()).cast(pa.date64()),
        }
    )
    data, _ = written(rows, tmp_path, 2)
    file = structure.decode(data, "f.lance")
    found = structure.statistics(file)
    assert set(found) == set(range(6))
    for number, column in enumerate(rows.columns):
        assert found[FieldId(number)].schema.names == ["null_count", "min_value", "max_value"]
        assert {found[FieldId(number)].schema.field(name).type for name in ("min_value", "max_value")} == {column.type}
    f, i, s = (found[FieldId(number)].to_pylist() for number in (0, 1, 2))
    assert [page["null_count"] for page in i] == [0, 1, 0, 2]
    assert [(page["min_value"], page["max_value"]) for page in i[:3]] == [(-7, 4), (9, 9), (5, 5)]
    assert (i[3]["min_value"], i[3]["max_value"]) == (-(2**15), 2**15 - 1)
    for number, whole, step, least, greatest in (
        (3, pa.int32(), 1, -(2**31), 2**31 - 1),
        (4, pa.uint32(), 1, 0, 2**32 - 1),
        (5, pa.int64(), 86_400_000, -(2**63), 2**63 - 1),
    ):
        bounds = found[FieldId(number)]
        assert bounds.column("min_value").cast(whole).to_pylist() == [step, 3 * step, 5 * step, least]
        assert bounds.column("max_value").cast(whole).to_pylist() == [2 * step, 4 * step, 6 * step, greatest]
    assert (f[0]["min_value"], f[0]["max_value"]) == (1.5, 1.5)
    assert math.copysign(1, f[1]["min_value"]) == -1
    assert math.copysign(1, f[1]["max_value"]) == 1
    assert (f[2]["min_value"], f[2]["max_value"]) == (-math.inf, math.inf)
    assert (f[3]["min_value"], f[3]["max_value"]) == (-2.0, math.inf)
    for page, (low, high) in enumerate([("a" * 200, "b"), ("c", "c")]):
        assert s[page]["min_value"] <= low
        assert s[page]["max_value"] >= high
    assert (s[2]["min_value"], s[2]["max_value"]) == (None, None)
    assert (s[3]["min_value"], s[3]["max_value"]) == ("z", None)


@pytest.mark.clause("FORMAT-047")
def test_statistics_with_missing_and_unknown_fields_are_read() -> None:
    body = struct.pack("<2q", 3, 0) + struct.pack("<2h", -1, 4)
    at = len(body)
    body += b"".join(struct.pack("<2q", *run) for run in [(0, 0), (0, 2), (16, 2), (0, 0)])
    statistics = file_pb2.Metadata.StatisticsMetadata(
        schema=[
            field("2", 0, "struct"),
            field("null_count", 1, "int64", 0),
            field("distinct_count", 2, "int16", 0),
            field("extra", 3, "struct"),
        ],
        fields=[0, 1, 2, 3],
        page_table_position=at,
    )
    data = footer(file_pb2.Metadata(batch_offsets=[0, 1, 2], statistics=statistics), body)
    file = structure.decode(data, "f", [])
    assert {key: found.to_pydict() for key, found in structure.statistics(file).items()} == {2: {"null_count": [3, 0]}}
    bare = footer(file_pb2.Metadata(batch_offsets=[0]))
    assert structure.statistics(structure.decode(bare, "f", [])) == {}


@pytest.mark.parametrize(
    ("data", "clause"),
    [
        (b"", "FORMAT-024"),
        (b"LANC", "FORMAT-024"),
        (bytes(12) + b"LANX", "FORMAT-024"),
        (footer(file_pb2.Metadata(batch_offsets=[0]), version=(2, 1)), "FORMAT-021"),
        (struct.pack("<QHH4s", 1 << 40, 0, 2, b"LANC"), "FORMAT-024"),
        (footer(file_pb2.Metadata(batch_offsets=[0, 2, 1])), "FORMAT-026"),
        (footer(file_pb2.Metadata()), "FORMAT-026"),
        (footer(file_pb2.Metadata(batch_offsets=[0, 1], page_table_position=1 << 40)), "FORMAT-026"),
    ],
)
def test_damaged_structure_is_named(data: bytes, clause: str) -> None:
    with pytest.raises(ArtifactError, match=clause):
        structure.decode(data, "f", [field("a", 0, "int32")])


@pytest.mark.parametrize(("count", "more"), [(8, ""), (9, ", …")])
def test_batch_offsets_that_do_not_rise_are_shown_but_not_all_of_many(count: int, more: str) -> None:
    data = footer(file_pb2.Metadata(batch_offsets=range(1, count + 1)))
    with pytest.raises(ArtifactError, match=re.escape(f"batch offsets (1, 2, 3, 4, 5, 6, 7, 8{more}) do not rise")):
        structure.decode(data, "f", [field("a", 0, "int32")])


@pytest.mark.clause("FORMAT-032")
@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1)])
def test_a_dictionary_at_a_negative_place_or_of_a_negative_length_is_named(offset: int, length: int) -> None:
    body = b"\x00" + struct.pack("<2q", 0, 1)
    words = file_pb2.Dictionary(offset=offset, length=length)
    data = footer(file_pb2.Metadata(batch_offsets=[0, 1], page_table_position=1), body)
    file = structure.decode(data, "f", [field("d", 0, "dict:string:int8:false", dictionary=words)])
    with pytest.raises(ArtifactError, match=f"the dictionary of column 'd' has {length} values at {offset}"):
        structure.read(file)


@pytest.mark.parametrize(
    ("kind", "run", "clause"),
    [
        ("int32", (-1, 1), "FORMAT-026"),
        ("int32", (0, 1 << 50), "FORMAT-026"),
        ("int32", (0, -1), "FORMAT-026"),
        ("int32", (0, 2), "FORMAT-026"),
        ("string", (0, 1), "FORMAT-0(26|31)"),
        ("what", (0, 1), "FORMAT-028"),
    ],
)
def test_a_page_outside_the_file_or_of_a_wrong_length_is_named(kind: str, run: tuple[int, int], clause: str) -> None:
    body = struct.pack("<2q", 9, 3) + struct.pack("<2q", *run)
    data = footer(file_pb2.Metadata(batch_offsets=[0, 1], page_table_position=16), body)
    with pytest.raises(ArtifactError, match=clause):
        structure.read(structure.decode(data, "f", [field("a", 0, kind)]))


@pytest.mark.clause("FORMAT-029")
def test_a_page_outside_the_file_is_named_before_its_range_is_asked_for() -> None:
    def ranges(position: int) -> Sequence[tuple[int, int]]:
        body = struct.pack("<2q", 9, 3) + struct.pack("<2q", position, 1)
        data = footer(file_pb2.Metadata(batch_offsets=[0, 1], page_table_position=16), body)
        assert len(data) == 58
        return paging.pages(structure.decode(data, "f", [field("a", 0, "int32")]), ["a"], [0])

    assert ranges(54) == ((54, 4),)
    for position in (-1, 55, 1 << 50):
        with pytest.raises(ArtifactError, match="FORMAT-026"):
            ranges(position)


@FEW
@given(st.data())
def test_any_changed_byte_gives_rows_or_a_typed_error(data: st.DataObject) -> None:
    original = _small_file()
    at = data.draw(st.integers(0, len(original) - 1))
    changed = bytearray(original)
    changed[at] ^= data.draw(st.integers(1, 255))
    cut = bytes(changed[: data.draw(st.sampled_from([len(changed), at]))])
    with suppress(ArtifactError):
        file = structure.decode(cut, "f")
        structure.read(file)
        structure.statistics(file)


def _small_file(held: list[bytes] = []) -> bytes:  # noqa: B006 - made once
    if not held:
        row = {"i": 1, "s": "a", "b": True, "d": "x", "l": [1], "t": {"p": 1, "q": "a", "r": ["k"]}, "f": [1, 2]}
        row |= {"x": 5, "n": b"q", "w": b"abc", "h": np.float16(1), "e": 3}
        with tempfile.TemporaryDirectory() as name:
            held.append(written(table([row, row]), Path(name), 1)[0])
    return held[0]
