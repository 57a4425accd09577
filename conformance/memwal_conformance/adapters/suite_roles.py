"""The suite's own collector behind the adapter protocol: ``python -m memwal_conformance.adapters.suite_roles``.

For implementations that have none. It does what the texts allow and not more, by the judge's decoders, under any
revision and for any table that the judge can read: no line of it is the reference engine's, and it asks the adapter
under test nothing.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import LocalStore, S3Store

from ..judge import artifacts, collecting, table
from ..protocol import AdapterError, Json
from .serve import Handler, serve

_ATTEMPTS = 20
"""Manifest versions that others may take before the collector gives up."""


def hello(_: Json) -> Json:
    return {
        "protocol": "1",
        "implementation": "suite",
        "version": "1",
        "revisions": ["A", "B", "R"],
        "roles": ["collector"],
        "capabilities": ["s3"],
    }


class Collector:
    """What is kept between messages: where ``s3://`` URLs lead."""

    def __init__(self) -> None:
        self._storage: Json = {}

    def configure(self, params: Json) -> Json:
        """Take where the tables are."""
        self._storage = params.get("storage", {})
        return {}

    def _opened(self, url: str) -> Any:
        if not url.startswith("s3://"):
            return LocalStore(url, automatic_cleanup=True)
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        return S3Store(
            bucket,
            prefix=prefix,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
            **{name: self._storage[name] for name in ("endpoint", "region", "access_key_id", "secret_access_key")},
        )

    def gc_run(self, params: Json) -> Json:
        """Old table versions go first; then, from manifest and store, what all that stay have merged."""
        store = self._opened(params["table"])
        with _copied(store, ["_versions"]) as root:
            files = [path for _, path in sorted(table.versions(root).items())]
            for path in files[: -params["retain_versions"]]:
                obstore.delete(store, f"_versions/{path.name}")
            retained = [table.table_manifest(path.read_bytes()) for path in files[-params["retain_versions"] :]]
        gone = []
        for region_id in _regions(store):
            for number, folder in _dropped(store, region_id, collecting.bound(retained, region_id)):
                for name in _names(store, f"_mem_wal/{region_id}/{folder}"):
                    obstore.delete(store, name)  # one by one, so that a rule of the gate can meet each
                gone.append({"region_id": region_id, "generation": str(number)})
        return {"generations": gone}


def _dropped(store: Any, region_id: str, bound: int) -> Sequence[tuple[int, str]]:
    """Number and folder of the generations up to ``bound`` that a new manifest version leaves out."""
    folder = f"_mem_wal/{region_id}/manifest"
    for _ in range(_ATTEMPTS):
        numbers = [n for name in _names(store, folder) if (n := artifacts.number_of(name, "binpb")) is not None]
        if not numbers:
            return ()
        newest = f"{folder}/{artifacts.name_of(max(numbers), 'binpb')}"
        data = bytes(obstore.get(store, newest).bytes())
        listed = artifacts.manifest(data, region_id, max(numbers)).generations
        old = [(generation.number, generation.path) for generation in listed if generation.number <= bound]
        if not old:
            return ()
        after = max(numbers) + 1
        try:
            changed = collecting.without(data, {number for number, _ in old}, after)
            obstore.put(store, f"{folder}/{artifacts.name_of(after, 'binpb')}", changed, mode="create")
        except exceptions.AlreadyExistsError:
            continue  # another process committed: begin again with what is there now
        obstore.put(store, f"{folder}/version_hint.json", json.dumps({"version": after}).encode())
        return old
    raise AdapterError("conflict", f"{_ATTEMPTS} manifest versions of {region_id} were taken by others")


def _names(store: Any, folder: str) -> list[str]:
    return [found["path"] for page in obstore.list(store, prefix=folder) for found in page]


def _regions(store: Any) -> list[str]:
    return sorted({name.split("/")[1] for name in _names(store, "_mem_wal")})


@contextmanager
def _copied(store: Any, folders: Sequence[str]) -> Iterator[Path]:
    """A copy of folders of the table, for the judge to read."""
    with tempfile.TemporaryDirectory(prefix="memwal-suite-") as place:
        for name in (name for folder in folders for name in _names(store, folder)):
            file = Path(place) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(obstore.get(store, name).bytes()))
        yield Path(place)


def handlers() -> dict[str, Handler]:
    """A function per message, sharing one collector."""
    collector = Collector()
    answers: dict[str, Callable[[Json], Json]] = {
        "hello": hello,
        "configure": collector.configure,
        "shutdown": lambda _: {},
        "gc.run": collector.gc_run,
    }
    return answers


if __name__ == "__main__":
    serve(handlers(), {exceptions.BaseError: "storage", OSError: "storage"})
