"""Reading the rows of one table version."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .. import paths
from ..clauses import implements
from ..codec import data_file, deletion
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument, NotFound
from .state import TableState

ROW_ADDRESS = "_rowaddr"
"""Name of the row address column: uint64, fragment id in the high half, row offset in the low half."""


def deletion_path(fragment: table_pb2.DataFragment) -> str:
    """Name of the fragment's deletion file, relative to the table (FORMAT-036)."""
    file = fragment.deletion_file
    return f"{paths.DELETIONS}/{fragment.id}-{file.read_version}-{file.id}.{deletion.EXTENSIONS[file.file_type]}"


@implements("FORMAT-034", "FORMAT-035", "FORMAT-040")
async def deleted_offsets(io: Io, fragment: table_pb2.DataFragment) -> deletion.Offsets:
    """Offsets of the fragment's deleted rows; empty without a deletion file."""
    if not fragment.HasField("deletion_file"):
        return np.empty(0, dtype=np.uint32)
    name = deletion_path(fragment)
    data = await _get(io, name, "FORMAT-034")
    offsets = deletion.decode(data, fragment.deletion_file.file_type, fragment.physical_rows, io.path(name))
    if len(offsets) != fragment.deletion_file.num_deleted_rows:
        counted = fragment.deletion_file.num_deleted_rows
        reason = f"holds {len(offsets)} rows, the table manifest says {counted}"
        raise ArtifactError("FORMAT-040", io.path(name), reason)
    return offsets


async def _get(io: Io, name: str, clause: str) -> bytes:
    try:
        return await io.get(name)
    except NotFound:
        raise ArtifactError(clause, io.path(name), "the table manifest names this file, and it is not there") from None


@implements("FORMAT-018", "TXN-046", "AMB-40")
def file_path(io: Io, state: TableState, file: table_pb2.DataFile) -> str:
    """Name of a data file relative to ``io``, base paths resolved.

    A relative base path is resolved against the table; an absolute one has to end in a folder of this store, found
    by the table's own root inside it.
    """
    if not file.HasField("base_id"):
        return paths.data_file(file.path)
    base = next((b for b in state.manifest.message.base_paths if b.id == file.base_id), None)
    if base is None:
        raise ArtifactError("GEN-011", state.path, f"data file {file.path!r} names base path {file.base_id}: not there")
    folder = base.path
    if folder.startswith("/") or "://" in folder:
        folder = _inside(io, folder, state)
    inner = f"{paths.DATA}/{file.path}" if base.is_dataset_root else file.path
    return f"{folder}/{inner}"


def _inside(io: Io, absolute: str, state: TableState) -> str:
    """An absolute base path as one relative to ``io``: the part from the region's folder on is looked for."""
    region_folder = io.root.rpartition("/")[0]
    marker = f"/{region_folder}/"
    start = f"{absolute.rstrip('/')}/".rfind(marker)
    if not region_folder or start < 0:
        raise ArtifactError("GEN-011", state.path, f"base path {absolute!r} lies outside the table")
    return "../" + absolute.rstrip("/")[start + len(marker) :]


@implements("FORMAT-016", "FORMAT-022", "FORMAT-023")
async def read_fragment(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, columns: Sequence[str], *, with_row_address: bool
) -> pa.Table:
    """Live rows of one fragment, in row order; a column without a data file reads as NULL."""
    wanted = state.schema
    ids = state.field_ids
    found: dict[str, pa.ChunkedArray] = {}
    for file in fragment.files:
        held = [name for name in columns if _holds(state, file, ids[name])]
        if not held:
            continue
        name = file_path(io, state, file)
        data = await _get(io, name, "FORMAT-018")
        table = data_file.decode(data, io.path(name), columns=held)
        if table.num_rows != fragment.physical_rows:
            reason = f"holds {table.num_rows} rows, the table manifest says {fragment.physical_rows}"
            raise ArtifactError("FORMAT-017", io.path(name), reason)
        for column in held:
            if table.schema.field(column).type != wanted.field(column).type:
                reason = f"column {column!r} is {table.schema.field(column).type}, not {wanted.field(column).type}"
                raise ArtifactError("FORMAT-028", io.path(name), reason)
            found[column] = table.column(column)
    for column in columns:
        if column not in found:
            if not wanted.field(column).nullable and fragment.physical_rows:
                reason = f"fragment {fragment.id} has no data file for column {column!r}, which has no NULLs"
                raise ArtifactError("FORMAT-016", state.path, reason)
            found[column] = pa.chunked_array([pa.nulls(fragment.physical_rows, wanted.field(column).type)])
    out = pa.table([found[c] for c in columns], schema=pa.schema([wanted.field(c) for c in columns]))
    if with_row_address:
        addresses = (np.uint64(fragment.id) << np.uint64(32)) + np.arange(fragment.physical_rows, dtype=np.uint64)
        out = out.append_column(pa.field(ROW_ADDRESS, pa.uint64(), nullable=False), pa.array(addresses))
    deleted = await deleted_offsets(io, fragment)
    if len(deleted):
        live = np.ones(fragment.physical_rows, dtype=bool)
        live[deleted] = False
        out = out.filter(pa.array(live))
    return out


def _holds(state: TableState, file: table_pb2.DataFile, field: int) -> bool:
    """Whether ``file`` holds the top-level ``field``: itself, or the leaves below it."""
    held = set(file.fields)
    below = {field}
    for message in state.fields:
        if message.parent_id in below:
            below.add(message.id)
    return any(m.id in held for m in state.fields if m.id in below)


@implements("TXN-003")
async def scan(
    io: Io, state: TableState, columns: Sequence[str] | None = None, *, with_row_address: bool = False
) -> pa.Table:
    """All live rows of ``state`` in row address order, as one table; ``columns`` in the order asked for."""
    names = list(state.schema.names if columns is None else columns)
    unknown = [name for name in names if name not in state.schema.names]
    if unknown:
        raise InvalidArgument(f"no such columns: {unknown}; there are {state.schema.names}")
    parts = [
        await read_fragment(io, state, fragment, names, with_row_address=with_row_address)
        for fragment in sorted(state.fragments, key=lambda f: f.id)
    ]
    fields = [state.schema.field(n) for n in names]
    if with_row_address:
        fields.append(pa.field(ROW_ADDRESS, pa.uint64(), nullable=False))
    return pa.concat_tables([pa.schema(fields).empty_table(), *parts])
