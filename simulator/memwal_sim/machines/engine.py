"""The machine that all others are made of: processes of a workload, one request at a time, under any fate.

A machine names its workload and its `EngineMachine.works`: what a process of it may do. The rules are here. They
are coarse, so that few of them make a history: let a process do something to its end, or up to a request; let a request
of it meet a fate; stop it somewhere, let others do their work, and let it continue. After every rule all oracles of the
workload judge the store as if every process had crashed there.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from memwal.violations import Violation

from .. import bugs as planting
from ..actor import Actor
from ..bugs import Bug
from ..exploring.exploration import Move
from ..outcomes import FATES, MUTATING, Fate
from ..process import STORE_LIMIT
from ..scenarios.scenario import setting
from ..simulation import Simulation
from ..traces.recording import engine_digest, step
from ..traces.trace import Found, Header, Step, Trace, dumps
from ..workloads.workload import Workload
from .remembering import Memory

TRACES = "MEMWAL_TRACES"
"""Environment variable that names the folder for traces of failing machines; default: the system's temporary folder."""
Far: TypeAlias = tuple[str, int]
"""How far a process continues.

``end``: to its end. ``changes``: past so many changes of the store, to right before the next. ``requests``: so many
requests. The label of a `Fate`: past so many changes (of ``throttled``: requests), and what comes then meets that fate;
then to its end.
"""
Drawn = TypeVar("Drawn")


def weighted(*choices: tuple[int, st.SearchStrategy[Drawn]]) -> st.SearchStrategy[Drawn]:
    """One of several strategies, each as often as its weight says; the first is the simplest."""
    return st.sampled_from([each for weight, each in choices for _ in range(weight)]).flatmap(lambda each: each)


WITHIN: st.SearchStrategy[Far] = weighted(
    (2, st.tuples(st.just("changes"), st.integers(0, 10))),
    (1, st.tuples(st.just("requests"), st.integers(1, 30))),
)
"""Somewhere on the way."""
FAR: st.SearchStrategy[Far] = weighted(
    (3, st.just(("end", 0))),
    (2, WITHIN),
    (1, st.tuples(st.sampled_from(("applied", "late", "lost")), st.integers(0, 6))),
    (1, st.tuples(st.just("throttled"), st.integers(0, 12))),
)
"""Somewhere on the way, or to the end, with a fault or without."""
THEN: st.SearchStrategy[Far] = weighted((3, st.just(("end", 0))), (1, FAR))
"""Mostly to the end."""
Work: TypeAlias = tuple[str, Mapping[str, Any]]
"""Role and arguments of a process."""
REMEMBERED = 60
"""Histories after which processes and oracles begin to remember anew, which bounds memory."""
SHRINKS = 40
"""Histories that are judged after the first find; what is left is made smaller by `memwal_sim.traces.shrinking`."""
UNKNOWN = (Fate.APPLIED, Fate.LATE, Fate.LOST)
"""Fates after which the caller does not know what became of its change."""


class BrokenError(AssertionError):
    """A machine found a violation; the text ends with the command that replays it."""

    def __init__(self, violation: Violation, trace: Trace, path: Path, rules: int, moves: tuple[Move, ...]) -> None:
        super().__init__(f"{violation}\nreplay it with: memwal explore replay {shlex.quote(str(path))}")
        self.violation, self.trace, self.path, self.rules, self.moves = violation, trace, path, rules, moves


@dataclass(slots=True)
class Finds:
    """What one run found so far, so that shrinking it costs no more than it is worth.

    Once something is found, only the oracle that found it is asked. After `SHRINKS` more histories no new ones are
    judged: those that were seen to fail do so again, and Hypothesis is left with the shortest of them.
    """

    oracle: str | None = None
    histories: int = 0
    until: float = float("inf")
    failing: set[Key] = field(default_factory=set)

    def wants(self, steps: Sequence[Step]) -> bool:
        """Whether the history of ``steps`` is to be judged."""
        return self.histories < self.until or _key(steps) in self.failing

    def add(self, violation: Violation, steps: Sequence[Step]) -> None:
        """The history of ``steps`` ends in ``violation``."""
        if self.oracle is None:
            self.oracle, self.until = violation.oracle, self.histories + SHRINKS
        self.failing.add(_key(steps))


Key: TypeAlias = tuple[tuple[str, str, str, str], ...]


def _key(steps: Sequence[Step]) -> Key:
    return tuple((step.actor, step.operation, step.path, step.outcome) for step in steps)


def _drawn(attribute: str) -> st.SearchStrategy[Any]:
    """One of the values that the machine has under ``attribute`` when the rule runs."""
    return st.runner().flatmap(lambda machine: st.sampled_from(getattr(machine, attribute)))


