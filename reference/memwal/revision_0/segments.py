"""Entry ids of a WAL: sets of unsigned 64-bit numbers, as the message U64Segment.

Source: MemWAL revision 0, field wal_entries; AMB-134.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..clauses import implements
from ..codec import protobuf
from ..codec.pb.lance import rowids_pb2
from ..errors import ArtifactError
from ..ids import UINT64_MAX

U64Segment = rowids_pb2.U64Segment
_BITMAP_BITS_MAX = 1 << 24


@dataclass(frozen=True, slots=True)
class EntryIds:
    """A set of entry ids."""

    ranges: tuple[tuple[int, int], ...] = ()
    """First id and end (exclusive) of each run, ascending, not touching each other."""

    def __iter__(self) -> Iterator[int]:
        for start, end in self.ranges:
            yield from range(start, end)

    def __len__(self) -> int:
        return sum(end - start for start, end in self.ranges)

    def __contains__(self, entry: object) -> bool:
        return isinstance(entry, int) and any(start <= entry < end for start, end in self.ranges)

    @property
    def following(self) -> int:
        """The id after the last one; 0 for an empty set."""
        return self.ranges[-1][1] if self.ranges else 0

    def adding(self, entry: int) -> EntryIds:
        """The set with ``entry`` too, which is above all others."""
        if entry < self.following:
            raise ValueError(f"entry {entry} is not above {self.following - 1}")
        if self.ranges and entry == self.following:
            return EntryIds((*self.ranges[:-1], (self.ranges[-1][0], entry + 1)))
        return EntryIds((*self.ranges, (entry, entry + 1)))


def of(ids: Iterable[int]) -> EntryIds:
    """The set of ``ids``."""
    ranges: list[tuple[int, int]] = []
    for entry in sorted(set(ids)):
        if ranges and ranges[-1][1] == entry:
            ranges[-1] = (ranges[-1][0], entry + 1)
        else:
            ranges.append((entry, entry + 1))
    return EntryIds(tuple(ranges))


@implements("LEGACY-016")
def encode(ids: EntryIds) -> bytes:
    """Bytes of the segment: a range, with holes where it is mostly full, else a sorted array; empty for no ids."""
    message = U64Segment()
    if not ids.ranges:
        return b""
    start, end = ids.ranges[0][0], ids.following
    holes = (
        [entry for (_, a), (b, _) in pairwise(ids.ranges) for entry in range(a, b)]
        if len(ids) * 2 > end - start
        else []
    )
    if len(ids.ranges) == 1:
        message.range.start, message.range.end = start, end
    elif holes:
        message.range_with_holes.start, message.range_with_holes.end = start, end
        message.range_with_holes.holes.u64_array.values = np.array(holes, dtype="<u8").tobytes()
    else:
        message.sorted_array.u64_array.values = np.array(list(ids), dtype="<u8").tobytes()
    return protobuf.serialise(message)


@implements("LEGACY-016", "LEGACY-018", "AMB-134")
def decode(data: bytes, path: str) -> EntryIds:
    """Parse a segment: range, range with holes or with a bitmap, or sorted array. Raises `ArtifactError`."""
    message = protobuf.parse(U64Segment, data, clause="LEGACY-016", path=path)
    match message.WhichOneof("segment"):
        case None:
            if data:
                raise ArtifactError("LEGACY-016", path, "a segment is of an unknown kind")
            return EntryIds()
        case "range":
            return _range(message.range.start, message.range.end, path)
        case "range_with_holes":
            found = message.range_with_holes
            return _without(_range(found.start, found.end, path), _array(found.holes, path), path)
        case "range_with_bitmap":
            return _bitmap(message.range_with_bitmap, path)
        case "sorted_array":
            return _sorted(_array(message.sorted_array, path), path)
        case _:
            raise ArtifactError(
                "LEGACY-016",
                path,
                "its ids are in an unsorted array, and entries are replayed in the order of their ids",
            )


def _range(start: int, end: int, path: str) -> EntryIds:
    if start > end:
        raise ArtifactError("LEGACY-016", path, f"the range ends before it begins: {start} to {end}")
    return EntryIds(((start, end),)) if start < end else EntryIds()


def _without(whole: EntryIds, holes: list[int], path: str) -> EntryIds:
    ranges, at = [], whole.ranges[0][0] if whole.ranges else 0
    for hole in _sorted(holes, path):
        if hole not in whole:
            raise ArtifactError("LEGACY-016", path, f"hole {hole} lies outside the range")
        if at < hole:
            ranges.append((at, hole))
        at = hole + 1
    if at < whole.following:
        ranges.append((at, whole.following))
    return EntryIds(tuple(ranges))


def _bitmap(message: rowids_pb2.U64Segment.RangeWithBitmap, path: str) -> EntryIds:
    whole = _range(message.start, message.end, path)
    if len(whole) > min(len(message.bitmap) * 8, _BITMAP_BITS_MAX):
        raise ArtifactError("LEGACY-016", path, f"its bitmap has {len(message.bitmap)} bytes for {len(whole)} ids")
    bits = np.unpackbits(np.frombuffer(message.bitmap, dtype=np.uint8), bitorder="little")[: len(whole)]
    return of((np.flatnonzero(bits).astype(object) + message.start).tolist())


def _array(message: rowids_pb2.EncodedU64Array, path: str) -> list[int]:
    match message.WhichOneof("array"):
        case "u16_array":
            base, offsets = message.u16_array.base, _numbers(message.u16_array.offsets, "<u2", path)
        case "u32_array":
            base, offsets = message.u32_array.base, _numbers(message.u32_array.offsets, "<u4", path)
        case "u64_array":
            base, offsets = 0, _numbers(message.u64_array.values, "<u8", path)
        case _:
            base, offsets = 0, np.empty(0, dtype=np.uint64)
    found = [base + int(offset) for offset in offsets]
    if any(entry > UINT64_MAX for entry in found):
        raise ArtifactError("LEGACY-016", path, "an id is above the largest 64-bit number")
    return found


def _numbers(data: bytes, kind: str, path: str) -> npt.NDArray[np.unsignedinteger]:
    if len(data) % np.dtype(kind).itemsize:
        raise ArtifactError("LEGACY-016", path, f"{len(data)} bytes are not a whole number of {kind} values")
    return np.frombuffer(data, dtype=kind)


def _sorted(ids: list[int], path: str) -> EntryIds:
    if any(a >= b for a, b in pairwise(ids)):
        raise ArtifactError("LEGACY-016", path, "the ids of a sorted array do not rise")
    return of(ids)
