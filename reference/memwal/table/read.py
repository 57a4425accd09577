"""Reading the rows of one table version, fragment by fragment and in batches of bounded size."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import cellwise, paths
from ..clauses import implements
from ..codec import deletion
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import ArtifactError
from . import schema as schemas
from .held_pages import open_at
from .state import TableState
from .stored_file import Rows, StoredFile, get, open_file, open_rows

Offsets = npt.NDArray[np.uint64]
"""Offsets of rows in a fragment. Shape (rows,)."""
AnyRows = TypeVar("AnyRows", bound=Rows)

ROW_ADDRESS = "_rowaddr"
"""Name of the row address column: uint64, fragment id in the high half, row offset in the low half."""

_ADDRESS = pa.field(ROW_ADDRESS, pa.uint64(), nullable=False)

FETCH_BYTES = 64 << 20
"""About how many encoded bytes of a fragment are in memory at once; at least one page per column."""
BATCH_BYTES = 32 << 20
"""About how many decoded bytes are in one batch; at least one row."""
BATCH_ROWS = 1 << 20
"""Most rows in one batch."""
FIRST_ROWS = 1 << 13
"""Rows of the first batch of a fragment, which shows how large a row is, unless the types of its columns do."""


def deletion_path(fragment: table_pb2.DataFragment) -> str:
    """Name of the fragment's deletion file, relative to the table (FORMAT-036)."""
    return f"{paths.DELETIONS}/{deletion.name(fragment)}"


def deletion_name(io: Io, state: TableState, fragment: table_pb2.DataFragment) -> str:
    """Name of the fragment's deletion file relative to ``io``, base paths resolved."""
    file = fragment.deletion_file
    if not file.HasField("base_id"):
        return deletion_path(fragment)
    base = _base(state, file.base_id, deletion_path(fragment))
    inner = deletion_path(fragment)
    return f"{_folder(io, state, base)}/{inner if base.is_dataset_root else inner.removeprefix(paths.DELETIONS + '/')}"


@implements("FORMAT-034", "FORMAT-035", "FORMAT-040")
async def deleted_offsets(
    io: Io, fragment: table_pb2.DataFragment, state: TableState | None = None
) -> deletion.Offsets:
    """Offsets of the fragment's deleted rows; empty without a deletion file.

    ``state``: the version of the fragment, by which its base paths are resolved; None for a table without any.
    """
    if not fragment.HasField("deletion_file"):
        return np.empty(0, dtype=np.uint32)
    name = deletion_name(io, state, fragment) if state is not None else deletion_path(fragment)
    data = await get(io, name, "FORMAT-034")
    offsets = deletion.decode(data, fragment.deletion_file.file_type, fragment.physical_rows, io.path(name))
    if len(offsets) != fragment.deletion_file.num_deleted_rows:
        counted = fragment.deletion_file.num_deleted_rows
        reason = f"holds {len(offsets)} rows, the table manifest says {counted}"
        raise ArtifactError("FORMAT-040", io.path(name), reason)
    return offsets


@implements("FORMAT-018", "TXN-046", "AMB-40")
def file_path(io: Io, state: TableState, file: table_pb2.DataFile) -> str:
    """Name of a data file relative to ``io``, base paths resolved.

    A relative base path is resolved against the table; an absolute one has to lie in this store, which is told by
    the table's own location, or else by the folder above the table, which has to be in it.
    """
    if not file.HasField("base_id"):
        return paths.data_file(file.path)
    base = _base(state, file.base_id, file.path)
    return f"{_folder(io, state, base)}/{paths.data_file(file.path) if base.is_dataset_root else file.path}"


def _base(state: TableState, number: int, name: str) -> table_pb2.BasePath:
    for base in state.manifest.message.base_paths:
        if base.id == number:
            return base
    raise ArtifactError("GEN-011", state.path, f"file {name!r} names base path {number}, which is not there")


def _folder(io: Io, state: TableState, base: table_pb2.BasePath) -> str:
    if not (base.path.startswith("/") or "://" in base.path):
        return base.path
    folder = _beside(io, base.path) if io.location else _inside(io, base.path)
    if folder is None:
        raise ArtifactError("GEN-011", state.path, f"base path {base.path!r} lies outside the table's store")
    return folder


def _beside(io: Io, absolute: str) -> str | None:
    """An absolute folder as one relative to ``io``, told by the location of that; None if it lies outside the store."""
    here, there = (text.removeprefix("file://").rstrip("/").split("/") for text in (io.location, absolute))
    common = len(posixpath.commonprefix([here, there]))
    up = len(here) - common
    if up > len([part for part in io.root.split("/") if part]):
        return None
    return "/".join([".."] * up + there[common:])


def _inside(io: Io, absolute: str) -> str | None:
    """An absolute base path as one relative to ``io``: the part from the region's folder on is looked for."""
    region_folder = io.root.rpartition("/")[0]
    marker = f"/{region_folder}/"
    start = f"{absolute.rstrip('/')}/".rfind(marker)
    if not region_folder or start < 0:
        return None
    return "../" + absolute.rstrip("/")[start + len(marker) :]


