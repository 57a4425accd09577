"""Primary keys as sets of rows: which row of a key is the newest, and which rows have a key in common.

Keys are compared by `memwal.key_codes`. Equality is that of logical values (AMB-136), and NULL equals NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from . import cellwise
from .clauses import implements
from .codec.canonical import ordered, span_of
from .key_codes import SPREAD, Codes, Direct, Hashed, NumberedTuples, numbering

Mask = npt.NDArray[np.bool_]
"""One truth value per row, shape (rows,)."""

DENSE = 32
"""Codes are looked up in a table with a byte for each possible code if that is at most so many bytes per key."""
_PLACES = 16
"""Places of keys are looked up in a table with four bytes for each possible code if that has so many codes per key."""
_SLOTS = 16
"""Slots per key in the first, approximate lookup of sparse codes."""


@implements("READ-005", "AMB-46", "AMB-106")
def newest(rows: pa.Table, key: Sequence[str]) -> Codes:
    """Positions of the last row of each key, ascending. ``rows`` are in write order: later rows are newer."""
    count = rows.num_rows
    positions = np.arange(count, dtype=np.int64)
    if count < 2:
        return positions
    several = repeated(rows.select(list(key)))
    if several is None:
        return positions
    order, number = several
    ends = np.append(number[1:] != number[:-1], True)
    return np.delete(positions, order[~ends])


@implements("AMB-46", "AMB-109")
def last_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, of rows in write order."""
    kept = newest(rows, key)
    return rows if len(kept) == rows.num_rows else cellwise.at(rows, kept)


def _distinct(codes: Codes) -> Codes:
    """The codes, of which there are some, each once and ascending: numpy's `unique` takes ten times as long."""
    ordered = np.sort(codes)
    found: Codes = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def without(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """``rows`` whose key is not among ``keys`` (a table of the key columns), in their order."""
    if not rows.num_rows or not keys.num_rows:
        return rows
    return cellwise.where(rows, ~KeySet(keys).mask(rows))


def among(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """``rows`` whose key is among ``keys`` (a table of the key columns), in their order."""
    if not rows.num_rows or not keys.num_rows:
        return rows.slice(0, 0)
    if rows.num_rows == 1 and all(rows.column(name).equals(keys.column(name)) for name in keys.schema.names):
        return rows  # as most that an index has found
    return cellwise.where(rows, KeySet(keys).mask(rows))


def holds(keys: pa.Table, asked: pa.Table) -> Mask:
    """Which of the keys ``asked`` are among ``keys``."""
    if not keys.num_rows or not asked.num_rows:
        return np.zeros(asked.num_rows, np.bool_)
    return KeySet(keys).mask(asked)


class KeySet:
    """A set of keys, of which many rows are asked whether theirs is among them.

    Takes a few dozen bytes per key besides the distinct values of the key columns.
    """

    def __init__(self, keys: pa.Table) -> None:
        """``keys``: a table of the key columns; keys may repeat."""
        self.names: tuple[str, ...] = tuple(keys.schema.names)
        self._numbering = numbering(keys)
        codes = self._numbering.codes(keys)
        self._codes = _DenseCodes.of(codes) or SparseCodes.of(codes)
        self.batch_rows: int = 1 if self._numbering.direct else max(1 << 19, 4 * keys.num_rows)
        """Fewest rows that are worth a call of `mask`: each call may have to hash all keys anew."""

    @property
    def size_bytes(self) -> int:
        """Bytes in memory."""
        return self._codes.size_bytes + self._numbering.size_bytes

    def mask(self, rows: pa.Table) -> Mask:
        """Whether the key of each row is in the set. ``rows`` has the key columns, and may have others."""
        if not rows.num_rows:
            return np.zeros(0, dtype=np.bool_)
        keys = rows.select(list(self.names))
        found = self._codes.mask(self._numbering.codes(keys))
        if self._numbering.direct and keys.column(0).null_count:
            found &= keys.column(0).is_valid().to_numpy()
        return found


class KeyPlaces:
    """Where each of some keys is, none of which is NULL; of a key that repeats, its last place.

    Takes at most 64 bytes per key besides the distinct values of the key columns. Keys with texts are found by hashes,
    so that what is there is not hashed again for each question, and then compared.
    """

    def __init__(self, keys: pa.Table) -> None:
        """``keys``: a table of the key columns."""
        self._keys = keys
        self._numbering: Direct | NumberedTuples | Hashed = Hashed.of(keys) or numbering(keys)
        self._table: npt.NDArray[np.int32] | None = None
        self._order = self._codes = np.empty(0, dtype=np.int64)
        self._take(self._numbering.codes(keys))
        while isinstance(self._numbering, Hashed) and self._mixed_up():
            self._numbering = self._numbering.longer() or numbering(keys)
            self._take(self._numbering.codes(keys))

    @property
    def size_bytes(self) -> int:
        """Bytes in memory."""
        table = self._table.nbytes if self._table is not None else 0
        held = int(self._keys.nbytes) + self._numbering.size_bytes
        return held + self._order.nbytes + self._codes.nbytes + table

    def _mixed_up(self) -> bool:
        """Whether two different keys have one hash."""
        same = np.flatnonzero(self._codes[1:] == self._codes[:-1])
        pairs = (cellwise.at(self._keys, self._order[same + after]) for after in (0, 1))
        return bool(len(same)) and not _alike(*pairs).all()

    def _take(self, codes: Codes) -> None:
        low, span = span_of(codes) if len(codes) else (0, 0)
        self._low = low
        if not len(codes) or (span <= _PLACES * len(codes) and not isinstance(self._numbering, Hashed)):
            self._table = np.full(span + 1, -1, dtype=np.int32)
            self._table[codes - low] = np.arange(len(codes), dtype=np.int32)
        else:
            self._order, self._codes = ordered(codes, low, span)

    def of(self, keys: pa.Table) -> Codes:
        """The place of each of ``keys``, a table of the key columns; -1 for one that is not there."""
        codes = self._numbering.codes(keys)
        if self._table is not None:
            return self._table[offsets_of(codes, self._low, len(self._table))].astype(np.int64)
        # In order, so that what is looked at for one is near to what is looked at for the next.
        by = np.argsort(codes)
        wanted = codes[by]
        at = np.maximum(np.searchsorted(self._codes, wanted, "right") - 1, 0)
        found: Codes = np.empty(len(codes), np.int64)
        found[by] = np.where(self._codes[at] == wanted, self._order[at], -1)
        if isinstance(self._numbering, Hashed):
            here = np.flatnonzero(found >= 0)
            found[here[~_alike(cellwise.at(self._keys, found[here]), cellwise.at(keys, here))]] = -1
        return found


def repeated(keys: pa.Table) -> tuple[Codes, Codes] | None:
    """The rows whose key has others, by key: their positions, in row order within a key, and a number of the key each.

    Numbers count from 0. None if no key repeats.
    """
    if keys.num_rows < 2:
        return None
    hashed = Hashed.of(keys)
    while hashed is not None:
        found = _repeated(hashed.codes(keys))
        if found is None:
            return None
        order, number = found
        same = np.flatnonzero(number[1:] == number[:-1])
        if _alike(cellwise.at(keys, order[same]), cellwise.at(keys, order[same + 1])).all():
            return found
        hashed = hashed.longer()
    codes = numbering(keys).codes(keys)
    return None if bool((codes[1:] > codes[:-1]).all()) else _repeated(codes)


def _repeated(codes: Codes) -> tuple[Codes, Codes] | None:
    low, span = span_of(codes)
    if span <= DENSE * len(codes):
        there = np.zeros(span, dtype=np.bool_)
        there[codes - low] = True
        if int(np.count_nonzero(there)) == len(codes):
            return None
    order, codes = ordered(codes, low, span)
    alike = codes[1:] == codes[:-1]
    if not alike.any():
        return None
    several = np.append(alike, False) | np.append(False, alike)
    order, codes = order[several], codes[several]
    return order, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(codes[1:] != codes[:-1])])


