"""What was worked out of stored objects, kept in memory for as long as all of these are the same objects.

Protocol code says what may be kept (`memwal.effects.remembered`), and a driver keeps it. The driver sees which objects
are read while it is worked out, and gives it again only if each of them still is what it was: every run asks the store
once for each (`Stat`). So nothing is given of an object that was deleted or made anew. What listings say, and
what requests that change the store answer, is never kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from .effects import Get, Head, List, ListFolders, Open, Recall, Remember, Stamped, Stat, StoreRequest
from .errors import InvalidArgument, NotFound, Outcome
from .stores.base import Store

REMEMBERED_BYTES = 512 << 20
"""Of each table that is opened, where its opener does not say how many."""

_ABSENT = "absent"
"""The stamp of an object that is not there."""
_NOT_ASKED: Hashable = object()
"""Where an object was not asked for its stamp."""
_ENTRY_BYTES = 512
"""About what an entry takes besides its value."""

Stamps = dict[str, Hashable]
"""By path, what tells that an object is the same one."""


@dataclass(frozen=True, slots=True)
class _Entry:
    value: Any
    size_bytes: int
    stamps: Stamps
    refers_to: frozenset[Hashable] = frozenset()
    """Other entries, whose bytes are not its own: it is asked for with them, and dropped with them."""


class ReadMemory:
    """Values by what they are, those that were asked for last, of ``most_bytes`` together. Any threads may share it."""

    def __init__(self, most_bytes: int = REMEMBERED_BYTES) -> None:
        if most_bytes < 0:
            raise InvalidArgument(f"remember_bytes must be at least 0, not {most_bytes}")
        self.most_bytes = most_bytes
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._referring: dict[Hashable, set[Hashable]] = {}
        """By entry, those that refer to it."""
        self._size_bytes = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[ReadMemory], tuple[int]]:
        """Another process begins with nothing."""
        return type(self), (self.most_bytes,)

    @property
    def size_bytes(self) -> int:
        """Bytes of all values, as they were said to have."""
        return self._size_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, what: Hashable) -> _Entry | None:
        with self._lock:
            found = self._entries.get(what)
            if found is not None:
                for each in (*found.refers_to, what):
                    self._entries.move_to_end(each)
            return found

    def keep(self, what: Hashable, entry: _Entry) -> None:
        """Keep an entry, and drop those that were not asked for longest where room is short."""
        with self._lock:
            self._drop(what)
            self._put(what, entry)

    def grow(self, what: Hashable, more_bytes: int, of: Hashable = None) -> None:
        """Note that an entry, if it is kept, takes so many bytes more, and refers to the entry ``of``."""
        with self._lock:
            entry = self._entries.get(what)
            if entry is None:
                return
            if of is not None and of not in self._entries:
                self._drop(what)
                return
            self._size_bytes -= entry.size_bytes
            refers_to = entry.refers_to if of is None else entry.refers_to | {of}
            self._put(what, replace(entry, size_bytes=entry.size_bytes + more_bytes, refers_to=refers_to))

    def _put(self, what: Hashable, entry: _Entry) -> None:
        self._entries[what] = entry
        self._entries.move_to_end(what)
        self._size_bytes += entry.size_bytes
        for each in entry.refers_to:
            self._referring.setdefault(each, set()).add(what)
        if entry.size_bytes > self.most_bytes:
            self._drop(what)
        while self._size_bytes > self.most_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, what: Hashable) -> None:
        before = self._entries.pop(what, None)
        if before is None:
            return
        self._size_bytes -= before.size_bytes
        for each in before.refers_to:
            self._referring.get(each, set()).discard(what)
        for each in self._referring.pop(what, ()):
            self._drop(each)


@dataclass(slots=True)
class Recording:
    """The objects that are read while something is worked out."""

    what: Hashable
    stamps: Stamps = field(default_factory=dict)
    lasting: bool = True
    """Whether it depends on nothing but these."""


@dataclass(slots=True)
class Remembering:
    """A `ReadMemory` in one run of one coroutine, in which an object is asked for its stamp once.

    Coroutines that it spawns have branches of it, and may be at work at the same time.
    """

    memory: ReadMemory
    store: Store
    seen: Stamps = field(default_factory=dict)
    open: list[Recording] = field(default_factory=list)
    """What is being worked out, one within another."""

    def branch(self) -> Remembering:
        """That of a coroutine which is spawned: it works on what is being worked out."""
        return replace(self, open=list(self.open))

    def recall(self, request: Recall) -> tuple[Any, Recording | None]:
        """The value; or None, and what `remember` is to be told."""
        entry = self.memory.find(request.what)
        if entry is not None and self._holds(entry.stamps):
            if self.open:
                self._note(entry.stamps)
            return entry.value, None
        found = Recording(request.what)
        self.open.append(found)
        for path in request.of:
            # What was made of an object before this run may be of another object of its name.
            found.lasting &= path in self.seen
            self._note({path: self.seen.get(path)})
        return None, found

    def remember(self, request: Remember) -> None:
        """Keep what was worked out; recordings within it that were given up end too."""
        at = next(at for at, each in enumerate(self.open) if each is request.recording)
        recording = self.open[at]
        del self.open[at:]
        if request.by:
            recording.stamps = {path: self.seen.get(path) for path in request.by}
            recording.lasting = None not in recording.stamps.values()
        if recording.lasting:
            stored = _Entry(request.value, request.size_bytes + _ENTRY_BYTES, recording.stamps)
            self.memory.keep(recording.what, stored)

    def perform(self, request: StoreRequest[Any]) -> Any:
        """Perform ``request``, and note what it looks at; after a change nothing is as it was."""
        if self.open and type(request) is Get and request.path not in self.seen:
            return self._read(request)
        if not isinstance(request, Get | Head | Open):
            if not isinstance(request, List | ListFolders):
                self.seen.clear()
            for each in self.open:
                each.lasting = False
        elif self.open:
            self._note({request.path: self._stamp(request.path)})
        return self.store.perform(request)

    def _read(self, request: Get) -> bytes:
        """What ``request`` reads; its stamp comes with it, which spares asking the store once more."""
        path, stamp = request.path, None
        try:
            data, stamp = self.store.perform(Stamped(path, request.offset, request.length))
            self.seen[path] = stamp
        except NotFound:
            self.seen[path] = stamp = _ABSENT
            raise
        except InvalidArgument:
            data = self.store.perform(request)  # the store does not tell
        finally:
            self._note({path: stamp})
        return data  # type: ignore[no-any-return]

    def pause(self) -> None:
        """Time goes by: objects are asked again."""
        self.seen.clear()

    def _holds(self, stamps: Stamps) -> bool:
        for path, stamp in stamps.items():  # noqa: SIM110 - most have one, and a generator takes longer than that
            if self._stamp(path) != stamp:
                return False
        return True

    def _note(self, stamps: Stamps) -> None:
        for each in self.open:
            each.stamps.update(stamps)
            if None in stamps.values():
                each.lasting = False

    def _stamp(self, path: str) -> Hashable:
        """None if the store does not tell: then nothing is the same."""
        stamp = self.seen.get(path, _NOT_ASKED)
        if stamp is _NOT_ASKED:
            try:
                stamp = self.store.perform(Stat(path))
            except NotFound:
                stamp = _ABSENT
            except (Outcome, InvalidArgument):
                return None
            self.seen[path] = stamp
        return stamp
