"""Changing a table as a whole: replacing it and going back.

Where MemWAL is enabled, either is executed again after any other commit: columns may have come or gone in it, and what
was found out about regions holds for one version only.

Source: table documents, "Overwrite" and "Restore"; AMB-87, 91, 98.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from ..errors import InvalidArgument, MemwalError, OutcomeUnknown, StorageError, Throttled
from ..ids import TableVersion
from . import schema, tags
from .collected import check_restorable
from .commit import commit
from .door import admitted, check_schema
from .fragments import arrow, write_fragments
from .state import TableState, load
from .transactions import Transaction
from .write import retried

MayReplace = Callable[[TableState], Coroutine[Any, Any, None]]
"""Raises `InvalidArgument` if the rows of a table may not be replaced (AMB-87)."""
MayRevert = Callable[[TableState, TableState], Coroutine[Any, Any, None]]
"""Raises `InvalidArgument` if a table may not go back from the first state to the second (AMB-87)."""


async def _no_mem_wal(state: TableState) -> None:
    """Without a check only tables without MemWAL are changed as a whole."""
    if state.mem_wal_entry is not None:
        raise InvalidArgument("MemWAL is enabled, and its regions were not checked", clause="AMB-87")


async def _neither_mem_wal(now: TableState, then: TableState) -> None:
    await _no_mem_wal(now)
    await _no_mem_wal(then)


@implements("TXN-028", "AMB-87", "AMB-129")
async def overwrite(
    io: Io, rows: pa.Table, config: Mapping[str, str] | None = None, may_replace: MayReplace = _no_mem_wal
) -> TableState:
    """Replace all rows and the schema; ``config``: keys to be set, the others stay.

    Where MemWAL is enabled the schema has to stay as it is, and its index keeps configuration and progress.
    """
    rows = arrow(rows)
    check_schema(rows.schema)
    given = admitted(rows, rows.schema)

    async def attempt(state: TableState) -> TableState:
        await may_replace(state)
        table, fields, metadata = given, state.fields, dict(state.manifest.message.schema_metadata)
        if state.mem_wal_entry is not None:
            table = admitted(table, state.schema)
        elif not table.schema.equals(state.schema, check_metadata=True):
            fields = schema.to_fields(table.schema, max((f.id for f in state.fields), default=-1) + 1)
            metadata = dict(table.schema.metadata or {})
        fragments = await write_fragments(io, table, schema.leaf_ids(fields), state.file_version)
        body = Transaction.Overwrite(
            fragments=fragments,
            schema=fields,
            schema_metadata={_text(key): value for key, value in metadata.items()},
            config_upsert_values=dict(config or {}),
        )
        return await commit(io, state, Transaction(overwrite=body), rebase=state.mem_wal_entry is None)

    return await retried(io, attempt)


def _text(key: str | bytes) -> str:
    return key.decode() if isinstance(key, bytes) else key


@implements("TXN-035", "AMB-87", "AMB-91", "AMB-98", "AMB-129")
async def restore(io: Io, version: TableVersion, may_revert: MayRevert = _neither_mem_wal) -> TableState:
    """Make the content of ``version`` the newest again, under a new number. Raises `NotFound` if it is not retained.

    The version is tagged meanwhile, so that no collector takes its files away: a Restore is the one commit that names
    files of a version that it is not built on. The tag stays where it cannot be known whether the commit succeeded.
    Raises `InvalidArgument` for the newest version, and for one that would need generations that were collected.
    """
    name = f"restoring-{version}-{await io.random_hex(16)}"

    async def attempt(state: TableState) -> TableState:
        earlier = await load(io, version)
        if earlier.version >= state.version:
            raise InvalidArgument(f"version {version} is not earlier than {state.version}", clause="TXN-035")
        check_restorable(state, earlier)
        await may_revert(state, earlier)
        body = Transaction(restore=Transaction.Restore(version=version))
        alone = state.mem_wal_entry is not None or earlier.mem_wal_entry is not None
        return await commit(io, state, body, rebase=not alone, source=earlier.manifest)

    await tags.create(io, name, version)
    try:
        restored = await retried(io, attempt)
    except (OutcomeUnknown, Throttled, StorageError):
        await io.note("restored_version_stays_tagged", tag=name)
        raise
    except MemwalError:
        await tags.delete(io, name)
        raise
    await tags.delete(io, name)
    return restored