def offsets_of(codes: Codes, low: int, entries: int) -> npt.NDArray[np.int64]:
    """Of each code its place in a table of ``entries`` that begins with ``low``; the last one for those outside."""
    # As unsigned numbers, codes below the least one are large, and so is everything above the largest.
    offsets = codes.view(np.uint64) - np.uint64(low % 2**64)
    np.minimum(offsets, np.uint64(entries - 1), out=offsets)
    return offsets.view(np.int64)


@dataclass(frozen=True, slots=True)
class _DenseCodes:
    low: int
    table: Mask
    """By code, less the least one; one entry more, which is false."""

    @classmethod
    def of(cls, codes: Codes) -> _DenseCodes | None:
        if not len(codes):
            return cls(0, np.zeros(1, dtype=np.bool_))
        low, span = span_of(codes)
        if span > max(DENSE * len(codes), 1 << 12):
            return None
        table = np.zeros(span + 1, dtype=np.bool_)
        table[codes - low] = True
        return cls(low, table)

    @property
    def size_bytes(self) -> int:
        return self.table.nbytes

    def mask(self, codes: Codes) -> Mask:
        return self.table[offsets_of(codes, self.low, len(self.table))]


@dataclass(frozen=True, slots=True)
class SparseCodes:
    distinct: Codes
    """Ascending."""
    slots: Mask
    """Whether some code falls into the slot; a power of two of them."""

    @classmethod
    def of(cls, codes: Codes) -> SparseCodes:
        distinct = _distinct(codes)
        slots = np.zeros(1 << (len(distinct) * _SLOTS - 1).bit_length(), dtype=np.bool_)
        slots[_slot(distinct, len(slots))] = True
        return cls(distinct, slots)

    @property
    def size_bytes(self) -> int:
        return self.distinct.nbytes + self.slots.nbytes

    def mask(self, codes: Codes) -> Mask:
        found = self.slots[_slot(codes, len(self.slots))]
        candidates = np.flatnonzero(found)
        wanted = codes[candidates]
        at = np.minimum(np.searchsorted(self.distinct, wanted), len(self.distinct) - 1)
        found[candidates] = self.distinct[at] == wanted
        return found


def _slot(codes: Codes, slots: int) -> npt.NDArray[np.int64]:
    spread = codes.view(np.uint64) * SPREAD
    return (spread >> np.uint64(64 - (slots.bit_length() - 1))).view(np.int64)


def _alike(keys: pa.Table, others: pa.Table) -> Mask:
    """Which rows of ``keys`` are the same key as the row of ``others`` beside it; NULL is like nothing."""
    found: Mask = np.ones(keys.num_rows, np.bool_)
    for one, other in zip(keys.columns, others.columns, strict=True):
        found &= pc.fill_null(pc.equal(one, other.cast(one.type)), False).to_numpy()
    return found
