"""Which regions still hold rows that the base table lacks, and what must not change before they are drained.

Source: AMB-54, 63, 66, 87, 97, 131.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..clauses import implements
from ..codec.index_details import RegionSpec
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import InvalidArgument, NotFound
from ..ids import Generation, RegionId, WalPosition
from ..region import manifest as manifests
from ..region.recovery import is_flushed, read_entry, replay_start
from ..table.state import TableState
from . import regions

SHOWN = 5
"""Regions that a message names; it counts the others."""


@implements("AMB-54", "AMB-97")
def unmerged_reason(manifest: RegionManifest, progress: Generation) -> str:
    """Why the flushed part of a region is not drained; empty if it is: every listed generation is merged."""
    above = sorted(g.generation for g in manifest.flushed if g.generation > progress)
    return f"generations {above} are not merged" if above else ""


@implements("AMB-54", "AMB-97")
async def undrained_reason(region: Io, manifest: RegionManifest, progress: Generation, state: TableState) -> str:
    """Why the region at ``region`` is not drained; empty if it is.

    Drained: no generation above merge progress is listed, and no entry above the replay pointer has rows. Barriers have
    none.
    """
    reason = unmerged_reason(manifest, progress)
    position = replay_start(manifest, state.revision)
    while not reason:
        try:
            entry = await read_entry(region, position, state.revision, state.schema)
        except NotFound:
            break
        if entry.rows.num_rows and not is_flushed(entry, manifest):
            reason = f"entry {position} of its WAL is not flushed"
        position = WalPosition(position + 1)
    return reason


async def undrained(io: Io, state: TableState, of: Collection[int] | None = None) -> dict[RegionId, str]:
    """Why each region that is not drained is not; ``of``: only regions of these spec ids. Read-only, by listing."""
    details = state.mem_wal
    found = {}
    for region, manifest in (await regions.discover(io, state.revision)).items():
        if of is not None and manifest.spec_id not in of:
            continue
        reason = await undrained_reason(manifests.folder(io, region), manifest, details.progress(region), state)
        if reason:
            found[region] = reason
    return found


def named(reasons: Mapping[RegionId, str]) -> str:
    """``reasons`` as text, the first `SHOWN` of them."""
    shown = [f"{region}: {reason}" for region, reason in sorted(reasons.items())[:SHOWN]]
    more = len(reasons) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more else shown)


@implements("AMB-66", "AMB-131")
def specs_over(state: TableState, columns: Collection[str]) -> tuple[RegionSpec, ...]:
    """The specs with a source among ``columns`` (top-level column names)."""
    ids = {i for name, i in state.field_ids.items() if name in columns}
    specs = state.mem_wal.specs
    return tuple(spec for spec in specs if any(ids.intersection(field.source_ids) for field in spec.fields))


@implements("AMB-55", "AMB-63", "AMB-66")
async def check_columns_may_change(io: Io, state: TableState, columns: Sequence[str]) -> None:
    """Raise `InvalidArgument` unless ``columns`` may be dropped, or change their type, time zone included.

    A key column never may. A source of a region spec may once every region of that spec is drained: before that its
    later rows would go to other regions than the earlier rows of their keys.
    """
    key = [name for name in columns if name in state.primary_key]
    if key:
        raise InvalidArgument(f"key columns {key} cannot be dropped or changed", clause="AMB-55")
    if state.mem_wal_entry is None:
        return
    specs = specs_over(state, columns)
    if not specs:
        return
    left = await undrained(io, state, [spec.spec_id for spec in specs])
    if left:
        ids = [spec.spec_id for spec in specs]
        reason = f"columns {list(columns)} decide on the regions of spec {ids}, and not all are drained: {named(left)}"
        raise InvalidArgument(reason, clause="AMB-66")


@implements("AMB-87")
async def check_drained(io: Io, state: TableState, what: str) -> None:
    """Raise `InvalidArgument` unless every region is drained; ``what``: the operation that needs it."""
    left = await undrained(io, state, None)
    if left:
        raise InvalidArgument(f"{what} needs all regions drained: {named(left)}", clause="AMB-87")
