"""A command in a process of its own, since damage inside of a Lance file can end the process of the native reader.

Where that happens the command starts again and is told which file it was: it then meets that file as one that cannot
be read, and says so, or continues with what does not need it. The process is a copy of this one, which has done nothing
yet, so that the guard costs a few milliseconds. Systems that cannot copy a process have no guard.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from mmap import mmap

GUARDED = frozenset({"catch-up", "count", "gc", "info", "inspect", "merge", "repair", "scan", "snapshot", "verify"})
"""Commands that may be run again from their beginning: what was done stays, and is not done twice."""
CRASHES_MAX = 20
"""Files that may end the process before the command is given up."""
_DEATHS = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGKILL", "SIGSEGV", "SIGTRAP"}
"""How native code ends a process: SIGKILL is what a system without memory sends."""
_FORWARDED = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)


def enter(command: str, tell: Callable[[str], None]) -> None:
    """Continue in a process of its own if ``command`` is guarded; this one waits, and ends as that one does.

    ``tell`` gets a line for each file that ended a process.
    """
    if command not in GUARDED or not hasattr(os, "fork"):
        return
    from memwal.codec import native

    deadly: dict[str, str] = {}
    while True:
        memory = mmap(-1, native.MARK_BYTES)
        ended = _copied()
        if ended is None:
            native.watched_by(native.Watch(memory=memory, deadly=deadly))
            return
        code, path = ended, native.marked(memory)
        if code >= 0:
            sys.exit(code)
        name = signal.Signals(-code).name
        if name not in _DEATHS or not path or path in deadly or len(deadly) == CRASHES_MAX:
            tell(f"the command was ended by {name}{f' while it read {path}' if path else ''}")
            sys.exit(128 - code)
        deadly[path] = f"reading it ends the process of the native reader ({name})"
        tell(f"{path}: {deadly[path]}; starting again without it")


def _copied() -> int | None:
    """None in the copy of this process; here the code with which the copy ended, negative for a signal."""
    end, held = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(held)
        threading.Thread(target=_end_with, args=(end,), name="memwal-guard", daemon=True).start()
        return None
    os.close(end)
    forward = lambda number, _: os.kill(child, number)  # noqa: E731 - a handler, for three signals
    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN if _in_front() else forward)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(held)


def _end_with(end: int) -> None:
    """End this process when the one that waits for it does: the other end of the pipe is closed."""
    os.read(end, 1)
    os._exit(128 + signal.SIGKILL)


def _in_front() -> bool:
    """Whether a terminal sends its interrupts to this process and its copy alike."""
    try:
        return os.tcgetpgrp(sys.__stderr__.fileno() if sys.__stderr__ else 2) == os.getpgrp()
    except OSError:
        return False
