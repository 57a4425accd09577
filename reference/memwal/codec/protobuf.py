"""Protobuf messages <-> bytes, with typed errors and without losing unknown fields."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

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


def unknown(message: Message) -> bytes:
    """The fields of ``message`` itself that its definition does not know, serialised."""
    rest = type(message)()
    rest.CopyFrom(message)
    for field, _ in rest.ListFields():
        rest.ClearField(field.name)
    return serialise(rest)
