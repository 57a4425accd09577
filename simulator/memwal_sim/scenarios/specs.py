"""A second engine that finds the regions of rows by code of its own, for scenarios of region specs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from memwal.codec.index_details import RegionSpec
from memwal.index.hashing import Profile
from memwal.table.state import TableState

from . import sharded
from .ground import KEY
from .scripts import Words
from .sharded import GROUP, NO_GROUP, row

BY_OTHER_ENGINE: Mapping[Profile, Mapping[tuple[str, str], int | None]] = {
    "textbook": {("many", "k"): 15, ("both", "a"): 9, (GROUP, NO_GROUP): None},
    "R": {("many", "k"): 2, ("many", "a"): 1, ("many", NO_GROUP): 0},
}
"""Region values by field and key, as another engine computes them that follows the texts, or the native one.

Text book: the absolute value of Murmur3 of the UTF-8 bytes, modulo 16, by the package mmh3; over two columns with the
hash of the first as the seed of the second; none for NULL. R: Murmur3 without the sign bit, modulo 16, where a byte
after the last whole word is mixed as a word; a test works them out, step by step and without the engine.
"""


def by_other_engine(spec: RegionSpec, rows: pa.Table, state: TableState) -> Mapping[str, object]:
    """The region value that a second engine computes, by code of its own: this one has no part in it."""
    known, key = BY_OTHER_ENGINE[state.revision.hash_profile], rows.column(KEY)[0].as_py()
    return {field.field_id: known[field.field_id, key] for field in spec.fields}


WORDS: Words = {**sharded.WORDS, "rows_by_other_engine": row(by_other_engine)}
"""What clients of one engine or of the other may do."""
