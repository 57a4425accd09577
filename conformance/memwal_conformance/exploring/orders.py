"""Orders of requests: all with so many preemptions at most, and random ones with a stated chance to find something.

An actor is interrupted only before a request that touches what another one of the life touches too: before a change of
a kind of object that others change or read, or a read of an object that others change. Everything else commutes with
what the others do, so that another order shows nothing new.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..gate import Address, Diverged, LogEntry, S3Operation, Schedule, Stuck
from ..gate.calls import GROUP_OF
from ..gate.schedule import Step
from .living import LifeRun
from .plans import Plan

GATED = ("wal", "manifest", "hint", "base")
LIMIT_S = 20.0
SETTLE_MS = 3.0
FIRST, PAIRED, DEEPER = -1, 4, 4
"""Ranks of orders with one switch at most; of a fault in an order, above that of the fault; of each switch more."""
DEPTH = 3
"""Of the bugs that random orders are made for: two preemptions."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What the actors of a life touch when they run one after another."""

    changed: Mapping[str, frozenset[str]]
    """Actor -> kinds of objects that it changed."""
    read: Mapping[str, frozenset[str]]
    """Actor -> kinds of objects that it read."""
    names: Mapping[str, frozenset[str]]
    """Actor -> names of objects that it changed."""

    @staticmethod
    def of(log: Sequence[LogEntry], actors: Sequence[str]) -> Touched:
        """From the log of a run without preemptions."""
        mine = {actor: [entry for entry in log if entry.actor == actor] for actor in actors}
        changes = {actor: [e for e in found if _changes(e.operation)] for actor, found in mine.items()}
        return Touched(
            {actor: frozenset(kind_of(e.name) for e in found) for actor, found in changes.items()},
            {actor: frozenset(kind_of(e.name) for e in found) for actor, found in mine.items()},
            {actor: frozenset(e.name for e in found) for actor, found in changes.items()},
        )

    def shared(self, actor: str, step: Step) -> bool:
        """Whether a request that ``actor`` is about to make touches what another actor touches."""
        others = [name for name in self.changed if name != actor]
        if _changes(step["operation"]):
            kind = kind_of(step["name"])
            return any(kind in self.changed[other] | self.read[other] for other in others)
        return any(step["name"] in self.names[other] for other in others)


def kind_of(name: str) -> str:
    """The kind of an object: the folder in its symbolic name, or the name itself."""
    return name.partition("/")[0]


def _changes(operation: str) -> bool:
    return GROUP_OF[S3Operation(operation)] in ("PUT", "DELETE")


@dataclass(frozen=True, slots=True)
class OrderMoment:
    """A moment at which another actor might run."""

    actor: str
    """The actor that runs if the order is not changed."""
    others: tuple[str, ...]
    free: bool
    """The previous actor has ended: the next one interrupts none."""
    before: str = ""
    """The kind of request before which the actor is interrupted."""


@dataclass(slots=True)
class InOrder:
    """A `memwal_conformance.exploring.living.Drive` that follows a plan."""

    plan: Plan
    touched: Touched | None
    """None: no request is shared, and only free decisions are made."""
    decisions: list[OrderMoment] = field(default_factory=list)
    stuck: str = ""
    _current: str = ""
    _order: tuple[str, ...] = ()
    _chance: random.Random | None = None
    _ranks: dict[str, int] = field(default_factory=dict)
    _falls: frozenset[int] = frozenset()

    def __call__(self, run: LifeRun) -> None:
        self._order = run.life.actors
        self._begin_random()
        gated = [Address(actor=a, class_=c, occurrence=None) for a in self._order for c in GATED]
        schedule = Schedule(run.gate, gated, settle_ms=SETTLE_MS, limit_s=LIMIT_S)
        doing = {actor: [partial(run.do, number) for number in run.life.of(actor)] for actor in self._order}
        try:
            results = schedule.run(doing, self._choose)
            schedule.free()
        except (Stuck, Diverged) as error:
            self.stuck = str(error)
            run.gate.use(None)
            return
        run.gate.use(None)
        for future in (future for futures in results.values() for future in futures):
            future.result()

    def _begin_random(self) -> None:
        if not self.plan.random:
            return
        steps = self.plan.random.rpartition("/")[2]
        self._chance = random.Random(self.plan.random)
        actors = list(self._order)
        self._chance.shuffle(actors)
        self._ranks = {actor: DEPTH + number for number, actor in enumerate(actors)}
        self._falls = frozenset(self._chance.sample(range(int(steps)), min(DEPTH - 1, int(steps))))

    def _choose(self, steps: Sequence[Step]) -> Step:
        enabled: dict[str, Step] = {}
        for step in steps:
            enabled.setdefault(step.get("go") or step["release"], step)
        mine = enabled.get(self._current)
        if mine is not None and ("go" in mine or self.touched is None or not self._shared(mine)):
            return mine
        here = [actor for actor in self._order if actor in enabled]
        default = self._current if mine is not None else here[0]
        number = len(self.decisions)
        others = tuple(actor for actor in here if actor != default)
        before = "" if mine is None else f"{mine['operation']} of {kind_of(mine['name'])}"
        self.decisions.append(OrderMoment(default, others, mine is None, before))
        chosen = default
        if self._chance is not None:
            if number in self._falls and default in self._ranks:
                self._ranks[default] = sorted(self._falls).index(number)
            chosen = max(here, key=self._ranks.__getitem__)
        elif (wanted := (self.plan.switches or {}).get(number)) in enabled:
            chosen = wanted
        self._current = chosen
        return enabled[chosen]

    def _shared(self, step: Step) -> bool:
        assert self.touched is not None
        return self.touched.shared(self._current, step)


def plan_of(switches: Mapping[int, str], rules: Plan | None = None, *, kind: str = "", rank: int = 0) -> Plan:
    """The plan with these switches, and the rules of another plan."""
    where = ", ".join(f"{actor} runs at decision {number + 1}" for number, actor in sorted(switches.items()))
    words = where or "one actor after another"
    if rules is None:
        return Plan(words=words, hit="order", switches=dict(switches), kind=f"order {kind}", rank=rank)
    return Plan(
        words=f"{rules.words}; {words}",
        hit=f"{rules.hit}, order",
        rules=rules.rules,
        switches=dict(switches),
        kind=f"{rules.kind}; order {kind}",
        rank=PAIRED + rules.rank,
        fault=rules,
    )


def further(plan: Plan, decisions: Sequence[OrderMoment], preemptions: int) -> Iterator[Plan]:
    """The plans that differ from one that was run by one more switch, behind its last one."""
    switches = plan.switches or {}
    first = max(switches, default=-1) + 1
    made = sum(not decisions[number].free for number in switches if number < len(decisions))
    for number in range(first, len(decisions)):
        if made < preemptions or decisions[number].free:
            for actor in decisions[number].others:
                more = {**switches, number: actor}
                places = [decisions[each].before for each in more if each < len(decisions)]
                yield plan_of(more, kind="; ".join(places), rank=FIRST + DEEPER * len(switches))


def at_random(number: int, seed: int, decisions: int) -> Plan:
    """A random order of so many decisions, by priorities with `DEPTH` - 1 falls (PCT)."""
    return Plan(words=f"random order {seed}-{number}", hit="order", random=f"{seed}-{number}/{max(decisions, 1)}")


def chance_of(actors: int, decisions: int) -> float:
    """The chance of one random order to show a bug that needs `DEPTH` ordered moments: 1 / (n k^(d-1))."""
    return float(1 / (actors * max(decisions, 1) ** (DEPTH - 1)))
