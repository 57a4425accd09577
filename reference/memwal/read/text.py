"""The plan of a full-text search: the matching rows of every source, scored by what is known of all sources together.

Statistics come first, from exactly the sources that take part; then each source scores its rows by their sum, and what
is superseded is dropped. Rows that are superseded count in the statistics as long as an index holds them.
Source: MemWAL revision A, "Full-Text Search Queries".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from ..errors import InvalidArgument
from ..maintained import corpus, stored_text
from ..maintained.base_index import MaintainedIndex
from ..maintained.text_index import CorpusStatistics, TextIndex
from ..table.read import ROW_ADDRESS
from ..table.schema import check_columns
from . import gap
from .choosing import chosen_index
from .indexed import Coverage, counted, in_base, of_base, of_part
from .nodes import Keep, PlanNode
from .parts import Addresses, Part, Parts, collect
from .pruning import narrowed
from .query import Query
from .ranking import Candidates, FilterStale, Freshness, GlobalLimit, Pool, Ranked, RankedSort, ranked, take
from .view import View, over

SCORE = "_score"
"""Column of the answer: float32, BM25 over all sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """What a full-text search asks for."""

    column: str
    query: str
    k: int
    index: str | None = None
    """The full-text index that says how text becomes terms; None: the first over the column."""
    every_term: bool = False
    """Rows need all terms of the query, not only one."""


@dataclass(slots=True)
class Documents:
    """The rows of one source that may match, and what its indexes say of all its rows."""

    part: Part
    coverage: Coverage
    index: MaintainedIndex
    asked: Matching
    parts: Parts
    addresses: Addresses = field(default_factory=lambda: np.empty(0, np.uint64))
    """Address of each document in ``texts``, which numbers them from 0."""
    texts: TextIndex | None = None
    statistics: CorpusStatistics = field(default_factory=CorpusStatistics)

    @implements("PLAN-024")
    async def gather(self, terms: Sequence[str]) -> CorpusStatistics:
        """Read what is there of ``terms``; returns the statistics of the source."""
        assert self.index.tokenizer is not None
        self.texts = TextIndex(self.index.tokenizer)
        column, found = self.asked.column, []
        if self.coverage.scanned is None or self.coverage.scanned:
            rows = await self.part.rows([column], self.coverage.scanned)
            self._insert(rows.column(ROW_ADDRESS).to_numpy(), rows.column(column))
            self.statistics += self.texts.statistics(terms)
        for answered in self.coverage.answered:
            known = await corpus.load(answered.io, answered.state, self.index.name, terms)
            self.statistics += known
            for entry in answered.entries:
                given = await stored_text.matching(
                    answered.io, answered.state, entry, column, self.asked.query, known.documents
                )
                given = given[counted(answered, entry, given)]
                if answered.merged is not None:
                    there, here = await in_base(self.parts.base, *answered.merged, self.parts.base.base.primary_key)
                    given = here[np.isin(there, given)]
                found.append(given)
        if found:
            addresses = np.unique(np.concatenate(found))
            rows = await take(self.part, addresses, addresses.astype(np.float32), [column], SCORE)
            self._insert(rows.column(ROW_ADDRESS).to_numpy(), rows.column(column))
        return self.statistics

    def _insert(self, addresses: Addresses, column: pa.ChunkedArray) -> None:
        assert self.texts is not None
        self.texts.insert(column, len(self.addresses))
        self.addresses = np.concatenate([self.addresses, addresses])

    async def rank(self, everything: GlobalBM25) -> Ranked:
        """Its rows that match, by the statistics of all sources, best first."""
        statistics = await everything.statistics()
        assert self.texts is not None
        live = np.ones(len(self.addresses), np.bool_)
        hits = self.texts.matching(self.asked.query, live, None, statistics, every_term=self.asked.every_term)
        return ranked(self.addresses[hits.offsets], hits.values, greatest=True)


@dataclass(slots=True)
class GlobalBM25:
    """GlobalBM25Exec: the statistics of all sources together, which each of them scores its rows by."""

    child: PlanNode
    documents: Sequence[Documents]
    terms: Sequence[str]
    found: CorpusStatistics | None = None
    text: str = "GlobalBM25Exec"
    outcome: str = ""

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    @implements("PLAN-024", "AMB-110")
    async def statistics(self) -> CorpusStatistics:
        """Gathered from every source before the first row is scored."""
        if self.found is None:
            total = CorpusStatistics()
            for source in self.documents:
                total += await source.gather(self.terms)
            self.found = total
            self.outcome = f"{total.documents} documents"
        return self.found


@implements("PLAN-023")
async def search(
    io: Io,
    asked: Matching,
    query: Query,
    *,
    approximate: bool = False,
    run: bool = True,
) -> tuple[pa.Table, GlobalLimit]:
    """The ``k`` newest rows that match a query best of a ``query``, best first; and the plan.

    The answer has the columns of the query and `SCORE`. ``run``: False only plans. ``approximate``: the
    filters of newer generations drop candidates unconfirmed. Raises as `memwal.read.view.over` does.
    """

    async def body(view: View) -> tuple[pa.Table, GlobalLimit]:
        names = query.names(view.base)
        check_columns(view.base.schema, [asked.column])
        index = await chosen_index(io, view.base, asked.column, asked.index, "text")
        if index is None or index.tokenizer is None:
            raise InvalidArgument(f"no full-text index over column {asked.column!r} of the base table", clause="AMB-48")
        chosen, held = await narrowed(io, view, query.memory, query.predicate)
        parts = collect(io, chosen, held)
        lag = await gap.plan(io, chosen, index.name, memory=held)
        sources: list[Part] = [parts.base, *(part for region in parts.regions.values() for part in region)]
        documents = []
        for part in sources:
            coverage = await (of_base(io, parts, index, lag) if part is parts.base else of_part(part, index))
            documents.append(Documents(part, coverage, index, asked, parts))
        plan = _plan(io, chosen, parts, documents, asked, names, query.keep, approximate)
        return (await plan.run() if run else pa.table({})), plan

    if asked.k < 1:
        raise InvalidArgument("a search asks for at least one row")
    return await over(io, query.version, body)


def _plan(
    io: Io,
    view: View,
    parts: Parts,
    documents: Sequence[Documents],
    asked: Matching,
    names: Sequence[str],
    keep: Keep | None,
    approximate: bool,
) -> GlobalLimit:
    index = documents[0].index
    assert index.tokenizer is not None
    union = Pool(())
    everything = GlobalBM25(union, documents, index.tokenizer.terms(asked.query))
    union.inputs = [
        Candidates(
            each.part,
            f"FTSExec: {each.part.name}, query={asked.query!r}, via={each.coverage.text}",
            partial(each.rank, everything),
        )
        for each in documents
    ]
    fresh = Freshness(io, view, parts, approximate)
    filtering = FilterStale(everything, union, fresh, keep, tuple(names))
    return GlobalLimit(RankedSort(filtering, SCORE, greatest=True), asked.k)
