"""Codes of keys: 64-bit integers by which keys are compared.

A single integer, date or time column is its own code; of other columns each distinct value gets a number, and the
numbers of several columns are combined; keys with texts are hashed first where that is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .codec.canonical import canonical_bytes, each_word, lengths_of

Codes = npt.NDArray[np.int64]
"""Codes of rows, shape (rows,)."""

CODES = 1 << 62
"""Combined codes stay below this; where they would not, they are numbered anew."""
_SHORT_HASHES = 1 << 20
"""From so many keys on two of them have one short hash too often."""
_HASHED_ROWS = 1 << 14
"""Keys that are hashed together: so few that their arrays are not asked of the system anew each time."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Direct:
    """Codes of one column that is a number itself."""

    direct = True
    size_bytes = 0

    def codes(self, keys: pa.Table) -> Codes:
        parts = [_as_integers(chunk) for chunk in keys.column(0).chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *parts])


@dataclass(frozen=True, slots=True)
class NumberedTuples:
    """Codes by the position of each column's value among the distinct values of the key set; -1 for other keys."""

    distinct: tuple[pa.Array, ...]
    """Of each column."""
    seen: tuple[Codes | None, ...]
    """Of each column but the first: the combined codes so far, ascending, where they are numbered anew; else None."""

    direct = False

    @property
    def size_bytes(self) -> int:
        """Bytes in memory."""
        renumbered = sum(codes.nbytes for codes in self.seen if codes is not None)
        return renumbered + sum(int(values.nbytes) for values in self.distinct)

    def codes(self, keys: pa.Table) -> Codes:
        combined = _positions(keys.column(0), self.distinct[0])
        for number, renumber in enumerate(self.seen, start=1):
            combined = _renumbered(combined, renumber)
            combined = _combined(
                combined, _positions(keys.column(number), self.distinct[number]), self.distinct[number]
            )
        return combined


@dataclass(frozen=True, slots=True)
class Hashed:
    """Codes that are hashes of all columns: equal for equal keys, and for different ones almost never."""

    shift: int
    """Bits that are left out of each hash, so that its code and a position fit into one number."""

    direct = False
    size_bytes = 0

    @classmethod
    def of(cls, keys: pa.Table) -> Hashed | None:
        """For keys of texts and whole numbers with some text; None for others."""
        texts = [_is_text(kind) for kind in keys.schema.types]
        fit = any(texts) and all(text or is_integral(kind) for text, kind in zip(texts, keys.schema.types, strict=True))
        return cls(keys.num_rows.bit_length() + 1 if keys.num_rows < _SHORT_HASHES else 0) if fit else None

    def longer(self) -> Hashed | None:
        """All bits, for keys of which two had one short hash; None if they have one now."""
        return Hashed(0) if self.shift else None

    def codes(self, keys: pa.Table) -> Codes:
        found = np.zeros(keys.num_rows, np.uint64)
        for start in range(0, keys.num_rows, _HASHED_ROWS):
            state = found[start : start + _HASHED_ROWS]
            for column in keys.slice(start, _HASHED_ROWS).columns:
                if _is_text(column.type):
                    _mix_texts(state, column)
                else:
                    state[:] = _mixed(state, Direct().codes(pa.table([column], names=["k"])).view(np.uint64))
        return (found >> np.uint64(self.shift)).view(np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _mix_texts(state: npt.NDArray[np.uint64], column: pa.ChunkedArray) -> None:
    """Mix each text into its ``state``, its length first, then eight bytes at a time."""
    texts = canonical_bytes(column)
    texts = texts.fill_null(b"") if texts.null_count else texts
    state[:] = _mixed(state, lengths_of(texts).view(np.uint64))
    for each in each_word(texts, np.dtype("<u8")):
        state[each.rows] = _mixed(state[each.rows], each.words)


def _mixed(state: npt.NDArray[np.uint64], word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    found = (state ^ word) * SPREAD
    found ^= found >> np.uint64(32)
    return found * SPREAD


def direct(keys: pa.Table) -> Direct | None:
    """What gives the codes of ``keys`` if these are one column of whole numbers without NULL; else None."""
    plain = keys.num_columns == 1 and is_integral(keys.column(0).type) and not keys.column(0).null_count
    return Direct() if plain else None


def numbering(keys: pa.Table) -> Direct | NumberedTuples:
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
    return NumberedTuples(distinct, tuple(seen))


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
