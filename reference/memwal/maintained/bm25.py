"""BM25 over arrays: what a source knows of some terms, the statistics of many sources together, and scores.

Scores are those of the native package. Statistics of several sources add up, and a search takes the sum (AMB-110).
A document is a row with at least one term.
Source: MemWAL revision A, "Full-Text Search Queries"; AMB-110.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..clauses import implements
from ..codec.canonical import Mask
from ..codec.postings import Postings

Documents = npt.NDArray[np.int64]
"""Numbers of documents, ascending. Shape (documents,)."""
Scores = npt.NDArray[np.float32]

_K1 = 1.2
"""BM25: how fast repetitions of a term stop to count."""
_B = 0.75
"""BM25: how much long documents are discounted."""
_BEST = 1 << 10
"""So many documents of a term are known as its best ones."""
_MANY = 4
"""Of a list with so many times as many documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatistics:
    """What BM25 has to know about all documents of one source, or of several."""

    documents: int = 0
    terms: int = 0
    """Length of all documents together, in terms."""
    frequencies: Mapping[str, int] = field(default_factory=dict)
    """In how many documents each term is; a term that is in none may be missing."""

    @implements("WRITER-027", "AMB-110")
    def __add__(self, other: CorpusStatistics) -> CorpusStatistics:
        frequencies = dict(self.frequencies)
        for term, count in other.frequencies.items():
            frequencies[term] = frequencies.get(term, 0) + count
        return CorpusStatistics(
            documents=self.documents + other.documents, terms=self.terms + other.terms, frequencies=frequencies
        )

    @property
    def average(self) -> float:
        """How many terms a document has."""
        return self.terms / self.documents if self.documents else 1.0

    def weight(self, term: str) -> float:
        """Inverse document frequency of ``term``."""
        frequency = self.frequencies.get(term, 0)
        return math.log1p((self.documents - frequency + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTerms:
    """The terms of a query, and what a document needs of them."""

    placed: tuple[tuple[str, int], ...]
    """The terms in order, repeated ones included, with their positions."""
    every: bool = False
    """A document needs all of them, not only one."""
    phrase: bool = False
    """It needs all of them, as far from each other as in the query."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Each term once."""
        return tuple(dict.fromkeys(term for term, _ in self.placed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Documents of one source, numbered from 0, with the lists of some terms."""

    lengths: npt.NDArray[np.uint32]
    """Terms of each document; 0 for a row that is none."""
    live: Mask
    """Which documents count, and may be found."""
    postings: Mapping[str, Postings]
    """By term the documents among these that have it; a term that none has may be missing."""
    total: CorpusStatistics | None = None
    """Documents and terms of those that count; None: they are counted when they are asked for."""

    def counted(self) -> Corpus:
        """The same with its `total`."""
        counted = self.live & (self.lengths > 0)
        documents, terms = int(np.count_nonzero(counted)), int(self.lengths[counted].sum(dtype=np.int64))
        return replace(self, total=CorpusStatistics(documents=documents, terms=terms))

    def with_lists(self, postings: Mapping[str, Postings]) -> Corpus:
        """The same documents with other lists."""
        return Corpus(lengths=self.lengths, live=self.live, postings=postings, total=self.total)

    @classmethod
    def joined(cls, corpora: Sequence[Corpus]) -> Corpus:
        """The documents of all of them as one corpus: those of each are numbered on from those before."""
        firsts = np.cumsum([0, *(len(each.lengths) for each in corpora)]).tolist()
        lists: dict[str, list[tuple[int, Postings]]] = {}
        for first, each in zip(firsts, corpora, strict=False):
            for term, found in each.postings.items():
                lists.setdefault(term, []).append((first, found))
        return cls(
            lengths=np.concatenate([np.empty(0, np.uint32), *(each.lengths for each in corpora)]),
            live=np.concatenate([np.empty(0, np.bool_), *(each.live for each in corpora)]),
            postings={term: Postings.joined(found) for term, found in lists.items()},
        ).counted()

    @implements("WRITER-027", "AMB-110")
    def statistics(self) -> CorpusStatistics:
        """Of the documents that count."""
        total = self.total or self.counted().statistics()
        if not self.postings:
            return total
        frequencies = {term: len(each.documents) for term, each in self.postings.items() if len(each.documents)}
        return CorpusStatistics(documents=total.documents, terms=total.terms, frequencies=frequencies)

    @implements("PLAN-023", "AMB-110")
    def scores(self, asked: AskedTerms, corpus: CorpusStatistics) -> tuple[Documents, Scores]:
        """The documents that match, and their scores by ``corpus``, the statistics of all sources."""
        terms = asked.terms
        lists = [self.postings[term] for term in terms if term in self.postings]
        if not lists or ((asked.every or asked.phrase) and len(lists) < len(terms)):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        matching = self._matching(asked, lists)
        # Of one list the scores are as many as its documents; of several there is a place for each document.
        places = matching if len(lists) == 1 else np.arange(len(self.lengths))
        total = np.zeros(len(places))
        repeated = Counter(term for term, _ in asked.placed)
        for term in terms:
            if term not in self.postings:
                continue
            documents = self.postings[term].documents
            weights = self._weights(term, repeated[term], corpus)
            if len(lists) == 1:
                total = weights[np.isin(documents, matching)] if asked.phrase else weights
            else:
                total[documents] += weights
        return matching, (total if len(lists) == 1 else total[matching]).astype(np.float32)

    def _weights(
        self, term: str, times: int, corpus: CorpusStatistics, places: npt.NDArray[np.int64] | slice = slice(None)
    ) -> npt.NDArray[np.float64]:
        """What a term, asked for so many ``times``, adds to the scores of the documents at ``places`` of its list."""
        documents, counts = self.postings[term].documents[places], self.postings[term].counts[places]
        discount = 1 - _B + _B * self.lengths[documents] / corpus.average
        return times * corpus.weight(term) * counts * (_K1 + 1) / (counts + _K1 * discount)

    @implements("PLAN-023")
    def best(self, asked: AskedTerms, corpus: CorpusStatistics) -> tuple[Documents, Scores, float] | None:
        """Of a term that many documents have the best ones, as `scores` gives them; and what no other is better than.

        None where all have to be scored. Which they are is kept with the list, while documents are as long on average.
        """
        held = self.postings.get(asked.terms[0]) if len(asked.terms) == 1 and not asked.phrase else None
        if held is None or len(held.documents) < _MANY * _BEST:
            return None
        (term,) = asked.terms
        places = held.best.get(corpus.average)
        if places is None:
            order = np.argpartition(-self._weights(term, 1, corpus), _BEST)
            places = np.append(np.sort(order[:_BEST]), order[_BEST])
            held.best.clear()
            held.best[corpus.average] = places
        scores = self._weights(term, len(asked.placed), corpus, places).astype(np.float32)
        better = scores > scores[-1]
        return held.documents[places[better]], scores[better], float(scores[-1])

    def _matching(self, asked: AskedTerms, lists: Sequence[Postings]) -> Documents:
        if len(lists) == 1 and not asked.phrase:
            return lists[0].documents
        times = np.zeros(len(self.lengths), np.uint16)
        for each in lists:
            times[each.documents] += 1
        wanted = len(lists) if asked.every or asked.phrase else 1
        found = np.flatnonzero(times >= wanted)
        return self._in_phrase(asked, found) if asked.phrase else found

    def _in_phrase(self, asked: AskedTerms, found: Documents) -> Documents:
        """Those of ``found`` in which all terms stand as far from each other as in the query."""
        starts: Documents | None = None
        origin = asked.placed[0][1]
        for term, position in dict.fromkeys(asked.placed):
            each = self.postings[term]
            assert each.positions is not None
            documents = np.repeat(each.documents, each.counts)
            kept = np.isin(documents, found)
            # A start of the phrase is a document and a position there, as one number.
            here = (documents[kept] << 32) + each.positions[kept] - (position - origin)
            starts = here if starts is None else np.intersect1d(starts, here)
        assert starts is not None
        return np.unique(starts >> 32)
