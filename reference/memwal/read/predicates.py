"""What a filter says about columns: the few values that a matching row may have in one, a range, a text, labels.

Only comparisons with literals, BETWEEN, lists of literals, IS NULL, AND and OR are understood, and in SQL what a text
starts with or contains, and which labels a list has; whatever else a filter says excludes nothing.
Source: MemWAL revisions A and B, "Region Pruning".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..codec.protobuf import fields
from ..errors import InvalidArgument
from .conditions import Compare, Condition, HasLabels, HasText, all_of, leaves, like, of, one_of, starting_with
from .conditions import known as known_of
from .values import TURNED, Predicate, comparable, compared, said
from .wanted import fitted

_SHOWN = 200
"""Characters of a condition that an error message shows."""
MOST_WEIGHT = 1 << 12
"""Expressions that would take more than a few milliseconds to look into exclude nothing."""


@implements("PLAN-005", "AMB-114")
def extract(condition: Any, schema: pa.Schema) -> Predicate:
    """What ``condition`` says about single columns whose equal values have equal bytes; see `understood`."""
    return of_columns(understood(condition, schema), schema)


def of_columns(condition: Condition | None, schema: pa.Schema) -> Predicate:
    """What is ``understood`` of single columns whose equal values have equal bytes."""
    types = dict(zip(schema.names, schema.types, strict=True))
    kept = {name for name, kind in types.items() if comparable(kind) and not pa.types.is_boolean(kind)}
    return {name: values for name, values in known_of(condition).items() if name in kept}


def understood(condition: Any, schema: pa.Schema) -> Condition | None:
    """What ``condition``, a pyarrow compute expression or SQL text, says about the columns of ``schema``.

    The condition has to be one that `memwal.read.filters.parse` took.
    """
    if condition is None:
        return None
    return _of_expression(condition, schema) if isinstance(condition, pc.Expression) else _of_sql(condition, schema)


def shown(condition: str) -> str:
    """A condition in an error message."""
    return repr(condition) if len(condition) <= _SHOWN else f"{condition[:_SHOWN]!r}…"


def whole(condition: str, schema: pa.Schema) -> Condition | None:
    """What SQL text says, if `understood` is all of it: comparisons of whole numbers and texts, joined by AND and OR.

    Rows of which it holds are those that the text keeps, and no others. None for any other text, sound or not.
    """
    types = dict(zip(schema.names, schema.types, strict=True))
    try:
        parsed = _parsed(condition, schema)
        found = _of_node(parsed, types) if _is_plain(parsed, types) else None
    except (InvalidArgument, RecursionError):
        return None
    # A number that the column cannot have is compared as one of a wider type.
    fits = all(isinstance(leaf, Compare) and fitted(leaf.values, types[leaf.column]) for leaf in leaves(found))
    return found if fits else None


def _is_plain(expression: Any, types: Mapping[str, pa.DataType]) -> bool:
    """Whether `_of_node` says all that an expression does."""
    node = _variant(expression)
    kind = type(node).__name__
    if kind == "BinaryExpr":
        sides = node.left(), node.right()
        if node.op() in {"AND", "OR"}:
            return all(_is_plain(side, types) for side in sides)
        return node.op() in TURNED and any(_are_alike(one, [two], types) for one, two in (sides, sides[::-1]))
    if kind == "Between" and not node.negated():
        return _are_alike(node.expr(), [node.low(), node.high()], types)
    if kind == "InList" and not node.negated():
        return len(node.list()) > 0 and _are_alike(node.expr(), node.list(), types)
    return False


def _are_alike(column: Any, constants: Sequence[Any], types: Mapping[str, pa.DataType]) -> bool:
    """Whether a column is compared with literals of its own sort, and of no other."""
    name = _name(column)
    kind = types.get(name) if name is not None else None
    sort = None if kind is None else next((sort for sort, fits in _PLAIN if fits(kind)), None)
    return sort is not None and all(type(_constant(each)) is sort for each in constants)


_PLAIN: Sequence[tuple[type, Callable[[pa.DataType], bool]]] = (
    (int, pa.types.is_integer),
    (str, lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))),
)
"""Sorts of literals that are compared with such columns here as DataFusion does it."""


def _of_sql(condition: str, schema: pa.Schema) -> Condition | None:
    parsed = _parsed(condition, schema)
    try:
        return _of_node(parsed, dict(zip(schema.names, schema.types, strict=True)))
    except RecursionError:  # a chain of some hundred terms
        return None


@lru_cache(maxsize=16)
def _parsed(condition: str, schema: pa.Schema) -> Any:
    """DataFusion's tree of a text, which never changes; a filter is parsed for what it keeps and for what it says."""
    try:
        return _rows_of(schema).parse_sql_expr(condition)
    except Exception as error:
        raise InvalidArgument(f"the filter {shown(condition)} is not a single condition: {error}") from error


