"""A few lines of S3 on loopback, without signatures: what the scripts beside it need of it."""

# ruff: noqa: T201, N815
import http.server
import os
import re
import socket
import struct
import threading
import urllib.parse
from collections.abc import Callable
from xml.sax.saxutils import escape

OBJECTS: dict[str, bytes] = {}
SPOIL: list[tuple[str, str]] = []
"""Pattern of a key, and what the first put of such a key is answered with after it was carried out."""
HOLD: list[Callable[[str, str], None]] = []
"""Called with the verb and the path of a request before it is carried out."""
REFUSE: list[str] = []
"""Patterns of keys whose puts are refused, with 403."""
REFUSED: list[str] = []
"""Keys of the puts that were."""
_LOCK = threading.Lock()


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
        for hold in HOLD:
            hold("PUT", self.path)
        if any(re.fullmatch(pattern, self.key) for pattern in REFUSE):
            REFUSED.append(self.key)
            self.answer(403)
            return
        with _LOCK:
            taken = self.headers.get("If-None-Match") == "*" and self.key in OBJECTS
            if not taken:
                OBJECTS[self.key] = data
            spoilt = ""
            if not taken and SPOIL and re.fullmatch(SPOIL[0][0], self.key) is not None:
                spoilt = SPOIL.pop(0)[1]
        if "/wal/" in self.key or "/manifest/" in self.key:
            number = re.search(r"([01]{64})", self.key)
            name = f"{self.key.split('/')[-2]} {int(number[1][::-1], 2)}" if number else "hint"
            print(f"  PUT {name}: {'412' if taken else 'carried out'}{f', answered {spoilt}' if spoilt else ''}")
        if spoilt == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        else:
            self.answer(412 if taken else int(spoilt or 200))

    def do_GET(self) -> None:
        for hold in HOLD:
            hold(self.command, self.path)
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


def served() -> dict[str, str]:
    """Storage options of a store that this process serves from now on; they are in the environment, too."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), S3)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        "aws_endpoint": f"http://127.0.0.1:{server.server_address[1]}",
        "allow_http": "true",
        "client_max_retries": "3",
    }
    # Writers of 7.x and 8.0 do not take over the options of their dataset.
    os.environ.update({name.upper(): value for name, value in options.items() if name.startswith("aws_")})
    os.environ.update(AWS_DEFAULT_REGION="us-east-1", AWS_ALLOW_HTTP="true")
    return options
