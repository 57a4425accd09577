"""Operations on the rows of a table: create, append, delete, and the upsert that a merge is.

Each prepares files, then commits one transaction. A retryable conflict re-executes the operation on the newest
version.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import confirm, paths
from ..clauses import implements
from ..codec import data_file, deletion
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..effects import Io
from ..errors import AlreadyExists, Conflict, InvalidArgument
from ..ids import Generation, RegionId, region_id_to_bytes
from ..keys import among
from ..revisions import STRICT, Interpretation
from . import read, schema
from .commit import commit
from .state import TableState, check_writable, latest, versions

Transaction = transaction_pb2.Transaction

FRAGMENT_ROWS = 1 << 20
"""Most rows in one fragment that the engine writes."""
CONFLICT_ATTEMPTS = 100
"""Re-executions of an operation after retryable conflicts before the conflict is reported."""


@implements("FORMAT-017", "FORMAT-018", "FORMAT-019")
def fragment_message(
    table: pa.Table,
    name: str,
    size_bytes: int,
    field_ids: Sequence[int],
    version: data_file.FileVersion = data_file.FILE_VERSION,
) -> table_pb2.DataFragment:
    """Fragment of one data file ``name`` that holds ``table`` with the leaf fields ``field_ids``."""
    file = table_pb2.DataFile(
        path=name,
        fields=field_ids,
        column_indices=range(len(field_ids)),
        file_major_version=version[0],
        file_minor_version=version[1],
        file_size_bytes=size_bytes,
    )
    return table_pb2.DataFragment(files=[file], physical_rows=table.num_rows)


async def write_fragments(
    io: Io, table: pa.Table, field_ids: Sequence[int], version: data_file.FileVersion = data_file.FILE_VERSION
) -> list[table_pb2.DataFragment]:
    """Write ``table`` as data files of at most `FRAGMENT_ROWS` rows; ids are assigned at commit. Empty: no fragment.

    ``version``: the table's file version; pylance opens no table with mixed ones.
    """
    fragments = []
    for start in range(0, table.num_rows, FRAGMENT_ROWS):
        part = table.slice(start, FRAGMENT_ROWS)
        name = f"{await io.random_hex(32)}.lance"
        data = data_file.encode(part, version)
        await confirm.create(io, paths.data_file(name), data)
        fragments.append(fragment_message(part, name, len(data), field_ids, version))
    return fragments


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
    await confirm.create(io, read.deletion_path(changed), data)
    return changed


def conform(table: pa.Table, to: pa.Schema) -> pa.Table:
    """``table`` with exactly the columns of ``to``, in its order; raises `InvalidArgument` naming what differs."""
    if len(set(table.schema.names)) != table.num_columns:
        raise InvalidArgument("column names are not unique", clause="AMB-136")
    missing = [n for n in to.names if n not in table.schema.names]
    extra = [n for n in table.schema.names if n not in to.names]
    if missing or extra:
        raise InvalidArgument(f"columns do not match: missing {missing}, not known {extra}", clause="WRITER-015")
    for field in to:
        column = table.column(field.name)
        if column.type != field.type:
            reason = f"column {field.name!r} is {column.type}, the table has {field.type}"
            raise InvalidArgument(reason, clause="WRITER-015")
        if not field.nullable and column.null_count:
            row = int(np.argmax(column.is_null().to_numpy()))
            raise InvalidArgument(f"NULL in column {field.name!r} at row {row}, which has none", clause="AMB-136")
    return pa.table([table.column(n) for n in to.names], schema=to)


async def create(
    io: Io, schema_arrow: pa.Schema, rows: pa.Table | None = None, config: Mapping[str, str] | None = None
) -> TableState:
    """Create the table at ``io`` with version 1. Raises `AlreadyExists` if there is one.

    A table that is there already is left as it is; one that another process creates meanwhile gets files that it
    does not name.
    """
    if await versions(io):
        raise AlreadyExists(io.path(paths.VERSIONS))
    fields = schema.to_fields(schema_arrow)
    fragments = await write_fragments(io, conform(rows, schema_arrow), schema.leaf_ids(fields)) if rows else []
    body = Transaction.Overwrite(
        fragments=fragments,
        schema=fields,
        schema_metadata={k.decode(): v for k, v in (schema_arrow.metadata or {}).items()},
        config_upsert_values=dict(config or {}),
    )
    return await commit(io, None, Transaction(overwrite=body))


async def retried(io: Io, attempt: Callable[[TableState], Coroutine[Any, Any, TableState]]) -> TableState:
    """Run ``attempt`` on the newest version, and on the newest again after a retryable conflict."""
    for left in reversed(range(CONFLICT_ATTEMPTS)):
        current = await latest(io)
        check_writable(current)
        try:
            return await attempt(current)
        except Conflict as conflict:
            if not conflict.retryable or not left:
                raise
    raise AssertionError("unreachable")


@implements("TXN-043")
async def set_config(io: Io, values: Mapping[str, str]) -> TableState:
    """Set keys of the table config; nothing is committed if they have these values already."""

    async def attempt(state: TableState) -> TableState:
        if values.items() <= state.config.items():
            return state
        body = Transaction.UpdateConfig()
        for key, value in sorted(values.items()):
            body.config_updates.update_entries.add(key=key, value=value)
        return await commit(io, state, Transaction(update_config=body))

    return await retried(io, attempt)


async def append(io: Io, rows: pa.Table) -> TableState:
    """Add rows without looking at keys."""

    async def attempt(state: TableState) -> TableState:
        fragments = await write_fragments(
            io, conform(rows, state.schema), schema.leaf_ids(state.fields), state.file_version
        )
        return await commit(io, state, Transaction(append=Transaction.Append(fragments=fragments)))

    return await retried(io, attempt)


@implements("TXN-026", "TXN-027")
async def delete(io: Io, select: Callable[[pa.Table], npt.NDArray[np.bool_]], predicate: str) -> TableState:
    """Delete the rows for which ``select`` (given all live rows, in scan order) is true; ``predicate`` is recorded."""

    async def attempt(state: TableState) -> TableState:
        rows = await read.scan(io, state, with_row_address=True)
        addresses = rows.column(read.ROW_ADDRESS).to_numpy()[select(rows.drop_columns([read.ROW_ADDRESS]))]
        updated, removed = await _masked(io, state, addresses)
        body = Transaction.Delete(updated_fragments=updated, deleted_fragment_ids=removed, predicate=predicate)
        return await commit(io, state, Transaction(delete=body))

    return await retried(io, attempt)


async def _masked(
    io: Io, state: TableState, addresses: npt.NDArray[np.uint64]
) -> tuple[list[table_pb2.DataFragment], list[int]]:
    """Fragments of ``state`` after deleting the rows at ``addresses``: the changed ones, and ids of emptied ones."""
    by_fragment = (addresses >> np.uint64(32)).astype(np.int64)
    updated, removed = [], []
    for fragment in state.fragments:
        offsets = (addresses[by_fragment == fragment.id] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        if not len(offsets):
            continue
        deleted = np.union1d(await read.deleted_offsets(io, fragment), offsets)
        if len(deleted) == fragment.physical_rows:
            removed.append(fragment.id)
        else:
            updated.append(await write_deletions(io, fragment, deleted, state.version))
    return updated, removed


@implements("MERGE-002", "MERGE-006", "TXN-040")
async def merge_insert(
    io: Io,
    state: TableState,
    rows: pa.Table,
    *,
    delete_keys: pa.Table | None = None,
    progress: Sequence[tuple[RegionId, Generation]] = (),
    interpretation: Interpretation = STRICT,
) -> TableState:
    """Upsert ``rows`` by primary key in one transaction built on ``state``, together with merge progress.

    ``rows``: at most one row per key, schema of the table. ``delete_keys``: keys whose rows go, with the key columns
    only. Raises `Conflict` and `AlreadyMerged` as `commit` does: nothing is retried here.
    """
    key = list(state.primary_key)
    keys = rows.select(key)
    if delete_keys is not None and delete_keys.num_rows:
        keys = pa.concat_tables([keys, delete_keys.select(key)])
    base = await read.scan(io, state, columns=key, with_row_address=True)
    matched = among(base, keys)
    updated, removed = await _masked(io, state, matched.column(read.ROW_ADDRESS).to_numpy())
    leaves = schema.leaf_ids(state.fields)
    new = await write_fragments(io, conform(rows, state.schema), leaves, state.file_version)
    merged = [_merged_message(region, generation) for region, generation in progress]
    body = Transaction.Update(
        updated_fragments=updated,
        removed_fragment_ids=removed,
        new_fragments=new,
        merged_generations=merged,
        fields_modified=[],
        update_mode=Transaction.UpdateMode.REWRITE_ROWS,
    )
    return await commit(io, state, Transaction(update=body), interpretation=interpretation)


def _merged_message(region: RegionId, generation: Generation) -> Any:
    message = Transaction.Update().merged_generations.add()
    message.region_id.uuid = region_id_to_bytes(region)
    message.generation = generation
    return message
