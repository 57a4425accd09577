"""The key filter of a MemTable: which keys it may hold, kept up to date with every write.

The stored filter is sized by the number of keys, which a MemTable learns only at its end. So the filter in memory is a
chain of the stored kind, each member twice the size of the one before; the flush builds the stored one from the keys.
Source: MemWAL revision A, "MemTable Indexing"; AMB-47, 116.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..codec.bloom import Growing
from ..codec.canonical import Mask

FIRST_KEYS = 1024
"""Capacity of the first member of the chain."""


@dataclass(slots=True)
class KeyFilter:
    """Keys inserted so far, and a filter over them. Mutable: each write adds to it."""

    inserted: list[pa.Table] = field(default_factory=list)
    """All keys, in write order."""
    chain: list[Growing] = field(default_factory=list)
    """Filters over them; only the last takes more keys."""

    @implements("WRITER-020", "AMB-116")
    def insert(self, keys: pa.Table) -> None:
        """Add ``keys``, a table of the key columns."""
        self.inserted.append(keys)
        at = 0
        while at < keys.num_rows:
            if not self.chain or not self.chain[-1].room:
                self.chain.append(Growing.empty(FIRST_KEYS << len(self.chain)))
            part = keys.slice(at, self.chain[-1].room)
            self.chain[-1].add(part)
            at += part.num_rows

    @implements("WRITER-024")
    def may_contain(self, keys: pa.Table) -> Mask:
        """Shape (rows,): False only where the key was never inserted."""
        found = np.zeros(keys.num_rows, np.bool_)
        for member in self.chain:
            found |= member.might_contain(keys)
        return found
