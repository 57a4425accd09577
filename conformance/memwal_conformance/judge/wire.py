"""Protobuf wire format, read without generated code: field numbers, wire types and raw values."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


class DamagedBytes(Exception):
    """Bytes that are not what they should be; ``offset`` counts from the start of the object where it is known.

    ``clauses``: by revision the clause that they break, where it is another than that an object of its kind decodes.
    """

    def __init__(
        self, reason: str, offset: int | None = None, clauses: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(reason if offset is None else f"{reason} at byte {offset}")
        self.reason, self.offset, self.clauses = reason, offset, clauses


@dataclass(frozen=True, slots=True)
class WireField:
    """One field as stored: ``value`` is an int for the wire types 0, 1 and 5, bytes for 2."""

    number: int
    wire_type: int
    value: int | bytes
    offset: int


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 64 bits and the place behind it. Raises `DamagedBytes`."""
    value = 0
    for index in range(10):
        if at + index >= len(data):
            raise DamagedBytes("a varint is cut", at)
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 1 << 64:
                raise DamagedBytes("a varint has more than 64 bits", at)
            return value, at + index + 1
    raise DamagedBytes("a varint is longer than 10 bytes", at)


def fields(data: bytes) -> Iterator[WireField]:
    """All fields in stored order. Raises `DamagedBytes` for a cut field, number 0, or a wire type that is none."""
    at = 0
    while at < len(data):
        start = at
        key, at = varint(data, at)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise DamagedBytes("field number 0", start)
        value: int | bytes
        if wire_type == VARINT:
            value, at = varint(data, at)
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
            if at + size > len(data):
                raise DamagedBytes(f"field {number} is cut", start)
            value = int.from_bytes(data[at : at + size], "little")
            at += size
        elif wire_type == LENGTH:
            size, at = varint(data, at)
            if at + size > len(data):
                raise DamagedBytes(f"field {number} is cut", start)
            value = data[at : at + size]
            at += size
        else:
            raise DamagedBytes(f"wire type {wire_type}", start)
        yield WireField(number, wire_type, value, start)


@dataclass(frozen=True, slots=True)
class WireMessage:
    """The fields of one message; the last value of a singular field counts."""

    fields: tuple[WireField, ...]

    @staticmethod
    def of(data: bytes) -> WireMessage:
        """Raises `DamagedBytes`."""
        return WireMessage(tuple(fields(data)))

    def _of(self, number: int, wire_type: int) -> list[WireField]:
        found = [f for f in self.fields if f.number == number]
        for field in found:
            if field.wire_type != wire_type:
                raise DamagedBytes(
                    f"field {number} has wire type {field.wire_type}, expected {wire_type}", field.offset
                )
        return found

    def uint(self, number: int, bits: int = 64) -> int:
        """An unsigned field, 0 if absent. Raises `DamagedBytes` for another wire type or more than ``bits`` bits."""
        found = self._of(number, VARINT)
        value = found[-1].value if found else 0
        assert isinstance(value, int)
        if value >= 1 << bits:
            raise DamagedBytes(f"field {number} does not fit {bits} bits", found[-1].offset)
        return value

    def sint(self, number: int) -> int:
        """An int64 field in two's complement, 0 if absent."""
        value = self.uint(number)
        return value - (1 << 64) if value >> 63 else value

    def optional_uint(self, number: int) -> int | None:
        """An unsigned field, None if absent."""
        return self.uint(number) if any(f.number == number for f in self.fields) else None

    def blobs(self, number: int) -> list[bytes]:
        """All values of a length-delimited field, in order."""
        return [f.value for f in self._of(number, LENGTH) if isinstance(f.value, bytes)]

    def blob(self, number: int) -> bytes | None:
        """The last value of a length-delimited field, None if absent."""
        found = self.blobs(number)
        return found[-1] if found else None

    def text(self, number: int) -> str:
        """A string field, empty if absent."""
        return decoded(self.blob(number) or b"")

    def texts(self, number: int) -> list[str]:
        """A repeated string field."""
        return [decoded(blob) for blob in self.blobs(number)]

    def messages(self, number: int) -> list[WireMessage]:
        """A repeated message field."""
        return [WireMessage.of(blob) for blob in self.blobs(number)]

    def message(self, number: int) -> WireMessage | None:
        """A singular message field, None if absent."""
        found = self.messages(number)
        return found[-1] if found else None

    def packed_sints(self, number: int) -> list[int]:
        """A repeated signed integer field, packed or not."""
        values = []
        for field in self.fields:
            if field.number != number:
                continue
            if isinstance(field.value, int):
                values.append(field.value)
                continue
            at = 0
            while at < len(field.value):
                value, at = varint(field.value, at)
                values.append(value)
        return [v - (1 << 64) if v >> 63 else v for v in values]

    def text_map(self, number: int) -> dict[str, str]:
        """A map<string, string> field."""
        return {entry.text(1): entry.text(2) for entry in self.messages(number)}


def decoded(blob: bytes) -> str:
    """Bytes as UTF-8. Raises `DamagedBytes`."""
    try:
        return blob.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedBytes("a string is not UTF-8") from error


def little_endian(data: bytes, at: int, size: int) -> int:
    """An unsigned little-endian number of ``size`` bytes. Raises `DamagedBytes` if it lies outside ``data``."""
    if at < 0 or at + size > len(data):
        raise DamagedBytes(f"{size} bytes are expected beyond the end", at)
    return int(struct.unpack_from({2: "<H", 4: "<I", 8: "<Q"}[size], data, at)[0])


def uint_field(number: int, value: int) -> bytes:
    """A varint field as stored, also where its value is 0."""
    return _varint_bytes(number << 3 | VARINT) + _varint_bytes(value)


def blob_field(number: int, data: bytes) -> bytes:
    """A length-delimited field as stored."""
    return _varint_bytes(number << 3 | LENGTH) + _varint_bytes(len(data)) + data


def replaced(data: bytes, changes: Mapping[int, Iterable[bytes]]) -> bytes:
    """A message whose fields of these numbers are others, as stored; what is left stays byte for byte.

    Raises `DamagedBytes`.
    """
    stored = list(fields(data))
    ends = [field.offset for field in stored[1:]] + [len(data)]
    kept = [data[f.offset : end] for f, end in zip(stored, ends, strict=False) if f.number not in changes]
    return b"".join([*kept, *(field for new in changes.values() for field in new)])


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
