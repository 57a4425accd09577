"""One table version: its manifest, and what of it the store has."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from google.protobuf.unknown_fields import UnknownFieldSet

from .. import paths
from ..codec import protobuf
from ..codec.deletion import EXTENSIONS
from ..codec.pb.lance import index_pb2, table_pb2, transaction_pb2
from ..codec.table_manifest import TableManifest
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..revisions import CONFIG_REVISION, REVISIONS, R
from ..table import read, transactions
from ..table.legacy import older
from ..table.state import TableState
from ..violations import Violation, objection
from . import kinds, lance_files
from .details import of_details
from .node import U64, Fields, Node, Value, counted, limited, look, of_error, summary, texts

FLAGS = {1: "deletion files", 2: "stable row ids", 4: "file format 2", 8: "table config", 16: "base paths"}
"""Feature flags by their bit."""
_FILES = 10
"""Field of IndexMetadata in which later writers list the files of an index: message {path = 1, size = 2}."""


def of_manifest(manifest: TableManifest, path: str, name: str, limit: int, *, details: bool = True) -> Node:
    """Everything that a manifest says, without a look at other objects.

    ``details``: with what is inside of the entry of the MemWAL index.
    """
    state = TableState(manifest, path)
    children = [
        lance_files.schema(state.fields, limit),
        _fragments(state, limit),
        _indices(state, limit, details),
    ]
    if manifest.transaction is not None:
        children.append(transaction_node(manifest.transaction, "inline"))
    return Node(kind=kinds.TABLE_VERSION, name=name, fields=manifest_fields(manifest), children=tuple(children))


def manifest_fields(manifest: TableManifest) -> Fields:
    """What a manifest says besides its lists."""
    message = manifest.message
    writer = message.writer_version
    deleted = sum(f.deletion_file.num_deleted_rows for f in message.fragments)
    physical = sum(f.physical_rows for f in message.fragments)
    bases = {str(b.id): f"{b.path}{' (a table)' if b.is_dataset_root else ''}" for b in message.base_paths}
    return (
        ("version", U64(message.version)),
        ("timestamp", _time(message) if message.HasField("timestamp") else None),
        ("writer", f"{writer.library} {writer.version}".strip() or None),
        ("file_version", message.data_format.version or None),
        ("rows", None if any(map(older.unknown_rows, message.fragments)) else U64(max(0, physical - deleted))),
        ("fragments", len(message.fragments)),
        ("deleted_rows", U64(deleted)),
        ("reader_feature_flags", _flags(message.reader_feature_flags)),
        ("writer_feature_flags", _flags(message.writer_feature_flags)),
        ("max_fragment_id", message.max_fragment_id if message.HasField("max_fragment_id") else None),
        ("next_row_id", U64(message.next_row_id)),
        ("transaction_file", message.transaction_file or None),
        ("tag", message.tag or None),
        ("branch", message.branch or None),
        ("base_paths", bases),
        ("config", texts(dict(message.config))),
        ("table_metadata", texts(dict(message.table_metadata))),
        ("schema_metadata", texts(dict(message.schema_metadata))),
    )


def _time(message: table_pb2.Manifest) -> str:
    """Seconds and fraction as a date in UTC; the numbers themselves where no date can be."""
    seconds, nanos = message.timestamp.seconds, message.timestamp.nanos
    if not 0 <= seconds < 253_402_300_800 or not 0 <= nanos < 1_000_000_000:
        return f"{seconds} s + {nanos} ns"
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000).isoformat()


def _flags(bits: int) -> tuple[str, ...]:
    known = tuple(text for bit, text in FLAGS.items() if bits & bit)
    rest = bits & ~sum(FLAGS)
    return (*known, f"{rest:#x}") if rest else known


def _fragments(state: TableState, limit: int) -> Node:
    shown, more = limited(state.fragments, limit)
    return counted("fragments", "fragments", [_fragment(fragment) for fragment in shown], more)


def _fragment(fragment: table_pb2.DataFragment) -> Node:
    children = [_data_file(file) for file in fragment.files]
    if fragment.HasField("deletion_file"):
        children.append(_deletion_file(fragment))
    fields: Fields = (
        ("id", U64(fragment.id)),
        ("physical_rows", None if older.unknown_rows(fragment) else U64(fragment.physical_rows)),
        ("deleted_rows", U64(fragment.deletion_file.num_deleted_rows)),
        ("row_ids", fragment.WhichOneof("row_id_sequence")),
    )
    return Node(kind="fragment", name=str(fragment.id), fields=fields, children=tuple(children))


def _data_file(file: table_pb2.DataFile) -> Node:
    fields: Fields = (
        ("file_version", f"{file.file_major_version}.{file.file_minor_version}"),
        ("size_bytes", U64(file.file_size_bytes) if file.file_size_bytes else None),
        ("field_ids", tuple(file.fields)),
        ("base_id", file.base_id if file.HasField("base_id") else None),
    )
    return Node(kind="data_file_entry", name=file.path, fields=fields)


def _deletion_file(fragment: table_pb2.DataFragment) -> Node:
    file = fragment.deletion_file
    name = read.deletion_path(fragment) if file.file_type in EXTENSIONS else f"of type {file.file_type}"
    fields: Fields = (
        ("form", EXTENSIONS.get(file.file_type, str(file.file_type))),
        ("read_version", U64(file.read_version)),
        ("id", U64(file.id)),
        ("deleted_rows", U64(file.num_deleted_rows)),
        ("base_id", file.base_id if file.HasField("base_id") else None),
    )
    return Node(kind="deletion_file_entry", name=name, fields=fields)


def _indices(state: TableState, limit: int, details: bool) -> Node:
    shown, more = limited(state.manifest.indices, limit)
    return counted("indexes", "indexes", [_index(state, index, details) for index in shown], more)


def _index(state: TableState, index: table_pb2.IndexMetadata, details: bool) -> Node:
    known = len(index.uuid.uuid) == 16
    fields: Fields = (
        ("uuid", str(uuid.UUID(bytes=index.uuid.uuid)) if known else index.uuid.uuid.hex()),
        ("type", index.index_details.type_url or None),
        ("field_ids", tuple(index.fields)),
        ("dataset_version", U64(index.dataset_version)),
        ("index_version", index.index_version if index.HasField("index_version") else None),
        ("created_at_ms", U64(index.created_at) if index.HasField("created_at") else None),
        ("details_bytes", len(index.index_details.value)),
        ("base_id", index.base_id if index.HasField("base_id") else None),
        ("unknown_fields", len(UnknownFieldSet(index))),
    )
    children: list[Node] = []
    if details and index.index_details.type_url.endswith("MemWalIndexDetails"):
        revision = REVISIONS.get(state.config.get(CONFIG_REVISION, R.name), R)
        children.append(of_details(index.index_details.value, state.path, revision, "details"))
    damage: list[Violation] = []
    if not known:
        reason = f"index {index.name!r} has a UUID of {len(index.uuid.uuid)} bytes"
        damage.append(objection(state.path, reason, "FORMAT-005"))
    try:
        children += [
            Node(kind="index_file_entry", name=file, fields=(("size_bytes", U64(size)),))
            for file, size in _files_of(index, state.path)
        ]
    except ArtifactError as error:
        damage.append(of_error(error))
    return Node(kind="index", name=index.name, fields=fields, damage=tuple(damage), children=tuple(children))


def _files_of(index: table_pb2.IndexMetadata, path: str) -> list[tuple[str, int]]:
    """Name and size of each file that the entry lists; raises `ArtifactError`."""
    fields = UnknownFieldSet(index)
    listed = []
    for number in range(len(fields)):
        data = fields[number].data
        if fields[number].field_number == _FILES and isinstance(data, bytes):
            inner = UnknownFieldSet(protobuf.parse(index_pb2.Flat, data, clause="FORMAT-005", path=path))
            values = {inner[i].field_number: inner[i].data for i in range(len(inner))}
            name, size = values.get(1), values.get(2, 0)
            if isinstance(name, bytes):
                listed.append((name.decode(errors="replace"), size if isinstance(size, int) else 0))
    return listed


def transaction_node(found: transaction_pb2.Transaction, name: str) -> Node:
    """A transaction: what it is, and what its operation holds."""
    operation = transactions.operation(found)
    fields: list[tuple[str, Value]] = [
        ("uuid", found.uuid),
        ("read_version", U64(found.read_version)),
        ("operation", operation or "not known"),
    ]
    children: tuple[Node, ...] = ()
    if operation:
        children = (Node(kind="operation", name=operation, fields=summary(getattr(found, operation))),)
    return Node(kind=kinds.TRANSACTION, name=name, fields=tuple(fields), children=children)


async def files_there(io: Io, state: TableState, limit: int) -> tuple[list[Violation], int]:
    """Files of the first ``limit`` fragments that are not there, or not in their size: one HEAD each.

    And how many were not looked for, since their base path lies outside of the table's store.
    """
    found: list[Violation] = []
    outside = 0
    for fragment in state.fragments[:limit]:
        for file in fragment.files:
            if _outside(io, state, file):
                outside += 1
                continue
            path = io.path(paths.data_file(file.path)) if file.path else state.path
            seen = await look(_there(io, state, file), path)
            found += [seen] if isinstance(seen, Violation) else []
        if fragment.HasField("deletion_file"):
            if _deletions_outside(io, state, fragment):
                outside += 1
                continue
            seen = await look(_deletions_there(io, state, fragment), state.path)
            found += [seen] if isinstance(seen, Violation) else []
    return found, outside


def _known_base(state: TableState, number: int) -> bool:
    return any(base.id == number for base in state.manifest.message.base_paths)


def _outside(io: Io, state: TableState, file: table_pb2.DataFile) -> bool:
    if not (file.HasField("base_id") and _known_base(state, file.base_id)):
        return False
    try:
        read.file_path(io, state, file)
    except ArtifactError as error:
        return error.clause == "GEN-011"
    except ValueError:
        return True
    return False


def _deletions_outside(io: Io, state: TableState, fragment: table_pb2.DataFragment) -> bool:
    file = fragment.deletion_file
    if not (file.HasField("base_id") and _known_base(state, file.base_id) and file.file_type in EXTENSIONS):
        return False
    try:
        read.deletion_name(io, state, fragment)
    except ArtifactError as error:
        return error.clause == "GEN-011"
    except ValueError:
        return True
    return False


async def _there(io: Io, state: TableState, file: table_pb2.DataFile) -> None:
    try:
        name = read.file_path(io, state, file)
        path = io.path(name)
    except ValueError as error:
        raise ArtifactError("FORMAT-018", state.path, str(error)) from error
    try:
        size = await io.head(name)
    except NotFound:
        reason = "the table manifest names this file, and it is not there"
        raise ArtifactError("FORMAT-018", path, reason) from None
    if older.size_recorded(file) not in {0, size}:
        reason = f"{size} bytes, the table manifest says {file.file_size_bytes}"
        raise ArtifactError("FORMAT-024", path, reason, size)


async def _deletions_there(io: Io, state: TableState, fragment: table_pb2.DataFragment) -> None:
    if fragment.deletion_file.file_type not in EXTENSIONS:
        reason = f"fragment {fragment.id} has a deletion file of type {fragment.deletion_file.file_type}"
        raise ArtifactError("FORMAT-052", state.path, reason)
    try:
        name = read.deletion_name(io, state, fragment)
        path = io.path(name)
    except ValueError as error:
        raise ArtifactError("FORMAT-018", state.path, str(error)) from error
    try:
        await io.head(name)
    except NotFound:
        raise ArtifactError("FORMAT-034", path, "the table manifest names this file, and it is not there") from None
