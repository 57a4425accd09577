"""Carrying a transaction over another one that was committed first.

Most transactions are applied to the newer version as they are. Two that delete rows of one fragment are compared row by
row: if none is in both, ours gets a deletion file that holds the rows of both.

Source: table documents, "Rebase Mechanism"; AMB-123.
"""

from __future__ import annotations

import numpy as np

from ..clauses import implements
from ..codec.deletion import Offsets
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import ArtifactError
from . import transactions
from .draft import copied_fragment
from .fragments import write_deletions
from .read import deleted_offsets
from .state import TableState
from .transactions import Transaction, operation


@implements("TXN-047", "TXN-050", "TXN-052", "TXN-053", "TXN-056", "TXN-057", "AMB-123")
async def onto(
    io: Io, base: TableState, winner: TableState, ours: Transaction, theirs: Transaction
) -> Transaction | None:
    """``ours``, which was prepared on ``base``, as it has to be on ``winner``, which ``theirs`` made of it.

    The very same transaction if nothing in it changes. None if both delete a row or a fragment's files changed: then
    the operation has to be executed again. The caller has asked the conflict table.
    """
    both = transactions.touched(ours) & transactions.touched(theirs)
    mine = transactions.updated(ours)
    if not both or not mine:
        return ours
    merged: dict[int, Offsets] = {}
    for number in sorted(both):
        offsets = await _merged(io, number, base, winner, mine[number])
        if offsets is None:
            return None
        merged[number] = offsets
    return await _carried(io, winner, ours, merged)


def fragment_of(version: TableState, number: int) -> table_pb2.DataFragment:
    """Fragment ``number`` as ``version`` has it."""
    for fragment in version.fragments:
        if fragment.id == number:
            return fragment
    raise ArtifactError("TXN-051", version.path, f"fragment {number} is gone, and its transaction does not say so")


async def _merged(
    io: Io, number: int, base: TableState, winner: TableState, ours: table_pb2.DataFragment
) -> Offsets | None:
    """All rows of a fragment that are deleted in ``winner`` or by ours; None if a row is in both (TXN-057)."""
    before, now = fragment_of(base, number), fragment_of(winner, number)
    if not list(before.files) == list(now.files) == list(ours.files):
        return None
    known = await deleted_offsets(io, before, base)
    theirs = await deleted_offsets(io, now, winner)
    mine = np.setdiff1d(await deleted_offsets(io, ours, winner), known)
    if len(np.intersect1d(mine, theirs)):
        return None
    return np.union1d(theirs, mine)


async def _carried(io: Io, winner: TableState, ours: Transaction, merged: dict[int, Offsets]) -> Transaction:
    """``ours`` with the ``merged`` rows as deletion files; a fragment without live rows is removed."""
    carried = Transaction()
    carried.CopyFrom(ours)
    carried.read_version = winner.version
    updated, gone = [], []
    for number, fragment in transactions.updated(ours).items():
        if number not in merged:
            updated.append(copied_fragment(fragment))
        elif len(merged[number]) == fragment.physical_rows:
            gone.append(number)
        else:
            updated.append(await write_deletions(io, fragment_of(winner, number), merged[number], winner.version))
    body = carried.delete if operation(carried) == "delete" else carried.update
    del body.updated_fragments[:]
    body.updated_fragments.extend(updated)
    if operation(carried) == "delete":
        carried.delete.deleted_fragment_ids.extend(gone)
    else:
        carried.update.removed_fragment_ids.extend(gone)
    return carried
