"""CPU seconds of this process and all below it; needs nothing but Python, so that other environments have it too."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl."""

# Spark's Python workers outlive the process that started them. A descendant that loses its parent becomes its
# child, and is found here.
if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0):
    raise OSError(ctypes.get_errno(), "orphans of this process cannot be kept, and their time would be lost")


def processes(root: int) -> Iterator[tuple[int, list[str]]]:
    """Numbers of the process ``root`` and of all below it, with the fields of their ``stat`` behind the name."""
    parents: dict[int, list[int]] = {}
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            found[int(entry.name)] = fields
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [root]
    while waiting:
        number = waiting.pop()
        waiting += parents.get(number, [])
        if number in found:
            yield number, found[number]


def cpu_seconds() -> float:
    """CPU seconds of this process and all below it, those of ended ones included.

    The process that starts Spark's Python workers waits for none of them, so that no process has their time once they
    have ended. Here it is what was seen of them last, at most `_LOOK_S` before; the looking is not counted.
    """
    _look()
    with _lock:
        return sum(_seen.values()) / _TICKS - sum(_spent.values())


_LOOK_S = 0.5
_lock = threading.Lock()
_seen: dict[tuple[int, str], int] = {}
"""Process and when it started -> its own ticks."""
_spent: dict[int, float] = {}
"""Thread -> seconds that it has looked."""


def _look() -> None:
    with _lock:
        started = time.thread_time()
        for number, fields in processes(os.getpid()):
            _seen[number, fields[19]] = int(fields[11]) + int(fields[12])
        thread = threading.get_ident()
        _spent[thread] = _spent.get(thread, 0.0) + time.thread_time() - started


def _look_on() -> None:
    while True:
        _look()
        time.sleep(_LOOK_S)


threading.Thread(target=_look_on, name="process tree", daemon=True).start()
