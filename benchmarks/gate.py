"""Requests per second through the gate, and processor time of each.

    python benchmarks/gate.py [--requests 20000] [--clients 4] [--json]

Clients are another process with keep-alive connections, one thread each, and requests that were signed beforehand, so
that what is measured is the gate: parsing, verifying signature and payload, the simulated store, the log, the reply.
The gate's processor time is that of its thread. Bodies have 1 KiB.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from memwal_conformance.gate import Credentials, Gate, GateLimits
from memwal_conformance.gate.signing import sign

BODY = b"x" * 1024
OBJECTS = 256

Result = dict[str, float | str]


def request(gate: tuple[str, int, str], key: Credentials, method: str, name: str, *, create: bool = False) -> bytes:
    """The bytes of one signed request."""
    host, port, bucket = gate
    body = BODY if method == "PUT" else b""
    path = f"/{bucket}/{name}"
    headers = {"host": f"{host}:{port}", **({"if-none-match": "*"} if create else {})}
    signed = sign(key, method, path, "", headers, body, time.time())
    lines = "".join(f"{n}: {v}\r\n" for n, v in signed.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def send(address: tuple[str, int], requests: list[bytes], *, head: bool) -> None:
    """Send each request and read its reply, on one connection."""
    with socket.create_connection(address) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for each in requests:
            wire.sendall(each)
            data = b""
            while b"\r\n\r\n" not in data:
                data += wire.recv(1 << 16)
            top, _, body = data.partition(b"\r\n\r\n")
            size = 0 if head else int(top.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            while len(body) < size:
                body += wire.recv(1 << 16)
            if not top.startswith(b"HTTP/1.1 200 "):
                raise SystemExit(top.decode())


def clients(address: tuple[str, int], batches: list[list[bytes]], head: bool) -> float:
    """Seconds that all batches take, one connection each."""
    threads = [threading.Thread(target=send, args=(address, batch), kwargs={"head": head}) for batch in batches]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


@contextmanager
def opened(requests: int) -> Iterator[tuple[Gate, tuple[str, int], Credentials]]:
    """A gate with some objects."""
    with Gate(limits=GateLimits(log_entries=10 * requests + 10_000)) as gate:
        key = gate.credentials("bench")
        host, _, port = gate.endpoint.removeprefix("http://").partition(":")
        address = host, int(port)
        send(address, [request((*address, gate.bucket), key, "PUT", f"seed/{n}") for n in range(OBJECTS)], head=False)
        yield gate, address, key


def measure(total: int, count: int, pool: ProcessPoolExecutor) -> list[Result]:
    """One result for each kind of request."""
    makers: dict[str, tuple[str, Callable[[int], str], bool]] = {
        "GET": ("GET", lambda n: f"seed/{n % OBJECTS}", False),
        "HEAD": ("HEAD", lambda n: f"seed/{n % OBJECTS}", False),
        "PUT, replacing": ("PUT", lambda n: f"seed/{n % OBJECTS}", False),
        "PUT, if absent": ("PUT", lambda n: f"new/{n}", True),
    }
    results: list[Result] = []
    for kind, (method, name, create) in makers.items():
        with opened(total) as (gate, address, key):
            place = (*address, gate.bucket)
            share = total // count if not create else min(total, 2000) // count
            batches = [
                [request(place, key, method, name(c * share + n), create=create) for n in range(share)]
                for c in range(count)
            ]
            before = gate.call(time.thread_time)
            seconds = pool.submit(clients, address, batches, method == "HEAD").result()
            cpu = gate.call(time.thread_time) - before
        done = share * count
        results.append(
            {
                "request": kind,
                "requests": done,
                "per_s": done / seconds,
                "cpu_us": cpu / done * 1e6,
                "per_core_s": done / cpu,
            }
        )
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        results = measure(wanted.requests, wanted.clients, pool)
    if wanted.json:
        json.dump(results, sys.stdout, indent=2)
        return
    print(f"{'request':<16} {'requests':>8} {'per second':>11} {'CPU us each':>12} {'per core and s':>15}")
    for row in results:
        print(
            f"{row['request']:<16} {row['requests']:>8} {row['per_s']:>11,.0f} {row['cpu_us']:>12.1f} "
            f"{row['per_core_s']:>15,.0f}"
        )


if __name__ == "__main__":
    main()
