"""What is stored of a region, read with the standard library and pyarrow: a part of each finding's file."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa

from memwal_conformance.exploring.stub import name_of


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each protobuf field."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at : at + size]
        at += size


def manifests(objects: dict[str, bytes]) -> dict[int, list[tuple[int, Any]]]:
    """Version of each manifest of the shard -> its fields, by version."""
    names = {name: re.search(r"/manifest/([01]{64})\.", name) for name in objects}
    found = {int(match[1][::-1], 2): list(fields(objects[name])) for name, match in names.items() if match}
    return dict(sorted(found.items()))


def manifest(objects: dict[str, bytes]) -> dict[str, Any]:
    """The newest of them: version, epoch, replay position and generations."""
    found = manifests(objects)
    if not found:
        return {"replay_after": 0, "current": 1, "generations": []}
    whole = found[max(found)]
    numbers = {number: value for number, value in whole if isinstance(value, int)}
    listed = [dict(fields(value)) for number, value in whole if number == 8]
    position = {"version": max(found), "epoch": numbers.get(2, 0), "replay_after": numbers.get(3, 0)}
    position["current"] = numbers.get(6, 1)
    return position | {"generations": [(each[1], each[2].decode()) for each in listed]}


def repeated(objects: dict[str, bytes]) -> list[str]:
    """Manifests that say nothing but what the one before says, besides their version."""
    said = {version: [field for field in whole if field[0] != 1] for version, whole in manifests(objects).items()}
    same = [(one, two) for one, two in pairwise(said) if said[one] == said[two]]
    return [f"manifest {two} repeats manifest {one}: neither a claim nor a flush made it" for one, two in same]


def listed_twice(objects: dict[str, bytes]) -> list[str]:
    """Generations that the newest manifest lists more than once."""
    counts = Counter(number for number, _ in manifest(objects)["generations"])
    return [f"generation {number} is listed {count} times" for number, count in counts.items() if count > 1]


def entries(objects: dict[str, bytes]) -> dict[int, list[tuple[int, str | None]]]:
    """Position of each WAL entry -> its rows: id and value, None for a delete."""
    found = {}
    for name, data in objects.items():
        kind, _, position = name_of(name).partition("/@")
        if kind == "wal":
            rows = pa.ipc.open_stream(data).read_all().to_pylist()
            found[int(position)] = [(row["id"], row["v"]) for row in rows]
    return dict(sorted(found.items()))


def replayed(objects: dict[str, bytes]) -> dict[int, list[tuple[int, str | None]]]:
    """Those that a recovery replays: the entries behind the replay position."""
    after = manifest(objects)["replay_after"]
    return {position: rows for position, rows in entries(objects).items() if position > after}


def in_two_entries(objects: dict[str, bytes]) -> list[str]:
    """Rows that stand in several WAL entries: no two writes have a value in common."""
    where: dict[tuple[int, str], set[int]] = defaultdict(set)
    for position, rows in entries(objects).items():
        for key, value in rows:
            if value is not None:
                where[key, value].add(position)
    return [f"row {row} is in WAL entries {sorted(found)}" for row, found in where.items() if len(found) > 1]
