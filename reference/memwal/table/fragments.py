"""Writing fragments: data files of rows, deletion files, and the messages that describe them.

Nothing refers to them until a transaction that names them is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .. import confirm, paths
from ..clauses import implements
from ..codec import data_file, deletion
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import InvalidArgument
from . import read

FRAGMENT_ROWS = 1 << 20
"""Most rows in one fragment that the engine writes."""
FILE_BYTES = 128 << 20
"""About how many bytes of rows, before they are encoded, go into one data file of a stream."""


@implements("FORMAT-017", "FORMAT-018", "FORMAT-019")
def fragment_message(
    rows: int,
    name: str,
    size_bytes: int,
    field_ids: Sequence[int],
    version: data_file.FileVersion = data_file.FILE_VERSION,
) -> table_pb2.DataFragment:
    """Fragment of one data file ``name`` that holds ``rows`` rows with the leaf fields ``field_ids``."""
    file = table_pb2.DataFile(
        path=name,
        fields=field_ids,
        column_indices=range(len(field_ids)),
        file_major_version=version[0],
        file_minor_version=version[1],
        file_size_bytes=size_bytes,
    )
    return table_pb2.DataFragment(files=[file], physical_rows=rows)


async def write_fragments(
    io: Io,
    table: pa.Table,
    field_ids: Sequence[int],
    version: data_file.FileVersion = data_file.FILE_VERSION,
    prefix: str = "",
) -> list[table_pb2.DataFragment]:
    """Write ``table`` as data files of at most `FRAGMENT_ROWS` rows; ids are assigned at commit. Empty: no fragment.

    ``version``: the table's file version; pylance opens no table with mixed ones. ``prefix``: what the names of
    the data files begin with.
    """
    fragments = []
    for start in range(0, table.num_rows, FRAGMENT_ROWS):
        part = table.slice(start, FRAGMENT_ROWS)
        data = data_file.encode(part, version)
        fragments.append(await _stored(io, data, part.num_rows, field_ids, version, prefix))
    return fragments


async def _stored(
    io: Io, data: bytes, rows: int, field_ids: Sequence[int], version: data_file.FileVersion, prefix: str = ""
) -> table_pb2.DataFragment:
    name = f"{prefix}{await io.random_hex(32)}.lance"
    await confirm.create_fresh(io, paths.data_file(name), data)
    return fragment_message(rows, name, len(data), field_ids, version)


@implements("FORMAT-019", "FORMAT-023")
async def write_column_file(
    io: Io, table: pa.Table, field_ids: Sequence[int], version: data_file.FileVersion = data_file.FILE_VERSION
) -> table_pb2.DataFile:
    """Write ``table`` as one further data file of a fragment that has as many physical rows; nothing names it yet."""
    data = data_file.encode(table, version)
    fragment = await _stored(io, data, table.num_rows, field_ids, version)
    return fragment.files[0]


class FragmentWriter:
    """Fragments from a stream of rows, a data file at a time. A context manager: leaving it drops a begun file."""

    def __init__(
        self,
        io: Io,
        schema: pa.Schema,
        field_ids: Sequence[int],
        version: data_file.FileVersion = data_file.FILE_VERSION,
        prefix: str = "",
    ) -> None:
        self._io, self._schema, self._field_ids, self._version = io, schema, field_ids, version
        self._prefix = prefix
        self._encoder: data_file.Encoder | None = None
        self._rows = self._bytes = 0
        self.fragments: list[table_pb2.DataFragment] = []
        """Those whose data files are stored."""

    def __enter__(self) -> FragmentWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._encoder is not None:
            self._encoder.close()

    async def write(self, table: pa.Table) -> None:
        """Add rows. A file is stored when it has `FRAGMENT_ROWS` rows or about `FILE_BYTES`."""
        start = 0
        while start < table.num_rows:
            part = table.slice(start, FRAGMENT_ROWS - self._rows)
            if self._encoder is None:
                self._encoder = data_file.Encoder(self._schema, self._version)
            self._encoder.write(part)
            start += part.num_rows
            self._rows += part.num_rows
            self._bytes += part.nbytes
            if self._rows >= FRAGMENT_ROWS or self._bytes >= FILE_BYTES:
                await self.finish()

    async def finish(self) -> None:
        """Store what has been written and is not stored yet."""
        if self._encoder is None:
            return
        data, rows = self._encoder.finish(), self._rows
        self._encoder.close()
        self._encoder, self._rows, self._bytes = None, 0, 0
        self.fragments.append(await _stored(self._io, data, rows, self._field_ids, self._version, self._prefix))


@implements("FORMAT-036", "FORMAT-040", "FORMAT-052")
async def write_deletions(
    io: Io, fragment: table_pb2.DataFragment, offsets: deletion.Offsets, read_version: int
) -> table_pb2.DataFragment:
    """A copy of ``fragment`` with ``offsets`` (all deleted rows, sorted, distinct) as its deletion file."""
    file_type, data = deletion.encode(offsets)
    number = int(await io.random_hex(16), 16)
    changed = table_pb2.DataFragment()
    changed.CopyFrom(fragment)
    changed.deletion_file.CopyFrom(
        table_pb2.DeletionFile(
            file_type=file_type,  # type: ignore[arg-type]
            read_version=read_version,
            id=number,
            num_deleted_rows=len(offsets),
        )
    )
    await confirm.create_fresh(io, read.deletion_path(changed), data)
    return changed


def arrow(given: object) -> pa.Table:
    """``given`` as an Arrow table; raises `InvalidArgument` for what is none.

    A pyarrow Table, RecordBatch, RecordBatchReader or Dataset (a pylance one too), whatever else has Arrow's stream
    interface, such as a frame of pandas or polars, a list of dicts by row, or a dict of lists by column.
    """
    if isinstance(given, pa.Table):
        return given
    try:
        if isinstance(given, pa.RecordBatch):
            return pa.Table.from_batches([given])
        if isinstance(given, list) and all(isinstance(row, dict) for row in given):
            return pa.Table.from_pylist(given)
        if isinstance(given, dict) or hasattr(given, "__arrow_c_stream__"):
            return _without_views(pa.table(given))
        import pyarrow.dataset as ds  # takes a while to load, and few bring one

        if isinstance(given, ds.Dataset):
            return given.to_table()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(f"the rows are not Arrow data: {error}", clause="AMB-136") from error
    raise InvalidArgument(
        "give rows and keys as an Arrow table, a frame of pandas or polars, a list of dicts by row, or a dict of lists "
        f"by column, not as {type(given).__name__}"
    )


def _without_views(table: pa.Table) -> pa.Table:
    """``table`` with plain strings and bytes where it has views, as frames of polars do: files have no views."""
    plain = pa.schema([field.with_type(_plain(field.type)) for field in table.schema], table.schema.metadata)
    return table if plain.equals(table.schema) else table.cast(plain)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


def conform(rows: pa.Table | pa.RecordBatch, to: pa.Schema) -> pa.Table:
    """``rows`` with exactly the columns of ``to``, in its order; raises `InvalidArgument` naming what differs."""
    table = arrow(rows)
    # Else it is the usual case: a small put has nothing more that is worth leaving out.
    if not table.schema.equals(to, check_metadata=True):
        check_names(table.schema.names, to.names)
        columns = [table.column(name) for name in to.names]
        for field, column in zip(to, columns, strict=True):
            if column.type != field.type:
                reason = f"column {field.name!r} is {column.type}, the table has {field.type}"
                raise InvalidArgument(reason, clause="WRITER-015")
        table = pa.table(columns, schema=to)
    for number, field in enumerate(to):
        if not field.nullable and table.column(number).null_count:
            row = int(np.argmax(table.column(number).is_null().to_numpy()))
            raise InvalidArgument(
                f"NULL in column {field.name!r} at row {row}, which must not have it", clause="AMB-136"
            )
    return table


def check_names(given: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise `InvalidArgument` unless the columns ``given`` are those ``wanted``, each once, in any order."""
    if len(set(given)) != len(given):
        raise InvalidArgument("each column needs a name of its own", clause="AMB-136")
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    if missing or extra:
        raise InvalidArgument(
            f"the columns are not those of the table: missing {missing}, unknown {extra}", clause="WRITER-015"
        )
