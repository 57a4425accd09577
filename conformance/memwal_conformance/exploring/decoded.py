"""A few lines of decoded bytes: the region's newest manifest with the fields that matter, and what the WAL has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..gate.requests import class_of, name_of
from ..judge import artifacts, wal
from ..judge.store import LAYOUTS, StoreLayout, replay_start
from ..judge.wire import DamagedBytes, WireMessage

LINES = 5
ORACLES = ("rows", "structure", "machine", "recovery")
"""Those whose symptoms are about stored bytes."""
FIELDS = {
    2: ("epoch", "writer_epoch"),
    3: ("replay_after", "replay_after_wal_entry_position"),
    6: ("current_generation", "current_generation"),
}
"""Number of a field of a region manifest -> its name here, and in MemWAL revision B and in what the releases write."""
ROWS = 4
"""Of a WAL entry, in its line."""
HEX = 24
"""Bytes of a field that are shown."""


def lines_of(objects: Mapping[str, bytes], revision: str) -> tuple[str, ...]:
    """At most `LINES` lines about the newest manifest of a region and the WAL entries that it leaves to replay."""
    layout = LAYOUTS[revision]
    manifests = {_number(name): name for name in objects if class_of(name) == "manifest"}
    if not manifests:
        return ("no region manifest is stored",)
    newest = max(manifests)
    data = objects[manifests[newest]]
    try:
        return tuple(_lines(objects, data, newest, layout))[:LINES]
    except DamagedBytes as error:
        return (f"manifest/@{newest}, {len(data)} bytes: {error}", f"  {data[:HEX].hex(' ')}")


def _number(name: str) -> int:
    return int(name_of(name).rpartition("@")[2])


def _lines(objects: Mapping[str, bytes], data: bytes, version: int, layout: StoreLayout) -> Iterator[str]:
    manifest = artifacts.manifest(data)
    shown = ", ".join(
        f"{name} {getattr(manifest, ours)} [{_hex(data, number) or 'not stored'}]"
        for number, (ours, name) in FIELDS.items()
    )
    listed = ", ".join(f"{each.number} at {each.path}" for each in manifest.generations) or "none"
    yield f"manifest/@{version}, {len(data)} bytes: {shown}"
    yield f"  generations listed: {listed} [{_hex(data, 8) or 'not stored'}]"
    names = {_number(name): name for name in objects if class_of(name) == "wal"}
    start = replay_start(manifest, layout)
    behind = sorted(position for position in names if position >= start)
    if not behind:
        yield f"  no WAL entry is stored from position {start} on, where replay starts"
    for position in behind:
        yield _entry(position, objects[names[position]], layout)


def _hex(data: bytes, number: int) -> str:
    """The bytes of all fields with this number, as stored."""
    stored = WireMessage.of(data).fields
    ends = [*(field.offset for field in stored[1:]), len(data)]
    found = b"".join(
        data[field.offset : end] for field, end in zip(stored, ends, strict=True) if field.number == number
    )
    return found[:HEX].hex(" ") + (" …" if len(found) > HEX else "")


def _entry(position: int, data: bytes, layout: StoreLayout) -> str:
    about = f"wal/@{position}, {len(data)} bytes, to be replayed"
    try:
        entry = wal.decode(data, layout.container)
    except DamagedBytes as error:
        return f"{about}: {error}"
    rows = entry.rows.to_pylist()
    told = "; ".join(", ".join(f"{name} {value!r}" for name, value in row.items()) for row in rows[:ROWS])
    more = f"; {len(rows) - ROWS} more" if len(rows) > ROWS else ""
    generation = "" if entry.generation is None else f", generation {entry.generation}"
    return f"{about}: epoch {entry.epoch}{generation}, {told or 'no rows'}{more}"
