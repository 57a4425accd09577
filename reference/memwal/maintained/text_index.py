"""A full-text index over the rows of one MemTable, and the corpus statistics that make scores comparable.

Scores are BM25 as the native package computes them. Statistics of several sources add up, and a search takes the sum
(AMB-110). A document is a row with at least one term; superseded rows count.
Source: MemWAL revision A, "MemTable Indexing"; AMB-109, 110.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..codec.canonical import Mask
from ..errors import InvalidArgument
from .hits import Hits, best
from .tokenizer import Tokenizer

_K1 = 1.2
"""BM25: how fast repetitions of a term stop to count."""
_B = 0.75
"""BM25: how much long documents are discounted."""


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
        return CorpusStatistics(
            documents=self.documents + other.documents,
            terms=self.terms + other.terms,
            frequencies=Counter(self.frequencies) + Counter(other.frequencies),
        )

    def weight(self, term: str) -> float:
        """Inverse document frequency of ``term``."""
        frequency = self.frequencies.get(term, 0)
        return math.log1p((self.documents - frequency + 0.5) / (frequency + 0.5))

    def only(self, terms: Collection[str]) -> CorpusStatistics:
        """The same, with the frequencies of ``terms`` only: what one query needs of another source."""
        kept = {term: self.frequencies[term] for term in terms if term in self.frequencies}
        return CorpusStatistics(documents=self.documents, terms=self.terms, frequencies=kept)


@dataclass(slots=True)
class TextIndex:
    """Documents by term. Mutable: each insert adds to it."""

    tokenizer: Tokenizer
    postings: dict[str, dict[int, int]] = field(default_factory=dict)
    """Term -> row offset -> how often the term is in the row."""
    lengths: dict[int, int] = field(default_factory=dict)
    """Row offset -> number of terms; rows without terms are not documents."""

    @implements("WRITER-022", "WRITER-026")
    def insert(self, column: pa.ChunkedArray, start: int) -> None:
        """Add the texts of rows ``start`` and following; NULL has no terms."""
        for offset, terms in enumerate(self.tokenizer.terms_of(column.to_pylist()), start):
            if terms:
                self.lengths[offset] = len(terms)
            for term, times in Counter(terms).items():
                self.postings.setdefault(term, {})[offset] = times

    @implements("WRITER-027")
    def statistics(self, terms: Iterable[str] | None = None) -> CorpusStatistics:
        """Statistics of the rows inserted so far, with the frequencies of ``terms``, or of all for None."""
        wanted = self.postings.keys() if terms is None else self.postings.keys() & set(terms)
        return CorpusStatistics(
            documents=len(self.lengths),
            terms=sum(self.lengths.values()),
            frequencies={term: len(self.postings[term]) for term in wanted},
        )

    @implements("AMB-109", "AMB-110")
    def matching(
        self, query: str, live: Mask, k: int | None, statistics: CorpusStatistics | None, *, every_term: bool
    ) -> Hits:
        """The ``k`` rows of the greatest score for ``query`` (None: all), best first, among the ``live`` ones.

        ``statistics``: of all sources of the query, this one included; None takes this one alone. ``every_term``:
        a row has to have all terms of the query, not only one of them.
        """
        if k is not None and k < 1:
            raise InvalidArgument("a search asks for at least one row")
        terms = self.tokenizer.terms(query)
        corpus = statistics if statistics is not None else self.statistics(terms)
        average = corpus.terms / corpus.documents if corpus.documents else 1.0
        scores: dict[int, float] = {}
        for term in terms:
            weight = corpus.weight(term)
            for offset, times in self.postings.get(term, {}).items():
                discount = 1 - _B + _B * self.lengths[offset] / average
                scores[offset] = scores.get(offset, 0.0) + weight * times * (_K1 + 1) / (times + _K1 * discount)
        if every_term:
            held = [self.postings.get(term, {}).keys() for term in set(terms)]
            scores = {offset: score for offset, score in scores.items() if all(offset in rows for rows in held)}
        offsets = np.array([offset for offset in sorted(scores) if live[offset]], np.int64)
        values = np.array([scores[offset] for offset in offsets.tolist()], np.float32)
        return best(offsets, values, k, greatest=True)
