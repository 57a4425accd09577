"""A directory of the local file system as an object store."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Any

from ..clauses import implements
from ..effects import (
    Copy,
    Delete,
    Get,
    GetRanges,
    Head,
    List,
    ListFolders,
    Open,
    Put,
    PutIfAbsent,
    RenameIfAbsent,
    Stamped,
    Stat,
    StoreRequest,
)
from ..errors import InvalidArgument, NotFound, StorageError
from . import files
from .base import Handlers, handler, spans_of

_Stamp = tuple[int, int, int, int, int]
_CHUNK_BYTES = 1 << 20
_TICK_NS = 20_000_000
"""More than what the clock by which a file system stamps files advances at a time."""


class LocalStore:
    """The files below a directory; an object's name is its path relative to ``root``.

    ``root``: need not exist; folders are made when an object needs them, and never removed. A folder without objects is
    not listed. ``fsync``: flush each new file and the folders that lead to it to the device before a request counts as
    done, and the folder after a deletion. Off by default, as in revision R's native writer: what a process has written
    survives the process then, but not a loss of power. Atomicity does not depend on it: as long as the power stays on,
    a reader sees a whole object or none either way.

    Objects are created without replacing by a link or a rename that the file system arbitrates, so that writers in any
    number of threads and processes may use the same directory. A file system with neither is refused at the first
    `PutIfAbsent` (AMB-38). Names that look like temporary files (``.*.<16 hex digits>.tmp``, ``*.tmp.*``) are reserved:
    they are not listed and cannot be written.

    Unlike in an object store, an object cannot have another one's name as its folder: writing it is a `StorageError`.
    """

    def __init__(self, root: Path, *, fsync: bool = False) -> None:
        self._root = root.absolute()
        self._prefix = self._root.as_posix().rstrip("/") + "/"
        self._fsync = fsync
        self._creates = files.ways_to_create()
        self._moves: tuple[files.Move, ...] = (files.move_by_rename, files.move_by_link)
        self._synced: set[str] = set()
        self._witnesses: dict[str, str] = {}
        """By folder that was listed, an object below it: while that is there, nothing else is looked for."""
        self._found = next(path for path in (self._root, *self._root.parents) if os.path.isdir(path)).as_posix()

    def perform(self, request: StoreRequest[Any]) -> Any:
        """Perform ``request``; see `Store.perform`."""
        return handler(_HANDLERS, request)(self, request)

    def describe(self) -> str:
        """The directory's path."""
        return f"local directory {self._root}"

    def close(self) -> None:
        """Nothing is held open between requests."""

    def _get(self, request: Get) -> bytes:
        return self._stamped(request)[0]

    def _stamped(self, request: Get) -> tuple[bytes, _Stamp | None]:
        file = _opened(self._prefix + request.path, request.path)
        try:
            found = _status_of(file, request.path)
            stamp = _stamp_of(found)  # before the file is read, so that no later one can have it
            spans = spans_of(request, found.st_size)
            parts = (_chunks(file, first, end, end - first, request.path) for first, end in spans)
            return b"".join(chain.from_iterable(parts)), stamp
        finally:
            os.close(file)

    def _open(self, request: Open) -> FileIO | None:
        file, found = _opened(self._prefix + request.path, request.path), None
        try:
            if _status_of(file, request.path).st_size == request.size_bytes:
                found = FileIO(file)
            return found
        finally:
            if found is None:
                os.close(file)

    def _head(self, request: Head) -> int:
        return _status(self._prefix + request.path, request.path).st_size

    def _stamp(self, request: Stat) -> _Stamp | None:
        return _stamp_of(_status(self._prefix + request.path, request.path))

    def _list(self, request: List) -> tuple[str, ...]:
        folder = f"{request.path}/" if request.path else ""
        return tuple(sorted(folder + found for found in _walk(self._prefix + folder, request.path)))

    def _list_folders(self, request: ListFolders) -> tuple[str, ...]:
        path = self._prefix + request.path
        folders = (name for name, is_folder in _entries(path, request.path) if is_folder)
        return tuple(sorted(name for name in folders if self._has_object(f"{path}/{name}/", request.path)))

    def _has_object(self, folder: str, name: str) -> bool:
        """Whether there is any object below ``folder``, which ends in a slash."""
        known = self._witnesses.get(folder)
        if known is not None and os.path.isfile(known):
            return True
        found = next(_walk(folder, name), None)
        if found is None:
            return False
        self._witnesses[folder] = folder + found
        return True

    @implements("AMB-38", "MANIFEST-021", "MANIFEST-039")
    def _put_if_absent(self, request: PutIfAbsent) -> None:
        target = self._writable(request.path)
        cause: files.Unsupported | None = None
        for create in self._creates:
            try:
                create(target, request.data, request.path, self._fsync)
            except files.Unsupported as unsupported:
                cause = unsupported
                self._creates = tuple(way for way in self._creates if way is not create)
                continue
            return self._sync(target, request.path)
        raise self._without_atomic_create(request.path, cause) from cause

    def _put(self, request: Put) -> None:
        target = self._writable(request.path)
        files.replace(target, (request.data,), request.path, self._fsync)
        self._sync(target, request.path)

    def _delete(self, request: Delete) -> None:
        path = self._prefix + request.path
        try:
            os.unlink(path)
        except OSError as error:
            if error.errno in files.NOTHING_THERE or os.path.isdir(path):
                return
            raise files.fate(error, request.path) from error
        self._sync(path, request.path)

    def _copy(self, request: Copy) -> None:
        target = self._writable(request.target)
        file = _opened(self._prefix + request.path, request.path)
        try:
            chunks = _chunks(file, 0, _status_of(file, request.path).st_size, _CHUNK_BYTES, request.path)
            files.replace(target, chunks, request.target, self._fsync)
        finally:
            os.close(file)
        self._sync(target, request.target)

    @implements("AMB-38", "MANIFEST-021", "MANIFEST-039")
    def _rename_if_absent(self, request: RenameIfAbsent) -> None:
        source, target = self._prefix + request.path, self._writable(request.target)
        _status(source, request.path)  # a folder would be renamed, too
        cause: files.Unsupported | None = None
        for move in self._moves:
            try:
                move(source, target, request.path, request.target)
            except files.Unsupported as unsupported:
                cause = unsupported
                self._moves = tuple(way for way in self._moves if way is not move)
                continue
            self._sync(target, request.target)
            return self._sync(source, request.path)
        raise self._without_atomic_create(request.target, cause) from cause

    def _writable(self, name: str) -> str:
        if files.is_leftover(name.rpartition("/")[2]):
            raise InvalidArgument(f"{name!r}: this name is reserved for temporary files")
        return self._prefix + name

    def _sync(self, path: str, name: str) -> None:
        """With ``fsync``: flush the file's folder, and the first time the folders that may have been made for it."""
        if not self._fsync:
            return
        folder = path.rpartition("/")[0] or "/"
        files.sync_folders(folder, folder if folder in self._synced else self._found, name)
        self._synced.add(folder)

    def _without_atomic_create(self, name: str, cause: files.Unsupported | None) -> StorageError:
        reason = f"{cause}; " if cause else ""
        return StorageError(name, f"{reason}no atomic create in {self._root}: neither links nor renames [AMB-38]")


