"""A second engine that finds the regions of rows by code of its own, for scenarios of region specs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from memwal.codec.index_details import RegionSpec
from memwal.table.state import TableState

from . import sharded
from .scripts import Words
from .sharded import by_engine, row


def by_other_engine(spec: RegionSpec, rows: pa.Table, state: TableState) -> Mapping[str, object]:
    """The region value that a second engine computes: the same, unless a planted bug stands here."""
    return by_engine(spec, rows, state)


def _by_other_engine(spec: RegionSpec, rows: pa.Table, state: TableState) -> Mapping[str, object]:
    return by_other_engine(spec, rows, state)


WORDS: Words = {**sharded.WORDS, "rows_by_other_engine": row(_by_other_engine)}
"""What clients of one engine or of the other may do."""
