"""Tables that the engine writes open in pylance with equal rows, and the reverse."""

from __future__ import annotations

import tempfile
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.effects import Io
from memwal.errors import InvalidArgument
from memwal.revisions import STRICT
from memwal.table import read, state, write
from memwal.table import schema as schemas

from ..kit.arrow_tables import tables
from ..kit.folder import Folder

FEW = settings(max_examples=40)


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    return table.to_pylist()


@FEW
@given(first=tables(), data=st.data())
@pytest.mark.clause("GEN-001", "FORMAT-003", "FORMAT-028", "TXN-024", "FORMAT-033")
def test_what_the_engine_writes_pylance_reads(first: pa.Table, data: st.DataObject) -> None:
    second = data.draw(tables(first.schema))
    with tempfile.TemporaryDirectory() as name:
        folder, io = Folder(Path(name)), Io("t", interpretation=STRICT)
        folder.run(write.create(io, first.schema, first))
        folder.run(write.append(io, second))
        opened = lance.dataset(str(Path(name) / "t"))
        expected = rows_of(first) + rows_of(second)
        assert rows_of(opened.to_table()) == expected
        assert opened.schema.equals(first.schema)
        assert opened.count_rows() == len(expected)
        opened.validate()


@pytest.mark.clause("FORMAT-028")
def test_fields_are_listed_depth_first_with_id_parent_and_logical_type(folder: Folder) -> None:
    inner = pa.struct([("x", pa.int8()), ("y", pa.list_(pa.string()))])
    items = pa.large_list(pa.struct([("z", pa.timestamp("us", "UTC"))]))
    schema = pa.schema([("s", inner), ("t", pa.int16()), ("n", items), ("v", pa.list_(pa.float32(), 4))])
    expected = [
        (0, -1, "s", "struct"),
        (1, 0, "x", "int8"),
        (2, 0, "y", "list"),
        (3, 2, "item", "string"),
        (4, -1, "t", "int16"),
        (5, -1, "n", "large_list.struct"),
        (6, 5, "item", "struct"),
        (7, 6, "z", "timestamp:us:UTC"),
        (8, -1, "v", "fixed_size_list:float:4"),
    ]
    lance.write_dataset(schema.empty_table(), str(folder.root / "n"))
    for current in (
        folder.run(write.create(Io("t", interpretation=STRICT), schema)),
        folder.run(state.latest(Io("n", interpretation=STRICT))),
    ):
        assert [(f.id, f.parent_id, f.name, f.logical_type) for f in current.fields] == expected


@FEW
@given(first=tables(), data=st.data())
@pytest.mark.clause("FORMAT-003", "FORMAT-028")
def test_what_pylance_writes_the_engine_reads(first: pa.Table, data: st.DataObject) -> None:
    second = data.draw(tables(first.schema))
    with tempfile.TemporaryDirectory() as name:
        folder, io = Folder(Path(name)), Io("t", interpretation=STRICT)
        lance.write_dataset(first, str(Path(name) / "t"))
        lance.write_dataset(second, str(Path(name) / "t"), mode="append")
        current = folder.run(state.latest(io))
        found = folder.run(read.scan(io, current))
        assert rows_of(found) == rows_of(first) + rows_of(second)
        assert found.schema.equals(first.schema)


@pytest.mark.clause("FORMAT-006", "FORMAT-034", "FORMAT-035", "FORMAT-037", "FORMAT-038", "FORMAT-039", "FORMAT-040")
@pytest.mark.parametrize("divisor", [1000, 2], ids=["arrow", "bitmap"])
def test_deletions_agree_in_both_directions(folder: Folder, divisor: int) -> None:
    io = Io("t", interpretation=STRICT)
    ids = pa.table({"id": pa.array(range(10_000), pa.int64())})
    folder.run(write.create(io, ids.schema, ids))

    def every(remainder: int):
        return lambda rows: rows.column("id").to_numpy() % divisor == remainder

    folder.run(write.delete(io, every(0), f"id % {divisor} = 0"))
    opened = lance.dataset(str(folder.root / "t"))
    left = [i for i in range(10_000) if i % divisor != 0]
    assert opened.to_table().column("id").to_pylist() == left
    opened.delete("id < 100")
    current = folder.run(state.latest(io))
    assert folder.run(read.scan(io, current)).column("id").to_pylist() == [i for i in left if i >= 100]
    suffixes = {Path(n).suffix for n in folder.files() if n.startswith("t/_deletions/")}
    assert ".arrow" in suffixes if divisor == 1000 else ".bin" in suffixes


