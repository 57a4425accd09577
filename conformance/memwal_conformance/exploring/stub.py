"""A small S3 store on loopback, in memory, that does one thing wrong: a part of each finding's file."""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse
from xml.sax.saxutils import escape, unescape

_Answer = tuple[int, bytes, dict[str, str]]
BUCKET = "memwal"
CODES = {403: "AccessDenied", 404: "NoSuchKey", 408: "RequestTimeout", 409: "ConditionalRequestConflict"}
CODES |= {412: "PreconditionFailed", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class StubStore:
    """Objects by name, and what they were after each change."""

    def __init__(self, objects: dict[str, bytes], rules: list[dict[str, Any]], storage: dict[str, str]) -> None:
        self.objects, self.rules, self.storage = dict(objects), rules, storage
        self.states = [dict(objects)]
        self.log: list[str] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.met: Counter[int] = Counter()
        self.lock = threading.Lock()
        self.server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": self}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def options(self, actor: str) -> dict[str, str]:
        """Storage options of the package, and the environment that some calls read instead; the key is the actor."""
        key = {"aws_access_key_id": actor, "aws_secret_access_key": "secret", "aws_region": "us-east-1"}
        place = {"aws_endpoint": f"http://127.0.0.1:{self.server.server_address[1]}", "allow_http": "true"}
        os.environ.update({name.upper(): value for name, value in (key | place).items() if name.startswith("aws_")})
        os.environ["AWS_ALLOW_HTTP"] = "true"
        return {**key, **place, **self.storage}

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
    disable_nagle_algorithm = True
    """A reply goes out at once: a body does not wait until the client has confirmed its headers."""

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
        """End the connection so that the client sees a reset, after which clients do other things than after an end."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()

    def operation(self, query: dict[str, str]) -> str:
        if self.command == "GET":
            return "LIST" if "list-type" in query else "GET"
        if self.command == "PUT" and self.headers.get("If-None-Match") == "*":
            return "CREATE"
        return "DELETE_MANY" if self.command == "POST" and "delete" in query else self.command

    def send(self, reply: _Answer, *, half: bool) -> None:
        status, body, headers = reply
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if half else body)
        if half:
            self.close_connection = True

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
        if operation == "DELETE_MANY":
            names = re.findall("<Key>(.*?)</Key>", body.decode())
            before = len(objects)
            for name in names:
                objects.pop(unescape(name), None)
            if len(objects) < before:
                self.store.states.append(dict(objects))
            gone = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            return self.answer(200, f'<?xml version="1.0"?><DeleteResult>{gone}</DeleteResult>'.encode())
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

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = serve
