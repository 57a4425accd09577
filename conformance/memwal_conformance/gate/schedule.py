"""Interleaves actors that know nothing of it: holds their requests, and lets one go after another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from memwal.errors import MemwalError

from .address import Address
from .faults import Apply
from .replies import Answer, Unanswered
from .requests import GateRequest
from .server import Gate

T = TypeVar("T")

Step = dict[str, str]
"""``{"go": lane}``, ``{"release": actor, "operation": …, "name": …}`` or ``{"crash": actor}``."""


def actor_in(lane: str) -> str:
    """The actor that operations in ``lane`` are of: ``one``, or ``one/a`` and ``one/b``, which run at once."""
    return lane.partition("/")[0]


class Stuck(MemwalError):
    """An actor did not end its operation in time, and no request of it is held."""

    def __init__(self, actor: str, limit_s: float) -> None:
        super().__init__(f"{actor} did not end its operation in {limit_s:g} s in which nothing held it up")
        self.actor = actor


class Diverged(MemwalError):
    """A saved schedule releases a request that is not there."""


@dataclass(slots=True, eq=False)
class HeldRequest:
    """A request that waits for the schedule."""

    request: GateRequest
    _decision: asyncio.Future[Answer | None]

    @property
    def step(self) -> Step:
        """The step that releases it."""
        request = self.request
        return {"release": request.actor, "operation": request.operation.value, "name": request.name}


@dataclass(slots=True)
class _ScheduledActor:
    held: list[HeldRequest] = field(default_factory=list)
    running: int = 0
    moved_s: float = 0.0
    """How long it has moved since its operation began: the time in which it waited for others is not counted."""
    dead: bool = False


class Schedule:
    """Which actor may run, and which request is carried out next.

    Construct it over a started gate, of which it becomes the hook. Requests that fit an address of ``gated`` are held;
    the others run free. Two actions move the world: `go` starts an actor's next operation, `release` lets one held
    request through. Each waits until the actor that it has moved is idle or has a request waiting, and then until for
    ``settle_ms`` nothing more has come from it, since a client may send several at once.

    ``limit_s``: how long an operation may take until its actor is `Stuck`, without the time in which others move. The
    order of the gated requests is total and is kept in ``steps``; whether a foreign client sends the same ones again is
    up to it.
    """

    def __init__(
        self,
        gate: Gate,
        gated: Sequence[Address] = (Address(),),
        *,
        settle_ms: float = 2.0,
        limit_s: float = 10.0,
    ) -> None:
        self.steps: list[Step] = []
        self._gate, self._gated = gate, tuple(gated)
        self._settle_s, self._limit_s = settle_ms / 1000, limit_s
        self._actors: dict[str, _ScheduledActor] = {}
        self._changed = threading.Condition()
        self._events = 0
        gate.use(self._hook)

    def waiting(self, actor: str | None = None) -> tuple[HeldRequest, ...]:
        """Requests that are held: of one actor, or of all, in order of arrival."""
        with self._changed:
            chosen = [each for name, each in self._actors.items() if actor in (None, name)]
            found = [held for each in chosen for held in each.held]
        return tuple(sorted(found, key=lambda held: held.request.number))

    def idle(self, actor: str) -> bool:
        """Whether an actor has no operation under way."""
        with self._changed:
            return not self._of(actor).running

    def go(self, lane: str, operation: Callable[[], T]) -> Future[T]:
        """Start an operation of the actor in ``lane`` in a thread of its own; returns its result to come.

        The operation of an actor in another process is the message to it and the wait for its answer.
        """
        done: Future[T] = Future()
        actor = actor_in(lane)

        def run() -> None:
            try:
                result = operation()
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                done.set_exception(error)
            else:
                done.set_result(result)
            self._finished(actor)

        with self._changed:
            each = self._of(actor)
            each.running += 1
            if each.running == 1:
                each.moved_s = 0.0
        self.steps.append({"go": lane})
        threading.Thread(target=run, name=f"gate-{actor}", daemon=True).start()
        self._settle(actor)
        return done

    def release(self, held: HeldRequest | str, answer: Answer | None = None) -> None:
        """Let a request through, the first one of an actor where only that is named.

        ``answer``: given instead, and the request is not carried out.
        """
        if isinstance(held, str):
            waiting = self.waiting(held)
            if not waiting:
                raise Diverged(f"nothing of {held} is waiting")
            held = waiting[0]
        chosen, actor = held, held.request.actor
        with self._changed:
            self._of(actor).held.remove(chosen)
        self.steps.append(chosen.step)
        self._gate.call(lambda: chosen._decision.set_result(answer))
        self._gate.wait(lambda: self._gate_knows(chosen.request.number), self._limit_s)
        self._settle(actor)

    def crash(self, actor: str) -> None:
        """Never answer ``actor`` again, neither what waits nor what will come; its operations end with the gate."""
        self._gate.silence(actor)
        with self._changed:
            each = self._of(actor)
            each.dead, dropped = True, each.held
            each.held = []
        self.steps.append({"crash": actor})
        for held in dropped:
            self._gate.call(partial(held._decision.set_result, Unanswered.NEVER))

    def free(self) -> None:
        """Hold nothing any more, and let everything through that waits."""
        self._gated = ()
        while waiting := self.waiting():
            self.release(waiting[0])

    def run(
        self,
        operations: Mapping[str, Sequence[Callable[[], Any]]],
        choose: Callable[[Sequence[Step]], Step],
    ) -> dict[str, list[Future[Any]]]:
        """Let ``choose`` pick among the possible steps until all operations are done: those of a lane one by one.

        Returns the results of each lane's operations; those that a crashed actor has not begun are left out.
        """
        results: dict[str, list[Future[Any]]] = {lane: [] for lane in operations}
        while steps := self._possible(operations, results):
            self._carry_out(choose(steps), operations, results)
        return results

    def follow(
        self, steps: Sequence[Step], operations: Mapping[str, Sequence[Callable[[], Any]]]
    ) -> dict[str, list[Future[Any]]]:
        """Repeat saved ``steps``. Raises `Diverged` at the first that is not possible."""
        results: dict[str, list[Future[Any]]] = {lane: [] for lane in operations}
        for step in steps:
            if "crash" not in step and step not in self._possible(operations, results):
                raise Diverged(f"step {len(self.steps) + 1} of the schedule is not possible: {step}")
            self._carry_out(step, operations, results)
        return results

    def _possible(
        self, operations: Mapping[str, Sequence[Callable[[], Any]]], results: Mapping[str, list[Future[Any]]]
    ) -> list[Step]:
        begin: list[Step] = []
        with self._changed:
            for lane, all_ in operations.items():
                under_way = any(not result.done() for result in results[lane])
                if not under_way and not self._of(actor_in(lane)).dead and len(results[lane]) < len(all_):
                    begin.append({"go": lane})
        return begin + [held.step for held in self.waiting()]

    def _carry_out(
        self,
        step: Step,
        operations: Mapping[str, Sequence[Callable[[], Any]]],
        results: Mapping[str, list[Future[Any]]],
    ) -> None:
        if "go" in step:
            lane = step["go"]
            results[lane].append(self.go(lane, operations[lane][len(results[lane])]))
        elif "crash" in step:
            self.crash(step["crash"])
        else:
            self.release(next(held for held in self.waiting() if held.step == step))

    async def _hook(self, request: GateRequest, apply: Apply) -> Answer | None:  # noqa: ARG002 - a hook's signature
        if not any(address.fits(request) for address in self._gated):
            return None
        held = HeldRequest(request, asyncio.get_running_loop().create_future())
        with self._changed:
            self._of(request.actor).held.append(held)
            self._notify()
        return await held._decision

    def _gate_knows(self, number: int) -> bool:
        return any(entry.number == number for entry in reversed(self._gate.log))

    def _of(self, actor: str) -> _ScheduledActor:
        return self._actors.setdefault(actor, _ScheduledActor())

    def _finished(self, actor: str) -> None:
        with self._changed:
            self._of(actor).running -= 1
            self._notify()

    def _moved_since(self, seen: int) -> bool:
        return self._events != seen

    def _notify(self) -> None:
        self._events += 1
        self._changed.notify_all()

    def _settle(self, actor: str) -> None:
        """Wait until ``actor`` is idle or waits itself, and nothing more comes from it."""
        began = time.monotonic()
        with self._changed:
            each = self._of(actor)
            until = began + self._limit_s - each.moved_s
            while not each.dead:
                left = until - time.monotonic()
                if not self._changed.wait_for(lambda: not each.running or bool(each.held), max(left, 0)):
                    raise Stuck(actor, self._limit_s)
                seen = self._events
                if not self._changed.wait_for(partial(self._moved_since, seen), self._settle_s):
                    break
            each.moved_s += time.monotonic() - began
