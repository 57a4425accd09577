"""Rows that come late: a writer with a sequence column compares its rows with what the region has stored (AMB-148).

Fencing stops what an older claim still does, and nothing in the texts stops a later claim that replays older rows: its
writes are the newest, whatever its rows say of themselves. After its claim a writer is the only one of its region, so
that it can read the sequence of each stored key once, keep it up to date with its own writes, and tell late rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .. import cellwise
from ..clauses import implements
from ..coroutines import Turn
from ..errors import InvalidArgument, LateRow, check_name
from ..key_codes import Codes, is_integral
from ..keys import KeyPlaces, repeated
from ..words import counted
from .memtable import MemTable

Mask = npt.NDArray[np.bool_]
"""One truth value per row, shape (rows,)."""
Values = npt.NDArray[Any]
"""Sequences as numbers, or as objects where they are decimals or texts. Shape (rows,)."""

_FEW = 8
"""Where fewer than one row in so many shares its key with another one of the write, nothing is gained by that."""

LateRows = Literal["drop", "keep", "fail"]
"""What becomes of a row whose sequence is not higher than the stored one of its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceBy:
    """By what a writer's rows are ordered, and what becomes of late ones."""

    column: str
    late_rows: LateRows = "drop"
    """``drop``: they are left out and counted. ``keep``: no comparison, a later write wins. ``fail``: the whole write
    is refused with `LateRow`, and nothing of it is written."""


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of the rows of one write."""

    rows: int
    """Rows that count. Where many of them share their key, a writer with a sequence column stores the last one of each:
    the others would never be read, since a write is atomic."""
    late: int = 0
    """Rows that were left out, since their sequence was not higher than the one that stands for their key."""
    replaced: int = 0
    """Those of ``rows`` that were not stored, since a later row of their key was in the same write."""


@implements("AMB-148")
def checked(sequence: SequenceBy, schema: pa.Schema, key: Sequence[str]) -> SequenceBy:
    """``sequence``; raises `InvalidArgument` unless its column is in ``schema``, not of the key, and can be ordered."""
    check_name("column", sequence.column, schema.names, clause="AMB-148")
    check_name("way with late rows", sequence.late_rows, get_args(LateRows), clause="AMB-148")
    if sequence.column in key:
        reason = f"column {sequence.column!r} is of the key, and orders no two rows of one key"
        raise InvalidArgument(reason, clause="AMB-148")
    kind = schema.field(sequence.column).type
    if not any(accepts(kind) for accepts in _ORDERED):
        reason = f"column {sequence.column!r} is {kind}; rows are ordered by whole numbers, decimals, times and texts"
        raise InvalidArgument(reason, clause="AMB-148")
    return sequence


_ORDERED: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_string,
    pa.types.is_large_string,
)
"""Types with one order of all their values; floating numbers have NaN, which is neither higher nor lower."""


@dataclass(slots=True)
class _Known:
    """Keys, of which the last place of each counts, and their sequences, which change in place."""

    keys: pa.Table
    places: KeyPlaces
    values: Values
    given: Mask
    """Which keys have a sequence."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found for some rows."""

    late: Mask
    """Which of them are not higher than what stands for their key, or than an earlier one of them."""
    replaced: Mask
    """Which of the others have a later one of their key among them. They are of one write, so that they would never
    be read."""
    places: tuple[Codes, ...] | None
    """For each set of known keys the place of each row's key in it, or -1. None: not looked up, since all rows are
    above all sequences that were told."""

    @property
    def kept(self) -> Mask:
        """Which rows are to be written."""
        return ~(self.late | self.replaced)

    def of_kept(self) -> Compared:
        """The same of the rows that are to be written."""
        kept = self.kept
        none: Mask = np.zeros(np.count_nonzero(kept), np.bool_)
        return Compared(none, none, self.places and tuple(at[kept] for at in self.places))


