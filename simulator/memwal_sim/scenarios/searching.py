"""A search for values by the indexes of a table, which the engine makes with its own read plan.

Which source answers for which rows (`memwal.read.gap`, `indexed`), which rows are superseded and which are the best
(`memwal.read.ranking`) is the engine's; so are all indexes. The engine ranks by vectors and text, though, and the
tables here have btrees: this only says which rows a btree gives for a value, all of them equally good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from memwal.codec import data_file
from memwal.codec.pb.lance import table_pb2
from memwal.effects import Io
from memwal.maintained import base_index
from memwal.maintained.memory import MemTableIndexes
from memwal.read import gap, indexed
from memwal.read.collection import Parts, collect
from memwal.read.freshness import Freshness
from memwal.read.indexed import Answered, Coverage
from memwal.read.memtable_part import MemTablePart
from memwal.read.parts import Part
from memwal.read.ranked import Ranked
from memwal.read.ranking import Candidates, FilterStale, GlobalLimit, Pool, RankedSort
from memwal.read.sources import HeldIndexes
from memwal.read.view import View
from memwal.region.writer import RegionWriter
from memwal.table.mirror import index_folder
from memwal.table.read import ROW_ADDRESS
from memwal.table.reuse import Addresses

from .actors import memory_of
from .ground import KEY, VALUE

PAGES = "page_data.lance"
"""File of a btree that has its values and the addresses of their rows."""
RANK = "rank"
"""Column of what rows are ranked by, which is equal for all."""
MOST = 1_000
"""More rows than a search in a scenario finds."""

Hit: TypeAlias = tuple[str, str, str]
"""The value that was asked for, and key and value of a row that was found."""


@dataclass(frozen=True, slots=True)
class _SourceSearch:
    """How the sources are searched that are stored, and what is in memory."""

    sources: Sequence[tuple[Part, Coverage]]
    parts: Parts
    fresh: Freshness
    memory: tuple[MemTableIndexes, pa.Table] | None
    """Indexes and rows of the MemTable; None if it counts no more."""


async def hits(view: View, writer: RegionWriter, table: Io, name: str) -> tuple[Hit, ...]:
    """What searches for every value find by the btree ``name``, sorted, with what ``writer`` holds in memory.

    Only of the region of ``writer``, which has no frozen MemTables.
    """
    search = await _planned(view, writer, table, name)
    found: list[Hit] = []
    for value in await _values(search):
        if search.memory is not None:
            indexes, rows = search.memory
            held = rows.take(pa.array(indexes.equal(name, value)))
            found += [(value, key, own) for key, own in _pairs(held)]
        pool = Pool([_Equal(part=part, parts=search.parts, how=how, value=value) for part, how in search.sources])
        best = RankedSort(FilterStale(pool, pool, search.fresh, None, (KEY, VALUE)), RANK, greatest=False)
        found += [(value, key, own) for key, own in _pairs(await GlobalLimit(best, MOST).run())]
    return tuple(sorted(found))


async def _planned(view: View, writer: RegionWriter, table: Io, name: str) -> _SourceSearch:
    indexes = writer.memtable.index_up_to_date(maintained=True)
    assert indexes is not None
    held = {writer.memtable.generation: HeldIndexes(key_filter=indexes.key_filter)}
    memory = [replace(memory_of(writer), indexes=held)]
    plan = await gap.plan(table, view, name, memory=memory)
    parts = await collect(table, view, memory)
    (index,) = await base_index.load(table, view.base, [name])
    sources: list[tuple[Part, Coverage]] = [(parts.base, await indexed.of_base(table, parts, index, plan))]
    above = parts.regions.get(writer.region.region_id, ())
    sources += [(part, await indexed.of_part(part, index)) for part in above if not isinstance(part, MemTablePart)]
    counts = writer.memtable.generation in plan.region(writer.region.region_id).memory
    rows = writer.memtable.table()
    return _SourceSearch(sources, parts, Freshness(table, view, parts), (indexes, rows) if counts else None)


async def _values(search: _SourceSearch) -> list[str]:
    """Every value that some source or index has."""
    found: set[str | None] = set()
    if search.memory is not None:
        found.update(search.memory[1].column(VALUE).to_pylist())
    for part, coverage in search.sources:
        found.update((await part.rows([VALUE])).column(VALUE).to_pylist())
        for answered in coverage.answered:
            for entry in answered.entries:
                found.update((await _pages(answered.io, entry)).column("values").to_pylist())
    return sorted(value for value in found if value is not None)


@dataclass(slots=True, kw_only=True)
class _Equal(Candidates):
    """The rows of a source that its indexes give for ``value``, or that have it where no index answers."""

    parts: Parts
    how: Coverage
    value: str

    @property
    def text(self) -> str:
        return self.value

    async def rank(self) -> Ranked:
        found = [np.empty(0, np.uint64)]
        for answered in self.how.answered:
            found += [await _indexed(self.parts, answered, entry, self.value) for entry in answered.entries]
        if self.how.scanned is None or self.how.scanned:
            rows = await self.part.rows([VALUE], self.how.scanned)
            found.append(_equal(rows, VALUE, ROW_ADDRESS, self.value))
        addresses = np.concatenate(found)
        return Ranked(addresses, np.zeros(len(addresses), np.float32), greatest=False)


async def _indexed(parts: Parts, answered: Answered, entry: table_pb2.IndexMetadata, value: str) -> Addresses:
    addresses = _equal(await _pages(answered.io, entry), "values", "ids", value)
    addresses = addresses[indexed.inside(answered.by(entry), addresses)]
    if answered.merged is None:
        return addresses
    there, here = await indexed.in_base(parts.base, *answered.merged, parts.base.base.primary_key)
    return here[np.isin(there, addresses)]


async def _pages(io: Io, entry: table_pb2.IndexMetadata) -> pa.Table:
    page = f"{index_folder(entry.uuid.uuid)}/{PAGES}"
    return data_file.decode(await io.get(page), io.path(page))


def _equal(rows: pa.Table, column: str, wanted: str, value: str) -> Addresses:
    """What is in column ``wanted`` where another one has ``value``."""
    pairs = zip(rows.column(column).to_pylist(), rows.column(wanted).to_pylist(), strict=True)
    return np.array([found for own, found in pairs if own == value], np.uint64)


def _pairs(rows: pa.Table) -> list[tuple[str, str]]:
    return list(zip(rows.column(KEY).to_pylist(), rows.column(VALUE).to_pylist(), strict=True))
