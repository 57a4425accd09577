"""Changing the columns of a table with MemWAL under running writers: adding, dropping, and going back to others.

A writer stores rows with the columns that it has read, so that all of them are held off, those of manual regions too:
see `memwal.jobs.fenced_change`. What their WAL holds is flushed before the columns change. So no entry ever meets other
columns than its own, and a generation tells the columns that it does not have from those that are NULL in it.

Source: table documents, "Merge", "Project", "Restore"; MemWAL revisions A and B, "Writer Fencing".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

import pyarrow as pa

from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, EngineBug, InvalidArgument, Outcome
from ..ids import UINT64_MAX, Generation, TableVersion
from ..index import drained, guards
from ..maintained import base_index
from ..region.opening import recovered
from ..region.region import Region
from ..table import columns, whole
from ..table.columns import Compute
from ..table.state import TableState, latest, load
from . import fenced_change
from .fenced_change import ChangeLost

Check = Callable[[TableState], Coroutine[Any, Any, None]]
"""Raises `ChangeLost` unless the change may be committed on this version."""
Commit = Callable[[Check], Coroutine[Any, Any, TableState]]
"""Makes the change; asks for each version on which it tries to commit."""


@implements("TXN-033", "AMB-50")
async def add(
    io: Io,
    new: pa.Schema,
    compute: Compute | None = None,
) -> TableState:
    """`memwal.table.columns.add` for any table; where MemWAL is enabled, all its writers are fenced.

    Rows that are not merged yet are NULL in the new columns. Where the base has a computed value for the key of one,
    merging it is refused: drain the regions before, if values are computed. Raises `InvalidArgument` (then no writer
    was fenced if a look at the table was enough to tell) and `ChangeLost`.
    """
    state = await latest(io)
    columns.check_new(state, new, computed=compute is not None)
    allowed = guards.may_add(io)

    async def commit(check: Check) -> TableState:
        return await columns.add(io, new, compute, _both(check, allowed))

    return await _held(io, state, commit)


@implements("TXN-034", "AMB-50", "AMB-66")
async def drop(io: Io, names: Sequence[str]) -> TableState:
    """`memwal.table.columns.drop` for any table; where MemWAL is enabled, all its writers are fenced.

    Rows that are not merged yet lose their values too. Raises `InvalidArgument` as `add` does, and `ChangeLost`.
    """
    state = await latest(io)
    columns.check_dropped(state, names)
    await drained.check_columns_may_change(io, state, names)
    allowed = guards.may_drop(io)

    async def commit(check: Check) -> TableState:
        return await columns.drop(io, names, _both(check, allowed))

    return await _held(io, state, commit)


def _both(check: Check, allowed: columns.MayChange) -> columns.MayChange:
    async def checked(state: TableState, names: Sequence[str]) -> Collection[int]:
        await check(state)
        return await allowed(state, names)

    return checked


@implements("TXN-035", "AMB-50", "AMB-87")
async def restore(io: Io, version: TableVersion) -> TableState:
    """`memwal.table.whole.restore` for any table; where the version has other columns, all writers are fenced.

    Other region specs, another key or revision, or no MemWAL, count as other columns do. Raises `InvalidArgument`,
    `NotFound` and `ChangeLost`.
    """
    state, earlier = await latest(io), await load(io, version)
    reverted = guards.may_revert(io)
    if guards.same_ground(state, earlier):

        async def unmoved(now: TableState, then: TableState) -> None:
            if not guards.same_ground(now, then):
                raise ChangeLost("the columns of the table were changed")
            await reverted(now, then)

        return await whole.restore(io, version, unmoved)

    async def commit(check: Check) -> TableState:
        async def checked(now: TableState, then: TableState) -> None:
            await check(now)
            await reverted(now, then)

        return await whole.restore(io, version, checked)

    return await _held(io, state, commit)


async def _held(io: Io, state: TableState, commit: Commit) -> TableState:
    """Commit while every region is held, with all its rows flushed; at once where there are no writers to hold off."""
    if not io.interpretation.fence_before_new_columns:
        return await commit(_anything)
    if state.mem_wal_entry is None:
        return await commit(_without_mem_wal)
    # AMB-142, running writers: the token first, the claims after it, so that no writer slips between.
    token = await fenced_change.begin(io)

    async def check(current: TableState) -> None:
        fenced_change.check_token(token, current.mem_wal)
        rows = await fenced_change.all_regions(io, current)
        fenced_change.check_unmoved(epochs, rows.values())

    try:
        state = await latest(io)
        rows = await fenced_change.all_regions(io, state)
        settle = _flushing(io, token, state, tuple(await base_index.load(io, state)))
        epochs = await fenced_change.hold(io, token, state, rows.values(), settle)
        changed = await commit(check)
    except (Outcome, InvalidArgument, ArtifactError):
        await _end(io, token)
        raise
    await _end(io, token)
    return changed


async def _end(io: Io, token: str) -> None:
    """Remove the token, whatever came of the change; where that fails, the next writer does it."""
    try:
        await fenced_change.end(io, token)
    except (Outcome, InvalidArgument) as failure:
        await io.note("token_left", reason=str(failure))


async def _anything(_: TableState) -> None:
    """No writer is fenced (literal)."""


async def _without_mem_wal(state: TableState) -> None:
    if state.mem_wal_entry is not None:
        raise ChangeLost("MemWAL was enabled")


def _flushing(
    io: Io, token: str, state: TableState, maintained: Sequence[base_index.MaintainedIndex]
) -> fenced_change.Settle:
    """Flush what the region's WAL holds, in the columns of ``state``. A sealed region cannot be: it has to be empty."""

    async def settle(region: Region, manifest: RegionManifest) -> None:
        # As for every claimant: while the token stands after the claim, the columns have not changed since.
        await fenced_change.check_begun(io, token)
        if not manifest.sealed:
            writer = await recovered(region, manifest, maintained=maintained)
            await writer.flush()
            if writer.frozen or writer.memtable.rows:
                raise EngineBug(f"columns are to change, and region {region.region_id} has rows that were not flushed")
            return
        reason = await drained.undrained_reason(region.io, manifest, Generation(UINT64_MAX), state)
        if reason:
            raise InvalidArgument(f"region {region.region_id} is sealed, and {reason}", clause="AMB-50")

    return settle
