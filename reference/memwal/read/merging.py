"""Nodes of a scan: each streams its rows, the sources of a region from the newest to the oldest, the base last.

Source: MemWAL revision A, "Query Execution" and appendix 3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from .. import words
from ..clauses import implements
from ..coroutines import MOST_AHEAD, concurrently
from ..effects import Io
from ..errors import EngineBug, MemwalError
from ..keys import Mask
from ..metrics import Metrics, metered_stream
from ..seen import Seen
from ..table.late import Judge, RowChoice, Stage, agreed
from ..table.state import TableState
from .filters import RowFilter
from .keys_above import KeysAbove, keys_above
from .likely import likely
from .liveness import Liveness
from .nodes import PlanNode, live, stays
from .parts import Part
from .query import Query
from .values import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtering:
    """The filter of a query, and whether it judges the rows of a source before or after superseded ones are dropped."""

    condition: RowFilter | None = None
    first: bool = False
    """Whether rows that do not match count for nothing: they hide no older row of their key."""
    predicate: Predicate = field(default_factory=dict)
    """What is known of key columns of rows that match, by which fragments are left out."""
    likely: Stage | None = None
    """Which rows may match at all, where that is told sooner."""
    text: str = ""
    """How plans name it, at each source."""

    @classmethod
    @implements("PLAN-015", "AMB-99")
    def of(cls, asked: Query, base: TableState, *, above: bool) -> Filtering:
        """``above``: the filter judges the newest row of each key and no other."""
        if asked.keep is None:
            return cls()
        key = base.primary_key
        # A filter of key columns drops all rows of a key or none of them.
        of_keys = set(asked.keep.columns) <= set(key)
        where = "pushed_down" if not above else "key" if of_keys else "newest"
        predicate = {name: values for name, values in asked.predicate.items() if name in key}
        return cls(
            condition=asked.keep,
            first=of_keys or not above,
            predicate=predicate,
            likely=likely(asked.understood, base.schema),
            text=f", filter=[{where}]",
        )


@dataclass(slots=True)
class Scan:
    """ScanExec: the rows of one source in batches, the newest first; of each batch in write order."""

    part: Part
    columns: tuple[str, ...]
    filtering: Filtering = field(default_factory=Filtering)
    more: str = ""
    """What else the plan says of it."""
    inputs: Sequence[PlanNode] = ()
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        return f"ScanExec: {self.part.name}{self.more}{self.filtering.text}"

    async def prepare(self, choice: RowChoice) -> None:
        """Read ahead what `stream` will, as far as that is kept."""
        fragments = tuple(await self.part.fragments(self.filtering.predicate))
        await self.part.prepare(choice.columns(self.columns), fragments, choice.few)

    @metered_stream
    async def stream(self, choice: RowChoice) -> AsyncIterator[pa.Table]:
        """The rows that ``choice`` wants, with the columns of both."""
        rows = wanted = fragments = 0

        def counted(stage: Stage, *, first: bool, last: bool) -> Stage:
            def mask(batch: pa.Table) -> Mask:
                nonlocal rows, wanted
                found = stage.mask(batch)
                rows += batch.num_rows if first else 0
                wanted += int(np.count_nonzero(found)) if last else 0
                return found

            return replace(stage, mask=mask)

        ends = choice.stages[0], choice.stages[-1]
        stages = [counted(each, first=each is ends[0], last=each is ends[1]) for each in choice.stages]
        counting = replace(choice, stages=tuple(stages))
        self._scanned(fragments, rows, wanted)
        # PLAN-033, fragment pruning: rows that are left out by their keys hide no row of the answer.
        for fragment in reversed(await self.part.fragments(self.filtering.predicate)):
            fragments = fragments + 1
            async for found in self.part.stream(self.columns, fragment, counting):
                yield found
            self._scanned(fragments, rows, wanted)

    def _scanned(self, fragments: int, rows: int, wanted: int) -> None:
        """Note how far the scan is."""
        kept = f", {wanted} wanted" if self.filtering.condition is not None else ""
        self.outcome = f"{words.counted(rows, 'row')} of {words.counted(fragments, 'fragment')}{kept}"
        self.metrics.counts |= {"fragments_scanned": fragments, "rows_scanned": rows}


@dataclass(slots=True)
class Union:
    """UnionExec: the rows of all sources. The base table is listed first, and read last."""

    io: Io
    base: Scan
    regions: Sequence[Sequence[Scan]]
    """Sources of each region above the base, newest first."""
    masks: Sequence[Scan] = ()
    """Sources of other regions, whose rows another split gives: their keys hide rows of the base."""
    text: str = "UnionExec"
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def inputs(self) -> Sequence[Scan]:
        return (self.base, *(scan for region in self.regions for scan in region), *self.masks)


@dataclass(slots=True)
class Ahead:
    """Reads `MOST_AHEAD` sources at once, as far as they are kept in memory, where requests take long."""

    io: Io
    waiting: deque[Scan]
    """In the order in which they will be read."""

    async def of(self, scan: Scan, choice: RowChoice) -> None:
        """To be awaited before a source is read."""

        async def prepared(each: Scan) -> None:
            try:
                await each.prepare(choice)
            except MemwalError:
                return  # nothing of it is kept: where its rows are wanted they are read, and that fails again

        if self.io.concurrent and self.waiting and scan is self.waiting[0]:
            some = [self.waiting.popleft() for _ in range(min(MOST_AHEAD, len(self.waiting)))]
            await concurrently(self.io, [partial(prepared, each) for each in some])


@dataclass(slots=True)
class Hiding:
    """The keys of all regions of a cut, which hide rows of the base: a program that reads several splits keeps them."""

    cut: object = None
    """That of `keys`."""
    keys: Seen | None = None
    """None: no split has read them yet."""


@dataclass(slots=True)
class Deduplicate:
    """DeduplicateExec: of each key the row with the highest pair of generation and row address, unless it deletes.

    Each region comes from its newest source to its oldest; the base table, which all regions share, comes last. In
    memory are the keys that have come, not their rows. Which rows stay is said to the sources, by columns that these
    read first: the key, and what the filter looks at. Other columns are read of those rows only.
    """

    base: TableState
    columns: tuple[str, ...]
    """Columns of the answer."""
    union: Union
    filtering: Filtering = field(default_factory=Filtering)
    deletes: bool = False
    """Rows that delete their key come too."""
    unique_base: bool = False
    """Whether the base is relied on to have each key once (AMB-105), so that its keys are not kept in memory."""
    hiding: Hiding | None = None
    """Keeps the keys above the base for the next split, or has them from the one before: then nothing masks here."""
    live: Liveness | None = None
    """What is kept of which rows are superseded, for a filter that spares the look at most rows; None: nothing is."""
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        key = ", ".join(self.base.primary_key)
        return f"DeduplicateExec: partition_by=[{key}], order_by=[_gen DESC, _rowaddr DESC]"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.union,)

    @metered_stream
    @implements("PLAN-012", "PLAN-013", "PLAN-014", "PLAN-026")
    async def stream(self) -> AsyncIterator[pa.Table]:
        rows = 0
        known = await self._known()
        ahead = Ahead(self.union.io, deque(chain.from_iterable(self.union.regions)))
        async for scan, choice in self._by_keys() if known is None else self._by_known(known):
            await ahead.of(scan, choice)
            async for batch in scan.stream(choice):
                found = batch.select(list(self.columns)) if self.deletes else live(batch, self.base, self.columns)
                rows += found.num_rows
                self.outcome = words.counted(rows, "row")
                yield found

    async def _known(self) -> KeysAbove | None:
        """The keys of all generations, if they are kept: a scan that has to read and compare them takes longer."""
        if self.live is None:
            return None
        return await keys_above(self.live.fresh.parts, self.base.primary_key, spared=None)

    async def _by_keys(self) -> AsyncIterator[tuple[Scan, RowChoice]]:
        """The sources in order, and which of their rows are wanted, by the keys that have come by then."""
        above = Seen()
        # PLAN-014, the order: newest source first, so that the first row of a key that comes is its newest.
        for scans in (*self.union.regions, (self.union.base,)):
            # READ-014, regions are apart: each forgets its keys to the next one; the base is below all of them.
            seen = above if scans[0] is self.union.base else Seen()
            if seen is above:
                await self._hidden(above)
                if self.hiding is not None:
                    above = seen = self.hiding.keys = self.hiding.keys or above
            for scan in scans:
                yield scan, self._choice(seen, of_base=scan is self.union.base)
            if seen is not above:
                above.join(seen)

    @implements("PLAN-015", "AMB-99", "AMB-105")
    async def _by_known(self, known: KeysAbove) -> AsyncIterator[tuple[Scan, RowChoice]]:
        """The same, by what is kept of which rows are superseded: no keys are read of a generation."""
        assert self.live is not None
        assert self.filtering.condition is not None
        key, condition, likely = list(self.base.primary_key), self.filtering.condition, self.filtering.likely
        # What few rows are looked at for is read of them together with the rest.
        more = self.columns if likely is not None else ()
        first = [] if likely is None else [likely]
        of_generation = [] if self.deletes else [stays]
        stage = Stage(
            _columns(self.base, condition.columns, more), partial(agreed, judges=[*of_generation, condition.mask])
        )
        for scan in (scan for scans in self.union.regions for scan in scans):
            yield scan, RowChoice(stages=(*first, stage), few=True, gone=await self.live.dead(scan.part))
        # AMB-105, duplicate keys inside the base: of a key's rows there that match, the last one counts.
        last = partial(_newest, key=key, seen=Seen())
        judges: list[Judge] = [lambda rows: ~known.supersede(rows.select(key)), condition.mask, last]
        stage = Stage(_columns(self.base, key, condition.columns, more), partial(agreed, judges=judges))
        yield self.union.base, RowChoice(stages=(*first, stage), few=True)

    async def _hidden(self, above: Seen) -> None:
        """Let the keys that other splits have hide rows of the base."""
        key = list(self.base.primary_key)
        judges: list[Judge] = (
            [self.filtering.condition.mask] if self.filtering.first and self.filtering.condition else []
        )
        judges.append(partial(_remembered, key=key, seen=above))
        ahead = Ahead(self.union.io, deque(self.union.masks))
        choice = RowChoice(stages=(Stage(self._looked_at, partial(agreed, judges=judges)),), few=True)
        for mask in self.union.masks:
            await ahead.of(mask, choice)
            async for _ in mask.stream(choice):
                raise EngineBug(f"{mask.part.name} gives rows of another split")

    @property
    def _looked_at(self) -> tuple[str, ...]:
        """The columns by which rows are chosen."""
        condition = self.filtering.condition
        return _columns(self.base, self.base.primary_key, condition.columns if condition is not None else ())

    @implements("PLAN-015", "PLAN-025", "AMB-99", "AMB-112")
    def _choice(self, seen: Seen, *, of_base: bool) -> RowChoice:
        """What a source is told: which rows are newer than all that has been ``seen``, and match the filter."""
        key, filtering = list(self.base.primary_key), self.filtering
        matching: list[Judge] = [] if filtering.condition is None else [filtering.condition.mask]
        # AMB-105, duplicate keys inside the base: of a key's rows there that match, the last one counts. No row of the
        # base hides another one from a filter, so that the keys of matching rows are all that is read of it.
        alone = bool(matching) and of_base
        judges: list[Judge] = [] if self.deletes else [stays]
        if key and (alone or (of_base and self.unique_base)):
            # Last, so that no rows are picked for a judge after it: which keys have come is the same for all of them.
            judges.append(partial(_unseen, key=key, seen=seen))
        elif key:  # without a key no row replaces another
            judges.insert(0, partial(_newest, key=key, seen=seen, likely=None if filtering.first else filtering.likely))
        # AMB-99, a pushed filter: unless it tells keys apart, it judges the newest rows only.
        judges = matching + judges if filtering.first else judges + matching
        if key and alone and not self.unique_base:
            judges.append(partial(_newest, key=key, seen=seen))
        stages = [Stage(self._looked_at, partial(agreed, judges=judges))]
        if filtering.likely is not None and (of_base or filtering.first):
            stages.insert(0, filtering.likely)
        return RowChoice(stages=tuple(stages), few=bool(matching))


def _columns(base: TableState, *names: Sequence[str]) -> tuple[str, ...]:
    """All of ``names`` once; a stage has at least one."""
    return tuple(dict.fromkeys(chain.from_iterable(names))) or tuple(base.schema.names[:1])


def _newest(rows: pa.Table, key: list[str], seen: Seen, likely: Stage | None = None) -> Mask:
    """The last row of each key that has not been ``seen``; and then it has. Later rows of a batch are newer.

    Of rows that are not ``likely`` to match the filter only the keys count.
    """
    return seen.newest(rows.select(key), None if likely is None else likely.mask(rows))


def _unseen(rows: pa.Table, key: list[str], seen: Seen) -> Mask:
    """The rows whose key has not been ``seen``."""
    found: Mask = ~seen.mask(rows.select(key))
    return found


def _remembered(rows: pa.Table, key: list[str], seen: Seen) -> Mask:
    """None: their keys have been ``seen`` from now on."""
    seen.add(rows.select(key))
    return np.zeros(rows.num_rows, np.bool_)
