"""A region without a table around it, and a store whose answers a test chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
from memwal import paths
from memwal.codec import wal
from memwal.codec.region_manifest import RegionManifest
from memwal.codec.wal import WalEntry
from memwal.effects import Io, Note, Now, Protocol, PutIfAbsent, RandomHex, Request, Sleep, StoreRequest, run
from memwal.errors import Outcome
from memwal.ids import Milliseconds, RegionId, WalPosition
from memwal.maintained.base_index import MaintainedIndex
from memwal.region import manifest as manifests
from memwal.region.limits import Limits
from memwal.region.opening import open_writer
from memwal.region.region import Region
from memwal.region.rows import Rows
from memwal.region.writer import RegionWriter
from memwal.revisions import REVISIONS, STRICT
from memwal.stores.local import LocalStore
from memwal.table import read
from memwal.table import schema as schemas
from memwal.table import state as states

T = TypeVar("T")

REGION = RegionId("00000000-0000-4000-8000-00000000000a")
SCHEMA = schemas.with_primary_key(pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())]), ["id"])
UNTIMED = Limits(wal_interval_ms=None)

Pair = tuple[int, str | None]


def rows(*pairs: Pair) -> pa.Table:
    """Rows (id, v)."""
    return pa.table({"id": [i for i, _ in pairs], "v": [v for _, v in pairs]}, schema=SCHEMA)


def pairs(table: pa.Table) -> list[Pair]:
    """(id, v) of each row, in order."""
    return list(zip(table.column("id").to_pylist(), table.column("v").to_pylist(), strict=True))


@dataclass(slots=True)
class Fault:
    """What happens, once, to the next request whose kind and path fit."""

    kind: type[Request[Any]]
    part: str
    failure: BaseException
    applied: bool
    """The store performs the request all the same, and nobody hears of it."""


@dataclass(slots=True)
class Scene:
    """A store with one region in it."""

    store: LocalStore
    region: Region
    seen: list[StoreRequest[Any]] = field(default_factory=list)
    """Requests to the store, in order."""
    notes: list[Note] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    now_ms: int = 1_000_000
    looks: int = 0
    """How often anybody asked for the time."""
    slept: list[int] = field(default_factory=list)
    """Pauses in milliseconds."""
    drawn: int = 0
    """How often anybody asked for random digits."""

    def perform(self, request: Request[Any]) -> Any:
        match request:
            case StoreRequest():
                self.seen.append(request)
                return self._stored(request)
            case Now():
                self.looks += 1
                return Milliseconds(self.now_ms)
            case Sleep(duration_ms):
                self.slept.append(duration_ms)
            case RandomHex(digits):
                self.drawn += 1
                return format(self.drawn, "x").rjust(digits, "0")
            case Note():
                self.notes.append(request)
        return None

    def _stored(self, request: StoreRequest[Any]) -> Any:
        for fault in self.faults:
            if isinstance(request, fault.kind) and fault.part in request.path:
                self.faults.remove(fault)
                if fault.applied:
                    self.store.perform(request)
                raise fault.failure
        return self.store.perform(request)

    def fail(
        self,
        part: str,
        failure: BaseException,
        *,
        times: int = 1,
        applied: bool = False,
        kind: type[Request[Any]] = PutIfAbsent,
    ) -> None:
        """The next ``times`` requests of ``kind`` on paths that contain ``part`` meet ``failure``."""
        self.faults += [Fault(kind, part, failure, applied)] * times

    def run(self, coroutine: Protocol[T]) -> T:
        return run(coroutine, self.perform)

    def pause(self, coroutine: Protocol[T]) -> Paused[T]:
        return Paused(coroutine, self.perform)

    def open(self, limits: Limits = UNTIMED, maintained: Sequence[MaintainedIndex] = ()) -> RegionWriter:
        return self.run(open_writer(self.region, limits=limits, maintained=maintained))

    def puts(self) -> list[str]:
        """What was created, or was to be, in order, relative to the region."""
        return [self.region.io.relative(r.path) for r in self.seen if isinstance(r, PutIfAbsent)]

    def manifest(self) -> RegionManifest:
        """The newest manifest in the store."""
        return run(manifests.require(self.region.io, self.region.revision), self.store.perform)

    def claimed(self) -> bool:
        """Whether anybody ever claimed the region."""
        return run(manifests.latest(self.region.io, self.region.revision), self.store.perform) is not None

    def entry(self, position: int) -> WalEntry:
        """The WAL entry at ``position``; raises `NotFound`."""
        name = paths.wal(WalPosition(position), self.region.revision.wal_suffix)
        data = run(self.region.io.get(name), self.store.perform)
        return wal.decode(data, self.region.revision, name)

    def positions(self) -> list[int]:
        """Positions of the entries in the store, ascending."""
        names = run(self.region.io.list("wal"), self.store.perform)
        found = (paths.wal_position(name, self.region.revision.wal_suffix) for name in names)
        return sorted(p for p in found if p is not None)

    def entries(self) -> list[list[Pair]]:
        """Rows of the entries that have any, by position."""
        held = [self.entry(position).rows for position in self.positions()]
        return [pairs(table) for table in held if table.num_rows]

    def generation(self, folder: str) -> pa.Table:
        """All rows of a generation, with their addresses."""
        io = self.region.io.child(folder)

        async def scan() -> pa.Table:
            return await read.scan(io, await states.latest(io), with_row_address=True)

        return run(scan(), self._unnoted)

    def _unnoted(self, request: Request[Any]) -> Any:
        return self.store.perform(request) if isinstance(request, StoreRequest) else None

    def recovered(self) -> list[Pair]:
        """Rows that a new writer of the region holds in memory, which claims it."""
        again = Scene(self.store, self.region, drawn=1000)
        return [pair for memtable in again.open().unflushed() for pair in pairs(memtable.table())]

    def changed(self, **changes: Any) -> Scene:
        """The same store, under a region that differs."""
        return Scene(self.store, replace(self.region, **changes), drawn=self.drawn)


class Paused(Generic[T]):
    """A coroutine that a test runs from request to request."""

    def __init__(self, coroutine: Protocol[T], perform: Callable[[Request[Any]], Any]) -> None:
        self._coroutine, self._perform = coroutine, perform
        self._reply: Any = None
        self._failure: Outcome | None = None
        self._held: Request[Any] | None = None

    def until(self, kind: type[Request[Any]], part: str) -> Request[Any]:
        """Run to the next request of ``kind`` on a path that contains ``part``, and hold it; it is not performed."""
        while True:
            request = self._next()
            assert request is not None, f"ended before a {kind.__name__} of {part}"
            if isinstance(request, kind) and part in getattr(request, "path", ""):
                return request

    def step(self) -> Request[Any] | None:
        """Run to the next request to the store, and hold it; None at the end."""
        while (request := self._next()) is not None:
            if isinstance(request, StoreRequest):
                return request
        return None

    def abandon(self) -> None:
        """End it where it stands."""
        self._coroutine.close()

    def end(self) -> T:
        """Run to the end."""
        while self._next() is not None:
            pass
        return self.result

    def _next(self) -> Request[Any] | None:
        if self._held is not None:
            self._reply, self._failure = None, None
            try:
                self._reply = self._perform(self._held)
            except Outcome as failure:
                self._failure = failure
        try:
            if self._failure is not None:
                self._held = self._coroutine.throw(self._failure)
            else:
                self._held = self._coroutine.send(self._reply)
        except StopIteration as stop:
            self.result: T = stop.value
            return None
        return self._held


def scene(root: Path, revision: str, **changes: Any) -> Scene:
    """A new region in a store at ``root``."""
    chosen = REVISIONS[revision]
    ids = schemas.field_ids(schemas.to_fields(SCHEMA))
    region = Region(
        io=Io(f"t/{paths.region(REGION)}", interpretation=STRICT),
        region_id=REGION,
        revision=chosen,
        rows=Rows(table=SCHEMA, key=("id",), revision=chosen, field_ids=tuple(ids.items())),
    )
    return Scene(LocalStore(root), replace(region, **changes))


def kinds(requests: Sequence[Request[Any]]) -> Counter[str]:
    """Requests by kind."""
    return Counter(type(request).__name__ for request in requests)
