"""Sets of fragment ids as 32-bit Roaring bitmaps, the form in which an index entry names what it covers."""

from __future__ import annotations

from collections.abc import Iterable

import pyroaring

from ..errors import ArtifactError


def encode(fragments: Iterable[int]) -> bytes:
    """Bytes of the bitmap; equal sets give equal bytes."""
    data: bytes = pyroaring.BitMap(sorted(fragments)).serialize()
    return data


def decode(data: bytes, path: str) -> frozenset[int]:
    """The fragment ids in a bitmap; none for no bytes. Raises `ArtifactError`."""
    if not data:
        return frozenset()
    try:
        return frozenset(pyroaring.BitMap.deserialize(data))
    except ValueError as error:
        raise ArtifactError("TXN-029", path, f"the fragments of an index are not a Roaring bitmap: {error}") from error
