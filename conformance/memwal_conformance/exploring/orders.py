"""Orders of requests: all with so many preemptions at most, and random ones with a stated chance to find something.

An actor is interrupted only before a request that touches what another one of the life touches too: before a change of
a kind of object that others change or read, or a read of an object that others change. Everything else commutes with
what the others do, so that another order shows nothing new.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from memwal import paths

from ..gate import Address, Diverged, LogEntry, Schedule, Stuck
from ..gate.schedule import Step
from ..running.testbed import FOLDER
from .lived import Lived
from .lives import READS, WITH_WRITER, Verb
from .living import LifeRun
from .plans import COMMIT, COMMITS, Plan, changes, commits, kind_of

GATED = ("wal", "manifest", "hint", "base")
OWN = (FOLDER, paths.DATA, paths.TRANSACTIONS, paths.DELETIONS, paths.INDICES)
"""Kinds of objects whose names are chosen by chance: no other process knows one before a shared object names it."""
LIMIT_S = 20.0
SETTLE_MS = 3.0
FIRST, BEFORE_READS, FAR, PAIRED, DEEPER = -3, 2, 1, 4, 4
"""Ranks of the order without a preemption; of a preemption before a read or a hint; of one by an operation that stands
farther away in the life, or commits nothing that the other one builds upon; of a fault in an order, above that of the
fault; and of each preemption more."""
BESIDE = 2
"""So many steps away an operation of a life is beside another one."""
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
    commits: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Operation -> kinds of objects that it commits; a claim is one of the WAL, too."""

    @staticmethod
    def of(lived: Lived) -> Touched:
        """From a run without preemptions.

        An operation that changed nothing then, since another one had done the work, is taken to change what those of
        its verb did.
        """
        changed: dict[str, list[LogEntry]] = defaultdict(list)
        by_verb: dict[str, list[LogEntry]] = defaultdict(list)
        for entry in lived.log:
            if changes(entry.operation):
                changed[entry.actor].append(entry)
                by_verb[lived.during(entry)].append(entry)
        for step in lived.life.steps:
            if not any(lived.during(entry) == step.verb for entry in changed[step.actor]):
                changed[step.actor] += by_verb[step.verb]
        actors = lived.life.actors
        return Touched(
            {actor: frozenset(kind_of(entry.name) for entry in changed[actor]) for actor in actors},
            {actor: frozenset(kind_of(e.name) for e in lived.log if e.actor == actor) for actor in actors},
            {actor: frozenset(entry.name for entry in changed[actor]) for actor in actors},
            {verb: _committed(verb, entries) for verb, entries in by_verb.items()},
        )

    def shared(self, actor: str, step: Step) -> bool:
        """Whether a request that ``actor`` is about to make touches what another actor touches."""
        others = [name for name in self.changed if name != actor]
        if changes(step["operation"]):
            kind = kind_of(step["name"])
            return kind not in OWN and any(kind in self.changed[other] | self.read[other] for other in others)
        return any(step["name"] in self.names[other] for other in others)

    def conflicts(self, kinds: Iterable[str], verbs: Iterable[str]) -> bool:
        """Whether operations ``verbs`` commit any of these kinds of objects."""
        return any(not self.commits.get(verb, frozenset()).isdisjoint(kinds) for verb in verbs)


def _committed(verb: str, entries: Iterable[LogEntry]) -> frozenset[str]:
    kinds = {kind_of(entry.name) for entry in entries if commits(entry.operation, entry.name)}
    return frozenset(kinds | {"wal"} if verb == Verb.OPEN else kinds)


@dataclass(frozen=True, slots=True)
class OrderMoment:
    """A moment at which an actor might be interrupted."""

    before: str
    """Its operation, and the kind of request that it is about to make."""
    others: Mapping[str, tuple[str, int]]
    """Each other actor that could run -> the operation that it would go on with, and what that is worth: 0 is most."""


