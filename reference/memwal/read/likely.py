"""Which rows may match a filter at all, by what is understood of it: comparisons of columns, joined by AND and OR.

It takes a tenth of the filter's time and fails for no value, and so may be asked of superseded rows too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa

from ..table.late import Stage, agreed
from .conditions import AllOf, Compare, Condition, OneOf
from .wanted import Mask, Wanted, fitted


def likely(condition: Condition | None, schema: pa.Schema) -> Stage | None:
    """Rows that do not stay match no filter that says ``condition``; None where all may match."""
    match condition:
        case Compare(column, values):
            kind = schema.field(column).type if column in schema.names else None
            wanted = None if kind is None else fitted(values, kind)
            return None if wanted is None or not _comparable(wanted, kind) else _compared(column, wanted)
        case AllOf(parts):
            every = [stage for part in parts if (stage := likely(part, schema)) is not None]
            return _all_of(every) if every else None
        case OneOf(parts):
            stages = [likely(part, schema) for part in parts]
            some = [stage for stage in stages if stage is not None]
            return _one_of(some) if len(some) == len(stages) else None
    return None


def _comparable(wanted: Wanted, kind: pa.DataType | None) -> bool:
    """Whether Arrow compares values of that type; where it does not, as for lists, all is left to the filter."""
    try:
        wanted.holds(pa.array([], kind))
    except pa.ArrowNotImplementedError:
        return False
    return True


def _compared(column: str, wanted: Wanted) -> Stage:
    return Stage((column,), lambda rows: wanted.holds(rows.column(column)))


def _all_of(stages: Sequence[Stage]) -> Stage:
    return Stage(_columns(stages), lambda rows: agreed(rows, [stage.mask for stage in stages]))


def _one_of(stages: Sequence[Stage]) -> Stage:
    def mask(rows: pa.Table) -> Mask:
        return reduce(np.logical_or, [stage.mask(rows) for stage in stages])

    return Stage(_columns(stages), mask)


def _columns(stages: Sequence[Stage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for stage in stages for name in stage.columns))
