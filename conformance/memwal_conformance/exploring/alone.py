"""A finding about the native package, shown with the package and the standard library alone.

Run it with an interpreter that has ``pylance``. It serves a small S3 store on loopback that does one thing wrong, lets
writers of the package live through a few calls on it, and reads what is left with a new writer. It tries a few times,
since timing differs, and for a minute at most. It sees whether the new writer cannot recover, acknowledged rows are
gone, rows are there twice, a search or a lookup does not find what a scan finds, the base table cannot be read, a
generation is listed twice, its rows would be replayed from the WAL, a row of one write is in two WAL entries, a
manifest repeats the one before, or a call ends in the finding's error, or never. Exit status: 1 if it sees what the
finding is about, 3 if it sees something else only, 0 if nothing is wrong.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import lance
import lance.mem_wal as mem_wal
import pyarrow as pa
import pyarrow.compute as pc

from memwal_conformance.exploring.stored import in_two_entries, listed_twice, manifest, repeated, replayed
from memwal_conformance.exploring.stub import BUCKET, StubStore

FINDING: dict[str, Any] = {}
SAME = {"structure": ("structure", "machine"), "machine": ("structure", "machine")}
"""What is seen in stored files, where the finding was seen in them in one way or the other."""
AGAIN = "structure, after recovery and flush"
TRIES, SECONDS, HUNG_S = 20, 60, 15.0
TABLE = f"s3://{BUCKET}/t"
REGION = "0a0b0c0d-0000-4000-8000-000000000001"
SETTINGS = {"durable_write": True, "max_wal_flush_interval_ms": 1, "manifest_scan_batch_size": 1}
MARK = b"lance-schema:unenforced-primary-key"
FIRST = range(100_000, 100_000 + (8 if FINDING.get("life", {}).get("indexed") else 2))
"""Keys of the rows that the table begins with."""
WRITES = ("put", "again", "replace", "twice", "group", "delete", "fill")


# ---- the life: calls of the package


def store_of(objects: dict[str, bytes], rules: list[dict[str, Any]] | None = None) -> StubStore:
    """A store that holds these objects."""
    return StubStore(objects, rules or [], FINDING.get("storage", {}))


class PackageLife:
    """Writers of the package on one table."""

    def __init__(self, store: StubStore) -> None:
        self.store = store
        self.writers: dict[str, Any] = {}
        self.keys: dict[str, Sequence[int]] = {}
        self.written: dict[int, list[tuple[int, str | None]]] = {}
        """Number of a step -> what it wrote: id and value, None for a delete."""
        self.merged = 0
        self.wrong: list[tuple[str, str]] = []
        """Answers that do not fit others, as `shows` tells them."""

    def dataset(self, actor: str, below: str = "") -> Any:
        return lance.dataset(f"{TABLE}{below}", storage_options=self.store.options(actor))

    def rows(self, keys: Sequence[int], value: str, schema: Any = None) -> Any:
        """Rows with these keys and this value; no two versions of rows have the same vector."""
        columns: dict[str, Any] = {"id": list(keys), "v": [value] * len(keys)}
        if FINDING["life"].get("indexed"):
            n = int(value[1:]) if value.startswith("w") else 0
            places = [[(key * 11 + n * 37) % 101 + n / 64 + key % 16 / 1024, 0.0] for key in keys]
            columns["vec"] = pa.array(places, pa.list_(pa.float32(), 2))
        return pa.table(columns, schema=schema)

    def create(self) -> None:
        marks = {} if FINDING["life"].get("append_only") else {MARK: b"true"}
        base = self.rows(FIRST, "base")
        identity = pa.field("id", pa.int64(), nullable=False, metadata=marks)
        schema = pa.schema([identity, *(base.schema.field(n) for n in range(1, base.num_columns))])
        made = lance.write_dataset(base.cast(schema), TABLE, schema=schema, storage_options=self.store.options("make"))
        if FINDING["life"].get("indexed"):
            made.create_scalar_index("id", "BTREE", name="by_id")
            made.create_scalar_index("v", "INVERTED", name="by_v", stem=False, remove_stop_words=False)
            made.create_index("vec", "IVF_FLAT", name="by_vec", metric="L2", num_partitions=1)
            made.create_scalar_index("v", "BTREE", name="by_value")
            made.initialize_mem_wal(maintained_indexes=["by_id", "by_v", "by_value", "by_vec"])
        else:
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
        if verb in (*WRITES, "flush") and actor not in self.writers:
            self.told(number, actor, "open")
        if verb not in ("collect", "snapshot") and (verb != "close" or actor in self.writers):
            self.told(number, actor, verb)

    def told(self, number: int, actor: str, verb: str) -> None:
        """One operation, for so long at most: a writer whose call does not end is left where it is."""
        call = threading.Thread(target=self.tried, args=(number, actor, verb), daemon=True)
        call.start()
        call.join(HUNG_S)
        if call.is_alive():
            print(ended := f"{actor} {verb}: it has not ended after {HUNG_S:.0f} s")
            self.wrong.append(("hang", ended))
            self.writers.pop(actor, None)

    def tried(self, number: int, actor: str, verb: str) -> None:
        try:
            self.do(number, actor, verb)
            print(f"{actor} {verb}: done")
        except Exception as error:  # noqa: BLE001 - whatever the package raises
            print(ended := f"{actor} {verb}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
            if "like" in FINDING and re.search(FINDING["like"], str(error), re.IGNORECASE):
                self.wrong.append(("error", ended))
            if verb != "close" and actor in self.writers:
                self.tried(number, actor, "close")

    def do(self, number: int, actor: str, verb: str) -> None:
        if verb in ("open", "flush", "close"):
            self.close(actor)
            if verb != "close":
                self.open(actor)
        elif verb == "merge":
            self.merge(actor)
        elif verb == "compact":
            self.dataset(actor).optimize.compact_files()
        elif verb == "index":
            self.dataset(actor).optimize.optimize_indices()
        elif verb in ("scan", "ask"):
            self.ask(actor, everything=verb == "ask")
        elif verb in ("base", "update", "remove"):
            self.base(number, actor, verb)
        else:
            self.write(number, actor, verb)

    def close(self, actor: str) -> None:
        if actor in self.writers:
            self.writers.pop(actor).close()

    def write(self, number: int, actor: str, verb: str) -> None:
        if verb == "replace":
            self.keys[actor] = FIRST[::2]
        elif verb not in ("again", "delete"):
            size = FINDING["life"].get("memtable_rows", 2) if verb == "fill" else 2
            self.keys[actor] = list(range(100 * number, 100 * number + size))
        keys = self.keys.setdefault(actor, [100 * number])
        schema = self.dataset(actor).schema
        if verb == "group":
            first, value = [100 * number + 2, 100 * number + 3], f"w{number + 50}"
            self.written[number + 50] = [(key, value) for key in first]
            self.writers[actor].put(self.rows(first, value, schema))
        self.written[number] = [(key, None if verb == "delete" else f"w{number}") for key in keys]
        if verb == "delete":
            self.writers[actor].delete(pa.table({"id": pa.array(keys, pa.int64())}))
        else:
            rows = [self.rows(keys, f"w{n}", schema) for n in ([number + 50] if verb == "twice" else []) + [number]]
            self.writers[actor].put(pa.concat_tables(rows).combine_chunks())
        self.store.acknowledged += [(len(self.store.states) - 1, n) for n in (number, number + 50) if n in self.written]

    def base(self, number: int, actor: str, verb: str) -> None:
        keys = [100 * number, 100 * number + 1] if verb == "base" else FIRST[-1:]
        dataset = self.dataset(actor)
        self.written[number] = [(key, None if verb == "remove" else f"w{number}") for key in keys]
        rows = self.rows(keys, f"w{number}", dataset.schema)
        if verb == "base":
            dataset.insert(rows)
        else:
            merge = dataset.merge_insert(["id"])
            merge = merge.when_matched_update_all() if verb == "update" else merge.when_matched_delete()
            merge.execute(rows if verb == "update" else rows.select(["id"]))
        self.store.acknowledged.append((len(self.store.states) - 1, number))

    def shard(self) -> Any:
        """The generations that the newest manifest lists, as readers want to be told."""
        newest = manifest(self.store.objects)
        shard = (getattr(mem_wal, "ShardSnapshot", None) or mem_wal.RegionSnapshot)(REGION)
        shard = shard.with_current_generation(newest["current"])
        for number, folder in newest["generations"]:
            shard = (getattr(shard, "with_sstable", None) or shard.with_flushed_generation)(number, folder)
        return shard

    def scanner(self, actor: str) -> Any:
        """Of what is stored, without the memory of a writer."""
        return mem_wal.LsmScanner.from_snapshots(self.dataset(actor), [self.shard()])

    def ask(self, actor: str, everything: bool) -> None:
        """Scan, and ask for the same in other ways."""
        dataset, writer, shard = self.dataset(actor), self.writers.get(actor), self.shard()

        def scan(own: Any = writer) -> Any:
            return own.lsm_scanner([]) if own else self.scanner(actor)

        def plain(rows: Any) -> list[tuple[Any, Any]]:
            return sorted((row["id"], row["v"]) for row in rows.to_pylist())

        def compare(way: str, rows: Any, right: Sequence[Any], most: int | None = None) -> None:
            found = plain(rows)
            size = len(right) if most is None else min(most, len(right))
            if len(found) != size or any(row not in right for row in found) or len({row[0] for row in found}) != size:
                self.wrong.append(("answer", f"{way} finds {found}, and a scan {sorted(right)}"))

        seen = plain(scan().to_table())
        if not everything:
            if actor in self.writers or not self.writers:  # others' memory only the newest writer of the region has
                gone = lost(self, [number for _, number in self.store.acknowledged], seen)
                self.wrong += [("answer", f"a scan: {each}") for each in gone]
            return
        for key in sorted({key for rows in self.written.values() for key, _ in rows} | set(FIRST)):
            here = [row for row in seen if row[0] == key]
            compare(f"a lookup of {key}", scan().filter(f"id = {key}").to_table(), here)
        for value in sorted({value for rows in self.written.values() for _, value in rows if value} | {"base"}):
            here = [row for row in seen if row[1] == value]
            compare(f"a filter v = {value}", scan().filter(f"v = '{value}'").to_table(), here)
            compare("the same with limit 1", scan().filter(f"v = '{value}'").limit(1).to_table(), here, 1)
        compare("a limit", scan().limit(len(seen) - 1).to_table(), seen, len(seen) - 1)
        if FINDING["life"].get("indexed"):  # searches take no writer: they are compared with a scan without one
            whole = sorted(scan(None).to_table().to_pylist(), key=lambda row: row["vec"][0])
            flushed = [(row["id"], row["v"]) for row in whole]
            for k in sorted({1, 2, len(flushed) - 1, len(flushed) + 1}):
                planner = mem_wal.LsmVectorSearchPlanner(dataset, [shard], "vec", distance_type="l2")
                nearest = planner.plan_search(pa.array([0.0, 0.0], pa.float32()), k=k).to_table()
                compare(f"a vector search of {k}", nearest, flushed, k)  # an index may be approximate

    def merge(self, actor: str) -> None:
        kind = getattr(mem_wal, "CompactedSsTable", None) or mem_wal.MergedGeneration
        for number, folder in manifest(self.store.objects)["generations"]:
            if number <= self.merged:
                continue
            dataset = self.dataset(actor)
            rows = self.dataset(actor, f"/_mem_wal/{REGION}/{folder}").to_table()
            if "_tombstone" in rows.column_names:
                dead, rows = rows.filter(rows["_tombstone"]), rows.filter(pc.invert(rows["_tombstone"]))
                rows = rows.drop_columns(["_tombstone"])
                if dead.num_rows:
                    dataset.merge_insert(["id"]).when_matched_delete().execute(dead.select(["id"]))
                    dataset = self.dataset(actor)
            insert = dataset.merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all()
            mark = getattr(insert, "mark_sstables_as_compacted", None) or insert.mark_generations_as_merged
            mark([kind(REGION, number)])
            insert.execute(rows)
            self.merged = number


# ---- what is left


def seen_after(store: StubStore) -> list[tuple[int, str]]:
    """Rows that a new writer recovers and flushes, and that are then in the base table and the generations.

    If the finding is about what that writer sees before it flushes, that.
    """
    life = PackageLife(store)
    life.open("new", FINDING.get("recovery_rows"))
    if not FINDING["life"].get("append_only"):
        seen = life.writers["new"].lsm_scanner([]).to_table().to_pylist()
        print("a new writer sees:", recovered := sorted((row["id"], row["v"]) for row in seen))
        if FINDING.get("where") == "recovered":
            return recovered
    life.writers["new"].close()
    print("its manifest:", manifest(store.objects))
    if FINDING["oracle"] == "recovery" and not FINDING["life"].get("append_only"):
        life.scanner("new").to_table()
    return rows_of(store)


def rows_of(store: StubStore, behind: Sequence[tuple[int, str | None]] = ()) -> list[tuple[int, str]]:
    """Rows of the base table and of the listed generations, and of WAL entries where these are given."""
    life = PackageLife(store)
    every: list[tuple[int, Any]] = [(row["id"], row["v"]) for row in life.dataset("look").to_table().to_pylist()]
    for _, folder in manifest(store.objects)["generations"]:
        rows = life.dataset("look", f"/_mem_wal/{REGION}/{folder}").to_table().to_pylist()
        every += [(row["id"], None if row.get("_tombstone") else row["v"]) for row in rows]
    every += behind
    newest = every if FINDING["life"].get("append_only") else dict(every).items()
    return [(key, value) for key, value in newest if value is not None]


def main() -> int:
    """Try until it shows what the finding is about, at most so many times."""
    print(f"pylance {lance.__version__}: {FINDING['sentence']}")
    kind = AGAIN if (FINDING["oracle"], FINDING.get("where")) == ("structure", "flushed") else FINDING["oracle"]
    wanted, ends, status = SAME.get(kind, (kind,)), time.monotonic() + SECONDS, 0
    for number in range(1, TRIES + 1):
        told = shows(number)
        print("", *(f"{kind}: {sentence}" for kind, sentence in told), "" if told else "nothing is wrong", sep="\n")
        if any(kind in wanted for kind, _ in told):
            return 1
        status = 3 if told else status
        if time.monotonic() > ends:
            break
    return status


def shows(attempt: int) -> list[tuple[str, str]]:
    """Live, crash, recover, compare: what is wrong, each with the kind of thing that it is."""
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
    stored = replayed_again(objects) + listed_twice(objects) + in_two_entries(objects)
    told = [*life.wrong, *(("recovery", each) for each in unreadable(objects))]
    told += [("structure", each) for each in stored]
    told += [("machine", each) for each in repeated(objects)]
    if (FINDING["oracle"], FINDING.get("where")) == ("rows", "stored"):
        told += [("rows", each) for each in lost_in_store(life)]
    after = store_of(objects)
    try:
        print("rows after recovery:", found := sorted(seen_after(after)))
        told += [("rows", each) for each in lost(life, promised, found)]
        told += [(AGAIN, each) for each in in_two_entries(after.objects) if each not in stored]
    except Exception as error:  # noqa: BLE001 - whatever the package raises
        told.append(("recovery", f"a new writer cannot recover: {type(error).__name__}: {error}"))
    return told


def unreadable(objects: dict[str, bytes]) -> list[str]:
    """Why the base table cannot be read as it is stored."""
    try:
        PackageLife(store_of(objects)).dataset("look").to_table()
    except Exception as error:  # noqa: BLE001 - whatever the package raises
        return [f"the base table cannot be read: {type(error).__name__}: {str(error).splitlines()[0][:300]}"]
    return []


def replayed_again(objects: dict[str, bytes]) -> list[str]:
    """Rows of listed generations that stand in WAL entries behind the replay position, too."""
    told, newest, life = [], manifest(objects), PackageLife(store_of(objects))
    for number, folder in newest["generations"]:
        rows = life.dataset("look", f"/_mem_wal/{REGION}/{folder}").to_table().to_pylist()
        flushed = {(row["id"], row["v"]) for row in rows}
        for position, entry in replayed(objects).items():
            if again := sorted(flushed.intersection(entry)):
                where = f"WAL entry {position}, behind replay position {newest['replay_after']}"
                told.append(f"rows {again} are in generation {number} and in {where}")
    return told


def lost_in_store(life: PackageLife) -> list[str]:
    """What is wrong with rows in the first state of the store that lacks some: when that is depends on timing."""
    looked = store_of({})
    for changes, objects in enumerate(life.store.states):
        looked.objects = objects
        behind = [pair for rows in replayed(objects).values() for pair in rows]
        promised = [number for at, number in life.store.acknowledged if at <= changes]
        if told := lost(life, promised, rows_of(looked, behind)):
            return [f"{each}, in what is stored after {changes} changes" for each in told]
    return []


def lost(life: PackageLife, promised: list[int], found: Sequence[Any]) -> list[str]:
    """What is wrong with rows, in sentences."""
    counts = Counter(key for key, _ in found)
    told = [f"row {key} is there {count} times" for key, count in counts.items() if count > 1]
    others = {pair for number, rows in life.written.items() if number not in promised for pair in rows}
    newest: dict[int, str | None] = dict.fromkeys(FIRST, "base")
    newest.update(pair for number in promised for pair in life.written[number])
    values = dict(found)
    for key, value in newest.items():
        if values.get(key) != value and (key, values.get(key)) not in others:
            told.append(f"row {key} is {values.get(key)!r}, and {value!r} was acknowledged")
    return told


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    os._exit(ended)  # whatever calls have not ended
