"""Index details of revision 0, decoded by the judge. MemWAL revision 0, "Index Details"."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .wire import DamagedBytes, WireMessage

STATES = ("open", "sealed", "flushed", "merged")


def records(data: bytes) -> list[dict[str, Any]]:
    """The records as the protocol shows them. Raises `DamagedBytes`."""
    found = [_record(record) for record in WireMessage.of(data).messages(1)]
    for (region, generation), count in Counter((record["region"], record["generation"]) for record in found).items():
        if count > 1:
            raise DamagedBytes(f"generation {generation} of region {region} has {count} records")
    for region, count in Counter(record["region"] for record in found if record["state"] == "open").items():
        if count > 1:
            raise DamagedBytes(f"region {region} has {count} open generations")
    return found


def _record(record: WireMessage) -> dict[str, Any]:
    identity, state = record.message(1), record.uint(5)
    if identity is None:
        raise DamagedBytes("a record without an id")
    if state >= len(STATES):
        raise DamagedBytes(f"state {state} is none")
    return {
        "region": identity.text(1),
        "generation": str(identity.uint(2)),
        "mem_table_location": record.text(2),
        "wal_location": record.text(3),
        "entries": [str(number) for number in entries(record.blob(4) or b"")],
        "state": STATES[state],
        "owner_id": record.text(6),
        "last_updated_dataset_version": str(record.uint(7)),
    }


def entries(data: bytes) -> list[int]:
    """The numbers in a U64Segment: a range, a range with holes, or a sorted array of 64-bit numbers."""
    segment = WireMessage.of(data)
    whole, holed, array = segment.message(1), segment.message(2), segment.message(4)
    if whole is not None:
        return list(_range(whole))
    if holed is not None:
        holes = set(_array(holed.message(3)))
        return [number for number in _range(holed) if number not in holes]
    if array is not None:
        return _array(array)
    if data:
        raise DamagedBytes("a segment of a kind that the judge does not read")
    return []


def _range(message: WireMessage) -> range:
    first, end = message.uint(1), message.uint(2)
    if end < first:
        raise DamagedBytes(f"a range from {first} to {end}")
    return range(first, end)


def _array(message: WireMessage | None) -> list[int]:
    """Numbers of an EncodedU64Array: 16- or 32-bit offsets from a base, or 64-bit values."""
    for number, size in ((1, 2), (2, 4), (3, 8)):
        found = message.message(number) if message is not None else None
        if found is None:
            continue
        base = found.uint(1) if size < 8 else 0
        data = found.blob(2) or b""
        if len(data) % size:
            raise DamagedBytes(f"{len(data)} bytes are not a whole number of {size}-byte values")
        return [base + int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    return []
