"""What regions forbid: checks for the operations that change a table as a whole or take columns from it.

`memwal.table` does not know regions and takes these as parameters: ``whole.restore(io, version, may_revert(io))``.
Source: AMB-50, 55, 66, 87, 91, 129.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .. import paths
from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import InvalidArgument, NotFound
from ..ids import UINT64_MAX, Generation, RegionId
from ..region import manifest as manifests
from ..region.rows import TOMBSTONE
from ..table.columns import MayChange
from ..table.state import TableState, latest
from ..table.whole import MayReplace, MayRevert
from . import drained
from .discovery import discover


@implements("AMB-87", "AMB-129")
def may_replace(io: Io) -> MayReplace:
    """An Overwrite needs every region drained: rows that are merged later would come on top of the new ones."""

    async def check(state: TableState) -> None:
        if state.mem_wal_entry is not None:
            await drained.check_drained(io, state, "an Overwrite")

    return check


@implements("AMB-87", "AMB-91", "AMB-129")
def may_revert(io: Io) -> MayRevert:
    """A Restore undoes edits of the base table, and no MemWAL writes: what was merged since is merged again.

    So every generation above the progress of the earlier version has to be there. Across a change of key, region specs
    or revision, or of whether MemWAL is enabled, every region has to be drained instead.
    """

    async def check(now: TableState, then: TableState) -> None:
        if now.mem_wal_entry is None and then.mem_wal_entry is None:
            return
        if _configuration(now) != _configuration(then):
            looked_at = now if now.mem_wal_entry is not None else then
            what = "a Restore across a change of key, region specs or revision"
            await drained.check_drained(io, looked_at, what)
        if then.mem_wal_entry is None:
            return
        if _columns(now) != _columns(then) and now.mem_wal_entry is not None:
            await _check_flushed(io, now, "a Restore across a change of columns needs empty WALs")
        for region, manifest in (await discover(io, then.revision)).items():
            await _check_generations(io, now, then, region, manifest)

    return check


def same_ground(now: TableState, then: TableState) -> bool:
    """Whether an open writer may continue when the table goes from one state to the other: same columns, key, specs."""
    return _columns(now) == _columns(then) and _configuration(now) == _configuration(then)


def _columns(state: TableState) -> object:
    """What rows in a WAL have in common with the table; None where there is no WAL."""
    if state.mem_wal_entry is None:
        return None
    return [(field.id, field.parent_id, field.name, field.logical_type, field.nullable) for field in state.fields]


def _configuration(state: TableState) -> object:
    """What may not differ between two versions whose regions are not drained."""
    if state.mem_wal_entry is None:
        return None
    key = tuple((name, state.field_ids[name]) for name in state.primary_key)
    return key, sorted(state.mem_wal.specs, key=lambda spec: spec.spec_id), state.revision.name


async def _check_generations(
    io: Io, now: TableState, then: TableState, region: RegionId, manifest: RegionManifest
) -> None:
    """Raise `InvalidArgument` unless the region has each generation that would have to be merged again."""
    progress = then.mem_wal.progress(region)
    merged = now.mem_wal.progress(region) if now.mem_wal_entry is not None else progress
    listed = {generation.generation: generation.path for generation in manifest.flushed}
    folder = manifests.folder(io, region)
    for number in range(progress + 1, max(merged, *listed, progress) + 1):
        path = listed.get(Generation(number))
        if path is None or not await folder.list(f"{path}/{paths.VERSIONS}"):
            reason = f"version {then.version} has merged region {region} up to generation {progress}"
            raise InvalidArgument(f"{reason}, and generation {number} is gone", clause="AMB-87")


@implements("AMB-50")
def may_add(io: Io) -> MayChange:
    """Columns are added only while no region has unflushed entries: recovery takes those in the table's own schema.

    Returns the field ids in generations: one of a dropped column would bring back its values.
    """

    async def check(state: TableState, names: Sequence[str]) -> Collection[int]:
        if state.mem_wal_entry is None:
            return ()
        await _check_flushed(io, state, f"columns {list(names)} cannot come or go")
        return await _ids_in_generations(io, state)

    return check


@implements("AMB-50", "AMB-55", "AMB-66")
def may_drop(io: Io) -> MayChange:
    """As `may_add`; key columns stay, and a source of a region spec goes only once that spec's regions are drained."""

    async def check(state: TableState, names: Sequence[str]) -> Collection[int]:
        await drained.check_columns_may_change(io, state, names)
        if state.mem_wal_entry is not None:
            await _check_flushed(io, state, f"columns {list(names)} cannot come or go")
        return ()

    return check


async def _check_flushed(io: Io, state: TableState, what: str) -> None:
    """Raise `InvalidArgument` unless every entry of every region's WAL is flushed; ``what``: the reason begins so."""
    merged, left = Generation(UINT64_MAX), {}
    for region, manifest in (await discover(io, state.revision)).items():
        reason = await drained.undrained_reason(manifests.folder(io, region), manifest, merged, state)
        if reason:
            left[region] = reason
    if left:
        raise InvalidArgument(f"{what}: {drained.named(left)}", clause="AMB-50")


async def _ids_in_generations(io: Io, state: TableState) -> set[int]:
    """Field ids of all generations that are listed and still there."""
    found: set[int] = set()
    for region, manifest in (await discover(io, state.revision)).items():
        for listed in manifest.flushed:
            try:
                generation = await latest(manifests.folder(io, region).child(listed.path))
            except NotFound:
                continue
            found |= {field.id for field in generation.fields if field.name != TOMBSTONE}
    return found
