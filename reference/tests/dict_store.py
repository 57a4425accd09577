"""A store in a dictionary: quick to copy, to damage, and to count requests to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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
    StoreRequest,
)
from memwal.errors import AlreadyExists, NotFound
from memwal.stores.base import slice_of

READS = (Get, Head, List, ListFolders)


class DictStore:
    """Objects by name. ``after`` is called after every request that changed something."""

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.requests: Counter[str] = Counter()
        self.before: Callable[[StoreRequest[Any]], None] = lambda request: None
        self.after: Callable[[StoreRequest[Any]], None] = lambda request: None

    def describe(self) -> str:
        return "a dictionary"

    def close(self) -> None:
        pass

    def copy(self) -> DictStore:
        return DictStore(self.objects)

    @property
    def changes(self) -> int:
        """Requests so far that were no reads."""
        return sum(n for kind, n in self.requests.items() if kind not in {read.__name__ for read in READS})

    def perform(self, request: StoreRequest[Any]) -> Any:
        self.requests[type(request).__name__] += 1
        self.before(request)
        reply = self._perform(request)
        if not isinstance(request, READS):
            self.after(request)
        return reply

    def _perform(self, request: StoreRequest[Any]) -> Any:
        match request:
            case List(path):
                return tuple(sorted(name for name in self.objects if name.startswith(f"{path}/" if path else "")))
            case ListFolders(path):
                prefix = f"{path}/" if path else ""
                below = (name.removeprefix(prefix) for name in self.objects if name.startswith(prefix))
                return tuple(sorted({rest.partition("/")[0] for rest in below if "/" in rest}))
            case PutIfAbsent(path, data):
                if path in self.objects:
                    raise AlreadyExists(path)
                self.objects[path] = data
            case Put(path, data):
                self.objects[path] = data
            case Delete(path):
                self.objects.pop(path, None)
            case Copy(path, target):
                self.objects[target] = self._found(path)
            case RenameIfAbsent(path, target):
                if target in self.objects:
                    raise AlreadyExists(target)
                self.objects[target] = self._found(path)
                del self.objects[path]
            case Head(path):
                return len(self._found(path))
            case Get(path, offset, length):
                data = self._found(path)
                first, end = slice_of(len(data), offset, length)
                return data[first:end]
        return None

    def _found(self, path: str) -> bytes:
        if path not in self.objects:
            raise NotFound(path)
        return self.objects[path]