@dataclass(slots=True)
class InOrder:
    """A `memwal_conformance.exploring.living.Drive` that follows a plan.

    Operations begin in the order of the life. An actor that is interrupted waits until the one that interrupts it has
    come to the end of its program, or is interrupted itself.
    """

    plan: Plan
    touched: Touched | None
    """None: no request is shared, and no actor is interrupted."""
    decisions: list[OrderMoment] = field(default_factory=list)
    stuck: str = ""
    _run: LifeRun = field(init=False)
    _current: str = ""
    _begun: Counter[str] = field(default_factory=Counter)
    """Actor -> how many of its operations have begun."""
    _met: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Actor -> kinds of objects that its operation has asked about."""
    _interrupted: list[str] = field(default_factory=list)
    """Actors, the last one first to go on."""
    _chance: random.Random | None = None
    _ranks: dict[str, int] = field(default_factory=dict)
    _falls: frozenset[int] = frozenset()

    def __call__(self, run: LifeRun) -> None:
        self._run = run
        actors = run.life.actors
        self._begin_random(actors)
        gated = [Address(actor=a, class_=c, occurrence=None) for a in actors for c in GATED]
        schedule = Schedule(run.gate, gated, settle_ms=SETTLE_MS, limit_s=LIMIT_S)
        doing = {actor: [partial(run.do, number) for number in run.life.of(actor)] for actor in actors}
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

    def _begin_random(self, actors: Sequence[str]) -> None:
        if not self.plan.random:
            return
        steps = self.plan.random.rpartition("/")[2]
        self._chance = random.Random(self.plan.random)
        shuffled = list(actors)
        self._chance.shuffle(shuffled)
        self._ranks = {actor: DEPTH + number for number, actor in enumerate(shuffled)}
        self._falls = frozenset(self._chance.sample(range(int(steps)), min(DEPTH - 1, int(steps))))

    def _choose(self, steps: Sequence[Step]) -> Step:
        enabled: dict[str, Step] = {}
        for step in steps:
            enabled.setdefault(step.get("go") or step["release"], step)
        self._current = chosen = self._chosen(enabled)
        step = enabled[chosen]
        if "go" in step:
            self._begun[chosen] += 1
            self._met[chosen].clear()
        else:
            self._met[chosen].add(kind_of(step["name"]))
        return step

    def _chosen(self, enabled: Mapping[str, Step]) -> str:
        """The actor that runs next."""
        mine = enabled.get(self._current)
        if mine is None or "go" in mine:
            if self._chance is not None:
                return max(enabled, key=self._ranks.__getitem__)
            return self._next(enabled)
        if self.touched is None or not self.touched.shared(self._current, mine):
            return self._current
        number = len(self.decisions)
        others = {
            actor: (self._operation(actor, step), self._rank(mine, actor))
            for actor, step in enabled.items()
            if actor != self._current
        }
        before = f"{self._operation(self._current, mine)}: {mine['operation']} of {kind_of(mine['name'])}"
        self.decisions.append(OrderMoment(before, others))
        if self._chance is not None:
            if number in self._falls:
                self._ranks[self._current] = sorted(self._falls).index(number)
            return max(enabled, key=self._ranks.__getitem__)
        wanted = (self.plan.switches or {}).get(number)
        if wanted not in others:
            return self._current
        self._interrupted = [self._current, *(actor for actor in self._interrupted if actor != wanted)]
        return wanted

    def _next(self, enabled: Mapping[str, Step]) -> str:
        """The actor that goes on where none is amid an operation but those that were interrupted."""
        if self._interrupted:
            if self._current in enabled:
                return self._current
            self._interrupted, waiting = [], self._interrupted
            for number, actor in enumerate(waiting):
                if actor in enabled:
                    self._interrupted = waiting[number + 1 :]
                    return actor
        return min(enabled, key=lambda actor: ("go" in enabled[actor], self._step(actor)))

    def _step(self, actor: str) -> int:
        """The number of the operation that an actor would go on with."""
        mine = self._run.life.of(actor)
        return mine[min(self._begun[actor], len(mine) - 1)]

    def _rank(self, step: Step, other: str) -> int:
        """How little it is worth that ``other`` comes before a step of the actor that runs.

        Most is to be seen where an operation stands beside this one in the life, commits what this one builds upon,
        and comes right before a commit, or before a reader reads what was committed; then before any other change.
        """
        mine = self._run.life.of(self._current)[self._begun[self._current] - 1]
        far = 0 if 0 < self._step(other) - mine <= BESIDE else FAR
        far += 0 if self._conflict(step, other) else FAR
        reads = self._run.life.steps[mine].verb in READS and kind_of(step["name"]) in COMMITS
        if reads or commits(step["operation"], step["name"]):
            return COMMIT + far
        return far if changes(step["operation"]) and kind_of(step["name"]) != "hint" else BEFORE_READS + far

    def _conflict(self, step: Step, other: str) -> bool:
        """Whether ``other`` would commit what the operation that runs has read or committed, or is about to."""
        verb = self._run.life.steps[self._step(other)].verb
        claims = verb in WITH_WRITER and not self._begun[other]
        kinds = {*self._met[self._current], kind_of(step["name"])}
        return self.touched is not None and self.touched.conflicts(kinds, (verb, Verb.OPEN) if claims else (verb,))

    def _operation(self, actor: str, step: Step) -> str:
        number = self._begun[actor] - ("release" in step)
        return self._run.life.steps[self._run.life.of(actor)[number]].verb


def plan_of(switches: Mapping[int, str], rules: Plan | None = None, *, kind: str = "", rank: int = 0) -> Plan:
    """The plan with these switches, and the rules of another plan."""
    where = ", ".join(f"{actor} runs at decision {number + 1}" for number, actor in sorted(switches.items()))
    words = where or "one operation after another"
    if rules is None:
        return Plan(words=words, hit="order", switches=dict(switches), kind=kind, rank=rank)
    return Plan(
        words=f"{rules.words}; {words}",
        hit=f"{rules.hit}, order",
        rules=rules.rules,
        switches=dict(switches),
        kind=f"{rules.kind}; {kind}",
        rank=PAIRED + rules.rank,
        fault=rules,
    )


def further(plan: Plan, decisions: Sequence[OrderMoment], preemptions: int) -> Iterator[Plan]:
    """The plans that differ from one that was run by one more preemption, behind its last one."""
    switches = plan.switches or {}
    if len(switches) == preemptions:
        return
    for number in range(max(switches, default=-1) + 1, len(decisions)):
        moment = decisions[number]
        for actor, (operation, rank) in moment.others.items():
            kind = f"{moment.before}, and {operation}"
            more = f"{plan.kind}; {kind}" if switches else kind
            yield plan_of({**switches, number: actor}, kind=more, rank=rank + DEEPER * len(switches))


def at_random(number: int, seed: int, decisions: int) -> Plan:
    """A random order of so many decisions, by priorities with `DEPTH` - 1 falls (PCT)."""
    return Plan(words=f"random order {seed}-{number}", hit="order", random=f"{seed}-{number}/{max(decisions, 1)}")


def chance_of(actors: int, decisions: int) -> float:
    """The chance of one random order to show a bug that needs `DEPTH` ordered moments: 1 / (n k^(d-1))."""
    return float(1 / (actors * max(decisions, 1) ** (DEPTH - 1)))