WORK: st.SearchStrategy[Work] = st.runner().flatmap(lambda machine: machine.works)
"""One of the works of the machine that draws."""
OTHERS: st.SearchStrategy[Work] = st.runner().flatmap(
    lambda machine: machine.works if machine.others is None else machine.others
)


class EngineMachine(RuleBasedStateMachine):
    """Processes of one workload on one simulated store. Subclass it, name a workload and works, add rules."""

    workload: ClassVar[Workload]
    works: ClassVar[st.SearchStrategy[Work]]
    """What a process may do that enters at any time."""
    others: ClassVar[st.SearchStrategy[Work] | None] = None
    """What other processes do while one stalls; None: any of the works."""
    revisions: ClassVar[Sequence[str]] = ("B",)
    profile: ClassVar[str] = "strict"
    readings: ClassVar[Mapping[str, bool | int | str]] = {}
    """Fields of `memwal.revisions.Interpretation` on top of the profile's."""
    bugs: ClassVar[Sequence[Bug]] = ()
    """Planted bugs that are in place while the machine runs; `machines.run` sees to that."""
    processes_max: ClassVar[int] = 3
    """Processes that are alive at a time; fewer find more."""
    faults_max: ClassVar[int] = 4
    """Requests of one history that meet another fate than the normal one."""

    memory: ClassVar[Memory] = Memory()
    """What oracles and processes remember serves other histories too. Each run has its own, see `run`."""
    finds: ClassVar[Finds] = Finds()
    """What this run has found so far. Each run has its own."""

    processes = Bundle("processes")
    """Names of all processes that were ever started: the target of rules that start one."""

    def __init__(self) -> None:
        super().__init__()
        self.actors: list[Actor] = []
        self.moves: list[Move] = []
        self.steps: list[Step] = []
        self.faults = 0
        self.rules_done = 0
        self.judged: object = None

    @initialize(revision=_drawn("revisions"))
    def begin(self, revision: str) -> None:
        """Begin the simulation under one of the revisions."""
        self.revision = revision
        self.setting = setting(revision, self.profile, {**self.readings, **planting.readings(self.bugs)})
        self.simulation = Simulation(
            self.memory.world(revision, lambda: self.workload.world(self.setting, refine=True))
        )

    @property
    def living(self) -> list[str]:
        """Processes that have not ended and were not killed."""
        return [
            actor.name
            for actor in self.actors
            if actor.name in self.simulation.running and self.next(actor.name) is not None
        ]

    @property
    def landing(self) -> list[int]:
        """Numbers of the requests under way."""
        return list(range(len(self.simulation.under_way)))

    @property
    def has_room(self) -> bool:
        """Whether another process may enter: for the precondition of rules that start one."""
        return len(self.living) < self.processes_max

    @property
    def is_quiet(self) -> bool:
        """No process is at work, and no request is under way."""
        return not self.living and not self.landing

    def next(self, process: str) -> Any:
        """The request that ``process`` waits for; None at its end."""
        return self.simulation.waiting(process)

    def enter(self, role: str, far: Far = ("requests", 0), **arguments: Any) -> str:
        """Start a process of the workload and let it continue; returns its name, which the role and a number make."""
        actor = Actor(name=self.name_of_next(role), role=role, arguments=arguments)
        self.memory.enter(self.simulation, self.revision, actor, self.workload.process(self.setting, actor))
        self.actors.append(actor)
        self.advance(actor.name, far)
        return actor.name

    def name_of_next(self, role: str) -> str:
        """The name that the next process gets if it has this role."""
        return f"{role}-{1 + sum(actor.role == role for actor in self.actors)}"

    def perform(self, process: str, fate: Fate = Fate.NORMAL) -> None:
        """Perform the next request of a process that has one."""
        taken = self.simulation.step(process, fate)
        self.moves.append(Move(process, fate))
        self.steps.append(step(len(self.steps) + 1, taken, self.simulation.contents))

    def run_until_change(self, process: str) -> bool:
        """Perform reads of ``process`` until its next request changes the store; whether there is such a one."""
        for _ in range(STORE_LIMIT):
            request = self.next(process)
            if request is None or isinstance(request, MUTATING):
                return request is not None
            self.perform(process)
        return False

    def run_to_end(self, process: str) -> None:
        """Let ``process`` run alone until it ends."""
        for _ in range(STORE_LIMIT):
            if self.next(process) is None:
                return
            self.perform(process)
        self.fail(Violation("ENGINE", "every process ends", f"{process} made {STORE_LIMIT} requests and did not end"))

    def advance(self, process: str, far: Far) -> None:
        """Let ``process`` run alone as far as ``far`` says, or to its end."""
        match far:
            case ("end", _):
                self.run_to_end(process)
            case ("changes", many):
                for _ in range(many):
                    if self.run_until_change(process):
                        self.perform(process)
                self.run_until_change(process)
            case ("requests", many):
                for _ in range(many):
                    if self.next(process) is not None:
                        self.perform(process)
            case (label, many):
                self.advance(process, ("requests" if label == Fate.THROTTLED.label else "changes", many))
                if self.next(process) is not None and self.faults < self.faults_max:
                    self.faults += 1
                    self.perform(process, FATES[label])
                self.run_to_end(process)

    @precondition(lambda self: self.has_room)
    @rule(target=processes, work=WORK, far=FAR)
    def begin_work(self, work: Work, far: Far) -> str:
        """A process begins to work, and comes more or less far."""
        role, arguments = work
        return self.enter(role, far, **arguments)

    @precondition(lambda self: self.has_room)
    @rule(target=processes, work=WORK, far=WITHIN, others=st.lists(OTHERS, min_size=1, max_size=2), end=THEN)
    def interrupt_work(self, work: Work, far: Far, others: list[Work], end: Far) -> str:
        """A process begins to work and stalls; others do their work, one after another; and it continues."""
        role, arguments = work
        process = self.enter(role, far, **arguments)
        for role, arguments in others:
            self.enter(role, ("end", 0), **arguments)
        self.judge()
        self.advance(process, end)
        return process

    @precondition(lambda self: self.living)
    @rule(process=_drawn("living"), far=FAR)
    def go_on(self, process: str, far: Far) -> None:
        """A process makes some requests, or some changes, and stalls; or it runs to its end."""
        self.advance(process, far)

    @precondition(lambda self: self.living and self.faults < self.faults_max)
    @rule(process=_drawn("living"), changes=st.integers(0, 3), fate=st.sampled_from(UNKNOWN))
    def fail_a_change(self, process: str, changes: int, fate: Fate) -> None:
        """A process makes some changes, the next one meets another fate than the normal one, and the process stalls."""
        self.advance(process, ("changes", changes))
        if self.run_until_change(process):
            self.faults += 1
            self.perform(process, fate)

    @precondition(lambda self: self.landing)
    @rule(number=_drawn("landing"))
    def land(self, number: int) -> None:
        """A request that its process gave up long ago is applied."""
        actor, request = self.simulation.under_way[number]
        taken = self.simulation.land(actor, request)
        self.moves.append(Move(actor, None, request))
        self.steps.append(step(len(self.steps) + 1, taken, self.simulation.contents))

    @precondition(lambda self: not self.has_room)
    @rule(process=_drawn("living"))
    def crash(self, process: str) -> None:
        """A process is gone for good. One that is never continued is as good as gone: this makes room for others."""
        self.simulation.running.pop(process).close()

    @invariant()
    def nothing_is_broken(self) -> None:
        """Every oracle of the workload holds, as if every process had crashed here."""
        self.rules_done += 1
        self.judge()

    def judge(self) -> None:
        """Ask the oracles; for rules that let several processes work."""
        now = (self.simulation.contents, self.simulation.ghosts, len(self.living))
        if now != self.judged:
            self.judged = now
            found = self.simulation.violation(self.finds.oracle) if self.finds.wants(self.steps) else None
            if found is not None:
                self.finds.add(found, self.steps)
                self.fail(found)

    def fail(self, violation: Violation) -> None:
        """End the history with ``violation``: write its trace and raise `BrokenError`."""
        trace = Trace(self.header(violation), tuple(self.steps))
        note(str(violation))
        raise BrokenError(violation, trace, written(trace, type(self).__name__), self.rules_done, tuple(self.moves))

    def header(self, violation: Violation) -> Header:
        """Header of the trace that ends in ``violation``."""
        return Header(
            scenario=self.workload.name,
            revision=self.revision,
            profile=self.profile,
            readings=dict(self.readings),
            bugs=tuple(bug.name for bug in self.bugs),
            faults=self.faults,
            preemptions=None,
            engine=engine_digest(),
            title=violation.reason,
            description=f"Found by the machine {type(self).__name__}.",
            violation=Found(clause=violation.clause, oracle=violation.oracle, reason=violation.reason),
            actors=tuple(self.actors),
        )

    def teardown(self) -> None:
        """Let go of all coroutines, and now and then of what was remembered."""
        self.finds.histories += 1
        if self.finds.histories % REMEMBERED == 0:
            type(self).memory = Memory()


def written(trace: Trace, name: str) -> Path:
    """Write ``trace`` to the folder for traces; returns the file."""
    path = Path(os.environ.get(TRACES) or tempfile.gettempdir()) / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(trace), "utf-8")
    return path
