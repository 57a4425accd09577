"""Primary keys as sets of rows: which row of a key is the newest, and which rows have a key in common.

Keys are compared as codes, 64-bit integers: a single integer, date or time column is its own code; of other columns
each distinct value gets a number, and the numbers of several columns are combined; keys with texts are hashed first
where that is enough. Equality is that of logical values
(AMB-136), and NULL equals NULL.
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
from .codec.canonical import by_length, canonical_bytes

Codes = npt.NDArray[np.int64]
"""Codes of rows, shape (rows,)."""
Mask = npt.NDArray[np.bool_]
"""One truth value per row, shape (rows,)."""

DENSE = 32
"""Codes are looked up in a table with a byte for each possible code if that is at most so many bytes per key."""
CODES = 1 << 62
"""Combined codes stay below this; where they would not, they are numbered anew."""
_PLACES = 16
"""Places of keys are looked up in a table with four bytes for each possible code if that has so many codes per key."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
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
    return cellwise.at(rows, newest(rows, key))


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
        self._numbering = _numbering(keys)
        codes = self._numbering.codes(keys)
        self._codes = _DenseCodes.of(codes) or SparseCodes.of(codes)
        self.batch_rows: int = 1 if self._numbering.direct else max(1 << 19, 4 * keys.num_rows)
        """Fewest rows that are worth a call of `mask`: each call may have to hash all keys anew."""

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
    """Where each of some keys is, none of which repeats or is NULL.

    Takes at most 64 bytes per key besides the distinct values of the key columns. Keys with texts are found by hashes,
    so that what is there is not hashed again for each question, and then compared.
    """

    def __init__(self, keys: pa.Table) -> None:
        """``keys``: a table of the key columns."""
        self._keys = keys
        self._numbering: Direct | _Numbered | _Hashed = _Hashed.of(keys) or _numbering(keys)
        self._table: npt.NDArray[np.int32] | None = None
        self._order = self._codes = np.empty(0, dtype=np.int64)
        self._take(self._numbering.codes(keys))
        if isinstance(self._numbering, _Hashed) and bool((self._codes[1:] == self._codes[:-1]).any()):
            self._numbering = _numbering(keys)  # two keys have one hash
            self._take(self._numbering.codes(keys))

    def _take(self, codes: Codes) -> None:
        low, span = span_of(codes) if len(codes) else (0, 0)
        self._low = low
        if not len(codes) or (span <= _PLACES * len(codes) and not isinstance(self._numbering, _Hashed)):
            self._table = np.full(span + 1, -1, dtype=np.int32)
            self._table[codes - low] = np.arange(len(codes), dtype=np.int32)
        else:
            self._order = np.argsort(codes)
            self._codes = codes[self._order]

    def of(self, keys: pa.Table) -> Codes:
        """The place of each of ``keys``, a table of the key columns; -1 for one that is not there."""
        codes = self._numbering.codes(keys)
        if self._table is not None:
            return self._table[offsets_of(codes, self._low, len(self._table))].astype(np.int64)
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        found: Codes = np.where(self._codes[at] == codes, self._order[at], -1)
        if isinstance(self._numbering, _Hashed):
            here = np.flatnonzero(found >= 0)
            found[here[~_alike(cellwise.at(self._keys, found[here]), cellwise.at(keys, here))]] = -1
        return found


def repeated(keys: pa.Table) -> tuple[Codes, Codes] | None:
    """The rows whose key has others, by key: their positions, in row order within a key, and a number of the key each.

    Numbers count from 0. None if no key repeats.
    """
    if keys.num_rows < 2:
        return None
    hashed = _Hashed.of(keys)
    if hashed is not None:
        found = _repeated(hashed.codes(keys))
        if found is None:
            return None
        order, number = found
        same = np.flatnonzero(number[1:] == number[:-1])
        if _alike(cellwise.at(keys, order[same]), cellwise.at(keys, order[same + 1])).all():
            return found
    codes = _numbering(keys).codes(keys)
    return None if bool((codes[1:] > codes[:-1]).all()) else _repeated(codes)


def _repeated(codes: Codes) -> tuple[Codes, Codes] | None:
    low, span = span_of(codes)
    if span <= DENSE * len(codes):
        there = np.zeros(span, dtype=np.bool_)
        there[codes - low] = True
        if int(np.count_nonzero(there)) == len(codes):
            return None
    ordered = np.sort(codes)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(again):
        return None
    rows = np.flatnonzero((_DenseCodes.of(again) or SparseCodes.of(again)).mask(codes))
    order = rows[np.argsort(codes[rows], kind="stable")]
    ordered = codes[order]
    return order, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(ordered[1:] != ordered[:-1])])


def offsets_of(codes: Codes, low: int, entries: int) -> npt.NDArray[np.int64]:
    """Of each code its place in a table of ``entries`` that begins with ``low``; the last one for those outside."""
    # As unsigned numbers, codes below the least one are large, and so is everything above the largest.
    offsets = codes.view(np.uint64) - np.uint64(low % 2**64)
    np.minimum(offsets, np.uint64(entries - 1), out=offsets)
    return offsets.view(np.int64)


def span_of(codes: Codes) -> tuple[int, int]:
    """The least code, and how many codes there are from it up to the largest."""
    low, high = int(codes.min()), int(codes.max())
    return low, high - low + 1


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

    def mask(self, codes: Codes) -> Mask:
        found = self.slots[_slot(codes, len(self.slots))]
        candidates = np.flatnonzero(found)
        wanted = codes[candidates]
        at = np.minimum(np.searchsorted(self.distinct, wanted), len(self.distinct) - 1)
        found[candidates] = self.distinct[at] == wanted
        return found