@lru_cache(maxsize=16)
def _rows_of(schema: pa.Schema) -> Any:
    """A table of DataFusion's without rows, which understands texts about such columns; nothing changes it."""
    from datafusion import SessionContext

    context = SessionContext()
    context.from_arrow(schema.empty_table(), name="rows")
    return context.table("rows")


def _variant(expression: Any) -> Any:
    """A node of DataFusion's expression tree; None for one that it does not show to Python."""
    try:
        return expression.to_variant()
    except ValueError:
        return None


def _of_node(expression: Any, types: Mapping[str, pa.DataType]) -> Condition | None:
    """What one node of DataFusion's expression tree says."""
    node = _variant(expression)
    kind = type(node).__name__
    if node is None:
        return _of_call(expression, types)
    if kind == "BinaryExpr":
        return _of_signs(node, types)
    column = _name(node.expr()) if kind in _OF_COLUMN else _name(expression)
    if column is None or column not in types:
        return None
    if kind == "Column":
        return Compare(column, frozenset([True])) if pa.types.is_boolean(types[column]) else None
    if kind == "Not":
        return Compare(column, frozenset([False])) if pa.types.is_boolean(types[column]) else None
    if kind == "IsNull":
        return Compare(column, frozenset([None]))
    if node.negated():
        return None
    if kind == "Between":
        ends = (">=", node.low()), ("<=", node.high())
        return all_of([_compared(column, sign, end, types) for sign, end in ends])
    if kind == "InList":
        return one_of([_compared(column, "=", each, types) for each in node.list()]) if len(node.list()) else None
    pattern = _text(node.pattern())
    return like(column, pattern, node.escape_char()) if pattern is not None else None


_OF_COLUMN = frozenset({"Not", "IsNull", "Between", "InList", "Like"})
"""Nodes over one expression that are understood where that is a column."""


def _of_signs(node: Any, types: Mapping[str, pa.DataType]) -> Condition | None:
    left, right = node.left(), node.right()
    if node.op() in {"AND", "OR"}:
        parts = [_of_node(left, types), _of_node(right, types)]
        return all_of(parts) if node.op() == "AND" else one_of(parts)
    if node.op() not in TURNED:
        return None
    for column, sign, constant in ((_name(left), node.op(), right), (_name(right), TURNED[node.op()], left)):
        if column is not None:
            return _compared(column, sign, constant, types)
    return None


def _of_call(expression: Any, types: Mapping[str, pa.DataType]) -> Condition | None:
    """What a function says whose first argument is a column."""
    while expression.variant_name() == "Alias":
        (expression,) = expression.rex_call_operands()
    if expression.variant_name() != "ScalarFunction":
        return None
    called, arguments = expression.rex_call_operator(), expression.rex_call_operands()
    column = _name(arguments[0]) if len(arguments) == 2 else None
    if column is None or column not in types:
        return None
    if called in {"starts_with", "contains"}:
        text = _text(arguments[1])
        if not text:
            return None
        return starting_with(column, text) if called == "starts_with" else HasText(column, text)
    if called == "array_has":
        return _labels(column, [arguments[1]], every=True)
    if called in {"array_has_any", "array_has_all"} and arguments[1].variant_name() == "ScalarFunction":
        inside = arguments[1]
        if inside.rex_call_operator() == "make_array":
            return _labels(column, inside.rex_call_operands(), every=called == "array_has_all")
    return None


