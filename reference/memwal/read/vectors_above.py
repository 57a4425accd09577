"""The vectors of all generations as one, so that a search measures those in near partitions at once.

Source: MemWAL revision A, "Vector Search Queries".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..maintained.stored_vectors import VectorRows
from ..maintained.vector_code import Encoded, QueryVector, VectorCode
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

    @classmethod
    def joined(cls, held: Sequence[tuple[Which, Sequence[VectorRows]]]) -> VectorsAbove | None:
        """Those of each source; None for none."""
        rows = [each for _, own in held for each in own]
        encoded = [each.encoded for each in rows if each.encoded is not None]
        if not encoded or len(encoded) < len(rows):
            return None
        every = Encoded.joined(encoded)
        order = np.argsort(every.partitions, kind="stable")
        return cls(
            {which: place for place, (which, _) in enumerate(held)},
            np.cumsum([sum(len(each.addresses) for each in own) for _, own in held]),
            np.concatenate([each.addresses for each in rows]),
            every.at(order),
            order,
        )

    def near(self, code: VectorCode, query: QueryVector, count: int) -> RankedTogether:
        """The rows in the ``count`` nearest partitions, ranked by their distance to ``query``."""
        nearest = query.nearest(count)
        bounds = np.searchsorted(self.encoded.partitions, [nearest, nearest + 1])
        parts = [slice(*each) for each in bounds.T.tolist()]
        rows = np.concatenate([self.order[each] for each in parts])
        distances: Values = np.concatenate(code.distances_of([self.encoded.between(each) for each in parts], query))
        by_source = np.argsort(rows, kind="stable")
        chosen = rows[by_source]
        return RankedTogether.of(
            self.addresses[chosen], distances[by_source], np.searchsorted(chosen, self.ends), greatest=False
        )

    def size_bytes(self) -> int:
        """Bytes in memory."""
        return int(self.addresses.nbytes) + self.encoded.size_bytes() + int(self.order.nbytes)
