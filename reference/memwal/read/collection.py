"""The sources of a plan: the base table, and of each region its flushed generations and what its writer has in memory.

The generations of a region are kept from read to read, opened, as long as the region manifest that lists them is the
newest: what a region manifest lists as a generation does not change any more (GEN-001). So a read whose regions are
what they were asks the store for none of them.
Source: MemWAL revisions A and B, "MemTable Collection".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar

import pyarrow as pa

from .. import paths
from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..coroutines import concurrently
from ..effects import Io, remembered
from ..errors import Fenced
from ..ids import Generation, RegionId
from ..region import manifest as manifests
from ..region.rows import Rows
from .memtable_part import MemTablePart
from .parts import Part, TablePart
from .sources import BASE_GENERATION, MemoryView, unmerged
from .values import NOTHING
from .view import View

T = TypeVar("T")

_PART_BYTES = 1 << 10
"""About what a generation takes that is not opened."""


class Above(NamedTuple):
    """The generations of one region or of all."""

    generations: tuple[TablePart, ...]
    names: tuple[str, ...]
    """Their folders, by which no two generations are the same."""
    told_by: tuple[str, ...]
    """The objects that list them: while these are the same, so are they."""

    @classmethod
    def joined(cls, every: Iterable[Above]) -> Above:
        """Those of all of them."""
        generations, names, told_by = (tuple(chain.from_iterable(each)) for each in zip(*every, strict=True))
        return cls(generations, names, told_by)


@dataclass(frozen=True, slots=True)
class Parts:
    """All sources of a query."""

    io: Io
    base: TablePart
    regions: Mapping[RegionId, tuple[Part, ...]]
    """Sources of each region above the base, newest first."""
    listed_by: Mapping[RegionId, str] = field(default_factory=dict)
    """Of the regions whose newest state is read, its manifest, where anything is kept."""
    _stored: dict[RegionId | None, Above] = field(default_factory=dict)
    _in_memory: dict[RegionId, bool] = field(default_factory=dict)

    async def stored(self, region: RegionId | None = None) -> Above | None:
        """The generations of a region, newest first, or those of all regions for None; None where nothing is kept."""
        if not self.io.remembers:
            return None
        if region not in self._stored:
            found, told_by = list[TablePart](), list[str]()
            for each in self._among(region):
                own = [part for part in self.regions[each] if isinstance(part, TablePart)]
                listed = self.listed_by.get(each)
                told_by += [listed] if listed is not None else [(await part.opened()).path for part in own]
                found += own
            self._stored[region] = Above(tuple(found), tuple(part.io.root for part in found), tuple(told_by))
        return self._stored[region]

    async def above(self, region: RegionId | None = None) -> Above | None:
        """`stored` where there is nothing else above the base; None where a MemTable or a WAL tail has rows.

        These change without another name.
        """
        for each in self._among(region):
            if each not in self._in_memory:
                memory = [part for part in self.regions[each] if not isinstance(part, TablePart)]
                self._in_memory[each] = any([bool(await part.fragments(NOTHING)) for part in memory])
            if self._in_memory[each]:
                return None
        return await self.stored(region)

    def _among(self, region: RegionId | None) -> Iterable[RegionId]:
        return self.regions if region is None else (region,)

    async def open(self, regions: Iterable[RegionId] | None = None) -> None:
        """Open the sources of ``regions`` (None: all) where that is done at once, and else each when it is asked."""
        if self.io.concurrent:
            among = self.regions if regions is None else regions
            every = chain.from_iterable(self.regions[each] for each in among)
            await concurrently(self.io, [partial(part.fragments, NOTHING) for part in every])

    async def once(
        self, above: Above, what: Hashable, make: Callable[[], Awaitable[T]], size_bytes: Callable[[T], int]
    ) -> T:
        """What ``make`` works out of the generations ``above``; kept as long as they are the same."""
        return await remembered(self.io, (what, above.names), make, size_bytes, by=lambda _: above.told_by)


@implements("PLAN-001", "PLAN-002", "PLAN-034", "AMB-88", "AMB-102", "AMB-104", "AMB-117", "AMB-118", "AMB-140")
async def collect(io: Io, view: View, memory: Sequence[MemoryView]) -> Parts:
    """The sources of ``view`` and of the ``memory`` of open writers. Raises `Fenced` for memory of an older epoch."""
    base = TablePart(io=io, generation=BASE_GENERATION, region_id=None, base=view.base, state=view.base)
    held = {each.region_id: each for each in memory}
    shape = await _shape(io, view)
    found, listed_by = dict[RegionId, tuple[Part, ...]](), dict[RegionId, str]()
    for region in sorted({*view.manifests, *held}):
        manifest = view.manifests.get(region)
        memtables = _held(io, view, region, manifest, held.get(region), shape)
        stored = await _generations(io, view, region, manifest) if manifest is not None else ()
        if stored or memtables:
            found[region] = (*reversed(memtables), *stored)
            if manifest is not None and view.live:
                listed_by[region] = _path(io, region, manifest)
    return Parts(io, base, found, listed_by)


async def _shape(io: Io, view: View) -> Rows:
    """How rows are stored above the base, worked out once for a version of the table."""

    async def made() -> Rows:
        return Rows.of(view.base)

    path = view.base.path
    return await remembered(io, ("rows of regions", path), made, lambda _: _PART_BYTES, by=lambda _: (path,))


async def _generations(io: Io, view: View, region: RegionId, manifest: RegionManifest) -> tuple[TablePart, ...]:
    """The generations of a region that are not merged, newest first."""
    if not (view.live and io.remembers):
        return _stored(io, view, region, manifest)
    path = _path(io, region, manifest)
    name = "generations", path, view.base.path

    async def made() -> tuple[TablePart, ...]:
        return _stored(io, view, region, manifest, shared=name)

    return await remembered(io, name, made, lambda found: _PART_BYTES * len(found), by=lambda _: (path,))


def _path(io: Io, region: RegionId, manifest: RegionManifest) -> str:
    return manifests.folder(io, region).path(paths.manifest(manifest.version))


def _stored(
    io: Io, view: View, region: RegionId, manifest: RegionManifest, *, shared: Hashable = None
) -> tuple[TablePart, ...]:
    merged = view.base.mem_wal.progress(region)
    # AMB-118, merged generations: they are in the base, where others may have changed their rows since.
    floor = merged if io.interpretation.merged_out_of_resolution else Generation(0)
    folder = manifests.folder(io, region)
    return tuple(
        TablePart(
            io=folder.child(listed.path),
            generation=listed.generation,
            region_id=region,
            base=view.base,
            # AMB-100, a generation that cannot be opened: only a merged one may be missing.
            lenient=not io.interpretation.skip_only_merged or listed.generation <= merged,
            shared=shared,
        )
        for listed in reversed(unmerged(manifest, floor))
    )


def _held(
    io: Io, view: View, region: RegionId, manifest: RegionManifest | None, memory: MemoryView | None, shape: Rows
) -> list[MemTablePart]:
    current = manifest.generation_current if manifest is not None else Generation(0)
    tables: Sequence[tuple[Generation, pa.Table | None]] = ()
    if memory is not None:
        # AMB-140, a fenced writer's memory: what its successor has acknowledged is not in it.
        if manifest is not None and memory.epoch < manifest.epoch:
            raise Fenced(region, memory.epoch, manifest.epoch)
        # AMB-102, memory and a stale view: what is listed, or merged, is read from there, and not twice.
        if not view.live:
            current = max(current, Generation(view.base.mem_wal.progress(region) + 1))
        tables = [(generation, table) for generation, table in memory.tables if generation >= current]
    elif view.live and manifest is not None:
        # AMB-141, the WAL instead of memory: the writer's was not lent, so that its durable rows are read there.
        tables = [(current, None)]
    return [
        MemTablePart(
            generation=generation,
            region_id=region,
            base=view.base,
            view=view,
            io=manifests.folder(io, region),
            shape=shape,
            table=table,
            epoch=memory.epoch if memory is not None else None,
            indexes=memory.indexes.get(generation) if memory is not None else None,
        )
        for generation, table in tables
    ]
