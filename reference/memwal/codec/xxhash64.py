"""XXH64 with seed 0 of a few bytes, by which bloom filter indexes know values.

Source: the XXH64 part of the xxHash specification.
"""

from __future__ import annotations

import struct

_ALL = (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE = struct.Struct("<4Q")
_EIGHT = struct.Struct("<Q")
_FOUR = struct.Struct("<I")


def xxhash64(data: bytes) -> int:
    """The hash of ``data``, an unsigned number of 64 bits."""
    at = 0
    if len(data) >= _STRIPE.size:
        lanes = [(_P1 + _P2) & _ALL, _P2, 0, -_P1 & _ALL]
        while at + _STRIPE.size <= len(data):
            lanes = [_round(lane, word) for lane, word in zip(lanes, _STRIPE.unpack_from(data, at), strict=True)]
            at += _STRIPE.size
        found = sum(_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _ALL
    else:
        found = _P5
    found = (found + len(data)) & _ALL
    while at + _EIGHT.size <= len(data):
        found = (_turned(found ^ _round(0, *_EIGHT.unpack_from(data, at)), 27) * _P1 + _P4) & _ALL
        at += _EIGHT.size
    if at + _FOUR.size <= len(data):
        found = (_turned(found ^ (_FOUR.unpack_from(data, at)[0] * _P1 & _ALL), 23) * _P2 + _P3) & _ALL
        at += _FOUR.size
    for byte in data[at:]:
        found = _turned(found ^ (byte * _P5 & _ALL), 11) * _P1 & _ALL
    for shift, factor in ((33, _P2), (29, _P3)):
        found = (found ^ (found >> shift)) * factor & _ALL
    return found ^ (found >> 32)


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * _P2) & _ALL, 31) * _P1 & _ALL


def _turned(number: int, by: int) -> int:
    return ((number << by) | (number >> (64 - by))) & _ALL
