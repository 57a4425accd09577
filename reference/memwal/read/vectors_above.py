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
    encoded: Encoded

    @classmethod
    def joined(cls, held: Sequence[tuple[Which, Sequence[VectorRows]]]) -> VectorsAbove | None:
        """Those of each source; None for none."""
        rows = [each for _, own in held for each in own]
        encoded = [each.encoded for each in rows if each.encoded is not None]
        if not encoded or len(encoded) < len(rows):
            return None
        every = Encoded.joined(encoded)
        return cls(
            {which: place for place, (which, _) in enumerate(held)},
            np.cumsum([sum(len(each.addresses) for each in own) for _, own in held]),
            np.concatenate([each.addresses for each in rows]),
            Encoded(every.offsets, every.partitions, np.asfortranarray(every.codes), every.fixed),
        )

    def near(self, code: VectorCode, query: QueryVector, count: int) -> RankedTogether:
        """The rows in the ``count`` nearest partitions, ranked by their distance to ``query``."""
        wanted = np.zeros(len(code.centroids), np.bool_)
        wanted[query.nearest(count)] = True
        chosen = np.flatnonzero(wanted[self.encoded.partitions])
        distances: Values = code.distances(self.encoded.at(chosen), query)
        return RankedTogether.of(self.addresses[chosen], distances, np.searchsorted(chosen, self.ends), greatest=False)

    def size_bytes(self) -> int:
        """Bytes in memory."""
        return int(self.addresses.nbytes) + self.encoded.size_bytes()