class Sequences:
    """The sequence of the newest row of each key, as far as it was told.

    In memory are keys and sequences, in about log2(n) sets of growing size that have no key in common. What is told
    waits to be sorted until some row is not above all of it: a writer whose rows only ever rise never sorts a key.
    """

    def __init__(self, key: Sequence[str], by: str, stored: pa.Table | pa.Scalar) -> None:
        """``stored``: key and sequence columns of rows; of a key that occurs more than once the last row counts.

        Or only the highest sequence of what is stored, `comparable`, NULL if there is none: then rows that are not
        above it cannot be `compared`.
        """
        self._key, self._by = list(key), by
        self._sets: list[_Known] = []
        self._waiting: list[pa.Table] = []
        self.whole = isinstance(stored, pa.Table)
        """Whether each stored key is known."""
        self._highest: pa.Scalar | None = None
        if isinstance(stored, pa.Table):
            self._tell(self._plain(stored))
        elif stored.is_valid:
            self._highest = stored

    def decide(self, rows: pa.Table) -> bool:
        """Whether ``rows`` can be `compared`."""
        return self.whole or self._above(rows)

    def _above(self, rows: pa.Table) -> bool:
        """Whether the sequence of each row is higher than all that were told."""
        if self._highest is None or not rows.num_rows:
            return True
        return bool(pc.greater(pc.min(comparable(rows.column(self._by))), self._highest).as_py())

    def compared(self, rows: pa.Table) -> Compared:
        """Compare ``rows``, which have a sequence each, with what stands for their keys and with each other."""
        keys = rows.select(self._key)
        values, _ = _values(rows.column(self._by))
        several = repeated(keys)
        late = _behind(several, values)
        if self._above(rows):
            return Compared(late, _replaced(several, late), None)
        assert self.whole, "the caller has asked whether this can decide"
        self._sort()
        places = self._places(keys, several)
        for known, at in zip(self._sets, places, strict=True):
            here = np.flatnonzero(at >= 0)
            there = at[here]
            late[here] |= known.given[there] & (values[here] <= known.values[there]).astype(np.bool_)
        return Compared(late, _replaced(several, late), places)

    def _places(self, keys: pa.Table, several: tuple[Codes, Codes] | None) -> tuple[Codes, ...]:
        """Of each set the place of each of ``keys``; those that are ``several`` times there are looked up once."""
        if several is None or len(several[0]) * _FEW < keys.num_rows:
            return tuple(known.places.of(keys) for known in self._sets)
        order, number = several
        first = order[np.append(True, number[1:] != number[:-1])]
        asked: Codes = np.arange(keys.num_rows)
        asked[order] = first[number]
        distinct = np.flatnonzero(asked == np.arange(len(asked)))
        looked_up = keys.take(pa.array(distinct))
        found = []
        for known in self._sets:
            at: Codes = np.empty(len(asked), np.int64)
            at[distinct] = known.places.of(looked_up)
            found.append(at[asked])
        return tuple(found)

    def written(self, rows: pa.Table, compared: Compared) -> None:
        """``rows`` are the newest of their keys now; of a key that occurs more than once the last row counts.

        ``compared``: what was found for them before anything else was written.
        """
        told = self._plain(rows)
        if compared.places is None:
            self._tell(told)
        else:
            self._place(told, compared.places)
            self._rise(told)

    def take_over(self, other: Sequences) -> None:
        """Know what waits in ``other``: rows that were written since what is stored was read, or before."""
        for rows in other._waiting:
            self._tell(rows)

    def _plain(self, rows: pa.Table) -> pa.Table:
        """Key and sequence of ``rows``: in memory, generations and base columns say differently what may be NULL."""
        names = [*self._key, self._by]
        return pa.Table.from_arrays([rows.column(name) for name in names], names)

    def _tell(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._rise(rows)

    def _rise(self, rows: pa.Table) -> None:
        most = pc.max(comparable(rows.column(self._by)))
        if most.is_valid and (self._highest is None or pc.greater(most, self._highest).as_py()):
            self._highest = most

    def _sort(self) -> None:
        """Put what waits where it is found by its key."""
        if self._waiting:
            told, self._waiting = pa.concat_tables(self._waiting), []
            keys = told.select(self._key)
            self._place(told, tuple(known.places.of(keys) for known in self._sets))

    def _place(self, rows: pa.Table, places: tuple[Codes, ...]) -> None:
        """``rows`` are the newest of their keys. ``places``: of each set the place of each of their keys."""
        values, given = _values(rows.column(self._by))
        unknown: Mask = np.ones(rows.num_rows, np.bool_)
        for known, at in zip(self._sets, places, strict=True):
            here = np.flatnonzero(at >= 0)
            known.values[at[here]], known.given[at[here]] = values[here], given[here]
            unknown[here] = False
        self._learn(rows if unknown.all() else rows.filter(pa.array(unknown)))

    def _learn(self, rows: pa.Table) -> None:
        """``rows``: of keys that are not known yet; of one that occurs more than once the last row counts."""
        if not rows.num_rows:
            return
        keys = rows.select(self._key)
        values, given = _values(rows.column(self._by))
        while self._sets and self._sets[-1].keys.num_rows <= 2 * keys.num_rows:
            older = self._sets.pop()
            keys = pa.concat_tables([older.keys, keys])
            values, given = np.concatenate([older.values, values]), np.concatenate([older.given, given])
        keys = keys.combine_chunks()
        self._sets.append(_Known(keys, KeyPlaces(keys), values, given))


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The sequences as Arrow compares them; of durations pyarrow (26.0) finds no least and no highest one."""
    return column.cast(pa.int64()) if pa.types.is_duration(column.type) else column


def _values(column: pa.ChunkedArray) -> tuple[Values, Mask]:
    """Values that are ordered as the column's are, in memory of their own, and which of them are given."""
    given = column.is_valid().to_numpy()
    if not is_integral(column.type):
        return column.to_numpy(), given
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return np.array(column.fill_null(0).to_numpy() if column.null_count else column.to_numpy()), given


def _behind(several: tuple[Codes, Codes] | None, values: Values) -> Mask:
    """Which rows are not higher than the highest earlier row of their key. ``several``: those that share one."""
    late: Mask = np.zeros(len(values), np.bool_)
    # In order, as most writers bring them: then it does not matter which keys repeat.
    if several is None or bool(np.all(values[1:] > values[:-1])):
        return late
    order, number = several
    rank = np.unique(values[order], return_inverse=True)[1].astype(np.int64)
    # Ascending from key to key, so that one running maximum serves all of them.
    height = number * len(order) + rank
    late[order[1:]] = height[1:] <= np.maximum.accumulate(height)[:-1]
    return late


def _replaced(several: tuple[Codes, Codes] | None, late: Mask) -> Mask:
    """Which rows are not ``late`` and have a later row of their key that is not. Few are not worth looking for."""
    found: Mask = np.zeros(len(late), np.bool_)
    if several is not None and len(several[0]) * _FEW >= len(late):
        order, number = several
        counts = ~late[order]
        order, number = order[counts], number[counts]
        found[order[:-1][number[1:] == number[:-1]]] = True
    return found


Stored = Callable[[Sequence[MemTable], bool], Awaitable[pa.Table | pa.Scalar]]
"""Reads key and sequence of the newest row of each key of the region, deletes too; given the writer's MemTables, and
whether the keys are needed. Older rows of a key may stand before it. Where the keys are not needed and there are many,
it is the highest sequence of them, or one that is higher, `comparable`: NULL if there is none."""


@dataclass(slots=True)
class Comparison:
    """What an open writer with a sequence column goes by."""

    sequence: SequenceBy
    key: tuple[str, ...]
    stored: Stored
    reading: Turn = field(default_factory=Turn)
    known: Sequences | None = None
    """None until the first write has read what is stored. Of a large region only the highest sequence at first: the
    keys are read when some row is not above that."""

    async def ready(self, held: Callable[[], Sequence[MemTable]], rows: pa.Table) -> None:
        """Read what is stored, as far as ``rows`` need it and it was not read.

        ``held``: the writer's MemTables. What other writes put into them meanwhile is known all the same.
        """
        while not self.decides(rows):
            async with self.reading:
                if self.known is None:
                    self.known = Sequences(self.key, self.sequence.column, await self.stored(held(), False))
                elif not self.known.decide(rows):
                    found = Sequences(self.key, self.sequence.column, await self.stored(held(), True))
                    found.take_over(self.known)
                    self.known = found

    def decides(self, rows: pa.Table) -> bool:
        """Whether ``rows`` can be compared by what was read."""
        return self.sequence.late_rows == "keep" or (self.known is not None and self.known.decide(rows))

    @implements("AMB-148")
    def admitted(self, rows: pa.Table) -> tuple[pa.Table, Compared | None]:
        """Those of ``rows`` that are to be written, in their order; and what was found for them.

        Raises `InvalidArgument` for a row without a sequence, and `LateRow` for a late one where these are to fail.
        """
        column = self.sequence.column
        if rows.column(column).null_count:
            at = pc.index(rows.column(column).is_null(), True).as_py()
            raise InvalidArgument(f"row {at} has NULL in the sequence column {column!r}", clause="AMB-148")
        if self.known is None:
            return rows, None
        compared = self.known.compared(rows)
        kept = compared.kept
        if kept.all():
            return rows, compared
        if self.sequence.late_rows == "fail" and compared.late.any():
            first = rows.slice(int(compared.late.argmax()), 1).select([*self.key, column]).to_pylist()[0]
            count = int(compared.late.sum())
            raise LateRow(
                f"{counted(count, 'row')} came late; the first is {first}, whose key has a row that is not lower"
            )
        return cellwise.where(rows, kept), compared

    def written(self, rows: pa.Table, compared: Compared | None) -> None:
        """``rows`` are in the MemTable now; ``compared``: what was found for them."""
        if self.known is not None and compared is not None:
            self.known.written(rows, compared if compared.kept.all() else compared.of_kept())
