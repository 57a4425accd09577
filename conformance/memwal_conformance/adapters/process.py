"""The harness's side of an adapter: one operating-system process, JSON lines, time limits, SIGKILL as the crash."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from memwal_conformance import protocol
from memwal_conformance.protocol import AdapterError, Hello, Json, ProtocolViolation
from memwal_conformance.verdicts import Verdict

LINE_LIMIT_BYTES = 256 * 1024 * 1024
"""A reply line longer than this is a protocol violation."""
LEAVE_S = 10.0
"""How long a process may take to exit after it has answered ``shutdown``."""
STDERR_BYTES = 65_536
"""How much of the end of standard error is looked at."""
STDERR_LINES = 30
"""How many of the last lines of standard error a report shows."""


class AdapterCrash(Exception):
    """The process ended without being asked to; carries its exit status and the end of standard error."""

    def __init__(self, during: str, status: int, stderr: str) -> None:
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        super().__init__(f"the adapter ended ({how}) during {during}" + (f"; it wrote:\n{stderr}" if stderr else ""))
        self.status, self.stderr = status, stderr


class AdapterTimeout(Exception):
    """No answer in time; the process was killed."""

    def __init__(self, during: str, limit_s: float, stderr: str) -> None:
        super().__init__(f"no answer to {during} in {limit_s:g} s" + (f"; it wrote:\n{stderr}" if stderr else ""))


class AdapterMissing(Exception):
    """The command of the adapter could not be started."""


BROKEN = (AdapterCrash, AdapterTimeout, AdapterMissing, ProtocolViolation, AdapterError)
"""What a broken adapter raises."""


def verdict_of(error: Exception) -> Verdict:
    """The verdict of a case in which the adapter, or the suite itself, broke down."""
    if isinstance(error, AdapterCrash):
        return Verdict.CRASH
    return Verdict.HANG if isinstance(error, AdapterTimeout) else Verdict.HARNESS_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and what came of it, for the run log."""

    actor: str
    message: str
    params: Json
    outcome: Json
    """``{"result": …}``; ``{"error": …}``; ``{"killed": text}`` if the suite killed the process before it answered; or
    ``{"broken": text}`` if there was no valid answer."""
    seconds: float
    trace: tuple[Json, ...] = ()
    """Requests to the store that the adapter told of meanwhile."""


