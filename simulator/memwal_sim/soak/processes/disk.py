"""A small file system of its own for the table, which can be filled up: a tmpfs, where the user may mount one."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CHUNKS = (1 << 20, 1 << 14, 1 << 12)


@dataclass(slots=True)
class Disk:
    """The folder of the run, and whether it is a file system of its own."""

    folder: Path
    mounted: bool
    full: bool = False

    def fill(self) -> None:
        """Take all that is left, so that the next write fails with ENOSPC."""
        self.full = True
        with open(self._ballast, "wb", buffering=0) as ballast:
            for size in _CHUNKS:
                _write_all(ballast.fileno(), bytes(size))

    def free(self) -> None:
        """Give it back."""
        self.full = False
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"


def _write_all(file: int, chunk: bytes) -> None:
    """Write ``chunk`` again and again until the file system is full."""
    while True:
        try:
            os.write(file, chunk)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Disk]:
    """``folder`` as a file system of ``mib`` MiB; as it is, where mounting is not permitted or ``mib`` is 0."""
    mounted = bool(mib) and _command("mount", "-t", "tmpfs", "-o", f"size={mib}m", "memwal-soak", str(folder))
    try:
        yield Disk(folder, mounted)
    finally:
        if mounted:
            _command("umount", "--lazy", str(folder))


def _command(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0  # noqa: S603 - mount, umount
    except FileNotFoundError:
        return False
