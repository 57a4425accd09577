"""Values as trees of names and texts: frozen dataclasses, protobuf messages and Arrow tables, for people to read."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from memwal.codec import index_details
from memwal.codec.protobuf import unknown
from memwal.errors import ArtifactError
from memwal.revisions import R

ROWS_MAX = 40
"""Rows of a table that are shown."""
ITEMS_MAX = 200
"""Members of a list that are shown; of a set with more than these, only the number is."""
TEXT_MAX = 400
"""Characters of one text that are shown."""
_HEX_MAX = 48
_UUID_BYTES = 16
_DETAILS = "MemWalIndexDetails"


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Rows as texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int
    """Rows that are not shown."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A name, and under it a text, other nodes, or rows."""

    name: str
    text: str = ""
    children: tuple[TreeNode, ...] = ()
    rows: RowTexts | None = None


def node(name: str, value: object) -> TreeNode:
    """The tree for ``value``."""
    match value:
        case Message():
            return TreeNode(name, _empty(value), tuple(_message(value)))
        case pa.Table():
            return TreeNode(name, f"{value.num_rows:,}", rows=table(value))
        case bytes() | str() | bool() | int() | float() | None | Enum():
            return TreeNode(name, text(value))
        case Mapping():
            return TreeNode(name, "" if value else "none", tuple(node(text(key), each) for key, each in value.items()))
        case frozenset() | set() if len(value) > ITEMS_MAX:
            return TreeNode(name, f"{len(value):,}")
        case frozenset() | set():
            return _several(name, sorted(value, key=repr))
        case tuple() | list():
            return _several(name, value)
    if is_dataclass(value) and not isinstance(value, type):
        return TreeNode(name, "", tuple(dataclass_nodes(value)))
    return TreeNode(name, _cut(str(value)))


def dataclass_nodes(value: Any) -> Iterable[TreeNode]:
    """A node for each field of a dataclass, but for empty ones that keep fields of later revisions."""
    for field in fields(value):
        found = getattr(value, field.name)
        if field.repr and (found or not field.name.endswith("unknown")):
            yield node(field.name, found)


def _several(name: str, values: list[Any] | tuple[Any, ...]) -> TreeNode:
    if not values:
        return TreeNode(name, "none")
    if all(isinstance(each, (int, str, bytes)) for each in values):
        shown = ", ".join(text(each) for each in values[:ITEMS_MAX])
        return TreeNode(name, _cut(f"[{shown}]"))
    children = [node(str(number), each) for number, each in enumerate(values[:ITEMS_MAX])]
    if len(values) > ITEMS_MAX:
        children.append(TreeNode("…", f"{len(values) - ITEMS_MAX:,} more"))
    return TreeNode(name, f"{len(values):,}", tuple(children))


def _empty(message: Message) -> str:
    return "" if message.ListFields() or unknown(message) else "empty"


def _message(message: Message) -> Iterable[TreeNode]:
    kind = message.DESCRIPTOR
    if kind.full_name == "google.protobuf.Any":
        yield from _any(message)
        return
    for field, value in message.ListFields():
        yield _field(field, value)
    rest = unknown(message)
    if rest:
        yield TreeNode("unknown fields", text(rest))


def _field(field: FieldDescriptor, value: Any) -> TreeNode:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return node(field.name, {key: value[key] for key in sorted(value)})
    if field.is_repeated:
        return node(field.name, tuple(_scalar(field, each) for each in value))
    return node(field.name, _scalar(field, value))


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is None:
        return value
    known = field.enum_type.values_by_number.get(value)
    return f"{value}, unknown" if known is None else known.name


def _any(message: Any) -> Iterable[TreeNode]:
    yield TreeNode("type_url", message.type_url)
    if not message.type_url.endswith(_DETAILS):
        yield TreeNode("value", text(message.value))
        return
    try:
        yield from dataclass_nodes(index_details.decode(message.value, R, "index details"))
    except ArtifactError as error:
        yield TreeNode("value", text(message.value))
        yield TreeNode("refused", f"{error.reason} [{error.clause}]")


def table(found: pa.Table) -> RowTexts:
    """The first rows of a table."""
    shown = found.slice(0, ROWS_MAX)
    columns = [[text(value) for value in column.to_pylist()] for column in shown.columns]
    rows = tuple(zip(*columns, strict=True)) if columns else ()
    return RowTexts(tuple(found.schema.names), rows, found.num_rows - shown.num_rows)


def text(value: object) -> str:
    """One line for a value without parts."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case Enum():
            return value.name.lower()
        case bytes() if value and value.isascii() and value.decode().isprintable():
            return f'"{_cut(value.decode())}"'
        case bytes() if len(value) == _UUID_BYTES:
            return str(uuid.UUID(bytes=value))
        case bytes():
            more = f"… ({len(value):,} bytes)" if len(value) > _HEX_MAX else ""
            return f"0x{value[:_HEX_MAX].hex()}{more}" if value else "empty"
        case str():
            return _cut(value) if value else '""'
    return _cut(str(value))


def _cut(found: str) -> str:
    return found if len(found) <= TEXT_MAX else f"{found[:TEXT_MAX]}… ({len(found):,} characters)"
