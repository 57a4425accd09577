"""The indexed read plan while a base index lags: which source answers for which rows, as data.

The base index answers for the fragments that it covers. Between its caught-up generation and merge progress lies the
gap: those rows are in the base already, in fragments without cover, and the flushed generations that they came from
have indexes. Such a generation answers for the fragments that its merge made; what nothing answers for is scanned.
Source: MemWAL revisions A and B, "Indexed Read Plan"; revision A, appendix 4.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..codec.vector_model import VectorModel
from ..effects import Io
from ..errors import EngineBug, InvalidArgument, NotFound, check_name
from ..ids import FragmentId, Generation, RegionId, TableVersion
from ..maintained.base_index import inherited
from ..region import manifest as manifests
from ..table import vector_models
from ..table.coverage import Origin, covered, credited, fragment_ids, index_names, segments, uncovered
from ..table.origins import merge_origins
from ..table.state import TableState, latest
from .sources import MemoryView, unmerged
from .view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class GapGeneration:
    """A merged generation whose own index answers for base fragments that the base index does not cover.

    A hit counts only if the base has the row of that key in one of ``fragments``, undeleted: then it is the same row
    (AMB-88).
    """

    generation: Generation
    path: str
    """Folder of the generation, relative to its region."""
    fragments: frozenset[FragmentId]
    """Fragments of the base that its merge made and that are not scanned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPlan:
    """The sources of one region besides the base table, oldest first."""

    region_id: RegionId
    caught_up: Generation
    """Last generation that the base index answers for."""
    merged: Generation
    """Merge progress; generations above ``caught_up`` up to it form the gap."""
    gap: tuple[GapGeneration, ...]
    """Generations of the gap that are used, ascending."""
    flushed: tuple[FlushedGeneration, ...]
    """Generations that are not merged, ascending: their own indexes answer for them."""
    memory: tuple[Generation, ...]
    """Generations whose rows are in memory or in the WAL only, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPlan:
    """Which source answers for which rows in a query that one index of the base table accelerates."""

    index_name: str
    version: TableVersion
    """Version of the base table."""
    indexed: frozenset[FragmentId]
    """Fragments that the base index answers for."""
    scanned: frozenset[FragmentId]
    """Fragments that neither an index of the base nor one of a generation answers for."""
    regions: tuple[RegionPlan, ...]
    """By region id."""

    def region(self, region: RegionId) -> RegionPlan:
        """The sources of ``region``; raises `InvalidArgument` for a region that the plan does not know."""
        for found in self.regions:
            if found.region_id == region:
                return found
        raise InvalidArgument(f"the plan has no region {region}")


@implements("CATCHUP-004", "CATCHUP-010", "CATCHUP-011", "CATCHUP-012", "AMB-71", "AMB-113")
async def plan(
    io: Io,
    view: View,
    index_name: str,
    *,
    memory: Sequence[MemoryView] = (),
) -> IndexedPlan:
    """The plan of a query over ``view`` that the index ``index_name`` accelerates.

    ``memory``: what open writers hold; a region without one has its unflushed generation in the WAL. Raises
    `InvalidArgument` if the base table has no such index.
    """
    base = view.base
    if not segments(base, index_name):
        check_name("index", index_name, index_names(base), clause="AMB-48")
    missing = uncovered(base, index_name)
    origins = await merge_origins(io, base, missing)
    held = {memory_view.region_id: memory_view for memory_view in memory}
    caught_up = {
        region: credited(base, index_name, region, origins=origins, interpretation=io.interpretation).planner
        for region in sorted({*view.manifests, *held})
    }
    usable = await _usable(io, view, index_name, caught_up, origins)
    # AMB-113, the base side: a fragment needs the indexes of all generations that made it, or it is scanned.
    answered = {fragment: origin for fragment, origin in origins.items() if origin <= usable.keys()}
    planned = IndexedPlan(
        index_name=index_name,
        version=base.version,
        indexed=covered(base, index_name),
        scanned=missing - answered.keys(),
        regions=tuple(_region(view, held.get(r), r, caught, usable, answered) for r, caught in caught_up.items()),
    )
    check(planned, base)
    return planned


async def _usable(
    io: Io,
    view: View,
    index_name: str,
    caught_up: Mapping[RegionId, Generation],
    origins: Mapping[FragmentId, Origin],
) -> dict[tuple[RegionId, Generation], str]:
    """Folders of the gap generations that made fragments without cover, are still there, and carry the index."""
    wanted = {pair for origin in origins.values() for pair in origin}
    found = {}
    for region, generation in sorted(wanted):
        manifest = view.manifests.get(region)
        listed = next((g for g in manifest.flushed if g.generation == generation), None) if manifest else None
        if listed is None or not caught_up[region] < generation <= view.base.mem_wal.progress(region):
            continue  # collected, covered by the base index, or not merged: no part of the gap (CATCHUP-010)
        if await _answers(io, view.base, manifests.folder(io, region).child(listed.path), index_name):
            found[region, generation] = listed.path
    return found


@implements("AMB-48", "AMB-51")
async def _answers(io: Io, base: TableState, generation: Io, index_name: str) -> bool:
    """Whether a generation is there with an index of that name over all its rows, comparable to the base's.

    Scalar and text indexes have to be alike. Vectors have to be encoded alike: inherited from a part that the base
    index still has, or else, as the native package records no such thing, with equal centroids and codebooks.
    """
    try:
        state = await latest(generation)
    except NotFound:
        return False
    ours, theirs = segments(base, index_name), segments(state, index_name)
    if not theirs or uncovered(state, index_name):
        return False
    if not any(map(vector_models.is_vector, ours)):
        return {_details(entry) for entry in theirs} <= {_details(entry) for entry in ours}
    if inherited(state).get(index_name) in {str(uuid.UUID(bytes=entry.uuid.uuid)) for entry in ours}:
        return True
    return await _models(generation, theirs) <= await _models(io, ours)


def _details(entry: table_pb2.IndexMetadata) -> tuple[str, bytes]:
    return entry.index_details.type_url, entry.index_details.value


async def _models(io: Io, entries: Sequence[table_pb2.IndexMetadata]) -> frozenset[VectorModel | None]:
    return frozenset([await vector_models.load(io, entry) for entry in entries])


def _region(
    view: View,
    held: MemoryView | None,
    region: RegionId,
    caught_up: Generation,
    usable: Mapping[tuple[RegionId, Generation], str],
    answered: Mapping[FragmentId, Origin],
) -> RegionPlan:
    manifest, progress = view.manifests.get(region), view.base.mem_wal.progress(region)
    gap = []
    for (owner, generation), path in sorted(usable.items()):
        fragments = frozenset(f for f, origin in answered.items() if (owner, generation) in origin)
        if owner == region and fragments:
            gap.append(GapGeneration(generation=generation, path=path, fragments=fragments))
    return RegionPlan(
        region_id=region,
        caught_up=caught_up,
        merged=progress,
        gap=tuple(gap),
        flushed=unmerged(manifest, progress) if manifest is not None else (),
        memory=_memory(manifest, held, live=view.live),
    )


def _memory(manifest: RegionManifest | None, held: MemoryView | None, *, live: bool) -> tuple[Generation, ...]:
    current = manifest.generation_current if manifest is not None else Generation(0)
    if held is not None:
        return tuple(generation for generation, _ in held.tables if generation >= current)
    return (current,) if live and manifest is not None else ()


@implements("CATCHUP-010", "AMB-113")
def check(planned: IndexedPlan, base: TableState) -> None:
    """Raise `EngineBug` unless the plan answers for every fragment of ``base``, and for none by index and scan at once.

    A generation is used for fragments without cover only, and lies in the gap of its region.
    """
    from_gap = frozenset(f for region in planned.regions for g in region.gap for f in g.fragments)
    parts = (planned.indexed, planned.scanned, from_gap)
    if frozenset().union(*parts) != fragment_ids(base) or sum(map(len, parts)) != len(base.fragments):
        raise EngineBug(f"plan of {planned.index_name!r} does not answer for each fragment once: {planned}")
    for region in planned.regions:
        outside = [g.generation for g in region.gap if not region.caught_up < g.generation <= region.merged]
        if outside:
            raise EngineBug(f"plan of {planned.index_name!r} uses generations {outside} outside the gap: {planned}")
