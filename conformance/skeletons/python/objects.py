"""Region manifests, hints and index details: bytes <-> what the protocol shows."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

from values import number_of
from wire import Builder, Corrupt, Message

View = dict[str, Any]
ACCOUNTING = {"in_memory_bytes": 3, "physical_rows": 4, "primary_key_bytes": 5}


def _uuid(message: Message | None) -> str:
    data = None if message is None else message.blob(1)
    if data is None or len(data) != 16:
        raise Corrupt("a region id is absent or not 16 bytes long")
    return str(uuid.UUID(bytes=data))


def _uuid_bytes(region_id: str) -> bytes:
    return Builder().blob(1, uuid.UUID(region_id).bytes).data


def _generation(message: Message) -> View:
    counts = {name: str(message.uint(number)) for name, number in ACCOUNTING.items() if message.has(number)}
    return {"generation": str(message.uint(1)), "path": message.text(2), **counts}


def manifest(data: bytes, path: str) -> View:
    """Decode a region manifest, and hold it against what its path says."""
    message = Message(data)
    view: View = {
        "region_id": _uuid(message.message(11)),
        "version": str(message.uint(1)),
        "region_spec_id": str(message.uint(10, bits=32)),
        "writer_epoch": str(message.uint(2)),
        "replay_after": str(message.uint(3)),
        "last_seen": str(message.uint(4)),
        "current_generation": str(message.uint(6)),
        "flushed_generations": [_generation(one) for one in message.messages(8)],
    }
    shard_fields = [
        {"field_id": one.text(1), "value": base64.b64encode(one.blob(2) or b"").decode()}
        for one in message.messages(14)
    ]
    if shard_fields:
        view["shard_fields"] = shard_fields
    if message.uint(15) == 1:
        view["status"] = "sealed"
    _agrees(view, path)
    return view


def _agrees(view: View, path: str) -> None:
    *_, region, _, name = path.split("/")
    if view["version"] == "0":
        raise Corrupt("versions are numbered from 1")
    if region != view["region_id"]:
        raise Corrupt(f"the manifest is of region {view['region_id']}, its folder of {region}")
    if number_of(name, "binpb") != int(view["version"]):
        raise Corrupt(f"the name says another version than {view['version']}")
    numbers = [int(one["generation"]) for one in view["flushed_generations"]]
    if len(set(numbers)) != len(numbers):
        raise Corrupt("a generation is listed twice")
    if any(number >= int(view["current_generation"]) for number in numbers):
        raise Corrupt("the current generation is listed")


def encoded_manifest(view: View) -> bytes:
    """Inverse of `manifest`."""
    made = Builder()
    numbers = ("version", "writer_epoch", "replay_after", "last_seen")
    for number, name in enumerate(numbers, 1):
        made.uint(number, int(view[name]))
    made.uint(6, int(view["current_generation"]))
    for one in view["flushed_generations"]:
        entry = Builder().uint(1, int(one["generation"])).text(2, one["path"])
        for name, number in ACCOUNTING.items():
            if name in one:
                entry.optional(number, int(one[name]))
        made.blob(8, entry.data)
    made.uint(10, int(view["region_spec_id"])).blob(11, _uuid_bytes(view["region_id"]))
    for field in view.get("shard_fields", ()):
        made.blob(14, Builder().text(1, field["field_id"]).blob(2, base64.b64decode(field["value"])).data)
    return made.uint(15, int(view.get("status") == "sealed")).data


def hint(data: bytes, _path: str) -> View:
    """The version in a hint."""
    try:
        decoded = json.loads(data)
    except ValueError as error:
        raise Corrupt("the hint is not JSON") from error
    version = decoded.get("version") if isinstance(decoded, dict) else None
    if type(version) is not int or version < 1:
        raise Corrupt("the hint names no version")
    return {"version": str(version)}


def encoded_hint(view: View) -> bytes:
    """Inverse of `hint`."""
    return json.dumps({"version": int(view["version"])}).encode()


def _merged(message: Message) -> View:
    return {"region_id": _uuid(message.message(1)), "generation": str(message.uint(2))}


def _merged_bytes(view: View) -> bytes:
    return Builder().blob(1, _uuid_bytes(view["region_id"])).uint(2, int(view["generation"])).data


def _field(message: Message) -> View:
    view: View = {
        "field_id": message.text(1),
        "source_ids": [str(one) for one in message.ints(2)],
        "result_type": message.text(5),
        "parameters": message.map(6),
    }
    given = {
        name: message.text(number) for number, name in ((3, "transform"), (4, "expression")) if message.has(number)
    }
    return view | given


def _field_bytes(view: View) -> bytes:
    made = Builder().text(1, view["field_id"])
    for one in view["source_ids"]:
        made.optional(2, int(one))  # not packed: readers must take both
    for number, name in ((3, "transform"), (4, "expression")):
        if name in view:
            made.blob(number, view[name].encode())
    made.text(5, view["result_type"])
    for key, value in view["parameters"].items():
        made.blob(6, Builder().text(1, key).text(2, value).data)
    return made.data


def index_details(data: bytes, _path: str = "") -> View:
    """Decode the details of the MemWAL index."""
    message = Message(data)
    if message.has(1) and any(number == 1 and kind == 2 for number, kind, _ in message.fields):
        raise Corrupt("these are details of revision 0")
    inline = message.blob(3)
    view: View = {
        "snapshot_ts_millis": str(message.int(1)),
        "num_regions": str(message.uint(2, bits=32)),
        "inline_snapshots": None if inline is None else base64.b64encode(inline).decode(),
        "region_specs": [
            {"spec_id": str(spec.uint(1, bits=32)), "fields": [_field(one) for one in spec.messages(2)]}
            for spec in message.messages(7)
        ],
        "maintained_indexes": message.texts(8),
        "merged_generations": [_merged(one) for one in message.messages(9)],
        "index_catchup": [
            {"index_name": one.text(1), "caught_up_generations": [_merged(m) for m in one.messages(2)]}
            for one in message.messages(10)
        ],
    }
    regions = [one["region_id"] for one in view["merged_generations"]]
    if len(set(regions)) != len(regions):
        raise Corrupt("a region has two progress entries")
    return view


def encoded_details(view: View) -> bytes:
    """Inverse of `index_details`."""
    made = Builder().uint(1, int(view["snapshot_ts_millis"])).uint(2, int(view["num_regions"]))
    if view["inline_snapshots"] is not None:
        made.blob(3, base64.b64decode(view["inline_snapshots"]))
    for spec in view["region_specs"]:
        entry = Builder().uint(1, int(spec["spec_id"]))
        for field in spec["fields"]:
            entry.blob(2, _field_bytes(field))
        made.blob(7, entry.data)
    for name in view["maintained_indexes"]:
        made.blob(8, name.encode())
    for one in view["merged_generations"]:
        made.blob(9, _merged_bytes(one))
    for progress in view["index_catchup"]:
        entry = Builder().text(1, progress["index_name"])
        for one in progress["caught_up_generations"]:
            entry.blob(2, _merged_bytes(one))
        made.blob(10, entry.data)
    return made.data
