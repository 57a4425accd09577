"""The keys of all generations above a base table as one set, which spares most rows of an answer a look at each.

Few rows of the base have a key that any generation has, and few rows of a generation have one that another row has too.
Source: MemWAL revision A, "Query Execution": a filter that does not know a key spares the look at its generation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .. import cellwise
from ..keys import KeySet, Mask, repeated
from .collection import Parts
from .parts import Part
from .together import together

_SPARED = 128
"""Not to look at a generation spares about the time that putting so many keys into a set takes."""


@dataclass(frozen=True, slots=True)
class _KeysAbove:
    """Of one choice of generations."""

    every: KeySet
    """The keys of all rows."""
    several: KeySet
    """The keys of more than one row."""


async def may_be_elsewhere(parts: Parts, part: Part, keys: pa.Table) -> Mask:
    """Which of ``keys``, of rows of ``part``, another row above the base may have, too; False where that is known.

    All of them where nothing is kept, where a MemTable or a WAL tail has rows, and as long as all looks so far have
    cost less than it takes to put the keys together.
    """
    above, key = await parts.above(), keys.schema.names
    perhaps = np.ones(keys.num_rows, np.bool_)
    if above is None or not above.generations:
        return perhaps

    async def made() -> _KeysAbove:
        every = pa.concat_tables([(await each.rows(key)).select(key) for each in above.generations])
        again = repeated(every)
        several = cellwise.at(every, again[0]) if again is not None else every.slice(0, 0)
        return _KeysAbove(KeySet(every), KeySet(several))

    known = await together(parts, above, ("keys above", *key), made, _size, spared=_SPARED)
    if known is None:
        return perhaps
    return (known.every if part.region_id is None else known.several).mask(keys)


def _size(keys: _KeysAbove) -> int:
    return keys.every.size_bytes + keys.several.size_bytes
