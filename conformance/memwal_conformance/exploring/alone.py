"""A finding about the native package, shown with the package and the standard library alone.

Run it with an interpreter that has ``pylance``. It serves a small S3 store on loopback that does one thing wrong, lets
writers of the package live through a few calls on it, and reads what is left with a new writer. It tries a few times,
since timing differs. Exit status: 1 if the new writer cannot recover, acknowledged rows are gone, rows are there twice,
a generation is listed twice, its rows would be replayed from the WAL, or a manifest repeats the one before; 0 if
nothing of the kind is seen.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

from memwal_conformance.exploring.stub import BUCKET, StubStore, name_of

FINDING: dict[str, Any] = {}
TRIES = 20
TABLE = f"s3://{BUCKET}/t"
REGION = "0a0b0c0d-0000-4000-8000-000000000001"
SETTINGS = {"durable_write": True, "max_wal_flush_interval_ms": 1, "manifest_scan_batch_size": 1}
MARK = b"lance-schema:unenforced-primary-key"


# ---- the life: calls of the package


def store_of(objects: dict[str, bytes], rules: list[dict[str, Any]] | None = None) -> StubStore:
    """A store that holds these objects."""
    return StubStore(objects, rules or [], FINDING.get("storage", {}))


class PackageLife:
    """Writers of the package on one table."""

    def __init__(self, store: StubStore) -> None:
        self.store = store
        self.writers: dict[str, Any] = {}
        self.keys: dict[str, list[int]] = {}
        self.written: dict[int, list[tuple[int, str | None]]] = {}
        """Number of a step -> what it wrote: id and value, None for a delete."""

    def dataset(self, actor: str, below: str = "") -> Any:
        return lance.dataset(f"{TABLE}{below}", storage_options=self.store.options(actor))

    def create(self) -> None:
        marks = {} if FINDING["life"].get("append_only") else {MARK: b"true"}
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=marks), pa.field("v", pa.string())])
        base = pa.table({"id": [100_000, 100_001], "v": ["base", "base"]}, schema=schema)
        made = lance.write_dataset(base, TABLE, schema=schema, storage_options=self.store.options("make"))
        made.initialize_mem_wal()
        if not FINDING["life"].get("new_region"):
            self.open("make")
            self.writers.pop("make").close()

    def open(self, actor: str, rows: int | None = None) -> None:
        rows = rows or FINDING["life"].get("memtable_rows")
        limits = {} if rows is None else {"max_memtable_rows": rows, "max_memtable_batches": rows}
        self.writers[actor] = self.dataset(actor).mem_wal_writer(REGION, **SETTINGS, **limits)

    def step(self, number: int, actor: str, verb: str) -> None:
        """One step. After an error the actor opens the region anew before its next write."""
        if verb in ("put", "again", "delete", "fill", "flush") and actor not in self.writers:
            self.told(number, actor, "open")
        if verb in ("scan", "collect", "snapshot") or (verb == "close" and actor not in self.writers):
            return
        self.told(number, actor, verb)

    def told(self, number: int, actor: str, verb: str) -> None:
        try:
            self.do(number, actor, verb)
            print(f"{actor} {verb}: done")
        except Exception as error:  # noqa: BLE001 - whatever the package raises
            print(f"{actor} {verb}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
            if verb != "close" and actor in self.writers:
                self.told(number, actor, "close")

    def do(self, number: int, actor: str, verb: str) -> None:
        if verb in ("open", "flush", "close"):
            self.close(actor)
            if verb != "close":
                self.open(actor)
        elif verb == "merge":
            self.merge(actor)
        elif verb == "compact":
            self.dataset(actor).optimize.compact_files()
        elif verb == "base":
            self.base(number, actor)
        else:
            self.write(number, actor, verb)

    def close(self, actor: str) -> None:
        if actor in self.writers:
            self.writers.pop(actor).close()

    def write(self, number: int, actor: str, verb: str) -> None:
        if verb in ("put", "fill"):
            size = FINDING["life"].get("memtable_rows", 2) if verb == "fill" else 2
            self.keys[actor] = list(range(100 * number, 100 * number + size))
        keys = self.keys.setdefault(actor, [100 * number])
        schema = self.dataset(actor).schema
        self.written[number] = [(key, None if verb == "delete" else f"w{number}") for key in keys]
        if verb == "delete":
            self.writers[actor].delete(pa.table({"id": pa.array(keys, pa.int64())}))
        else:
            self.writers[actor].put(pa.table({"id": keys, "v": [f"w{number}"] * len(keys)}, schema=schema))
        self.store.acknowledged.append((len(self.store.states) - 1, number))

    def base(self, number: int, actor: str) -> None:
        keys, dataset = [100 * number, 100 * number + 1], self.dataset(actor)
        self.written[number] = [(key, f"w{number}") for key in keys]
        dataset.insert(pa.table({"id": keys, "v": [f"w{number}"] * 2}, schema=dataset.schema))
        self.store.acknowledged.append((len(self.store.states) - 1, number))

    def merge(self, actor: str) -> None:
        import lance.mem_wal as mem_wal

        kind = getattr(mem_wal, "CompactedSsTable", None) or mem_wal.MergedGeneration
        for number, folder in manifest(self.store.objects)["generations"]:
            dataset = self.dataset(actor)
            rows = self.dataset(actor, f"/_mem_wal/{REGION}/{folder}").to_table()
            if "_tombstone" in rows.column_names:
                rows = rows.filter(pc.invert(rows["_tombstone"])).drop_columns(["_tombstone"])
            insert = dataset.merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all()
            mark = getattr(insert, "mark_sstables_as_compacted", None) or insert.mark_generations_as_merged
            mark([kind(REGION, number)])
            insert.execute(rows)


# ---- what is left


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
        return {"replay_after": 0, "generations": []}
    whole = found[max(found)]
    numbers = {number: value for number, value in whole if isinstance(value, int)}
    listed = [dict(fields(value)) for number, value in whole if number == 8]
    position = {"version": max(found), "epoch": numbers.get(2, 0), "replay_after": numbers.get(3, 0)}
    return position | {"generations": [(each[1], each[2].decode()) for each in listed]}


def repeated(objects: dict[str, bytes]) -> list[str]:
    """Manifests that say nothing but what the one before says, besides their version."""
    said = {version: [field for field in whole if field[0] != 1] for version, whole in manifests(objects).items()}
    same = [(one, two) for one, two in pairwise(said) if said[one] == said[two]]
    return [f"manifest {two} repeats manifest {one}: neither a claim nor a flush made it" for one, two in same]


def seen_after(objects: dict[str, bytes]) -> list[tuple[int, str]]:
    """Rows that a new writer recovers and flushes, and that are then in the base table and the generations."""
    store = store_of(objects)
    life = PackageLife(store)
    life.open("new", FINDING.get("recovery_rows"))
    if not FINDING["life"].get("append_only"):
        seen = life.writers["new"].lsm_scanner([]).to_table().to_pylist()
        print("a new writer sees:", sorted((row["id"], row["v"]) for row in seen))
    life.writers["new"].close()
    print("its manifest:", listed := manifest(store.objects))
    newest = dict(every := [(row["id"], row["v"]) for row in life.dataset("new").to_table().to_pylist()])
    for _, folder in listed["generations"]:
        for row in life.dataset("new", f"/_mem_wal/{REGION}/{folder}").to_table().to_pylist():
            newest[row["id"]] = row["v"]
            if row.get("_tombstone"):
                newest.pop(row["id"])
            else:
                every.append((row["id"], row["v"]))
    return every if FINDING["life"].get("append_only") else list(newest.items())


def main() -> int:
    """Try until something is wrong, at most so many times."""
    print(f"pylance {lance.__version__}: {FINDING['sentence']}")
    return int(any(shows(number) for number in range(1, TRIES + 1)))


def shows(attempt: int) -> bool:
    """Live, crash, recover, compare."""
    print(f"\ntry {attempt}")
    PackageLife(maker := store_of({})).create()
    store = store_of(maker.objects, FINDING["plan"].get("rules", []))
    life = PackageLife(store)
    for number, text in enumerate(FINDING["life"]["steps"].split(", ")):
        life.step(number, *text.split(" "))
    print("\nrequests:", *store.log, sep="\n")
    crash = FINDING["crash"] if 0 <= FINDING["crash"] < len(store.states) else len(store.states) - 1
    objects = store.states[crash]
    print(f"\nafter {crash} changes of the store, manifest: {manifest(objects)}")
    promised = [number for at, number in store.acknowledged if at <= crash]
    print("acknowledged by then:", {number: life.written[number] for number in promised})
    told = replayed_again(objects) + repeated(objects)
    try:
        print("rows after recovery and flush:", found := sorted(seen_after(objects)))
        told += wrong(life, promised, found, manifest(objects)["generations"])
    except Exception as error:  # noqa: BLE001 - whatever the package raises
        told.append(f"a new writer cannot recover: {type(error).__name__}: {error}")
    print("", *told or ["nothing is wrong"], sep="\n")
    return bool(told)


def replayed_again(objects: dict[str, bytes]) -> list[str]:
    """Rows of listed generations that stand in WAL entries behind the replay position, too."""
    told, newest, life = [], manifest(objects), PackageLife(store_of(objects))
    for number, folder in newest["generations"]:
        rows = life.dataset("look", f"/_mem_wal/{REGION}/{folder}").to_table().to_pylist()
        flushed = {(row["id"], row["v"]) for row in rows}
        for name, data in objects.items():
            kind, _, position = name_of(name).partition("/@")
            if kind == "wal" and int(position) > newest["replay_after"]:
                entry = pa.ipc.open_stream(data).read_all().to_pylist()
                if again := sorted(flushed.intersection((row["id"], row["v"]) for row in entry)):
                    where = f"WAL entry {position}, behind replay position {newest['replay_after']}"
                    told.append(f"rows {again} are in generation {number} and in {where}")
    return told


def wrong(life: PackageLife, promised: list[int], found: list[Any], listed: list[Any]) -> list[str]:
    """What is wrong, in sentences."""
    counts = Counter(key for key, _ in found)
    told = [f"row {key} is there {count} times" for key, count in counts.items() if count > 1]
    told += [f"generation {number} is listed twice" for number, n in Counter(g for g, _ in listed).items() if n > 1]
    newest: dict[int, str | None] = {100_000: "base", 100_001: "base"}
    newest.update(pair for number in promised for pair in life.written[number])
    others = {pair for number, rows in life.written.items() if number not in promised for pair in rows}
    values = dict(found)
    for key, value in newest.items():
        if values.get(key) != value and (key, values.get(key)) not in others:
            told.append(f"row {key} is {values.get(key)!r}, and {value!r} was acknowledged")
    return told


if __name__ == "__main__":
    sys.exit(main())
