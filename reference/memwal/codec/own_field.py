"""A text field of the engine's own in a message of the texts, beside the fields that the message does not know.

The number comes from the range that the protobuf documents leave to private use. Engines that do not know the field
keep it or drop it; nothing may depend on its survival.
"""

from __future__ import annotations

from google.protobuf.unknown_fields import UnknownFieldSet

from ..errors import ArtifactError
from . import protobuf
from .pb.memwal_r import mem_wal_pb2

_VARINT, _FIXED64, _LENGTH_DELIMITED, _GROUP, _GROUP_END, _FIXED32 = range(6)


def encode(number: int, text: str) -> bytes:
    """The field, to be parsed with the message as one that it does not know; no bytes for no text."""
    return _field(number, _LENGTH_DELIMITED, text.encode()) if text else b""


def split(number: int, unknown: bytes, clause: str, path: str) -> tuple[str, bytes]:
    """Text of the field in ``unknown`` (the last one; empty if there is none), and ``unknown`` without it.

    ``unknown``: bytes of a message of index details, with fields that it knows and others. Raises `ArtifactError` for a
    field of another type.
    """
    message = mem_wal_pb2.MemWalIndexDetails()
    message.ParseFromString(unknown)
    fields = UnknownFieldSet(message)
    own = [fields[i] for i in range(len(fields)) if fields[i].field_number == number]
    if not own:
        return "", unknown
    if own[-1].wire_type != _LENGTH_DELIMITED:
        raise ArtifactError(clause, path, f"field {number} has wire type {own[-1].wire_type}")
    try:
        text = own[-1].data.decode()
    except UnicodeDecodeError as error:
        raise ArtifactError(clause, path, f"field {number} is not text: {error}") from error
    others = [fields[i] for i in range(len(fields)) if fields[i].field_number != number]
    rest = b"".join(_field(each.field_number, each.wire_type, each.data) for each in others)
    message.DiscardUnknownFields()
    return text, protobuf.serialise(message) + rest


def _field(number: int, wire_type: int, data: object) -> bytes:
    tag = _varint(number << 3 | wire_type)
    match data:
        case int():
            width = {_FIXED64: 8, _FIXED32: 4}.get(wire_type)
            return tag + (_varint(data) if width is None else data.to_bytes(width, "little"))
        case bytes():
            return tag + _varint(len(data)) + data
        case _:
            assert isinstance(data, UnknownFieldSet)
            inner = (data[i] for i in range(len(data)))
            body = b"".join(_field(each.field_number, each.wire_type, each.data) for each in inner)
            return tag + body + _varint(number << 3 | _GROUP_END)


def _varint(number: int) -> bytes:
    """Base 128, low group first."""
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*groups, number))
