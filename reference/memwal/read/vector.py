"""The plan of a vector search: the nearest rows of every source, superseded ones dropped, the nearest of all.

Distances of all sources come from one code, that of the base index, so that they can be compared; without an index they
are exact.
Source: MemWAL revision A, "Vector Search Queries" and "Vector Index Configuration".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec.vector_model import VectorModel
from ..effects import Io
from ..errors import InvalidArgument
from ..maintained import stored_vectors
from ..maintained.base_index import MaintainedIndex
from ..maintained.vector_code import METRICS, Encoded, VectorCode
from ..table import reuse
from ..table.read import ROW_ADDRESS
from ..table.schema import check_columns
from ..table.state import TableState
from . import gap
from .choosing import chosen_index
from .indexed import Answered, Coverage, counted, in_base, of_base, of_part
from .parts import Addresses, MemTablePart, Part, Parts, collect
from .pruning import narrowed
from .query import Query
from .ranking import Candidates, FilterStale, Freshness, GlobalLimit, Pool, Ranked, RankedSort, Values, ranked
from .view import View, over

DISTANCE = "_distance"
"""Column of the answer: float32; the squared distance for l2, one less the product or the cosine for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """What a vector search asks for."""

    column: str
    vector: npt.ArrayLike
    k: int
    metric: str | None = None
    """How distances are measured where no index says it: l2 for None."""
    index: str | None = None
    """The index that accelerates it; None: one over the column, if there is one."""
    exact: bool = False
    """Use no index."""


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
        parts = collect(io, chosen, held)
        lag = None
        if index is not None:
            lag = await gap.plan(io, chosen, index.name, memory=held)
        leaves = [await _leaf(io, part, parts, code, asked, index, lag) for part in _sources(parts)]
        union = Pool(leaves)
        filtering = FilterStale(union, union, Freshness(io, chosen, parts, approximate), query.keep, tuple(names))
        plan = GlobalLimit(RankedSort(filtering, DISTANCE, greatest=False), asked.k)
        return (await plan.run() if run else pa.table({})), plan

    if asked.k < 1:
        raise InvalidArgument("a search asks for at least one row")
    return await over(io, query.version, body)


def _sources(parts: Parts) -> list[Part]:
    return [parts.base, *(part for region in parts.regions.values() for part in region)]


def _code(asked: Nearest, index: MaintainedIndex | None, base: TableState) -> VectorCode:
    if index is not None:
        assert index.code is not None
        if asked.metric not in {None, index.code.metric}:
            reason = f"index {index.name!r} measures {index.code.metric}, not {asked.metric}; ask for an exact search"
            raise InvalidArgument(reason)
        return index.code
    kind, metric = base.schema.field(asked.column).type, asked.metric or "l2"
    if metric not in METRICS:
        raise InvalidArgument(f"unknown metric {metric!r}; there are {', '.join(METRICS)}")
    if not pa.types.is_fixed_size_list(kind) or not pa.types.is_floating(kind.value_type):
        raise InvalidArgument(f"column {asked.column!r} of type {kind} has no vectors")
    model = VectorModel(kind="IVF_FLAT", metric=metric, centroids=b"", storage=(), buffers=())
    return VectorCode(
        model=model, kind="IVF_FLAT", centroids=np.zeros((1, kind.list_size)), codebook=None, bounds=(0.0, 0.0)
    )


async def _leaf(
    io: Io,
    part: Part,
    parts: Parts,
    code: VectorCode,
    asked: Nearest,
    index: MaintainedIndex | None,
    lag: gap.IndexedPlan | None,
) -> Candidates:
    coverage = await (of_base(io, parts, index, lag) if part is parts.base else of_part(part, index))
    in_memory = isinstance(part, MemTablePart) and index is not None and _held(part, index, code) is not None
    text = f"KNNExec: {part.name}, k={asked.k}, via={'memory index' if in_memory else coverage.text}"
    return Candidates(part, text, partial(_rank, part, parts, coverage, code, asked, index))


@implements("PLAN-021")
async def _rank(
    part: Part, parts: Parts, coverage: Coverage, code: VectorCode, asked: Nearest, index: MaintainedIndex | None
) -> Ranked:
    """All rows of a source that have a usable vector, nearest first."""
    query = code.query_vector(asked.vector)
    found: list[tuple[Addresses, Values]] = []
    for answered in coverage.answered:
        for addresses, encoded in await _stored(answered, code, parts):
            found.append((addresses, code.distances(encoded, query)))
    if coverage.scanned is None or coverage.scanned:
        rows = await part.rows([asked.column], coverage.scanned)
        encoded = _encoded(part, rows, code, asked.column, index)
        addresses = rows.column(ROW_ADDRESS).to_numpy()[encoded.offsets]
        found.append((addresses, code.distances(encoded, query)))
    addresses = np.concatenate([np.empty(0, np.uint64), *(each for each, _ in found)])
    values = np.concatenate([np.empty(0, np.float32), *(each for _, each in found)])
    return ranked(addresses, values, greatest=False)


async def _stored(answered: Answered, code: VectorCode, parts: Parts) -> list[tuple[Addresses, Encoded]]:
    found = []
    for entry in answered.entries:
        stored, encoded = await stored_vectors.load(answered.io, entry, code)
        addresses = reuse.addresses(stored, answered.state.moves)
        own = counted(answered, entry, addresses)
        if answered.merged is not None:
            generation, fragments = answered.merged
            there, here = await in_base(parts.base, generation, fragments, parts.base.base.primary_key)
            own &= np.isin(addresses, there)
            addresses = np.where(own, _moved(addresses, there, here), addresses)
        kept = Encoded(np.flatnonzero(own), encoded.partitions[own], encoded.codes[own])
        found.append((addresses[own], kept))
    return found


def _moved(addresses: Addresses, there: Addresses, here: Addresses) -> Addresses:
    """Each of ``addresses`` that is in ``there``, ascending, as its counterpart in ``here``; others are anything."""
    if not len(there):
        return addresses
    return here[np.minimum(np.searchsorted(there, addresses), len(there) - 1)]


def _held(part: MemTablePart, index: MaintainedIndex, code: VectorCode) -> tuple[Encoded, ...] | None:
    """What the MemTable's own index holds, in parts, if it follows the same code."""
    if part.indexes is None or index.name not in part.indexes.vectors:
        return None
    own, encoded = part.indexes.vectors[index.name]
    return encoded if own == code else None


def _encoded(part: Part, rows: pa.Table, code: VectorCode, column: str, index: MaintainedIndex | None) -> Encoded:
    held = _held(part, index, code) if isinstance(part, MemTablePart) and index is not None else None
    if held is None or not isinstance(part, MemTablePart) or part.indexes is None:
        return code.encode(rows.column(column))
    done = part.indexes.rows_indexed
    parts = [*held, code.encode(rows.column(column).slice(done), done)]
    kind = parts[-1].codes.dtype
    return Encoded(
        np.concatenate([each.offsets for each in parts]),
        np.concatenate([each.partitions for each in parts]),
        np.concatenate([each.codes.astype(kind, copy=False) for each in parts]),
    )
