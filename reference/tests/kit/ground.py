"""A store in a dictionary, processes that are stepped by hand on it, and a region to play on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
from memwal import paths
from memwal.codec import hint, region_manifest, wal
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.codec.wal import WalEntry
from memwal.effects import Get, Head, Io, List, ListFolders, Note, Now, Protocol, RandomHex, Request, StoreRequest
from memwal.errors import Outcome
from memwal.ids import Epoch, Generation, ManifestVersion, Milliseconds, RegionId, SpecId, WalPosition
from memwal.region.region import Region
from memwal.region.rows import Rows
from memwal.revisions import REVISIONS, STRICT, Interpretation, Revision
from memwal.stores.memory import MemoryStore, Objects

T = TypeVar("T")

REGION = RegionId("7c9e6679-7425-40de-944b-e07fc1f90ae7")
ROOT = f"t/_mem_wal/{REGION}"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])

READS = (Get, Head, List, ListFolders)
"""Requests that change nothing."""


class Ground:
    """A store in memory: quick to copy and to damage; it keeps every request that was made of it."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.store = MemoryStore(objects)
        self.asked: list[StoreRequest[Any]] = []
        self.notes: list[Note] = []
        self.before: Callable[[StoreRequest[Any]], BaseException | None] = lambda request: None
        """Called before each request to the store; what it returns is raised in place of performing it."""
        self.after: Callable[[StoreRequest[Any]], None] = lambda request: None
        """Called after every request that changed something."""
        self.drawn = 0
        """How often anybody asked for random digits."""

    @classmethod
    def of(cls, folder: Path) -> Ground:
        """The files below ``folder``."""
        files = (path for path in folder.rglob("*") if path.is_file())
        return cls({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})

    def copy(self) -> Ground:
        """Another store with the same objects, which draws what this one would."""
        other = Ground(self.objects)
        other.drawn = self.drawn
        return other

    @property
    def objects(self) -> Objects:
        """What is in the store, to look at and to change."""
        return self.store.objects

    def run(self, coroutine: Protocol[T]) -> T:
        """Drive ``coroutine`` to its end."""
        return Actor(self, coroutine).finish()

    @property
    def requests(self) -> Counter[str]:
        """Requests to the store by kind."""
        return Counter(type(request).__name__ for request in self.asked)

    @property
    def changes(self) -> int:
        """How many of them were no reads."""
        return sum(not isinstance(request, READS) for request in self.asked)

    def counted(self, coroutine: Protocol[Any]) -> Counter[str]:
        """Requests by kind that ``coroutine`` makes to its end."""
        before = self.requests
        self.run(coroutine)
        return self.requests - before

    def below(self, folder: str = "") -> list[str]:
        """Names in the region's folder that start with ``folder``, without the region's folder."""
        return sorted(n.removeprefix(f"{ROOT}/") for n in self.objects if n.startswith(f"{ROOT}/{folder}"))

    def events(self, name: str) -> list[dict[str, object]]:
        """Fields of the notes called ``name``."""
        return [dict(note.fields) for note in self.notes if note.event == name]

    def local(self, request: Request[Any]) -> Any:
        """The reply to a request that is not to the store."""
        match request:
            case Note():
                self.notes.append(request)
            case RandomHex(digits):
                self.drawn += 1
                return f"{self.drawn:0{digits}x}"
            case Now():
                return Milliseconds(1_700_000_000_000)
        return None

    def perform(self, request: Request[Any]) -> Any:
        """The reply; raises the store's outcome."""
        if not isinstance(request, StoreRequest):
            return self.local(request)
        self.asked.append(request)
        failure = self.before(request)
        if failure is not None:
            raise failure
        reply = self.apply(request)
        if not isinstance(request, READS):
            self.after(request)
        return reply

    def apply(self, request: StoreRequest[Any]) -> Any:
        """As the store alone performs it."""
        return self.store.perform(request)


class Actor(Generic[T]):
    """A process: its coroutine stands at ``waiting``, which is not performed yet, until it is stepped."""

    def __init__(self, ground: Ground, coroutine: Protocol[T]) -> None:
        self.ground = ground
        self._coroutine = coroutine
        self._ended: tuple[T] | None = None
        self.waiting: StoreRequest[Any] | None = None
        self._resume(None, None)

    def step(self) -> None:
        """Perform the waiting request and continue to the next one."""
        assert self.waiting is not None
        try:
            reply = self.ground.perform(self.waiting)
        except Outcome as failure:
            self._resume(None, failure)
        else:
            self._resume(reply, None)

    def answer(self, failure: Outcome, *, applied: bool) -> None:
        """Let the waiting request fail for the process; ``applied``: it reached the store all the same."""
        assert self.waiting is not None
        if applied:
            with suppress(Outcome):
                self.ground.apply(self.waiting)
        self._resume(None, failure)

    def until(self, kind: type[StoreRequest[Any]], name: str) -> Actor[T]:
        """Step until a request of ``kind`` whose path contains ``name`` waits; returns this actor."""
        while self.waiting is not None and not (isinstance(self.waiting, kind) and name in self.waiting.path):
            self.step()
        assert self.waiting is not None, f"the process ended before a {kind.__name__} of {name}"
        return self

    def stepped(self, times: int) -> Actor[T]:
        """Step so many times, or to the end; returns this actor."""
        for _ in range(times):
            if self.waiting is not None:
                self.step()
        return self

    def abandon(self) -> None:
        """End the process where it stands."""
        self._coroutine.close()

    def finish(self) -> T:
        """Step to the end; returns the result or raises."""
        while self.waiting is not None:
            self.step()
        assert self._ended is not None
        return self._ended[0]

    def _resume(self, reply: Any, failure: Outcome | None) -> None:
        self.waiting = None
        while True:
            try:
                request = self._coroutine.throw(failure) if failure is not None else self._coroutine.send(reply)
            except StopIteration as stop:
                self._ended = (stop.value,)
                return
            failure = None
            if isinstance(request, StoreRequest):
                self.waiting = request
                return
            reply = self.ground.local(request)


