"""Tables with data files of other versions than the engine's own: written where that is possible, refused by name."""

from __future__ import annotations

import datetime
from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
FLAT = pa.schema(
    [
        pa.field("id", pa.int64(), False, KEY),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("l", pa.large_binary()),
        ("f", pa.float32()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.decimal128(20, 3)),
        ("v", pa.list_(pa.float32(), 3)),
    ]
)
NESTED = pa.schema([*FLAT, pa.field("p", pa.struct([("x", pa.int32())]))])


def rows(*ids: int, schema: pa.Schema = FLAT) -> pa.Table:
    """A row for each id; every third has NULL in all flat columns but the key."""
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = []
    for i in ids:
        full = {"b": i % 2 == 0, "s": f"s{i}", "l": bytes([i]), "f": i / 2, "d": moment.date(), "t": moment, "n": i}
        made.append({"id": i, "p": {"x": i}} | ({} if i % 3 == 0 else full | {"v": [i, 0, 1]}))
    return pa.Table.from_pylist(made, schema=schema)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.mark.clause("FORMAT-003", "MERGE-002")
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_regions_are_merged_into_files_of_the_version_that_the_table_has(place: str, version: str) -> None:
    lance.write_dataset(rows(1, 2, 3), place, data_storage_version=version)
    table = memwal.enable(place)
    with table.writer(table.register_region()) as writer:
        writer.put(rows(3, 4, 5))
        writer.flush()
    assert memwal.open(place).merge().rows == 3
    memwal.base_table(place).append(rows(6, 7)).delete("id = 6").compact()
    expected = rows(1, 2, 3, 4, 5, 7).to_pylist()
    native = lance.dataset(place)
    assert sorted(native.to_table().to_pylist(), key=lambda row: row["id"]) == expected
    assert sorted(memwal.open(place).scan().to_pylist(), key=lambda row: row["id"]) == expected
    found = {(f.file_major_version, f.file_minor_version) for part in native.get_fragments() for f in part.data_files()}
    assert found == {tuple(map(int, version.split(".")))}
    native.insert(rows(8))
    assert memwal.verify(place).clean


@pytest.mark.parametrize(
    ("version", "schema", "reason"),
    [
        ("2.0", NESTED, "version 2.0 are written without nested columns only, not with 'x'"),
        ("legacy", FLAT, "read, but not written"),
    ],
)
def test_tables_whose_files_cannot_be_written_are_read_and_otherwise_refused(
    place: str, version: str, schema: pa.Schema, reason: str
) -> None:
    lance.write_dataset(rows(1, 2, schema=schema), place, data_storage_version=version)
    before = lance.dataset(place).version
    base = memwal.base_table(place)
    assert base.scan().to_pylist() == lance.dataset(place).to_table().to_pylist()
    with pytest.raises(InvalidArgument, match=reason):
        base.append(rows(3, schema=schema))
    with pytest.raises(InvalidArgument, match=reason):
        memwal.enable(place)
    assert lance.dataset(place).version == before


def test_no_nested_column_comes_into_a_table_of_version_2_0(place: str) -> None:
    lance.write_dataset(rows(1, 2), place, data_storage_version="2.0")
    new = pa.schema([("p", pa.struct([("x", pa.int32())]))])
    with pytest.raises(InvalidArgument, match="without nested columns only"):
        memwal.base_table(place).add_columns(new, lambda t: pa.table({"p": [{"x": 1}] * t.num_rows}, schema=new))
    assert lance.dataset(place).version == 1


@pytest.mark.clause("FORMAT-021")
@pytest.mark.parametrize(("version", "after"), [("2.0", "2.1"), ("2.1", "2.1"), ("2.2", "2.2")])
def test_a_table_that_is_emptied_keeps_its_file_version_unless_that_lacks_nested_columns(
    place: str, version: str, after: str
) -> None:
    lance.write_dataset(rows(1, 2), place, data_storage_version=version)
    memwal.base_table(place).overwrite(FLAT.empty_table())
    assert (lance.dataset(place).count_rows(), lance.dataset(place).data_storage_version) == (0, after)
