"""A hunt: runs of one strategy in one study until something is violated, or until enough of them were not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from memwal.errors import InvalidArgument, check_name
from memwal.violations import Violation

from .. import parallel
from ..bugs import planted
from ..exploring.exploration import Move, memory_mib
from ..exploring.unfolding import Unfolding
from ..parallel import Workers
from ..traces.recording import record
from ..traces.shrinking import Shrunk, shrink
from ..traces.study import Study, header
from ..traces.trace import Trace
from .by_hypothesis import search
from .pct import Guarantee, guarantee, pct
from .strategy import Strategy, Terms
from .swarm import swarm
from .uniform import uniform, usual_length
from .walking import Walk

PCT, HYPOTHESIS = "pct", "hypothesis"
RANDOM: Mapping[str, Strategy] = MappingProxyType({"uniform": uniform, PCT: pct, "swarm": swarm})
"""Strategies whose runs depend on nothing but their seed, by name."""
NAMES = (*RANDOM, HYPOTHESIS)
"""All strategies."""
RUNS_MAX = 10_000
DEPTH = 3
PART_RUNS = 500
"""Runs that one of several makes at once."""

_REPORT_EVERY = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntProgress:
    """Where a hunt stands."""

    runs: int
    distinct: int
    """Schedules that differ in a move."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """How a hunt went."""

    study: Study
    strategy: str
    seed: int
    """Seed of the first run; the next runs have the next numbers. For hypothesis: of the whole hunt."""
    runs: int
    """Runs up to the first that violates something, that one included."""
    distinct: int
    """Schedules among them that differ in a move."""
    steps: int
    """Moves of all these runs."""
    states: int
    """States that are known at the end."""
    seconds: float
    """Until the end of the last of these runs."""
    steps_usual: int
    """Length of a run without mishaps, by which mishaps and changes of priority are spread."""
    guarantee: Guarantee | None
    """Of strategy pct."""
    limit: str | None
    """The limit at which the hunt stopped; None if it found something."""
    violation: Violation | None
    moves: tuple[Move, ...]
    """A history that ends in the violation: the run that did, made small."""
    trace: Trace | None
    """The same, replayed once more by the means of `memwal explore replay`."""
    shrunk: Shrunk | None
    """How the run was made small; None if there is none, or if that was not asked for."""

    @property
    def rate(self) -> float:
        """Distinct schedules per second."""
        return self.distinct / self.seconds if self.seconds else 0.0

    @property
    def found_by(self) -> int | None:
        """The seed whose one run finds the violation again; None if there is none, or by hypothesis."""
        return self.seed + self.runs - 1 if self.violation is not None and self.strategy in RANDOM else None

    def certificate(self) -> dict[str, Any]:
        """JSON-ready summary. All but ``seconds`` and ``rate`` are equal in every hunt with this engine and seed."""
        promised = self.guarantee
        return {
            "scenario": self.study.scenario.name,
            "revision": self.study.revision,
            "profile": self.study.profile,
            "readings": dict(self.study.readings),
            "bugs": [bug.name for bug in self.study.bugs],
            "faults": self.study.bounds.faults,
            "oracle": self.study.only,
            "strategy": self.strategy,
            "seed": self.seed,
            "runs": self.runs,
            "distinct": self.distinct,
            "steps": self.steps,
            "states": self.states,
            "steps_usual": self.steps_usual,
            "guarantee": None if promised is None else {**asdict(promised), "probability": promised.probability},
            "limit": self.limit,
            "found_by": self.found_by,
            "violation": None if self.violation is None else {**self.violation.as_json(), "steps": len(self.moves)},
            "steps_found": None if self.shrunk is None else len(self.shrunk.before),
            "seconds": round(self.seconds, 3),
            "rate": round(self.rate),
        }


@dataclass(slots=True)
class _Tally:
    """Counts runs and says when it is enough."""

    study: Study
    runs_max: int
    seconds_max: float | None
    progress: Callable[[HuntProgress], None] | None
    started: float = field(default_factory=time.monotonic)
    runs: int = 0
    steps: int = 0
    schedules: set[bytes] = field(default_factory=set)
    """The first bytes of a digest of each; its moves may be many."""
    seconds: float = 0.0
    limit: str | None = None

    def add(self, walk: Walk) -> bool:
        """Count ``walk``; whether the hunt is over."""
        self.runs += 1
        self.seconds = time.monotonic() - self.started
        self.steps += len(walk.keys)
        self.schedules.add(blake2b(walk.keys, digest_size=8).digest())
        if walk.violation is not None:
            return True
        if self.runs >= self.runs_max:
            self.limit = f"{self.runs_max:,} runs"
        elif self.seconds_max is not None and self.seconds >= self.seconds_max:
            self.limit = f"{self.seconds_max:g} seconds"
        elif self.runs % _REPORT_EVERY == 0:
            self._look_around()
        return self.limit is not None

    def _look_around(self) -> None:
        memory_mib_max = self.study.bounds.memory_mib_max
        if memory_mib_max is not None and memory_mib() >= memory_mib_max:
            self.limit = f"{memory_mib_max:,} MiB of memory"
        elif self.progress is not None:
            self.progress(HuntProgress(runs=self.runs, distinct=len(self.schedules), seconds=self.seconds))


def hunt(
    study: Study,
    strategy: str,
    *,
    seed: int = 0,
    runs_max: int = RUNS_MAX,
    seconds_max: float | None = None,
    depth: int = DEPTH,
    progress: Callable[[HuntProgress], None] | None = None,
    title: str = "",
    description: str = "",
    shrinking: bool = True,
) -> Hunt:
    """Run ``strategy`` (of `NAMES`) in ``study`` until a violation or a limit, one of which is the study's memory.

    ``depth``: of the bugs that pct is after. ``title`` and ``description``: of the trace. ``shrinking``: make what is
    found small.
    Raises `InvalidArgument` for an unknown strategy, a depth below 1, or a bound on preemptions, which is not kept.
    """
    _check(study, strategy, depth, runs_max)
    with planted(study.bugs):
        tally, unfolding, terms, walk = _searched(
            study, strategy, seed, depth, _Tally(study, runs_max, seconds_max, progress)
        )
        moves = () if walk is None else unfolding.moves(walk.keys)
        shrunk, found = None, None if walk is None else walk.violation
        if shrinking and found is not None:
            shrunk = shrink(study.world(), moves, clause=found.clause, oracle=found.oracle)
            moves = shrunk.moves
        only = study.only if found is None else found.oracle
        steps, violation = record(study.world(), moves, only) if walk is not None else ((), None)
    return Hunt(
        study=study,
        strategy=strategy,
        seed=seed,
        runs=tally.runs,
        distinct=len(tally.schedules),
        steps=tally.steps,
        states=len(unfolding),
        seconds=tally.seconds,
        steps_usual=terms.steps,
        guarantee=guarantee(terms) if strategy == PCT else None,
        limit=tally.limit,
        violation=violation,
        moves=moves,
        trace=None if violation is None else Trace(header(study, violation, title, description), steps),
        shrunk=shrunk,
    )


def _check(study: Study, strategy: str, depth: int, runs_max: int) -> None:
    check_name("strategy", strategy, NAMES)
    if depth < 1 or runs_max < 1:
        raise InvalidArgument("a hunt needs at least one run and a depth of at least 1")
    if study.bounds.preemptions is not None:
        raise InvalidArgument("random schedules have no bound on preemptions: leave out the bound")


def _searched(
    study: Study, strategy: str, seed: int, depth: int, tally: _Tally
) -> tuple[_Tally, Unfolding, Terms, Walk | None]:
    """Runs until one violates something or ``tally`` says that it is enough; the run that did."""
    world = study.world()
    unfolding = Unfolding(world, study.bounds.kinds, study.only)
    terms = Terms(unfolding=unfolding, faults=study.bounds.faults, steps=usual_length(world), depth=depth)
    if strategy == HYPOTHESIS:
        walk = search(terms, seed, tally.runs_max, tally.add)
        tally.limit = None if walk is not None else tally.limit or f"{tally.runs:,} runs: no others are left"
    else:
        walk = _first_violation(RANDOM[strategy], terms, seed, tally)
    return tally, unfolding, terms, walk


def _first_violation(strategy: Strategy, terms: Terms, seed: int, tally: _Tally) -> Walk | None:
    """The first run that violates something, of those with the seeds from ``seed`` on."""
    run = strategy(terms)
    while True:
        walk = run(seed + tally.runs)
        if tally.add(walk):
            return walk if walk.violation is not None else None
        terms.unfolding.trim()


@dataclass(frozen=True, slots=True)
class _Part:
    """What came of some of the runs."""

    runs: int
    steps: int
    states: int
    schedules: frozenset[bytes]
    limit: str | None
    """None: the last of these runs violates something."""
    whole: bool
    """Whether all runs were made, and none violates anything."""


def _part(first: int, *, study: Study, strategy: str, depth: int, end: int) -> _Part:
    with planted(study.bugs):
        tally = _Tally(study, min(PART_RUNS, end - first), None, None)
        _, unfolding, _, walk = _searched(study, strategy, first, depth, tally)
    whole = walk is None and tally.runs == tally.runs_max
    return _Part(tally.runs, tally.steps, len(unfolding), frozenset(tally.schedules), tally.limit, whole)


def hunt_by(
    workers: Workers,
    study: Study,
    strategy: str,
    *,
    seed: int = 0,
    runs_max: int = RUNS_MAX,
    depth: int = DEPTH,
    progress: Callable[[HuntProgress], None] | None = None,
    title: str = "",
    description: str = "",
) -> Hunt:
    """The same hunt, by several: of all runs that violate something the first by its seed is the one that is found.

    Only `Hunt.states` differs: of those who searched, it is the most that one of them knew. Raises `InvalidArgument` as
    `hunt` does, and for hypothesis, whose runs depend on one another.
    """
    _check(study, strategy, depth, runs_max)
    check_name("strategy of several", strategy, tuple(RANDOM))
    began, end, parts = time.monotonic(), seed + runs_max, dict[int, _Part]()
    firsts = range(seed, end, PART_RUNS)
    work = partial(_part, study=study, strategy=strategy, depth=depth, end=end)
    for first, part in parallel.each(work, firsts, workers):
        parts[first] = part
        stopped = min((at for at, each in parts.items() if not each.whole), default=end)
        seconds = time.monotonic() - began
        if progress is not None:
            runs, distinct = sum(each.runs for each in parts.values()), len(_schedules(parts.values()))
            progress(HuntProgress(runs=runs, distinct=distinct, seconds=seconds))
        if all(at in parts for at in firsts if at <= stopped):
            break
    counted = [parts[at] for at in firsts if at <= stopped]
    last = counted[-1]
    own = seed if last.limit else max(at for at in firsts if at <= stopped) + last.runs - 1
    found = hunt(study, strategy, seed=own, runs_max=1, depth=depth, title=title, description=description)
    runs = sum(each.runs for each in counted)
    return replace(
        found,
        seed=seed,
        runs=runs,
        distinct=len(_schedules(counted)),
        steps=sum(each.steps for each in counted),
        states=max(each.states for each in counted),
        seconds=seconds,
        limit=last.limit and (f"{runs:,} runs" if runs == runs_max else last.limit),
    )


def _schedules(parts: Iterable[_Part]) -> frozenset[bytes]:
    return frozenset[bytes]().union(*(part.schedules for part in parts))
