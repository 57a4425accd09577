"""The rows of one source that are near to a vector: those of near partitions of its index, and those without one.

Source: MemWAL revision A, "Vector Search Queries" and "Vector Index Configuration".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..coroutines import concurrently
from ..effects import Io
from ..ids import FragmentId
from ..keys import Mask
from ..maintained.base_index import MaintainedIndex
from ..maintained.stored_vectors import StoredVectors, VectorRows, open_vectors
from ..maintained.vector_code import Encoded, QueryVector, VectorCode
from ..table import reuse
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from . import gap
from .collection import Above, Parts
from .defaults import NPROBES
from .indexed import Answered, Coverage, in_base, inside, moved, of_base, of_part
from .memtable_part import MemTablePart
from .parts import Part, TablePart, Which
from .ranked import Ranked, RankedTogether, Values
from .ranking import Candidates
from .together import together
from .values import NOTHING
from .vectors_above import VectorsAbove

_SPARED = 512
"""To rank the vectors of one generation takes about the time of putting so many of them together."""
_OPENED_BYTES = 1 << 10
"""About what it takes to know an entry of an index beside its partitions."""


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


async def neighbours(
    io: Io,
    part: Part,
    parts: Parts,
    code: VectorCode,
    asked: Nearest,
    vector: QueryVector,
    index: MaintainedIndex | None,
    lag: gap.IndexedPlan | None,
) -> Neighbours:
    coverage = await (of_base(io, parts, index, lag) if part is parts.base else of_part(part, index))
    return Neighbours(part=part, parts=parts, coverage=coverage, code=code, asked=asked, query=vector, index=index)


@dataclass(slots=True)
class AtOnce:
    """Ranks what is near of all generations at once, where it pays to have their vectors together."""

    parts: Parts
    sources: Sequence[Neighbours]
    """Generations for all of whose rows one index answers."""
    _near: tuple[VectorsAbove, RankedTogether] | None = None
    _is_asked: bool = False

    async def ranked(self, source: Neighbours) -> Ranked | None:
        """The rows of one of them in the partitions that are looked at first; None where it has to look itself."""
        await self.begin()
        place = self._place(source)
        return None if self._near is None or place is None else self._near[1].at(place)

    async def begin(self) -> None:
        """Rank them, if they were not."""
        if self._is_asked or not self.sources:
            return
        self._is_asked, stored, one = True, await self.parts.stored(), self.sources[0]
        above = None if stored is None else await self._together(stored)
        if above is not None:
            self._near = above, above.near(one.code, one.query, one.asked.nprobes)

    def glance(self, source: Neighbours) -> tuple[int, float] | None:
        """How many rows `ranked` gives, and the best value; None for none, and where that is not known yet."""
        place = self._place(source)
        if self._near is None or place is None or not (rows := self._near[1].rows(place)):
            return None
        return rows, self._near[1].best[place]

    def _place(self, source: Neighbours) -> int | None:
        return None if self._near is None else self._near[0].places.get(source.which)

    async def _together(self, stored: Above) -> VectorsAbove | None:
        one = self.sources[0]
        what = "vectors above", self.parts.base.base.path, one.asked.column, one.code.model
        return await together(self.parts, stored, what, self._joined, _size, spared=_SPARED)

    async def _joined(self) -> VectorsAbove | None:
        every = await concurrently(self.parts.io, [each.at_hand for each in self.sources])
        held = zip((each.which for each in self.sources), every, strict=True)
        every_held = [(which, rows) for which, rows in held if rows is not None]
        return VectorsAbove.joined(every_held, len(self.sources[0].code.centroids))


def _size(above: VectorsAbove | None) -> int:
    return 0 if above is None else above.size_bytes()


@dataclass(slots=True, kw_only=True)
class Neighbours(Candidates):
    """The rows of one source with a usable vector: of those that an index answers for, the ones in near partitions."""

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
    at_once: AtOnce | None = None
    """Ranks it with others at first."""
    is_begun: bool = False
    """Whether it looks itself."""

    @property
    def text(self) -> str:
        in_memory = isinstance(self.part, MemTablePart) and _held(self.part, self.index, self.code) is not None
        via = "memory index" if in_memory else self.coverage.text
        return f"KNNExec: {self.part.name}, k={self.asked.k}, via={via}"

    @property
    def which(self) -> Which:
        """Which source it is."""
        return self.part.region_id, self.part.generation

    @property
    def all_indexed(self) -> bool:
        """Whether one index of a generation answers for all of its rows, where they are."""
        if self.part.region_id is None or self.coverage.scanned != () or len(self.coverage.answered) != 1:
            return False
        (answered,) = self.coverage.answered
        return answered.merged is None and not answered.state.moves

    async def at_hand(self) -> Sequence[VectorRows] | None:
        """All its vectors, if they have codes and are kept; of one that is `all_indexed`."""
        await self._open()
        found = []
        for _, fragments, vectors in self.stored or ():
            if vectors.rows is None and vectors.ends[-1]:
                return None
            if vectors.rows is not None:
                if vectors.rows.encoded is None or not vectors.rows.fragments <= fragments:
                    return None
                found.append(vectors.rows)
        return found

    def glance(self) -> tuple[int, float] | None:
        """As that of `Candidates`, of what it finds at first."""
        known = self.at_once.glance(self) if self.at_once is not None and not self.is_begun else None
        if known is not None:
            self.probed = self._first
        return known

    @property
    def _first(self) -> int:
        """How many partitions are looked at first."""
        return min(self.asked.nprobes, len(self.code.centroids))

    def grow(self) -> bool:
        """Look at twice as many partitions the next time; False if all were."""
        if not self.coverage.answered or self.probed >= len(self.code.centroids):
            return False
        self.wanted = 2 * self.probed
        if not self.is_begun:
            self.probed = 0
        return True

    def partitions(self) -> tuple[int, int] | None:
        return (self.probed, len(self.code.centroids)) if self.coverage.answered else None

    @implements("PLAN-021")
    async def rank(self) -> Ranked:
        """What was found so far, nearest first."""
        if self.ranked is None and not self.is_begun and self.at_once is not None:
            self.ranked = await self.at_once.ranked(self)
            self.probed = self._first if self.ranked is not None else 0
        if self.ranked is not None and self.probed >= self.wanted:
            return self.ranked
        if not self.is_begun:
            self.is_begun, self.wanted = True, max(self.wanted, self.asked.nprobes)
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
        near = list[tuple[Addresses, Encoded]]()
        for answered, fragments, vectors in self.stored:
            for held in await vectors.of(partitions):
                addresses, own = self._in_source(answered, fragments, held)
                if not own.any():
                    continue  # others answer for all of these
                if not own.all():
                    held, addresses = held.at(own), addresses[own]
                if held.encoded is not None:
                    near.append((addresses, held.encoded))
                else:
                    self.found.append(await self._measured(addresses, query))
        distances = self.code.distances_of([encoded for _, encoded in near], query)
        self.found += zip((addresses for addresses, _ in near), distances, strict=True)

    async def _measured(self, addresses: Addresses, query: QueryVector) -> tuple[Addresses, Values]:
        """Distances by the vectors themselves."""
        assert isinstance(self.part, TablePart)
        rows = await self.part.at([self.asked.column], np.unique(addresses))
        measured = self.code.encode(rows.column(self.asked.column))
        return rows.column(ROW_ADDRESS).to_numpy()[measured.offsets], self.code.distances(measured, query)

    def _in_source(
        self, answered: Answered, fragments: frozenset[FragmentId], held: VectorRows
    ) -> tuple[Addresses, Mask]:
        """Addresses in the source of rows of an index entry, and which of them it answers for."""
        if not answered.state.moves and answered.merged is None and held.fragments <= fragments:
            return held.addresses, np.ones(len(held.addresses), np.bool_)
        addresses = reuse.addresses(held.addresses, answered.state.moves)
        own = inside(fragments, addresses)
        if answered.merged is not None:
            addresses, present = moved(addresses, *self.merged[id(answered)])
            own &= present
        return addresses, own


def _opened_bytes(opened: Sequence[tuple[Answered, frozenset[FragmentId], StoredVectors]]) -> int:
    return sum(_OPENED_BYTES + vectors.size_bytes() for _, _, vectors in opened)


def _held(part: MemTablePart, index: MaintainedIndex | None, code: VectorCode) -> tuple[Encoded, ...] | None:
    """What the MemTable's own index holds, in parts, if it follows the same code."""
    if index is None or part.indexes is None or index.name not in part.indexes.vectors:
        return None
    own, encoded = part.indexes.vectors[index.name]
    return encoded if own == code else None


def _encoded(part: Part, rows: pa.Table, code: VectorCode, column: str, index: MaintainedIndex | None) -> Encoded:
    held = _held(part, index, code) if isinstance(part, MemTablePart) else None
    if held is None or not isinstance(part, MemTablePart) or part.indexes is None:
        return code.encode(rows.column(column))
    done = part.indexes.rows_indexed
    return Encoded.joined([*held, code.encode(rows.column(column).slice(done), done)])
