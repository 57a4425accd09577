"""Hashes: the textbook function from mmh3; the variant of revision R written out, and held against pylance's buckets.

Which bytes stand for a number is open in the text (AMB-59), so cases about numbers only record another answer; what
the text fixes (text and bytes as they are, NULL, equal numbers of different width) must hold.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

import mmh3

from .case import Case, questions

CellList = list[dict[str, Any]]

TEXTS = ["", "a", "b", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh", "Zürich", "東京", "123"]
"""Every length modulo 4, and text whose UTF-8 bytes are above 0x7f in the tail."""
BYTES = [b"", b"\x00", b"\xff", b"\x80\x7f", b"\x01\x02\x03", b"\xff\xfe\xfd\xfc", b"\x00" * 5, bytes(range(250, 256))]
NUMBERS = [0, 1, 2, 3, 123, -1, -5, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
CHOSEN = "the texts ask for standard Murmur3 that a promoted column keeps; R hashes otherwise (AMB-59, hashed bytes)"
LEAST = [2841062569, -4026370631]
"""Two numbers whose eight bytes hash to -2^31."""
OTHER_NUMBERS: list[tuple[str, Any, bytes]] = [
    ("bool", False, bytes(8)),
    ("bool", True, bytes.fromhex("0100000000000000")),
    ("date32", -1, bytes.fromhex("ffffffffffffffff")),
    ("timestamp_us", 2**40, bytes.fromhex("0000000000010000")),
    ("uint64", 2**64 - 1, bytes.fromhex("ffffffffffffffff")),
    ("float32", "1.5", bytes.fromhex("000000000000f83f")),
    ("float64", "-1.5", bytes.fromhex("000000000000f8bf")),
    ("float32", "0.1", bytes.fromhex("000000a09999b93f")),
    ("float64", "0.1", bytes.fromhex("9a9999999999b93f")),
    ("float32", "-0.0", bytes(8)),
    ("float64", "-0.0", bytes(8)),
    ("float32", "NaN", bytes.fromhex("000000000000f87f")),
    ("float64", "NaN", bytes.fromhex("000000000000f87f")),
    ("float64", "-Infinity", bytes.fromhex("000000000000f0ff")),
]
"""Type, value and the eight little-endian bytes. A library's own NaN may have other bits: Go's ends in a 1."""


def cell(kind: str, value: object) -> dict[str, Any]:
    """A tagged cell."""
    if isinstance(value, bytes):
        return {"t": kind, "v": base64.b64encode(value).decode()}
    return {"t": kind, "v": value if value is None or isinstance(value, str | bool) else str(value)}


def textbook(data: bytes, seed: int = 0) -> int:
    """Murmur3, 32 bits, x86, as a signed number."""
    return mmh3.hash(data, seed=seed, signed=True)


def _rotated(x: int, by: int) -> int:
    return ((x << by) | (x >> (32 - by))) & 0xFFFFFFFF


def variant(data: bytes) -> int:
    """Revision R's hash of text: each byte behind the last whole word is mixed as one sign-extended word of its own."""
    h = 0
    whole = len(data) - len(data) % 4
    words = [word for (word,) in struct.iter_unpack("<I", data[:whole])]
    words += [(byte - 256 if byte > 127 else byte) & 0xFFFFFFFF for byte in data[whole:]]
    for word in words:
        k = _rotated(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        h = (_rotated(h ^ k, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - 2**32 if h >> 31 else h


def r_bytes(kind: str, value: Any) -> bytes:
    """The bytes that stand for a number in revision R."""
    formats = {
        "int8": "<i",
        "int16": "<i",
        "int32": "<i",
        "int64": "<q",
        "uint64": "<Q",
        "float32": "<f",
        "float64": "<d",
    }
    if kind == "bool":
        return struct.pack("<i", int(value))
    return struct.pack(formats[kind], value + 0.0 if kind.startswith("float") else value)


def r_hash(kind: str, value: Any) -> int:
    """Revision R's hash of a value."""
    return variant(value.encode()) if kind == "utf8" else textbook(r_bytes(kind, value))


R_VALUES: list[tuple[str, Any]] = [
    *(("int32", v) for v in (0, 1, 2, 3, -1, 123, -2089875627)),
    *(("int64", v) for v in (1, -1, 123, *LEAST)),
    *(("utf8", v) for v in TEXTS),
    ("bool", True),
    ("bool", False),
    ("float32", 1.25),
    ("float64", 1.25),
    ("float64", -1.5),
]


def _case(revision: str, name: str, title: str, asked: CellList, expected: list[Any], **more: Any) -> Case:
    wrapped = [{"hash": h} for h in expected]
    return Case(
        revision=revision,
        folder="hash",
        name=name,
        title=title,
        kind="hash",
        directions=("eval",),
        files=questions(asked),
        expected=wrapped,
        **more,
    )


def _one(value: dict[str, Any]) -> dict[str, Any]:
    return {"function": "murmur3", "values": [value]}


def _many(*values: dict[str, Any]) -> dict[str, Any]:
    return {"function": "murmur3_multi", "values": list(values)}


def _textbook_cases(revision: str) -> list[Case]:
    wide = [struct.pack("<q", n) for n in (*NUMBERS, *LEAST)]
    a, none = cell("utf8", "abc"), cell("utf8", None)
    pairs = [("ab", "c"), ("a", "bc"), ("", ""), ("Zürich", "x")]
    return [
        _case(
            revision,
            "text",
            "The hash of text is Murmur3 of its UTF-8 bytes with seed 0, at every length modulo 4.",
            [_one(cell("utf8", t)) for t in TEXTS],
            [textbook(t.encode()) for t in TEXTS],
            clauses=("REGION-035",),
            derived="mmh3 over the UTF-8 bytes, seed 0, signed.",
        ),
        _case(
            revision,
            "bytes",
            "The hash of bytes is Murmur3 of these bytes with seed 0, at every length modulo 4.",
            [_one(cell("binary", b)) for b in BYTES],
            [textbook(b) for b in BYTES],
            clauses=("REGION-035",),
            derived="mmh3 over the bytes, seed 0, signed.",
        ),
        _case(
            revision,
            "numbers",
            "The hash of a whole number is Murmur3 of its eight little-endian bytes; two of them hash to -2^31.",
            [_one(cell("int64", n)) for n in (*NUMBERS, *LEAST)],
            [textbook(b) for b in wide],
            clauses=("REGION-035",),
            ambiguity="AMB-59",
            outcomes=({"compare": "nulls"},),
            derived="mmh3 over the eight little-endian bytes of the number in two's complement.",
        ),
        _case(
            revision,
            "other_numbers",
            "Flags, dates and times hash as eight-byte whole numbers, floats as binary64 with one zero and one NaN.",
            [_one(cell(kind, value)) for kind, value, _ in OTHER_NUMBERS],
            [textbook(data) for _, _, data in OTHER_NUMBERS],
            clauses=("REGION-035",),
            ambiguity="AMB-59",
            outcomes=({"compare": "nulls"},),
            derived="mmh3 over the eight bytes, which are written out in `blessing/hashes.py`.",
        ),
        _case(
            revision,
            "promotion",
            "Equal whole numbers have the same hash whatever their type.",
            [
                _one(cell(kind, 5))
                for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
            ],
            [textbook(struct.pack("<q", 5))],
            compare="all_equal",
            clauses=("REGION-021",),
            derived="The text demands equality; the number itself is not compared.",
        ),
        _case(
            revision,
            "null",
            "The hash of NULL is NULL; of several columns it is NULL only if all are.",
            [_one(cell("int64", None)), _one(none), _many(none, cell("int64", None))],
            [None, None, None],
            clauses=("REGION-036", "REGION-037"),
            derived="As the text says.",
        ),
        _case(
            revision,
            "null_columns_do_not_count",
            "NULL columns do not change the hash of several columns.",
            [_many(a, none), _many(none, a), _many(none, a, none), _many(a)],
            [textbook(b"abc")],
            compare="all_equal",
            clauses=("REGION-037",),
            derived="The text demands equality; the number itself is not compared.",
        ),
        _case(
            revision,
            "several_columns",
            "The hash of several columns chains: the hash of one is the seed of the next.",
            [_many(cell("utf8", x), cell("utf8", y)) for x, y in pairs],
            [textbook(y.encode(), seed=textbook(x.encode()) & 0xFFFFFFFF) for x, y in pairs],
            clauses=("REGION-032",),
            ambiguity="AMB-60",
            outcomes=({"compare": "nulls"},),
            derived="mmh3, each hash being the seed of the next.",
        ),
    ]


def cases() -> list[Case]:
    """Cases of all revisions."""
    made = [case for revision in ("A", "B") for case in _textbook_cases(revision)]
    made.append(
        _case(
            "R",
            "values",
            "Revision R hashes numbers in their own width and text with one mixing step per trailing byte.",
            [_one(cell(kind, v)) for kind, v in R_VALUES],
            [r_hash(kind, v) for kind, v in R_VALUES],
            clauses=("REGION-035",),
            chosen=CHOSEN,
            derived="Numbers: mmh3 over their own bytes. Text: the variant written out, held against pylance.",
        )
    )
    made.append(
        _case(
            "R",
            "null",
            "The hash of NULL is NULL.",
            [_one(cell("int64", None)), _one(cell("utf8", None))],
            [None, None],
            clauses=("REGION-036",),
            derived="As the text says.",
        )
    )
    return made
