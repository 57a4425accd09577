"""Growing arrays, and rows of numbers that are numbered as they turn up: many at once, by NumPy.

An exploration looks up millions of states. A Python dictionary takes a microsecond and 150 bytes for each; a table of
open addressing that is probed for thousands of rows in each operation takes a tenth of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from memwal.errors import EngineBug

Array: TypeAlias = npt.NDArray[Any]

_FIRST_SLOTS = 1 << 10
_LOAD = 0.6
"""Part of the slots that may be taken."""
_NUMBER_BITS = np.uint64(32)
_NUMBER = np.uint64(0xFFFF_FFFF)
_TAG = ~_NUMBER
_ROWS_MAX = 0xFFFF_FFFE
_FACTORS = (0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F)
"""Odd numbers that spread bits over a product: the golden ratio, and a prime."""
_BATCH = 1 << 16


class GrowingArray:
    """A growing array: a value, or a row of ``width`` values, per number."""

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self._data: Array = np.zeros(_FIRST_SLOTS if width is None else (_FIRST_SLOTS, width), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Array:
        """All values so far; a view, which the next growth leaves behind."""
        return self._data[: self._count]

    def extend(self, values: Array | Sequence[Any]) -> None:
        """Append ``values``."""
        if len(values):
            self.reserve(self._count + len(values))
            self._data[self._count : self._count + len(values)] = values
            self._count += len(values)

    def append(self, value: object) -> None:
        """Append one value."""
        self.reserve(self._count + 1)
        self._data[self._count] = value
        self._count += 1

    def reserve(self, count: int) -> Array:
        """The whole array, with room for ``count`` values at least."""
        if count > len(self._data):
            # memory that was never written to costs nothing, and copying costs twice as much as there is
            grown = np.zeros((max(count, len(self._data) * 4), *self._data.shape[1:]), self._data.dtype)
            grown[: self._count] = self._data[: self._count]
            self._data = grown
        return self._data

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` values of the array, whether they were appended or written to `reserve`."""
        self._count = count


def packed(*columns: Array | int) -> Array:
    """Columns of small non-negative numbers as rows for `Interned`: two in each word, shape ``(n, words)``.

    A number instead of a column stands for a column of it; the first has to be a column.
    """
    (count,) = np.shape(columns[0])
    rows = np.zeros((count, len(columns) + len(columns) % 2), np.int32)
    for place, column in enumerate(columns):
        rows[:, place] = column
    return rows.view(np.uint64)


