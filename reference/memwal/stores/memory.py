"""Objects in memory, and what each store request does to them.

`answered` says it once, for `MemoryStore`, whose objects are changed in place, and for the simulator, whose contents
are values. One request is one atomic step.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ..effects import (
    Copy,
    Delete,
    Get,
    GetRanges,
    Head,
    List,
    ListFolders,
    Put,
    PutIfAbsent,
    RenameIfAbsent,
    Stamped,
    Stat,
    StoreRequest,
)
from ..errors import AlreadyExists, NotFound, Outcome, StorageError
from .base import handler, spans_of


@dataclass(frozen=True, slots=True)
class Returned:
    """The reply of a request that succeeded."""

    value: bytes | int | tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Raised:
    """The reply of a request that ended in an `Outcome`: as a value, since an exception keeps what it went through."""

    kind: type[Outcome]
    path: str

    def error(self) -> Outcome:
        """A fresh exception to throw into the caller."""
        if self.kind is StorageError:
            return StorageError(self.path, "this store does not offer the request")
        return self.kind(path=self.path)


Reply: TypeAlias = Returned | Raised
"""What a store answers to a request."""

Change: TypeAlias = tuple[str, bytes | None]
"""A name, and the bytes that it has afterwards (None: it is deleted)."""


class Readable(Protocol):
    """Objects that can be looked at."""

    def get(self, name: str, /) -> bytes | None:
        """Bytes of the object; None if there is none."""

    def listed(self, folder: str, /) -> Sequence[str]:
        """Names under ``folder`` (all for the empty name), in the store's order."""

    def folders(self, folder: str, /) -> Sequence[str]:
        """Last components of the folders directly under ``folder``, in the store's order."""


def answered(objects: Readable, request: StoreRequest[Any]) -> tuple[Reply, tuple[Change, ...]]:
    """The reply to ``request``, of a known kind and with proper names, and what it changes. Pure."""
    return _ANSWERED[type(request)](objects, request)


_Answer: TypeAlias = tuple[Reply, tuple[Change, ...]]
_DONE = Returned(None)


def _get(objects: Readable, request: Get) -> _Answer:
    data = objects.get(request.path)
    return (Raised(NotFound, request.path) if data is None else Returned(_read(data, request))), ()


def _stamped(objects: Readable, request: Stamped) -> _Answer:
    data = objects.get(request.path)
    return (Raised(NotFound, request.path) if data is None else Returned((_read(data, request), data))), ()


def _read(data: bytes, request: Get) -> bytes:
    if not isinstance(request, GetRanges) and request.offset == 0 and request.length is None:
        return data
    return b"".join(data[first:end] for first, end in spans_of(request, len(data)))


def _head(objects: Readable, request: Head) -> _Answer:
    data = objects.get(request.path)
    return (Raised(NotFound, request.path) if data is None else Returned(len(data))), ()


def _stamp(objects: Readable, request: Stat) -> _Answer:
    """The bytes themselves: as long as they are the same, so is the object."""
    data = objects.get(request.path)
    return (Raised(NotFound, request.path) if data is None else Returned(data)), ()


def _list(objects: Readable, request: List) -> _Answer:
    return Returned(tuple(objects.listed(request.path))), ()


def _list_folders(objects: Readable, request: ListFolders) -> _Answer:
    return Returned(tuple(objects.folders(request.path))), ()


def _put_if_absent(objects: Readable, request: PutIfAbsent) -> _Answer:
    if objects.get(request.path) is not None:
        return Raised(AlreadyExists, request.path), ()
    return _DONE, ((request.path, request.data),)


def _put(_objects: Readable, request: Put) -> _Answer:
    return _DONE, ((request.path, request.data),)


def _delete(_objects: Readable, request: Delete) -> _Answer:
    return _DONE, ((request.path, None),)


def _copy(objects: Readable, request: Copy) -> _Answer:
    data = objects.get(request.path)
    if data is None:
        return Raised(NotFound, request.path), ()
    return _DONE, ((request.target, data),)


def _rename_if_absent(objects: Readable, request: RenameIfAbsent) -> _Answer:
    data = objects.get(request.path)
    if data is None:
        return Raised(NotFound, request.path), ()
    if objects.get(request.target) is not None:
        return Raised(AlreadyExists, request.target), ()
    return _DONE, ((request.path, None), (request.target, data))


_ANSWERED: dict[type[StoreRequest[Any]], Callable[[Readable, Any], _Answer]] = {
    Get: _get,
    GetRanges: _get,
    Head: _head,
    List: _list,
    ListFolders: _list_folders,
    PutIfAbsent: _put_if_absent,
    Put: _put,
    Delete: _delete,
    Copy: _copy,
    RenameIfAbsent: _rename_if_absent,
    Stat: _stamp,
    Stamped: _stamped,
}

_AFTER_SLASH = chr(ord("/") + 1)


class Objects(MutableMapping[str, bytes]):
    """Name -> bytes, sorted by code points of the names. One thread at a time."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self._data = dict(objects or {})
        self._names = sorted(self._data)
        self._size_bytes = sum(map(len, self._data.values()))

    @property
    def size_bytes(self) -> int:
        """Bytes of all objects together."""
        return self._size_bytes

    def __getitem__(self, name: str) -> bytes:
        return self._data[name]

    def __setitem__(self, name: str, data: bytes) -> None:
        before = self._data.get(name)
        if before is None:
            insort(self._names, name)
        self._size_bytes += len(data) - len(before or b"")
        self._data[name] = data

    def __delitem__(self, name: str) -> None:
        self._size_bytes -= len(self._data.pop(name))
        del self._names[bisect_left(self._names, name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._data)

    def get(self, name: str, default: Any = None) -> Any:
        """Bytes of the object; ``default`` if there is none."""
        return self._data.get(name, default)

    def listed(self, folder: str) -> list[str]:
        """Names under ``folder`` (all for the empty name)."""
        if not folder:
            return list(self._names)
        first = bisect_left(self._names, f"{folder}/")
        return self._names[first : bisect_left(self._names, f"{folder}{_AFTER_SLASH}", first)]

    def folders(self, folder: str) -> list[str]:
        """Last components of the folders directly under ``folder``."""
        found, prefix = [], f"{folder}/" if folder else ""
        at = bisect_left(self._names, prefix)
        while at < len(self._names) and self._names[at].startswith(prefix):
            first, slash, _ = self._names[at][len(prefix) :].partition("/")
            if slash:
                found.append(first)
                at = bisect_left(self._names, f"{prefix}{first}{_AFTER_SLASH}", at)
            else:
                at += 1
        return sorted(found)

    def perform(self, request: StoreRequest[Any]) -> Reply:
        """The reply to ``request``, which is carried out; as `answered`."""
        reply, changes = answered(self, request)
        for name, data in changes:
            if data is None:
                self.pop(name, None)
            else:
                self[name] = data
        return reply


class MemoryStore:
    """A `Store` in memory."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.objects = Objects(objects)
        self._lock = threading.Lock()

    def perform(self, request: StoreRequest[Any]) -> Any:
        """The reply to ``request``; raises as every `Store` does."""
        handler(_ANSWERED, request)
        with self._lock:
            reply = self.objects.perform(request)
        if isinstance(reply, Raised):
            raise reply.error()
        return reply.value

    def describe(self) -> str:
        """Words for people."""
        return "memory"

    def close(self) -> None:
        """Nothing is held: the objects stay readable."""
