"""What inspection gives: a tree of nodes, each one object or a part of one, with its fields and its damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ..effects import Protocol
from ..errors import ArtifactError, OutcomeUnknown, Throttled
from ..invariants.finding import attempted
from ..violations import Violation, objection

T = TypeVar("T")


class U64(int):
    """A number that the format stores in 64 bits; text in JSON, since many readers of JSON would round it."""


Scalar = bool | int | float | str | None
Value = Scalar | tuple[Scalar, ...] | Mapping[str, str]
Fields = tuple[tuple[str, Value], ...]

TEXT_MOST = 400
"""Characters of a text that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One object, or a part of one."""

    kind: str
    """What it is: a stable word, see docs/inspect.md."""
    name: str
    """The object's name, or what tells it from its neighbours."""
    fields: Fields = ()
    damage: tuple[Violation, ...] = ()
    """Why it cannot be read, or what of it cannot."""
    children: tuple[Node, ...] = ()
    more: int = 0
    """Children that are not shown, by the limit."""

    def all(self) -> Iterator[Node]:
        """The node and all below it."""
        yield self
        for child in self.children:
            yield from child.all()


def damaged(kind: str, name: str, found: Violation) -> Node:
    """A node of which nothing can be shown but its damage."""
    return Node(kind=kind, name=name, damage=(found,))


async def node_of(step: Protocol[Node], kind: str, name: str, path: str) -> Node:
    """The node that ``step`` gives, or one with the reason why ``path`` cannot be read."""
    found = await look(step, path)
    return damaged(kind, name, found) if isinstance(found, Violation) else found


async def look(step: Protocol[T], path: str) -> T | Violation:
    """`attempted`, and a store that does not answer is a reason too."""
    try:
        return await attempted(step, path)
    except (Throttled, OutcomeUnknown) as unanswered:
        return objection(unanswered.path, f"the store does not answer: {unanswered}")


def of_error(error: ArtifactError) -> Violation:
    """What the error says, as damage."""
    return objection(error.path, error.reason, error.clause, error.offset)


def limited(nodes: Sequence[T], limit: int) -> tuple[Sequence[T], int]:
    """The first ``limit`` of ``nodes``, and how many are left out."""
    return nodes[:limit], max(0, len(nodes) - limit)


def counted(kind: str, name: str, nodes: Iterable[Node], more: int = 0, fields: Fields = ()) -> Node:
    """A node for several of one kind."""
    shown = tuple(nodes)
    return Node(kind=kind, name=name, fields=(("count", len(shown) + more), *fields), children=shown, more=more)


def relative(node: Node, root: str) -> Node:
    """``node`` with the paths of damage relative to ``root``."""
    prefix = f"{root}/" if root else ""
    found = tuple(replace(one, path=one.path.removeprefix(prefix)) for one in node.damage)
    return replace(node, damage=found, children=tuple(relative(child, root) for child in node.children))


def as_json(node: Node) -> dict[str, object]:
    """``node`` with the keys of docs/inspect.md."""
    return {
        "kind": node.kind,
        "name": node.name,
        "fields": {key: _plain(value) for key, value in node.fields},
        "damage": [
            {"path": one.path, "reason": one.reason, "clause": one.clause, "offset": _offset(one)}
            for one in node.damage
        ],
        "children": [as_json(child) for child in node.children],
        "more": node.more,
    }


def _offset(found: Violation) -> str | None:
    return None if found.offset is None else str(found.offset)


def _plain(value: Value) -> object:
    if isinstance(value, U64):
        return str(int(value))
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return dict(value) if isinstance(value, Mapping) else value


_WIDE = (
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT64,
)


def summary(message: Message) -> Fields:
    """The set fields of ``message``: numbers and short texts as they are, of what is repeated or nested how much."""
    found: list[tuple[str, Value]] = []
    for field, value in message.ListFields():
        if field.is_repeated:
            found.append((field.name, f"{len(value)} entries"))
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            found.append((field.name, f"{value.ByteSize()} bytes"))
        elif field.type == FieldDescriptor.TYPE_BYTES:
            found.append((field.name, f"{len(value)} bytes"))
        elif field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            found.append((field.name, _enum(field, value)))
        elif field.cpp_type in _WIDE:
            found.append((field.name, U64(value)))
        else:
            found.append((field.name, short(value) if isinstance(value, str) else value))
    return tuple(found)


def _enum(field: FieldDescriptor, value: int) -> str:
    known = field.enum_type.values_by_number.get(value) if field.enum_type is not None else None
    return known.name if known is not None else str(value)


def short(text: str) -> str:
    """``text``, cut where it is long."""
    return text if len(text) <= TEXT_MOST else f"{text[:TEXT_MOST]}… ({len(text)} characters)"


def texts(values: Mapping[str, str] | Mapping[str, bytes]) -> dict[str, str]:
    """A map of the format as texts, in the order of its keys."""
    shown = {
        key: value.decode(errors="replace") if isinstance(value, bytes) else value for key, value in values.items()
    }
    return {key: short(shown[key]) for key in sorted(shown)}
