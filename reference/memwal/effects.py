"""The requests that protocol code awaits, and nothing else that it may do.

Protocol code is ``async def`` code that touches the outside world only by awaiting a `Request`. A driver
(`memwal.drive`, or one of the simulator's) receives each request from the suspended coroutine, performs it on some
store, and resumes the coroutine with the reply or throws an `Outcome` into it.

A process may be several coroutines (`Spawn`, `Join`) that share state in memory. Only one of them runs at a time, and
another one continues only where this one awaits a request to the store, a `Recall` (for which a driver that keeps
things may ask the store), a `Sleep`, a `Join` or an `Until` that does not hold yet. So what stands between two such
requests is one step, under every driver.

`Io` is what protocol functions receive: a root folder inside the store and one method per request. Its state is the
root, how tables are committed there and how the texts are read, so that protocol functions depend on replies only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from io import FileIO
from typing import Any, Generic, TypeVar, cast

from . import paths
from .errors import EngineBug, Outcome, Throttled, Unreachable
from .ids import Milliseconds
from .revisions import Interpretation

Reply = TypeVar("Reply", covariant=True)
T = TypeVar("T")

READ_ATTEMPTS, _READ_PAUSE_MS = 6, 50
"""Attempts of a read that the store throttles or does not answer, and the first pause between them."""

Protocol = Coroutine["Request[Any]", Any, T]
"""A protocol step in execution: yields requests, is sent replies, returns a ``T``."""


@dataclass(frozen=True, slots=True)
class Request(Generic[Reply]):
    """Base of all requests. Awaiting one hands it to the driver and gives the driver's reply."""

    def __await__(self) -> Generator[Request[Any], Any, Reply]:
        return (yield self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class StoreRequest(Request[Reply]):
    """A request to the object store; one atomic step of the store."""

    path: str
    """Object name: ``/``-separated, no leading slash, relative to the store's own root."""


@dataclass(frozen=True, slots=True)
class Get(StoreRequest[bytes]):
    """Read an object, or ``length`` bytes from ``offset`` on; a negative one is from the end. Raises `NotFound`."""

    offset: int = 0
    length: int | None = None


@dataclass(frozen=True, slots=True)
class GetRanges(Get):
    """Read parts of an object, offset and length of each; the reply has one behind the other. Raises `NotFound`."""

    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Head(StoreRequest[int]):
    """Size of an object in bytes. Raises `NotFound`."""


@dataclass(frozen=True, slots=True)
class Open(StoreRequest["FileIO | None"]):
    """An object as an open file, where objects are files (`Io.files`); None for another size. Raises `NotFound`."""

    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Stat(StoreRequest[Hashable | None]):
    """What an object has as long as it is the same object, and no other one of its name has. Raises `NotFound`.

    None if that cannot be told. Drivers ask it where they keep what was made of objects; protocol code does not.
    """


@dataclass(frozen=True, slots=True)
class Stamped(Get):
    """What `Get` gives and, of the very object that it was read of, what `Stat` does. It is for drivers, too."""


@dataclass(frozen=True, slots=True)
class List(StoreRequest["tuple[str, ...]"]):
    """Names of all objects under the folder ``path`` (recursive), full names, sorted. Empty if there are none."""


@dataclass(frozen=True, slots=True)
class ListFolders(StoreRequest["tuple[str, ...]"]):
    """Last components of the folders directly under the folder ``path``, sorted. Empty if there are none."""


@dataclass(frozen=True, slots=True)
class PutIfAbsent(StoreRequest[None]):
    """Create an object atomically. Raises `AlreadyExists` (nothing written) or `OutcomeUnknown`."""

    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Put(StoreRequest[None]):
    """Create or replace an object atomically. Raises `OutcomeUnknown`."""

    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Delete(StoreRequest[None]):
    """Delete an object; deleting what is not there succeeds. Raises `OutcomeUnknown`."""


@dataclass(frozen=True, slots=True)
class Copy(StoreRequest[None]):
    """Copy ``path`` to ``target``, replacing it. Raises `NotFound` or `OutcomeUnknown`."""

    target: str = ""


@dataclass(frozen=True, slots=True)
class RenameIfAbsent(StoreRequest[None]):
    """Move ``path`` to ``target`` atomically unless that exists. Raises `AlreadyExists`, or what `Copy` does."""

    target: str = ""


@dataclass(frozen=True, slots=True)
class Now(Request[Milliseconds]):
    """Wall-clock time of the driver, Unix epoch, in milliseconds. Never used for safety, only for labels and ages."""


@dataclass(frozen=True, slots=True)
class Sleep(Request[None]):
    """Wait. Drivers without a clock return at once."""

    duration_ms: Milliseconds


@dataclass(frozen=True, slots=True)
class RandomHex(Request[str]):
    """``digits`` random lower-case hexadecimal digits."""

    digits: int


@dataclass(frozen=True, slots=True)
class Task(Generic[Reply]):
    """A coroutine that was spawned."""

    number: int
    """Among those of its process, from 1."""


@dataclass(frozen=True, slots=True)
class Spawn(Request["Task[T]"], Generic[T]):
    """Let one more coroutine of this process run; it begins at any later moment. It should be joined.

    The driver calls ``start`` when the coroutine begins: what ends before then leaves none that was never awaited.
    """

    start: Callable[[], Protocol[T]]


@dataclass(frozen=True, slots=True)
class Busy(Request[int]):
    """How many coroutines of this process run or wait for the store, and not for another one; with this one."""


@dataclass(frozen=True, slots=True)
class Join(Request[T]):
    """Wait for the end of a coroutine that was spawned: its result, or its failure, which is raised."""

    task: Task[T]


@dataclass(frozen=True, slots=True)
class Until(Request[bool]):
    """Wait until ``holds``, which looks at memory that coroutines of this process share, or until the time is over.

    False if the program ends and nothing will change any more: what can be done should not wait for its time.
    """

    holds: Callable[[], bool]
    timeout_ms: Milliseconds | None = None


@dataclass(frozen=True, slots=True)
class Note(Request[None]):
    """A ghost event for oracles and progress displays: free, and without effect on the protocol."""

    event: str
    fields: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Recall(Request["tuple[Any, Any]"]):
    """What is kept under the name ``what``, or None and what `Remember` is to be told; see `remembered`."""

    what: Hashable
    of: tuple[str, ...] = ()
    """Objects that it is made of besides those that are read from now on."""


@dataclass(frozen=True, slots=True)
class Remember(Request[None]):
    """Keep what was worked out since the `Recall` that gave ``recording``."""

    recording: object
    value: object
    size_bytes: int
    by: tuple[str, ...] = ()
    """Objects that alone tell whether it still holds; none: all that were read."""


@dataclass(frozen=True, slots=True)
class Grew(Request[None]):
    """What is kept under the name ``what`` takes so many bytes more now."""

    what: Hashable
    more_bytes: int
    of: Hashable = None
    """Name of something else that is kept, which it refers to from now on: it is kept no longer than that."""


async def remembered(
    io: Io,
    what: Hashable,
    make: Callable[[], Awaitable[T]],
    size_bytes: Callable[[T], int],
    *,
    of: Sequence[str] = (),
    by: Callable[[T], Sequence[str]] | None = None,
) -> T:
    """What ``make`` gives, or gave before under the same name ``what``, while all objects that it read are the same.

    It is of objects that are read one by one, and nothing changes it. Only drivers that keep such things are asked
    (`Io.remembers`): elsewhere this is ``make``. ``of``: full names of objects read before, that it is made of, too.
    ``by``: those that alone tell whether it still holds: while they stay, so does all of it, listings included.
    """
    if not io.remembers:
        return await make()
    found, recording = await Recall(what, tuple(of))
    if recording is None:
        return cast(T, found)
    made = await make()
    await Remember(recording, made, size_bytes(made), tuple(by(made)) if by is not None else ())
    return made


async def patiently(read: StoreRequest[T]) -> T:
    """Await a read, and again while it is throttled or not answered: `READ_ATTEMPTS` times, pauses doubling from 50 ms.

    A read changes nothing, so that repeating it is no new step of the protocol. The pauses are requests themselves, so
    that every driver sees them. Raises the outcome of the last attempt. Requests that change something are left
    to the code that makes them: only it knows what a second attempt would mean.
    """
    for attempt in range(READ_ATTEMPTS - 1):
        try:
            return await read
        except (Throttled, Unreachable):
            await Sleep(Milliseconds(_READ_PAUSE_MS * 2**attempt))
    return await read


class Commits(Enum):
    """By what the versions of a table are created; all writers of a table use the same (TXN-006, AMB-121)."""

    PUT = "put"
    """put-if-not-exists of the manifest."""
    RENAME = "rename"
    """rename-if-not-exists of a staged manifest, for stores that cannot put conditionally."""
    EXTERNAL = "external"
    """An external manifest store, for stores that can do neither; its keys are below `EXTERNAL_ROOT`."""


EXTERNAL_ROOT = "@external"
"""Folder that a driver with an external manifest store answers from it instead of from the object store."""


@dataclass(frozen=True, slots=True)
class Io:
    """A folder of a store, as protocol code sees it: one method per request, names relative to ``root``.

    Reads are made `patiently`; everything else is one request.
    """

    root: str = ""
    commits: Commits = Commits.PUT
    """How tables in this folder are committed."""
    location: str = ""
    """Absolute name of this folder for readers outside the engine, by which they and base paths name it; or empty."""
    interpretation: Interpretation = field(kw_only=True)
    """What the texts leave open, as every process that works in this folder reads it."""
    remembers: bool = False
    """Whether the driver keeps what was made of objects (`remembered`)."""
    concurrent: bool = False
    """Whether requests take so long that those which do not need each other are made at once (see `coroutines`)."""
    files: bool = False
    """Whether the store can `Open` its objects."""

    def child(self, name: str, commits: Commits | None = None, location: str = "") -> Io:
        """The folder ``name`` below this one; ``..`` components are resolved and may not leave the store."""
        asked = self.remembers, self.concurrent, self.files
        return Io(self.path(name), commits or self.commits, location, *asked, interpretation=self.interpretation)

    @property
    def external(self) -> Io:
        """Entries of this folder in the external manifest store."""
        return Io(f"{EXTERNAL_ROOT}/{self.root}".rstrip("/"), interpretation=self.interpretation)

    def path(self, name: str) -> str:
        """Full object name of ``name``."""
        return paths.full(self.root, name)

    def relative(self, path: str) -> str:
        """The inverse of `path` for names below this folder."""
        prefix = self.root + "/" if self.root else ""
        if not path.startswith(prefix):
            raise ValueError(f"{path!r} is not below {self.root!r}")
        return path[len(prefix) :]

    async def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        return await patiently(Get(self.path(name), offset, length))

    async def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> bytes:
        return await patiently(GetRanges(self.path(name), ranges=tuple(ranges)))

    async def open(self, name: str, size_bytes: int) -> FileIO | None:
        return await patiently(Open(self.path(name), size_bytes))

    async def head(self, name: str) -> int:
        return await patiently(Head(self.path(name)))

    async def list(self, folder: str = "") -> tuple[str, ...]:
        return tuple(map(self.relative, await patiently(List(self.path(folder)))))

    async def list_folders(self, folder: str = "") -> tuple[str, ...]:
        return await patiently(ListFolders(self.path(folder)))

    async def put_if_absent(self, name: str, data: bytes) -> None:
        await PutIfAbsent(self.path(name), data)

    async def put(self, name: str, data: bytes) -> None:
        await Put(self.path(name), data)

    async def delete(self, name: str) -> None:
        await Delete(self.path(name))

    async def copy(self, source: str, target: str) -> None:
        await Copy(self.path(source), self.path(target))

    async def rename_if_absent(self, source: str, target: str) -> None:
        await RenameIfAbsent(self.path(source), self.path(target))

    async def now(self) -> Milliseconds:
        return await Now()

    async def sleep(self, duration_ms: Milliseconds) -> None:
        await Sleep(duration_ms)

    async def random_hex(self, digits: int) -> str:
        return await RandomHex(digits)

    async def note(self, event: str, **fields: object) -> None:
        await Note(event, tuple(sorted(fields.items())))


def run(coroutine: Protocol[T], perform: Callable[[Request[Any]], Any]) -> T:
    """Drive ``coroutine`` to its end, performing each request with ``perform``.

    ``perform`` returns the reply, or raises an `Outcome`, which is thrown into the coroutine. That is alone in its
    process: to wait for another one (`Until`) is an `EngineBug`.
    """
    reply: Any = None
    failure: Outcome | EngineBug | None = None
    while True:
        try:
            request = coroutine.throw(failure) if failure is not None else coroutine.send(reply)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        reply, failure = None, None
        if isinstance(request, Until):
            reply = request.holds() or request.timeout_ms is not None
            failure = None if reply else EngineBug("a coroutine waits for others, and there are none")
            continue
        try:
            reply = perform(request)
        except Outcome as outcome:
            failure = outcome
