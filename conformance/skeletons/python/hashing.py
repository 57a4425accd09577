"""Murmur3 (32 bits, x86), and the variant of revision R."""

from __future__ import annotations

import base64
import struct
from typing import Any

Cell = dict[str, Any]
_MASK = 0xFFFFFFFF


class NoHash(Exception):
    """A type without a hash."""


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (32 - by)) & _MASK


def _mixed(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _step(h: int, word: int) -> int:
    return (_rotated(h ^ _mixed(word), 13) * 5 + 0xE6546B64) & _MASK


def _finished(h: int, length: int) -> int:
    h ^= length
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _split(data: bytes) -> tuple[list[int], bytes]:
    whole = len(data) - len(data) % 4
    return [word for (word,) in struct.iter_unpack("<I", data[:whole])], data[whole:]


def murmur3(data: bytes, seed: int = 0) -> int:
    """The textbook function; a signed 32-bit number."""
    words, rest = _split(data)
    h = seed & _MASK
    for word in words:
        h = _step(h, word)
    return _finished(h ^ _mixed(int.from_bytes(rest, "little")), len(data))


def variant(data: bytes) -> int:
    """Revision R's function for text: each byte behind the last whole word is a sign-extended word of its own."""
    words, rest = _split(data)
    h = 0
    for word in [*words, *((byte - 256 if byte > 127 else byte) & _MASK for byte in rest)]:
        h = _step(h, word)
    return _finished(h, len(data))


def _bytes_of(cell: Cell, revision: str) -> bytes:
    """The bytes that stand for a cell. Revisions A and B widen numbers to eight bytes; R keeps their width."""
    kind, value = cell["t"], cell["v"]
    wide = revision != "R"
    if kind == "utf8":
        return str(value).encode()
    if kind == "binary":
        return base64.b64decode(value)
    if kind == "float32":
        narrow = struct.pack("<f", float(value) + 0.0)
        return struct.pack("<d", *struct.unpack("<f", narrow)) if wide else narrow
    if kind == "float64":
        return struct.pack("<d", float(value) + 0.0)
    if kind in ("int64", "uint64", "timestamp_us"):
        return (int(value) & (1 << 64) - 1).to_bytes(8, "little")
    if kind in ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "date32"):
        size = 8 if wide else 4
        return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")
    raise NoHash(f"there is no hash of {kind}")


def hash_of(cell: Cell, revision: str, seed: int = 0) -> int | None:
    """The hash of one cell; None for NULL."""
    if cell["v"] is None:
        return None
    data = _bytes_of(cell, revision)
    return variant(data) if revision == "R" and cell["t"] == "utf8" else murmur3(data, seed)


def hash_of_all(cells: list[Cell], revision: str) -> int | None:
    """The hash of several cells: each is the seed of the next, NULL is passed over."""
    found: int | None = None
    for cell in cells:
        one = hash_of(cell, revision, found or 0)
        found = found if one is None else one
    return found
