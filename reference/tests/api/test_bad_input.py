"""Bad input gives a typed error that names clause and path, and nothing on the store changes."""

from __future__ import annotations

from pathlib import Path

import memwal
import pyarrow as pa
import pytest
from memwal import paths
from memwal.codec.index_details import IndexDetails
from memwal.codec.pb.lance import transaction_pb2
from memwal.effects import Io
from memwal.ids import Milliseconds, TableVersion
from memwal.index import mem_wal
from memwal.revisions import STRICT
from memwal.table import state
from memwal.table.commit import commit

from ..kit.folder import Folder

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
ROWS = pa.table([pa.array([1, 2], pa.int64()), pa.array(["a", "b"])], schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path, revision: str) -> memwal.Table:
    made = memwal.create(tmp_path / "t", ROWS, primary_key=["id"], revision=revision)
    with made.writer() as writer:
        writer.put(ROWS)
        writer.flush()
        writer.put(ROWS)
    return made


def region(table: memwal.Table, tmp_path: Path) -> Path:
    return tmp_path / "t" / paths.region(table.regions()[0].region_id)


def cuts(data: bytes) -> list[int]:
    """Where to cut: everywhere near both ends, and at a stride in between."""
    return sorted({*range(min(48, len(data))), *range(0, len(data), 37), *range(max(0, len(data) - 48), len(data))})


def test_a_missing_table_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(memwal.NotFound, match=r"there is no table at .*nothing: check the path"):
        memwal.open(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.clause("FORMAT-001")
def test_mem_wal_is_not_enabled_on_a_table_without_a_key_in_its_schema(tmp_path: Path) -> None:
    import lance

    lance.write_dataset(ROWS, str(tmp_path / "t"))
    io, folder = Io("t", interpretation=STRICT), Folder(tmp_path)
    before = folder.files()
    details = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None)
    with pytest.raises(memwal.InvalidArgument, match=r"primary key.*\[FORMAT-001\]"):
        folder.run(mem_wal.enable(io, folder.run(state.latest(io)), details))
    with pytest.raises(memwal.InvalidArgument, match="key"):
        memwal.enable(tmp_path / "t")
    assert folder.files() == before


def test_a_table_without_mem_wal_says_so(tmp_path: Path) -> None:
    import lance

    lance.write_dataset(ROWS, str(tmp_path / "t"))
    with pytest.raises(memwal.InvalidArgument, match=r"MemWAL is not enabled.*INDEX-001"):
        memwal.open(tmp_path / "t")
    with pytest.raises(memwal.InvalidArgument, match="key"):
        memwal.enable(tmp_path / "t")


@pytest.mark.clause("FORMAT-018")
def test_half_a_table_names_the_file_that_is_gone(table: memwal.Table, tmp_path: Path) -> None:
    (gone,) = (tmp_path / "t" / "data").iterdir()
    gone.unlink()
    with pytest.raises(memwal.ArtifactError, match=rf"data/{gone.name}.*\[FORMAT-018\]"):
        table.scan()


@pytest.mark.clause("FORMAT-004")
def test_a_table_manifest_cut_anywhere_is_named(table: memwal.Table, tmp_path: Path) -> None:
    target = tmp_path / "t" / paths.table_manifest(TableVersion(table.version))
    whole = target.read_bytes()
    for at in cuts(whole):
        target.write_bytes(whole[:at])
        with pytest.raises(memwal.ArtifactError) as caught:
            memwal.open(tmp_path / "t")
        assert caught.value.path == f"t/{paths.table_manifest(table.version)}" or caught.value.path.endswith(
            target.name
        )
        assert caught.value.clause == "FORMAT-004"
        assert caught.value.offset is not None


@pytest.mark.clause("MANIFEST-002", "MANIFEST-003", "MANIFEST-039")
def test_a_region_manifest_cut_anywhere_stops_writers_and_readers(table: memwal.Table, tmp_path: Path) -> None:
    newest = table.regions()[0].manifest
    folder = region(table, tmp_path)
    target = folder / paths.manifest(newest.version)
    whole = target.read_bytes()
    for at in range(len(whole)):
        target.write_bytes(whole[:at])
        before = Folder(tmp_path).files()
        with pytest.raises(memwal.ArtifactError, match="manifest/"):
            table.scan()
        with pytest.raises(memwal.ArtifactError, match="manifest/"):
            table.writer(folder.name)
        assert Folder(tmp_path).files() == before


@pytest.mark.clause("WAL-008", "WAL-009")
def test_a_wal_entry_cut_anywhere_stops_recovery_and_is_never_replayed_in_part(
    table: memwal.Table, tmp_path: Path
) -> None:
    folder = region(table, tmp_path)
    target = max((folder / "wal").iterdir(), key=lambda p: p.stat().st_mtime_ns)
    whole = target.read_bytes()
    for at in cuts(whole):
        target.write_bytes(whole[:at])
        with pytest.raises(memwal.ArtifactError, match=target.name):
            table.scan()
    before = {n for n in Folder(tmp_path).files() if "/wal/" in n}
    with pytest.raises(memwal.ArtifactError, match=target.name):
        table.writer(folder.name)
    assert {n for n in Folder(tmp_path).files() if "/wal/" in n} == before


