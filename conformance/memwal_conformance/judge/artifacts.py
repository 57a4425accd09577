"""Region manifests, version hints and MemWAL index details, decoded by the judge and shown as protocol views.

Field numbers: MemWAL revision A, "Region Manifest" and "Index Details"; revision R adds shard fields and accounting.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from dataclasses import dataclass
from typing import Any

from .wire import DamagedBytes, WireMessage

_NAME = re.compile(r"[01]{64}")
_NUMBERED, _OF, _AT = dict.fromkeys("ABR", "MANIFEST-018"), {"A": "MANIFEST-003"}, {"A": "MANIFEST-004"}


def number_of(name: str, suffix: str) -> int | None:
    """Number in a file name of 64 binary digits, least significant first; None for any other name."""
    stem, _, found = name.rpartition("/")[2].partition(".")
    return int(stem[::-1], 2) if found == suffix and _NAME.fullmatch(stem) else None


def name_of(number: int, suffix: str) -> str:
    """Inverse of `number_of`."""
    return f"{number:064b}"[::-1] + "." + suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """An entry of flushed_generations; the last three exist in revision R only."""

    number: int
    path: str
    in_memory_bytes: int | None = None
    physical_rows: int | None = None
    primary_key_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A region manifest."""

    region_id: str
    version: int
    spec_id: int
    epoch: int
    replay_after: int
    last_seen: int
    current_generation: int
    generations: tuple[Generation, ...]
    shard_fields: tuple[tuple[str, bytes], ...]
    sealed: bool
    numbers: frozenset[int] = frozenset()
    """Numbers of the fields on the wire, known or not."""

    def view(self) -> dict[str, Any]:
        """The protocol's view; the members of revision R only where they are set."""
        view: dict[str, Any] = {
            "region_id": self.region_id,
            "version": str(self.version),
            "region_spec_id": str(self.spec_id),
            "writer_epoch": str(self.epoch),
            "replay_after": str(self.replay_after),
            "last_seen": str(self.last_seen),
            "current_generation": str(self.current_generation),
            "flushed_generations": [_generation_view(g) for g in self.generations],
        }
        if self.shard_fields:
            view["shard_fields"] = [{"field_id": f, "value": _base64(v)} for f, v in self.shard_fields]
        if self.sealed:
            view["status"] = "sealed"
        return view


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _generation_view(generation: Generation) -> dict[str, str]:
    counts = {
        "in_memory_bytes": generation.in_memory_bytes,
        "physical_rows": generation.physical_rows,
        "primary_key_bytes": generation.primary_key_bytes,
    }
    set_counts = {name: str(count) for name, count in counts.items() if count is not None}
    return {"generation": str(generation.number), "path": generation.path, **set_counts}


def region_uuid(message: WireMessage | None) -> str:
    """Text form of a UUID message. Raises `DamagedBytes` if it is absent or not 16 bytes."""
    data = message.blob(1) if message is not None else None
    if data is None or len(data) != 16:
        raise DamagedBytes("a region id is absent or not 16 bytes long")
    return str(uuid.UUID(bytes=data))


def manifest(data: bytes, region_id: str | None = None, version: int | None = None) -> Manifest:
    """Decode a region manifest and hold it against the id and the version that its path says.

    Raises `DamagedBytes`. What its generations may be is looked at by `structure`, which says more of what is wrong.
    """
    message = WireMessage.of(data)
    generations = []
    for entry in message.messages(8):
        generations.append(
            Generation(
                number=entry.uint(1),
                path=entry.text(2),
                in_memory_bytes=entry.optional_uint(3),
                physical_rows=entry.optional_uint(4),
                primary_key_bytes=entry.optional_uint(5),
            )
        )
    decoded = Manifest(
        region_id=region_uuid(message.message(11)),
        version=message.uint(1),
        spec_id=message.uint(10, bits=32),
        epoch=message.uint(2),
        replay_after=message.uint(3),
        last_seen=message.uint(4),
        current_generation=message.uint(6),
        generations=tuple(generations),
        shard_fields=tuple((entry.text(1), entry.blob(2) or b"") for entry in message.messages(14)),
        sealed=message.uint(15) == 1,
        numbers=frozenset(field.number for field in message.fields),
    )
    if not decoded.version:
        raise DamagedBytes("the manifest says version 0, and versions are numbered from 1", clauses=_NUMBERED)
    if region_id is not None and decoded.region_id != region_id:
        raise DamagedBytes(f"the manifest is of region {decoded.region_id}, its path says {region_id}", clauses=_OF)
    if version is not None and decoded.version != version:
        raise DamagedBytes(f"the manifest says version {decoded.version}, its name says {version}", clauses=_AT)
    return decoded


