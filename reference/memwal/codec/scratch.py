"""Files for the native reader, which opens files by name and takes no bytes.

A store whose objects are files of this machine opens them, and they are read where they lie (`OpenFile`). Of any other
object what is read is put into a file that only this process sees (`Scratch`): in memory where the system has files
without a folder (Linux), which no shared-memory folder bounds, and else in the temporary folder. It may have holes:
what is not read need not be there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO

from ..errors import NoRoom
from ..words import reason

Piece = tuple[int, bytes | memoryview]
"""Position and bytes."""
_DESCRIPTORS = "/proc/self/fd"
"""Folder in which this process finds its open files by number, where the system has it."""
READS_OPENED = os.path.isdir(_DESCRIPTORS)
"""Whether a file that is open can be opened by name, even if it is in no folder any more."""


class OpenFile:
    """A file that a store opened: all of its bytes are there."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.name = f"{_DESCRIPTORS}/{file.fileno()}"
        """Where it can be opened, in this process."""

    def __del__(self) -> None:
        self.close()

    def read(self, position: int, size: int) -> bytes:
        """Some of its bytes."""
        return os.pread(self._file.fileno(), size, position)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Scratch:
    """One file of ``size_bytes`` bytes that holds ``parts``: position and bytes each. A context manager.

    ``path``: the object whose bytes they are. Raises `NoRoom` naming it if neither place takes them: that says
    nothing about the bytes.
    """

    def __init__(self, parts: Iterable[Piece], size_bytes: int, path: str) -> None:
        self._descriptor, self._linked = -1, ""
        held = tuple(parts)
        self._path = path
        """Name in the temporary folder; empty for a file in memory."""
        refused = ""
        for place in (self._in_memory, self._in_temporary_folder):
            try:
                place()
                if self._descriptor >= 0:
                    os.truncate(self._descriptor, size_bytes)
                    _write(self._descriptor, held)
                    return
            except OSError as error:
                refused = reason(error)
                self.close()
        raise NoRoom(path, f"cannot be decoded in memory nor in {tempfile.gettempdir()}: {refused}")

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Where it can be opened, in this process."""
        return self._linked or f"{_DESCRIPTORS}/{self._descriptor}"

    def add(self, parts: Iterable[Piece]) -> None:
        """More parts of it. Raises `NoRoom`."""
        try:
            _write(self._descriptor, parts)
        except OSError as error:
            raise NoRoom(self._path, f"cannot be decoded: {reason(error)}") from error

    def read(self, position: int, size: int) -> bytes:
        """Some of its bytes."""
        return os.pread(self._descriptor, size, position)

    def close(self) -> None:
        """Drop the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._linked:
            with suppress(FileNotFoundError):
                os.unlink(self._linked)
            self._linked = ""

    def _in_memory(self) -> None:
        if hasattr(os, "memfd_create") and READS_OPENED:
            self._descriptor = os.memfd_create("memwal")

    def _in_temporary_folder(self) -> None:
        self._descriptor, self._linked = tempfile.mkstemp(prefix="memwal-", suffix=".lance")


def _write(descriptor: int, parts: Iterable[Piece]) -> None:
    for position, data in parts:
        left = memoryview(data)
        while left:
            written = os.pwrite(descriptor, left, position)
            left, position = left[written:], position + written
