"""The keys of all generations above a base table as one set, which spares most rows of an answer a look at each.

Few rows of the base have a key that any generation has, and few rows of a generation have one that another row has too.
The set is kept from read to read, as long as the generations are the same.
Source: MemWAL revision A, "Query Execution": a filter that does not know a key spares the look at its generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .. import cellwise
from ..effects import Grew, Io, remembered
from ..keys import KeySet, Mask, repeated
from .parts import Part, Parts, TablePart
from .values import NOTHING

_FOR_A_GENERATION = 2_000
"""Reading the keys of a generation takes about as long as putting so many keys into a set."""
_SPARED = 128
"""Not to look at a generation spares about the time that putting so many keys into a set takes."""
_KEY_BYTES = 64
"""About what a key takes."""


@dataclass(slots=True)
class _KeysAbove:
    """Of one choice of generations. Threads may share it: what one does not see yet is worked out twice."""

    manifests: tuple[str, ...]
    """By which the generations are the same."""
    rows: int
    """That they have together."""
    asked: int = 0
    """How often."""
    every: KeySet | None = None
    """The keys of all rows; None: putting them together did not pay yet."""
    several: KeySet | None = None
    """The keys of more than one row."""


async def may_be_elsewhere(io: Io, parts: Parts, part: Part, keys: pa.Table) -> Mask:
    """Which of ``keys``, of rows of ``part``, another row above the base may have, too; False where that is known.

    All of them where nothing is kept, where a MemTable or a WAL tail has rows, and as long as all looks so far have
    cost less than it takes to put the keys together.
    """
    above = [each for region in parts.regions.values() for each in region]
    generations = [each for each in above if isinstance(each, TablePart)]
    perhaps = np.ones(keys.num_rows, np.bool_)
    if not io.remembers or not generations:
        return perhaps
    for each in above:
        if not isinstance(each, TablePart) and await each.fragments(NOTHING):
            return perhaps
    known = await _keys_above(io, generations, keys.schema.names)
    held = known.every if part.region_id is None else known.several
    return perhaps if held is None else held.mask(keys)


async def _keys_above(io: Io, generations: Sequence[TablePart], key: Sequence[str]) -> _KeysAbove:
    async def made() -> _KeysAbove:
        states = [await each.opened() for each in generations]
        rows = sum(fragment.physical_rows for state in states for fragment in state.fragments)
        return _KeysAbove(tuple(state.path for state in states), rows)

    roots = tuple(each.io.root for each in generations)
    name = ("keys above", roots, tuple(key))
    found = await remembered(io, name, made, lambda _: 0, by=lambda made: made.manifests)
    found.asked += 1
    if found.every is None and found.asked * _SPARED * len(roots) >= found.rows + _FOR_A_GENERATION * len(roots):
        keys = pa.concat_tables([(await each.rows(key)).select(list(key)) for each in generations])
        again = repeated(keys)
        found.several = KeySet(cellwise.at(keys, again[0]) if again is not None else keys.slice(0, 0))
        found.every = KeySet(keys)
        await Grew(name, _KEY_BYTES * found.rows)
    return found
