"""What may be collected, and the manifest without it: by the texts alone, on bytes as they are stored.

A generation may go when every retained table version has merged it and every maintained index covers it there (MemWAL
revision A, sections "Garbage Collection" and "Index Catchup"). It leaves the manifest first, and then the store.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .table import JudgedTableManifest
from .wire import LENGTH, VARINT, WireMessage, fields

_VERSION, _GENERATIONS, _NUMBER = 1, 8, 1
"""Fields of a region manifest, and of an entry of its generations."""


def bound(retained: Sequence[JudgedTableManifest], region_id: str) -> int:
    """The last generation of a region that no retained table version needs any more; 0: none."""
    return min((_covered(version, region_id) for version in retained), default=0)


def _covered(version: JudgedTableManifest, region_id: str) -> int:
    """Merged, and in every index that lags behind the merge: one without an entry covers all that is merged."""
    found = [
        min(dict(details.merged).get(region_id, 0), *(dict(pairs).get(region_id, 0) for _, pairs in details.catchup))
        if details.catchup
        else dict(details.merged).get(region_id, 0)
        for details in version.memwal
    ]
    return min(found, default=0)


def without(data: bytes, generations: Collection[int], version: int) -> bytes:
    """A region manifest with another version and without some generations; every other field stays byte for byte.

    Raises `DamagedBytes`.
    """
    kept, stored = [_varint(_VERSION << 3 | VARINT) + _varint(version)], list(fields(data))
    ends = [field.offset for field in stored[1:]] + [len(data)]
    for field, end in zip(stored, ends, strict=True):
        if field.number == _VERSION:
            continue
        if field.number == _GENERATIONS and field.wire_type == LENGTH:
            assert isinstance(field.value, bytes)
            if WireMessage.of(field.value).uint(_NUMBER) in generations:
                continue
        kept.append(data[field.offset : end])
    return b"".join(kept)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
