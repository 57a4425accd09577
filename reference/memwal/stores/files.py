"""Whole files that appear under their name at once: the atomic create and replace of a local directory.

A file is written where no reader looks for it and then published under its name by one system call. Those that do not
replace an existing file (``linkat``, ``link``, ``renameat2`` with RENAME_NOREPLACE) are the arbiters between writers.

Before the publishing call nothing can have been applied, so that its errors are refusals. From that call on an error
that leaves the fate open (a device or a network file system that failed) is `OutcomeUnknown`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable, Iterable

from ..errors import AlreadyExists, NotFound, Outcome, OutcomeUnknown, StorageError

Move = Callable[[str, str, str, str], None]
"""``move(source, target, source_name, name)``: file system paths, object names of both for errors."""

Create = Callable[[str, bytes, str, bool], None]
"""``create(target, data, name, fsync)``: file system path, content, object name for errors, fsync the file first."""

NOTHING_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
"""Errors that say, of a request for an existing object, that there is none: a folder is not an object."""

_FATE_OPEN = frozenset(
    {errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EINTR, errno.ENXIO, errno.ENODEV}
    | {errno.ECONNRESET, errno.ECONNABORTED, errno.ENOTCONN, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN}
    | {errno.EHOSTUNREACH, errno.EREMOTEIO, errno.ESHUTDOWN, errno.EPIPE}
)
_NOT_SUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM})
_NO_UNNAMED = _NOT_SUPPORTED - {errno.EPERM} | {errno.EISDIR}  # EISDIR: what a kernel without O_TMPFILE says
_LEFTOVER = re.compile(r"\..*\.[0-9a-f]{16}\.tmp|.+\.tmp\..+", re.DOTALL)
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100
_MODE = 0o666  # the process's umask has the last word


class Unsupported(Exception):
    """The file system does not offer the call on which a way of publishing rests. Nothing was applied."""


def is_leftover(filename: str) -> bool:
    """Whether ``filename`` (last component) is a temporary name, of this module or of revision R's native writer."""
    return ".tmp" in filename and _LEFTOVER.fullmatch(filename) is not None


def refusal(error: OSError, name: str) -> StorageError:
    """The outcome of a request that ``error`` kept from being applied."""
    return StorageError(name, _words(error))


def fate(error: OSError, name: str) -> Outcome:
    """The outcome of a request during whose one changing call ``error`` came up."""
    return OutcomeUnknown(name, _words(error)) if error.errno in _FATE_OPEN else refusal(error, name)


def create_unnamed(target: str, data: bytes, name: str, fsync: bool) -> None:
    """Create from a file without a name (Linux): the cheapest way, and a crash leaves nothing behind."""
    folder = target.rpartition("/")[0]
    try:
        file = _in_folder(folder, lambda: os.open(folder, os.O_TMPFILE | os.O_WRONLY, _MODE))
    except OSError as error:
        if error.errno in _NO_UNNAMED:
            raise Unsupported(_words(error)) from error
        raise refusal(error, name) from error
    published = False
    try:
        _fill(file, (data,), name, fsync)
        try:
            # The directory is ignored for an absolute source, but without one Python would not follow the link.
            os.link(f"/proc/self/fd/{file}", target, src_dir_fd=file, follow_symlinks=True)
        except OSError as error:
            if os.fstat(file).st_nlink == 0:
                raise _not_published(error, target, name) from error
        published = True
    finally:
        _close(file, name, published)


def create_by_link(target: str, data: bytes, name: str, fsync: bool) -> None:
    """Create by a hard link from a temporary name."""
    temporary = _write_temporary(target, (data,), name, fsync)
    try:
        os.link(temporary, target)
    except OSError as error:
        # A network file system may repeat the call and answer EEXIST to its own success: the link count tells.
        if _links(temporary) < 2:
            raise _not_published(error, target, name) from error
    finally:
        _remove_temporary(temporary, name)


def create_by_rename(target: str, data: bytes, name: str, fsync: bool) -> None:
    """Create by a rename that does not replace, for Linux file systems without hard links."""
    temporary = _write_temporary(target, (data,), name, fsync)
    try:
        _rename_no_replace(temporary, target)
    except OSError as error:
        _remove_temporary(temporary, name)
        raise _not_published(error, target, name) from error


def ways_to_create() -> tuple[Create, ...]:
    """The ways to create without replacing that this operating system offers, cheapest first."""
    unnamed = hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")
    return (*((create_unnamed,) if unnamed else ()), create_by_link, create_by_rename)


