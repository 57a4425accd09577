"""What a filter says about single columns: the few values that a matching row may have in each, or a range of them.

Only comparisons with literals, BETWEEN, lists of literals, IS NULL, AND and OR are understood; whatever else a filter
says leaves its columns out, which excludes nothing. So do comparisons of floating numbers, where equal values differ in
bytes.
Source: MemWAL revisions A and B, "Region Pruning".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..errors import InvalidArgument
from .values import NOTHING, TURNED, Predicate, among, both, comparable, compared, either, said

_SHOWN = 200
"""Characters of a condition that an error message shows."""
MOST_WEIGHT = 1 << 12
"""Expressions that would take more than a few milliseconds to look into exclude nothing."""


@implements("PLAN-005", "AMB-114")
def extract(condition: Any, schema: pa.Schema) -> Predicate:
    """What ``condition``, a pyarrow compute expression or SQL text, says about the columns of ``schema``.

    The condition has to be one that `memwal.read.filters.parse` took.
    """
    if condition is None:
        return NOTHING
    found = _of_expression(condition, schema) if isinstance(condition, pc.Expression) else _of_sql(condition, schema)
    types = dict(zip(schema.names, schema.types, strict=True))
    return {name: values for name, values in found.items() if name in types and comparable(types[name])}


def shown(condition: str) -> str:
    """A condition in an error message."""
    return repr(condition) if len(condition) <= _SHOWN else f"{condition[:_SHOWN]!r}…"


def _of_sql(condition: str, schema: pa.Schema) -> Predicate:
    from datafusion import SessionContext

    context = SessionContext()
    context.from_arrow(schema.empty_table(), name="rows")
    try:
        parsed = context.table("rows").parse_sql_expr(condition)
    except Exception as error:
        raise InvalidArgument(f"the filter {shown(condition)} is no single condition: {error}") from error
    try:
        return _of_node(_variant(parsed), dict(zip(schema.names, schema.types, strict=True)))
    except RecursionError:  # a chain of some hundred terms
        return NOTHING


def _variant(expression: Any) -> Any:
    """A node of DataFusion's expression tree; None for one that it does not show to Python."""
    try:
        return expression.to_variant()
    except ValueError:
        return None


def _of_node(node: Any, types: Mapping[str, pa.DataType]) -> Predicate:
    """What one node of DataFusion's expression tree says."""
    kind = type(node).__name__
    if kind == "BinaryExpr":
        left, right = _variant(node.left()), _variant(node.right())
        if node.op() == "AND":
            return both([_of_node(left, types), _of_node(right, types)])
        if node.op() == "OR":
            return either([_of_node(left, types), _of_node(right, types)])
        if node.op() in TURNED:
            if type(left).__name__ == "Column":
                return _compared(left, node.op(), node.right(), types)
            if type(right).__name__ == "Column":
                return _compared(right, TURNED[node.op()], node.left(), types)
    if kind == "Between" and not node.negated():
        column = _variant(node.expr())
        if type(column).__name__ == "Column":
            return both([_compared(column, ">=", node.low(), types), _compared(column, "<=", node.high(), types)])
    if kind == "InList" and not node.negated():
        column = _variant(node.expr())
        if type(column).__name__ == "Column":
            return either([_compared(column, "=", each, types) for each in node.list()])
    if kind == "IsNull":
        column = _variant(node.expr())
        if type(column).__name__ == "Column":
            return {column.name(): frozenset([None])}
    return NOTHING


_READERS = {
    "Int8": "value_i8",
    "Int16": "value_i16",
    "Int32": "value_i32",
    "Int64": "value_i64",
    "Utf8": "value_string",
    "Utf8View": "value_string",
}
"""Literals that keep their value whatever they are compared with, by type, and what reads them."""


def _compared(column: Any, sign: str, constant: Any, types: Mapping[str, pa.DataType]) -> Predicate:
    # A text is taken for what it says before ends are compared with each other: as texts they have another order.
    return compared(column.name(), sign, said(_constant(constant), types.get(column.name())))


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


def _of_expression(condition: pc.Expression, schema: pa.Schema) -> Predicate:
    """By way of the Substrait message of the expression; nothing for one that has none, or a very large one."""
    if _weight(str(condition)) > MOST_WEIGHT:
        return NOTHING
    try:
        message = _fields(bytes(condition.to_substrait(schema)))
    except (pa.ArrowException, ValueError):
        return NOTHING
    names: dict[int, str] = {}
    for declared in message.get(2, []):
        for function in _fields(declared).get(3, []):
            parts = _fields(function)
            names[parts.get(2, [0])[0]] = parts[3][0].decode()
    return _of_substrait(_fields(_fields(message[3][0])[1][0]), names, schema)


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
_TEXT, _BYTES = 12, 13
_DAYS, _MICROSECONDS, _MICROSECONDS_UTC = 16, 14, 27
_EPOCH = datetime(1970, 1, 1)
_SIGNS = {"equal": "=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
"""Functions of Substrait that compare, and SQL's signs for them."""


def _of_substrait(node: Mapping[int, list[Any]], names: Mapping[int, str], schema: pa.Schema) -> Predicate:
    if _ONE_OF in node:
        parts = _fields(node[_ONE_OF][0])
        column = _column(_fields(parts[1][0]), schema)
        return among(column, [_value(_fields(option)) for option in parts.get(2, [])]) if column else NOTHING
    if _FUNCTION not in node:
        return NOTHING
    call = _fields(node[_FUNCTION][0])
    arguments = [_fields(_fields(argument)[3][0]) for argument in call.get(4, [])]
    name = names.get(call.get(1, [0])[0], "")
    if name in {"and", "or"}:
        said = [_of_substrait(argument, names, schema) for argument in arguments]
        return both(said) if name == "and" else either(said)
    columns = [column for argument in arguments if (column := _column(argument, schema))]
    if name == "is_null" and len(columns) == len(arguments) == 1:
        return {columns[0]: frozenset([None])}
    if name in _SIGNS and len(columns) == 1:
        literals = [argument for argument in arguments if _LITERAL in argument]
        sign = _SIGNS[name] if _LITERAL not in arguments[0] else TURNED[_SIGNS[name]]
        return compared(columns[0], sign, _value(literals[0])) if literals else NOTHING
    return NOTHING


def _column(node: Mapping[int, list[Any]], schema: pa.Schema) -> str | None:
    """The top-level column that a selection names; None for anything else."""
    if _SELECTION not in node:
        return None
    segment = _fields(_fields(node[_SELECTION][0]).get(1, [b""])[0])
    if list(segment) != [2]:
        return None
    field = _fields(segment[2][0])
    return schema.names[field.get(1, [0])[0]] if 2 not in field else None


def _value(node: Mapping[int, list[Any]]) -> object:
    """The value of a literal; None for one that is not understood."""
    literal = _fields(node[_LITERAL][0]) if _LITERAL in node else {}
    for number in _INTEGERS:
        if number in literal:
            return _signed(literal[number][0])
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


def _fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a protobuf message of unknown type, by number: integers, and bytes for what has a length."""
    found: dict[int, list[Any]] = {}
    for number, value in _unknown(data):
        found.setdefault(number, []).append(value)
    return found


def _unknown(data: bytes) -> Iterator[tuple[int, Any]]:
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet

    message = Empty()
    message.ParseFromString(data)
    unknown = UnknownFieldSet(message)
    for at in range(len(unknown)):
        yield unknown[at].field_number, unknown[at].data
