"""The process that `memwal verify` runs its inspection in: a request on standard input, lines of JSON on output."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from memwal.api.place import find, named_revision
from memwal.api.verifying import verify_place
from memwal.effects import Get, StoreRequest
from memwal.errors import MemwalError, StorageError
from memwal.invariants import Report
from memwal.stores.base import Store


class Watched:
    """A store that says what is read from it, and refuses objects whose reading has ended a process before."""

    def __init__(self, store: Store, root: str, skip: frozenset[str]) -> None:
        self._store, self._root, self._skip = store, root, skip

    def perform(self, request: StoreRequest[Any]) -> Any:
        """Perform ``request``; see `Store.perform`."""
        if isinstance(request, Get):
            if request.path in self._skip:
                raise StorageError(request.path, "reading it has ended the process")
            prefix = f"{self._root}/" if self._root else ""
            say({"reading": {"path": request.path.removeprefix(prefix), "full_path": request.path}})
        return self._store.perform(request)

    def describe(self) -> str:
        """Where the objects are."""
        return self._store.describe()

    def close(self) -> None:
        """Release what the store holds."""
        self._store.close()


def say(value: dict[str, Any]) -> None:
    """One line of output, at once."""
    sys.stdout.write(json.dumps(value, default=str) + "\n")
    sys.stdout.flush()


def as_json(report: Report) -> dict[str, Any]:
    """The report with the stable field names of docs/verify.md."""
    return {
        "clean": report.clean,
        "revision": report.revision,
        "version": report.version,
        "mem_wal": report.mem_wal,
        "fast": report.fast,
        "moved": report.moved,
        "findings": [asdict(one) for one in report.findings],
        "suppressed": dict(report.suppressed),
        "looked_at": dict(report.looked_at),
        "notes": list(report.notes),
    }


def main() -> None:
    """Inspect the table that the request names."""
    asked = json.load(sys.stdin)
    try:
        found = find(asked["url"], None, None, lambda event, fields: say({"note": event, "fields": fields}))
        store = Watched(found.store, found.io.root, frozenset(asked["skip"]))
        place = find(found.io.root, None, store, found.listener)
        revision = named_revision(asked["revision"]) if asked["revision"] is not None else None
        say({"report": as_json(verify_place(place, revision, fast=asked["fast"]))})
    except MemwalError as error:
        say({"refused": {"kind": type(error).__name__, "text": str(error)}})