def _slot(codes: Codes, slots: int) -> npt.NDArray[np.int64]:
    spread = codes.view(np.uint64) * _SPREAD
    return (spread >> np.uint64(64 - (slots.bit_length() - 1))).view(np.int64)


@dataclass(frozen=True, slots=True)
class Direct:
    """Codes of one column that is a number itself."""

    direct = True

    def codes(self, keys: pa.Table) -> Codes:
        return np.concatenate([np.empty(0, dtype=np.int64), *map(_as_integers, keys.column(0).chunks)])


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Codes by the position of each column's value among the distinct values of the key set; -1 for other keys."""

    distinct: tuple[pa.Array, ...]
    """Of each column."""
    seen: tuple[Codes | None, ...]
    """Of each column but the first: the combined codes so far, ascending, where they are numbered anew; else None."""

    direct = False

    def codes(self, keys: pa.Table) -> Codes:
        combined = _positions(keys.column(0), self.distinct[0])
        for number, renumber in enumerate(self.seen, start=1):
            combined = _renumbered(combined, renumber)
            combined = _combined(
                combined, _positions(keys.column(number), self.distinct[number]), self.distinct[number]
            )
        return combined


@dataclass(frozen=True, slots=True)
class _Hashed:
    """Codes that are hashes of all columns: equal for equal keys, and for different ones almost never."""

    direct = False

    @classmethod
    def of(cls, keys: pa.Table) -> _Hashed | None:
        """For keys of texts and whole numbers with some text; None for others."""
        texts = [_is_text(kind) for kind in keys.schema.types]
        fit = any(texts) and all(text or is_integral(kind) for text, kind in zip(texts, keys.schema.types, strict=True))
        return cls() if fit else None

    def codes(self, keys: pa.Table) -> Codes:
        state = np.zeros(keys.num_rows, np.uint64)
        for column in keys.columns:
            if _is_text(column.type):
                _mix_texts(state, column)
            else:
                state[:] = _mixed(state, Direct().codes(pa.table([column], names=["k"])).view(np.uint64))
        return state.view(np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _mix_texts(state: npt.NDArray[np.uint64], column: pa.ChunkedArray) -> None:
    """Mix each text into its ``state``, eight bytes at a time, its length first."""
    for group in by_length(canonical_bytes(column)):
        rows, length = group.data.shape
        padded = np.zeros((rows, -(-length // 8) * 8), np.uint8)
        padded[:, :length] = group.data
        own = _mixed(state[group.positions], np.full(rows, length, np.uint64))
        for word in padded.view("<u8").T:
            own = _mixed(own, word)
        state[group.positions] = own


def _mixed(state: npt.NDArray[np.uint64], word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    found = (state ^ word) * _SPREAD
    found ^= found >> np.uint64(32)
    return found * _SPREAD


def _alike(keys: pa.Table, others: pa.Table) -> Mask:
    """Which rows of ``keys`` are the same key as the row of ``others`` beside it; NULL is like nothing."""
    found: Mask = np.ones(keys.num_rows, np.bool_)
    for one, other in zip(keys.columns, others.columns, strict=True):
        found &= pc.fill_null(pc.equal(one, other.cast(one.type)), False).to_numpy()
    return found


def direct(keys: pa.Table) -> Direct | None:
    """What gives the codes of ``keys`` if these are one column of whole numbers without NULL; else None."""
    plain = keys.num_columns == 1 and is_integral(keys.column(0).type) and not keys.column(0).null_count
    return Direct() if plain else None


def _numbering(keys: pa.Table) -> Direct | _Numbered:
    plain = direct(keys)
    if plain is not None:
        return plain
    distinct = tuple(pc.unique(column) for column in keys.columns)
    seen: list[Codes | None] = []
    combined = _positions(keys.column(0), distinct[0])
    size = len(distinct[0])
    for number in range(1, keys.num_columns):
        values = distinct[number]
        renumber = np.unique(combined) if size * len(values) >= CODES else None
        size = (size if renumber is None else len(renumber)) * len(values)
        seen.append(renumber)
        combined = _combined(_renumbered(combined, renumber), _positions(keys.column(number), values), values)
    return _Numbered(distinct, tuple(seen))


def is_integral(arrow: pa.DataType) -> bool:
    """Whether values of the type are whole numbers of at most 64 bits in memory."""
    return pa.types.is_integer(arrow) or (pa.types.is_temporal(arrow) and not pa.types.is_interval(arrow))


def _as_integers(chunk: pa.Array) -> Codes:
    """The numbers that the values are stored as; 0 for NULL."""
    width = chunk.type.bit_width
    stored = chunk if pa.types.is_integer(chunk.type) else chunk.view(pa.int32() if width == 32 else pa.int64())
    plain = stored.fill_null(0) if stored.null_count else stored
    found = plain.to_numpy(zero_copy_only=False)
    codes: Codes = found.view(np.int64) if width == 64 else found.astype(np.int64)
    return codes


def _positions(column: pa.ChunkedArray, distinct: pa.Array) -> Codes:
    """Position of each value among ``distinct``; -1 for one that is not."""
    found = pc.fill_null(pc.index_in(column, value_set=distinct), -1)
    positions: Codes = found.to_numpy().astype(np.int64)
    return positions


def _combined(combined: Codes, positions: Codes, distinct: pa.Array) -> Codes:
    return np.where((combined < 0) | (positions < 0), -1, combined * max(1, len(distinct)) + positions)


def _renumbered(combined: Codes, known: Codes | None) -> Codes:
    if known is None or not len(known):
        return combined
    at = np.minimum(np.searchsorted(known, combined), len(known) - 1)
    return np.where(known[at] == combined, at, -1)
