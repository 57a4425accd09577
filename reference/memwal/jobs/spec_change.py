"""Changing the region specs of a table under running writers.

A new spec sends keys to other regions, so that no row of theirs may still be on its way through the old ones (AMB-54),
and no writer may continue with the spec that it has read (AMB-142): writers of older regions are held off, see
`memwal.jobs.fenced_change`.

Source: MemWAL revisions A and B, "Region Spec".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..clauses import implements
from ..codec.index_details import IndexDetails, RegionSpec
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import InvalidArgument, Outcome
from ..ids import RegionId, SpecId
from ..index import drained, mem_wal, regions, transforms
from ..index.snapshot import RegionRow
from ..index.transforms import SpecRequest
from ..region.recovery import recover
from ..region.region import Region
from ..table.state import TableState, latest
from ..words import counted
from . import fenced_change
from .fenced_change import ChangeLost, Epochs
from .fenced_change import all_regions as _rows

__all__ = ["ChangeLost", "Changed", "NotDrained", "add_spec", "admit", "check_governed", "next_id", "remove_spec"]


class NotDrained(Outcome):
    """Regions of older specs hold rows that the base table lacks; nothing was changed. Drain them and try again."""

    SENTENCE = "nothing was changed, since regions of older specs hold rows that the base table lacks: {reasons}"

    def __init__(self, reasons: Mapping[RegionId, str]) -> None:
        super().__init__(regions=len(reasons), reasons=drained.named(reasons))
        self.reasons = dict(reasons)


@dataclass(frozen=True, slots=True)
class Changed:
    """Outcome of a change of specs."""

    spec: RegionSpec
    """As it was committed, with its id."""
    fenced: tuple[RegionId, ...]
    """Regions of older specs whose writers were fenced."""
    state: TableState
    """A table version that has the spec."""


@implements("REGION-008", "REGION-009", "AMB-54")
def next_id(details: IndexDetails, rows: Iterable[RegionRow] = ()) -> SpecId:
    """The id of the next spec: one above every id that was ever used.

    The highest one is never removed, so that it stands for all that were; regions may name more.
    """
    return SpecId(max([0, *(spec.spec_id for spec in details.specs), *(row.spec_id for row in rows)]) + 1)


@implements("REGION-002", "REGION-003", "REGION-009", "REGION-011", "AMB-54", "AMB-56", "AMB-67", "AMB-142")
async def add_spec(io: Io, request: SpecRequest, *, beside_manual: bool = False) -> Changed:
    """Make ``request`` the spec that governs new writes, once every region of older specs is fenced and drained.

    ``beside_manual``: allow it on a table that has manual regions; these stay as they are, open writers included.
    Raises `InvalidArgument` for a spec that is not sound here, `NotDrained` and `ChangeLost`; then the table is as
    before, but writers of older regions may have been fenced.
    """
    state = await latest(io)
    _resolved(request, state, ())
    if io.interpretation.drained_before_new_spec:
        await _check_drained(io, state)
    token = await fenced_change.begin(io)
    try:
        epochs = await _hold(io, token, await latest(io), beside_manual)
        return await _commit(io, request, token, epochs, beside_manual)
    except (Outcome, InvalidArgument):
        await fenced_change.end(io, token)
        raise


def _resolved(request: SpecRequest, state: TableState, rows: Iterable[RegionRow]) -> RegionSpec:
    """``request`` as a spec of this table version, with the next id; raises `InvalidArgument` if it is not sound."""
    ids = state.field_ids
    spec = transforms.resolve(request, next_id(state.mem_wal, rows), state.schema, ids, state.revision)
    transforms.check_spec(spec, state.schema, {i: n for n, i in ids.items()}, state.primary_key, state.revision)
    transforms.check_beside(spec, state.mem_wal.specs)
    return spec


def _governed(state: TableState) -> list[int]:
    """Ids of the specs whose regions have to be drained."""
    return [spec.spec_id for spec in state.mem_wal.specs]


async def _check_drained(io: Io, state: TableState) -> None:
    left = await drained.undrained(io, state, _governed(state))
    if left:
        raise NotDrained(left)


async def _hold(io: Io, token: str, state: TableState, beside_manual: bool) -> Epochs:
    """Hold every region of a spec, and verify that it is drained."""
    governed = _under_a_spec(await _rows(io, state), beside_manual)
    left: dict[RegionId, str] = {}

    async def settle(region: Region, manifest: RegionManifest) -> None:
        progress = state.mem_wal.progress(region.region_id)
        if manifest.sealed:
            reason = await drained.undrained_reason(region.io, manifest, progress, state)
        else:
            found = await recover(region, manifest)
            reason = drained.unmerged_reason(manifest, progress) or _not_flushed(found.rows)
        if reason:
            left[region.region_id] = reason

    if not io.interpretation.fence_before_new_spec:
        return {}
    epochs = await fenced_change.hold(io, token, state, governed, settle)
    if left and io.interpretation.drained_before_new_spec:
        raise NotDrained(left)
    return epochs


def _under_a_spec(rows: Mapping[RegionId, RegionRow], beside_manual: bool) -> tuple[RegionRow, ...]:
    """The regions of a spec. Manual ones stay as they are where that was asked for; `InvalidArgument` otherwise."""
    for region, row in sorted(rows.items()):
        if row.spec_id == 0:
            _check_manual(region, beside_manual)
    return tuple(row for row in rows.values() if row.spec_id)


def _not_flushed(rows: int) -> str:
    return f"its WAL holds {counted(rows, 'row')} not yet flushed" if rows else ""


@implements("AMB-56")
def _check_manual(region: RegionId, beside_manual: bool) -> None:
    if not beside_manual:
        reason = (
            f"the table has manual regions ({region}): beside_manual=True (--beside-manual) adds a spec beside them"
        )
        raise InvalidArgument(reason, clause="AMB-56")


async def _commit(
    io: Io,
    request: SpecRequest,
    token: str,
    epochs: Epochs,
    beside_manual: bool,
) -> Changed:
    """Commit the spec on a version that still has the token, after comparing every region with what was fenced."""
    chosen: list[RegionSpec] = []

    async def derive(state: TableState, details: IndexDetails) -> IndexDetails:
        if io.interpretation.fence_before_new_spec:
            # AMB-142, running writers: one that opened meanwhile has taken the token away.
            fenced_change.check_token(token, details)
        rows = await _rows(io, state)
        governed = _under_a_spec(rows, beside_manual)
        if io.interpretation.fence_before_new_spec:
            # And one that claimed a region and has not looked yet shows by its epoch.
            fenced_change.check_unmoved(epochs, governed)
            _check_merged(governed, details)
        chosen[:] = [_resolved(request, state, rows.values())]
        return replace(details, specs=(*details.specs, *chosen), spec_change="")

    state = await mem_wal.change(io, derive)
    return Changed(chosen[0], tuple(sorted(epochs)), state)


def _check_merged(rows: Iterable[RegionRow], details: IndexDetails) -> None:
    for row in rows:
        if row.manifest is not None and (why := drained.unmerged_reason(row.manifest, details.progress(row.region_id))):
            raise NotDrained({row.region_id: why})


@implements("AMB-50", "AMB-56", "AMB-142", "WRITER-002")
async def admit(
    io: Io,
    row: RegionRow,
    *,
    registered: bool = True,
    governed: bool = True,
) -> TableState | None:
    """Let the writer that just claimed the region of ``row`` use the specs and columns of what is returned.

    The claim comes first: see `memwal.jobs.fenced_change`. Raises `InvalidArgument` if no spec wants the region; that
    question is not asked of a registered manual region, since a change of specs leaves it alone or is refused for it,
    nor unless the writer is to take new writes (``governed``). None: no writer is fenced, and there was nothing to
    look for.
    """
    asks = io.interpretation.fence_before_new_spec and bool(row.spec_id or not registered)
    if not asks and not io.interpretation.fence_before_new_columns:
        return None
    state = await fenced_change.stop(io, row.region_id)
    if asks and governed:
        check_governed(row, state)
    return state


@implements("WRITER-002", "AMB-54", "AMB-56", "AMB-142")
def check_governed(row: RegionRow, state: TableState) -> None:
    """Raise `InvalidArgument` unless the region takes writes under the active spec of ``state``."""
    active = regions.active_spec(state.mem_wal)
    if active is not None and row.spec_id != active.spec_id:
        reason = f"region {row.region_id} is of spec {row.spec_id}, and spec {active.spec_id} governs new writes"
        raise InvalidArgument(reason, clause="AMB-54")


@implements("REGION-009", "AMB-54")
async def remove_spec(io: Io, spec_id: SpecId) -> TableState:
    """Remove a spec that no region names and that does not govern new writes, so that the highest id stays listed.

    Raises `InvalidArgument`.
    """

    async def derive(state: TableState, details: IndexDetails) -> IndexDetails:
        ids = [spec.spec_id for spec in details.specs]
        if spec_id not in ids:
            raise InvalidArgument(f"the table has no region spec {spec_id}; choose one of {ids}", clause="REGION-008")
        if spec_id == max(ids):
            raise InvalidArgument(
                f"region spec {spec_id} is used for new writes: add another one before you drop it", clause="AMB-54"
            )
        users = [r for r, row in (await _rows(io, state)).items() if row.spec_id == spec_id]
        if users:
            raise InvalidArgument(
                f"region spec {spec_id} cannot be dropped, because it has {counted(len(users), 'region')}",
                clause="AMB-54",
            )
        return replace(details, specs=tuple(spec for spec in details.specs if spec.spec_id != spec_id))

    return await mem_wal.change(io, derive)
