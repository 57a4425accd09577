"""The indexes of a MemTable: key filter and in-memory counterparts of the maintained base indexes.

Source: MemWAL revision A, "MemTable Indexing" and "Write Operations"; AMB-48, 109, 116.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec.canonical import Mask
from ..errors import EngineBug, InvalidArgument
from .base_index import MaintainedIndex
from .bm25 import CorpusStatistics
from .hits import Hits
from .key_filter import KeyFilter
from .recency import Recency
from .scalar import Between, Offsets, RowSets, ScalarIndex, SortedRuns, comparable, comparable_value, sorted_offsets
from .text_index import TextIndex
from .vector_index import VectorIndex

Index = TypeVar("Index")


@implements("GEN-018", "WRITER-022", "WRITER-023", "AMB-48")
@dataclass(slots=True)
class MemTableIndexes:
    """Indexes over the rows of one MemTable. Mutable; the n-th row inserted has row offset n.

    Searches return rows that the maintained indexes hold already and that no later row of the same key supersedes,
    deferred rows included. In revision R a found row may be a tombstone, whose other columns are NULL.
    """

    maintained: tuple[MaintainedIndex, ...]
    key: tuple[str, ...]
    schema: pa.Schema
    """Schema of the rows."""
    key_filter: KeyFilter
    """Always up to date: a stale answer of a lookup would be wrong, not only incomplete (AMB-116)."""
    rows: int = 0
    """Rows inserted; all of them are in the key filter."""
    rows_indexed: int = 0
    """Rows that the maintained indexes hold, from the first on; below `rows` after deferred inserts."""
    deferred: list[pa.Table] = field(default_factory=list)
    """Rows that the maintained indexes do not hold yet, in order; columns of indexes only."""
    scalars: dict[str, ScalarIndex] = field(default_factory=dict)
    vectors: dict[str, VectorIndex] = field(default_factory=dict)
    texts: dict[str, TextIndex] = field(default_factory=dict)
    """The maintained indexes by name."""
    recency: Recency = field(default_factory=Recency)
    """Kept for the rows at the last search; brought up to date by each."""

    @classmethod
    def empty(cls, maintained: Sequence[MaintainedIndex], key: Sequence[str], schema: pa.Schema) -> MemTableIndexes:
        """Indexes of a MemTable without rows. ``schema``: of its rows; ``key``: the primary key columns."""
        made = cls(tuple(maintained), tuple(key), schema, KeyFilter())
        for index in maintained:
            if index.code is not None:
                made.vectors[index.name] = VectorIndex(index.code)
            elif index.tokenizer is not None:
                made.texts[index.name] = TextIndex(index.tokenizer)
            else:
                made.scalars[index.name] = SortedRuns() if index.kind == "btree" else RowSets()
        return made

    def successor(self, maintained: Sequence[MaintainedIndex] | None = None) -> MemTableIndexes:
        """Empty indexes for the next MemTable; ``maintained``: its indexes, None for the same ones."""
        return MemTableIndexes.empty(self.maintained if maintained is None else maintained, self.key, self.schema)

    @implements("WRITER-004", "WRITER-007", "WRITER-011", "WRITER-020", "AMB-116")
    def insert(self, rows: pa.Table, *, indexed: bool = True) -> None:
        """Add ``rows``; they take the following row offsets.

        Their keys are in the key filter when this returns. With ``indexed`` they are in the maintained indexes too,
        and so are all rows deferred before; otherwise that waits for `refresh`.
        """
        self.key_filter.insert(rows.select(list(self.key)))
        self.rows += rows.num_rows
        self.deferred.append(rows)
        if indexed:
            self.refresh()

    @implements("WRITER-022")
    def refresh(self) -> None:
        """Bring the maintained indexes up to date with all rows inserted."""
        for rows in self.deferred:
            for index in self.maintained:
                column = rows.column(index.column)
                if index.name in self.vectors:
                    self.vectors[index.name].insert(column, self.rows_indexed)
                elif index.name in self.texts:
                    self.texts[index.name].insert(column)
                else:
                    self.scalars[index.name].insert(comparable(column), self.rows_indexed)
            self.rows_indexed += rows.num_rows
        self.deferred.clear()

    @implements("WRITER-024", "AMB-116")
    def may_contain(self, keys: pa.Table) -> Mask:
        """Shape (rows,): False only where no inserted row has the key. ``keys``: the key columns, in their order."""
        return self.key_filter.may_contain(keys)

    @implements("AMB-109", "AMB-116")
    def live(self) -> Mask:
        """Shape (rows,): whether no later row has the same key, whatever the maintained indexes hold already."""
        done = 0
        for keys in self.key_filter.inserted:
            if done == self.recency.rows:
                self.recency.insert(keys)
            done += keys.num_rows
        if self.recency.rows != self.rows:
            raise EngineBug("the newest rows were tracked for a part of a write")
        return self.recency.live

    def equal(self, name: str, *values: object) -> Offsets:
        """Rows whose value is one of ``values``, by the scalar index ``name``; None asks for NULL."""
        index, kind = self._scalar(name)
        return self._newest(offset for v in values for offset in index.equal(comparable_value(v, kind)))

    def between(
        self,
        name: str,
        lower: object = None,
        upper: object = None,
        *,
        with_lower: bool = True,
        with_upper: bool = True,
    ) -> Offsets:
        """Rows whose value is in a range, by the scalar index ``name``; None leaves an end open. NULL is in none."""
        index, kind = self._scalar(name)
        ends: list[Any] = [None if end is None else comparable_value(end, kind) for end in (lower, upper)]
        wanted = Between(lower=ends[0], upper=ends[1], with_lower=with_lower, with_upper=with_upper)
        return self._newest(index.between(wanted))

    def nearest(self, name: str, query: npt.ArrayLike, k: int, *, partitions: int | None = None) -> Hits:
        """The ``k`` newest rows nearest to ``query``, by the vector index ``name``, with distances as flushed.

        ``partitions``: how many of the nearest partitions are looked at; None looks at all.
        """
        return _named(self.vectors, name).nearest(query, k, self.live(), partitions)

    def matching(
        self,
        name: str,
        query: str,
        k: int | None = None,
        *,
        statistics: CorpusStatistics | None = None,
        every_term: bool = False,
        phrase: bool = False,
    ) -> Hits:
        """The ``k`` newest rows that match ``query`` best (None: all), by the full-text index ``name``.

        ``statistics``: of all sources of the query, this MemTable included; None takes this one alone. ``every_term``:
        rows need all terms of the query, not only one; ``phrase``: as far from each other as they are there.
        """
        index = _named(self.texts, name)
        asked = index.asked(query, every_term=every_term, phrase=phrase)
        return index.matching(asked, self.live()[: self.rows_indexed], k, statistics)

    @implements("WRITER-027", "AMB-110")
    def statistics(self, name: str, query: str | None = None) -> CorpusStatistics:
        """Statistics of the newest rows by the full-text index ``name``; of the terms of ``query`` if there is one."""
        index = _named(self.texts, name)
        terms = None if query is None else index.asked(query).terms
        return index.corpus(self.live()[: self.rows_indexed], terms).statistics()

    def _newest(self, found: Iterable[int]) -> Offsets:
        offsets = sorted_offsets(found)
        return offsets[self.live()[offsets]]

    def _scalar(self, name: str) -> tuple[ScalarIndex, pa.DataType]:
        index = _named(self.scalars, name)
        column = next(i.column for i in self.maintained if i.name == name)
        return index, self.schema.field(column).type


def _named(indexes: dict[str, Index], name: str) -> Index:
    if name not in indexes:
        raise InvalidArgument(f"the MemTable has no index {name!r}; its indexes are {sorted(indexes)}", clause="AMB-48")
    return indexes[name]
