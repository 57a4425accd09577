"""Protobuf bytes made by hand, from the wire format's own rules: the other side of the codec's tests."""

from __future__ import annotations

from collections.abc import Iterator


def varint(number: int) -> bytes:
    """Base 128, low group first; negative numbers as their 64-bit two's complement."""
    number %= 1 << 64
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def num(field: int, number: int) -> bytes:
    """A varint field."""
    return varint(field << 3) + varint(number)


def blob(field: int, *parts: bytes) -> bytes:
    """A length-delimited field: text, bytes or a message of ``parts``."""
    data = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(data)) + data


def fixed(field: int, data: bytes) -> bytes:
    """A field of 8 bytes, a wire type that no message of the texts has."""
    assert len(data) == 8
    return varint(field << 3 | 1) + data


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[start]
        number, shift, start = number | (byte & 0x7F) << shift, shift + 7, start + 1
        if byte < 0x80:
            return number, start


def fields(data: bytes) -> Iterator[tuple[int, int]]:
    """Number and end of each field of a message with varint, 8-byte and length-delimited fields, in order."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 == 0:
            _, at = _read_varint(data, at)
        elif tag & 7 == 1:
            at += 8
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            length, at = _read_varint(data, at)
            at += length
        yield tag >> 3, at
