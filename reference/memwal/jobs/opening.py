"""Opening a writer on a table whose specs and columns may change at any time.

Source: MemWAL revisions A and B, "Writer Expectations", "Writer Fencing".
"""

from __future__ import annotations

from dataclasses import replace

from ..clauses import implements
from ..effects import Io
from ..index.opening import belonging, region_of
from ..index.snapshot import RegionRow
from ..maintained import base_index
from ..region import writer as writing
from ..region.claim import claim
from ..region.limits import Limits
from ..table.state import TableState
from . import spec_change


@implements("WRITER-002", "FENCE-003", "AMB-50", "AMB-142")
async def open_region(
    io: Io,
    state: TableState,
    row: RegionRow,
    *,
    limits: Limits | None = None,
    registered: bool = True,
    governed: bool = True,
) -> tuple[writing.Writer, TableState]:
    """Claim the region of ``row``, look at the table again, and recover; returns the writer and what it goes by.

    ``state`` serves for the claim. Columns and specs are those of the version that is newest after it: a change of
    them would have to claim the region too. ``registered``, ``governed``: as of `memwal.jobs.spec_change.admit`,
    whose errors are raised, and the region stays claimed. What `memwal.maintained.base_index.load` raises under
    ``state`` is raised before that.
    """
    maintained = await base_index.load(io, state)
    manifest = await claim(region_of(io, state, row))
    # AMB-142, changes under writers: claim, then look. A change that began before the claim finds its token gone.
    newest = await spec_change.admit(io, row, registered=registered, governed=governed)
    known = newest or state
    region = region_of(io, known, row, belongs=belonging(row, known))
    maintained = await base_index.load(io, known, known=maintained)
    writer = await writing.recovered(replace(region, table=io), manifest, limits=limits, maintained=maintained)
    return writer, known
