"""The plan of a vector search: the nearest rows of every source, superseded ones dropped, the nearest of all.

Distances of all sources come from one code, that of the base index, so that they can be compared; without an index they
are exact.
Source: MemWAL revision A, "Vector Search Queries" and "Vector Index Configuration".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..codec.vector_model import VectorModel
from ..coroutines import concurrently
from ..effects import Io
from ..errors import InvalidArgument
from ..maintained.base_index import MaintainedIndex
from ..maintained.vector_code import METRICS, VectorCode
from ..table.schema import check_columns
from ..table.state import TableState
from . import gap
from .choosing import chosen_index
from .collection import Parts, collect
from .filters import RowFilter
from .freshness import Freshness
from .neighbours import AtOnce, Nearest, neighbours
from .nodes import watched
from .parts import Part
from .pruning import left_out, narrowed
from .query import Query
from .ranked import Values
from .ranking import FilterStale, GlobalLimit, Pool, RankedSort, Refine
from .view import View, over

__all__ = ["DISTANCE", "Nearest", "search"]

DISTANCE = "_distance"
"""Column of the answer: float32; the squared distance for l2, one less the product or the cosine for the others."""


@implements("PLAN-021")
async def search(
    io: Io,
    asked: Nearest,
    query: Query,
    *,
    approximate: bool = False,
    run: bool = True,
) -> tuple[pa.Table, GlobalLimit]:
    """The ``k`` newest rows nearest to a vector of a ``query``, nearest first; and the plan.

    The answer has the columns of the query and `DISTANCE`. ``run``: False only plans. ``approximate``: the
    filters of newer generations drop candidates unconfirmed. Raises as `memwal.read.view.over` does.
    """

    async def body(view: View) -> tuple[pa.Table, GlobalLimit]:
        names = query.names(view.base)
        check_columns(view.base.schema, [asked.column])
        index = None if asked.exact else await chosen_index(io, view.base, asked.column, asked.index, "vector")
        code = _code(asked, index, view.base)
        chosen, held = await narrowed(io, view, query.memory, query.predicate)
        parts = await collect(io, chosen, held)
        await parts.open()
        lag = None
        if index is not None:
            lag = await gap.plan(io, chosen, index.name, memory=held)
        query_vector = code.query_vector(asked.vector)
        sources = [await neighbours(io, part, parts, code, asked, query_vector, index, lag) for part in _sources(parts)]
        at_once = AtOnce(parts, [each for each in sources if each.all_indexed])
        for each in at_once.sources:
            each.at_once = at_once
        union = Pool(sources)
        fresh = Freshness(io, chosen, parts, approximate)
        filtering: FilterStale | Refine = FilterStale(union, union, fresh, query.keep, tuple(names))
        if asked.refine_factor is not None and index is not None:
            filtering = _refined(union, fresh, query.keep, names, asked, code)
        plan = GlobalLimit(RankedSort(filtering, DISTANCE, greatest=False), asked.k)
        if query.watched:
            watched(plan, left_out(view, chosen))
        if run and io.concurrent:
            await at_once.begin()
            await concurrently(io, [each.rank for each in sources if each.glance() is None])
        return (await plan.run() if run else pa.table({})), plan

    if asked.k < 1:
        raise InvalidArgument("k must be at least 1")
    if asked.nprobes < 1 or (asked.refine_factor is not None and asked.refine_factor < 1):
        raise InvalidArgument("nprobes must be at least 1, and refine_factor at least 1")
    return await over(io, query.version, body)


def _sources(parts: Parts) -> list[Part]:
    return [parts.base, *(part for region in parts.regions.values() for part in region)]


def _refined(
    union: Pool, fresh: Freshness, keep: RowFilter | None, names: Sequence[str], asked: Nearest, code: VectorCode
) -> Refine:
    """The candidates ranked anew by their vectors, which have no code then."""
    column, exact = asked.column, _uncoded(code.metric, code.dimension)
    query = exact.query_vector(asked.vector)

    def measure(rows: pa.Table) -> Values:
        encoded = exact.encode(rows.column(column))
        found = np.full(rows.num_rows, np.inf, np.float32)
        found[encoded.offsets] = exact.distances(encoded, query)
        return found

    needed = tuple(dict.fromkeys([*names, column]))
    return Refine(FilterStale(union, union, fresh, keep, needed), asked.refine_factor or 1, measure, tuple(names))


def _code(asked: Nearest, index: MaintainedIndex | None, base: TableState) -> VectorCode:
    if index is not None:
        assert index.code is not None
        if asked.metric not in {None, index.code.metric}:
            reason = f"index {index.name!r} measures {index.code.metric}, not {asked.metric}; ask for an exact search"
            raise InvalidArgument(reason)
        return index.code
    kind, metric = base.schema.field(asked.column).type, asked.metric or "l2"
    if metric not in METRICS:
        raise InvalidArgument(f"there is no metric {metric!r}; choose one of {', '.join(METRICS)}")
    if not pa.types.is_fixed_size_list(kind) or not pa.types.is_floating(kind.value_type):
        raise InvalidArgument(f"column {asked.column!r} of type {kind} is not a column of vectors")
    return _uncoded(metric, kind.list_size)


def _uncoded(metric: str, dimension: int) -> VectorCode:
    """Vectors as they are, in one partition."""
    model = VectorModel(kind="IVF_FLAT", metric=metric, centroids=b"", storage=(), buffers=())
    return VectorCode(
        model=model, kind="IVF_FLAT", centroids=np.zeros((1, dimension)), codebook=None, bounds=(0.0, 0.0)
    )
