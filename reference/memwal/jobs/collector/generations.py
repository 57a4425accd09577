"""Merged generations: which of them nothing needs any more.

**Why this is safe.** Once a generation is eligible it stays so. Merge progress of the newest version only grows, but
for a Restore, which starts from a retained version; every retained version is at or above the generation
(``progress``), or no Restore may go below it (``snapshot``); the set of retained versions loses members, and gains only
newer ones that inherit their progress. An index that is added to the maintained ones later costs speed only. So the
retained versions are read once, and the checks need not be one step with the deletion (AMB-98).

Rows of an eligible generation are in the base table of every version that stays (GC-013). Its entry is taken out of the
region manifest first, by compare-and-swap, and its files go afterwards, table versions first (AMB-93): a collector that
stops in between leaves an orphan, never a listed folder with holes. Readers and mergers that had listed it find that it
is absent, and start again on a base version that has merged it; with a grace time they need not (AMB-92).

Source: MemWAL revisions A and B, "Garbage Collector".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ...clauses import implements
from ...codec.region_manifest import FlushedGeneration, RegionManifest
from ...effects import Io
from ...ids import FragmentId, Generation, RegionId, TableVersion
from ...region import manifest as manifests
from ...region import transitions
from ...revisions import Interpretation
from ...table.coverage import Origin, credited, index_names, segments, uncovered
from ...table.origins import merge_origins
from ...table.state import TableState
from .decision import Eligibility, KeepRule, lasting
from .policy import KEEP_ALL, Policy

Folders = frozenset[tuple[RegionId, str]]
"""Region and folder name of generations that a region snapshot lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the table needs of its generations: the retained versions, and how far indexes have caught up in them."""

    retained: Sequence[TableState]
    """Ascending; the last one is the newest version. Those without a MemWAL index need nothing."""
    recent: Sequence[TableState]
    """Of these the ones that were the newest version within the grace time, the newest one included."""
    listed: Mapping[TableVersion, Folders]
    """What the region snapshots of retained versions list; used by the rule ``snapshot`` only."""
    origins: Mapping[TableVersion, Mapping[FragmentId, Origin]]
    """Merges that made the fragments of recent versions that some maintained index does not cover."""
    policy: Policy
    interpretation: Interpretation

    @property
    def newest(self) -> TableState:
        return self.retained[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A generation, by where it is, and what the table needs."""

    region: RegionId
    generation: Generation
    folder: str
    needs: Needs


@implements("GC-001", "GC-013", "AMB-80")
def _unmerged(candidate: Candidate) -> str:
    return _above(candidate, candidate.needs.newest, "the newest")


def _above(candidate: Candidate, state: TableState, words: str) -> str:
    progress = state.mem_wal.progress(candidate.region)
    if candidate.generation <= progress:
        return ""
    return f"above merge progress {progress} of {words} table version {state.version}"


@implements("GC-002", "GC-011", "GC-012", "CATCHUP-013", "AMB-71", "AMB-72", "AMB-73", "AMB-78")
def _uncovered(candidate: Candidate) -> str:
    return _lagging(candidate, candidate.needs.newest)


def _lagging(candidate: Candidate, state: TableState) -> str:
    for name in gating(state):
        if any(not entry.fragment_bitmap for entry in segments(state, name)):
            return f"index {name!r} does not record which fragments it covers"
        # GC-002, the least of all: one index that lags is enough to keep the generation.
        reached = caught_up(candidate.needs, state, name, candidate.region)
        if candidate.generation > reached:
            return f"index {name!r} has caught up to generation {reached} only"
    return ""


def gating(state: TableState) -> tuple[str, ...]:
    """Indexes that hold back collection: the maintained ones, which in R may be all of the base table."""
    details = state.mem_wal
    every = index_names(state) if details.maintain_all else ()
    return tuple(dict.fromkeys((*details.maintained_indexes, *every)))


def caught_up(needs: Needs, state: TableState, name: str, region: RegionId) -> Generation:
    """The last generation of ``region`` that the index has caught up to, as far as a collector may believe it.

    The recorded value decides, bounded by what the index's fragments prove. An index that is not on the base table has
    no fragments; an index, or a region in its entry, without a record counts as 0.
    """
    absent_means_all = not needs.interpretation.absence_needs_coverage
    if segments(state, name):
        known = needs.origins.get(state.version, {})
        return credited(state, name, region, origins=known, interpretation=needs.interpretation).collector
    entry = next((c for c in state.mem_wal.catchup if c.index_name == name), None)
    if entry is None:
        return state.mem_wal.progress(region) if absent_means_all else Generation(0)
    return dict(entry.generations).get(region, Generation(0))


