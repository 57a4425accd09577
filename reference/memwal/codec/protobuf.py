"""Protobuf messages <-> bytes, with typed errors and without losing unknown fields."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ..errors import ArtifactError

M = TypeVar("M", bound=Message)


def parse(kind: type[M], data: bytes, *, clause: str, path: str) -> M:
    """Parse ``data`` as a message of ``kind``; raises `ArtifactError` naming ``clause`` for bytes that are not one."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ArtifactError(clause, path, f"not a {kind.__name__} message: {error}") from error
    return message


def serialise(message: Message) -> bytes:
    """Bytes of ``message``; equal messages give equal bytes."""
    return message.SerializeToString(deterministic=True)


def unknown(message: Message, foreign: frozenset[str] = frozenset()) -> bytes:
    """The fields of ``message`` itself that its definition does not know, and those named in ``foreign``, serialised.

    Parsing the result gives a message with just these fields, so that a rewrite can start from them.
    """
    rest = type(message)()
    rest.CopyFrom(message)
    for field, _ in rest.ListFields():
        if field.name not in foreign:
            rest.ClearField(field.name)
    return serialise(rest)


def wire_types_unknown(message: Message) -> dict[int, int]:
    """Wire type by number of the fields of ``message`` itself that its definition does not know (the last of each)."""
    found = UnknownFieldSet(message)
    return {found[i].field_number: found[i].wire_type for i in range(len(found))}


def refuse_other_types(message: Message, *, clause: str, path: str) -> None:
    """Raise `ArtifactError` if a field that the definition of ``message`` knows came with another wire type.

    Parsers set such a field aside as unknown, and the known one then reads as 0 or empty.
    """
    known = message.DESCRIPTOR.fields_by_number
    for number, wire_type in wire_types_unknown(message).items():
        if number in known:
            reason = f"field {number} ({known[number].name}) of {message.DESCRIPTOR.name} has wire type {wire_type}"
            raise ArtifactError(clause, path, reason)
