"""A read that is planned once and done in parts, by any process: a cut through table and regions, and its splits.

A cut names everything that its rows come from: the table version, the region manifests, and where each WAL ended. A
split is a share of the fragments of the base and of the regions; it can be pickled. The rows of all splits together are
the rows of one scan. Nothing keeps a cut alive: what it names may be collected, and then a split raises `CutGone`.
Source: MemWAL revisions A and B, "Reader Consistency"; how a read is divided is no part of the texts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..coroutines import concurrently
from ..effects import Io
from ..errors import ArtifactError, NotFound, Outcome
from ..ids import FragmentId, RegionId, TableVersion, WalPosition
from ..region import manifest as manifests
from ..region.recovery import replay_start
from ..table.state import TableState, load
from .fragments import restricted
from .merging import Hiding
from .pruning import narrowed, that_may_match
from .query import Query
from .scan import arranged
from .sources import unmerged
from .tail import wal_end
from .view import Raced, ReadRaced, View, over, too_late

SPLIT_BYTES = 128 << 20
"""Bytes of data files of the base for which one split is made, by default."""
SPLIT_GENERATIONS = 8
"""Generations for which one split is made; their sizes are not known before they are opened."""
_REMEDY = "plan the read again; gc with a longer grace_ms, or with retain_versions, keeps what planned reads need"


class CutGone(Outcome):
    """What a planned read still needs was collected: its rows cannot be read any more. ``path``: what is gone."""

    SENTENCE = "{path}, which a read of version {version} needs, was collected since it was planned; {remedy}"

    def __init__(self, version: TableVersion, path: str) -> None:
        super().__init__(version=version, path=path, remedy=_REMEDY)
        self.version, self.path = version, path


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One consistent choice of sources, of which a program somewhere else can make the same view."""

    version: TableVersion
    manifests: Mapping[RegionId, RegionManifest]
    """Of the regions that hold rows above the base."""
    live: bool
    """Whether what is in WALs belongs to it; see `View`."""
    ends: Mapping[RegionId, WalPosition]
    """By region, of all regions, the first position of its WAL that does not belong to the cut."""

    def named(self) -> dict[str, Any]:
        """What tells this cut, of a strong read, from all others, fit for JSON; `planned_again` reads it again."""
        held = {str(region): int(manifest.version) for region, manifest in self.manifests.items()}
        ends = {str(region): int(end) for region, end in self.ends.items()}
        return {"version": int(self.version), "manifests": held, "ends": ends}


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of a planned read: some fragments of the base, and what some regions hold above it."""

    cut: Cut
    fragments: tuple[FragmentId, ...]
    regions: tuple[RegionId, ...]
    columns: tuple[str, ...] | None
    """Of the answer; None: all."""
    condition: object
    """The filter as the caller gave it: it decided which regions and fragments are left out."""


@implements("READ-008", "AMB-141")
async def planned(io: Io, asked: Query, condition: object, count: int | None) -> tuple[Split, ...]:
    """The splits of a read, at least one and at most ``count``; None: as many as its sizes ask for.

    Raises as `memwal.read.view.over` does, and `InvalidArgument` for columns that are not there.
    """

    async def body(view: View) -> tuple[Split, ...]:
        asked.names(view.base)
        chosen, _ = await narrowed(io, view, (), asked.predicate)
        cut = await _cut(io, chosen)
        return _divided(cut, chosen.base, asked, condition, count)

    return await over(io, asked.version, body, found=that_may_match(io, asked.predicate))


async def planned_again(io: Io, named: Mapping[str, Any], asked: Query) -> tuple[Split, ...]:
    """Splits of the cut that `Cut.named` told of, without a filter. Raises `CutGone` if it is collected in part."""
    version = TableVersion(named["version"])
    try:
        base = await load(io, version)
        reads = [
            partial(manifests.read, manifests.folder(io, RegionId(region)), number, base.revision)
            for region, number in named["manifests"].items()
        ]
        held = dict(zip(map(RegionId, named["manifests"]), await concurrently(io, reads), strict=True))
    except NotFound as gone:
        raise CutGone(version, gone.path) from None
    ends = {RegionId(region): WalPosition(end) for region, end in named["ends"].items()}
    cut = Cut(version=version, manifests=held, live=True, ends=ends)
    return _divided(cut, base, asked, None, None)


async def _cut(io: Io, view: View) -> Cut:
    async def found(region: RegionId, manifest: RegionManifest) -> WalPosition:
        if not view.live:
            return replay_start(manifest, view.base.revision)
        end = await wal_end(manifests.folder(io, region), manifest, view.base)
        if end is None:
            raise Raced(f"WAL of {region}", generation=False)
        return end

    held: dict[RegionId, RegionManifest] = {}
    every = sorted(view.manifests.items())
    ends = await concurrently(io, [partial(found, *each) for each in every])
    for (region, manifest), end in zip(every, ends, strict=True):
        start = replay_start(manifest, view.base.revision)
        if end > start or unmerged(manifest, view.base.mem_wal.progress(region)):
            held[region] = manifest
    positions = {region: end for (region, _), end in zip(every, ends, strict=True)}
    return Cut(version=view.base.version, manifests=held, live=view.live, ends=positions)


def _divided(cut: Cut, base: TableState, asked: Query, condition: object, count: int | None) -> tuple[Split, ...]:
    """Fragments by their rows, the largest first to the part with the fewest; then regions, one to each in turn."""
    rows = {FragmentId(each.id): each.physical_rows for each in base.fragments}
    wanted = _splits(cut, base) if count is None else count
    shares: list[tuple[list[FragmentId], list[RegionId]]] = [
        ([], []) for _ in range(max(1, min(wanted, len(rows) + len(cut.manifests))))
    ]
    loads = [(0, number) for number in range(len(shares))]
    for fragment in sorted(rows, key=lambda each: (-rows[each], each)):
        load_rows, number = heapq.heappop(loads)
        shares[number][0].append(fragment)
        heapq.heappush(loads, (load_rows + rows[fragment], number))
    for turn, region in enumerate(sorted(cut.manifests)):
        shares[sorted(loads)[turn % len(shares)][1]][1].append(region)
    columns = tuple(asked.columns) if asked.columns is not None else None
    return tuple(
        Split(cut=cut, fragments=tuple(sorted(fragments)), regions=tuple(regions), columns=columns, condition=condition)
        for fragments, regions in shares
    )


def _splits(cut: Cut, base: TableState) -> int:
    stored = sum(file.file_size_bytes for fragment in base.fragments for file in fragment.files)
    generations = sum(
        len(unmerged(manifest, base.mem_wal.progress(region))) for region, manifest in cut.manifests.items()
    )
    return math.ceil(stored / SPLIT_BYTES + generations / SPLIT_GENERATIONS)


@implements("READ-001", "READ-014", "AMB-105")
async def split_rows(io: Io, split: Split, asked: Query, hiding: Hiding) -> AsyncIterator[pa.Table]:
    """The rows of ``split`` in parts: of its regions, and of its fragments those that no region hides.

    In memory are the keys of all regions of the cut and one batch. Each key is taken to be once in the base (AMB-105,
    duplicate keys): no split can see the fragments of the others. Raises `CutGone`, and `ArtifactError` for damage.
    ``hiding``: what splits that were read before have of these keys; of another cut, it is forgotten.
    """
    cut = split.cut
    if hiding.cut != cut:
        hiding.cut, hiding.keys = cut, None
    try:
        base = asked.version or await load(io, cut.version)
    except NotFound as gone:
        raise CutGone(cut.version, gone.path) from None
    view = View(base=restricted(base, split.fragments), manifests=cut.manifests, live=cut.live, ends=cut.ends)
    try:
        planned = await arranged(io, view, asked, frozenset(split.regions), hiding=hiding)
        async for rows in planned.stream():
            if rows.num_rows:
                yield rows
    except Raced as raced:
        raise await _failure(io, raced, None if cut.live else base, cut) from None
    except ArtifactError as damage:
        path = await _collected(io, base, cut)
        # What the cut names is named still: the bytes are damaged. Else they may have been collected.
        if path is None:
            raise
        raise CutGone(cut.version, path) from damage


async def _failure(io: Io, raced: Raced, version: TableState | None, cut: Cut) -> CutGone | ArtifactError:
    try:
        found = await too_late(io, raced, version)
    except NotFound as gone:
        return CutGone(cut.version, gone.path)
    return CutGone(cut.version, raced.path) if isinstance(found, ReadRaced) else found


async def _collected(io: Io, base: TableState, cut: Cut) -> str | None:
    """Something that the cut names and the table does not name any more; None if there is nothing."""
    try:
        await load(io, cut.version)
    except NotFound as gone:
        return gone.path
    if not cut.live:
        return None
    for region, manifest in cut.manifests.items():
        folder = manifests.folder(io, region)
        newest = await manifests.latest(folder, base.revision)
        named = {each.path for each in newest.flushed} if newest is not None else set()
        for listed in unmerged(manifest, base.mem_wal.progress(region)):
            if listed.path not in named:
                return folder.path(listed.path)
    return None


def asked_of(split: Split, asked: Query, base: TableState) -> Query:
    """``asked`` at the state of the base that the split's cut names, if ``base`` is that."""
    return replace(asked, version=base if base.version == split.cut.version else None)
