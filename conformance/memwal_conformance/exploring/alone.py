"""A finding about the native package, shown with the package and the standard library alone.

Run it with an interpreter that has ``pylance``. It serves a small S3 store on loopback that does one thing wrong, lets
writers of the package live through a few calls on it, and reads what is left with a new writer. It tries a few times,
since timing differs. Exit status: 1 if acknowledged rows are gone, rows are there twice, a generation is listed twice,
or its rows would be replayed from the WAL; 0 if nothing of the kind is seen.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse
from xml.sax.saxutils import escape

import lance
import pyarrow as pa
import pyarrow.compute as pc

FINDING: dict[str, Any] = {}
TRIES = 20
_Answer = tuple[int, bytes, dict[str, str]]
BUCKET, TABLE = "memwal", "s3://memwal/t"
REGION = "0a0b0c0d-0000-4000-8000-000000000001"
SETTINGS = {"durable_write": True, "max_wal_flush_interval_ms": 1, "manifest_scan_batch_size": 1}
MARK = b"lance-schema:unenforced-primary-key"
CODES = {403: "AccessDenied", 404: "NoSuchKey", 408: "RequestTimeout", 409: "ConditionalRequestConflict"}
CODES |= {412: "PreconditionFailed", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}


# ---- the store: S3 on loopback, in memory, with one rule


class StubStore:
    """Objects by name, and what they were after each change."""

    def __init__(self, objects: dict[str, bytes], rules: list[dict[str, Any]]) -> None:
        self.objects, self.rules = dict(objects), rules
        self.states = [dict(objects)]
        self.log: list[str] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.met: Counter[int] = Counter()
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": self}))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def options(self, actor: str) -> dict[str, str]:
        """Storage options of the package; the key is the actor's name."""
        key = {"aws_access_key_id": actor, "aws_secret_access_key": "secret", "aws_region": "us-east-1"}
        place = {"aws_endpoint": f"http://127.0.0.1:{self.server.server_address[1]}", "allow_http": "true"}
        return {**key, **place, **FINDING.get("storage", {})}

    def rule(self, actor: str, operation: str, key: str) -> dict[str, Any] | None:
        """The rule that is about this request."""
        chosen = None
        for number, rule in enumerate(self.rules):
            at = rule["at"]
            fits = at.get("actor", actor) == actor and at.get("class", class_of(key)) == class_of(key)
            if fits and at.get("operation", operation) == operation and at.get("name", name_of(key)) == name_of(key):
                self.met[number] += 1
                if at.get("occurrence", 1) in (None, self.met[number]):
                    chosen = chosen or rule
        return chosen


def class_of(key: str) -> str:
    """What kind of object a key is."""
    parts = key.partition("_mem_wal/")[2].split("/")
    if len(parts) < 2:
        return "base" if "_mem_wal/" not in key else "region"
    if parts[-1] == "version_hint.json":
        return "hint"
    return parts[1] if parts[1] in ("wal", "manifest") else "generation" if "_gen_" in parts[1] else "region"


def name_of(key: str) -> str:
    """A name that is the same in every run, for WAL entries, manifests and hints."""
    found = re.search(r"/(wal|manifest)/([01]{64})\.", key)
    if found:
        return f"{found[1]}/@{int(found[2][::-1], 2)}"
    return "hint" if class_of(key) == "hint" else key


