"""The MemWAL index of a table: enabling it, and changing it by field-wise read-modify-write.

Source: MemWAL revisions A and B, "MemWAL Index Details"; AMB-05, 52, 69.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from ..clauses import implements
from ..codec import index_details
from ..codec.index_details import INDEX_NAME, TYPE_URL, IndexDetails
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..effects import Io
from ..errors import InvalidArgument
from ..revisions import R
from ..table.commit import commit
from ..table.state import TableState
from ..table.write import retried

Transaction = transaction_pb2.Transaction

Change = Callable[[TableState, IndexDetails], Coroutine[Any, Any, IndexDetails | None]]
"""Derives new details from those of the given version; None means that nothing is to be changed."""


@implements("INDEX-001", "INDEX-010", "AMB-05")
async def enable(io: Io, state: TableState, details: IndexDetails) -> TableState:
    """Add the MemWAL index to a table that has none and whose schema has a primary key."""
    if state.mem_wal_entry is not None:
        raise InvalidArgument("MemWAL is already enabled on this table", clause="INDEX-001")
    if not state.primary_key:
        raise InvalidArgument("MemWAL needs an unenforced primary key in the schema", clause="FORMAT-001")
    return await commit(io, state, await _replacing(io, None, details))


@implements("INDEX-020", "INDEX-021", "AMB-69")
async def change(io: Io, derive: Change) -> TableState:
    """Commit what ``derive`` makes of the newest details; on a conflict it is asked again with newer ones.

    ``derive`` changes only the fields that its caller owns, so that nobody's progress is lost.
    """

    async def attempt(state: TableState) -> TableState:
        details = await derive(state, state.mem_wal)
        if details is None:
            return state
        return await commit(io, state, await _replacing(io, state.mem_wal_entry, details))

    return await retried(io, attempt)


async def _replacing(io: Io, before: table_pb2.IndexMetadata | None, details: IndexDetails) -> Transaction:
    """A CreateIndex transaction that replaces the index entry; each build has a UUID of its own (AMB-76)."""
    entry = table_pb2.IndexMetadata(name=INDEX_NAME)
    entry.uuid.uuid = uuid.UUID(hex=await io.random_hex(32), version=4).bytes
    entry.index_details.type_url = TYPE_URL
    entry.index_details.value = index_details.encode(details, R)
    entry.index_version = 0
    entry.created_at = await io.now()
    body = Transaction.CreateIndex(new_indices=[entry], removed_indices=[before] if before is not None else [])
    return Transaction(create_index=body)
