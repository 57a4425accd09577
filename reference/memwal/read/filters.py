"""Filters on whole rows: pyarrow compute expressions, or SQL text evaluated by DataFusion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from .nodes import Keep

_POSITION = "__memwal_position"


def parse(condition: pc.Expression | str, schema: pa.Schema) -> Keep:
    """A function that keeps the rows of a table that match; raises `InvalidArgument` for a condition that cannot be.

    The condition is checked against ``schema`` at once, not when the first rows arrive.
    """
    if isinstance(condition, pc.Expression):
        keep: Keep = lambda rows: _kept(rows, condition)  # noqa: E731 - one of two forms of the same thing
    elif isinstance(condition, str):
        keep = lambda rows: _kept_by_sql(rows, condition)  # noqa: E731
    else:
        raise InvalidArgument(f"a filter is a pyarrow expression or SQL text, not {type(condition).__name__}")
    keep(schema.empty_table())
    return keep


def mask(condition: pc.Expression | str, schema: pa.Schema) -> Callable[[pa.Table], npt.NDArray[np.bool_]]:
    """A function that says for each row of a table whether it matches."""
    keep = parse(condition, schema)

    def matching(rows: pa.Table) -> npt.NDArray[np.bool_]:
        numbered = rows.append_column(_POSITION, pa.array(np.arange(rows.num_rows)))
        found = np.zeros(rows.num_rows, dtype=bool)
        found[keep(numbered).column(_POSITION).to_numpy()] = True
        return found

    return matching


def _kept(rows: pa.Table, condition: pc.Expression) -> pa.Table:
    try:
        return rows.filter(condition)
    except (pa.ArrowException, KeyError) as error:
        raise InvalidArgument(f"the filter does not fit the table: {error}") from error


def _kept_by_sql(rows: pa.Table, condition: str) -> pa.Table:
    from datafusion import SessionContext

    context = SessionContext()
    context.from_arrow(rows, name="rows")
    try:
        found = context.sql(f"SELECT * FROM rows WHERE {condition}").to_arrow_table()
    except Exception as error:
        raise InvalidArgument(f"the filter {condition!r} does not fit the table: {error}") from error
    return found.cast(rows.schema)
