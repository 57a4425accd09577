"""Where the rows of an answer come from, as columns beside those of the table, if they are asked for by name.

A column of the table that has one of these names stays what it is. That rows tell their origin is no part of the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..ids import Epoch, RegionId, WalPosition
from ..table.schema import check_columns
from ..table.state import TableState

ORIGIN = pa.schema(
    [
        pa.field("_region", pa.string()),
        pa.field("_generation", pa.int64()),
        pa.field("_epoch", pa.int64()),
        pa.field("_position", pa.int64()),
    ]
)
"""Region, generation (of a row that is not flushed: the one to come), epoch and position of the WAL entry.

All are NULL for rows of the base table. A generation does not keep which entry a row was in: the epoch is that of the
flush there, and the position NULL. Of what an open writer lends from memory the epoch is the writer's, and the position
NULL.
"""


class WrittenBy(NamedTuple):
    """So many rows in a row, of one WAL entry if the position is known."""

    rows: int
    epoch: Epoch | None
    position: WalPosition | None


def told(
    base: TableState, names: Iterable[str], region: RegionId | None, generation: int, written: Sequence[WrittenBy]
) -> dict[str, pa.Array]:
    """Those columns among ``names`` that ``base`` does not have, of rows that were ``written`` in that order.

    ``region``: None for rows of the base table, which tell nothing.
    """
    asked = [name for name in names if name in ORIGIN.names and not is_stored(base, name)]
    if not asked:
        return {}
    counts = np.array([each.rows for each in written], np.int64)
    rows, known = int(counts.sum()), region is not None
    entries = np.repeat(np.arange(len(written)), counts)
    values = {
        "_region": pa.repeat(pa.scalar(str(region) if known else None, pa.string()), rows),
        "_generation": pa.repeat(pa.scalar(generation if known else None, pa.int64()), rows),
        "_epoch": pa.array([each.epoch for each in written], pa.int64()).take(entries),
        "_position": pa.array([each.position for each in written], pa.int64()).take(entries),
    }
    return {name: values[name] for name in asked}


def field_of(base: TableState, name: str) -> pa.Field:
    """The field of a column of an answer: the table's, or else one of `ORIGIN`."""
    return base.schema.field(name) if is_stored(base, name) else ORIGIN.field(name)


def is_stored(base: TableState, name: str) -> bool:
    """Whether the table has the column."""
    return name in base.field_ids


def check(base: TableState, names: Iterable[str]) -> None:
    """Raise `InvalidArgument` for a column that neither the table nor `ORIGIN` has."""
    check_columns(base.schema, [name for name in names if name not in ORIGIN.names])
