"""Protobuf wire format: fields by number."""

from __future__ import annotations

import struct

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


class Corrupt(Exception):
    """Bytes that are not what they should be."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of at most 64 bits, and the place behind it."""
    value = 0
    for index in range(10):
        if at + index >= len(data):
            raise Corrupt(f"a varint is cut at byte {at}")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 1 << 64:
                raise Corrupt(f"a varint has more than 64 bits at byte {at}")
            return value, at + index + 1
    raise Corrupt(f"a varint is longer than 10 bytes at byte {at}")


class Message:
    """A decoded message: what is asked for is checked, unknown fields are passed over."""

    def __init__(self, data: bytes) -> None:
        self.fields: list[tuple[int, int, int | bytes]] = []
        at = 0
        while at < len(data):
            start = at
            key, at = varint(data, at)
            number, kind = key >> 3, key & 7
            if number == 0 or kind not in (VARINT, FIXED64, LENGTH, FIXED32):
                raise Corrupt(f"field number {number} of wire type {kind} at byte {start}")
            if kind == VARINT:
                value, at = varint(data, at)
                self.fields.append((number, kind, value))
                continue
            size = {FIXED64: 8, FIXED32: 4}.get(kind)
            if size is None:
                size, at = varint(data, at)
            if at + size > len(data):
                raise Corrupt(f"field {number} is cut at byte {start}")
            self.fields.append((number, kind, data[at : at + size]))
            at += size

    def _all(self, number: int, kind: int) -> list[int | bytes]:
        found = [(k, value) for n, k, value in self.fields if n == number]
        if any(k != kind for k, _ in found):
            raise Corrupt(f"field {number} has another wire type than {kind}")
        return [value for _, value in found]

    def has(self, number: int) -> bool:
        return any(n == number for n, _, _ in self.fields)

    def uint(self, number: int, bits: int = 64) -> int:
        found = self._all(number, VARINT)
        value = found[-1] if found else 0
        assert isinstance(value, int)
        if value >> bits:
            raise Corrupt(f"field {number} does not fit {bits} bits")
        return value

    def int(self, number: int) -> int:
        return signed(self.uint(number))

    def blobs(self, number: int) -> list[bytes]:
        return [value for value in self._all(number, LENGTH) if isinstance(value, bytes)]

    def blob(self, number: int) -> bytes | None:
        found = self.blobs(number)
        return found[-1] if found else None

    def text(self, number: int) -> str:
        return decoded(self.blob(number) or b"")

    def texts(self, number: int) -> list[str]:
        return [decoded(blob) for blob in self.blobs(number)]

    def messages(self, number: int) -> list[Message]:
        return [Message(blob) for blob in self.blobs(number)]

    def message(self, number: int) -> Message | None:
        blob = self.blob(number)
        return None if blob is None else Message(blob)

    def ints(self, number: int) -> list[int]:
        """A repeated signed field, packed or not."""
        found = []
        for n, _, value in self.fields:
            if n != number:
                continue
            if not isinstance(value, bytes):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                one, at = varint(value, at)
                found.append(one)
        return [signed(one) for one in found]

    def map(self, number: int) -> dict[str, str]:
        return {entry.text(1): entry.text(2) for entry in self.messages(number)}


def signed(value: int) -> int:
    """A 64-bit number in two's complement."""
    return value - (1 << 64) if value >> 63 else value


def decoded(blob: bytes) -> str:
    """Bytes as UTF-8."""
    try:
        return blob.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Corrupt("a string is not UTF-8") from error


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


class Builder:
    """Builds a message; zero and empty values are left out, as proto3 does, except by ``optional`` and ``blob``."""

    def __init__(self) -> None:
        self.data = b""

    def optional(self, number: int, value: int) -> Builder:
        self.data += _varint(number << 3 | VARINT) + _varint(value)
        return self

    def uint(self, number: int, value: int) -> Builder:
        return self.optional(number, value) if value else self

    def blob(self, number: int, value: bytes) -> Builder:
        self.data += _varint(number << 3 | LENGTH) + _varint(len(value)) + value
        return self

    def text(self, number: int, value: str) -> Builder:
        return self.blob(number, value.encode()) if value else self


def block(data: bytes, at: int) -> Message:
    """A message behind its length in four bytes, as table manifests hold them."""
    if at < 0 or at + 4 > len(data):
        raise Corrupt(f"a block begins outside of the file at byte {at}")
    (size,) = struct.unpack_from("<I", data, at)
    if at + 4 + size > len(data):
        raise Corrupt(f"a block ends outside of the file at byte {at}")
    return Message(data[at + 4 : at + 4 + size])
