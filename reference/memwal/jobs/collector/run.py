"""One run of the collector over a table.

Source: MemWAL revisions A and B, "Garbage Collector".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...clauses import implements
from ...codec.region_manifest import RegionManifest
from ...effects import Io
from ...errors import StorageError
from ...ids import FragmentId, Milliseconds, RegionId, TableVersion
from ...index import regions
from ...table.collected import collected_points, record
from ...table.coverage import Origin
from ...table.state import TableState
from . import generations
from .decision import Decision
from .files import collect_files
from .generations import Needs
from .ledger import Ledger
from .policy import KEEP_ALL, Policy
from .regions import CollectionPlan, collect_region, plan, unlist
from .snapshots import Remembered
from .versions import FoundVersion, expire, held_versions, newer_than, revive


@implements("GC-001", "GC-002", "GC-003", "GC-004", "GC-013", "GC-014", "AMB-91", "AMB-92", "AMB-98")
async def collect(
    io: Io,
    policy: Policy = KEEP_ALL,
    *,
    dry_run: bool = False,
    sizes: bool = False,
    report: bool = True,
) -> tuple[Decision, ...]:
    """Collect what no retained table version and no index needs; returns a decision per thing looked at.

    ``dry_run``: only decide; no request changes anything. ``sizes``: measure what goes. ``report`` false: keep and
    return no decisions. Any number of collectors may
    run at once, beside writers, mergers and readers, and one that stops anywhere is carried on by the next.
    Raises `NotFound`, `InvalidArgument` where MemWAL is not enabled, `ArtifactError` for damaged bytes, and the store's
    last outcome when attempts are used up.

    A full disk: versions, and files that nothing refers to, go without anything being written. What needs a write
    before it may be deleted is tried again after these, and raises the store's `StorageError` only then.
    """
    ledger = Ledger(dry_run=dry_run, sizes=sizes, report=report)
    now_ms = await io.now() if policy.needs_clock else Milliseconds(0)
    if not dry_run:
        await revive(io)
    held = await held_versions(io, policy, now_ms)
    _ = held[-1].state.mem_wal
    origins = await generations.origins_of(io, [one.state for one in held if one.was_newest_within_grace])
    retained = await expire(io, held, ledger)
    retained = (*retained, *await newer_than(io, retained[-1].version))
    live = await regions.discover(io, retained[-1].revision)
    planning = _Planning(io, live, held, origins, policy)
    needs, plans = await planning.on(retained)
    recorded = True
    try:
        # AMB-98, checks and deletion are two steps: a Restore that comes later finds recorded what is not there for it.
        if not dry_run and await _record(io, needs, plans):
            retained = (*retained, *await newer_than(io, retained[-1].version))
            needs, plans = await planning.on(retained)
    except StorageError as refused:
        await io.note("collector_refused", reason=str(refused))
        recorded = False
    remembered = Remembered(io, retained)
    waiting: list[CollectionPlan] = []
    for planned in plans:
        # AMB-93, manifest first: what is listed still keeps its files.
        if planned.doomed and not dry_run and not (recorded and await _unlisted(io, planned, needs)):
            waiting.append(planned)
        else:
            await collect_region(io, planned, needs, remembered, now_ms, ledger)
    expired = [one.state for one in held if one.version not in {state.version for state in retained}]
    await collect_files(io, retained, expired, policy, now_ms, ledger)
    # A full disk has room now that files are gone; if not, the store's refusal ends the call.
    if not recorded:
        await _record(io, needs, plans)
    for planned in waiting:
        await unlist(io, planned, needs)
        await collect_region(io, planned, needs, remembered, now_ms, ledger)
    return tuple(ledger.decisions)


async def _unlisted(io: Io, planned: CollectionPlan, needs: Needs) -> bool:
    """Whether the doomed generations were taken out of the manifest; not if the store refuses it: it may be full."""
    try:
        await unlist(io, planned, needs)
    except StorageError as refused:
        await io.note("collector_refused", reason=str(refused))
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Planning:
    """What is known before generations are decided on."""

    io: Io
    live: Mapping[RegionId, RegionManifest]
    held: Sequence[FoundVersion]
    origins: Mapping[TableVersion, Mapping[FragmentId, Origin]]
    """Looked for before versions are expired, whose transactions tell it."""
    policy: Policy

    async def on(self, retained: Sequence[TableState]) -> tuple[Needs, tuple[CollectionPlan, ...]]:
        """What the retained versions need, and what that means for the generations that manifests list."""
        older = {one.version for one in self.held if not one.was_newest_within_grace}
        recent = [state for state in retained if state.version not in older]
        unknown = [state for state in recent if state.version not in {one.version for one in self.held}]
        snapshots = self.policy.time_travel == "snapshot"
        needs = Needs(
            retained=retained,
            recent=recent,
            listed=await Remembered(self.io, retained).by_version() if snapshots else {},
            origins={**self.origins, **await generations.origins_of(self.io, unknown)},
            policy=self.policy,
            interpretation=self.io.interpretation,
        )
        return needs, tuple(plan(region, manifest, needs) for region, manifest in sorted(self.live.items()))


@implements("AMB-91")
async def _record(io: Io, needs: Needs, plans: Sequence[CollectionPlan]) -> bool:
    """Record up to where generations are collected that retained versions have not merged; whether that was news.

    It is recorded before anything is deleted, so that no Restore comes in between unseen (AMB-98).
    """
    doomed = [candidate for planned in plans for candidate in planned.doomed]
    points = generations.collected_beyond(needs, doomed)
    known = collected_points(needs.newest)
    if all(known.get(region, 0) >= point for region, point in points.items()):
        return False
    await record(io, points)
    return True
