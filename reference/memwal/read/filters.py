"""Filters on whole rows: pyarrow compute expressions, and SQL text: by DataFusion, or by Arrow where it is plain.

Each only says which rows match: they are taken from the rows as they came, cell for cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .. import cellwise, truths
from ..errors import InvalidArgument
from .likely import likely
from .predicates import shown, whole

_POSITION = "__memwal_position"

OPERATORS_MOST = 2_500
"""Operators and words in the text of a filter, names and literals left out: of 1,000 comparisons, 2,000. DataFusion
takes time with the square of their number, and a part of the stack for each."""
TEXT_MOST = 1 << 20
"""Characters of the text of a filter."""
PLAIN_MOST = 1_000
"""Characters of a text that may be a plain one, whose rows are compared without DataFusion."""
_LITERAL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?<=[(,])\s*-?\d[\w.]*")
_OPERATOR = re.compile(
    r"[^\w\s.,()]+|\b(?:and|or|not|is|in|like|ilike|between|at|case|when|div|similar)\b", re.IGNORECASE
)

_WORD = re.compile(r"\w+")
_BY_PLACE = re.compile(r"FieldPath|\bselect\b", re.IGNORECASE)
"""Columns by their number, and queries inside of the condition."""

Matching = Callable[[pa.Table], npt.NDArray[np.bool_]]
"""Says for each row of a table whether it matches. Shape (rows,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A filter over rows of one table, and which columns it looks at."""

    matching: Matching
    """Asked with `columns`, in this order."""
    columns: tuple[str, ...]

    def mask(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Whether each of ``rows`` matches, which may have other columns too. Shape (rows,)."""
        return self.matching(rows.select(list(self.columns))) if rows.num_rows else np.zeros(0, np.bool_)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Those of ``rows`` that match."""
        return cellwise.where(rows, self.mask(rows))


def parse(condition: pc.Expression | str, schema: pa.Schema) -> RowFilter:
    """The filter; raises `InvalidArgument` for a condition that cannot be.

    The condition is checked against ``schema`` at once, not when the first rows arrive.
    """
    if isinstance(condition, str) and len(condition) <= PLAIN_MOST:
        plain = likely(whole(condition, schema), schema)
        if plain is not None:
            return RowFilter(matching=plain.mask, columns=plain.columns)
    matching = mask(condition, schema)
    named = _named(str(condition), schema)
    if len(named) < len(schema):
        try:
            matching(pa.schema([schema.field(name) for name in named]).empty_table())
        except InvalidArgument:
            named = schema.names
    return RowFilter(matching=matching, columns=tuple(named))


def _named(text: str, schema: pa.Schema) -> list[str]:
    """The columns that a condition can look at, by its text: it has to name them; all where it has other means.

    A name that the text has for another reason is one too many, which does no harm.
    """
    if _BY_PLACE.search(text):
        return list(schema.names)
    said, words = text.lower(), set(_WORD.findall(text.lower()))
    named = [
        name
        for name in schema.names
        if (name.lower() in words if _WORD.fullmatch(name) else '"' in name or name.lower() in said)
    ]
    # A condition that names none is asked with one: it says how many rows there are.
    return named or schema.names[:1]


def mask(condition: pc.Expression | str, schema: pa.Schema) -> Matching:
    """A function that says for each row of a table whether it matches; raises as `parse` does."""
    if isinstance(condition, pc.Expression):
        matching: Matching = lambda rows: _by_expression(rows, condition)  # noqa: E731 - one of two forms of the same
    elif isinstance(condition, str):
        _check_size(condition)
        matching = lambda rows: _by_sql(rows, condition)  # noqa: E731
    else:
        raise InvalidArgument(f"a filter must be a pyarrow expression or SQL text, not {type(condition).__name__}")
    matching(schema.empty_table())
    return matching


def _check_size(condition: str) -> None:
    """Raise `InvalidArgument` for a text whose reading would take minutes, or more stack than there is."""
    if len(condition) > TEXT_MOST:
        reason = f"a filter of {len(condition)} characters; {TEXT_MOST} are read"
        raise InvalidArgument(f"{reason}: {shown(condition)}")
    operators = sum(1 for _ in islice(_OPERATOR.finditer(_LITERAL.sub("", condition)), OPERATORS_MOST + 1))
    if operators > OPERATORS_MOST:
        reason = f"a filter of more than {OPERATORS_MOST} operators; name many values with IN or pass a key table"
        raise InvalidArgument(f"{reason}: {shown(condition)}")


def _by_expression(rows: pa.Table, condition: pc.Expression) -> npt.NDArray[np.bool_]:
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    shown = acero.Declaration("project", acero.ProjectNodeOptions([condition], [_POSITION]))
    try:
        (found,) = acero.Declaration.from_sequence([source, shown]).to_table(use_threads=False).columns
    except (pa.ArrowException, KeyError) as error:
        raise InvalidArgument(f"the filter does not fit the table: {error}") from error
    if not pa.types.is_boolean(found.type):
        raise InvalidArgument(f"the filter does not fit the table: it gives {found.type}, not true or false")
    return truths.of_arrow(found)


def _by_sql(rows: pa.Table, condition: str) -> npt.NDArray[np.bool_]:
    from datafusion import SessionContext

    context = SessionContext()
    context.from_arrow(rows.append_column(_POSITION, pa.array(np.arange(rows.num_rows))), name="rows")
    try:
        found = context.sql(f"SELECT {_POSITION} FROM rows WHERE {condition}").to_arrow_table()
    except Exception as error:
        raise InvalidArgument(f"the filter {shown(condition)} does not fit the table: {_said(error, rows)}") from error
    matches = np.zeros(rows.num_rows, np.bool_)
    matches[found.column(_POSITION).to_numpy()] = True
    return matches


def _said(error: Exception, rows: pa.Table) -> str:
    """What DataFusion says of a filter, with the table's own columns where it names one that there is not."""
    reason = str(error).splitlines()[0].removeprefix("DataFusion error: ")
    missing = re.search(r"No field named (\S+?)\.?$", reason)
    return reason if missing is None else f"it has no column {missing[1]}; the table has {rows.schema.names}"
