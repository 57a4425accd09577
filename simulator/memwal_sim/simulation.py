"""One history of a world, one request at a time: what the explorer does for all histories, for one of them.

Recording and replay are made of it. It shares no table with the explorer, so that a counterexample that leads to its
violation here has been found twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memwal.effects import Note, StoreRequest
from memwal.errors import InvalidArgument, check_name
from memwal.stores.memory import Reply
from memwal.violations import Violation

from .outcomes import UNLEARNED, Fate, fates, meet
from .process import Ended, Process, Running
from .store import Contents, perform
from .world import ENGINE, World


@dataclass(frozen=True, slots=True)
class StepTaken:
    """One request that was performed."""

    actor: str
    site: str
    """The protocol function that made the request."""
    request: StoreRequest[Any]
    fate: Fate | None
    """None: the request was under way and has landed."""
    reply: Reply
    """For a request that has landed: a reply that no process saw."""
    notes: tuple[Note, ...]
    """Notes that the process made on the reply."""


def broken(actor: str, end: Ended) -> Violation | None:
    """The violation that a process's end is by itself; None for a result or an expected failure."""
    if end.failure is None or end.failure.expected:
        return None
    reason = f"{actor} ended with {end.failure.kind}: {end.failure.text}"
    return Violation(end.failure.clause, ENGINE, reason, (("process", actor), ("failure", end.failure.kind)))


class Simulation:
    """A world, and how far its processes have come."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.contents = world.contents
        self.ghosts = world.ghosts
        self._run = world.step.begin(world.contents) if world.step is not None else None
        self.running = {process.name: Running(process) for process in world.processes}
        self.under_way: list[tuple[str, StoreRequest[Any]]] = []
        """Requests that may still land, with the process that made them, oldest first."""
        self.refused: Violation | None = None
        """What was wrong with the last step: with the change of the store, or with what was noted after it."""
        for name, running in self.running.items():
            self._observe(name, running.notes)

    def enter(self, process: Process) -> None:
        """Start one more process; raises `InvalidArgument` if there was one of that name."""
        self.join(process.name, Running(process))

    def join(self, name: str, running: Running) -> None:
        """As `enter`, for a process that has just been started."""
        if name in self.running:
            raise InvalidArgument(f"there is a process {name!r} already")
        self.running[name] = running
        self._observe(name, running.notes)

    def waiting(self, actor: str) -> StoreRequest[Any] | None:
        """The next request of ``actor``, or None at its end; raises `InvalidArgument` for an unknown name."""
        check_name("process", actor, self.running)
        pause = self.running[actor].pause
        return None if isinstance(pause, Ended) else pause

    def step(self, actor: str, fate: Fate = Fate.NORMAL) -> StepTaken:
        """Perform the next request of ``actor`` with ``fate`` and hand it the reply.

        Raises `InvalidArgument` if the process has ended, or if the request cannot meet that fate.
        """
        request = self.waiting(actor)
        if request is None:
            raise InvalidArgument(f"{actor} has ended and makes no request")
        running = self.running[actor]
        if fate not in fates(request, frozenset(Fate), switches=running.switches):
            raise InvalidArgument(f"a {type(request).__name__} cannot be {fate.label}")
        site = running.site()
        if fate is not Fate.SWITCH:
            self._observe(actor, running.announced)
        met = meet(self.contents, request, fate)
        self._change(met.contents, actor, lost=fate in UNLEARNED)
        if met.orphaned:
            self.under_way.append((actor, request))
        running.resume(met.reply)
        self._observe(actor, running.notes)
        if self.world.step is not None and self.refused is None:
            self.refused = self.world.step.noted(self._run, self.ghosts, actor, running.notes)
        return StepTaken(actor, site, request, fate, met.reply, (*running.notes, *running.announced))

    def land(self, actor: str, request: StoreRequest[Any]) -> StepTaken:
        """Apply a request that is under way; raises `InvalidArgument` if there is no such one."""
        if (actor, request) not in self.under_way:
            raise InvalidArgument(f"no {type(request).__name__} of {request.path} by {actor} is under way")
        self.under_way.remove((actor, request))
        contents, reply = perform(self.contents, request)
        self._change(contents, actor, lost=True)
        return StepTaken(actor, "", request, None, reply, ())

    def violation(self, only: str | None = None) -> Violation | None:
        """What the world's oracles say of this state, and of the ends of its processes; ``only`` one of them."""
        ends = ((name, running.pause) for name, running in self.running.items())
        found = [broken(name, pause) for name, pause in ends if isinstance(pause, Ended)]
        found += [oracle(self.contents, self.ghosts) for oracle in self.world.oracles]
        found.append(self.refused)
        return next((each for each in found if each is not None and only in (None, each.oracle)), None)

    def _change(self, contents: Contents, actor: str, *, lost: bool) -> None:
        before, self.contents = self.contents, contents
        self.refused = None
        if self.world.step is not None and contents != before:
            self._run, self.refused = self.world.step.after(self._run, before, contents, actor, lost=lost)

    def _observe(self, actor: str, notes: tuple[Note, ...]) -> None:
        for note in notes:
            self.ghosts = self.world.observe(self.ghosts, actor, note)
