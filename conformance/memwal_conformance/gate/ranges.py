"""Ranges of bytes."""

from __future__ import annotations

import re

from .replies import Refusal

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


def part_of(text: str, size: int) -> tuple[int, int] | None:
    """First byte and end (exclusive) of what the Range header ``text`` asks for, of an object of ``size`` bytes.

    None means all of it: for no header, for several ranges, and for what is no range, as S3 does it. Raises `Refusal`
    (416) if nothing of the object is in the range.
    """
    found = _RANGE.fullmatch(text) if text else None
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if first and last and int(last) < int(first):
        return None
    begin = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if begin >= end:
        raise Refusal("InvalidRange", "no byte of the object is in this range", Content_Range=f"bytes */{size}")
    return begin, end
