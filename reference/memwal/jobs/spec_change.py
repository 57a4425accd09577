"""Changing the region specs of a table under running writers.

A new spec sends keys to other regions, so that no row of theirs may still be on its way through the old ones (AMB-54),
and no writer may go on with the spec that it has read (AMB-142). Table and region manifests cannot be committed
together; what orders a change of specs and the writers that open meanwhile is that each writes before it reads:

    the change: put a token into the MemWAL index; then look at the regions, fence and verify them; then commit
    a writer:   claim its region; then look at the MemWAL index, and remove a token that it finds there

Either the change sees the claim, or the writer sees the token, and then the commit finds its token gone. A writer
never waits: a change that meets one fails, and can be tried again. A token that a crash left behind costs the next
writer one commit.

Source: MemWAL revisions A and B, "Region Spec"; AMB-54, 56, 67, 142.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..clauses import implements
from ..codec.index_details import IndexDetails, RegionSpec
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import Fenced, InvalidArgument, Outcome
from ..ids import Epoch, RegionId, SpecId
from ..index import drained, mem_wal, regions, transforms
from ..index.opening import region_of
from ..index.snapshot import RegionRow
from ..index.transforms import SpecRequest
from ..region.claim import claim
from ..region.recovery import recover
from ..revisions import STRICT, Interpretation
from ..table.state import TableState, latest


class NotDrained(Outcome):
    """Regions of older specs hold rows that the base table lacks; nothing was changed. Drain them and try again."""

    def __init__(self, reasons: Mapping[RegionId, str]) -> None:
        super().__init__(regions=len(reasons), reasons=drained.named(reasons))
        self.reasons = dict(reasons)


class SpecChangeLost(Outcome):
    """Somebody opened a region, or changed the specs, while they were being changed; nothing was changed. Try again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason=reason)


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
async def add_spec(
    io: Io, request: SpecRequest, *, beside_manual: bool = False, interpretation: Interpretation = STRICT
) -> Changed:
    """Make ``request`` the spec that governs new writes, once every region of older specs is fenced and drained.

    ``beside_manual``: allow it on a table that has manual regions; these stay as they are, open writers included.
    Raises `InvalidArgument` for a spec that is not sound here, `NotDrained` and `SpecChangeLost`; then the table is as
    before, but writers of older regions may have been fenced.
    """
    state = await latest(io)
    _resolved(request, state, ())
    if interpretation.drained_before_new_spec:
        await _check_drained(io, state, interpretation)
    token = await io.random_hex(32)
    await mem_wal.change(io, _putting(token))
    try:
        epochs = await _fence(io, await latest(io), beside_manual, interpretation)
        return await _commit(io, request, token, epochs, beside_manual, interpretation)
    except (Outcome, InvalidArgument):
        await mem_wal.change(io, _removing(token))
        raise


def _putting(token: str) -> mem_wal.Change:
    async def derive(_: TableState, details: IndexDetails) -> IndexDetails:
        return replace(details, spec_change=token)

    return derive


def _removing(token: str) -> mem_wal.Change:
    async def derive(_: TableState, details: IndexDetails) -> IndexDetails | None:
        return replace(details, spec_change="") if details.spec_change == token else None

    return derive


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


async def _check_drained(io: Io, state: TableState, interpretation: Interpretation) -> None:
    left = await drained.undrained(io, state, _governed(state), interpretation)
    if left:
        raise NotDrained(left)


async def _rows(io: Io, state: TableState, interpretation: Interpretation) -> dict[RegionId, RegionRow]:
    """Every region, with its newest manifest: registered, or found by listing."""
    live = await regions.discover(io, state.revision, interpretation)
    rows = {row.region_id: replace(row, manifest=None) for row in await regions.known(io, state, interpretation)}
    for region, manifest in live.items():
        row = rows.get(region, RegionRow(region_id=region, spec_id=manifest.spec_id, values=(), manifest=None))
        rows[region] = replace(row, manifest=manifest)
    return rows


async def _fence(
    io: Io, state: TableState, beside_manual: bool, interpretation: Interpretation
) -> dict[RegionId, Epoch]:
    """Claim every region of a spec that has a manifest, barrier included, and verify that it is drained.

    Returns the epochs of the claims. A region without a manifest has no writer to fence; whoever claims it later sees
    the token. Sealed regions take no claims.
    """
    epochs: dict[RegionId, Epoch] = {}
    left: dict[RegionId, str] = {}
    for region, row in sorted((await _rows(io, state, interpretation)).items()):
        if row.spec_id == 0:
            _check_manual(region, beside_manual)
            continue
        manifest = row.manifest
        if manifest is None or not interpretation.fence_before_new_spec:
            continue
        opened = region_of(io, state, row, interpretation=interpretation)
        progress = state.mem_wal.progress(region)
        if manifest.sealed:
            reason = await drained.undrained_reason(opened.io, manifest, progress, state)
        else:
            try:
                manifest = await claim(opened)
                memtable = await recover(opened, manifest)
            except Fenced as fenced:
                raise SpecChangeLost(str(fenced)) from None
            reason = drained.unmerged_reason(manifest, progress) or _not_flushed(memtable.rows)
        epochs[region] = manifest.epoch
        if reason:
            left[region] = reason
    if left and interpretation.drained_before_new_spec:
        raise NotDrained(left)
    return epochs


