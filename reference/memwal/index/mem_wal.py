"""The MemWAL index of a table: enabling it, and changing it by field-wise read-modify-write.

Source: MemWAL revisions A and B, "MemWAL Index Details"; AMB-05, 52, 69, 76, 135.
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
from ..ids import Milliseconds
from ..revisions import R
from ..table.commit import commit
from ..table.state import TableState
from ..table.write import retried
from . import snapshot
from .snapshot import StoredSnapshot

Transaction = transaction_pb2.Transaction

Change = Callable[[TableState, IndexDetails], Coroutine[Any, Any, "IndexDetails | StoredSnapshot | None"]]
"""Derives new details from those of the given version; None means that nothing is to be changed.

`StoredSnapshot` details carry a new snapshot; without it the snapshot stays as it is, wherever it is.
"""


@implements("INDEX-001", "AMB-05", "AMB-135")
def may_enable(state: TableState) -> None:
    """Raise `InvalidArgument` for a table that has a MemWAL index, unless it is one of revision 0 and all is merged."""
    if state.mem_wal_entry is not None and not state.mem_wal.records_0:
        raise InvalidArgument("MemWAL is already enabled on this table", clause="INDEX-001")


@implements("INDEX-001", "INDEX-010", "AMB-05", "AMB-135")
async def enable(io: Io, state: TableState, details: IndexDetails) -> TableState:
    """Add the MemWAL index to a table that has none and whose schema has a primary key.

    An index of revision 0 whose records are all merged is dropped in the same commit. Of two that enable MemWAL at once
    one gets a `Conflict`.
    """
    may_enable(state)
    if not state.primary_key:
        raise InvalidArgument(
            "MemWAL needs an unenforced primary key in the schema: name its columns in primary_key", clause="FORMAT-001"
        )
    entry = _entry(table_pb2.IndexMetadata(name=INDEX_NAME), details, await _fresh(io), await io.now())
    return await commit(io, state, _replacing(state.mem_wal_entry, entry))


@implements("INDEX-020", "INDEX-021", "AMB-52", "AMB-69")
async def change(io: Io, derive: Change) -> TableState:
    """Commit what ``derive`` makes of the newest details; on a conflict it is asked again with newer ones.

    ``derive`` changes only the fields that its caller owns, so that no progress of another process is lost.
    """
    first: list[IndexDetails | StoredSnapshot | None] = []

    async def attempt(state: TableState) -> TableState:
        if io.interpretation.rebase_index_fields or not first:
            first[:] = [await derive(state, state.mem_wal)]
        (derived,) = first
        if derived is None:
            return state
        before = state.mem_wal_entry
        assert before is not None
        if isinstance(derived, StoredSnapshot):
            details, index = derived.details, derived.index
        else:
            # A snapshot file is found by the UUID of the index, so that both stay together.
            external = snapshot.is_external(derived, state.revision)
            details, index = derived, before.uuid.uuid if external else None
        entry = _entry(before, details, index or await _fresh(io), await io.now())
        return await commit(io, state, _replacing(before, entry))

    return await retried(io, attempt)


async def _fresh(io: Io) -> bytes:
    return uuid.UUID(hex=await io.random_hex(32), version=4).bytes


@implements("AMB-76")
def _entry(
    before: table_pb2.IndexMetadata, details: IndexDetails, index: bytes, now_ms: Milliseconds
) -> table_pb2.IndexMetadata:
    """The entry ``before`` with other details, under the UUID ``index``; what else it holds is kept."""
    entry = table_pb2.IndexMetadata()
    entry.CopyFrom(before)
    entry.uuid.uuid = index
    entry.index_details.type_url = TYPE_URL
    entry.index_details.value = index_details.encode(details, R)
    entry.index_version = 0
    entry.created_at = now_ms
    entry.ClearField("dataset_version")
    return entry


def _replacing(before: table_pb2.IndexMetadata | None, entry: table_pb2.IndexMetadata) -> Transaction:
    removed = [before] if before is not None else []
    return Transaction(create_index=Transaction.CreateIndex(new_indices=[entry], removed_indices=removed))
