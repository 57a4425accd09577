"""The vectors of all generations as one, so that a search measures those in near partitions at once.

Source: MemWAL revision A, "Vector Search Queries".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..maintained.stored_vectors import VectorRows
from ..maintained.vector_code import Encoded, QueryVector, VectorCode, in_one
from ..table.reuse import Addresses
from .parts import Which
from .ranked import RankedTogether, Values


@dataclass(frozen=True, slots=True)
class VectorsAbove:
    """Of those generations all of whose vectors are at hand."""

    places: Mapping[Which, int]
    """Where each source is among them."""
    ends: npt.NDArray[np.int64]
    """Of each source the row after its last."""
    addresses: Addresses
    """One source after another."""
    encoded: Encoded
    """The same rows, one partition after another, so that what is in one needs no copy."""
    order: npt.NDArray[np.int64]
    """Which of `addresses` each of `encoded` has; ascending within a partition."""
    starts: npt.NDArray[np.int64]
    """Of each partition its first row in `encoded`, and behind them the number of rows. Shape (partitions + 1,)."""

    @classmethod
    def joined(cls, held: Sequence[tuple[Which, Sequence[VectorRows]]], partitions: int) -> VectorsAbove | None:
        """Those of each source, of a code of so many ``partitions``; None for none."""
        rows = [each for _, own in held for each in own]
        encoded = [each.encoded for each in rows if each.encoded is not None]
        if not encoded or len(encoded) < len(rows):
            return None
        every = Encoded.joined(encoded)
        order = np.argsort(every.partitions, kind="stable")
        by_partition = every.at(order)
        return cls(
            {which: place for place, (which, _) in enumerate(held)},
            np.cumsum([sum(len(each.addresses) for each in own) for _, own in held]),
            np.concatenate([each.addresses for each in rows]),
            by_partition,
            order,
            np.searchsorted(by_partition.partitions, np.arange(partitions + 1)),
        )

    def near(self, code: VectorCode, query: QueryVector, count: int) -> RankedTogether:
        """The rows in the ``count`` nearest partitions, ranked by their distance to ``query``."""
        nearest = query.nearest(count).tolist()
        spans = [slice(*self.starts[each : each + 2].tolist()) for each in nearest]
        parts = [
            replace(self.encoded.between(span), partitions=in_one(each, span.stop - span.start))
            for each, span in zip(nearest, spans, strict=True)
        ]
        rows = np.concatenate([self.order[span] for span in spans])
        distances: Values = np.concatenate(code.distances_of(parts, query))
        by_source = np.argsort(rows, kind="stable")
        chosen = rows[by_source]
        return RankedTogether.of(
            self.addresses[chosen], distances[by_source], np.searchsorted(chosen, self.ends), greatest=False
        )

    def size_bytes(self) -> int:
        """Bytes in memory."""
        return int(self.addresses.nbytes) + self.encoded.size_bytes() + int(self.order.nbytes)