async def batches(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, columns: Sequence[str], *, backwards: bool = False
) -> AsyncIterator[pa.Table]:
    """All physical rows of one fragment, deleted ones included, in row order; a column without a file reads as NULL.

    ``backwards``: the last batch comes first; the rows of each are in row order as ever.
    At no time more is in memory than about `FETCH_BYTES` of the files and one batch of `BATCH_BYTES` and `BATCH_ROWS`,
    or what one page of each column takes up if that is more.
    """
    files = await open_files(io, state, fragment, columns)
    async for _, batch in placed_batches(io, state, fragment, columns, files, backwards=backwards):
        yield batch


@implements("FORMAT-016", "FORMAT-022", "FORMAT-023")
async def placed_batches(
    io: Io,
    state: TableState,
    fragment: table_pb2.DataFragment,
    columns: Sequence[str],
    files: Sequence[StoredFile],
    *,
    backwards: bool = False,
) -> AsyncIterator[tuple[int, pa.Table]]:
    """The `batches`, each with the offset of its first row; ``files``: of `open_files`."""
    shape = pa.schema([state.schema.field(name) for name in dict.fromkeys(columns)])
    total = fragment.physical_rows
    paged = [file for file in files if file.paged]
    encoded_bytes = max(1, sum(file.wanted_bytes for file in paged))
    step = max(1, min(total, total * FETCH_BYTES // encoded_bytes))
    rows = _first_rows(shape)
    with ExitStack() as opened:
        wholes = {
            file.name: _closing(opened, await decoder_of(io, fragment, file, 0, total))
            for file in files
            if not file.paged
        }
        for first in _starts(total, step, backwards):
            end = min(total, first + step)
            with ExitStack() as parts:
                decoders: list[Rows] = [
                    wholes.get(file.name) or _closing(parts, await decoder_of(io, fragment, file, first, end))
                    for file in files
                ]
                left = end - first
                while left:
                    held = min(left, rows)
                    start = first + left - held if backwards else end - left
                    batch = joined(
                        io, files, [_own(decoder, decoder.read(start, held)) for decoder in decoders], shape, held
                    )
                    yield start, batch.select(list(columns))
                    left -= held
                    rows = rows_of(held, batch.nbytes)


def _first_rows(shape: pa.Schema) -> int:
    if any(not pa.types.is_primitive(kind) for kind in shape.types):
        return FIRST_ROWS
    return rows_of(1, sum(kind.bit_width for kind in shape.types) // 8)


def rows_of(rows: int, size_bytes: int) -> int:
    """How many rows fit into a batch, by the decoded size of some."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(1, size_bytes)))


def _starts(total: int, step: int, backwards: bool) -> range | Iterator[int]:
    starts = range(0, total, step)
    return reversed(starts) if backwards else starts


def _closing(stack: ExitStack, rows: Rows) -> Rows:
    stack.callback(rows.close)
    return rows


async def open_files(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, columns: Sequence[str]
) -> list[StoredFile]:
    """The data files that hold some of ``columns``; of two with one column the later file holds it."""
    shape = pa.schema([state.schema.field(name) for name in dict.fromkeys(columns)])
    known = schemas.columns_of(state.fields)
    held_by: dict[str, int] = {}
    for place, file in enumerate(fragment.files):
        held = {known.get(number) for number in file.fields}
        held_by.update((name, place) for name in shape.names if name in held)
    opened = []
    for place, file in enumerate(fragment.files):
        names = [name for name in shape.names if held_by.get(name) == place]
        if names and fragment.physical_rows:
            opened.append(await open_file(io, file_path(io, state, file), file, names, state.fields))
    _check_absent(state, fragment, shape, opened)
    return opened


def _check_absent(
    state: TableState, fragment: table_pb2.DataFragment, shape: pa.Schema, files: Sequence[StoredFile]
) -> None:
    held = {name for file in files for name in file.columns}
    for field in shape:
        if field.name not in held and not field.nullable and fragment.physical_rows:
            reason = f"fragment {fragment.id} has no data file for column {field.name!r}, which has no NULLs"
            raise ArtifactError("FORMAT-016", state.path, reason)


async def decoder_of(io: Io, fragment: table_pb2.DataFragment, file: StoredFile, start: int, end: int) -> Rows:
    """A reader of the rows of ``file`` from ``start`` to before ``end``. Raises `ArtifactError`."""
    return checked(io, fragment, file, await open_rows(io, file, start, end - start))


@implements("FORMAT-017")
def checked(io: Io, fragment: table_pb2.DataFragment, file: StoredFile, decoder: AnyRows) -> AnyRows:
    """``decoder``, whose file has as many rows as the table manifest says. Raises `ArtifactError` for another count."""
    if decoder.rows != fragment.physical_rows:
        decoder.close()
        reason = f"holds {decoder.rows} rows, the table manifest says {fragment.physical_rows}"
        raise ArtifactError("FORMAT-017", io.path(file.name), reason)
    return decoder


def _own(decoder: Rows, found: pa.Table) -> pa.Table:
    """The columns that the file was opened for, in their order."""
    return found.select(list(decoder.columns or ()))


def joined(io: Io, files: Sequence[StoredFile], parts: Sequence[pa.Table], shape: pa.Schema, rows: int) -> pa.Table:
    """Rows of which each of ``files`` gave its columns, under ``shape``; a column without a file reads as NULL."""
    found: dict[str, pa.ChunkedArray] = {}
    for file, part in zip(files, parts, strict=True):
        for name, column in zip(file.columns, part.columns, strict=True):
            if column.type != shape.field(name).type:
                reason = f"column {name!r} is {column.type}, not {shape.field(name).type}"
                raise ArtifactError("FORMAT-028", io.path(file.name), reason)
            found[name] = column
    for field in shape:
        if field.name not in found:
            found[field.name] = pa.chunked_array([pa.nulls(rows, field.type)])
    return pa.table([found[name] for name in shape.names], schema=shape)


async def read_fragment(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, columns: Sequence[str], *, with_row_address: bool
) -> pa.Table:
    """Live rows of one fragment, in row order; a column without a data file reads as NULL."""
    shape = pa.schema([state.schema.field(name) for name in columns])
    parts = [batch async for batch in batches(io, state, fragment, columns)]
    out = pa.concat_tables([shape.empty_table(), *parts])
    if with_row_address:
        out = _addressed(out, fragment, np.arange(fragment.physical_rows, dtype=np.uint64))
    deleted = await deleted_offsets(io, fragment, state)
    if len(deleted):
        live = np.ones(fragment.physical_rows, dtype=bool)
        live[deleted] = False
        out = cellwise.where(out, live)
    return out


@implements("FORMAT-016", "FORMAT-035")
async def take(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, columns: Sequence[str], offsets: Offsets
) -> pa.Table:
    """The live rows of one fragment among ``offsets``, which ascend, with their addresses.

    Only those parts of pages are fetched that hold one of them; no more of the files is in memory than in `batches`.
    """
    shape = pa.schema([state.schema.field(name) for name in columns])
    deleted = await deleted_offsets(io, fragment, state)
    there = offsets < fragment.physical_rows
    wanted = offsets[there & ~np.isin(offsets, deleted) if len(deleted) else there]
    files = await open_files(io, state, fragment, shape.names)
    total, parts = fragment.physical_rows, list[pa.Table]()
    step = few = 1
    if len(wanted) > 1:
        paged_files = [file for file in files if file.paged]
        encoded_bytes = max(1, sum(file.wanted_bytes for file in paged_files))
        step = max(1, min(total, total * FETCH_BYTES // encoded_bytes))
        few = FETCH_BYTES // max(1, sum(file.apart_bytes for file in paged_files))
    with ExitStack() as opened:
        wholes = {
            file.name: _closing(opened, await decoder_of(io, fragment, file, 0, total))
            for file in files
            if not file.paged and len(wanted)
        }
        at = 0
        while at < len(wanted):
            # As many as lie close together, or that are fetched by themselves.
            end = max(at + few, int(np.searchsorted(wanted, wanted[at] + np.uint64(step))))
            here, at = wanted[at:end], end
            with ExitStack() as paged:
                decoders: list[Rows] = [
                    wholes.get(file.name) or _closing(paged, checked(io, fragment, file, await open_at(io, file, here)))
                    for file in files
                ]
                taken = [_own(decoder, decoder.take(here.astype(np.int64))) for decoder in decoders]
                parts.append(joined(io, files, taken, shape, len(here)))
    return _addressed(pa.concat_tables(parts) if parts else shape.empty_table(), fragment, wanted)


def _addressed(rows: pa.Table, fragment: table_pb2.DataFragment, offsets: Offsets) -> pa.Table:
    addresses = (np.uint64(fragment.id) << np.uint64(32)) + offsets
    return rows.append_column(_ADDRESS, cellwise.numbers(addresses))


@implements("TXN-003")
async def scan(
    io: Io, state: TableState, columns: Sequence[str] | None = None, *, with_row_address: bool = False
) -> pa.Table:
    """All live rows of ``state`` in row address order, as one table; ``columns`` in the order asked for."""
    names = list(state.schema.names if columns is None else columns)
    schemas.check_columns(state.schema, names)
    parts = [
        await read_fragment(io, state, fragment, names, with_row_address=with_row_address)
        for fragment in sorted(state.fragments, key=lambda f: f.id)
    ]
    fields = [state.schema.field(n) for n in names]
    if with_row_address:
        fields.append(_ADDRESS)
    return pa.concat_tables([pa.schema(fields).empty_table(), *parts])
