"""Which requests commute: what each touches and what it would notice, as sets of bits.

Two steps of different processes commute in a state if neither changes what the other sees or does. A process's *future*
is everything that it was ever seen to touch from its local history on. A request that commutes with the futures of all
others, and that no oracle notices, may be explored first and alone: every history in which it comes later, or never,
has the same stores for the oracles as one in which it comes now (a persistent set of one process).

A path has three bits: it is read, it is created if it is absent, it is changed. A folder has five: it is listed, its
folders are listed, something below it is created, or changed, or something may vanish from it.
Source: Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems" (1996), chapters 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memwal.effects import Copy, Delete, Get, Head, List, ListFolders, Put, PutIfAbsent, RenameIfAbsent, StoreRequest
from memwal.errors import EngineBug

from ..store import Contents, GoOn


@dataclass(frozen=True, slots=True)
class _Path:
    """Bits of one object name."""

    read: int
    created: int
    changed: int
    folders: tuple[str, ...]
    """Every folder above it, from the store's root."""

    @property
    def all(self) -> int:
        return self.read | self.created | self.changed


@dataclass(frozen=True, slots=True)
class _Folder:
    """Bits of one folder."""

    listed: int
    folders_listed: int
    created_below: int
    changed_below: int


class Accesses:
    """Gives bits to paths and folders as they turn up; bits never change their meaning."""

    def __init__(self) -> None:
        self._bits = 0
        self._paths: dict[str, _Path] = {}
        self._folders: dict[str, _Folder] = {}

    def touched(self, request: StoreRequest[Any]) -> int:
        """Everything that ``request`` may read or do, in whatever state it is made."""
        match request:
            case Get() | Head():
                return self._path(request.path).read
            case List():
                return self._folder(request.path).listed
            case ListFolders():
                return self._folder(request.path).folders_listed
            case PutIfAbsent():
                return self._creating(request.path)
            case Put() | Delete():
                return self._changing(request.path)
            case Copy(target=target):
                return self._path(request.path).read | self._changing(target)
            case RenameIfAbsent(target=target):
                return self._changing(request.path) | self._creating(target)
            case GoOn():
                return 0
        raise EngineBug(f"nothing is known of what {type(request).__name__} touches")

    def noticed(self, request: StoreRequest[Any], contents: Contents) -> int:
        """With what ``request`` does not commute, made on ``contents``: bits of `touched`."""
        match request:
            case Get() | Head():
                path = self._path(request.path)
                return path.changed if request.path in contents else path.created | path.changed
            case List() | ListFolders():
                folder = self._folder(request.path)
                return folder.created_below | folder.changed_below
            case PutIfAbsent():
                return self._noticed_creation(request.path, contents)
            case Put():
                path = self._path(request.path)
                if request.path in contents:
                    return path.read | path.changed
                return self._noticed_creation(request.path, contents)
            case Delete():
                path = self._path(request.path)
                if request.path not in contents:
                    return path.created | path.changed
                return path.all | self._everything_above(path)
            case Copy(target=target):
                return (
                    self._path(request.path).changed
                    | self._path(target).all
                    | self._everything_above(self._path(target))
                )
            case RenameIfAbsent(target=target):
                ends = (self._path(request.path), self._path(target))
                return ends[0].all | ends[1].all | self._everything_above(ends[0]) | self._everything_above(ends[1])
            case GoOn():
                return 0
        raise EngineBug(f"nothing is known of what {type(request).__name__} notices")

    def _noticed_creation(self, name: str, contents: Contents) -> int:
        """Of creating ``name`` where it is absent; where it is there nothing is done unless it is changed."""
        path = self._path(name)
        if name in contents:
            return path.changed
        noticed = path.all
        for above in path.folders:
            noticed |= self._folder(above).listed
            rest = name[len(above) + 1 :] if above else name
            child, inside, _ = rest.partition("/")
            if not inside:
                continue
            below = f"{above}/{child}" if above else child
            if any(True for _ in contents.below(below)):
                noticed |= self._folder(below).changed_below
            else:
                noticed |= self._folder(above).folders_listed
        return noticed

    def _everything_above(self, path: _Path) -> int:
        bits = 0
        for above in path.folders:
            folder = self._folder(above)
            bits |= folder.listed | folder.folders_listed
        return bits

    def _creating(self, name: str) -> int:
        path = self._path(name)
        bits = path.created
        for above in path.folders:
            bits |= self._folder(above).created_below
        return bits

    def _changing(self, name: str) -> int:
        path = self._path(name)
        bits = path.changed
        for above in path.folders:
            bits |= self._folder(above).changed_below
        return bits

    def _path(self, name: str) -> _Path:
        found = self._paths.get(name)
        if found is None:
            found = self._paths[name] = _Path(self._bit(), self._bit(), self._bit(), tuple(_above(name)))
        return found

    def _folder(self, name: str) -> _Folder:
        found = self._folders.get(name)
        if found is None:
            found = self._folders[name] = _Folder(self._bit(), self._bit(), self._bit(), self._bit())
        return found

    def _bit(self) -> int:
        self._bits += 1
        return 1 << (self._bits - 1)


def _above(name: str) -> Iterator[str]:
    yield ""
    for place, letter in enumerate(name):
        if letter == "/":
            yield name[:place]
