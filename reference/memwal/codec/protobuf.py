"""Protobuf messages <-> bytes, with typed errors and without losing unknown fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from google.protobuf.empty_pb2 import Empty
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
        raise ArtifactError(clause, path, f"it cannot be read as {kind.__name__}: {error}") from error
    return message


def serialise(message: Message) -> bytes:
    """Bytes of ``message``; equal messages give equal bytes."""
    return message.SerializeToString(deterministic=True)


MapFields: TypeAlias = "Mapping[int, MapFields | None]"
"""Which fields of a message are maps: field number -> None; or hold messages with maps: field number -> these."""


def with_sorted_maps(data: bytes, maps: MapFields) -> bytes:
    """``data`` with the entries of its maps in the order that `serialise` gives them; all else stays, byte for byte.

    Of a message that another library wrote, `serialise` may make one of another length: here it keeps its own.
    """
    records = list(_records(data))
    for number, below in maps.items():
        places = [at for at, (found, _, _) in enumerate(records) if found == number]
        held = [records[at] for at in places]
        if below is None:
            held.sort(key=lambda record: _map_key(record[1]) + b"\xff")  # a key before what it begins with
        else:
            inner = [(payload, raw, with_sorted_maps(payload, below)) for _, payload, raw in held]
            held = [(number, now, raw[: len(raw) - len(payload)] + now) for payload, raw, now in inner]
        for at, record in zip(places, held, strict=True):
            records[at] = record
    return b"".join(raw for _, _, raw in records)


def _map_key(entry: bytes) -> bytes:
    return next((content for number, content, _ in _records(entry) if number == 1), b"")


def _records(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The fields of a message: number, content if it has a length (else empty), and the bytes with tag and length."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        content = at
        match tag & 7:
            case 0:
                _, at = _varint(data, at)
                content = at
            case 2:
                size, content = _varint(data, at)
                at = content + size
            case kind:
                at = content = at + {1: 8, 5: 4}[kind]
        yield tag >> 3, data[content:at], data[start:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return number, at


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


def fields(data: object) -> dict[int, list[Any]]:
    """The fields of a message of unknown type, by number: integers, and bytes for what has a length.

    Raises `google.protobuf.message.DecodeError` for what is no message: other bytes, or a number in its place.
    """
    if not isinstance(data, bytes):
        raise DecodeError(f"{data!r} is no message")
    message = Empty()
    message.ParseFromString(data)
    held, found = UnknownFieldSet(message), dict[int, list[Any]]()
    for at in range(len(held)):
        found.setdefault(held[at].field_number, []).append(held[at].data)
    return found


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
