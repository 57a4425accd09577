"""The plan of a vector search: the nearest rows of every source, superseded ones dropped, the nearest of all.

Distances of all sources come from one code, that of the base index, so that they can be compared; without an index they
are exact.
Source: MemWAL revision A, "Vector Search Queries" and "Vector Index Configuration".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec.vector_model import VectorModel
from ..effects import Io
from ..errors import InvalidArgument
from ..ids import FragmentId
from ..keys import Mask
from ..maintained.base_index import MaintainedIndex
from ..maintained.stored_vectors import StoredVectors, VectorRows, open_vectors
from ..maintained.vector_code import METRICS, Encoded, QueryVector, VectorCode
from ..table import reuse
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from ..table.schema import check_columns
from ..table.state import TableState
from . import gap
from .choosing import chosen_index
from .defaults import NPROBES
from .filters import RowFilter
from .indexed import Answered, Coverage, in_base, inside, of_base, of_part
from .memtable_part import MemTablePart
from .nodes import watched
from .parts import Part, Parts, TablePart, collect
from .pruning import left_out, narrowed
from .query import Query
from .ranking import Candidates, FilterStale, Freshness, GlobalLimit, Pool, Ranked, RankedSort, Refine, Values
from .values import NOTHING
from .view import View, over

_OPENED_BYTES = 1 << 10
"""About what it takes to know an entry of an index beside its partitions."""
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
    nprobes: int = NPROBES
    """Partitions of each index that are looked at, the nearest ones; more where they have fewer than ``k`` rows."""
    refine_factor: int | None = None
    """Rank that many times ``k`` rows anew by their vectors; None leaves them as the index's code ranks them."""


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
        query_vector = code.query_vector(asked.vector)
        leaves = [await _leaf(io, part, parts, code, asked, query_vector, index, lag) for part in _sources(parts)]
        union = Pool(leaves)
        fresh = Freshness(io, chosen, parts, approximate)
        filtering: FilterStale | Refine = FilterStale(union, union, fresh, query.keep, tuple(names))
        if asked.refine_factor is not None and index is not None:
            filtering = _refined(union, fresh, query.keep, names, asked, code)
        plan = GlobalLimit(RankedSort(filtering, DISTANCE, greatest=False), asked.k)
        if query.watched:
            watched(plan, left_out(view, chosen))
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


async def _leaf(
    io: Io,
    part: Part,
    parts: Parts,
    code: VectorCode,
    asked: Nearest,
    vector: QueryVector,
    index: MaintainedIndex | None,
    lag: gap.IndexedPlan | None,
) -> Candidates:
    coverage = await (of_base(io, parts, index, lag) if part is parts.base else of_part(part, index))
    in_memory = isinstance(part, MemTablePart) and index is not None and _held(part, index, code) is not None
    text = f"KNNExec: {part.name}, k={asked.k}, via={'memory index' if in_memory else coverage.text}"
    source = Neighbours(part=part, parts=parts, coverage=coverage, code=code, asked=asked, query=vector, index=index)
    return Candidates(part, text, source.rank, grow=source.grow, probed=source.partitions)


