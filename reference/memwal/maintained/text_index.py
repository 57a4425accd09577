"""A full-text index over the rows of one MemTable: for each term the rows that have it, and where.

It grows with the rows that are put, and by arrays: nothing of it changes any more once it is there, so that a reader
takes the part of the rows that it knows of, while writes continue.
Source: MemWAL revision A, "MemTable Indexing"; AMB-109, 110.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..codec.canonical import Mask
from ..codec.postings import Postings
from ..errors import InvalidArgument
from .bm25 import AskedTerms, Corpus, CorpusStatistics
from .hits import Hits, best
from .tokenizer import Tokenizer


def _numbers() -> array[int]:
    return array("I")


@dataclass(slots=True)
class Occurrences:
    """Where one term is: the row offset and the position of each time, in order. Mutable: both only grow."""

    rows: array[int] = field(default_factory=_numbers)
    positions: array[int] = field(default_factory=_numbers)

    def postings(self, rows: int) -> Postings:
        """Those in the first ``rows`` rows."""
        held = np.array(self.rows[:], np.int64)  # a copy: an array with a view cannot grow
        end = int(np.searchsorted(held, rows))
        documents, counts = np.unique(held[:end], return_counts=True)
        return Postings(documents=documents, counts=counts, positions=np.array(self.positions[:end], np.int64))


@dataclass(slots=True)
class TextIndex:
    """Rows by term. Mutable: each insert adds to it."""

    tokenizer: Tokenizer
    terms: dict[str, Occurrences] = field(default_factory=dict)
    lengths: array[int] = field(default_factory=_numbers)
    """By row offset: number of terms; rows without terms are not documents."""

    @implements("WRITER-022", "WRITER-026")
    def insert(self, column: pa.ChunkedArray) -> None:
        """Add the texts of the following rows; NULL has no terms."""
        first = len(self.lengths)
        for row, placed in enumerate(self.tokenizer.placed_terms_of(column.to_pylist()), first):
            for term, position in placed:
                found = self.terms.get(term)
                if found is None:
                    found = self.terms[term] = Occurrences()
                # Rows last: a reader that takes the rows known here has the positions of all of them.
                found.positions.append(position)
                found.rows.append(row)
            self.lengths.append(len(placed))

    @implements("WRITER-027", "PLAN-023")
    def corpus(self, live: Mask, terms: Iterable[str] | None = None) -> Corpus:
        """The first rows, as many as ``live`` says something of, with the lists of ``terms``, or of all for None."""
        wanted = list(self.terms) if terms is None else [term for term in dict.fromkeys(terms) if term in self.terms]
        postings = {term: self.terms[term].postings(len(live)).of(live) for term in wanted}
        return Corpus(lengths=np.array(self.lengths[: len(live)], np.uint32), live=live, postings=postings)

    def asked(self, query: str, *, every_term: bool = False, phrase: bool = False) -> AskedTerms:
        """The terms of ``query``, cut as the rows are."""
        (placed,) = self.tokenizer.placed_terms_of([query])
        return AskedTerms(placed=tuple(placed), every=every_term, phrase=phrase)

    @implements("AMB-109", "AMB-110")
    def matching(
        self, asked: AskedTerms, live: Mask, k: int | None, statistics: CorpusStatistics | None = None
    ) -> Hits:
        """The ``k`` rows of the greatest score (None: all), best first, among the ``live`` ones.

        ``statistics``: of all sources of the query, this one included; None takes this one alone.
        """
        if k is not None and k < 1:
            raise InvalidArgument("k must be at least 1")
        corpus = self.corpus(live, asked.terms)
        offsets, values = corpus.scores(asked, statistics if statistics is not None else corpus.statistics())
        return best(offsets, values, k, greatest=True)
