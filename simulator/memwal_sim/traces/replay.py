"""Performing a trace again: whether it still ends in its violation, and where it first goes another way.

Each step is looked up by process and request. Where the engine makes another request than the trace has next for that
process, it was changed: a request that the trace does not have is let through normally, and a step that the engine no
longer makes is passed over; the first such place is the divergence that is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from memwal.effects import StoreRequest
from memwal.errors import InvalidArgument
from memwal.violations import Violation

from ..names import operation, symbolic
from ..outcomes import FATES, Fate, fates
from ..simulation import Simulation, StepTaken
from ..store import dump as dump_contents
from ..store import perform
from ..world import World
from . import facts
from .recording import engine_digest, step
from .references import found_in, opened
from .trace import LANDED, Expected, Header, Step, Trace

EXTRA_MAX = 64
"""Requests in a row that a process may make without the trace having them."""


Watch = Callable[[Simulation, "StepTaken | None"], None]
"""Called with the simulation before the first step, with None, and after each step, with what was done."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where a replay went another way than the trace."""

    index: int
    """Step of the trace at which it shows."""
    what: str
    """``request``, ``reply`` or ``store``."""
    recorded: str
    found: str


@dataclass(frozen=True, slots=True)
class Unexpected:
    """The first fact that is not as the trace says."""

    expected: Expected
    fact: str
    found: Any

    def __str__(self) -> str:
        wanted = self.expected.state[self.fact]
        return f"after step {self.expected.after}, {self.fact} has to be {wanted}, and is {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How a replay went."""

    header: Header
    steps: tuple[Step, ...]
    """What was performed."""
    divergence: Divergence | None
    """None: every request, reply and store was the recorded one."""
    diverged_at: int | None
    """Number of steps that had been performed when the divergence showed; None without one."""
    violation: Violation | None
    """Of the first state that has one; of the recorded oracle, if one is recorded."""
    violation_at: int | None
    """Number of the step after which it showed."""
    stopped_early: bool
    """The replay was asked to stop before the end of the trace."""
    engine_changed: bool
    """The engine's sources are not those under which the trace was recorded."""
    elsewhere: bool = False
    """Under another profile, or without its planted bugs: another way is expected, and nothing is to be reproduced."""
    unexpected: Unexpected | None = None
    """What the trace says has to be so, and is not; None if all that was asked is."""
    unstable_at: int | None = None
    """Step in which a second replay differs from the first: something counts that is neither request nor reply. None:
    they are equal, or there was one only."""

    @property
    def reproduced(self) -> bool:
        """The recorded violation was found: same clause, same oracle; or none was recorded and none found.

        And all that has to be so on the way was so.
        """
        recorded, found = self.header.violation, self.violation
        if self.unexpected is not None:
            return False
        if recorded is None or found is None:
            return recorded is None and found is None
        return (recorded.clause, recorded.oracle) == (found.clause, found.oracle)


def replay(
    path: Path,
    until: int | None = None,
    dump: Path | None = None,
    watch: Watch | None = None,
    *,
    twice: bool = False,
    profile: str | None = None,
    without_bugs: bool = False,
) -> Replayed:
    """Replay the trace in the file ``path``, at most to step ``until``; with ``dump``, write the store to that folder.

    ``watch`` sees the simulation on the way. ``twice``: once more, and compare. ``profile``: under this one and none
    of the recorded readings; ``without_bugs``: with none of the planted bugs. Either makes it a replay elsewhere, which
    has nothing to reproduce.

    Raises `ArtifactError` for a file that is no trace, or that names what there is not; `InvalidArgument` for a
    ``profile`` that there is not, or if there are no bugs to leave out.
    """
    found = found_in(path)
    study, elsewhere = found.study, profile is not None or without_bugs
    if without_bugs:
        if not study.bugs:
            raise InvalidArgument(f"{path.name} has no planted bugs")
        study = replace(study, bugs=())
    if profile is not None:
        study = replace(study, profile=profile, readings={})
        study.setting()
    with opened(found, study) as world:
        replayed = replay_in(world, found.trace, until, dump, watch, elsewhere=elsewhere)
    if not twice:
        return replayed
    with opened(found, study) as world:
        again = replay_in(world, found.trace, until, elsewhere=elsewhere)
    return replace(replayed, unstable_at=_first_difference(replayed, again))


def replay_in(
    world: World,
    trace: Trace,
    until: int | None = None,
    dump: Path | None = None,
    watch: Watch | None = None,
    *,
    elsewhere: bool = False,
) -> Replayed:
    """As `replay`, for a trace and a world in hand; ``elsewhere``: a world that is not the recorded one."""
    recorded = trace.steps if until is None else trace.steps[:until]
    violation = trace.header.violation
    only = None if elsewhere or violation is None else violation.oracle
    expected = () if elsewhere else trace.header.expected
    replaying = _Replaying(Simulation(world), only, watch, elsewhere=elsewhere, judging=not expected)
    replaying.expect(each for each in expected if each.after == 0)
    for place, wanted in enumerate(recorded):
        replaying.follow(wanted, recorded[place + 1 :])
        replaying.expect(each for each in expected if each.after == wanted.index)
    if dump is not None:
        dump_contents(replaying.simulation.contents, dump)
    return Replayed(
        header=trace.header,
        steps=tuple(replaying.steps),
        divergence=replaying.divergence,
        diverged_at=replaying.diverged_at,
        violation=replaying.violation,
        violation_at=replaying.violation_at,
        unexpected=replaying.unexpected,
        stopped_early=len(recorded) < len(trace.steps),
        engine_changed=trace.header.engine != engine_digest(),
        elsewhere=elsewhere,
    )


