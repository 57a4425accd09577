"""A simulated store that is changed in place: the semantics of `memwal_sim.store.perform`, for many objects.

`memwal_sim.store.Contents` is a value, and each change copies it. That is what an explorer needs, and too slow for a
store with thousands of objects that lives for days.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from memwal.effects import (
    Copy,
    Delete,
    Get,
    Head,
    List,
    ListFolders,
    Put,
    PutIfAbsent,
    RenameIfAbsent,
    Request,
    StoreRequest,
)
from memwal.errors import AlreadyExists, NotFound
from memwal.stores.base import slice_of

from ..store import Contents, Raised, Reply, Returned

_DONE = Returned(None)
_AFTER_SLASH = chr(ord("/") + 1)


class MutableStore:
    """Objects by name, in memory, changed in place. One thread at a time."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self._objects = dict(objects or {})
        self._names = sorted(self._objects)
        self._size_bytes = sum(map(len, self._objects.values()))

    @property
    def objects(self) -> Mapping[str, bytes]:
        """Name -> bytes, read-only."""
        return MappingProxyType(self._objects)

    @property
    def size_bytes(self) -> int:
        """Bytes of all objects together."""
        return self._size_bytes

    def __len__(self) -> int:
        return len(self._objects)

    def contents(self) -> Contents:
        """A copy as an immutable value."""
        return Contents(self._objects)

    def below(self, folder: str) -> list[str]:
        """Names of the objects under ``folder`` (all for the empty name), sorted by code points."""
        if not folder:
            return list(self._names)
        first = bisect_left(self._names, f"{folder}/")
        return self._names[first : bisect_left(self._names, f"{folder}{_AFTER_SLASH}", first)]

    def folders(self, folder: str) -> Iterator[str]:
        """Last components of the folders directly under ``folder``, sorted."""
        prefix = f"{folder}/" if folder else ""
        at = bisect_left(self._names, prefix)
        while at < len(self._names) and self._names[at].startswith(prefix):
            first, slash, _ = self._names[at][len(prefix) :].partition("/")
            if slash:
                yield first
                at = bisect_left(self._names, f"{prefix}{first}{_AFTER_SLASH}", at)
            else:
                at += 1

    def perform(self, request: StoreRequest[Any]) -> Reply:
        """The reply to ``request``, which is applied."""
        return _PERFORM[type(request)](self, request)

    def _put(self, path: str, data: bytes) -> None:
        before = self._objects.get(path)
        if before is None:
            insort(self._names, path)
        self._size_bytes += len(data) - len(before or b"")
        self._objects[path] = data

    def _remove(self, path: str) -> None:
        before = self._objects.pop(path, None)
        if before is not None:
            del self._names[bisect_left(self._names, path)]
            self._size_bytes -= len(before)


def _get(store: MutableStore, request: Get) -> Reply:
    data = store.objects.get(request.path)
    if data is None:
        return Raised(NotFound, request.path)
    if request.offset == 0 and request.length is None:
        return Returned(data)
    first, end = slice_of(len(data), request.offset, request.length)
    return Returned(data[first:end])


def _head(store: MutableStore, request: Head) -> Reply:
    data = store.objects.get(request.path)
    return Raised(NotFound, request.path) if data is None else Returned(len(data))


def _list(store: MutableStore, request: List) -> Reply:
    return Returned(tuple(store.below(request.path)))


def _list_folders(store: MutableStore, request: ListFolders) -> Reply:
    return Returned(tuple(sorted(store.folders(request.path))))


def _put_if_absent(store: MutableStore, request: PutIfAbsent) -> Reply:
    if request.path in store.objects:
        return Raised(AlreadyExists, request.path)
    store._put(request.path, request.data)
    return _DONE


def _put(store: MutableStore, request: Put) -> Reply:
    store._put(request.path, request.data)
    return _DONE


def _delete(store: MutableStore, request: Delete) -> Reply:
    store._remove(request.path)
    return _DONE


def _copy(store: MutableStore, request: Copy) -> Reply:
    data = store.objects.get(request.path)
    if data is None:
        return Raised(NotFound, request.path)
    store._put(request.target, data)
    return _DONE


def _rename_if_absent(store: MutableStore, request: RenameIfAbsent) -> Reply:
    data = store.objects.get(request.path)
    if data is None:
        return Raised(NotFound, request.path)
    if request.target in store.objects:
        return Raised(AlreadyExists, request.target)
    store._remove(request.path)
    store._put(request.target, data)
    return _DONE


_PERFORM: dict[type[Request[Any]], Callable[[MutableStore, Any], Reply]] = {
    Get: _get,
    Head: _head,
    List: _list,
    ListFolders: _list_folders,
    PutIfAbsent: _put_if_absent,
    Put: _put,
    Delete: _delete,
    Copy: _copy,
    RenameIfAbsent: _rename_if_absent,
}