class _Handler(BaseHTTPRequestHandler):
    store: StubStore
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def answer(self, status: int, body: bytes = b"", **headers: str) -> _Answer:
        return status, body, {name.replace("_", "-"): value for name, value in headers.items()}

    def refuse(self, status: int) -> _Answer:
        return self.answer(status, f"<Error><Code>{CODES[status]}</Code><Message>a fault</Message></Error>".encode())

    def serve(self) -> None:
        url = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        key = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        operation = self.operation(query)
        credential = re.search(r"Credential=([^/]+)", self.headers.get("Authorization", ""))
        actor = credential[1] if credential else ""
        about = query.get("prefix", "") if operation == "LIST" else key
        with self.store.lock:
            rule = self.store.rule(actor, operation, about)
            do, status = (rule["do"], rule.get("status", 500)) if rule else ("", 0)
            carried = do not in ("fail", "refuse", "lose")
            reply = self.carry_out(operation, key, query, body) if carried else self.refuse(status)
            if do == "duplicate":
                reply = self.carry_out(operation, key, query, body)
            shown = "" if not rule else f"   <- {do}" + (f" {status}" if "fail" in do or do == "refuse" else "")
            self.store.log.append(f"{actor:<4} {operation:<8} {name_of(about):<60} {reply[0]}{shown}")
        if do in ("lose", "apply_then_lose"):
            self.reset()
        else:
            self.send(self.refuse(status) if do == "apply_then_fail" else reply, half=do == "half")

    def reset(self) -> None:
        self.close_connection = True
        self.connection.close()

    def operation(self, query: dict[str, str]) -> str:
        if self.command == "GET":
            return "LIST" if "list-type" in query else "GET"
        if self.command == "PUT" and self.headers.get("If-None-Match") == "*":
            return "CREATE"
        return self.command

    def send(self, reply: _Answer, *, half: bool) -> None:
        status, body, headers = reply
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if half else body)
        if half:
            self.reset()

    def carry_out(self, operation: str, key: str, query: dict[str, str], body: bytes) -> _Answer:
        objects = self.store.objects
        if operation == "LIST":
            return self.answer(200, self.listing(query))
        if operation in ("GET", "HEAD"):
            return self.read(key)
        if operation == "DELETE":
            if objects.pop(key, None) is not None:
                self.store.states.append(dict(objects))
            return self.answer(204)
        if operation == "CREATE" and key in objects:
            return self.refuse(412)
        objects[key] = body
        self.store.states.append(dict(objects))
        return self.answer(200, ETag='"1"')

    def read(self, key: str) -> _Answer:
        data = self.store.objects.get(key)
        if data is None:
            return self.refuse(404)
        stamp = {"ETag": '"1"', "Last_Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return self.answer(200, data, **stamp)
        first = int(asked[1]) if asked[1] else len(data) - int(asked[2])
        last = min(int(asked[2]), len(data) - 1) if asked[1] and asked[2] else len(data) - 1
        return self.answer(206, data[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(data)}", **stamp)

    def listing(self, query: dict[str, str]) -> bytes:
        prefix, delimiter, after = (query.get(name, "") for name in ("prefix", "delimiter", "start-after"))
        names = sorted(name for name in self.store.objects if name.startswith(prefix) and name > after)
        deeper = [name for name in names if delimiter and delimiter in name[len(prefix) :]]
        folders = {name[: name.index(delimiter, len(prefix)) + 1] for name in deeper}
        plain = [name for name in names if not any(name.startswith(folder) for folder in folders)]
        stamp = '<LastModified>2025-01-01T00:00:00.000Z</LastModified><ETag>"1"</ETag>'
        line = "<Contents><Key>{}</Key>" + stamp + "<Size>{}</Size></Contents>"
        files = "".join(line.format(escape(name), len(self.store.objects[name])) for name in plain)
        each = "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>"
        below = "".join(each.format(escape(folder)) for folder in sorted(folders))
        head = f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(names)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f'<?xml version="1.0"?><ListBucketResult>{head}{files}{below}</ListBucketResult>'.encode()

    do_GET = do_HEAD = do_PUT = do_DELETE = serve


# ---- the life: calls of the package


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

    def open(self, actor: str) -> None:
        rows = FINDING["life"].get("memtable_rows")
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


def manifest(objects: dict[str, bytes]) -> dict[str, Any]:
    """The newest manifest of the shard: number, epoch, replay position and generations."""
    names = {name: re.search(r"/manifest/([01]{64})\.", name) for name in objects}
    found = {int(match[1][::-1], 2): objects[name] for name, match in names.items() if match}
    if not found:
        return {"replay_after": 0, "generations": []}
    whole = list(fields(found[max(found)]))
    numbers = {number: value for number, value in whole if isinstance(value, int)}
    listed = [dict(fields(value)) for number, value in whole if number == 8]
    position = {"version": max(found), "epoch": numbers.get(2, 0), "replay_after": numbers.get(3, 0)}
    return position | {"generations": [(each[1], each[2].decode()) for each in listed]}


def seen_after(objects: dict[str, bytes]) -> list[tuple[int, str]]:
    """Rows that a new writer recovers and flushes, and that are then in the base table and the generations."""
    store = StubStore(objects, [])
    life = PackageLife(store)
    life.open("new")
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
    PackageLife(maker := StubStore({}, [])).create()
    store = StubStore(maker.objects, FINDING["plan"].get("rules", []))
    life = PackageLife(store)
    for number, text in enumerate(FINDING["life"]["steps"].split(", ")):
        life.step(number, *text.split(" "))
    print("\nrequests:", *store.log, sep="\n")
    crash = FINDING["crash"] if 0 <= FINDING["crash"] < len(store.states) else len(store.states) - 1
    objects = store.states[crash]
    print(f"\nafter {crash} changes of the store, manifest: {manifest(objects)}")
    promised = [number for at, number in store.acknowledged if at <= crash]
    print("acknowledged by then:", {number: life.written[number] for number in promised})
    print("rows after recovery and flush:", found := sorted(seen_after(objects)))
    told = wrong(life, promised, found, manifest(objects)["generations"]) + replayed_again(objects)
    print("", *told or ["nothing is wrong"], sep="\n")
    return bool(told)


def replayed_again(objects: dict[str, bytes]) -> list[str]:
    """Rows of listed generations that stand in WAL entries behind the replay position, too."""
    told, newest, life = [], manifest(objects), PackageLife(StubStore(objects, []))
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