def test_a_wrong_revision_is_refused(table: memwal.Table, tmp_path: Path, revision: str) -> None:
    other = {"A": "B", "B": "R", "R": "A"}[revision]
    with pytest.raises(memwal.InvalidArgument, match=rf"the table has revision {revision}, not {other} \[AMB-06\]"):
        memwal.open(tmp_path / "t", revision=other)
    with pytest.raises(memwal.InvalidArgument, match="there is no revision 'Z'; choose one of A, B, R"):
        memwal.open(tmp_path / "t", revision="Z")


@pytest.mark.clause("WRITER-015")
@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (pa.table({"id": pa.array([1, None], pa.int64()), "v": ["a", "b"]}), r"NULL in column 'id' at row 1.*AMB-136"),
        (pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}), r"'id' is int32.*WRITER-015"),
        (pa.table({"id": pa.array([1], pa.int64())}), r"missing \['v'\].*WRITER-015"),
        (pa.table({"id": pa.array([1], pa.int64()), "v": ["a"], "w": [1]}), r"unknown \['w'\].*WRITER-015"),
        (
            pa.table([pa.array([1]), pa.array([1]), pa.array(["a"])], names=["id", "id", "v"]),
            "a name of its own.*AMB-136",
        ),
    ],
    ids=["null key", "wrong type", "missing column", "unknown column", "column twice"],
)
def test_a_write_that_does_not_fit_changes_nothing(
    table: memwal.Table, tmp_path: Path, rows: pa.Table, reason: str
) -> None:
    with table.writer(table.regions()[0].region_id) as writer:
        before = Folder(tmp_path).files()
        with pytest.raises(memwal.InvalidArgument, match=reason):
            writer.put(rows)
        assert Folder(tmp_path).files() == before
        writer.put(ROWS)


@pytest.mark.parametrize(
    ("arrow", "clause"),
    [(pa.float64(), "AMB-136"), (pa.float32(), "AMB-136"), (pa.list_(pa.int8()), "AMB-136"), (pa.null(), "AMB-136")],
)
def test_a_key_of_a_type_without_equality_is_refused(tmp_path: Path, arrow: pa.DataType, clause: str) -> None:
    with pytest.raises(memwal.InvalidArgument, match=clause):
        memwal.create(tmp_path / "t", pa.schema([("k", arrow)]), primary_key=["k"])
    assert not (tmp_path / "t").exists()


def test_keys_that_are_not_unique_or_null_are_refused_at_creation(tmp_path: Path) -> None:
    double = pa.table({"id": pa.array([1, 1], pa.int64())})
    with pytest.raises(memwal.InvalidArgument, match=r"2 rows with 1 distinct key: drop the duplicates.*AMB-105"):
        memwal.create(tmp_path / "t", double, primary_key=["id"])
    with pytest.raises(memwal.InvalidArgument, match="NULL in column 'id'"):
        memwal.create(tmp_path / "t", pa.table({"id": pa.array([None], pa.int64())}), primary_key=["id"])
    assert not (tmp_path / "t").exists()


@pytest.mark.clause("INDEX-001")
def test_two_mem_wal_indexes_are_an_error_and_not_a_choice(table: memwal.Table, tmp_path: Path) -> None:
    folder, io = Folder(tmp_path), Io("t", interpretation=STRICT)
    current = folder.run(state.latest(io))
    assert current.mem_wal_entry is not None
    second = type(current.mem_wal_entry)()
    second.CopyFrom(current.mem_wal_entry)
    second.uuid.uuid, second.name = bytes(16), "another"
    body = transaction_pb2.Transaction.CreateIndex(new_indices=[second])
    folder.run(commit(io, current, transaction_pb2.Transaction(create_index=body)))
    before = folder.files()
    for attempt in (lambda: memwal.open(tmp_path / "t"), table.scan, table.merge):
        with pytest.raises(memwal.ArtifactError, match=r"2 MemWAL indexes.*\[INDEX-001\]"):
            attempt()
    assert folder.files() == before


def test_a_region_that_is_not_a_uuid_or_not_registered_is_refused(tmp_path: Path) -> None:
    spec = memwal.region_spec([memwal.bucket("bucket", ["id"], 2)])
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], spec=spec)
    before = Folder(tmp_path).files()
    for wrong, reason in (
        ({"region": "nonsense"}, "AMB-36"),
        ({"region": "00000000-0000-4000-8000-000000000000"}, "AMB-52"),
        ({"values": {"other": 1}}, "REGION-010"),
        ({}, "AMB-56"),
    ):
        with pytest.raises(memwal.InvalidArgument, match=reason):
            table.writer(**wrong)
    assert Folder(tmp_path).files() == before


@pytest.mark.clause("INDEX-016")
def test_a_maintained_index_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(memwal.InvalidArgument, match=r"no such indexes.*'nothing'.*AMB-48"):
        memwal.create(tmp_path / "t", ROWS, primary_key=["id"], maintained_indexes=["nothing"])
    assert not (tmp_path / "t").exists()


def test_creating_a_table_where_there_is_one_leaves_it_as_it_is(table: memwal.Table, tmp_path: Path) -> None:
    before = Folder(tmp_path).files()
    with pytest.raises(memwal.AlreadyExists, match=r"there is already a table at .*t: open it"):
        memwal.create(tmp_path / "t", ROWS, primary_key=["id"])
    assert Folder(tmp_path).files() == before
