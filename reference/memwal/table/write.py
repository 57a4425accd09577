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

from .. import cellwise, paths
from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import AlreadyExists, Conflict, InvalidArgument, check_name
from ..ids import FieldId, Generation, RegionId
from ..words import counted
from . import coverage, read
from . import schema as schemas
from .commit import commit
from .door import admitted, check_schema
from .fragments import FRAGMENT_ROWS, arrow, conform, fragment_message, write_deletions, write_fragments
from .state import TableState, check_writable, latest, versions
from .transactions import Transaction
from .upsert import TableSource, begin, merged_message, upsert

__all__ = [
    "CONFLICT_ATTEMPTS", "FRAGMENT_ROWS", "append", "arrow", "conform", "create", "delete", "drop_index",
    "fragment_message", "merge_insert", "record_progress", "retried", "set_config", "update", "update_metadata",
    "write_deletions", "write_fragments",
]  # fmt: skip

CONFLICT_ATTEMPTS = 100
"""Re-executions of an operation after retryable conflicts before the conflict is reported."""


async def create(
    io: Io, schema_arrow: pa.Schema, rows: pa.Table | None = None, config: Mapping[str, str] | None = None
) -> TableState:
    """Create the table at ``io`` with version 1. Raises `AlreadyExists` if there is one.

    A table that is there already is left as it is; one that another process creates meanwhile gets files that it
    does not name.
    """
    if await versions(io):
        raise AlreadyExists(io.path(paths.VERSIONS))
    check_schema(schema_arrow)
    fields = schemas.to_fields(schema_arrow)
    fragments = await write_fragments(io, admitted(rows, schema_arrow), schemas.leaf_ids(fields)) if rows else []
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
            await io.note("executed_again", theirs=conflict.theirs)
    raise AssertionError("unreachable")


@implements("TXN-043")
async def set_config(io: Io, values: Mapping[str, str]) -> TableState:
    """Set keys of the table config; nothing is committed if they have these values already."""

    async def attempt(state: TableState) -> TableState:
        return state if values.items() <= state.config.items() else await with_config(io, state, values)

    return await retried(io, attempt)


async def with_config(io: Io, state: TableState, values: Mapping[str, str]) -> TableState:
    """Commit ``state`` with other values of these keys of the table config."""
    body = Transaction.UpdateConfig()
    for key, value in sorted(values.items()):
        body.config_updates.update_entries.add(key=key, value=value)
    return await commit(io, state, Transaction(update_config=body))


Changes = Mapping[str, str | None]
"""Values by key; None removes the key."""


@implements("TXN-043")
async def update_metadata(
    io: Io,
    *,
    config: Changes | None = None,
    table: Changes | None = None,
    schema: Changes | None = None,
    fields: Mapping[FieldId, Changes] | None = None,
) -> TableState:
    """Change keys of the table config and of the metadata of the table, its schema and its fields (by id)."""
    body = Transaction.UpdateConfig()
    maps = [
        (body.config_updates, config),
        (body.table_metadata_updates, table),
        (body.schema_metadata_updates, schema),
        *((body.field_metadata_updates[number], changes) for number, changes in sorted((fields or {}).items())),
    ]
    for update, changes in maps:
        for key, value in sorted((changes or {}).items()):
            update.update_entries.add(key=key, value=value)
    key_changes = any(schemas.PRIMARY_KEY.decode() in changes for changes in (fields or {}).values())

    async def attempt(state: TableState) -> TableState:
        if key_changes and state.mem_wal_entry is not None:
            reason = "MemWAL is enabled: its regions and their writers go by the key, which stays as it is"
            raise InvalidArgument(reason, clause="AMB-55")
        return await commit(io, state, Transaction(update_config=body), rebase=not key_changes)

    return await retried(io, attempt)


