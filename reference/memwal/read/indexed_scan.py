"""The plan of a scan whose filter an index answers: the rows that it gives of each source, without superseded ones.

Each row that an index gives is read and looked at by the whole filter; what no index covers is read too.
Source: MemWAL revision A, "Scan Queries" and "Query Execution"; revisions A and B, "Indexed Read Plan".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from .. import cellwise
from ..clauses import implements
from ..coroutines import concurrently
from ..effects import Io
from ..keys import Mask
from ..metrics import Metrics, metered_stream
from ..seen import Seen
from ..table.late import RowChoice, Stage
from ..table.state import TableState
from ..words import counted
from . import scalar_index
from .answers import Ask, IndexAnswer, answer
from .asking import OfBase, of_memtable
from .collection import Parts, collect
from .conditions import AllOf, Condition, OneOf, leaves
from .filters import RowFilter
from .freshness import Freshness
from .indexes_above import OfGenerations
from .memtable_part import MemTablePart
from .nodes import PlanNode, live
from .parts import Part, Sourced, TablePart
from .query import Query
from .values import NOTHING
from .view import View

FEW_ROWS = 1_000
"""So few rows of the base are always taken where an index gives them."""
MOST_SHARE = 8
"""One of so many rows of the base may be given by an index; where it gives more, a scan reads all of them sooner."""
TAKEN_ROWS = 1 << 16
"""Rows that are taken at once."""
_NOTHING_GIVEN = "0 rows given, 0 read, 0 fragments scanned"


@dataclass(slots=True)
class ScalarIndexScan:
    """ScalarIndexExec: the rows of one source that indexes give for a condition, and all that they do not cover."""

    part: Part
    condition: Condition
    ask: Ask | None
    known: IndexAnswer | None = None
    """What they say, where it is known when the plan is made."""
    is_empty: bool = False
    """Whether they say of all rows that none is given."""
    inputs: Sequence[PlanNode] = ()
    outcome: str = "not read"
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        columns = ", ".join(dict.fromkeys(leaf.column for leaf in leaves(self.condition)))
        via = "" if self.known is None else f", via={'+'.join(self.known.via)}"
        return f"ScalarIndexExec: {self.part.name}, columns=[{columns}]{via}"

    async def prepare(self, names: Sequence[str]) -> None:
        """Ask the indexes, and read ahead the rows that they give."""
        await self._ask()
        if self.part.region_id is not None and self.known is not None and len(self.known.addresses):
            await self.part.prepare(names, sorted(self.known.fragments))

    async def _ask(self) -> None:
        if self.known is None and self.ask is not None:
            self.known = await answer(self.condition, self.ask)

    @metered_stream
    async def rows(self, names: Sequence[str], keep: RowFilter) -> AsyncIterator[pa.Table]:
        """Columns ``names`` of all rows that ``keep`` may keep, later fragments first; above the base with addresses.

        Of what no index covers, in the base, only those that it does keep.
        """
        await self._ask()
        known = self.known.addresses if self.known is not None else np.empty(0, np.uint64)
        covered = self.known.fragments if self.known is not None else frozenset()
        scanned = [fragment for fragment in await self.part.fragments(NOTHING) if fragment not in covered]
        read = 0
        if not len(known) and not scanned:
            self._ended(0, 0, 0)
            return

        def matches(found: pa.Table) -> Mask:
            nonlocal read
            read += found.num_rows
            return keep.mask(found)

        matching = RowChoice(stages=(Stage(keep.columns, matches),), few=True)
        end = len(known)
        for fragment in (*sorted(scanned, reverse=True), None):
            first = int(np.searchsorted(known, np.uint64(fragment << 32))) if fragment is not None else 0
            for at in range(end, first, -TAKEN_ROWS):
                taken = await self.part.at(names, known[max(first, at - TAKEN_ROWS) : at])
                read += taken.num_rows
                yield taken
            end = first
            if fragment is not None and self.part.region_id is not None:
                found = await self.part.rows(names, [fragment])
                read += found.num_rows
                yield found
            elif fragment is not None:
                async for found in self.part.stream(names, fragment, matching):
                    yield found
        self._ended(len(known), read, len(scanned))

    def passed_by(self) -> None:
        """Note that it gives nothing, and was not asked for it."""
        self.outcome = _NOTHING_GIVEN

    def _ended(self, given: int, read: int, scanned: int) -> None:
        self.outcome = f"{counted(given, 'row')} given, {read} read, {counted(scanned, 'fragment')} scanned"
        self.metrics.counts |= {"rows_of_index": given, "rows_scanned": read, "fragments_scanned": scanned}


@dataclass(slots=True)
class Sources:
    """UnionExec: the rows of all sources."""

    inputs: Sequence[ScalarIndexScan]
    text: str = "UnionExec"
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)


@dataclass(slots=True)
class IndexMatching:
    """FilterExec: of the rows that an index gives those that match."""

    child: Sources
    keep: RowFilter
    text: str = "FilterExec"
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)


@dataclass(slots=True)
class FreshRows:
    """FilterStaleExec: the rows of all sources that no newer row of their key supersedes, and that delete nothing."""

    child: IndexMatching
    fresh: Freshness
    base: TableState
    columns: tuple[str, ...]
    """Columns of the answer."""
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        return self.fresh.text

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    @metered_stream
    @implements("PLAN-015", "PLAN-033", "AMB-99", "AMB-105", "AMB-107")
    async def stream(self) -> AsyncIterator[pa.Table]:
        """AMB-99, a pushed filter: it chooses rows to look at, and never which row of a key is the newest."""
        rows, dropped, seen = 0, 0, Seen()
        async for sources, found in _grouped(self._read()):
            matching = self.child.keep.mask(found)
            if not matching.any():
                continue  # the filter keeps none of them
            lengths = np.add.reduceat(matching, np.cumsum([0, *(count for _, count in sources[:-1])]))
            found = cellwise.where(found, matching)
            kept = [(part, count) for (part, _), count in zip(sources, lengths.tolist(), strict=True)]
            stale = await self.fresh.stale_among(kept, found)
            if sources[0][0].region_id is None:
                # AMB-105, duplicate keys inside the base: of a key's rows that match, the last one counts.
                stale |= ~seen.newest(found.select(list(self.base.primary_key)))
            dropped += int(stale.sum())
            given = live(found, self.base, self.columns, ~stale)
            rows += given.num_rows
            yield given
        self.outcome = f"{counted(rows, 'row')}, {dropped} stale"

    async def _read(self) -> AsyncIterator[tuple[Part, pa.Table]]:
        """What the sources give, with columns that the filter looks at and those of the key."""
        names = list(dict.fromkeys([*self.base.primary_key, *self.child.keep.columns, *self.columns]))
        if self.fresh.io.concurrent:
            await concurrently(self.fresh.io, [partial(source.prepare, names) for source in self.child.child.inputs])
        for source in self.child.child.inputs:
            if source.is_empty and not source.metrics.watched:
                source.passed_by()
                continue  # none of its rows is asked for
            async for found in source.rows(names, self.child.keep):
                yield source.part, found


async def _grouped(read: AsyncIterator[tuple[Part, pa.Table]]) -> AsyncIterator[tuple[Sourced, pa.Table]]:
    """The rows of sources above the base together, most of which give few; those of the base, later ones first."""
    waiting, rows = list[tuple[Part, pa.Table]](), 0

    def joined() -> tuple[Sourced, pa.Table]:
        every = waiting[0][1] if len(waiting) == 1 else pa.concat_tables([each for _, each in waiting]).combine_chunks()
        return [(part, each.num_rows) for part, each in waiting], every

    async for part, found in read:
        if not found.num_rows:
            continue  # as most generations
        if waiting and (
            rows + found.num_rows > TAKEN_ROWS
            or None in (part.region_id, waiting[0][0].region_id)
            or not found.schema.equals(waiting[0][1].schema)
        ):
            yield joined()
            waiting, rows = [], 0
        waiting.append((part, found))
        rows += found.num_rows
    if waiting:
        yield joined()


@implements("PLAN-033", "AMB-99")
async def plan(io: Io, view: View, asked: Query) -> FreshRows | None:
    """The plan of a scan that indexes of the base table answer; None where a scan of all rows is as good.

    That is: nothing that the filter says has an index, the index gives more than one of `MOST_SHARE` rows of the base,
    or the table has no key. Only the base table's indexes are asked yet.
    """
    base, condition, keep = view.base, asked.understood, asked.keep
    if condition is None or keep is None or asked.deletes or not base.primary_key:
        return None
    if not io.interpretation.filter_above_deduplication:
        return None  # AMB-99, the literal reading: a pushed filter decides which row of a key is seen
    if not any(scalar_index.fitting(base, leaf) for leaf in leaves(condition)):
        return None
    parts = await collect(io, view, asked.memory)
    rows = sum(fragment.physical_rows for fragment in base.fragments)
    most = max(FEW_ROWS, rows // MOST_SHARE)
    told = await answer(condition, OfBase(io=io, view=view, parts=parts, memory=asked.memory, most=most).ask)
    if told is None:
        return None
    await parts.open()
    union = Sources([ScalarIndexScan(parts.base, condition, None, told), *await _above(parts, condition)])
    return FreshRows(IndexMatching(union, keep), Freshness(io, view, parts), base, tuple(asked.names(base)))


async def _above(parts: Parts, condition: Condition) -> list[ScalarIndexScan]:
    found, generations = [], OfGenerations(parts)
    # The answers of generations that are asked as one: most of them have no such row.
    if parts.io.concurrent:  # else each when it is asked, and perhaps none
        for leaf in leaves(condition):
            await generations.told(leaf)
    known = {} if isinstance(condition, AllOf | OneOf) else await generations.told(condition)
    for part in (part for region in parts.regions.values() for part in region):
        if isinstance(part, TablePart):
            told = known.get(part.io.root)
            ask: Ask | None = partial(generations.ask, part)
            found.append(ScalarIndexScan(part, condition, ask, told, told is not None and not len(told.addresses)))
        else:
            ask = partial(of_memtable, part) if isinstance(part, MemTablePart) else None
            found.append(ScalarIndexScan(part, condition, ask))
    return found