def replace(target: str, chunks: Iterable[bytes], name: str, fsync: bool) -> None:
    """Create or replace ``target`` with the concatenated ``chunks``."""
    temporary = _write_temporary(target, chunks, name, fsync)
    try:
        os.replace(temporary, target)
    except OSError as error:
        _remove_temporary(temporary, name)
        raise fate(error, name) from error


def move_by_rename(source: str, target: str, source_name: str, name: str) -> None:
    """Move by a rename that does not replace (Linux); one step for source and target."""
    _publish_move(lambda: _rename_no_replace(source, target), target, source_name, name)


def move_by_link(source: str, target: str, source_name: str, name: str) -> None:
    """Move by a hard link and a removal: the target appears atomically, and the source is gone when this returns.

    Two moves of one source to two targets may both succeed, unlike with `move_by_rename`.
    """
    _publish_move(lambda: os.link(source, target), target, source_name, name)
    try:
        os.unlink(source)
    except OSError as error:
        raise OutcomeUnknown(name, f"created, but the source could not be removed: {_words(error)}") from error


def sync_folders(folder: str, last: str, name: str) -> None:
    """Flush the entries of ``folder`` and of the folders above it up to and including ``last`` to the device."""
    try:
        while True:
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if folder == last:
                return
            folder = folder.rpartition("/")[0] or "/"
    except OSError as error:
        raise OutcomeUnknown(name, f"applied, but perhaps not durable: {_words(error)}") from error


def _words(error: OSError) -> str:
    return f"{errno.errorcode.get(error.errno or 0, 'unknown error')}: {error.strerror}"


def _not_published(error: OSError, target: str, name: str) -> Outcome | Unsupported:
    """What a failed call that does not replace means: taken, not offered here, refused, or unknown."""
    if error.errno == errno.EEXIST:
        return StorageError(name, "a folder has this name") if os.path.isdir(target) else AlreadyExists(name)
    return Unsupported(_words(error)) if error.errno in _NOT_SUPPORTED else fate(error, name)


def _publish_move(call: Callable[[], None], target: str, source_name: str, name: str) -> None:
    try:
        _in_folder(target.rpartition("/")[0], call)
    except FileNotFoundError as error:  # the folder was made, so that it is the source that is missing
        raise NotFound(source_name) from error
    except OSError as error:
        raise _not_published(error, target, name) from error


def _links(path: str) -> int:
    try:
        return os.stat(path).st_nlink
    except FileNotFoundError:
        return 0


def _in_folder(folder: str, call: Callable[[], int | None]) -> int:
    """The result of ``call``, which is repeated once after making ``folder`` if something is missing."""
    try:
        return call() or 0
    except FileNotFoundError:
        try:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError as error:  # which would read as if the object existed
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from error
        return call() or 0


def _write_temporary(target: str, chunks: Iterable[bytes], name: str, fsync: bool) -> str:
    folder, _, last = target.rpartition("/")
    # Cut, so that a name that the file system just admits has a temporary name that it admits, too.
    temporary = f"{folder}/.{last[:50]}.{os.urandom(8).hex()}.tmp"
    try:
        file = _in_folder(folder, lambda: os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))
    except OSError as error:
        raise refusal(error, name) from error
    complete = False
    try:
        try:
            _fill(file, chunks, name, fsync)
        finally:
            _close(file, name, published=False)
        complete = True
    finally:
        if not complete:
            _remove_temporary(temporary, name)
    return temporary


def _fill(file: int, chunks: Iterable[bytes], name: str, fsync: bool) -> None:
    try:
        for chunk in chunks:
            written = os.write(file, chunk)
            while written < len(chunk):
                written += os.write(file, memoryview(chunk)[written:])
        if fsync:
            os.fsync(file)
    except OSError as error:
        raise refusal(error, name) from error


def _close(file: int, name: str, published: bool) -> None:
    try:
        os.close(file)
    except OSError as error:  # where a network file system reports what it could not write
        raise (OutcomeUnknown(name, _words(error)) if published else refusal(error, name)) from error


def _remove_temporary(temporary: str, name: str) -> None:
    try:
        os.unlink(temporary)
    except FileNotFoundError:
        return  # another process cleaned up first; nothing is left, which is what was wanted
    except OSError as error:
        raise OutcomeUnknown(name, f"a temporary file could not be removed: {_words(error)}") from error


def _find_renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    found = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return found


_renameat2 = _find_renameat2()


def _rename_no_replace(source: str, target: str) -> None:
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), source, None, target)
    if _renameat2(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), source, None, target)
