"""Calls of native code with bytes that may be damaged: what goes wrong in one is a typed error that names the file.

Native readers raise errors on most damaged files and panic on some; on a few they end the process, which no code in it
can prevent. Therefore a call leaves a mark, by which another process can tell what this one was reading when it ended
(see `memwal.cli.guard`), and a process that was told which files have ended others refuses these.
"""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import mmap
from types import FrameType

import pyarrow as pa

from ..errors import ArtifactError, NoRoom

_OUT_OF_SOMETHING = frozenset((errno.EIO, errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.ENOSPC, errno.EDQUOT))
"""Errors of this machine, not of a file."""
_HELD = (signal.SIGINT, signal.SIGTERM)
"""Signals whose handlers raise: by default, and in many programs."""
MARK_BYTES = 4096
"""Size of the memory that a mark is left in: the length of a name in two bytes, and the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What this process and the one that watches it know of each other."""

    memory: mmap
    """Shared by both."""
    deadly: Mapping[str, str]
    """Files whose reading has ended a process before, and how."""


_watches: list[Watch] = []
"""The watch over this process, if there is one: a process is the thing that ends."""


def watched_by(watch: Watch) -> None:
    """Leave marks for ``watch`` from now on, and refuse the files that it knows to be deadly."""
    _watches[:] = [watch]


def marked(memory: mmap) -> str:
    """The file that the process which shares ``memory`` is reading; empty for none."""
    size = int.from_bytes(memory[:2])
    return memory[2 : 2 + size].decode(errors="replace")


def _mark(memory: mmap, path: str) -> None:
    name = path.encode()[: MARK_BYTES - 2]
    memory[: 2 + len(name)] = len(name).to_bytes(2) + name


@contextmanager
def reading(path: str, clause: str, *, refusal: str) -> Iterator[None]:
    """Native code reads ``path`` inside: raises `ArtifactError` naming ``clause`` for what it raises or panics on.

    Raises `NoRoom` for what the system refuses it.
    ``refusal``: what the error says first: that the bytes are not what they should be.
    """
    watch = _watches[0] if _watches else None
    if watch is not None and path in watch.deadly:
        raise ArtifactError(clause, path, f"{refusal}: {watch.deadly[path]}")
    with signals_held(), _mark_left(watch, path), _typed(path, clause, refusal):
        yield


@contextmanager
def signals_held() -> Iterator[None]:
    """Handlers of signals run behind the block: a native stream takes what a handler raises for its end.

    It then gives fewer rows and says nothing, and the interrupt is lost. Without effect outside of the main
    thread, where no handlers run.
    """
    came: list[tuple[int, FrameType | None]] = []
    before = {number: signal.getsignal(number) for number in _HELD}
    own = {number: handler for number, handler in before.items() if callable(handler)}
    try:
        for held in own:
            signal.signal(held, lambda *arguments: came.append(arguments))
    except ValueError:  # another thread
        own = {}
    try:
        yield
    finally:
        for held, handler in own.items():
            signal.signal(held, handler)
        for number, frame in came:
            own[signal.Signals(number)](number, frame)


@contextmanager
def _mark_left(watch: Watch | None, path: str) -> Iterator[None]:
    if watch is None:
        yield
        return
    before = marked(watch.memory)
    _mark(watch.memory, path)
    try:
        yield
    finally:
        _mark(watch.memory, before)


@contextmanager
def _typed(path: str, clause: str, refusal: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError, NotImplementedError, pa.ArrowException) as error:
        if _is_refused(error):
            raise NoRoom(path, f"cannot be decoded now: {_first_line(error)}") from error
        raise ArtifactError(clause, path, f"{refusal}: {_first_line(error)}") from error
    except BaseException as error:
        # The type of a panic is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise ArtifactError(clause, path, f"{refusal}: the native reader panicked") from error


def _is_refused(error: BaseException) -> bool:
    """Whether the system refused something: native code gives the number of its error."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return found is not None and int(found[1]) in _OUT_OF_SOMETHING


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].partition(", /")[0]