@implements("TXN-029")
async def drop_index(io: Io, name: str) -> TableState:
    """Drop the index ``name`` over columns. Raises `InvalidArgument` if there is none."""

    async def attempt(state: TableState) -> TableState:
        removed = coverage.segments(state, name)
        if not removed:
            check_name("index", name, coverage.index_names(state), clause="TXN-029")
        return await commit(io, state, Transaction(create_index=Transaction.CreateIndex(removed_indices=removed)))

    return await retried(io, attempt)


@implements("TXN-045", "AMB-86")
async def record_progress(io: Io, progress: Sequence[tuple[RegionId, Generation]]) -> TableState:
    """Record merge progress without rows, for generations that hold none. Raises `AlreadyMerged`."""
    merged = [merged_message(region, generation) for region, generation in progress]
    body = Transaction(update_mem_wal_state=Transaction.UpdateMemWalState(merged_generations=merged))
    return await retried(io, lambda state: commit(io, state, body))


async def append(io: Io, rows: pa.Table) -> TableState:
    """Add rows without looking at keys."""

    async def attempt(state: TableState) -> TableState:
        fragments = await write_fragments(
            io, admitted(rows, state.schema), schemas.leaf_ids(state.fields), state.file_version
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


@implements("TXN-039", "TXN-040", "TXN-042")
async def update(
    io: Io, select: Callable[[pa.Table], npt.NDArray[np.bool_]], compute: Callable[[pa.Table], pa.Table]
) -> TableState:
    """Give the rows for which ``select`` is true the values that ``compute`` makes of them (REWRITE_ROWS).

    ``select`` gets all live rows and ``compute`` the selected ones, in scan order; it returns as many, with all
    columns, and leaves key columns as they are. Costs a deletion file for each fragment with such rows, and their
    copies: `columns.recompute` is for values of most rows in few columns.
    """

    async def attempt(state: TableState) -> TableState:
        rows = await read.scan(io, state, with_row_address=True)
        chosen = cellwise.where(rows, select(rows.drop_columns([read.ROW_ADDRESS])))
        addresses = chosen.column(read.ROW_ADDRESS).to_numpy()
        before = chosen.drop_columns([read.ROW_ADDRESS])
        after = admitted(compute(before), state.schema)
        if after.num_rows != before.num_rows:
            reason = f"{counted(after.num_rows, 'row')} for the {before.num_rows} that were selected"
            raise InvalidArgument(reason, clause="TXN-039")
        moved = [name for name in state.primary_key if not after.column(name).equals(before.column(name))]
        if moved:
            raise InvalidArgument(f"key columns {moved} cannot be updated", clause="TXN-039")
        if not before.num_rows:
            return state
        updated, removed = await _masked(io, state, addresses)
        new = await write_fragments(io, after, schemas.leaf_ids(state.fields), state.file_version)
        body = Transaction.Update(updated_fragments=updated, removed_fragment_ids=removed, new_fragments=new)
        return await commit(io, state, Transaction(update=body))

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
        deleted = np.union1d(await read.deleted_offsets(io, fragment, state), offsets)
        if len(deleted) == fragment.physical_rows:
            removed.append(fragment.id)
        else:
            updated.append(await write_deletions(io, fragment, deleted, state.version))
    return updated, removed


async def merge_insert(
    io: Io,
    state: TableState,
    rows: pa.Table,
    *,
    delete_keys: pa.Table | None = None,
    progress: Sequence[tuple[RegionId, Generation]] = (),
) -> TableState:
    """Upsert ``rows`` by primary key in one transaction built on ``state``, together with merge progress.

    ``rows``: at most one row per key, schema of the table. ``delete_keys``: keys whose rows go, with the key columns
    only. Raises `Conflict` and `AlreadyMerged` as `commit` does: nothing is retried here.
    """
    key = list(state.primary_key)
    keys = rows.select(key)
    if delete_keys is not None and delete_keys.num_rows:
        keys = pa.concat_tables([keys, delete_keys.select(key)])
    source = TableSource(path=io.root, table=conform(rows, state.schema), keys=keys)
    work = begin(source, state)
    return await upsert(io, state, work, progress=progress)
