"""Adapters that are ready at once: forks of one process that has imported the reference.

`Warm` is that process; its `command` is one of an adapter like any other, a process that takes lines and answers them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOOR = """
import socket, sys
with socket.socket(socket.AF_UNIX) as door:
    door.connect(sys.argv[1])
    socket.send_fds(door, ["\\0".join(sys.argv[2:]).encode() or b"\\0"], [0, 1, 2])
    sys.exit(int(door.recv(16) or b"1"))
"""
"""What stands for the adapter: it hands its pipes over, and ends as the fork ends. If it is killed, the fork is."""


ROLES = "roles of the suite"
IMPORTED = ("memwal_conformance.proving.broken", "memwal_conformance.adapters.suite_roles")
"""What forks have at once."""


@dataclass(frozen=True, slots=True)
class Warm:
    """A process that forks adapters."""

    door: Path

    @property
    def roles(self) -> tuple[str, ...]:
        """Command of the suite's own roles."""
        return self.command(ROLES)

    def command(self, *arguments: str) -> tuple[str, ...]:
        """Of the reference; with arguments, of what `memwal_conformance.proving.broken` serves with them."""
        return (sys.executable, "-I", "-S", "-c", DOOR, str(self.door), *arguments)


@contextlib.contextmanager
def warm() -> Iterator[Warm]:
    """Fork adapters while the context is open."""
    with tempfile.TemporaryDirectory(prefix="memwal-warm-") as folder, socket.socket(socket.AF_UNIX) as listening:
        door = Path(folder) / "door"
        listening.bind(str(door))
        listening.listen(64)
        server = os.fork()
        if not server:
            _serve(listening)
        listening.close()
        try:
            yield Warm(door)
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)


def _serve(listening: socket.socket) -> None:
    """Never returns."""
    try:
        for name in IMPORTED:
            importlib.import_module(name)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            connection, _ = listening.accept()
            if not os.fork():
                listening.close()
                _adapter(connection)
            connection.close()
    except BaseException:  # noqa: BLE001 - as any process that ends with a traceback
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _adapter(connection: socket.socket) -> None:
    """Never returns."""
    status = 1
    try:
        from memwal_conformance.adapters import reference, suite_roles
        from memwal_conformance.proving import broken

        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        said, pipes, _, _ = socket.recv_fds(connection, 65_536, 3)
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        arguments = [word for word in said.decode().split("\0") if word]
        if arguments == [ROLES]:
            suite_roles.main()
        elif arguments:
            broken.main(arguments)
        else:
            reference.main()
        status = 0
    except BaseException:  # noqa: BLE001 - as any process that ends with a traceback
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(OSError):
            connection.send(str(status).encode())
        os._exit(status)


def _end_with(connection: socket.socket) -> None:
    """End the fork when what stands for it has ended."""
    waiting = select.poll()
    waiting.register(connection, select.POLLRDHUP | select.POLLHUP)
    waiting.poll()
    os._exit(1)
