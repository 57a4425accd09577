"""A conditional put is carried out, and its answer is an error: what pylance makes of it. Needs pylance only.

    python lost_answers.py wal 500        # the answer to the first WAL entry is 500
    python lost_answers.py wal reset      # ... is a reset connection; then the writer is closed
    python lost_answers.py manifest 500   # the answer to the manifest that records the first SSTable is 500

Prints what is stored, and for a manifest what is read, afterwards. The store is a few lines of S3 on loopback,
without signatures.
"""

# ruff: noqa: T201, N815
import http.server
import os
import re
import socket
import struct
import sys
import threading
import urllib.parse
from collections.abc import Callable
from xml.sax.saxutils import escape

import lance
import pyarrow as pa

TARGET, ANSWER = sys.argv[1:3]
SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
# An append-only table shows what is put twice; only one with a key can be scanned.
KEY = {b"lance-schema:unenforced-primary-key": b"true"} if TARGET == "manifest" else None
SCHEMA = pa.schema([pa.field("id", pa.int64(), KEY is None, KEY), pa.field("v", pa.string())])
OBJECTS: dict[str, bytes] = {}
LOCK = threading.Lock()
SPOILT: list[str] = []
SPOIL = {"wal": r".*/wal/10+\.arrow", "manifest": r".*/manifest/010+\.binpb"}[TARGET]


class S3(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "ETag": '"x"', **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    @property
    def key(self) -> str:
        return urllib.parse.unquote(self.path.partition("?")[0]).removeprefix("/bucket").lstrip("/")

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with LOCK:
            taken = self.headers.get("If-None-Match") == "*" and self.key in OBJECTS
            if not taken:
                OBJECTS[self.key] = data
        spoil = not taken and not SPOILT and re.fullmatch(SPOIL, self.key) is not None
        if spoil:
            SPOILT.append(self.key)
        if "/wal/" in self.key or "/manifest/" in self.key:
            number = re.search(r"([01]{64})", self.key)
            name = f"{self.key.split('/')[-2]} {int(number[1][::-1], 2)}" if number else "hint"
            print(f"  PUT {name}: {'412' if taken else 'carried out'}{', answered ' + ANSWER if spoil else ''}")
        if spoil and ANSWER == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        else:
            self.answer(412 if taken else 500 if spoil else 200)

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(self.path.partition("?")[2])
        if "list-type" in query:
            self.list(query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
        elif self.key not in OBJECTS:
            self.answer(404)
        elif asked := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            data = OBJECTS[self.key]
            first = int(asked[1]) if asked[1] else len(data) - int(asked[2])
            last = min(int(asked[2]), len(data) - 1) if asked[1] and asked[2] else len(data) - 1
            self.answer(206, data[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(data)}")
        else:
            self.answer(200, OBJECTS[self.key])

    do_HEAD = do_GET

    def list(self, prefix: str, delimiter: str) -> None:
        keys, folders = [], set()
        for key in sorted(k for k in OBJECTS if k.startswith(prefix)):
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                keys.append(key)
        when = "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        found = "".join(
            f'<Contents><Key>{escape(k)}</Key>{when}<ETag>"x"</ETag><Size>{len(OBJECTS[k])}</Size></Contents>'
            for k in keys
        )
        found += "".join(f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in sorted(folders))
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        self.answer(200, text.encode(), Content_Type="application/xml")


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), [f"v{i}" for i in ids]], schema=SCHEMA)


def attempt(what: str, act: Callable[[], object]) -> None:
    try:
        act()
        print(f"{what}: done")
    except OSError as error:
        print(f"{what}: {str(error).split(', /')[0]}")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), S3)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
OPTIONS = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_region": "us-east-1",
    "aws_endpoint": f"http://127.0.0.1:{server.server_address[1]}",
    "allow_http": "true",
    "client_max_retries": "3",
}
# Writers of 7.x and 8.0 do not take over the options of their dataset.
os.environ.update({name.upper(): value for name, value in OPTIONS.items() if name.startswith("aws_")})
os.environ.update(AWS_DEFAULT_REGION="us-east-1", AWS_ALLOW_HTTP="true")
URL = "s3://bucket/t"
print("pylance", lance.__version__)
lance.write_dataset(rows(), URL, schema=SCHEMA, storage_options=OPTIONS).initialize_mem_wal()
writer = lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True)
attempt("put of row 1", lambda: writer.put(rows(1)))
if TARGET == "wal" and ANSWER == "500":
    CRASHED = dict(OBJECTS)
    attempt("close", writer.close)
    OBJECTS.clear()
    OBJECTS.update(CRASHED)
    print("the store as a crash after the put leaves it; a second writer recovers and closes:")
    attempt("close", lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True).close)
elif TARGET == "wal":
    attempt("close", writer.close)
    second = re.compile(r".*_gen_.*|.*/manifest/010+\.binpb|.*/version_hint\.json")
    CRASHED = {key: data for key, data in OBJECTS.items() if not second.fullmatch(key)}
    OBJECTS.clear()
    OBJECTS.update(CRASHED)
    print("the store as a crash within that close leaves it, after its WAL put; a second writer recovers and closes:")
    attempt("close", lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True).close)
else:
    print("scan beside the writer:", writer.lsm_scanner().to_table()["id"].to_pylist())
    attempt("close", writer.close)
    second = lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True)
    print("scan beside a second writer:", second.lsm_scanner().to_table()["id"].to_pylist())
    attempt("close", second.close)
for name in sorted({k.partition("/_versions/")[0] for k in OBJECTS if "_gen_" in k and "/_versions/" in k}):
    found = lance.dataset(f"s3://bucket/{name}", storage_options=OPTIONS).to_table()["id"].to_pylist()
    print(f"SSTable {name.rpartition('/')[2]} has the rows {found}")
newest = max((k for k in OBJECTS if k.endswith(".binpb")), key=lambda k: k.rpartition("/")[2][:64][::-1])
for path in re.findall(rb"[0-9a-f]{8}_gen_[0-9]+", OBJECTS[newest]):
    print(f"the newest shard manifest lists {path.decode()}")
