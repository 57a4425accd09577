"""Bloom filters. Revision R: SipHash-1-3 and split blocks, written out here; A and B leave the format open (AMB-47)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

from .case import Case, questions
from .hashes import cell

BLOCKS = 1024
SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
WORD = 2**64 - 1

PRESENT = [1, 2, 3, 77, -5, 2**63 - 1, -(2**63)]
ABSENT = [0, 4, 78, 1000, -6, 2**53]


def _left(x: int, by: int) -> int:
    return ((x << by) | (x >> (64 - by))) & WORD


def siphash13(data: bytes) -> int:
    """SipHash with one round per word and three at the end, under the key 0."""
    v = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]

    def one_round() -> None:
        v[0] = (v[0] + v[1]) & WORD
        v[1] = _left(v[1], 13) ^ v[0]
        v[0] = _left(v[0], 32)
        v[2] = (v[2] + v[3]) & WORD
        v[3] = _left(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & WORD
        v[3] = _left(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & WORD
        v[1] = _left(v[1], 17) ^ v[2]
        v[2] = _left(v[2], 32)

    whole = len(data) - len(data) % 8
    words = [word for (word,) in struct.iter_unpack("<Q", data[:whole])]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        one_round()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        one_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def bits(key: int) -> list[tuple[int, int]]:
    """Word and bit of each of the eight bits of an int64 key."""
    h = siphash13(b"\0" + struct.pack("<q", key))
    block = ((h >> 32) * BLOCKS) >> 32
    return [(block * 8 + i, ((h & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27) for i, salt in enumerate(SALTS)]


def split_block(keys: Sequence[int]) -> bytes:
    """The filter of int64 keys."""
    words = [0] * (BLOCKS * 8)
    for key in keys:
        for word, bit in bits(key):
            words[word] |= 1 << bit
    return struct.pack(f"<{len(words)}I", *words)


def _keys(values: Sequence[int]) -> dict[str, Any]:
    column = {"name": "id", "type": "int64", "nullable": False}
    return {"columns": [column], "rows": [[cell("int64", value)] for value in values]}


def _case(revision: str, name: str, title: str, **more: Any) -> Case:
    return Case(revision=revision, folder="bloom", name=name, title=title, kind="bloom", **more)


def cases() -> list[Case]:
    """Cases of all revisions."""
    made = []
    for revision in ("A", "B", "R"):
        made.append(
            _case(
                revision,
                "own_filter_knows_its_keys",
                "A filter never denies a key that it was built from, and denies some others.",
                directions=("encode",),
                clauses=("GEN-010",),
                derived="What a filter is: no false negatives.",
                files=questions([{"keys": _keys(PRESENT)}]),
                expected={"present": _keys(PRESENT), "others": _keys(list(range(10_000, 10_064)))},
            )
        )
        if revision != "R":
            made.append(
                _case(
                    revision,
                    "filter_of_another_engine",
                    "A filter of a format that the reader does not know denies no key.",
                    directions=("eval",),
                    clauses=("GEN-010",),
                    ambiguity="AMB-47",
                    outcomes=({"compare": "answered"}, {"expected": {"error": ["corrupt", "invalid_argument"]}}),
                    derived="The text names no format, so nothing may be concluded from these bytes.",
                    files=questions(
                        [{"data": base64.b64encode(split_block(PRESENT)).decode(), "keys": _keys([*PRESENT, *ABSENT])}]
                    ),
                    expected=[{"perhaps": [True] * (len(PRESENT) + len(ABSENT))}],
                )
            )
    data = base64.b64encode(split_block(PRESENT)).decode()
    made.append(
        _case(
            "R",
            "split_block",
            "A split-block filter of revision R is read bit by bit.",
            directions=("eval",),
            clauses=("GEN-010",),
            derived="SipHash-1-3 and the salts of Parquet, written out in the script.",
            files=questions([{"data": data, "keys": _keys(PRESENT)}, {"data": data, "keys": _keys(ABSENT)}]),
            expected=[{"perhaps": [True] * len(PRESENT)}, {"perhaps": [False] * len(ABSENT)}],
        )
    )
    wrong = [key for key in ABSENT if all(split_block(PRESENT)[w * 4 + b // 8] >> b % 8 & 1 for w, b in bits(key))]
    if wrong:
        raise SystemExit(f"{wrong} are false positives: choose other keys")
    return made
