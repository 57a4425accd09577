"""The keys of all generations above a base table as one, which tells at once which rows of an answer are superseded.

Source: MemWAL revision A, "Query Execution": a filter that does not know a key spares the look at its generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import truths
from ..coroutines import concurrently
from ..effects import Io
from ..keys import KeyPlaces, Mask, repeated
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from .collection import Above, Parts
from .parts import Sourced, Which
from .together import together

_SPARED = 128
"""Not to look at a generation spares about the time that putting so many keys in order takes."""


@dataclass(frozen=True, slots=True)
class KeysAbove:
    """Of one choice of generations: of each key the newest row."""

    keys: KeyPlaces
    homes: npt.NDArray[np.int32]
    """Of each place the number of its generation."""
    addresses: Addresses
    """Of each place its row."""
    in_several: Mask
    """Of each place whether another region has its key too: then none of them is the newest in all regions."""
    numbers: Mapping[Which, int]
    """Of the generations."""

    def supersede(self, keys: pa.Table) -> Mask:
        """Which of ``keys``, those of rows of the base, a generation has."""
        found: Mask = self.keys.of(keys) >= 0
        for column in keys.columns:
            if column.null_count:
                found &= truths.of_arrow(column.is_valid())
        return found

    def stale(self, sources: Sourced, rows: pa.Table, keys: pa.Table) -> tuple[Mask, Mask]:
        """Which of ``rows`` are superseded, and of which that is not known; see `Freshness.stale_among`."""
        if sources[0][0].region_id is None:
            return self.supersede(keys), np.zeros(keys.num_rows, np.bool_)
        places = self.keys.of(keys)
        own = [self.numbers.get((part.region_id, part.generation), -1) for part, _ in sources]
        homes = np.repeat(np.array(own, np.int32), [count for _, count in sources])
        unknown = (places < 0) | self.in_several[places] | (homes < 0)
        newest = (self.homes[places] == homes) & (self.addresses[places] == rows.column(ROW_ADDRESS).to_numpy())
        return ~newest & ~unknown, unknown

    @property
    def size_bytes(self) -> int:
        return self.keys.size_bytes + self.homes.nbytes + self.addresses.nbytes + self.in_several.nbytes


async def keys_above(parts: Parts, key: Sequence[str], *, spared: int | None = _SPARED) -> KeysAbove | None:
    """The keys of all generations.

    None where nothing is kept, where a MemTable or a WAL tail has rows, where a key has NULL, and as long as all looks
    so far have cost less than it takes to put the keys together. ``spared``: what it saves of one generation, as
    `together` counts it.
    """
    above = await parts.above()
    if above is None or not above.generations:
        return None
    return await together(
        parts, above, ("keys above", *key), partial(_joined, parts.io, above, key), _size, spared=spared
    )


async def _joined(io: Io, above: Above, key: Sequence[str]) -> KeysAbove | None:
    generations = sorted(above.generations, key=lambda part: (part.region_id or "", part.generation))
    rows = await concurrently(io, [partial(each.rows, key) for each in generations])
    every = pa.concat_tables([each.select([*key, ROW_ADDRESS]) for each in rows])
    keys = every.select(list(key))
    if any(column.null_count for column in keys.columns):
        return None
    homes = np.repeat(np.arange(len(rows), dtype=np.int32), [each.num_rows for each in rows])
    return KeysAbove(
        keys=KeyPlaces(keys),
        homes=homes,
        addresses=every.column(ROW_ADDRESS).to_numpy(),
        in_several=_in_several(
            keys, np.unique([part.region_id for part in generations], return_inverse=True)[1][homes]
        ),
        numbers={(part.region_id, part.generation): number for number, part in enumerate(generations)},
    )


def _in_several(keys: pa.Table, regions: npt.NDArray[Any]) -> Mask:
    """Of each of ``keys``, which lie in ``regions``, region by region, whether it lies in another one, too."""
    found = np.zeros(keys.num_rows, np.bool_)
    again = repeated(keys)
    if again is not None:
        order, number = again
        first = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
        last = np.append(first[1:], len(number)) - 1
        found[order] = (regions[order[first]] != regions[order[last]])[number]
    return found


def _size(keys: KeysAbove | None) -> int:
    return 0 if keys is None else keys.size_bytes