class AdapterProcess:
    """A running adapter. Use as a context manager: leaving it ends the process, by force if need be."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        actor: str = "adapter",
        limit_s: float = 60.0,
        environment: Mapping[str, str] | None = None,
        log: Callable[[Exchange], None] | None = None,
    ) -> None:
        """Start ``command`` in a session of its own. Raises `AdapterMissing` if that fails."""
        self.actor = actor
        self.limit_s = limit_s
        self.hello: Hello | None = None
        self._log = log
        self._number = 0
        self._buffer = b""
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._news = threading.Condition()
        """Guards the two below: of the threads that wait for answers one reads, and hands on what is not its own."""
        self._reading = False
        self._arrived: dict[int, bytes] = {}
        """Number of a request -> its reply, which another thread has read."""
        self._calls: dict[int, int] = {}
        """Requests without an answer -> the thread that waits. The last closes the pipes: none reads others'."""
        self._interrupted = False
        """Another thread has killed the process while one waited."""
        self._broke: Exception | None = None
        """Why a thread has given the process up; all that wait raise it."""
        self._stderr: IO[bytes] = tempfile.TemporaryFile(prefix="memwal-stderr-")  # noqa: SIM115 - closed in _close
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=dict(environment) if environment is not None else None,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._stderr.close()
            reason = "it is a folder" if Path(command[0]).is_dir() else error.strerror
            raise AdapterMissing(f"cannot start {' '.join(command)}: {reason}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)

    def __enter__(self) -> AdapterProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.returncode is None and not self._ends_within(0)

    @property
    def under_way(self) -> int:
        """How many requests have no answer yet."""
        return len(self._calls)

    @property
    def number(self) -> int:
        """Id of the process, which is also that of its group."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None until the process was killed or ended."""
        return self._process.returncode

    def stderr_tail(self) -> str:
        """The last lines of standard error."""
        if self._stderr.closed:
            return ""
        # Positioned reads: the process writes through the same file description, whose place must stay its own.
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(0, size - STDERR_BYTES)
        lines = os.pread(self._stderr.fileno(), size - start, start).decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-STDERR_LINES:])

    def greet(self, limit_s: float | None = None) -> Hello:
        """Send ``hello``; the answer is kept in ``hello``.

        ``limit_s``: of this message, since a process has to start first.
        """
        ordinary = self.limit_s
        self.limit_s = ordinary if limit_s is None else limit_s
        try:
            self.hello = Hello.of(self.call("hello", {"protocol": protocol.VERSION}))
        finally:
            self.limit_s = ordinary
        return self.hello

    def call(self, message: str, params: Json) -> Json:
        """Send one request and wait for its result. Several threads may, if the adapter is ``concurrent``.

        Raises `AdapterError` for an error reply, `AdapterCrash`, `AdapterTimeout`, or `ProtocolViolation`. After the
        last three the process is gone.
        """
        started = time.monotonic()
        outcome: Json = {"broken": "the suite was interrupted before there was an answer"}
        trace: list[Json] = []
        with self._lock:
            self._number += 1
            number = self._number
            self._calls[number] = threading.get_ident()
        try:
            line = protocol.request(number, message, params)
            with self._sending:
                self._send(line, message, started)
            result = protocol.reply(self._answer(number, message, started, trace), number, message)
            outcome = {"result": result}
            return result
        except AdapterError as error:
            outcome = {"error": {"kind": error.kind, "message": error.native}}
            raise
        except (AdapterCrash, AdapterTimeout, ProtocolViolation) as error:
            with self._lock:
                self._broke = why = self._broke or error
            outcome = {"killed" if self._interrupted else "broken": str(why)}
            self.kill()
            if why is error:
                raise
            raise why from None
        finally:
            with self._lock:
                del self._calls[number]
                if self._process.returncode is not None and not self._calls:
                    self._close()
            if self._log is not None:
                seconds = round(time.monotonic() - started, 4)
                self._log(
                    Exchange(
                        actor=self.actor,
                        message=message,
                        params=params,
                        outcome=outcome,
                        seconds=seconds,
                        trace=tuple(trace),
                    )
                )

    def _send(self, line: bytes, message: str, started: float) -> None:
        os.set_blocking(self._stdin.fileno(), False)
        left = memoryview(line)
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            while left:
                if not selector.select(self._time_left(message, started)):
                    continue
                try:
                    left = left[os.write(self._stdin.fileno(), left) :]
                except BrokenPipeError:
                    raise self._crashed(message) from None

    def _answer(self, number: int, message: str, started: float, trace: list[Json]) -> bytes:
        """The reply to a request, whichever thread reads it. Events are of the request whose thread does."""
        while True:
            with self._news:
                while self._reading and number not in self._arrived:
                    self._news.wait(self._time_left(message, started))
                if number in self._arrived:
                    return self._arrived.pop(number)
                self._reading = True
            try:
                line = self._receive(message, started)
                if (event := protocol.event(line)) is not None:
                    trace.append(event)
                    continue
                of = protocol.number_of(line)
                if of == number or of not in self._calls:
                    return line
                self._arrived[of] = line
            finally:
                with self._news:
                    self._reading = False
                    self._news.notify_all()

    def _receive(self, message: str, started: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if len(self._buffer) > LINE_LIMIT_BYTES:
                    raise ProtocolViolation(f"the answer to {message} is longer than {LINE_LIMIT_BYTES} bytes")
                if not selector.select(self._time_left(message, started)):
                    continue
                piece = os.read(self._stdout.fileno(), 1 << 20)
                if not piece:
                    raise self._crashed(message)
                self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _time_left(self, message: str, started: float) -> float:
        left = started + self.limit_s - time.monotonic()
        if left <= 0:
            raise AdapterTimeout(message, self.limit_s, self.stderr_tail())
        return left

    def _crashed(self, message: str) -> AdapterCrash:
        ended = self._ends_within(self.limit_s)
        stderr = self.stderr_tail()
        self.kill()
        if not ended:
            return AdapterCrash(
                f"{message} (it closed its output, and continued to run)", self._process.returncode, stderr
            )
        return AdapterCrash(message, self._process.returncode, stderr)

    def _ends_within(self, limit_s: float) -> bool:
        """Whether the process ends in time. Its status is left uncollected: until then its number stays its own."""

        def watch() -> None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

        if limit_s == 0:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        watcher.join(limit_s)
        return not watcher.is_alive()

    def strike(self) -> None:
        """SIGKILL alone, from any thread: a caller that waits for an answer finds out by itself."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> bool:
        """SIGKILL the process and everything that it started; whether the process was running until then."""
        with self._lock:
            if self._process.returncode is not None:
                return False
            was_running = self.alive
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if not self._calls:
                self._close()
            elif threading.get_ident() not in self._calls.values():
                self._interrupted = True
            return was_running and self._process.returncode == -signal.SIGKILL

    def end(self) -> None:
        """Ask the process to shut down, and kill it if it does not; the log says so then."""
        if self.alive and self.hello is not None:
            # Nothing is judged by how an actor leaves, and the kill below ends it in any case.
            with contextlib.suppress(AdapterError, AdapterCrash, AdapterTimeout, ProtocolViolation):
                self.call("shutdown", {})
                limit_s = min(self.limit_s, LEAVE_S)
                if not self._ends_within(limit_s) and self._log is not None:
                    outcome = {"broken": f"it answered shutdown, did not exit in {limit_s:g} s, and was killed"}
                    self._log(
                        Exchange(actor=self.actor, message="shutdown", params={}, outcome=outcome, seconds=limit_s)
                    )
        self.kill()

    def _close(self) -> None:
        self._stdin.close()
        self._stdout.close()
        self._stderr.close()
