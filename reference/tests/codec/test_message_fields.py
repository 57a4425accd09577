"""Numbers of the fields that the table documents give their messages, from bytes that are made by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import deletion, table_manifest
from memwal.codec.pb.lance import file_pb2, table_pb2
from memwal.errors import ArtifactError
from memwal.table import state, stored_file, write
from memwal.table.legacy import structure

from ..kit.folder import Folder
from ..kit.table_scene import T, begun, latest, rows, seen
from ..kit.wire import blob, num

FIRST = "_versions/18446744073709551614.manifest"


def manifest_file(message: bytes) -> bytes:
    """A manifest file without index section and transaction."""
    return struct.pack("<I", len(message)) + message + struct.pack("<QHH4s", 0, 0, 2, b"LANC")


def leaf(name: bytes, number: int, kind: bytes, parent: int = -1) -> bytes:
    """A leaf field of a schema."""
    return num(1, 2) + blob(2, name) + num(3, number) + num(4, parent) + blob(5, kind) + num(6, 1)


def data_file(metadata: bytes, body: bytes = b"") -> bytes:
    """A file of the old format: ``body``, then ``metadata``."""
    return body + struct.pack("<I", len(metadata)) + metadata + struct.pack("<QHH4s", len(body), 0, 2, b"LANC")


@pytest.mark.clause("FORMAT-054", "FORMAT-055", "FORMAT-056")
def test_each_field_of_a_table_manifest_has_the_number_that_the_documents_give_it() -> None:
    fields = blob(1, leaf(b"id", 4, b"int64"))
    data = b"".join(
        [
            fields,
            blob(2, num(1, 6)),
            num(3, 7),
            num(4, 17),
            blob(5, blob(1, b"owner"), blob(2, b"\xff\x00")),
            blob(7, num(1, 1_700_000_000), num(2, 5)),
            blob(8, b"release"),
            num(9, 1),
            num(10, 3),
            num(11, 9),
            blob(12, b"6-uuid.txn"),
            blob(13, blob(1, b"other"), blob(2, b"1.2.3")),
        ]
    )
    found = table_manifest.decode(manifest_file(data), "m").message
    assert [(field.name, field.logical_type) for field in found.fields] == [("id", "int64")]
    assert [fragment.id for fragment in found.fragments] == [6]
    assert (found.version, found.version_aux_data, found.tag) == (7, 17, "release")
    assert dict(found.schema_metadata) == {"owner": b"\xff\x00"}
    assert (found.timestamp.seconds, found.timestamp.nanos) == (1_700_000_000, 5)
    assert (found.reader_feature_flags, found.writer_feature_flags, found.max_fragment_id) == (1, 3, 9)
    assert (found.transaction_file, found.writer_version.library, found.writer_version.version) == (
        "6-uuid.txn", "other", "1.2.3",
    )  # fmt: skip
    assert table_manifest.encode(table_manifest.TableManifest(message=found))[4:-16] == data
    indexed = table_pb2.IndexMetadata(uuid=table_pb2.UUID(uuid=bytes(16)), name="i")
    stored = table_manifest.encode(table_manifest.TableManifest(message=found, indices=(indexed,)))
    assert num(6, 0) in stored, "the index section is at 0 of the file"


@pytest.mark.clause("FORMAT-057", "FORMAT-058", "FORMAT-059")
def test_each_field_of_a_fragment_and_its_data_file_has_the_number_that_the_documents_give_it() -> None:
    ids, columns = bytes(range(9)), (0, -1, -1, 1, 3, 4, 5, 6, 7)
    packed = b"".join(num(0, number)[1:] for number in columns)
    file = blob(1, b"a.lance") + blob(2, ids) + blob(3, packed) + num(4, 2) + num(5, 1)
    deletions = num(1, 1) + num(2, 4) + num(3, 5) + num(4, 2)
    data = blob(2, num(1, 6), blob(2, file), blob(3, deletions), num(4, 30)) + num(3, 7)
    (fragment,) = table_manifest.decode(manifest_file(data), "m").message.fragments
    assert (fragment.id, fragment.physical_rows) == (6, 30)
    deleted = fragment.deletion_file
    assert (deleted.file_type, deleted.read_version, deleted.id, deleted.num_deleted_rows) == (1, 4, 5, 2)
    (found,) = fragment.files
    assert (found.path, list(found.fields)) == ("a.lance", list(range(9)))
    assert list(found.column_indices) == [0, -1, -1, 1, 3, 4, 5, 6, 7]
    assert (found.file_major_version, found.file_minor_version) == (2, 1)
    parents = {"dimension": -1, "x": 0, "y": 0, "path": -1, "embedding": -1, "borders": -1}
    parents |= {"simple-struct": 5, "margin": 6, "padding": 6}
    fields = [file_pb2.Field(name=name, id=at, parent_id=up) for at, (name, up) in enumerate(parents.items())]
    for name, expected in {"dimension": (0,), "path": (1,), "embedding": (3,), "borders": (4, 5, 6, 7)}.items():
        assert stored_file.column_numbers(found, [name], fields) == expected


@pytest.mark.clause("FORMAT-059")
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("count", [3, 40_000], ids=["fetched whole", "fetched by pages"])
def test_columns_behind_a_packed_struct_are_read_after_they_were_renamed(
    tmp_path: Path, version: str, count: int
) -> None:
    packed = {b"packed": b"true", b"lance-encoding:packed": b"true"}
    schema = pa.schema(
        [
            pa.field("dimension", pa.struct([("x", pa.uint32()), ("y", pa.uint32())]), metadata=packed),
            ("path", pa.string()),
            ("embedding", pa.list_(pa.float64(), 4)),
            ("items", pa.list_(pa.int32())),
        ]
    )
    made = [
        {"dimension": {"x": i, "y": i + 1}, "path": f"p{i}", "embedding": [i, 0, 1, 2], "items": [i] * (i % 3)}
        for i in range(count)
    ]
    place = str(tmp_path / "t")
    lance.write_dataset(pa.Table.from_pylist(made, schema=schema), place, data_storage_version=version)
    new = {"dimension": "d", "path": "p", "embedding": "e", "items": "i"}
    dataset = lance.dataset(place)
    dataset.alter_columns(*({"path": old, "name": name} for old, name in new.items()))
    for old, name in new.items():
        found = memwal.base_table(place).scan([name]).column(name)
        assert found.to_pylist() == [each[old] for each in made]


@pytest.mark.clause("FORMAT-060", "FORMAT-061", "FORMAT-062", "FORMAT-063")
def test_each_field_of_the_old_file_metadata_has_the_number_that_the_documents_give_it() -> None:
    values = struct.pack("<5h", 7, 8, 9, -3, 4)
    statistics = struct.pack("<2q", 0, 1) + struct.pack("<2h", 7, -3) + struct.pack("<2h", 9, 4)
    manifest = blob(1, leaf(b"a", 3, b"int16"))
    body = values + statistics
    pages = len(body)
    body += struct.pack("<4q", 0, 3, 6, 2)
    statistics_pages = len(body)
    body += struct.pack("<8q", 0, 0, len(values), 2, len(values) + 16, 2, len(values) + 20, 2)
    manifest_at = len(body)
    body += struct.pack("<I", len(manifest)) + manifest
    schema = [
        num(1, 0) + blob(2, b"3") + num(3, 0) + num(4, -1) + blob(5, b"struct"),
        leaf(b"null_count", 1, b"int64", 0),
        leaf(b"min_value", 2, b"int16", 0),
        leaf(b"max_value", 3, b"int16", 0),
    ]
    about = b"".join(blob(1, each) for each in schema) + blob(2, bytes(range(4))) + num(3, statistics_pages)
    metadata = num(1, manifest_at) + blob(2, bytes([0, 3, 5])) + num(3, pages) + blob(5, about)
    file = structure.decode(data_file(metadata, body), "f")
    assert [(field.name, field.id) for field in file.fields] == [("a", 3)]
    assert (file.batches, file.rows) == (2, 5)
    assert structure.read(file).to_pydict() == {"a": [7, 8, 9, -3, 4]}
    assert list(file.metadata.statistics.fields) == [0, 1, 2, 3]
    (bounds,) = structure.statistics(file).items()
    assert bounds[0] == 3
    assert bounds[1].schema == pa.schema(
        [("null_count", pa.int64()), ("min_value", pa.int16()), ("max_value", pa.int16())]
    )
    assert bounds[1].to_pydict() == {"null_count": [0, 1], "min_value": [7, -3], "max_value": [9, 4]}
    without = num(1, manifest_at) + blob(2, bytes([0, 3, 5])) + num(3, pages)
    assert structure.statistics(structure.decode(data_file(without, body), "f")) == {}
    no_schema = structure.decode(data_file(without + blob(5, num(3, statistics_pages)), body), "f")
    assert structure.statistics_file(no_schema) is None
    assert structure.statistics(no_schema) == {}


@pytest.mark.clause("FORMAT-062", "AMB-147")
@pytest.mark.parametrize("offsets", [[3, 2], [0, 5, 3], [1, 5], []], ids=str)
def test_batch_offsets_that_are_lengths_are_refused(offsets: list[int]) -> None:
    metadata = blob(2, bytes(offsets)) + num(3, 10)
    body = struct.pack("<5h", 7, 8, 9, -3, 4) + struct.pack("<4q", 0, 3, 6, 2)
    with pytest.raises(ArtifactError, match="batch offsets"):
        structure.decode(data_file(metadata, body), "f", [file_pb2.Field(id=0, name="a", logical_type="int16")])


@pytest.mark.clause("FORMAT-024", "AMB-146")
def test_the_footer_of_an_old_file_is_sixteen_bytes_with_versions_of_two_each(tmp_path: Path) -> None:
    lance.write_dataset(rows(1), str(tmp_path / "t"), data_storage_version="legacy")
    (stored,) = (tmp_path / "t" / "data").iterdir()
    data = stored.read_bytes()
    position, major, minor = struct.unpack("<QHH", data[-16:-4])
    (length,) = struct.unpack_from("<I", data, position)
    assert (major, minor, data[-4:], position + 4 + length) == (0, 2, b"LANC", len(data) - 16)
    metadata = file_pb2.Metadata.FromString(data[position + 4 : -16])
    assert structure.decode(data, "f").metadata == metadata
    assert list(metadata.batch_offsets) == [0, 1]


@pytest.mark.clause("FORMAT-055")
def test_metadata_of_a_schema_go_into_the_manifest_and_stay_there(folder: Folder) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)], metadata={"owner": "me", "städte": "é"})
    folder.run(write.create(T, schema, pa.table({"id": [1]}, schema=schema)))
    folder.run(write.append(T, pa.table({"id": [2]}, schema=schema)))
    current = latest(folder)
    assert dict(current.manifest.message.schema_metadata) == {"owner": b"me", "städte": "é".encode()}
    assert current.schema.metadata == {b"owner": b"me", "städte".encode(): "é".encode()}
    assert lance.dataset(str(folder.root / "t")).schema.metadata == current.schema.metadata


@pytest.mark.clause("FORMAT-056")
def test_the_tag_of_a_version_is_that_of_no_other(folder: Folder) -> None:
    base = begun(folder, (1,)).manifest
    base.message.tag = "release"
    (folder.root / "t" / FIRST).write_bytes(table_manifest.encode(base))
    assert folder.run(write.append(T, rows(2))).manifest.message.tag == ""
    assert folder.run(state.load(T, state.TableVersion(1))).manifest.message.tag == "release"
    assert set(seen(folder)) == {1, 2}


@pytest.mark.clause("FORMAT-066", "AMB-145")
def test_a_deletion_file_without_type_and_other_fields_deletes_nothing_and_is_gone_from_the_next_version(
    folder: Folder,
) -> None:
    base = begun(folder, (1, 2, 3)).manifest
    base.message.fragments[0].deletion_file.SetInParent()
    (folder.root / "t" / FIRST).write_bytes(table_manifest.encode(base))
    assert latest(folder).rows == 3
    folder.run(write.append(T, rows(4)))
    assert set(seen(folder)) == {1, 2, 3, 4}, "pylance opens it again"
    assert memwal.verify(str(folder.root / "t"), fast=False).clean


@pytest.mark.clause("AMB-144", "FORMAT-037")
@pytest.mark.parametrize(
    ("kind", "offsets", "expected"),
    [
        pytest.param(pa.int32(), [0, 2], [0, 2], id="as the text says"),
        pytest.param(pa.uint32(), [0, 2], [0, 2], id="as pylance writes"),
        pytest.param(pa.int64(), [2, 0], [0, 2], id="wide and in no order"),
        pytest.param(pa.int32(), [-1], None, id="below 0"),
        pytest.param(pa.int64(), [-(2**32) + 1], None, id="far below 0"),
        pytest.param(pa.int64(), [2**32 + 1], None, id="beyond 32 bits"),
        pytest.param(pa.uint64(), [2**64 - 1], None, id="the greatest number"),
    ],
)
def test_offsets_of_any_integer_type_are_read_and_none_outside_the_fragment(
    kind: pa.DataType, offsets: list[int], expected: list[int] | None
) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("row_id", kind)])) as writer:
        writer.write_table(pa.table({"row_id": pa.array(offsets, kind)}))
    data = sink.getvalue().to_pybytes()
    if expected is None:
        with pytest.raises(ArtifactError, match="FORMAT-035"):
            deletion.decode(data, deletion.ARROW, 3, "d")
    else:
        found = deletion.decode(data, deletion.ARROW, 3, "d")
        assert (found.tolist(), found.dtype) == (expected, np.uint32)
