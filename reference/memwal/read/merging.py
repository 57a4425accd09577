"""Nodes of a scan: each streams its rows, the sources of a region from the newest to the oldest, the base last.

Source: MemWAL revision A, "Query Execution" and appendix 3.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from .. import cellwise
from ..clauses import implements
from ..errors import EngineBug
from ..keys import Mask, newest
from ..seen import Seen
from ..table.late import RowChoice
from ..table.state import TableState
from .filters import RowFilter
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
    text: str = ""
    """How plans name it, at each source."""

    @classmethod
    @implements("PLAN-015", "AMB-99")
    def of(cls, asked: Query, key: Sequence[str], *, above: bool) -> Filtering:
        """``above``: the filter judges the newest row of each key and no other."""
        if asked.keep is None:
            return cls()
        # A filter of key columns drops all rows of a key or none of them.
        of_keys = set(asked.keep.columns) <= set(key)
        where = "pushed_down" if not above else "key" if of_keys else "newest"
        predicate = {name: values for name, values in asked.predicate.items() if name in key}
        return cls(condition=asked.keep, first=of_keys or not above, predicate=predicate, text=f", filter=[{where}]")


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

    @property
    def text(self) -> str:
        return f"ScanExec: {self.part.name}{self.more}{self.filtering.text}"

    async def stream(self, choice: RowChoice) -> AsyncIterator[pa.Table]:
        """The rows that ``choice`` wants, with the columns of both."""
        rows = wanted = fragments = 0

        def counted(batch: pa.Table) -> Mask:
            nonlocal rows, wanted
            rows += batch.num_rows
            found = choice.mask(batch)
            wanted += int(np.count_nonzero(found))
            return found

        counting = replace(choice, mask=counted)
        # PLAN-033, fragment pruning: rows that are left out by their keys hide no row of the answer.
        for fragment in reversed(await self.part.fragments(self.filtering.predicate)):
            fragments = fragments + 1
            async for found in self.part.stream(self.columns, fragment, counting):
                yield found
            kept = f", {wanted} wanted" if self.filtering.condition is not None else ""
            self.outcome = f"{rows} rows of {fragments} fragments{kept}"


@dataclass(slots=True)
class Union:
    """UnionExec: the rows of all sources. The base table is listed first, and read last."""

    base: Scan
    regions: Sequence[Sequence[Scan]]
    """Sources of each region above the base, newest first."""
    masks: Sequence[Scan] = ()
    """Sources of other regions, whose rows another split gives: their keys hide rows of the base."""
    text: str = "UnionExec"
    outcome: str = ""

    @property
    def inputs(self) -> Sequence[Scan]:
        return (self.base, *(scan for region in self.regions for scan in region), *self.masks)


Judge = Callable[[pa.Table], Mask]
"""Says of each of some rows whether it stays."""


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
    outcome: str = ""

    @property
    def text(self) -> str:
        key = ", ".join(self.base.primary_key)
        return f"DeduplicateExec: partition_by=[{key}], order_by=[_gen DESC, _rowaddr DESC]"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.union,)

    @implements("PLAN-012", "PLAN-013", "PLAN-014", "PLAN-026")
    async def stream(self) -> AsyncIterator[pa.Table]:
        above, rows = Seen(), 0
        # PLAN-014, the order: newest source first, so that the first row of a key that comes is its newest.
        for scans in (*self.union.regions, (self.union.base,)):
            # READ-014, regions are apart: each forgets its keys to the next one; the base is below all of them.
            seen = above if scans[0] is self.union.base else Seen()
            if seen is above:
                await self._hidden(above)
                if self.hiding is not None:
                    above = seen = self.hiding.keys = self.hiding.keys or above
            for scan in scans:
                last = seen is above and self.unique_base
                async for batch in scan.stream(self._choice(seen, last=last)):
                    found = batch.select(list(self.columns)) if self.deletes else live(batch, self.base, self.columns)
                    rows += found.num_rows
                    self.outcome = f"{rows} rows"
                    yield found
            if seen is not above:
                above.join(seen)

    async def _hidden(self, above: Seen) -> None:
        """Let the keys that other splits have hide rows of the base."""
        key = list(self.base.primary_key)
        judges: list[Judge] = (
            [self.filtering.condition.mask] if self.filtering.first and self.filtering.condition else []
        )
        judges.append(partial(_remembered, key=key, seen=above))
        for mask in self.union.masks:
            choice = RowChoice(columns=self._looked_at, mask=partial(agreed, judges=judges), few=True)
            async for _ in mask.stream(choice):
                raise EngineBug(f"{mask.part.name} gives rows of another split")

    @property
    def _looked_at(self) -> tuple[str, ...]:
        """The columns by which rows are chosen."""
        condition = self.filtering.condition
        named = dict.fromkeys([*self.base.primary_key, *(condition.columns if condition is not None else ())])
        return tuple(named) or tuple(self.base.schema.names[:1])

    @implements("PLAN-015", "PLAN-025", "AMB-99", "AMB-112")
    def _choice(self, seen: Seen, *, last: bool) -> RowChoice:
        """What a source is told: which rows are newer than all that has been ``seen``, and match the filter.

        ``last``: no older source follows, and no key of this one repeats.
        """
        key, condition = list(self.base.primary_key), self.filtering.condition
        judges: list[Judge] = []
        if key:  # without a key no row replaces another
            judges.append(partial(_unseen if last else _newest, key=key, seen=seen))
        if not self.deletes:
            judges.append(stays)
        if condition is not None:
            # AMB-99, a pushed filter: unless it tells keys apart, it judges the newest rows only.
            judges.insert(0 if self.filtering.first else len(judges), condition.mask)
        return RowChoice(columns=self._looked_at, mask=partial(agreed, judges=judges), few=condition is not None)


def agreed(rows: pa.Table, judges: Sequence[Judge]) -> Mask:
    """Which of ``rows`` all ``judges`` let stay; each is asked for those only that the ones before it did."""
    found = np.ones(rows.num_rows, np.bool_)
    for judge in judges:
        stays = judge(rows)
        if not stays.all():
            found[found] = stays
            rows = cellwise.where(rows, stays)
        if not rows.num_rows:
            break
    return found


def _newest(rows: pa.Table, key: list[str], seen: Seen) -> Mask:
    """The last row of each key that has not been ``seen``; and then it has. Later rows of a batch are newer."""
    keys = rows.select(key)
    kept: Mask = ~seen.mask(keys)
    last = newest(keys, key)
    if len(last) < rows.num_rows:
        is_last = np.zeros(rows.num_rows, np.bool_)
        is_last[last] = True
        kept &= is_last
    seen.add(keys if kept.all() else keys.filter(pa.array(kept)))
    return kept


def _unseen(rows: pa.Table, key: list[str], seen: Seen) -> Mask:
    """The rows whose key has not been ``seen``."""
    found: Mask = ~seen.mask(rows.select(key))
    return found


def _remembered(rows: pa.Table, key: list[str], seen: Seen) -> Mask:
    """None: their keys have been ``seen`` from now on."""
    seen.add(rows.select(key))
    return np.zeros(rows.num_rows, np.bool_)
