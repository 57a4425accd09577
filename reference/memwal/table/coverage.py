"""What the indexes of a table version cover: fragments by their bitmaps, merged generations by their catch-up entries.

Source: MemWAL revisions A and B, "Index Catchup Progress"; AMB-71, 72, 78.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import pyroaring

from ..clauses import implements
from ..codec.index_details import INDEX_NAME, IndexCatchup, IndexDetails, Progress
from ..codec.pb.lance import table_pb2
from ..errors import ArtifactError, InvalidArgument
from ..ids import FragmentId, Generation, RegionId
from ..revisions import Interpretation
from . import reuse
from .draft import SYSTEM_DETAILS
from .state import TableState

Origin = frozenset[tuple[RegionId, Generation]]
"""The generations whose merge made a fragment: one, unless a merge commits several at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """The last merged generation of one region that an index counts as covering; 0 if it covers none."""

    planner: Generation
    """For reads: generations above it form the gap."""
    collector: Generation
    """For collection: generations above it stay."""


def is_system(entry: table_pb2.IndexMetadata) -> bool:
    """Whether an entry is bookkeeping of the table, and not an index over a column."""
    return entry.index_details.type_url.endswith(SYSTEM_DETAILS)


def index_names(state: TableState) -> tuple[str, ...]:
    """Names of the indexes over columns, sorted."""
    return tuple(sorted({entry.name for entry in state.manifest.indices if not is_system(entry)}))


def segments(state: TableState, name: str) -> tuple[table_pb2.IndexMetadata, ...]:
    """The entries of the index ``name``: parts over different fragments, oldest first; empty if there is none.

    Raises `InvalidArgument` for the table's bookkeeping, which is not an index over a column.
    """
    found = tuple(entry for entry in state.manifest.indices if entry.name == name)
    if name == INDEX_NAME or any(map(is_system, found)):
        raise InvalidArgument(f"index {name!r} is bookkeeping of the table, not an index over a column")
    return found


@implements("AMB-78")
def named_fragments(state: TableState, entry: table_pb2.IndexMetadata) -> frozenset[FragmentId]:
    """Fragments that an entry's bitmap names, those included that the table no longer has.

    For fragments that were rewritten while the remapping was put off, those count that they became.
    Raises `ArtifactError` for a damaged bitmap and for an entry without one, which tells nothing about its coverage.
    """
    if not entry.fragment_bitmap:
        raise ArtifactError("AMB-78", state.path, f"index {entry.name!r} does not record which fragments it covers")
    try:
        named = _read(entry.fragment_bitmap)
    except ValueError as error:
        raise ArtifactError("AMB-78", state.path, f"bitmap of index {entry.name!r} is not readable: {error}") from error
    return frozenset(map(FragmentId, reuse.fragments(named, state.moves)))


@lru_cache
def _read(bitmap: bytes) -> frozenset[int]:
    """What is in a bitmap; each query asks for the same ones."""
    return frozenset(pyroaring.BitMap.deserialize(bitmap))


def covered(state: TableState, name: str) -> frozenset[FragmentId]:
    """Fragments of ``state`` that the index ``name`` covers; empty if there is no such index."""
    named = frozenset[FragmentId]().union(*(named_fragments(state, entry) for entry in segments(state, name)))
    return named & fragment_ids(state)


def uncovered(state: TableState, name: str) -> frozenset[FragmentId]:
    """Fragments of ``state`` that the index ``name`` does not cover."""
    return fragment_ids(state) - covered(state, name)


def fragment_ids(state: TableState) -> frozenset[FragmentId]:
    """Ids of all fragments of ``state``."""
    return frozenset(FragmentId(fragment.id) for fragment in state.fragments)


@implements("CATCHUP-001", "CATCHUP-002", "AMB-71", "AMB-72", "AMB-78")
def credited(
    state: TableState,
    name: str,
    region: RegionId,
    *,
    origins: Mapping[FragmentId, Origin] | None = None,
    interpretation: Interpretation,
) -> Credit:
    """How far the index ``name`` counts as covering the merged generations of ``region`` in ``state``.

    The recorded value decides, bounded by the bitmap: below the first generation that made a fragment without cover,
    as far as ``origins`` tells. Without an entry the planner takes an index that covers the whole base as caught up,
    and any other as covering nothing; the collector takes it as covering nothing. A region that an existing entry
    lacks counts as 0.
    """
    progress = state.mem_wal.progress(region)
    if not segments(state, name):
        return Credit(planner=Generation(0), collector=Generation(0))
    entry = next((c for c in state.mem_wal.catchup if c.index_name == name), None)
    missing = uncovered(state, name)
    if entry is None and not interpretation.absence_needs_coverage:
        return Credit(planner=progress, collector=progress)
    if entry is None:
        return Credit(planner=Generation(0) if missing else progress, collector=Generation(0))
    recorded = dict(entry.generations).get(region, Generation(0))
    bound = _bound(missing, region, progress, origins or {})
    counted = Generation(min(recorded, bound))
    return Credit(planner=counted, collector=counted)


def _bound(
    missing: frozenset[FragmentId], region: RegionId, progress: Generation, origins: Mapping[FragmentId, Origin]
) -> Generation:
    """The most that the bitmap allows: fragments without cover are known to hold rows of later generations."""
    later = [generation for f in missing for origin, generation in origins.get(f, ()) if origin == region]
    return Generation(min([progress, *(generation - 1 for generation in later)]))


@implements("CATCHUP-008", "AMB-69", "AMB-70", "AMB-72")
def with_credit(details: IndexDetails, name: str, proven: Progress) -> IndexDetails:
    """``details`` with the catch-up entry of the index ``name`` at ``proven``, and nothing else changed.

    A value above the proven one stays, and so do regions that ``proven`` does not name.
    """
    before = next((c for c in details.catchup if c.index_name == name), IndexCatchup(index_name=name, generations=()))
    generations = dict(before.generations)
    for region, generation in proven:
        generations[region] = max(generations.get(region, Generation(0)), generation)
    after = replace(before, generations=tuple(generations.items()))
    if after == before:
        return details
    if any(c.index_name == name for c in details.catchup):
        return replace(details, catchup=tuple(after if c.index_name == name else c for c in details.catchup))
    return replace(details, catchup=(*details.catchup, after))