def _labels(column: str, given: Sequence[Any], *, every: bool) -> Condition | None:
    labels = [_constant(each) for each in given]
    return HasLabels(column, frozenset(labels), every) if labels and None not in labels else None


def _name(expression: Any) -> str | None:
    found = _variant(expression)
    return str(found.name()) if type(found).__name__ == "Column" else None


def _text(expression: Any) -> str | None:
    found = _constant(expression)
    return found if isinstance(found, str) else None


_READERS = {
    "Int8": "value_i8",
    "Int16": "value_i16",
    "Int32": "value_i32",
    "Int64": "value_i64",
    "Float64": "value_f64",
    "Boolean": "value_bool",
    "Utf8": "value_string",
    "Utf8View": "value_string",
}
"""Literals that keep their value whatever they are compared with, by type, and what reads them."""


def _compared(column: str, sign: str, constant: Any, types: Mapping[str, pa.DataType]) -> Condition | None:
    # A text is taken for what it says before ends are compared with each other: as texts they have another order.
    return _told(column, sign, said(_constant(constant), types.get(column)), types.get(column))


def _told(column: str, sign: str, value: object, kind: pa.DataType | None) -> Condition | None:
    """A comparison; None where the column would be made another type for it: of whole numbers with 2.5, say."""
    if kind is None or (type(value) in _ALIKE and not _ALIKE[type(value)](kind)):
        return None
    return of(compared(column, sign, value))


_ALIKE: Mapping[type, Callable[[pa.DataType], bool]] = {float: pa.types.is_floating, bool: pa.types.is_boolean}


def _constant(expression: Any) -> object:
    """The value of a literal, or of a text cast to a day or to a time without a zone; None for anything else."""
    found = _variant(expression)
    if type(found).__name__ == "Literal":
        return _literal(found)
    text = _variant(found.expr()) if type(found).__name__ == "Cast" else None
    value = _literal(text) if type(text).__name__ == "Literal" else None
    # DataFusion shows Python a type as text only.
    kind = _MOMENTS.get(str(expression).rpartition(" AS ")[2]) if isinstance(value, str) else None
    moment = said(value, kind) if kind is not None else None
    return None if isinstance(moment, str) else moment


_MOMENTS = {"Date32))": pa.date32(), "Timestamp(ns)))": pa.timestamp("us")}
"""Ends of what DataFusion prints for a cast to the types of DATE and TIMESTAMP."""


def _literal(literal: Any) -> object:
    reader = _READERS.get(str(literal.data_type()).rpartition(".")[2])
    return getattr(literal, reader)() if reader is not None else None


def _of_expression(condition: pc.Expression, schema: pa.Schema) -> Condition | None:
    """By way of the Substrait message of the expression; nothing for one that has none, or a very large one."""
    if _weight(str(condition)) > MOST_WEIGHT:
        return None
    # Of a column that Substrait has no type for nothing is understood; the others stay at their positions.
    schema = pa.schema([each if _in_substrait(each.type) else each.with_type(pa.null()) for each in schema])
    try:
        message = fields(bytes(condition.to_substrait(schema)))
    except (pa.ArrowException, ValueError):
        return None
    names: dict[int, str] = {}
    for declared in message.get(2, []):
        for function in fields(declared).get(3, []):
            parts = fields(function)
            names[parts.get(2, [0])[0]] = parts[3][0].decode()
    return _of_substrait(fields(fields(message[3][0])[1][0]), names, schema)


@lru_cache(maxsize=256)
def _in_substrait(kind: pa.DataType) -> bool:
    """Whether pyarrow writes a column of this type into a Substrait message; of lists of a fixed size it does not."""
    try:
        pc.field("column").is_null().to_substrait(pa.schema({"column": kind}))
    except (pa.ArrowException, ValueError):
        return False
    return True


def _weight(text: str) -> int:
    """About how large the Substrait message of a printed expression is: pyarrow writes each level twice."""
    depth = weight = 0
    for character in text:
        if character == "(":
            depth += 1
            weight += 1 << depth
        elif character == ")":
            depth -= 1
        if weight > MOST_WEIGHT:
            break
    return weight