def _not_flushed(rows: int) -> str:
    return f"{rows} rows of its WAL are not flushed" if rows else ""


@implements("AMB-56")
def _check_manual(region: RegionId, beside_manual: bool) -> None:
    if not beside_manual:
        reason = f"the table has manual regions ({region}): a spec beside them has to be asked for"
        raise InvalidArgument(reason, clause="AMB-56")


async def _commit(
    io: Io,
    request: SpecRequest,
    token: str,
    epochs: Mapping[RegionId, Epoch],
    beside_manual: bool,
    interpretation: Interpretation,
) -> Changed:
    """Commit the spec on a version that still has the token, after comparing every region with what was fenced."""
    chosen: list[RegionSpec] = []

    async def derive(state: TableState, details: IndexDetails) -> IndexDetails:
        if details.spec_change != token:
            raise SpecChangeLost("the token of the change is gone")
        rows = await _rows(io, state, interpretation)
        for region, row in rows.items():
            if row.spec_id == 0:
                _check_manual(region, beside_manual)
            elif interpretation.fence_before_new_spec:
                _check_unmoved(row.manifest, epochs.get(region), details)
        chosen[:] = [_resolved(request, state, rows.values())]
        return replace(details, specs=(*details.specs, *chosen), spec_change="")

    state = await mem_wal.change(io, derive, interpretation)
    return Changed(chosen[0], tuple(sorted(epochs)), state)


def _check_unmoved(manifest: RegionManifest | None, fenced: Epoch | None, details: IndexDetails) -> None:
    """Raise `SpecChangeLost` if the region was claimed after it was fenced; its barrier keeps everybody else out."""
    epoch = manifest.epoch if manifest is not None else None
    if epoch != fenced:
        assert manifest is not None
        raise SpecChangeLost(f"region {manifest.region_id} was opened under epoch {epoch}")
    if manifest is not None and (reason := drained.unmerged_reason(manifest, details.progress(manifest.region_id))):
        raise NotDrained({manifest.region_id: reason})


@implements("AMB-56", "AMB-142", "WRITER-002")
async def admit(io: Io, row: RegionRow, *, registered: bool = True, interpretation: Interpretation = STRICT) -> None:
    """Let a writer go on that has just claimed the region of ``row``; raises `InvalidArgument` if no spec wants it.

    The claim comes first: see the module's text. A registered manual region needs no question, since a change of specs
    leaves it alone or is refused for it.
    """
    if (row.spec_id == 0 and registered) or not interpretation.fence_before_new_spec:
        return
    state = await latest(io)
    if state.mem_wal.spec_change:
        state = await mem_wal.change(io, _removing(state.mem_wal.spec_change))
        await io.note("spec_change_stopped", region=row.region_id)
    check_governed(row, state)


@implements("WRITER-002", "AMB-54", "AMB-56", "AMB-142")
def check_governed(row: RegionRow, state: TableState) -> None:
    """Raise `InvalidArgument` unless the region takes writes under the active spec of ``state``."""
    active = regions.active_spec(state.mem_wal)
    if active is not None and row.spec_id != active.spec_id:
        reason = f"region {row.region_id} is of spec {row.spec_id}, and spec {active.spec_id} governs new writes"
        raise InvalidArgument(reason, clause="AMB-54")


@implements("REGION-009", "AMB-54")
async def remove_spec(io: Io, spec_id: SpecId, interpretation: Interpretation = STRICT) -> TableState:
    """Remove a spec that no region names and that does not govern new writes, so that the highest id stays listed.

    Raises `InvalidArgument`.
    """

    async def derive(state: TableState, details: IndexDetails) -> IndexDetails:
        ids = [spec.spec_id for spec in details.specs]
        if spec_id not in ids:
            raise InvalidArgument(f"the table has no region spec {spec_id}; there are {ids}", clause="REGION-008")
        if spec_id == max(ids):
            raise InvalidArgument(f"region spec {spec_id} governs new writes: it stays", clause="AMB-54")
        users = [r for r, row in (await _rows(io, state, interpretation)).items() if row.spec_id == spec_id]
        if users:
            raise InvalidArgument(f"{len(users)} regions are of spec {spec_id}: it stays", clause="AMB-54")
        return replace(details, specs=tuple(spec for spec in details.specs if spec.spec_id != spec_id))

    return await mem_wal.change(io, derive)
