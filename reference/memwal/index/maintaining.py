"""Changing which base indexes MemTables and generations carry too.

Source: MemWAL revisions A and B, "MemWAL Index Details"; AMB-48, 71, 142.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..clauses import implements
from ..codec.index_details import IndexCatchup, IndexDetails
from ..effects import Io
from ..ids import Generation
from ..maintained import base_index
from ..table.coverage import uncovered
from ..table.state import TableState
from . import mem_wal


@implements("INDEX-016", "INDEX-021", "AMB-48", "AMB-71", "AMB-142")
async def maintain(io: Io, names: Sequence[str]) -> TableState:
    """Make ``names`` the maintained indexes of the table at ``io``; returns the version that says so.

    Writers pick them up with their next MemTable, and generations that are there already stay as they are: no writer
    is fenced. An index that becomes maintained gets an explicit catch-up entry for every region that has merged. Raises
    `InvalidArgument` for an index that is not there or that a MemTable cannot carry.
    """
    wanted = tuple(dict.fromkeys(names))

    async def derive(state: TableState, details: IndexDetails) -> IndexDetails | None:
        await base_index.load(io, state, wanted)
        changed = replace(details, maintained_indexes=wanted)
        for name in wanted:
            changed = _with_entry(state, changed, name)
        return changed if changed != details else None

    return await mem_wal.change(io, derive)


@implements("AMB-71")
def _with_entry(state: TableState, details: IndexDetails, name: str) -> IndexDetails:
    """``details`` with a catch-up entry of the index ``name`` that lacks none of the regions that have merged.

    A region that is added counts as caught up if the index covers the whole base, else as not at all.
    """
    known = {entry.index_name: entry for entry in details.catchup}
    entry = known.get(name, IndexCatchup(index_name=name, generations=()))
    listed = dict(entry.generations)
    whole = not uncovered(state, name)
    added = tuple(
        (region, merged if whole else Generation(0)) for region, merged in details.merged if region not in listed
    )
    if not added:
        return details
    known[name] = replace(entry, generations=(*entry.generations, *added))
    return replace(details, catchup=tuple(known.values()))
