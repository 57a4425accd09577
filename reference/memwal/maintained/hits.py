"""Rows that a ranked search found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows with what they are ranked by, best first."""

    offsets: npt.NDArray[np.int64]
    """Row offsets in the MemTable. Shape (hits,)."""
    values: npt.NDArray[np.float32]
    """Distances (least first) or scores (greatest first). Shape (hits,)."""


def best(
    offsets: npt.NDArray[np.int64], values: npt.NDArray[np.float32], k: int | None, *, greatest: bool = False
) -> Hits:
    """The ``k`` best rows, all for None; among equal ones those written first."""
    order = np.lexsort((offsets, -values if greatest else values))[:k]
    return Hits(offsets[order], values[order])
