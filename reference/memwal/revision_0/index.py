"""The MemWAL index of revision 0 in a table: reading its records, and changing them by compare-and-swap.

Source: MemWAL revision 0, "Index Details"; AMB-04, 05.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from ..clauses import implements
from ..codec.index_details import INDEX_NAME, TYPE_URL
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..effects import Io
from ..errors import InvalidArgument
from ..ids import TableVersion
from ..table.commit import commit
from ..table.state import TableState
from ..table.write import retried
from . import records
from .records import Records

Transaction = transaction_pb2.Transaction

Step = Callable[[Records, TableVersion], Records]
"""Derives new records; the second argument is the version that the commit will produce."""


def of(state: TableState) -> Records:
    """The records in ``state``; raises `ArtifactError`, and `InvalidArgument` for a table without a MemWAL index."""
    entry = state.mem_wal_entry
    if entry is None:
        raise InvalidArgument(f"{state.path}: the table has no MemWAL index", clause="LEGACY-001")
    return records.decode(entry.index_details.value, state.path)


@implements("LEGACY-001", "LEGACY-019", "LEGACY-021")
async def change(io: Io, step: Step) -> TableState:
    """Commit what ``step`` makes of the newest records; asked again when another commit was first.

    Nothing is rebased: the records name the version that they are committed in.
    """

    async def attempt(state: TableState) -> TableState:
        before = state.mem_wal_entry
        found = of(state) if before is not None else ()
        derived = step(found, TableVersion(state.version + 1))
        if derived == found and before is not None:
            return state
        entry = table_pb2.IndexMetadata(name=INDEX_NAME)
        entry.uuid.uuid = uuid.UUID(hex=await io.random_hex(32), version=4).bytes
        entry.index_details.type_url = TYPE_URL
        entry.index_details.value = records.encode(derived)
        entry.created_at = await io.now()
        body = Transaction.CreateIndex(new_indices=[entry], removed_indices=[before] if before is not None else [])
        return await commit(io, state, Transaction(create_index=body), rebase=False)

    return await retried(io, attempt)
