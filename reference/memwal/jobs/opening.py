"""Opening a writer on a table whose specs and columns may change at any time.

Source: MemWAL revisions A and B, "Writer Expectations", "Writer Fencing".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from ..ids import Epoch
from ..index.opening import belonging, members, region_of
from ..index.snapshot import RegionRow
from ..maintained import base_index
from ..read.sequences import stored_sequences
from ..read.sources import MemoryView
from ..region import sequences
from ..region.claim import claim
from ..region.limits import Limits
from ..region.memtable import MemTable
from ..region.opening import recovered
from ..region.sequences import Comparison, SequenceBy
from ..region.writer import RegionWriter
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
    sequence: SequenceBy | None = None,
) -> tuple[RegionWriter, TableState]:
    """Claim the region of ``row``, look at the table again, and recover; returns the writer and what it goes by.

    ``state`` serves for the claim. Columns and specs are those of the version that is newest after it: a change of
    them would have to claim the region too. ``registered``, ``governed``: as of `memwal.jobs.spec_change.admit`,
    whose errors are raised, and the region stays claimed. ``sequence``: the writer compares its rows by it (AMB-148).
    What `memwal.maintained.base_index.load` and `memwal.region.sequences.checked` raise under ``state`` is raised
    before that.
    """
    if sequence is not None:
        sequences.checked(sequence, state.schema, state.primary_key)
    maintained = await base_index.load(io, state)
    manifest = await claim(region_of(io, state, row))
    # AMB-142, changes under writers: claim, then look. A change that began before the claim finds its token gone.
    newest = await spec_change.admit(io, row, registered=registered, governed=governed)
    known = newest or state
    region = region_of(io, known, row, belongs=belonging(row, known))
    maintained = await base_index.load(io, known, known=maintained)
    writer = await recovered(
        replace(region, table=io),
        manifest,
        limits=limits,
        maintained=maintained,
        comparison=None if sequence is None else _comparison(io, known, row, manifest.epoch, sequence),
    )
    return writer, known


def _comparison(io: Io, state: TableState, row: RegionRow, epoch: Epoch, sequence: SequenceBy) -> Comparison:
    """What a writer that has claimed the region of ``row`` under ``epoch`` compares its rows with."""
    of_region = members(row, state)

    async def stored(held: Sequence[MemTable], keys: bool) -> pa.Table | pa.Scalar:
        memory = MemoryView(row.region_id, epoch, tuple((each.generation, each.table()) for each in held))
        return await stored_sequences(io, sequence.column, memory, of_region, keys=keys)

    checked = sequences.checked(sequence, state.schema, state.primary_key)
    return Comparison(sequence=checked, key=state.primary_key, stored=stored)