@implements("GC-003", "GC-004", "GC-012", "AMB-91", "AMB-115")
def _time_travel(candidate: Candidate) -> str:
    needs = candidate.needs
    for state in needs.retained:
        if state.mem_wal_entry is None:
            continue  # a version without MemWAL reads no generation
        reason = _above(candidate, state, "retained")
        if not reason:
            continue  # its base has the rows
        # AMB-91, the time-travel rule: by progress alone, or only if the version's own snapshot would look for it.
        if needs.policy.time_travel == "progress":
            return reason
        if (candidate.region, candidate.folder) in needs.listed.get(state.version, frozenset()):
            return f"{reason}, whose region snapshot lists it"
    return ""


@implements("AMB-92")
def _in_grace(candidate: Candidate) -> str:
    needs = candidate.needs
    for state in needs.recent:
        if state.mem_wal_entry is None:
            continue  # a version without MemWAL reads no generation
        reason = _above(candidate, state, "the") or _lagging(candidate, state)
        if reason:
            waited = lasting(needs.policy.grace_ms)
            return f"{reason}, and version {state.version} was the newest less than {waited} ago"
    return ""


RULES: Eligibility[Candidate] = Eligibility(
    kind="generation",
    what="flushed generations that a region manifest lists",
    rules=(
        KeepRule(
            name="unmerged",
            stays="above the merge progress of the newest table version; a region without an entry has merged none",
            clauses=("GC-001", "GC-013", "AMB-80", "AMB-88"),
            reason=_unmerged,
        ),
        KeepRule(
            name="time travel",
            stays="above the merge progress of any retained table version; with time_travel = snapshot only if that "
            "version's region snapshot lists it",
            clauses=("GC-003", "GC-004", "GC-012", "AMB-91", "AMB-115"),
            reason=_time_travel,
        ),
        KeepRule(
            name="index",
            stays="until every maintained index has caught up to it; no record means that it has not",
            clauses=("GC-002", "GC-011", "GC-012", "AMB-71", "AMB-72", "AMB-73"),
            reason=_uncovered,
        ),
        KeepRule(
            name="grace",
            stays="while one of the above held in the version that was the newest grace_ms ago, or in one since",
            clauses=("AMB-92",),
            reason=_in_grace,
        ),
    ),
)
GONE = "merged in every retained table version, and covered by every maintained index"


def kept_because(
    generation: Generation,
    region: RegionId,
    retained: Sequence[TableState],
    interpretation: Interpretation,
) -> str:
    """Why a generation has to stay for these retained versions; empty if it may go. Without time limits."""
    needs = Needs(
        retained=retained,
        recent=retained[-1:],
        listed={},
        origins={},
        policy=KEEP_ALL,
        interpretation=interpretation,
    )
    candidate = Candidate(region=region, generation=generation, folder="", needs=needs)
    return RULES.decide(candidate, "", "").reason


async def origins_of(io: Io, states: Sequence[TableState]) -> dict[TableVersion, dict[FragmentId, Origin]]:
    """For each version, which merges made the fragments that some gating index does not cover."""
    found = {}
    for state in states:
        if state.mem_wal_entry is None:
            continue  # a version without MemWAL has no index that gates anything
        missing = set[FragmentId]()
        for name in gating(state):
            parts = segments(state, name)
            if parts and all(entry.fragment_bitmap for entry in parts):
                missing |= uncovered(state, name)
        if missing:
            found[state.version] = await merge_origins(io, state, missing)
    return found


def collected_beyond(needs: Needs, doomed: Collection[Candidate]) -> dict[RegionId, Generation]:
    """Per region the last doomed generation that some retained version has not merged; none below may be restored."""
    points: dict[RegionId, Generation] = {}
    states = [state for state in needs.retained if state.mem_wal_entry is not None]
    for one in doomed:
        if any(one.generation > state.mem_wal.progress(one.region) for state in states):
            points[one.region] = max(one.generation, points.get(one.region, Generation(0)))
    return points


@implements("MANIFEST-037", "GC-010", "AMB-33", "AMB-93")
async def unlist(region: Io, doomed: Collection[str], newest: TableState) -> None:
    """Remove the generations in the folders ``doomed`` from the region manifest; nothing else of it changes."""

    def stays(listed: FlushedGeneration) -> bool:
        return listed.path not in doomed

    async def derive(current: RegionManifest | None) -> RegionManifest | None:
        stored = manifests.present(current, region)
        kept = tuple(filter(stays, stored.flushed))
        # GC-010, MANIFEST-037: entries go from the list, and nothing else changes.
        return None if kept == stored.flushed else replace(manifests.following(stored), flushed=kept)

    await manifests.advance(
        region,
        newest.revision,
        transitions.COLLECTOR,
        derive,
        collected=newest.collects_manifests,
    )
