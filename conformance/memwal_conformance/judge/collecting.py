"""What may be collected, and the manifest without it: by the texts alone, on bytes as they are stored.

A generation may go when every retained table version has merged it and every maintained index covers it there (MemWAL
revision A, sections "Garbage Collection" and "Index Catchup"). It leaves the manifest first, and then the store.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .table import JudgedTableManifest
from .wire import WireMessage, blob_field, replaced, uint_field

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
    kept = [blob for blob in WireMessage.of(data).blobs(_GENERATIONS) if _number(blob) not in generations]
    entries = [blob_field(_GENERATIONS, blob) for blob in kept]
    return replaced(data, {_VERSION: [uint_field(_VERSION, version)], _GENERATIONS: entries})


def _number(generation: bytes) -> int:
    return WireMessage.of(generation).uint(_NUMBER)
