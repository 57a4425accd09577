"""The kinds of number and name that cross function boundaries. No bare integer does."""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import NewType

RegionId = NewType("RegionId", str)
"""UUID version 4 in lower-case hyphenated form; called shard id in revision R."""

Epoch = NewType("Epoch", int)
"""Fencing token of a region's writer: the number of the claim under which it writes."""

WalPosition = NewType("WalPosition", int)
"""Number of a WAL entry in its region: WAL id in revision A, entry position in B and R."""

Generation = NewType("Generation", int)
"""Number of a MemTable and of the table flushed from it, dense per region, from 1."""

ManifestVersion = NewType("ManifestVersion", int)
"""Version of a region manifest, dense, from 1."""

TableVersion = NewType("TableVersion", int)
"""Version of a Lance table, dense, from 1."""

SpecId = NewType("SpecId", int)
"""Number of a region spec; 0 means a manual region."""

FieldId = NewType("FieldId", int)
"""Id of a schema field in the Lance table manifest."""

FragmentId = NewType("FragmentId", int)
"""Id of a fragment of a Lance table."""

Milliseconds = NewType("Milliseconds", int)
"""A duration, or a point in time since the Unix epoch."""

UINT64_MAX = 2**64 - 1


@lru_cache(maxsize=1 << 12)
def region_id(text: str) -> RegionId:
    """Parse the text form of a region id; raises ValueError unless it is a lower-case hyphenated UUID."""
    if str(uuid.UUID(text)) != text:
        raise ValueError(f"not a lower-case hyphenated UUID: {text!r}")
    return RegionId(text)


def region_id_from_random(hex_digits: str) -> RegionId:
    """A version 4 UUID from 32 random hexadecimal digits."""
    return RegionId(str(uuid.UUID(hex=hex_digits, version=4)))


def region_id_from_bytes(data: bytes) -> RegionId:
    """From the 16 bytes in network order (RFC 9562); raises ValueError for any other length."""
    return RegionId(str(uuid.UUID(bytes=data)))


def region_id_to_bytes(region: RegionId) -> bytes:
    """The 16 bytes in network order."""
    return uuid.UUID(region).bytes