@dataclass(slots=True, kw_only=True)
class Neighbours:
    """The rows of one source with a usable vector: of those that an index answers for, the ones in near partitions."""

    part: Part
    parts: Parts
    coverage: Coverage
    code: VectorCode
    asked: Nearest
    query: QueryVector
    index: MaintainedIndex | None
    wanted: int = 0
    """Partitions to be looked at, the nearest ones."""
    probed: int = 0
    """Partitions that were."""
    stored: list[tuple[Answered, frozenset[FragmentId], StoredVectors]] | None = None
    """Each entry of an index, and the fragments that it answers for."""
    merged: dict[int, tuple[Addresses, Addresses]] = field(default_factory=dict)
    """Of each generation in the gap the rows of the base that are its own: addresses there and here."""
    found: list[tuple[Addresses, Values]] = field(default_factory=list)
    ranked: Ranked | None = None
    """What was found, as long as nothing more is."""

    def grow(self) -> bool:
        """Look at twice as many partitions the next time; False if all were."""
        if not self.coverage.answered or self.probed >= len(self.code.centroids):
            return False
        self.wanted = 2 * self.probed
        return True

    def partitions(self) -> tuple[int, int] | None:
        """How many partitions were looked at, of how many; None where no index answers."""
        return (self.probed, len(self.code.centroids)) if self.coverage.answered else None

    @implements("PLAN-021")
    async def rank(self) -> Ranked:
        """What was found so far, nearest first."""
        if self.stored is None:
            self.wanted = self.asked.nprobes
            await self._open()
            await self._compare_rows(self.query)
        if self.coverage.answered and self.probed < self.wanted:
            count = min(self.wanted, len(self.code.centroids))
            await self._probe(self.query.nearest(count)[self.probed :], self.query)
            self.probed, self.ranked = count, None
        if self.ranked is None:
            addresses = np.concatenate([np.empty(0, np.uint64), *(each for each, _ in self.found)])
            values = np.concatenate([np.empty(0, np.float32), *(each for _, each in self.found)])
            self.ranked = Ranked(addresses, values, greatest=False)
        return self.ranked

    async def _open(self) -> None:
        self.stored = []
        if self.coverage.answered:
            assert isinstance(self.part, TablePart)
            what = ("vectors of an index", self.part.base.path, self.asked.column, self.code.model)
            self.stored = await self.part.once(what, self._opened, _opened_bytes)
        for answered in self.coverage.answered:
            if answered.merged is not None:
                generation, fragments = answered.merged
                base = self.parts.base
                self.merged[id(answered)] = await in_base(base, generation, fragments, base.base.primary_key)

    async def _opened(self) -> list[tuple[Answered, frozenset[FragmentId], StoredVectors]]:
        found = []
        for answered in self.coverage.answered:
            for entry in answered.entries:
                vectors = await open_vectors(answered.io, entry, self.code)
                if answered.io.remembers and self.part.region_id is not None:
                    vectors = await vectors.with_rows()  # they are kept with the generation
                found.append((answered, answered.by(entry), vectors))
        return found

    async def _compare_rows(self, query: QueryVector) -> None:
        """Rows that no index answers for, and those of memory."""
        scanned = self.coverage.scanned
        if not (await self.part.fragments(NOTHING) if scanned is None else scanned):
            return  # as most WAL tails, which have no rows
        rows = await self.part.rows([self.asked.column], scanned)
        encoded = _encoded(self.part, rows, self.code, self.asked.column, self.index)
        addresses = rows.column(ROW_ADDRESS).to_numpy()[encoded.offsets]
        self.found.append((addresses, self.code.distances(encoded, query)))

    async def _probe(self, partitions: npt.NDArray[np.int64], query: QueryVector) -> None:
        assert self.stored is not None
        for answered, fragments, vectors in self.stored:
            for held in await vectors.of(partitions):
                await self._compare(answered, fragments, held, query)

    async def _compare(
        self, answered: Answered, fragments: frozenset[FragmentId], held: VectorRows, query: QueryVector
    ) -> None:
        addresses, own = self._in_source(answered, fragments, held)
        if not own.any():
            return  # others answer for all of these
        if not own.all():
            held, addresses = held.at(own), addresses[own]
        if held.encoded is not None:
            self.found.append((addresses, self.code.distances(held.encoded, query)))
        else:
            assert isinstance(self.part, TablePart)
            rows = await self.part.at([self.asked.column], np.unique(addresses))
            measured = self.code.encode(rows.column(self.asked.column))
            there = rows.column(ROW_ADDRESS).to_numpy()[measured.offsets]
            self.found.append((there, self.code.distances(measured, query)))

    def _in_source(
        self, answered: Answered, fragments: frozenset[FragmentId], held: VectorRows
    ) -> tuple[Addresses, Mask]:
        """Addresses in the source of rows of an index entry, and which of them it answers for."""
        if not answered.state.moves and answered.merged is None and held.fragments <= fragments:
            return held.addresses, np.ones(len(held.addresses), np.bool_)
        addresses = reuse.addresses(held.addresses, answered.state.moves)
        own = inside(fragments, addresses)
        if answered.merged is not None:
            there, here = self.merged[id(answered)]
            own &= np.isin(addresses, there)
            addresses = np.where(own, _moved(addresses, there, here), addresses)
        return addresses, own


def _opened_bytes(opened: Sequence[tuple[Answered, frozenset[FragmentId], StoredVectors]]) -> int:
    return sum(_OPENED_BYTES + vectors.size_bytes() for _, _, vectors in opened)


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
    return Encoded.joined([*held, code.encode(rows.column(column).slice(done), done)])
