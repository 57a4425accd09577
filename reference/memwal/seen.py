"""Keys that have come so far in a merging read: what makes a row of an older source superseded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from . import cellwise
from . import keys as key_sets
from .codec.canonical import span_of
from .key_codes import Codes, Direct, direct
from .keys import KeySet, Mask, SparseCodes, offsets_of

_LEAST = int(np.iinfo(np.int64).min)
TABLE_BYTES = 1 << 24
"""A table with a byte for each possible code may always have this size; only the parts that are used take memory."""


class Seen:
    """Keys that have come, batch by batch, of which later rows are asked whether theirs is among them.

    Single columns of whole numbers are kept as codes. Of other keys, batches become a set when they are asked for the
    first time, and sets of like size one set, so that n batches make about log2(n) sets.
    """

    def __init__(self) -> None:
        self._codes = _Growing()
        self._waiting: list[pa.Table] = []
        """What came since the last question."""
        self._sets: list[tuple[pa.Table, KeySet]] = []

    def add(self, keys: pa.Table) -> None:
        """``keys``: a table of the key columns."""
        if keys.num_rows:
            self._waiting.append(keys)

    def join(self, other: Seen) -> None:
        """Add what has come to ``other``."""
        self._codes.join(other._codes)
        self._waiting += [*(keys for keys, _ in other._sets), *other._waiting]

    def mask(self, keys: pa.Table) -> Mask:
        """Whether each of ``keys``, a table of the key columns, has come."""
        self._take_in()
        if self._codes.count and keys.num_rows:
            found: Mask = self._codes.mask(Direct().codes(keys))
            if keys.column(0).null_count:
                found &= keys.column(0).is_valid().to_numpy()
        else:
            found = np.zeros(keys.num_rows, dtype=np.bool_)
        for _, each in self._sets:
            found |= each.mask(keys)
        return found

    def _take_in(self) -> None:
        """Make codes and sets of what waits."""
        waiting, self._waiting = self._waiting, []
        others = list[pa.Table]()
        for keys in waiting:
            numbering = direct(keys)
            if numbering is not None:
                self._codes.add(numbering.codes(keys))
            else:
                others.append(keys)
        if others:
            held = pa.concat_tables(others)
            while self._sets and self._sets[-1][0].num_rows <= 2 * held.num_rows:
                held = pa.concat_tables([self._sets.pop()[0], held])
            self._sets.append((held, KeySet(held)))

    def newest(self, keys: pa.Table, likely: Mask | None = None) -> Mask:
        """Which of ``keys``, in write order, have not come and do not come again later; then all of them have come.

        ``likely``: of which this is asked at all; the others only come.
        """
        kept = ~self.mask(keys) if likely is None else likely.copy()
        if likely is None:
            kept &= _is_last(keys)
        elif kept.any():
            kept[kept] = ~self.mask(cellwise.where(keys, kept))
            alike = KeySet(cellwise.where(keys, kept)).mask(keys)
            kept[alike] &= _is_last(cellwise.where(keys, alike))
        self.add(keys if likely is not None or kept.all() else cellwise.where(keys, kept))
        return kept


def _is_last(keys: pa.Table) -> Mask:
    """Whether no later row has its key."""
    found = np.zeros(keys.num_rows, np.bool_)
    found[key_sets.newest(keys, keys.schema.names)] = True
    return found


class _Growing:
    """Codes that come batch by batch: each is hashed or sorted once, or a few times, and never compared one by one.

    They are marks in a table with a byte for each possible code as long as that stays small. Others are sorted parts,
    of which those of like size become one.
    """

    def __init__(self) -> None:
        self.count = 0
        """Codes that came, each as often as it did."""
        self._least, self._behind = 0, 0
        """All codes that came lie from the one to before the other."""
        self._low = 0
        self._table: Mask = np.zeros(1, dtype=np.bool_)
        """By code, less the least one; one entry more, which stays false and stands for all other codes."""
        self._waiting: list[Codes] = []
        self._parts: list[SparseCodes] = []

    def add(self, codes: Codes) -> None:
        if not len(codes):
            return
        self._expect(len(codes), *span_of(codes))
        self._mark(codes)

    def _mark(self, codes: Codes) -> None:
        offsets = offsets_of(codes, self._low, len(self._table))
        inside = offsets < len(self._table) - 1
        if inside.all():
            self._table[offsets] = True
            return
        self._table[offsets[inside]] = True
        self._waiting.append(codes[~inside])

    def _expect(self, count: int, least: int, span: int) -> None:
        """Let the table reach over the ``span`` codes from ``least`` on, of which ``count`` come, if it may."""
        self._least = min(self._least, least) if self.count else least
        self._behind = max(self._behind, least + span) if self.count else least + span
        self.count += count
        held = len(self._table) - 1
        low = min(self._low, least) if held else least
        high = max(self._low + held, least + span) if held else least + span
        most = max(key_sets.DENSE * self.count, TABLE_BYTES)
        if high - low > most or (low == self._low and high - low == held):
            return
        # There is room at both ends, and it grows by half at the end that was too short: it is copied a few times only.
        room = max(0, min(high - low, most - (high - low)))
        below, over = (room // 8, room // 8) if not held else (room // 2, 0) if low < self._low else (0, room // 2)
        # No code is below the least number that a code can be: a table from there on has all of them.
        low, high = max(low - below, _LEAST), high + over
        table = np.zeros(high - low + 1, dtype=np.bool_)
        table[self._low - low : self._low - low + held] = self._table[:held]
        self._low, self._table = low, table

    def join(self, other: _Growing) -> None:
        """Add what has come to ``other``."""
        least = max(other._least, other._low)
        marks = other._table[:-1][least - other._low : max(0, other._behind - other._low)]
        count = int(np.count_nonzero(marks))
        if count:
            self._expect(count, least, len(marks))
            at = least - self._low
            if at >= 0 and at + len(marks) < len(self._table):
                self._table[at : at + len(marks)] |= marks
            else:
                self._mark(np.flatnonzero(marks) + least)
        for each in (*(part.distinct for part in other._parts), *other._waiting):
            self.add(each)

    def mask(self, codes: Codes) -> Mask:
        found: Mask = self._table.take(offsets_of(codes, self._low, len(self._table)))
        if self._waiting:
            held = np.concatenate(self._waiting)
            self._waiting = []
            while self._parts and len(self._parts[-1].distinct) <= 2 * len(held):
                held = np.concatenate([self._parts.pop().distinct, held])
            self._parts.append(SparseCodes.of(held))
        for part in self._parts:
            found |= part.mask(codes)
        return found