def _first_difference(one: Replayed, other: Replayed) -> int | None:
    """Number of the first step in which two replays of one trace differ, the end of the shorter one included."""
    pairs = zip_longest(one.steps, other.steps)
    different = next((number for number, (mine, theirs) in enumerate(pairs, 1) if mine != theirs), None)
    if different is None and (one.violation, one.violation_at) != (other.violation, other.violation_at):
        return len(one.steps)
    return different


class _Replaying:
    def __init__(
        self, simulation: Simulation, only: str | None, watch: Watch | None, *, elsewhere: bool, judging: bool
    ) -> None:
        """``elsewhere``: bytes are others; requests, and replies in words, are what can differ.

        ``judging``: oracles are asked at the beginning and after each step; else only where something has to be so.
        """
        self.simulation = simulation
        self.elsewhere = elsewhere
        self.only = only
        self.watch = watch
        self.judging = judging
        self.unexpected: Unexpected | None = None
        self.steps: list[Step] = []
        self.divergence: Divergence | None = None
        self.diverged_at: int | None = None
        self.violation: Violation | None = None
        self.violation_at: int | None = None
        if judging:
            self.judge()
        if watch is not None:
            watch(simulation, None)

    def follow(self, wanted: Step, later: Sequence[Step]) -> None:
        """Perform the step ``wanted``; ``later`` are those that the trace has after it."""
        if wanted.outcome == LANDED:
            self.land(wanted)
            return
        for _ in range(EXTRA_MAX):
            request = self.simulation.waiting(wanted.actor)
            if request is None:
                self.diverge(wanted, "request", _asked(wanted), f"{wanted.actor} has ended")
                return
            if _is(request, wanted):
                self.perform(wanted, request)
                return
            self.diverge(wanted, "request", _asked(wanted), f"{operation(request)} {symbolic(request.path)}")
            if any(_is(request, step) for step in later if step.actor == wanted.actor and step.outcome != LANDED):
                return
            self.done(self.simulation.step(wanted.actor))

    def perform(self, wanted: Step, request: StoreRequest[Any]) -> None:
        fate = FATES[wanted.outcome]
        if fate not in fates(request, frozenset(Fate), switches=self.simulation.running[wanted.actor].switches):
            raise InvalidArgument(f"step {wanted.index}: a {wanted.operation} cannot be {wanted.outcome}")
        self.compare(wanted, self.done(self.simulation.step(wanted.actor, fate)))

    def land(self, wanted: Step) -> None:
        """Let the request land that the step names; of several, the one that leads to the recorded contents."""
        candidates = [
            request for actor, request in self.simulation.under_way if actor == wanted.actor and _is(request, wanted)
        ]
        if not candidates:
            self.diverge(wanted, "request", _asked(wanted), "no such request is under way")
            return
        exact = [r for r in candidates if perform(self.simulation.contents, r)[0].digest.startswith(wanted.store)]
        self.compare(wanted, self.done(self.simulation.land(wanted.actor, (exact or candidates)[0])))

    def done(self, taken: StepTaken) -> Step:
        made = step(len(self.steps) + 1, taken, self.simulation.contents)
        self.steps.append(made)
        if self.judging:
            self.judge()
        if self.watch is not None:
            self.watch(self.simulation, taken)
        return made

    def judge(self) -> None:
        if self.violation is None:
            self.violation = self.simulation.violation(self.only)
            self.violation_at = len(self.steps) if self.violation is not None else None

    def expect(self, all_expected: Iterable[Expected]) -> None:
        """Look at each fact that has to be so now, and ask the oracles."""
        for expected in all_expected:
            self.judge()
            for name, wanted in expected.state.items():
                found = facts.look(self.simulation, name)
                if self.unexpected is None and not facts.holds(wanted, found):
                    self.unexpected = Unexpected(expected, name, found)

    def compare(self, wanted: Step, made: Step) -> None:
        if self.elsewhere:
            if made.answer != wanted.answer:
                self.diverge(wanted, "reply", wanted.answer, made.answer)
        elif made.reply != wanted.reply:
            self.diverge(wanted, "reply", f"{wanted.answer} ({wanted.reply})", f"{made.answer} ({made.reply})")
        elif made.store != wanted.store:
            self.diverge(wanted, "store", wanted.store, made.store)

    def diverge(self, wanted: Step, what: str, recorded: str, found: str) -> None:
        if self.divergence is None:
            self.divergence = Divergence(wanted.index, what, recorded, found)
            self.diverged_at = len(self.steps)


def _asked(step: Step) -> str:
    return f"{step.operation} {step.path}"


def _is(request: StoreRequest[Any], step: Step) -> bool:
    return operation(request) == step.operation and symbolic(request.path) == step.path
