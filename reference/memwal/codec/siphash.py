"""SipHash-1-3 with key 0 over many byte strings at once: the hash of revision R's key bloom filter.

Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", with one compression and three finalisation rounds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .canonical import by_length

Hashes = npt.NDArray[np.uint64]

_WORD = (1 << 64) - 1
_FEW_ROWS = 8

_KEY_0 = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
"""Initial state for key 0: the ASCII text that the authors chose, as four big-endian words."""


def siphash13(rows: npt.NDArray[np.uint8]) -> Hashes:
    """Hash of each row of a C-contiguous byte matrix of shape (rows, length). Shape (rows,)."""
    count, length = rows.shape
    if count <= _FEW_ROWS:
        return np.array([_of_one(row.tobytes()) for row in rows], np.uint64)
    tail = length % 8
    words = rows[:, : length - tail].copy().view("<u8")
    last = np.zeros((count, 8), np.uint8)
    last[:, :tail] = rows[:, length - tail :]
    last[:, 7] = length & 0xFF
    v0, v1, v2, v3 = (np.full(count, word, np.uint64) for word in _KEY_0)
    spare = np.empty(count, np.uint64)
    for word in (*words.T, last.view("<u8")[:, 0]):
        v3 ^= word
        _round(v0, v1, v2, v3, spare)
        v0 ^= word
    v2 ^= np.uint64(0xFF)
    for _ in range(3):
        _round(v0, v1, v2, v3, spare)
    return v0 ^ v1 ^ v2 ^ v3


def _of_one(data: bytes) -> int:
    """The same of one byte string, without arrays: their making would take ten times as long."""
    length = len(data)
    padded = data + bytes(7 - length % 8) + bytes([length & 0xFF])
    v0, v1, v2, v3 = _KEY_0
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v0, v1, v2, v3 = _round_of_one(v0, v1, v2, v3 ^ word)
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = _round_of_one(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _round_of_one(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _WORD
    v1 = (v1 << 13 & _WORD | v1 >> 51) ^ v0
    v0 = v0 << 32 & _WORD | v0 >> 32
    v2 = (v2 + v3) & _WORD
    v3 = (v3 << 16 & _WORD | v3 >> 48) ^ v2
    v0 = (v0 + v3) & _WORD
    v3 = (v3 << 21 & _WORD | v3 >> 43) ^ v0
    v2 = (v2 + v1) & _WORD
    v1 = (v1 << 17 & _WORD | v1 >> 47) ^ v2
    v2 = v2 << 32 & _WORD | v2 >> 32
    return v0, v1, v2, v3


def siphash13_values(values: pa.LargeBinaryArray) -> Hashes:
    """Hash of each value of a binary array without NULLs; values of one length are hashed together. Shape (rows,)."""
    hashes = np.empty(len(values), np.uint64)
    for group in by_length(values):
        hashes[group.positions] = siphash13(group.data)
    return hashes


def _round(v0: Hashes, v1: Hashes, v2: Hashes, v3: Hashes, spare: Hashes) -> None:
    """In place: arrays of its results, made anew, would take as long again."""
    v0 += v1
    _rotate(v1, 13, spare)
    v1 ^= v0
    _rotate(v0, 32, spare)
    v2 += v3
    _rotate(v3, 16, spare)
    v3 ^= v2
    v0 += v3
    _rotate(v3, 21, spare)
    v3 ^= v0
    v2 += v1
    _rotate(v1, 17, spare)
    v1 ^= v2
    _rotate(v2, 32, spare)


def _rotate(words: Hashes, bits: int, spare: Hashes) -> None:
    np.left_shift(words, np.uint64(bits), out=spare)
    words >>= np.uint64(64 - bits)
    words |= spare