def hint(data: bytes) -> int:
    """The version in a version hint. Raises `DamagedBytes` unless it is a JSON object whose ``version`` is positive."""
    try:
        decoded = json.loads(data)
    except ValueError as error:
        raise DamagedBytes("the hint is not JSON") from error
    version = decoded.get("version") if isinstance(decoded, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version < 1 << 64:
        raise DamagedBytes(f"the hint names no version: {decoded!r}")
    return version


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedIndexDetails:
    """The details message of the MemWAL index."""

    snapshot_ts_millis: int
    num_regions: int
    inline_snapshots: bytes | None
    region_specs: tuple[dict[str, Any], ...]
    """Protocol views."""
    maintained_indexes: tuple[str, ...]
    merged: tuple[tuple[str, int], ...]
    """Region id and last merged generation."""
    catchup: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """Index name, and region id and generation for each region."""

    def view(self) -> dict[str, Any]:
        """The protocol's view."""
        return {
            "snapshot_ts_millis": str(self.snapshot_ts_millis),
            "num_regions": str(self.num_regions),
            "inline_snapshots": None if self.inline_snapshots is None else _base64(self.inline_snapshots),
            "region_specs": list(self.region_specs),
            "maintained_indexes": list(self.maintained_indexes),
            "merged_generations": [_merged_view(*pair) for pair in self.merged],
            "index_catchup": [
                {"index_name": name, "caught_up_generations": [_merged_view(*pair) for pair in pairs]}
                for name, pairs in self.catchup
            ],
        }


def _merged_view(region_id: str, generation: int) -> dict[str, str]:
    return {"region_id": region_id, "generation": str(generation)}


def _pairs(messages: list[WireMessage]) -> tuple[tuple[str, int], ...]:
    pairs = tuple((region_uuid(m.message(1)), m.uint(2)) for m in messages)
    if len(dict(pairs)) != len(pairs):
        raise DamagedBytes("a region has two progress entries")
    return pairs


def _field_view(message: WireMessage) -> dict[str, Any]:
    view: dict[str, Any] = {
        "field_id": message.text(1),
        "source_ids": [str(i) for i in message.packed_sints(2)],
        "result_type": message.text(5),
        "parameters": message.text_map(6),
    }
    for number, name in ((3, "transform"), (4, "expression")):
        blob = message.blob(number)
        if blob is not None:
            view[name] = message.text(number)
    return view


def index_details(data: bytes) -> JudgedIndexDetails:
    """Decode the details of the MemWAL index. Raises `DamagedBytes`, also for the unrelated message of revision 0."""
    message = WireMessage.of(data)
    return JudgedIndexDetails(
        snapshot_ts_millis=message.sint(1),
        num_regions=message.uint(2, bits=32),
        inline_snapshots=message.blob(3),
        region_specs=tuple(
            {"spec_id": str(spec.uint(1, bits=32)), "fields": [_field_view(f) for f in spec.messages(2)]}
            for spec in message.messages(7)
        ),
        maintained_indexes=tuple(message.texts(8)),
        merged=_pairs(message.messages(9)),
        catchup=tuple((entry.text(1), _pairs(entry.messages(2))) for entry in message.messages(10)),
    )
