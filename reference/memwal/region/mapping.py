"""The WAL fragment mapping: where in the WAL, and so in the flushed generation, the fragments of a MemTable are.

A MemTable gets one fragment per write; a WAL entry holds the rows of one or more writes, in order. In revision A each
entry with rows is one fragment of the flushed table, so that a row keeps its entry and its place in it. Entries without
rows (barriers, AMB-20) have a position and no fragment on either side.
Source: MemWAL revision A, "WAL Fragment Mapping Construction".
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..clauses import implements
from ..errors import EngineBug
from ..ids import FragmentId, WalPosition


@dataclass(frozen=True, slots=True)
class FragmentPlace:
    """Where one MemTable fragment is stored."""

    fragment: FragmentId
    """Its id in the MemTable: 0 for the first write of the generation."""
    position: WalPosition
    """The WAL entry that holds it: the absolute number (AMB-19)."""
    ordinal: int
    """Which of the writes in that entry it is, from 0."""
    row_start: int
    """Offset in the entry of its first row."""
    rows: int

    @implements("FLUSH-019")
    def relative(self, position_replay_after: WalPosition) -> int:
        """The entry as the texts count it: 1 for the first one after the replay pointer."""
        return self.position - position_replay_after


@implements("FLUSH-017", "FLUSH-018", "FLUSH-020", "AMB-19")
@dataclass(frozen=True, slots=True)
class FragmentMapping:
    """The places of all stored fragments of a MemTable, by fragment id, which is also row order."""

    places: tuple[FragmentPlace, ...]

    @property
    def positions(self) -> tuple[WalPosition, ...]:
        """Entries with rows, ascending. The n-th is fragment n of the generation's table (AMB-20)."""
        return tuple(dict.fromkeys(place.position for place in self.places))

    def flushed_fragment(self, position: WalPosition) -> FragmentId:
        """Id of an entry's fragment in the generation's table; raises `EngineBug` for an entry that has none."""
        positions = self.positions
        at = bisect_right(positions, position) - 1
        if at < 0 or positions[at] != position:
            raise EngineBug(f"entry {position} holds no fragment of this MemTable")
        return FragmentId(at)

    def address(self, fragment: FragmentId, row: int) -> int:
        """Row address in the generation's table of row ``row`` of MemTable fragment ``fragment``: as `addresses`."""
        place = self.places[fragment]
        if not 0 <= row < place.rows:
            raise EngineBug(f"fragment {fragment} has {place.rows} rows, and row {row} was asked for")
        return self.flushed_fragment(place.position) << 32 | (place.row_start + row)

    @implements("FLUSH-007", "AMB-19")
    def addresses(self, offsets: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Row addresses in the generation's table of rows of the MemTable.

        ``offsets``: row offsets in the MemTable, counted over all its fragments, in any order; all of them stored. An
        address has the flushed fragment id in its high 32 bits and the row's offset in that fragment in the low ones.
        """
        if not len(offsets):
            return np.empty(0, np.uint64)
        rows = np.array([place.rows for place in self.places], np.uint64)
        ends = np.cumsum(rows, dtype=np.uint64)
        if not len(ends) or offsets.max() >= ends[-1]:
            raise EngineBug(f"row {offsets.max()} of a MemTable with {ends[-1] if len(ends) else 0} stored rows")
        numbers = {position: number for number, position in enumerate(self.positions)}
        fragments = np.array([numbers[place.position] for place in self.places], np.uint64)
        starts = np.array([place.row_start for place in self.places], np.uint64)
        of = np.searchsorted(ends, offsets, side="right")
        within = starts[of] + (offsets - (ends[of] - rows[of]))
        found: npt.NDArray[np.uint64] = fragments[of] << np.uint64(32) | within
        return found