@pytest.mark.clause("MERGE-002", "TXN-040")
def test_merge_insert_updates_matches_and_inserts_the_rest(folder: Folder) -> None:
    io = Io("t", interpretation=STRICT)
    schema = schemas.with_primary_key(pa.schema([("id", pa.int64()), ("v", pa.string())]), ["id"])
    folder.run(write.create(io, schema, pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}, schema=schema)))
    current = folder.run(state.latest(io))
    new = pa.table({"id": pa.array([3, 4], pa.int64()), "v": ["C", "D"]}, schema=schema)
    folder.run(write.merge_insert(io, current, new))
    opened = lance.dataset(str(folder.root / "t"))
    assert sorted(map(tuple, (r.values() for r in rows_of(opened.to_table())))) == [
        (1, "a"), (2, "b"), (3, "C"), (4, "D"),
    ]  # fmt: skip


@pytest.mark.clause("TXN-011")
def test_pylance_commits_on_top_of_the_engine_and_the_engine_on_top_of_pylance(folder: Folder) -> None:
    io, place = Io("t", interpretation=STRICT), str(folder.root / "t")
    one = pa.table({"id": pa.array([1], pa.int64())})
    folder.run(write.create(io, one.schema, one))
    stale = lance.dataset(place)
    folder.run(write.append(io, pa.table({"id": pa.array([2], pa.int64())})))
    stale.delete("id = 1")
    lance.write_dataset(pa.table({"id": pa.array([3], pa.int64())}), place, mode="append")
    folder.run(write.append(io, pa.table({"id": pa.array([4], pa.int64())})))
    assert sorted(lance.dataset(place).to_table().column("id").to_pylist()) == [2, 3, 4]
    assert lance.dataset(place).version == 5


@pytest.mark.clause("FORMAT-022")
def test_row_addresses_are_fragment_and_offset(folder: Folder) -> None:
    io = Io("t", interpretation=STRICT)
    one = pa.table({"id": pa.array([7, 8], pa.int64())})
    folder.run(write.create(io, one.schema, one))
    folder.run(write.append(io, one))
    found = folder.run(read.scan(io, folder.run(state.latest(io)), with_row_address=True))
    assert found.column("_rowaddr").to_pylist() == [0, 1, 1 << 32, (1 << 32) + 1]
    native = lance.dataset(str(folder.root / "t")).to_table(with_row_address=True)
    assert native.column("_rowaddr").to_pylist() == found.column("_rowaddr").to_pylist()


@pytest.mark.parametrize("name", ["map", "interval", "union"])
def test_a_type_that_tables_cannot_hold_is_refused_by_name(name: str, folder: Folder) -> None:
    arrow = {
        "map": pa.map_(pa.string(), pa.int32()),
        "interval": pa.month_day_nano_interval(),
        "union": pa.dense_union([pa.field("a", pa.int8())]),
    }[name]
    with pytest.raises(InvalidArgument, match="not supported"):
        folder.run(write.create(Io("t", interpretation=STRICT), pa.schema([("c", arrow)])))
    assert folder.files() == {}


def test_equal_rows_give_equal_bytes() -> None:
    from memwal.codec import data_file

    metadata = {f"key {i}": str(i) for i in range(8)}
    columns = {"a": pa.array(np.arange(1000)), "b": [str(i) for i in range(1000)]}
    table = pa.table(columns).replace_schema_metadata(metadata)
    assert len({data_file.encode(table) for _ in range(12)}) == 1
    assert data_file.decode(data_file.encode(table), "t").schema.metadata == table.schema.metadata
