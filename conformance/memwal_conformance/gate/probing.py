"""Is the store one whose conditional puts can be believed? Asked before anything is judged."""

from __future__ import annotations

import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote, urlsplit

from memwal.errors import InvalidArgument, MemwalError
from memwal.words import reason

from .signing import Credentials, sign

RACERS = 50


class NotAtomic(MemwalError):
    """A conditional put of the store does not do what the protocol rests on: nothing there can be judged."""


def probe(
    endpoint: str,
    credentials: Credentials,
    bucket: str = "memwal",
    *,
    racers: int = RACERS,
    limit_s: float = 10.0,
) -> None:
    """Create one name twice, then another one by ``racers`` at once, and delete both.

    ``endpoint``: ``http://host:port``, path style. Raises `NotAtomic` unless the two give 200 and 412, the race has one
    winner and its object, and losers are told 412 (or 409, which decides nothing); or if the store does not answer.
    """
    parts = urlsplit(endpoint)
    if parts.scheme != "http" or parts.hostname is None or parts.path.strip("/"):
        raise InvalidArgument(f"{endpoint!r} is not http://host:port")
    store = _Client(parts.hostname, parts.port or 80, credentials, bucket, limit_s)
    folder = f"_memwal_probe/{secrets.token_hex(8)}"
    twice, raced = f"{folder}/twice", f"{folder}/raced"
    try:
        _twice(store, twice)
        _race(store, raced, racers)
        for key in (twice, raced):
            status, _ = store.send("DELETE", key)
            if status not in (200, 204):
                raise NotAtomic(f"the probe's object {key} could not be deleted: {status}")
    except (OSError, HTTPException) as error:
        raise NotAtomic(f"the store at {endpoint} did not answer the probe: {reason(error)}") from error


def _twice(store: _Client, key: str) -> None:
    statuses = [store.create(key, data) for data in (b"first", b"second")]
    found = store.send("GET", key)
    if statuses != [200, 412] or found != (200, b"first"):
        raise NotAtomic(f"creating one name twice gave {statuses} and left {found}, not 200, then 412, and the first")


def _race(store: _Client, key: str, racers: int) -> None:
    start = threading.Barrier(racers)

    def create(number: int) -> int:
        start.wait()
        return store.create(key, b"%d" % number)

    with ThreadPoolExecutor(racers) as pool:
        statuses = list(pool.map(create, range(racers)))
    winners = [number for number, status in enumerate(statuses) if status == 200]
    if len(winners) != 1 or set(statuses) - {200, 409, 412}:
        raise NotAtomic(
            f"of {racers} racing creations of one name {len(winners)} won; statuses {sorted(set(statuses))}"
        )
    found = store.send("GET", key)
    if found != (200, b"%d" % winners[0]):
        raise NotAtomic(f"racer {winners[0]} won, but the object is {found}")


class _Client:
    """Just enough S3 to ask."""

    def __init__(self, host: str, port: int, credentials: Credentials, bucket: str, limit_s: float) -> None:
        self._host, self._port, self._credentials, self._bucket, self._limit_s = (
            host,
            port,
            credentials,
            bucket,
            limit_s,
        )

    def create(self, key: str, data: bytes) -> int:
        """Status of a put that must find the name free."""
        return self.send("PUT", key, data, {"if-none-match": "*"})[0]

    def send(self, method: str, key: str, data: bytes = b"", more: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Status and body of one request on a connection of its own."""
        path = quote(f"/{self._bucket}/{key}")
        headers = {"host": f"{self._host}:{self._port}", **(more or {})}
        signed = sign(self._credentials, method, path, "", headers, data, time.time())
        connection = HTTPConnection(self._host, self._port, timeout=self._limit_s)
        try:
            connection.request(method, path, body=data if method == "PUT" else None, headers=signed)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
