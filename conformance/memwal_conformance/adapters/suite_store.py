"""A table as the suite's own roles see it: objects by name, on a disk or behind the gate, asked for one by one."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import LocalStore, S3Store

from ..gate.requests import class_of
from ..judge import artifacts, merging, table
from ..judge.artifacts import Manifest
from ..judge.merging import NextVersion
from ..protocol import AdapterError

REGIONS = "_mem_wal"
_PARTS = ("data", "_deletions", "_indices")
"""Folders of what a table version consists of."""
ATTEMPTS = 20
"""Versions that others may take before a role gives up."""


@dataclass(slots=True)
class Failpoint:
    """Where ``sync.crash`` ends the process."""

    class_: str = ""
    """Of the changes that are counted; empty: none."""
    after: bool = False
    left: int = 0

    def due(self, name: str) -> bool:
        """Count a change of an object; whether the process ends at it."""
        if class_of(f"t/{name}") != self.class_:
            return False
        self.left -= 1
        return self.left == 0


class SuiteTable:
    """The folder of a table. Requests are made once each, so that a fault of the gate is met as it is."""

    def __init__(self, url: str, storage: Mapping[str, str], failpoint: Failpoint | None = None) -> None:
        """``storage`` says where ``s3://`` URLs lead."""
        self.url = url
        self._failpoint = failpoint or Failpoint()
        self.options: dict[str, str] = {}
        """What pylance needs to get to the table."""
        self.store: Any
        if not url.startswith("s3://"):
            self.store = LocalStore(url, automatic_cleanup=True)
            return
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        named = {name: storage[name] for name in ("endpoint", "region", "access_key_id", "secret_access_key")}
        self.options = {f"aws_{name}": value for name, value in named.items()} | {"allow_http": "true"}
        client = {"allow_http": True}
        self.store = S3Store(bucket, prefix=prefix, client_options=client, retry_config={"max_retries": 0}, **named)

    def get(self, name: str) -> bytes:
        """An object."""
        return bytes(obstore.get(self.store, name).bytes())

    def put(self, name: str, data: bytes) -> None:
        """Store an object, whatever is there."""
        with self._change(name):
            obstore.put(self.store, name, data)

    def create(self, name: str, data: bytes) -> None:
        """Store an object that is not there yet. Raises ``AlreadyExistsError``, or another error of the store."""
        with self._change(name):
            obstore.put(self.store, name, data, mode="create")

    def delete(self, name: str) -> None:
        """Delete one object."""
        with self._change(name):
            obstore.delete(self.store, name)

    @contextmanager
    def _change(self, name: str) -> Iterator[None]:
        due = self._failpoint.due(name)
        if due and not self._failpoint.after:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            yield
        finally:
            if due:
                os.kill(os.getpid(), signal.SIGKILL)

    def names(self, folder: str) -> list[str]:
        """Every object below a folder."""
        return [found["path"] for page in obstore.list(self.store, prefix=folder) for found in page]

    def regions(self) -> list[str]:
        """Ids of the regions that have a folder."""
        return sorted({name.split("/")[1] for name in self.names(REGIONS)})

    def newest_manifest(self, region_id: str) -> tuple[Manifest, bytes] | None:
        """The newest manifest of a region, and its bytes; None if it has none."""
        folder = f"{REGIONS}/{region_id}/manifest"
        numbers = [n for name in self.names(folder) if (n := artifacts.number_of(name, "binpb")) is not None]
        if not numbers:
            return None
        data = self.get(f"{folder}/{artifacts.name_of(max(numbers), 'binpb')}")
        return artifacts.manifest(data, region_id, max(numbers)), data

    def newest_version(self) -> tuple[int, bytes]:
        """The newest table version, and its manifest file."""
        found = {v: name for name in self.names("_versions") if (v := table.table_version(name.rpartition("/")[2]))}
        if not found:
            raise AdapterError("not_found", f"there is no table {self.url}")
        return max(found), self.get(found[max(found)])

    @contextmanager
    def copied(self, *names: str) -> Iterator[Path]:
        """A copy of objects, for the judge and pylance to read, and for pylance to write into."""
        with tempfile.TemporaryDirectory(prefix="memwal-suite-") as place:
            for name in names:
                file = Path(place) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(self.get(name))
            yield Path(place)

    @contextmanager
    def changed(self, base: bytes, *more: str) -> Iterator[tuple[Path, Callable[[], bytes]]]:
        """A copy of the version ``base`` of the table, and of ``more``, for pylance to change.

        What comes with it stores the files that are new there, and gives the newest manifest file.
        """
        name = table.manifest_name(table.table_manifest(base).version)
        files = [file for part in _PARTS for file in self.names(part)]
        with self.copied(*files, f"_versions/{name}", *more) as root:

            def store_what_is_new() -> bytes:
                there = {str(file.relative_to(root)) for part in _PARTS for file in (root / part).rglob("*")}
                for new in sorted(there - set(files)):
                    if (root / new).is_file():
                        self.put(new, (root / new).read_bytes())
                return list(table.versions(root).values())[-1].read_bytes()

            yield root, store_what_is_new


def commit(where: SuiteTable, following: NextVersion) -> bool:
    """Store a table version, unless another has it; whether it is stored, also where the answer was lost."""
    name = f"_versions/{table.manifest_name(following.version)}"
    where.put(f"_transactions/{following.transaction_name}", following.transaction)
    try:
        where.create(name, following.manifest)
    except exceptions.BaseError:
        try:
            return merging.transaction_of(where.get(name)) == following.transaction_name
        except FileNotFoundError:
            return False
    return True