_LITERAL, _SELECTION, _FUNCTION, _ONE_OF = 1, 2, 3, 8
"""Kinds of a Substrait expression, by field number."""
_INTEGERS = (2, 3, 5, 7)
_TRUTH, _TEXT, _BYTES = 1, 12, 13
_SINGLE, _DOUBLE = 10, 11
_DAYS, _MICROSECONDS, _MICROSECONDS_UTC = 16, 14, 27
_EPOCH = datetime(1970, 1, 1)
_SIGNS = {"equal": "=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
"""Functions of Substrait that compare, and SQL's signs for them."""


def _of_substrait(node: Mapping[int, list[Any]], names: Mapping[int, str], schema: pa.Schema) -> Condition | None:
    if _ONE_OF in node:
        parts = fields(node[_ONE_OF][0])
        column = _column(fields(parts[1][0]), schema)
        options = [_value(fields(option)) for option in parts.get(2, [])]
        return one_of([_told(column, "=", each, schema.field(column).type) for each in options]) if column else None
    alone = _column(node, schema)
    if alone is not None:
        return Compare(alone, frozenset([True])) if pa.types.is_boolean(schema.field(alone).type) else None
    if _FUNCTION not in node:
        return None
    call = fields(node[_FUNCTION][0])
    arguments = [fields(fields(argument)[3][0]) for argument in call.get(4, [])]
    name = names.get(call.get(1, [0])[0], "")
    if name in {"and", "or"}:
        said = [_of_substrait(argument, names, schema) for argument in arguments]
        return all_of(said) if name == "and" else one_of(said)
    columns = [column for argument in arguments if (column := _column(argument, schema))]
    if name in {"is_null", "not"} and len(columns) == len(arguments) == 1:
        if name == "is_null":
            return Compare(columns[0], frozenset([None]))
        return Compare(columns[0], frozenset([False]))
    if name in _SIGNS and len(columns) == 1:
        literals = [argument for argument in arguments if _LITERAL in argument]
        sign = _SIGNS[name] if _LITERAL not in arguments[0] else TURNED[_SIGNS[name]]
        return _told(columns[0], sign, _value(literals[0]), schema.field(columns[0]).type) if literals else None
    return None


def _column(node: Mapping[int, list[Any]], schema: pa.Schema) -> str | None:
    """The top-level column that a selection names; None for anything else."""
    if _SELECTION not in node:
        return None
    segment = fields(fields(node[_SELECTION][0]).get(1, [b""])[0])
    if list(segment) != [2]:
        return None
    field = fields(segment[2][0])
    column = schema.field(field.get(1, [0])[0])
    return None if 2 in field or pa.types.is_null(column.type) else column.name


def _value(node: Mapping[int, list[Any]]) -> object:
    """The value of a literal; None for one that is not understood."""
    literal = fields(node[_LITERAL][0]) if _LITERAL in node else {}
    for number in _INTEGERS:
        if number in literal:
            return _signed(literal[number][0])
    if _TRUTH in literal:
        return bool(literal[_TRUTH][0])
    for number, stored, shape in ((_SINGLE, "<I", "<f"), (_DOUBLE, "<Q", "<d")):
        if number in literal:
            return struct.unpack(shape, struct.pack(stored, literal[number][0]))[0]
    with suppress(OverflowError):
        if _DAYS in literal:
            return date(1970, 1, 1) + timedelta(days=_signed(literal[_DAYS][0]))
        if _MICROSECONDS in literal:
            return _EPOCH + timedelta(microseconds=_signed(literal[_MICROSECONDS][0]))
        if _MICROSECONDS_UTC in literal:
            return _EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=_signed(literal[_MICROSECONDS_UTC][0]))
    if _TEXT in literal:
        return bytes(literal[_TEXT][0]).decode()
    return bytes(literal[_BYTES][0]) if _BYTES in literal else None


def _signed(stored: Any) -> int:
    """A number of 64 bits, or of 32 that its sign was extended from."""
    unsigned = int(stored)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
