"""The documents of one source, or of all generations as one, and their scores by the statistics of all sources.

Source: MemWAL revision A, "Full-Text Search Queries".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..codec.postings import Postings
from ..coroutines import concurrently
from ..effects import remembered
from ..ids import RegionId
from ..keys import Mask
from ..maintained import stored_text
from ..maintained.base_index import MaintainedIndex
from ..maintained.bm25 import AskedTerms, Corpus, CorpusStatistics
from ..maintained.stored_text import StoredPart
from ..maintained.text_index import TextIndex
from ..metrics import Metrics, within
from ..table import reuse
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from .collection import Above, Parts
from .indexed import Answered, Coverage, in_base, inside, moved
from .liveness import Liveness
from .memtable_part import MemTablePart
from .nodes import PlanNode
from .parts import TablePart
from .ranked import Ranked, RankedTogether
from .ranking import Candidates, Pool
from .values import NOTHING

T = TypeVar("T")


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
    phrase: bool = False
    """Rows need all terms of the query, as far from each other as they are there."""


@dataclass(slots=True, kw_only=True)
class Documents(Candidates):
    """The rows of one source that may match, and what is known of them."""

    coverage: Coverage
    index: MaintainedIndex
    asked: Matching
    terms: AskedTerms
    parts: Parts
    live: Liveness
    everything: GlobalBM25
    """The statistics by which they are scored."""
    found: Sequence[tuple[Addresses, Corpus]] = ()
    """Rows by the number of their document in a corpus; and the corpus."""
    joined: tuple[JoinedDocuments, int] | None = None
    """Those of all generations where they are asked as one, and which of their sources this is."""
    is_whole: bool = False
    """Whether `rank` gives all rows that match, and not only the best."""

    @implements("PLAN-024")
    async def gather(self) -> CorpusStatistics:
        """Read what is there of the terms; returns the statistics of the source."""
        self.found = await self.of(self.terms.terms)
        return sum((corpus.statistics() for _, corpus in self.found), CorpusStatistics())

    async def of(self, terms: Sequence[str]) -> list[tuple[Addresses, Corpus]]:
        """Its documents, with the lists of ``terms``."""
        found, held = list[tuple[Addresses, Corpus]](), self.held
        if held is not None:
            own, done = held
            offsets = np.arange(done, dtype=np.uint64)
            found.append((offsets, own.corpus(await self.live.of(self.part, offsets), terms)))
        scanned = self.coverage.scanned
        if await self.part.fragments(NOTHING) if scanned is None else scanned:
            found.append(await self._look_at_rows(held[1] if held is not None else 0, terms))
        for answered in self.coverage.answered:
            found += await self._ask(answered, terms)
        return found

    @property
    def text(self) -> str:
        via = "memory index" if self.held is not None else self.coverage.text
        return f"FTSExec: {self.part.name}, query={self.asked.query!r}, via={via}"

    @property
    def held(self) -> tuple[TextIndex, int] | None:
        """The index of a MemTable, and how many of its first rows that has; None for a source without one."""
        if not isinstance(self.part, MemTablePart) or self.part.indexes is None:
            return None
        own = self.part.indexes.texts.get(self.index.name)
        if own is None or own.tokenizer != self.index.tokenizer:
            return None
        return own, self.part.indexes.rows_indexed

    async def _look_at_rows(self, first: int, terms: Sequence[str]) -> tuple[Addresses, Corpus]:
        """Of rows that no index has the texts are cut here: from row ``first`` on of a MemTable."""
        assert self.index.tokenizer is not None
        rows = (await self.part.rows([self.asked.column], self.coverage.scanned)).slice(first)
        looked = TextIndex(self.index.tokenizer)
        looked.insert(rows.column(self.asked.column))
        addresses = rows.column(ROW_ADDRESS).to_numpy()
        return addresses, looked.corpus(await self.live.of(self.part, addresses), terms)

    @implements("PLAN-011", "PLAN-023")
    async def _ask(self, answered: Answered, terms: Sequence[str]) -> list[tuple[Addresses, Corpus]]:
        corpora = list[tuple[Addresses, Corpus]]()
        for entry in answered.entries:
            opening = partial(stored_text.parts, answered.io, entry)
            for stored in await self._once(("text index", entry.uuid.uuid), opening, stored_text.size_bytes):
                counting = partial(self._counted, answered, entry, stored)
                name: tuple[Hashable, ...] = ("documents of an index", stored.prefix)
                addresses, corpus = await self._while_live(answered, stored, name, counting, _documents_bytes)
                lists = dict[str, Postings]()
                for term in terms:
                    reading = partial(self._of_term, stored, term, corpus.live)
                    name = ("documents of a term", stored.prefix, term, self.terms.phrase)
                    found = await self._while_live(answered, stored, name, reading, stored_text.lists_bytes)
                    lists.update(found)
                corpora.append((addresses, corpus.with_lists(lists)))
        return corpora

    async def _while_live(
        self,
        answered: Answered,
        stored: StoredPart,
        what: tuple[Hashable, ...],
        make: Callable[[], Awaitable[T]],
        size_bytes: Callable[[T], int],
    ) -> T:
        """What ``make`` works out of an index and of which rows count; not kept of a generation that was merged."""
        if answered.merged is not None:
            return await make()
        return await self.live.kept(self.part, what, make, size_bytes, of=stored.files)

    async def _counted(
        self, answered: Answered, entry: table_pb2.IndexMetadata, stored: StoredPart
    ) -> tuple[Addresses, Corpus]:
        """The documents of a partition, where they are in this source and which of them count; without lists."""
        addresses = reuse.addresses(stored.addresses, answered.state.moves)
        own = inside(answered.by(entry), addresses)
        if answered.merged is not None:
            there, here = await in_base(self.parts.base, *answered.merged, self.parts.base.base.primary_key)
            addresses, present = moved(addresses, there, here)
            own &= present
        live = own & await self.live.of(self.part, addresses)
        return addresses, Corpus(lengths=stored.lengths, live=live, postings={}).counted()

    async def _of_term(self, stored: StoredPart, term: str, live: Mask) -> Mapping[str, Postings]:
        """The list of a term, of the ``live`` documents. All of it is kept, too, since an index does not change."""
        make = partial(stored.postings, [term], positions=self.terms.phrase)
        name = ("list of documents", stored.io.path(stored.prefix), term, self.terms.phrase)
        lists: dict[str, Postings]
        if self.part.region_id is None:
            lists = await remembered(stored.io, name, make, stored_text.lists_bytes, of=stored.files)
        else:
            lists = await self._once(name, make, stored_text.lists_bytes)
        return {found: each.of(live) for found, each in lists.items()}

    async def _once(self, what: Hashable, make: Callable[[], Awaitable[T]], size_bytes: Callable[[T], int]) -> T:
        """What ``make`` reads of an index; that of a generation is kept with the generation."""
        return await self.part.once(what, make, size_bytes) if isinstance(self.part, TablePart) else await make()

    def glance(self) -> tuple[int, float] | None:
        if self.joined is None or (scored := self.joined[0].scored) is None:
            return None
        return scored.rows(self.joined[1]), scored.best[self.joined[1]]

    async def rank(self) -> Ranked:
        """Its rows that match, by the statistics of all sources; of many only the best, until `grow` is asked."""
        statistics = await within(self.everything, self.everything.statistics())
        if self.joined is not None:
            above, place = self.joined
            return above.ranked(place, self.terms, statistics)
        best = [None if self.is_whole else corpus.best(self.terms, statistics) for _, corpus in self.found]
        floor = max((some[2] for some in best if some is not None), default=-np.inf)
        self.is_whole = floor == -np.inf
        addresses, values = [np.empty(0, np.uint64)], [np.empty(0, np.float32)]
        for (own, corpus), some in zip(self.found, best, strict=True):
            documents, scores = corpus.scores(self.terms, statistics) if some is None else some[:2]
            kept = scores > floor
            addresses.append(own[documents[kept]])
            values.append(scores[kept])
        rest = None if self.is_whole else floor
        return Ranked(np.concatenate(addresses), np.concatenate(values), greatest=True, rest=rest)

    def grow(self) -> bool:
        """Give all rows the next time, and not only the best; False if all were given."""
        if self.joined is not None:
            return self.joined[0].grow()
        was_whole, self.is_whole = self.is_whole, True
        return not was_whole


def _documents_bytes(found: tuple[Addresses, Corpus]) -> int:
    addresses, corpus = found
    return int(addresses.nbytes + corpus.live.nbytes)


@dataclass(slots=True)
class JoinedDocuments:
    """The documents of all generations as one corpus, so that a search does not ask one generation after another.

    They are kept, and so is the list of each term that was asked for, while the generations are the same.
    """

    sources: Sequence[Documents]
    addresses: Addresses
    corpus: Corpus
    ends: npt.NDArray[np.int64]
    """The number behind the last document of each source."""
    scored: RankedTogether | None = None
    """Rows that match, once they are asked for: of many only the best, until `grow` is asked."""
    is_whole: bool = False

    def ranked(self, place: int, terms: AskedTerms, statistics: CorpusStatistics) -> Ranked:
        """The rows that match of one source, as `Documents.rank` gives them."""
        if self.scored is None:
            best = None if self.is_whole else self.corpus.best(terms, statistics)
            documents, scores, rest = best or (*self.corpus.scores(terms, statistics), None)
            self.is_whole = rest is None
            ends = np.searchsorted(documents, self.ends)
            self.scored = RankedTogether.of(self.addresses[documents], scores, ends, greatest=True, rest=rest)
        return self.scored.at(place)

    def grow(self) -> bool:
        """Give all rows the next time; False if all were given."""
        if self.is_whole:
            return False
        self.is_whole, self.scored = True, None
        return True


async def joined(documents: Sequence[Documents]) -> JoinedDocuments | None:
    """The documents of all generations whose superseded rows only generations tell; None where nothing is kept."""
    live = documents[0].live
    parts = documents[0].parts
    above = dict[RegionId, Above]()
    for region_id in parts.regions:
        found = await parts.above(region_id)
        if found is not None:  # else a MemTable or a WAL tail supersedes rows of them
            above[region_id] = found
    sources = [each for each in documents if each.part.region_id in above and each.coverage.scanned == ()]
    if not sources:
        return None
    every = Above.joined(above.values())
    first = sources[0]
    which = parts.base.base.path, first.index.name, live.fresh.approximate

    async def of_all() -> tuple[Addresses, Corpus, npt.NDArray[np.int64]]:
        found = await concurrently(parts.io, [partial(each.of, ()) for each in sources])
        addresses = [np.empty(0, np.uint64), *(own for each in found for own, _ in each)]
        corpus = Corpus.joined([corpus for each in found for _, corpus in each])
        return np.concatenate(addresses), corpus, np.cumsum([sum(len(own) for own, _ in each) for each in found])

    async def of_term(term: str) -> Mapping[str, Postings]:
        found = await concurrently(parts.io, [partial(each.of, (term,)) for each in sources])
        return Corpus.joined([corpus for each in found for _, corpus in each]).postings

    def size_bytes(all_: tuple[Addresses, Corpus, npt.NDArray[np.int64]]) -> int:
        addresses, corpus, ends = all_
        return _documents_bytes((addresses, corpus)) + corpus.lengths.nbytes + ends.nbytes

    addresses, corpus, ends = await parts.once(every, ("documents above", *which), of_all, size_bytes)
    lists = dict[str, Postings]()
    for term in first.terms.terms:
        what = ("documents of a term above", *which, term, first.terms.phrase)
        held: Mapping[str, Postings] = await parts.once(every, what, partial(of_term, term), stored_text.lists_bytes)
        lists.update(held)
    return JoinedDocuments(sources, addresses, corpus.with_lists(lists), ends)


async def _gathered(source: Documents) -> CorpusStatistics:
    return await within(source, source.gather())


@dataclass(slots=True)
class GlobalBM25:
    """GlobalBM25Exec: the statistics of all sources together, which each of them scores its rows by."""

    child: Pool
    documents: Sequence[Documents] = ()
    """The candidates of the pool."""
    found: CorpusStatistics | None = None
    text: str = "GlobalBM25Exec"
    outcome: str = ""
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def inputs(self) -> Sequence[PlanNode]:
        return (self.child,)

    @implements("PLAN-024", "AMB-110")
    async def statistics(self) -> CorpusStatistics:
        """Gathered from every source before the first row is scored."""
        if self.found is None:
            total = CorpusStatistics()
            if (above := await joined(self.documents)) is not None:
                total = above.corpus.statistics()
                for place, source in enumerate(above.sources):
                    source.joined = above, place
            # Those of the others, one by one.
            gathered = [partial(_gathered, source) for source in self.documents if source.joined is None]
            total = sum(await concurrently(self.documents[0].parts.io, gathered), total)
            self.found = total
            self.outcome = f"{total.documents} documents"
        return self.found
