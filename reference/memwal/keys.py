"""Primary keys as sets of rows: which row of a key is the newest, and which rows have a key in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .clauses import implements

_POSITION = "__memwal_position"


@implements("READ-005", "AMB-46", "AMB-106")
def newest(rows: pa.Table, key: Sequence[str]) -> npt.NDArray[np.int64]:
    """Positions of the last row of each key, ascending. ``rows`` are in write order: later rows are newer."""
    if not rows.num_rows:
        return np.empty(0, dtype=np.int64)
    positions = pa.array(np.arange(rows.num_rows, dtype=np.int64))
    numbered = rows.select(list(key)).append_column(_POSITION, positions)
    last = numbered.group_by(list(key), use_threads=False).aggregate([(_POSITION, "max")])
    return np.sort(last.column(f"{_POSITION}_max").to_numpy())


def without(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """``rows`` whose key is not among ``keys`` (a table of the key columns), in their order."""
    return _restricted(rows, keys, "left anti")


def among(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """``rows`` whose key is among ``keys`` (a table of the key columns), in their order."""
    return _restricted(rows, keys, "left semi")


def _restricted(rows: pa.Table, keys: pa.Table, kind: str) -> pa.Table:
    if not rows.num_rows or not keys.num_rows:
        return rows if kind == "left anti" else rows.slice(0, 0)
    names = keys.schema.names
    positions = pa.array(np.arange(rows.num_rows, dtype=np.int64))
    numbered = rows.select(names).append_column(_POSITION, positions)
    kept = numbered.join(keys, keys=names, join_type=kind, use_threads=False)
    return rows.take(np.sort(kept.column(_POSITION).to_numpy()))
