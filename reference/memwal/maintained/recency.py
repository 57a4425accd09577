"""Which rows of a MemTable are superseded: an older row of a key that was written again.

Every search masks them before it ranks (AMB-109), and so late index updates make results incomplete, never stale
(AMB-116).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..codec.bloom import key_rows
from ..codec.canonical import Mask


@dataclass(slots=True)
class Recency:
    """The newest row of each key. Mutable: each insert adds to it."""

    newest: dict[bytes, int] = field(default_factory=dict)
    """Key bytes -> row offset."""
    rows: int = 0
    """Rows inserted."""
    mask: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    """At least ``rows`` long: whether no later row has the same key."""

    @implements("AMB-109")
    def insert(self, keys: pa.Table) -> None:
        """Add the following rows; ``keys``: their key columns, in the order of the key."""
        end = self.rows + keys.num_rows
        if end > len(self.mask):
            self.mask = np.concatenate([self.mask[: self.rows], np.zeros(2 * end - self.rows, np.bool_)])
        self.mask[self.rows : end] = True
        for offset, key in enumerate(key_rows(keys).to_pylist(), self.rows):
            before = self.newest.get(key)
            if before is not None:
                self.mask[before] = False
            self.newest[key] = offset
        self.rows = end

    @property
    def live(self) -> Mask:
        """Shape (rows,): whether no later row has the same key."""
        return self.mask[: self.rows]