def _opened(path: str, name: str) -> int:
    """Descriptor of the file at ``path``. Raises `NotFound` or `StorageError`."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # or opening a pipe would wait for its other end
    except OSError as error:
        raise _unreadable(error, name) from error


def _status_of(file: int, name: str) -> os.stat_result:
    """Of an open file. Raises `NotFound` for what is no object."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise NotFound(name)
    return found


def _stamp_of(found: os.stat_result) -> _Stamp | None:
    """No other file that ever had the name has the same: a new one has another number or was changed later."""
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _TICK_NS:
        return None  # a file that replaces it now may get the same times
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _unreadable(error: OSError, name: str) -> NotFound | StorageError:
    return NotFound(name) if error.errno in files.NOTHING_THERE else files.refusal(error, name)


def _status(path: str, name: str) -> os.stat_result:
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unreadable(error, name) from error
    if not stat.S_ISREG(found.st_mode):
        raise NotFound(name)
    return found


def _chunks(file: int, first: int, end: int, chunk_bytes: int, name: str) -> Iterator[bytes]:
    """The bytes from ``first`` to ``end``, in chunks of at most ``chunk_bytes``."""
    while first < end:
        try:
            chunk = os.pread(file, min(chunk_bytes, end - first), first)
        except OSError as error:
            raise _unreadable(error, name) from error
        if not chunk:
            raise StorageError(name, f"ends at byte {first} of {end}: something truncated it while it was read")
        yield chunk
        first += len(chunk)


def _entries(folder: str, name: str) -> Iterator[tuple[str, bool]]:
    """Names of the objects and folders in ``folder``, as far as they are asked for, and whether each is a folder.

    Links are followed. Nothing for a folder that is not there.
    """
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    is_folder = entry.is_dir()
                    is_object = not is_folder and entry.is_file() and not files.is_leftover(entry.name)
                except OSError as error:
                    raise files.refusal(error, name) from error
                if is_folder or is_object:
                    yield entry.name, is_folder
    except OSError as error:
        if error.errno not in files.NOTHING_THERE:
            raise files.refusal(error, name) from error


def _walk(path: str, name: str) -> Iterator[str]:
    """Paths of all objects below the folder ``path`` (which ends in a slash), relative to it, in no order."""
    folders = [""]
    while folders:
        folder = folders.pop()
        for entry, is_folder in _entries(path + folder, name):
            if is_folder:
                folders.append(f"{folder}{entry}/")
            else:
                yield folder + entry


_HANDLERS: Handlers[LocalStore] = {
    Get: LocalStore._get,
    GetRanges: LocalStore._get,
    Head: LocalStore._head,
    List: LocalStore._list,
    ListFolders: LocalStore._list_folders,
    Open: LocalStore._open,
    PutIfAbsent: LocalStore._put_if_absent,
    Put: LocalStore._put,
    Delete: LocalStore._delete,
    Copy: LocalStore._copy,
    RenameIfAbsent: LocalStore._rename_if_absent,
    Stat: LocalStore._stamp,
    Stamped: LocalStore._stamped,
}
