"""A second engine that finds the regions of rows by code of its own, for scenarios of region specs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from memwal.codec.index_details import RegionSpec
from memwal.index.hashing import Profile
from memwal.table.state import TableState

from . import sharded
from .scripts import Words
from .sharded import GROUP, row

BY_OTHER_ENGINE: Mapping[Profile, Mapping[str, int | None]] = {
    "textbook": {"many": 15, "both": 9, GROUP: None},
    "R": {"many": 2},
}
"""Region values of the scenarios' keys by field, as another engine computes them that follows the texts, or the native
one.

Text book: the absolute value of Murmur3 of the UTF-8 bytes, modulo 16, by the package mmh3; over two columns with the
hash of the first as the seed of the second; none for NULL. R: as the native writer placed them.
"""


def by_other_engine(spec: RegionSpec, _rows: pa.Table, state: TableState) -> Mapping[str, object]:
    """The region value that a second engine computes, by code of its own: this one has no part in it."""
    known = BY_OTHER_ENGINE[state.revision.hash_profile]
    return {field.field_id: known[field.field_id] for field in spec.fields}


WORDS: Words = {**sharded.WORDS, "rows_by_other_engine": row(by_other_engine)}
"""What clients of one engine or of the other may do."""
