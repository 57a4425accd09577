"""The plan of a full-text search: the matching rows of every source, scored by what is known of all sources together.

Of each source the lists of the query's terms are read, from its index where it has one, and which of its rows are
superseded. From both come the statistics, of exactly the rows that a merged table would have; by their sum each source
scores its rows.
Source: MemWAL revision A, "Full-Text Search Queries".
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from ..errors import InvalidArgument
from ..maintained.text_index import TextIndex
from ..table.schema import check_columns
from . import gap
from .choosing import chosen_index
from .collection import collect
from .documents import Documents, GlobalBM25, Matching
from .freshness import Freshness
from .indexed import of_base, of_part
from .liveness import Liveness
from .nodes import watched
from .parts import Part
from .pruning import left_out, narrowed
from .query import Query
from .ranking import FilterStale, GlobalLimit, Pool, RankedSort
from .view import View, over

__all__ = ["SCORE", "Matching", "search"]

SCORE = "_score"
"""Column of the answer: float32, BM25 over all sources."""


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

    The answer has the columns of the query and `SCORE`. ``run``: False only plans. ``approximate``: the filters of
    newer generations drop candidates unconfirmed, and superseded rows count in the statistics. Raises as
    `memwal.read.view.over` does, and `InvalidArgument` for a phrase where an index has no positions.
    """

    async def body(view: View) -> tuple[pa.Table, GlobalLimit]:
        names = query.names(view.base)
        check_columns(view.base.schema, [asked.column])
        index = await chosen_index(io, view.base, asked.column, asked.index, "text")
        if index is None or index.tokenizer is None:
            raise InvalidArgument(
                f"the base table has no full-text index over column {asked.column!r}: build one first", clause="AMB-48"
            )
        terms = TextIndex(index.tokenizer).asked(asked.query, every_term=asked.every_term, phrase=asked.phrase)
        if asked.phrase and not index.tokenizer.with_positions:
            raise InvalidArgument(f"index {index.name!r} keeps no positions of terms, which a phrase needs")
        chosen, held = await narrowed(io, view, query.memory, query.predicate)
        parts = await collect(io, chosen, held)
        await parts.open()
        lag = await gap.plan(io, chosen, index.name, memory=held)
        fresh = Freshness(io, chosen, parts, approximate)
        live = Liveness(fresh)
        sources: list[Part] = [parts.base, *(part for region in parts.regions.values() for part in region)]
        union = Pool(())
        everything = GlobalBM25(union)
        # Of rows that are superseded none counts, and so none is found.
        like = partial(
            Documents, index=index, asked=asked, terms=terms, parts=parts, live=live,
            everything=everything, fresh=not approximate,
        )  # fmt: skip
        documents = []
        for part in sources:
            coverage = await (of_base(io, parts, index, lag) if part is parts.base else of_part(part, index))
            documents.append(like(part=part, coverage=coverage))
        union.inputs = everything.documents = documents
        filtering = FilterStale(everything, union, fresh, query.keep, tuple(names))
        plan = GlobalLimit(RankedSort(filtering, SCORE, greatest=True), asked.k)
        if query.watched:
            watched(plan, left_out(view, chosen))
        return (await plan.run() if run else pa.table({})), plan

    if asked.k < 1:
        raise InvalidArgument("k must be at least 1")
    return await over(io, query.version, body)
