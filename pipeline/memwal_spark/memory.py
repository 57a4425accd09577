"""How much memory a job takes: this process and everything that it started."""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path
from types import TracebackType

_EVERY_SECONDS = 0.5
_RESOURCE_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


class PeakMemory:
    """Context manager: samples the resident memory of the process tree until it is left.

    Linux: largest sum over the tree (pages that forked Python workers share count once for each). Elsewhere: peak of
    this process plus that of its largest finished child.
    """

    def __init__(self) -> None:
        self._peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="peak-memory", daemon=True)

    @property
    def peak_bytes(self) -> int:
        """Largest value seen so far."""
        return self._peak_bytes

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self._peak_bytes = max(self._peak_bytes, tree_bytes())
            if self._stop.wait(_EVERY_SECONDS):
                return


def tree_bytes(proc: Path = Path("/proc")) -> int:
    """Resident bytes of this process and its descendants now (peaks instead where there is no ``/proc``)."""
    if not (proc / "self" / "stat").is_file():
        both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(resource.getrusage(who).ru_maxrss for who in both) * _RESOURCE_UNIT_BYTES
    children: dict[int, list[int]] = {}
    pages: dict[int, int] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            process = int(entry.name)
            children.setdefault(int(fields[1]), []).append(process)
            pages[process] = int(fields[21])
    found, todo = 0, [os.getpid()]
    while todo:
        process = todo.pop()
        found += pages.get(process, 0)
        todo += children.get(process, ())
    return found * os.sysconf("SC_PAGE_SIZE")
