"""Rows of sources with what they are ranked by: distances or scores.

Source: MemWAL revision A, "Vector Search Queries" and "Full-Text Search Queries".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..table.reuse import Addresses

Values = npt.NDArray[np.float32]
"""Distances or scores. Shape (rows,)."""


_BLOCK = 64
"""The best of so many rows tells which of them are worth putting in order."""


@dataclass(slots=True)
class Ranked:
    """Rows of one source with what they are ranked by. They are put in order as far as they are read."""

    addresses: Addresses
    values: Values
    greatest: bool
    """Whether the greatest value is the best one."""
    rest: float | None = None
    """No row of the source that is not here is better than this; None: there are none."""
    _order: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Where the best rows are, best first."""

    def __len__(self) -> int:
        return len(self.addresses)

    def better(self, worst: float | None) -> Ranked:
        """Only the rows that are better than ``worst``; None: all."""
        if worst is None:
            return self
        kept = self.values > worst if self.greatest else self.values < worst
        return Ranked(self.addresses[kept], self.values[kept], self.greatest, self.rest)

    def leaves_out(self, worst: float) -> bool:
        """Whether the source may have another row that is better than ``worst``."""
        return self.rest is not None and (self.rest > worst if self.greatest else self.rest < worst)

    def best(self, start: int, end: int) -> tuple[Addresses, Values]:
        """The rows of these places, best first; among equal ones those written first."""
        if len(self._order) < min(end, len(self)):
            lowest_first = -self.values if self.greatest else self.values
            last = min(2 * end, len(self)) - 1
            if 4 * last < len(self):
                blocks = np.arange(0, len(self), _BLOCK)
                # As many rows as blocks are not worse than the best row of the last of these blocks.
                few = np.fmin.reduceat(lowest_first, blocks) if 4 * last < len(blocks) else lowest_first
                among = np.flatnonzero(~(lowest_first > np.partition(few, last)[last]))
            else:
                among = np.arange(len(self))
            self._order = among[np.lexsort((self.addresses[among], lowest_first[among]))]
        chosen = self._order[start:end]
        return self.addresses[chosen], self.values[chosen]


@dataclass(frozen=True, slots=True)
class RankedTogether:
    """The rows of several sources, one source after another."""

    addresses: Addresses
    values: Values
    ends: Sequence[int]
    """Of each source the row after its last."""
    best: Sequence[float]
    """No row of each source, here or not, is better than this; of one without rows no value is worse."""
    greatest: bool
    rest: float | None
    """As that of `Ranked`."""

    @classmethod
    def of(
        cls,
        addresses: Addresses,
        values: Values,
        ends: npt.NDArray[np.int64],
        *,
        greatest: bool,
        rest: float | None = None,
    ) -> RankedTogether:
        """``ends``: shape (sources,)."""
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        none = -np.inf if greatest else np.inf
        best, some = np.full(len(ends), none if rest is None else rest), starts < ends
        best[some] = (np.maximum if greatest else np.minimum).reduceat(values, starts[some]) if some.any() else 0
        return cls(addresses, values, ends.tolist(), best.tolist(), greatest, rest)

    def rows(self, place: int) -> int:
        """Of the source at ``place``."""
        return self.ends[place] - (self.ends[place - 1] if place else 0)

    def at(self, place: int) -> Ranked:
        """The rows of the source at ``place``."""
        own = slice(self.ends[place] - self.rows(place), self.ends[place])
        return Ranked(self.addresses[own], self.values[own], self.greatest, self.rest)
