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
    begun = await begin(io, policy, ledger)
    waiting = [planned for planned in begun.plans if not await collect_planned(io, planned, begun, ledger)]
    await finish(io, begun, waiting, ledger)
    return tuple(ledger.decisions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A collection whose regions are decided on: each may be collected by itself, in any order."""

    needs: Needs
    plans: tuple[CollectionPlan, ...]
    remembered: Remembered
    """What the snapshots of retained versions list, read when it is first asked for."""
    expired: tuple[TableState, ...]
    """Versions that this call expires."""
    now_ms: Milliseconds
    recorded: bool
    """Whether the table knows what is collected beyond its versions; not where the store refused that."""


async def begin(io: Io, policy: Policy, ledger: Ledger) -> Begun:
    """Expire table versions, and decide on the generations of every region: what belongs to the table as a whole."""
    now_ms = await io.now() if policy.needs_clock else Milliseconds(0)
    if not ledger.dry_run:
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
        if not ledger.dry_run and await _record(io, needs, plans):
            retained = (*retained, *await newer_than(io, retained[-1].version))
            needs, plans = await planning.on(retained)
    except StorageError as refused:
        await io.note("collector_refused", reason=str(refused))
        recorded = False
    expired = tuple(one.state for one in held if one.version not in {state.version for state in retained})
    return Begun(
        needs=needs,
        plans=plans,
        remembered=Remembered(io, retained),
        expired=expired,
        now_ms=now_ms,
        recorded=recorded,
    )


async def collect_planned(io: Io, planned: CollectionPlan, begun: Begun, ledger: Ledger) -> bool:
    """Collect in one region; false, and nothing is done, where its manifest cannot be written: the disk may be full."""
    # AMB-93, manifest first: what is listed still keeps its files.
    if planned.doomed and not ledger.dry_run and not (begun.recorded and await _unlisted(io, planned, begun.needs)):
        return False
    await collect_region(io, planned, begun.needs, begun.remembered, begun.now_ms, ledger)
    return True


async def finish(io: Io, begun: Begun, waiting: Sequence[CollectionPlan], ledger: Ledger) -> None:
    """Collect the table's own files, then the regions in ``waiting``, which could not be collected before that."""
    needs = begun.needs
    await collect_files(io, needs.retained, begun.expired, needs.policy, begun.now_ms, ledger)
    # A full disk has room now that files are gone; if not, the store's refusal ends the call.
    if not begun.recorded:
        await _record(io, needs, begun.plans)
    for planned in waiting:
        await collect_waiting(io, planned, begun, ledger)


async def collect_waiting(io: Io, planned: CollectionPlan, begun: Begun, ledger: Ledger) -> None:
    """Collect in a region for which `collect_planned` had no room, once `finish` may have made some."""
    await unlist(io, planned, begun.needs)
    await collect_region(io, planned, begun.needs, begun.remembered, begun.now_ms, ledger)


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
