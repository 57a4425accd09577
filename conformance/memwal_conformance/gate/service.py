"""What happens to a request between its arrival and its answer. Everything here runs in the gate's own thread."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeAlias

from memwal.words import counted
from memwal_sim.store import Contents

from . import calls, payload, signing
from .connection import Connection
from .faults import Apply, FaultRule, Rules, act
from .history import CrashStates
from .http import RequestHead
from .limits import GateLimits
from .log import LogEntry, RequestFate, entry, fate, got
from .replies import Answer, Framing, Refusal, Reply, Unanswered
from .requests import GateRequest
from .shelf import Shelf

Hook: TypeAlias = Callable[[GateRequest, Apply], "Answer | Awaitable[Answer | None] | None"]
"""Decides about a request: an answer, or None for what the rules say, which is the honest reply if they say nothing."""

STRANGERS_MAX = 1000
LOOKING = " looking"
"""Behind the name of an actor: not the implementation asks, but what its adapter looks up by itself."""


class GateService:
    """Serves requests in the order in which they are carried out, and remembers them."""

    def __init__(
        self,
        contents: Contents,
        bucket: str,
        region: str,
        keys: dict[str, signing.Credentials],
        rules: tuple[FaultRule, ...],
        limits: GateLimits,
        clock: Callable[[], float],
        asleep: tuple[FaultRule, ...] = (),
        looking: str = "",
    ) -> None:
        self.limits, self.clock, self.framing = limits, clock, Framing()
        self.shelf = Shelf(contents, limits, clock, region)
        self.history = CrashStates(contents)
        self.rules = Rules(rules, asleep)
        self.log: list[LogEntry] = []
        self.strangers: list[str] = []
        self.silenced: set[str] = set()
        self.connections: set[Connection] = set()
        self.held: dict[str, list[tuple[GateRequest, asyncio.Future[None]]]] = {rule.label: [] for rule in rules}
        self.released: set[str] = set()
        self.exhausted = ""
        self.failure: BaseException | None = None
        self.hook: Hook | None = None
        self.drain: Callable[[str], None] | None = None
        self.killer: Callable[[str], None] | None = None
        self.watchers: list[Callable[[], None]] = []
        """Called after everything that happens."""
        self._bucket, self._keys, self._looking = bucket, keys, looking
        self._arrived = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False
        self._until = [rule for rule in rules if rule.until is not None]
        self._until_met: dict[str, int] = {rule.label: 0 for rule in self._until}

    def admit(self, connection: Connection) -> bool:
        """Count a new connection; False: there are too many. One that arrives while the gate ends is reset."""
        self.connections.add(connection)
        if self._over:
            connection.reset()
        if len(self.connections) > self.limits.connections:
            self.exhausted = f"more than {self.limits.connections} connections"
            return False
        return True

    def left(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        self._happened()

    def serve(self, connection: Connection, head: RequestHead, body: bytes) -> None:
        """Answer a request: at once, or when a hook or a rule lets it go."""
        try:
            request = self._understood(head, body)
        except Refusal as refusal:
            if not isinstance(refusal, signing.OfAnotherGate) and len(self.strangers) < STRANGERS_MAX:
                self.strangers.append(f"{head.method} {head.path}: {refusal}")
            connection.answer(refusal.reply())
            return
        if request.actor in self.silenced:
            self._decided(_Course(self, request, connection), Unanswered.NEVER)
            return
        if self.hook is None:
            rule = self.rules.choose(request) if self.rules.rules else None
            course = _Course(self, request, connection, rule)
            if rule is None:
                self._decided(course, course.apply())
                return
        else:
            course = _Course(self, request, connection)
        task = asyncio.get_running_loop().create_task(self._decide(course))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _understood(self, head: RequestHead, body: bytes) -> GateRequest:
        known, signed = signing.verify(head.method, head.path, head.query, head.headers, self._keys, self.clock())
        data = payload.decode(head.headers, body, signed, sums=calls.sums_are_of_body(head))
        call = calls.read(head, data, self._bucket, self.limits)
        self._arrived += 1
        if len(self.log) >= self.limits.log_entries:
            self.exhausted = f"more than {self.limits.log_entries} requests"
            raise Refusal("InsufficientStorage", f"this gate logs {counted(self.limits.log_entries, 'request')}")
        agent = head.headers.get("user-agent", "")
        looks = bool(self._looking) and agent.startswith(self._looking)
        actor = f"{known.actor}{LOOKING}" if looks else known.actor
        return GateRequest(actor, self._arrived, call, _digest(data), len(data), agent)

    async def _decide(self, course: _Course) -> None:
        answer: Answer | None = None
        request = course.request
        if self.hook is not None:
            found = self.hook(request, course.apply)
            answer = await found if isawaitable(found) else found
            if answer is None and request.actor in self.silenced:
                answer = Unanswered.NEVER
            elif answer is None:
                course.rule = self.rules.choose(request)
        if answer is None:
            answer = await act(course.rule, request, course.apply, self) if course.rule else course.apply()
        self._decided(course, answer)
        course.connection.advance()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = self.failure or task.exception()
            for connection in list(self.connections):
                connection.reset()

    def _decided(self, course: _Course, answer: Answer) -> None:
        last = course.entries[-1] if course.entries else None
        if last is None:
            status = answer.status if isinstance(answer, Reply) else 0
            last = self._noted(course, RequestFate.PENDING, status, b"")
        if last.fate is RequestFate.PENDING:
            last.fate = fate(answer, course.honest, gone=course.gone)
        for entry_ in course.entries:
            entry_.got = got(answer, gone=course.connection.gone)
        course.connection.answer(answer)
        self._happened()

    def applied(self, course: _Course) -> Reply:
        """Carry a request out: the one step that changes the store."""
        if self.drain is not None:
            self.drain(course.request.actor)
        course.gone = course.connection.gone
        reply = course.honest = self.shelf.carry_out(course.request.call)
        if reply.status == 507:
            self.exhausted = "more bytes, objects or uploads than the gate keeps"
        for earlier in course.entries:
            if earlier.fate is RequestFate.PENDING:
                earlier.fate = RequestFate.NORMAL
        kind = RequestFate.DUPLICATE if course.entries else RequestFate.PENDING
        made = self._noted(course, kind, reply.status, reply.body)
        for mutation in self.shelf.mutations:
            self.history.record(mutation, made.order)
        self.shelf.mutations.clear()
        for rule in self._until:
            self._count_until(rule, course.request)
        return reply

    def _count_until(self, rule: FaultRule, request: GateRequest) -> None:
        assert rule.until is not None
        if rule.until.fits(request):
            self._until_met[rule.label] += 1
            if rule.until.occurrence in (None, self._until_met[rule.label]):
                self.release(rule.label)

    def _noted(self, course: _Course, kind: RequestFate, status: int, body: bytes) -> LogEntry:
        shown = (len(body), _digest(body))
        made = entry(course.request, len(self.log) + 1, kind, status, shown, self.shelf.contents.digest)
        made.rule = course.rule.label if course.rule else ""
        course.entries.append(made)
        self.log.append(made)
        return made

    async def hold(self, rule: FaultRule, request: GateRequest) -> None:
        """Wait until the rule is released; a rule that was released holds nothing any more."""
        if rule.label in self.released:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self.held[rule.label]
        waiting.append((request, future))
        self._happened()
        try:
            await future
        finally:
            waiting.remove((request, future))

    def release(self, label: str) -> None:
        """Let go what a rule holds, now and later."""
        self.released.add(label)
        self.rules.released.add(label)
        for _, future in self.held[label]:
            if not future.done():
                future.set_result(None)
        self._happened()

    def kill(self, actor: str) -> None:
        """Silence an actor, and have it killed."""
        self.silence(actor)
        if self.killer is not None:
            self.killer(actor)

    def silence(self, actor: str) -> None:
        """Never answer an actor again."""
        self.silenced.add(actor)
        self._happened()

    async def end(self) -> None:
        """Let go of every connection and everything that waits, until all connections are closed.

        A connection that has just been accepted is a task of the event loop, and has no transport yet.
        """
        self._over = True
        for task in list(self._tasks):
            task.cancel()
        for connection in list(self.connections):
            connection.reset()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        while self.connections:  # noqa: ASYNC110 - the next turn of the loop closes them
            await asyncio.sleep(0)

    def _happened(self) -> None:
        for watcher in list(self.watchers):
            watcher()


class _Course:
    """One request on its way."""

    __slots__ = ("_service", "connection", "entries", "gone", "honest", "request", "rule")

    def __init__(
        self, service: GateService, request: GateRequest, connection: Connection, rule: FaultRule | None = None
    ) -> None:
        self._service, self.request, self.connection, self.rule = service, request, connection, rule
        self.entries: list[LogEntry] = []
        self.honest: Reply | None = None
        self.gone = False

    def apply(self) -> Reply:
        """Carry the request out and return the honest reply."""
        return self._service.applied(self)


_EMPTY = hashlib.sha256(b"").hexdigest()[:16]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16] if data else _EMPTY
