"""Ranked searches: candidates of each source best first, without superseded ones, the best of all sources.

A source is asked for more candidates until enough of them stay: superseded rows never take the places of others.
Which filter matches a row does not matter to the rows that it supersedes.
Source: MemWAL revision A, "Vector Search Queries", "Full-Text Search Queries" and appendix 3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from .. import cellwise
from ..clauses import implements
from ..metrics import Metrics, metered, within
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from ..words import counted
from .filters import RowFilter
from .freshness import Freshness
from .nodes import PlanNode
from .origin import field_of
from .parts import Part, TablePart
from .ranked import Ranked, Values

_SPARE = 4
"""So many candidates more than are wanted are fetched of a source at first, or one for each so many: few are stale."""


@dataclass(slots=True, kw_only=True)
class Candidates(ABC):
    """KNNExec or FTSExec: the rows of one source that a search may find."""

    inputs: ClassVar[Sequence[PlanNode]] = ()
    part: Part
    fresh: bool = False
    """Whether it leaves out superseded rows itself."""
    outcome: str = "not read"
    metrics: Metrics = field(default_factory=Metrics)

    @property
    @abstractmethod
    def text(self) -> str:
        """The node in one line."""

    @abstractmethod
    async def rank(self) -> Ranked:
        """What it finds, as far as it has looked."""

    def grow(self) -> bool:
        """Let `rank` look further, for more candidates; False if it has given all there are."""
        return False

    def partitions(self) -> tuple[int, int] | None:
        """How many partitions it has looked at of how many; None: it has none."""
        return None

    def glance(self) -> tuple[int, float] | None:
        """How many rows `rank` gives and the best value of these, if it is known without asking; None: it is not."""
        return None

    def has_none_better(self, worst: float, greatest: bool) -> bool:
        """Whether it is known to begin with rows that are not better than ``worst``."""
        known = self.glance() if not self.metrics.watched else None
        return known is not None and (known[1] <= worst if greatest else known[1] >= worst)

    def noted(self, rows: int) -> str:
        """Note that so many candidates are known; returns how far it has looked, as plans say it."""
        self.metrics.output_rows = rows
        if (probed := self.partitions()) is None:
            return ""
        looked, there = probed
        self.metrics.counts |= {"partitions_probed": looked, "partitions_skipped": there - looked}
        return f", {looked} of {there} partitions"


@dataclass(slots=True)
class Pool:
    """UnionExec: the candidates of all sources."""

    inputs: Sequence[Candidates]
    text: str = "UnionExec"
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)


@dataclass(slots=True)
class FilterStale:
    """FilterStaleExec: candidates that no newer generation supersedes, and that the filter of the query keeps."""

    child: PlanNode
    union: Pool
    fresh: Freshness
    keep: RowFilter | None
    columns: tuple[str, ...]
    """Columns of the answer."""
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)
    _empty: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.fresh.text

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    @metered
    @implements("PLAN-021", "PLAN-023")
    async def survivors(self, source: Candidates, k: int, value: str, worst: float | None = None) -> pa.Table:
        """The ``k`` best rows of a source that stay, best first, with what they are ranked by in column ``value``.

        Fewer only if the source has no more, however far it looks, or where ``worst`` says that k others are better or
        equal: then only those that are better, and of vectors only what it finds at first.
        """
        while True:
            candidates = await within(source, source.rank())
            said = source.noted(len(candidates))
            better = candidates.better(worst)
            rows, dropped = await self._staying(source, better, k, value)
            source.outcome = f"{len(candidates)} candidates, {dropped} stale{said}"
            if rows.num_rows >= k or (worst is not None and not candidates.leaves_out(worst)) or not source.grow():
                return rows

    @implements("PLAN-021", "PLAN-023", "AMB-99", "AMB-107")
    async def _staying(self, source: Candidates, candidates: Ranked, k: int, value: str) -> tuple[pa.Table, int]:
        """The same, of these candidates; and how many stale ones were met on the way."""
        part, nothing = source.part, self._nothing(value)
        if not len(candidates):
            return nothing, 0
        key = list(self.fresh.view.base.primary_key)
        needed = list(dict.fromkeys([*key, *(self.keep.columns if self.keep is not None else ()), *self.columns]))
        found: list[pa.Table] = []
        all_stay = source.fresh and self.keep is None
        at, size, dropped = 0, k if all_stay else k + max(_SPARE, k // _SPARE), 0
        while at < len(candidates) and sum(rows.num_rows for rows in found) < k:
            rows = await take(part, *candidates.best(at, at + size), needed, value)
            # AMB-99, a pushed filter: it judges the rows that are found, and never which row of a key is the newest.
            if self.keep is not None:
                rows = self.keep(rows)
            if not source.fresh:
                stale = await self.fresh.stale(part, rows)
                dropped += int(stale.sum())
                rows = cellwise.where(rows, ~stale)
            found.append(rows.select([*self.columns, value]))
            at, size = at + size, 2 * size
        every = pa.concat_tables([nothing, *(cellwise.under(rows, nothing.schema) for rows in found)])
        return every.slice(0, k), dropped

    def _nothing(self, value: str) -> pa.Table:
        """The answer without rows."""
        if value not in self._empty:
            own = [field_of(self.fresh.view.base, name) for name in self.columns]
            self._empty[value] = pa.schema([*own, pa.field(value, pa.float32())]).empty_table()
        return self._empty[value]


@dataclass(slots=True)
class Refine:
    """RefineExec: the best rows of each source, several times as many, ranked anew by their own values."""

    child: FilterStale
    factor: int
    """How many times as many."""
    measure: Callable[[pa.Table], Values]
    """What rows are ranked by now, the less the better."""
    columns: tuple[str, ...]
    """Columns of the answer."""
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        return f"RefineExec: factor={self.factor}"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    @property
    def union(self) -> Pool:
        return self.child.union

    @metered
    async def survivors(self, source: Candidates, k: int, value: str, _worst: float | None = None) -> pa.Table:
        """As `FilterStale.survivors` gives them, best first by `measure`, which no other rank says anything of."""
        rows = await self.child.survivors(source, k * self.factor, value)
        measured = self.measure(rows)
        order = np.argsort(measured, kind="stable")[:k]
        return cellwise.at(rows.select(self.columns), order).append_column(value, pa.array(measured[order]))


@dataclass(slots=True)
class RankedSort:
    """SortExec: the rows that stay, of all sources, best first; among equal ones those of the source listed first."""

    child: FilterStale | Refine
    value: str
    """Column that they are ranked by."""
    greatest: bool
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        return f"SortExec: order_by=[{self.value} {'DESC' if self.greatest else 'ASC'}]"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)


@dataclass(slots=True)
class GlobalLimit:
    """GlobalLimitExec: the ``k`` best rows of all."""

    child: RankedSort
    k: int
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def text(self) -> str:
        return f"GlobalLimitExec: limit={self.k}"

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    @metered
    @implements("PLAN-021", "PLAN-023")
    async def run(self) -> pa.Table:
        """The answer: its columns, and last what it is ranked by."""
        sort, filtering = self.child, self.child.child
        rows: pa.Table | None = None
        order, worst = np.empty(0, np.int64), None
        known = isinstance(filtering, FilterStale)  # else the rows are ranked anew
        for source in filtering.union.inputs:
            if known and worst is not None and source.has_none_better(worst, sort.greatest):
                continue  # the best so far are better
            found = await filtering.survivors(source, self.k, sort.value, worst)
            if rows is not None and not found.num_rows:
                continue  # it has none that are better than those so far
            rows = found if rows is None else pa.concat_tables([cellwise.at(rows, order), found])
            values = rows.column(sort.value).to_numpy()
            order = np.argsort(-values if sort.greatest else values, kind="stable")[: self.k]
            worst = float(values[order[-1]]) if len(order) == self.k else None
        assert rows is not None  # there is the base table
        self.outcome = counted(len(order), "row")
        return cellwise.at(rows, order)


async def take(part: Part, addresses: Addresses, values: Values, names: Sequence[str], value: str) -> pa.Table:
    """The live rows at ``addresses``, in that order: ``names``, the address, and ``values`` as column ``value``."""
    rows = await (part.at(names, np.unique(addresses)) if isinstance(part, TablePart) else part.rows(names))
    there = rows.column(ROW_ADDRESS).to_numpy()
    order = np.argsort(there)
    if len(there):
        at = np.minimum(np.searchsorted(there, addresses, sorter=order), len(there) - 1)
        live = there[order[at]] == addresses
        at, values = order[at][live], values[live]
    else:
        at, values = order, values[:0]
    chosen = cellwise.at(rows, at).select([*names, ROW_ADDRESS])
    return chosen.append_column(value, pa.array(values, pa.float32()))