class Interned:
    """Rows of ``words`` unsigned 64-bit numbers, each with a number: 0, 1, … in the order in which they turned up."""

    def __init__(self, words: int) -> None:
        self._words = words
        self._rows = GrowingArray(np.uint64, words)
        self._slots: Array = np.zeros(_FIRST_SLOTS, np.uint64)
        """Upper half: bits of the hash. Lower half: the row's number + 1; 0 for a free slot."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Array:
        """All rows by number, shape ``(len, words)``, dtype uint64; a view."""
        return self._rows.values

    def find(self, rows: Array) -> Array:
        """The number of each row, -1 for those without; ``rows`` has shape ``(n, words)`` and dtype uint64."""
        mixed = self._mixed(rows)
        found = np.full(len(rows), -1, np.int64)
        pending = np.arange(len(rows))
        slots, mask = mixed & np.uint64(len(self._slots) - 1), np.uint64(len(self._slots) - 1)
        while len(pending):
            entries = self._slots[slots[pending]]
            pending, entries = pending[entries != 0], entries[entries != 0]
            numbers = (entries & _NUMBER).astype(np.int64) - 1
            same = ((entries ^ mixed[pending]) & _TAG) == 0
            same[same] = (self._rows.values[numbers[same]] == rows[pending[same]]).all(axis=1)
            found[pending[same]] = numbers[same]
            pending = pending[~same]
            slots[pending] = (slots[pending] + np.uint64(1)) & mask
        return found

    def number(self, rows: Array) -> tuple[Array, Array]:
        """The number of each row, and the places in ``rows`` of those that are new, first first.

        New rows are numbered in the order of their first places. ``rows`` as in `find`.
        """
        known = len(self)
        count = len(rows)
        if known + count > _ROWS_MAX:
            raise EngineBug(f"more than {_ROWS_MAX:,} rows")
        self._make_room(known + count)
        self._rows.reserve(known + count)[known : known + count] = rows  # where they are compared; those not new go
        numbers, taken = self._place(rows, known)
        places = np.flatnonzero(numbers == known + np.arange(count))
        ranks = np.zeros(count, np.int64)
        ranks[places] = known + np.arange(len(places))
        fresh = numbers >= known
        numbers[fresh] = ranks[numbers[fresh] - known]
        self._slots[taken[places]] = (self._slots[taken[places]] & _TAG) | (numbers[places] + 1).astype(np.uint64)
        self._rows.reserve(known)[known : known + len(places)] = rows[places]
        self._rows.truncate(known + len(places))
        return numbers, places

    def _place(self, rows: Array, known: int) -> tuple[Array, Array]:
        """Numbers, where row ``i`` counts as ``known + i`` if it is the first of its kind; and the slots of those."""
        count = len(rows)
        mixed = self._mixed(rows)
        mask = np.uint64(len(self._slots) - 1)
        slots = mixed & mask
        own = (mixed & _TAG) | (known + 1 + np.arange(count)).astype(np.uint64)
        everything = self._rows.reserve(known + count)
        numbers = np.full(count, -1, np.int64)
        pending = np.arange(count)
        while len(pending):
            at = slots[pending]
            entries = self._slots[at]
            free = entries == 0
            if free.any():
                # of rows that want one slot the first gets it, for the last one written stays
                self._slots[at[free][::-1]] = own[pending[free]][::-1]
                entries = self._slots[at]
            found = (entries & _NUMBER).astype(np.int64) - 1
            same = ((entries ^ mixed[pending]) & _TAG) == 0
            doubtful = same & (entries != own[pending])
            same[doubtful] = (everything[found[doubtful]] == rows[pending[doubtful]]).all(axis=1)
            numbers[pending[same]] = found[same]
            pending = pending[~same]
            slots[pending] = (slots[pending] + np.uint64(1)) & mask
        return numbers, slots

    def _mixed(self, rows: Array) -> Array:
        """A hash of each row, shape ``(n,)``, dtype uint64."""
        first, second = map(np.uint64, _FACTORS)
        mixed = rows[:, 0] * first
        for word in range(1, self._words):
            mixed ^= mixed >> np.uint64(32)
            mixed += rows[:, word]
            mixed *= second
        mixed ^= mixed >> np.uint64(29)
        mixed *= first
        mixed ^= mixed >> np.uint64(32)
        return mixed

    def _make_room(self, count: int) -> None:
        if count <= len(self._slots) * _LOAD:
            return
        slots = len(self._slots)
        while count > slots * _LOAD:
            slots *= 2
        self._slots = np.zeros(slots, np.uint64)
        mask = np.uint64(slots - 1)
        for start in range(0, len(self), _BATCH):
            mixed = self._mixed(self.rows[start : start + _BATCH])
            entries = (mixed & _TAG) | (start + 1 + np.arange(len(mixed))).astype(np.uint64)
            at, pending = mixed & mask, np.arange(len(mixed))
            while len(pending):
                free = self._slots[at[pending]] == 0
                self._slots[at[pending[free]]] = entries[pending[free]]
                pending = pending[self._slots[at[pending]] != entries[pending]]
                at[pending] = (at[pending] + np.uint64(1)) & mask


class Memo:
    """A function of a few small non-negative numbers, computed once for each and looked up for many at once."""

    def __init__(self, compute: Callable[..., int | tuple[int, ...]], parameters: int, results: int = 1) -> None:
        self._compute = compute
        self._known = Interned((parameters + 1) // 2)
        self._results = GrowingArray(np.int32, results)

    def __call__(self, *columns: Array | int) -> Array:
        """The results for each row of ``columns``, see `packed`; shape ``(n, results)``, dtype int32."""
        rows = packed(*columns)
        numbers, new = self._known.number(rows)
        for row in rows[new].view(np.int32)[:, : len(columns)].tolist():
            self._results.append(self._compute(*row))
        return self._results.values[numbers]
