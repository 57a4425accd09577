"""CPU seconds of this process and all below it; needs nothing but Python, so that other environments have it too."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl."""

# Spark's Python workers outlive the process that started them. Whoever loses its parent below this process becomes its
# child, and stays one when it has ended, since nobody waits for it: its time is never lost, and a sum never falls.
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
    """CPU seconds of this process and all below it, those of ended ones included."""
    return sum(sum(map(int, fields[11:15])) for _, fields in processes(os.getpid())) / _TICKS
