"""Another implementation as the writer of a validation: a process that speaks the adapter protocol of the suite.

``docs/adapter.md`` has the protocol: JSON lines, one answer for each request. Nothing of the suite is imported here; of
an implementation the job needs the messages of `NEEDED`, and the capability ``rows.ipc``, which carries every type.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from memwal.errors import InvalidArgument, MemwalError

SHIPPED = ("native", "reference")
"""Adapters that come with the suite, by name."""
NEEDED = ("writer.open", "writer.put", "writer.flush_memtable", "writer.close")
IPC = "rows.ipc"
STOPPED = ("fenced", "conflict", "cancelled", "storage", "internal")
"""Kinds of error with which a writer may say that another one has claimed its region."""
_ANSWER_S = 120.0
_STDERR_BYTES = 4096
_DYING = (
    (
        sys.executable,
        "-S",
        "-c",
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])",
    )
    if sys.platform == "linux"
    else ()
)
"""In front of a command: it is killed when its parent dies (PR_SET_PDEATHSIG of prctl(2))."""

Answer = dict[str, Any]


class ForeignFailed(MemwalError):
    """The adapter answered with an error, with nothing, or with something else; ``kind`` is that of an error reply."""

    def __init__(self, text: str, kind: str | None = None) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWriter:
    """Which implementation writes, as the tasks are told of it."""

    command: tuple[str, ...]
    revision: str
    acknowledged: str
    """Folder of what it has acknowledged, which ``memwal conformance judge`` reads."""
    settings: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(text: str, revision: str, acknowledged: str) -> ForeignWriter:
        """``text``: one of `SHIPPED`, or a command. Raises InvalidArgument for an empty one."""
        words = (sys.executable, "-m", f"memwal_conformance.adapters.{text}") if text in SHIPPED else shlex.split(text)
        if not words:
            raise InvalidArgument("[MEMWAL_WRITER] --writer must be a name or the command of an adapter")
        return ForeignWriter(command=tuple(words), revision=revision, acknowledged=acknowledged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What an implementation says of itself."""

    name: str
    version: str
    revisions: tuple[str, ...]
    roles: tuple[str, ...]
    partial: tuple[str, ...]
    capabilities: tuple[str, ...]
    helped: tuple[str, ...]
    """What its adapter does for it."""

    def answers(self, message: str) -> bool:
        """Whether it claims to answer ``message``."""
        role = {"merge": "merger", "snapshot": "index_builder", "catchup": "index_builder", "gc": "collector"}
        group = message.partition(".")[0]
        claimed = (*self.partial, *self.capabilities)
        return message in claimed or role.get(group, group) in self.roles


class ForeignProcess:
    """A running adapter, greeted and configured. A context manager: it is killed if the body fails, else shut down."""

    def __init__(self, writer: ForeignWriter, *, dies_with_us: bool = False) -> None:
        """Start it. ``dies_with_us``: on Linux, a SIGKILL of this process reaches it too, as a crash of both.

        Raises `ForeignFailed`, and InvalidArgument for an implementation that cannot write here.
        """
        self._number, self._buffer = 0, b""
        self._stderr = tempfile.TemporaryFile(prefix="memwal-writer-")  # noqa: SIM115 - closed when we leave
        try:
            self._process = subprocess.Popen(
                (*(_DYING if dies_with_us else ()), *writer.command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._stderr.close()
            raise InvalidArgument(
                f"[MEMWAL_WRITER] cannot start {shlex.join(writer.command)}: {error.strerror}"
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        try:
            self.greeting = _greeting(self.call("hello", {"protocol": "1"}))
            _check(self.greeting, writer.revision)
            asked = {"revision": writer.revision, "settings": writer.settings, "rows": "ipc"}
            self.call("configure", asked)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            with contextlib.suppress(ForeignFailed):  # nothing is judged by how it leaves
                self.call("shutdown", {})
        self.kill()

    def call(self, message: str, params: Mapping[str, object]) -> Answer:
        """The result of a message. Raises `ForeignFailed`."""
        self._number += 1
        line = json.dumps({"id": str(self._number), "message": message, "params": params}) + "\n"
        try:
            left = memoryview(line.encode())
            while left:
                left = left[self._input.write(left) or 0 :]
        except BrokenPipeError:
            raise self._ended(message) from None
        decoded = self._reply(message)
        if decoded.get("id") != str(self._number):
            raise ForeignFailed(f"{message}: the reply has id {decoded.get('id')}, and not {self._number}")
        if "error" in decoded:
            wrong = decoded["error"]
            raise ForeignFailed(f"{message}: {wrong['kind']}: {wrong['message']}", str(wrong["kind"]))
        if not isinstance(decoded.get("result"), dict):
            raise ForeignFailed(f"{message}: the reply has no result")
        return dict(decoded["result"])

    def _reply(self, message: str) -> Answer:
        until = time.monotonic() + _ANSWER_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise ForeignFailed(f"{message}: no answer in {_ANSWER_S:.0f} s{self._said()}")
                piece = os.read(self._output.fileno(), 1 << 20)
                if not piece:
                    raise self._ended(message)
                self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            decoded = json.loads(line)
        except ValueError:
            raise ForeignFailed(f"{message}: the reply is not JSON: {line[:120]!r}") from None
        if not isinstance(decoded, dict):
            raise ForeignFailed(f"{message}: the reply is not an object: {line[:120]!r}")
        return decoded

    def _ended(self, message: str) -> ForeignFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        return ForeignFailed(f"{message}: the adapter ended with status {self._process.returncode}{self._said()}")

    def _said(self) -> str:
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(0, size - _STDERR_BYTES)
        text = os.pread(self._stderr.fileno(), size - start, start).decode("utf-8", "replace").strip()
        return f"; it wrote:\n{text}" if text else ""

    def kill(self) -> None:
        """SIGKILL it and what it started."""
        if self._stderr.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for each in (self._input, self._output, self._stderr):
            each.close()


def _greeting(told: Answer) -> Greeting:
    lists = ("revisions", "roles", "partial", "capabilities", "helped")
    try:
        found = {name: tuple(str(each) for each in told.get(name) or ()) for name in lists}
        return Greeting(name=str(told["implementation"]), version=str(told["version"]), **found)
    except (KeyError, TypeError) as error:
        raise ForeignFailed(f"hello: the answer is not one of the protocol: {error}") from error


def _check(greeting: Greeting, revision: str) -> None:
    """Refuse an implementation that cannot write the table."""
    lacking = [message for message in NEEDED if not greeting.answers(message)]
    if IPC not in greeting.capabilities:
        lacking.append(f"the capability {IPC}")
    if lacking:
        raise InvalidArgument(f"[MEMWAL_WRITER] {greeting.name} does not claim {', '.join(lacking)}")
    if revision not in greeting.revisions:
        raise InvalidArgument(
            f"[MEMWAL_WRITER] {greeting.name} has revision {', '.join(greeting.revisions)}: choose it with --revision, "
            f"which is {revision}"
        )


def stream(rows: pa.Table) -> dict[str, str]:
    """Rows as a request carries them: in one batch, since some writers refuse one without rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return {"ipc": base64.b64encode(sink.getvalue()).decode()}


def rows_of(told: Answer) -> pa.Table:
    """Rows of an answer. Raises `ForeignFailed`."""
    try:
        with pa.ipc.open_stream(base64.b64decode(told["rows"]["ipc"], validate=True)) as reader:
            return reader.read_all()
    except (KeyError, TypeError, ValueError, pa.ArrowException, OSError) as error:
        raise ForeignFailed(f"the rows of an answer are no Arrow IPC stream: {error}") from error