def region(revision: str | Revision, *, interpretation: Interpretation = STRICT, **options: Any) -> Region:
    """The region as its writers know it, who read the texts by ``interpretation``."""
    chosen = revision if isinstance(revision, Revision) else REVISIONS[revision]
    ids = (("id", 0), ("v", 1))
    rows = Rows(table=SCHEMA, key=("id",), revision=chosen, field_ids=ids)  # type: ignore[arg-type]
    return Region(io=Io(ROOT, interpretation=interpretation), region_id=REGION, revision=chosen, rows=rows, **options)


def row(key: int, value: str = "x") -> pa.Table:
    """One row."""
    return pa.table([pa.array([key]), pa.array([value])], schema=SCHEMA)


def keys(table: pa.Table) -> list[int]:
    """Its keys, in order."""
    found: list[int] = table.column("id").to_pylist()
    return found


def manifest(version: int, epoch: int = 1, *, after: int = 0, seen: int = 0, generation: int = 1) -> RegionManifest:
    """A manifest that lists every generation below ``generation``."""
    below = [Generation(number) for number in range(1, generation)]
    return RegionManifest(
        version=ManifestVersion(version),
        region_id=REGION,
        spec_id=SpecId(0),
        epoch=Epoch(epoch),
        position_replay_after=WalPosition(after),
        position_last_seen=WalPosition(seen),
        generation_current=Generation(generation),
        flushed=tuple(FlushedGeneration(generation=g, path=f"{g:08x}_gen_{g}") for g in below),
    )


def manifest_name(version: int) -> str:
    """Full name of a manifest version."""
    return f"{ROOT}/{paths.manifest(ManifestVersion(version))}"


def put_manifests(ground: Ground, revision: Revision, *manifests: RegionManifest, hint_at: int | None = None) -> None:
    """Store manifests, and a hint if one is given."""
    for each in manifests:
        ground.objects[manifest_name(each.version)] = region_manifest.encode(each, revision)
    if hint_at is not None:
        put_hint(ground, hint.encode(ManifestVersion(hint_at)))


def put_hint(ground: Ground, data: bytes) -> None:
    """Store ``data`` as the hint."""
    ground.objects[f"{ROOT}/{paths.VERSION_HINT}"] = data


def hinted(ground: Ground) -> bytes | None:
    """Bytes of the hint, if there is one."""
    return ground.objects.get(f"{ROOT}/{paths.VERSION_HINT}")


def versions(ground: Ground) -> dict[int, RegionManifest]:
    """The manifests that are there, by version."""
    found = {}
    for name in ground.below("manifest/"):
        if (version := paths.manifest_version(name)) is not None:
            data = ground.objects[f"{ROOT}/{name}"]
            found[int(version)] = region_manifest.decode(data, REVISIONS["R"], f"{ROOT}/{name}")
    return dict(sorted(found.items()))


def entry_name(revision: Revision, position: int) -> str:
    """Full name of a WAL entry."""
    return f"{ROOT}/{paths.wal(WalPosition(position), revision.wal_suffix)}"


def put_entry(
    ground: Ground, revision: Revision, position: int, epoch: int, rows: pa.Table | None = None, generation: int = 3
) -> None:
    """Store a WAL entry with ``rows``, of ``generation`` where it says so (R); without any it is a barrier."""
    held = region(revision).rows
    stored = held.schema.empty_table() if rows is None else held.upserts(rows)
    entry = WalEntry(epoch=Epoch(epoch), rows=stored, generation=Generation(generation), barrier=rows is None)
    ground.objects[entry_name(revision, position)] = wal.encode(entry, revision)


def entries(ground: Ground, revision: Revision) -> dict[int, tuple[int, list[int]]]:
    """Position -> epoch and keys of each WAL entry."""
    found = {}
    for name in ground.below("wal/"):
        position = paths.wal_position(name, revision.wal_suffix)
        assert position is not None, name
        entry = wal.decode(ground.objects[f"{ROOT}/{name}"], revision, name)
        found[int(position)] = int(entry.epoch), keys(entry.rows) if entry.rows.num_rows else []
    return dict(sorted(found.items()))
