"""Explores an implementation: lives, faults, crashes, orders, within a budget; confirms and shrinks what it finds."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from memwal.errors import InvalidArgument
from memwal.words import counted

from ..adapters.harness import Harness
from ..adapters.process import BROKEN
from ..gate import CrashState, LogEntry
from . import orders, plans
from .findings import ForeignFinding, Notebook, heading
from .judging import Recoverer, StateLook, Symptom, of_run
from .lives import WRITES, ForeignLife
from .living import Lived, Start, in_order, live, started
from .orders import InOrder, Touched
from .plans import ALONE, Plan

RANDOM = 50
"""Random orders of a life, when all orders within the bound are done."""
END = "end"
"""Behind all work."""
WAIT_S = 0.05
"""Until it is asked again whether there is work."""
UNLISTED = ("data/", "transactions/")
"""Beginnings of names in the base table that nothing lists before a version of it does."""


@dataclass(slots=True)
class Covered:
    """What was done to one life."""

    missing: str = ""
    """Why it was not run at all."""
    states: int = 0
    faults: int = 0
    faults_done: int = 0
    faults_idle: int = 0
    """Of these, those whose request did not come, or whose run came to a limit."""
    idle: int = 0
    """Plans whose rule never acted, and runs that came to a limit: they show nothing."""
    orders: int = 0
    orders_done: int = 0
    random_done: int = 0
    both: int = 0
    both_done: int = 0
    """Of one fault and one preemption."""
    decisions: int = 0

    def words(self, actors: int) -> str:
        """What was covered, as a sentence says it."""
        if self.missing:
            return f"not run: {self.missing}"
        complete = self.faults and self.faults_done == self.faults
        one = f"complete for one fault ({self.faults})" if complete else f"{self.faults_done} of {self.faults} faults"
        if self.faults_idle:
            one += f", {self.faults_idle} of which did not come about"
        found = [one, f"{self.states} crash states"]
        if actors > 1:
            all_ = self.orders_done == self.orders and self.orders
            found.append(f"all {self.orders} orders" if all_ else f"{self.orders_done} of {self.orders} orders or more")
        if self.both_done:
            found.append(f"{self.both_done} of {self.both} pairs of a fault and a preemption")
        if self.random_done:
            chance = orders.chance_of(actors, self.decisions)
            found.append(f"{self.random_done} random orders, each with a chance of {chance:.2g} at least")
        if self.idle:
            found.append(f"{counted(self.idle, 'run')} showed nothing")
        return ", ".join(found)


@dataclass(slots=True)
class _Job:
    """A life under exploration."""

    life: ForeignLife
    start: Start | None = None
    touched: Touched | None = None
    covered: Covered = field(default_factory=Covered)
    faults: deque[Plan] = field(default_factory=deque)
    orders: deque[Plan] = field(default_factory=deque)
    single: tuple[Plan, ...] = ()
    """Faults of one request, those left out that are carried out late."""
    both: deque[Plan] = field(default_factory=deque)
    random: int = 0
    usual: ForeignFinding | None = None
    """What the life shows without any fault."""

    def next(self, turn: int, seed: int) -> Plan | None:
        """The plan of its ``turn``-th run: of eight five faults, two orders, and one fault in an order."""
        queues = [self.faults, self.orders, self.both]
        first = {3: self.orders, 6: self.orders, 7: self.both}.get(turn % 8, self.faults)
        for queue in sorted(queues, key=lambda each: each is not first):
            if queue:
                return queue.popleft()
        if len(self.life.actors) > 1 and self.random < RANDOM:
            self.random += 1
            return orders.at_random(self.random, seed, self.covered.decisions)
        return None


@dataclass(frozen=True, slots=True)
class _Shown:
    """What one run showed."""

    lived: Lived
    symptoms: list[Symptom]
    states: int
    """Crash states that were judged."""
    drive: InOrder | None
    """What chose the order; None: the operations ran one after another."""


@dataclass(slots=True, kw_only=True)
class ForeignExploration:
    """An exploration of one implementation under one revision."""

    harnesses: Sequence[Harness]
    """One for each run at a time."""
    revision: str
    lives: Sequence[ForeignLife]
    seconds: float
    preemptions: int = 2
    seed: int = 0
    most: int | None = None
    """Plans that are run at most; None: as many as the time allows."""
    enough: int | None = None
    """It ends with so many findings; None: it continues after each."""
    say: Callable[[str], None] = lambda line: None
    notebook: Notebook = field(init=False)
    jobs: list[_Job] = field(init=False)
    runs: int = 0
    unconfirmed: int = 0
    _judged: dict[StateLook, tuple[Symptom, ...]] = field(default_factory=dict)
    _begun: int = 0
    _until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        hello = self.harnesses[0].hello()
        if self.revision not in hello.revisions:
            raise InvalidArgument(
                f"{hello.implementation} has revision {', '.join(hello.revisions)}, not {self.revision}"
            )
        self.notebook = Notebook(hello.implementation, hello.version, self.revision)
        self.jobs = [_Job(life) for life in self.lives]
        for job in self.jobs:
            job.covered.missing = ", ".join(job.life.missing(hello))

    def run(self) -> None:
        """Explore until the time is over or nothing is left."""
        self._until = time.monotonic() + self.seconds
        work = self._work()
        with ThreadPoolExecutor(len(self.harnesses)) as pool:
            for done in [pool.submit(self._worker, harness, work) for harness in self.harnesses]:
                done.result()

    @property
    def covered(self) -> dict[str, Any]:
        """Life -> what was covered of it, in words."""
        return {job.life.name: job.covered.words(len(job.life.actors)) for job in self.jobs}

    def _work(self) -> Iterator[tuple[_Job, Plan] | None]:
        """Each life alone first, then plans of all lives in turn; None: nothing yet, others are at it."""
        alive = [job for job in self.jobs if not job.covered.missing]
        yield from ((job, ALONE) for job in alive)
        for turn in itertools.count():
            if not alive:
                return
            for job in list(alive):
                while job.start is None and not job.covered.missing:
                    yield None
                plan = None if job.covered.missing else job.next(turn, self.seed)
                if plan is None:
                    alive.remove(job)
                else:
                    yield job, plan

    def _worker(self, harness: Harness, work: Iterator[tuple[_Job, Plan] | None]) -> None:
        recoverer = Recoverer(harness, self.revision, self._judged)
        while time.monotonic() < self._until and (self.enough is None or len(self.notebook.findings) < self.enough):
            with self._lock:
                following = END if self._begun == self.most else next(work, END)
                self._begun += isinstance(following, tuple)
            if following is END:
                break
            if following is None:
                time.sleep(WAIT_S)
                continue
            assert not isinstance(following, str)
            job, plan = following
            if plan is ALONE:
                self._alone(recoverer, job)
            else:
                try:
                    self._planned(recoverer, job, plan)
                except BROKEN as error:  # before the life began: it showed nothing
                    job.covered.idle += 1
                    self.say(f"{job.life.name}, {plan.words}: not run: {str(error).splitlines()[0]}")
        recoverer.close()

    def _alone(self, recoverer: Recoverer, job: _Job) -> None:
        """The run without faults: its crash states, the faults that it gives, and the first order."""
        try:
            start = started(recoverer.harness, self.revision, job.life)
        except BROKEN as error:
            job.covered.missing = str(error).splitlines()[0]
            return
        shown = self._shown(recoverer, job, start, ALONE, job.life)
        if (why := _nothing_done(shown.lived)) and not shown.symptoms:
            job.covered.missing = why
            return
        found = plans.faults(shown.lived.log, job.life.actors)
        job.covered.faults = len(found)
        job.faults.extend(found)
        job.single = tuple(plan for plan in found if len(plan.rules) == 1 and not plan.waits)
        if len(job.life.actors) > 1:
            job.touched = Touched.of(shown.lived.log, job.life.actors)
            job.orders.append(orders.plan_of({}))
            job.covered.orders = 1
        self._noted(recoverer, job, start, ALONE, shown)
        job.start = start  # last: from here on others take plans of it

    def _planned(self, recoverer: Recoverer, job: _Job, plan: Plan) -> None:
        assert job.start is not None
        shown = self._shown(recoverer, job, job.start, plan, job.life)
        covered, drive = job.covered, shown.drive
        with self._lock:
            if drive is None:
                covered.faults_done += 1
                covered.faults_idle += bool(shown.lived.inconclusive)
            elif plan.rules:
                covered.both_done += 1
            elif plan.random:
                covered.random_done += 1
            else:
                covered.orders_done += 1
                new = list(orders.further(plan, drive.decisions, self.preemptions))
                covered.orders += len(new)
                job.orders.extend(new)
                if not plan.switches:
                    self._pair(job, [each for each in new if not drive.decisions[min(each.switches or {})].free])
                covered.decisions = max(covered.decisions, len(drive.decisions))
            covered.idle += bool(shown.lived.inconclusive or (drive is not None and drive.stuck))
        self._noted(recoverer, job, job.start, plan, shown)

    def _pair(self, job: _Job, interrupting: Sequence[Plan]) -> None:
        """Every single fault with every single preemption, in an order by chance: there are more than a budget has."""
        found = [orders.plan_of(one.switches or {}, fault) for one in interrupting for fault in job.single]
        random.Random(self.seed).shuffle(found)
        job.both.extend(found)
        job.covered.both = len(found)

    def _shown(
        self, recoverer: Recoverer, job: _Job, start: Start, plan: Plan, life: ForeignLife, until: str = ""
    ) -> _Shown:
        """A run of ``life``, which is the job's or a part of it, and what is wrong with it and its crash states.

        ``until``: words of a symptom behind which nothing more is judged.
        """
        drive = InOrder(plan, job.touched) if plan.ordered else None
        lived = live(recoverer.harness, self.revision, life, start, plan.rules, drive or in_order)
        with self._lock:
            self.runs += 1
        symptoms = [each for each in of_run(lived) if not (each.oracle == "hang" and plan.waits)]
        states = 0
        for state in crash_states(lived, plan):
            if until in (each.words for each in symptoms):
                break
            symptoms += recoverer.after(lived, state)
            states += 1
        return _Shown(lived, symptoms, states, drive)

    def _noted(self, recoverer: Recoverer, job: _Job, start: Start, plan: Plan, shown: _Shown) -> None:
        """Group what is wrong; what is new is believed when it is seen again, and made small."""
        job.covered.states += shown.states
        symptoms = self._unusual(job, shown.symptoms, plan)
        if not symptoms:
            return
        with self._lock:
            known = self.notebook.known(symptoms, plan.hit)
            if known is not None:
                self.notebook.again(known, symptoms, plan, job.life)
                job.usual = known if plan is ALONE else job.usual
                return
        head = heading(symptoms)
        small = self._smaller(recoverer, job, start, plan, head)
        if small is None:
            self.unconfirmed += 1
            self.say(f"seen once, and not again: {head.detail.splitlines()[0]} ({plan.words})")
            return
        with self._lock:
            known = self.notebook.known(small.symptoms, plan.hit)
            if known is not None:
                self.notebook.again(known, small.symptoms, plan, job.life)
                return
            found = self.notebook.add(small.symptoms, plan, small.lived, confirmed=True)
            job.usual = found if plan is ALONE else job.usual
        self.say(f"finding {found.number}, {found.severity}: {found.sentence}")

    def _unusual(self, job: _Job, symptoms: Sequence[Symptom], plan: Plan) -> list[Symptom]:
        """The symptoms that the life does not show without any fault, too."""
        usual = job.usual
        if usual is None:
            return list(symptoms)
        words = {usual.words, *usual.consequences}
        found = [each for each in symptoms if each.words not in words]
        if len(found) < len(symptoms):
            with self._lock:
                self.notebook.again(usual, [], plan, job.life)
        return found

    def _smaller(self, recoverer: Recoverer, job: _Job, start: Start, plan: Plan, head: Symptom) -> _Shown | None:
        """The run again, and then without operations, as long as it shows the same; None: it does not even once."""

        def same(life: ForeignLife) -> _Shown | None:
            shown = self._shown(recoverer, job, start, plan, life, head.words if life is not job.life else "")
            return shown if any(each.words == head.words for each in shown.symptoms) else None

        small = same(job.life)
        for number in reversed(range(len(job.life.steps))):
            if small is not None and len(small.lived.life.steps) > 1 and time.monotonic() < self._until:
                smaller = small.lived.life.without(number)
                # Twice in a row, since one run may show it by luck of timing.
                small = (same(smaller) and same(smaller)) or small
        return small


def _nothing_done(lived: Lived) -> str:
    """Why a life that is left alone shows nothing: none of its writes was acknowledged, and no actor has ended."""
    writes = any(step.verb in WRITES for step in lived.life.steps)
    done = any(call.process for call in lived.history.acknowledged)
    failed = [line for line in lived.told if not line.endswith(": done")]
    return failed[0].splitlines()[0] if writes and not done and not lived.ended and failed else ""


def crash_states(lived: Lived, plan: Plan) -> Iterator[CrashState]:
    """The states from the first request on that a rule met; all of them where no rule did.

    Of changes to files that nothing lists yet, one behind another, the last state is taken. An order of requests is
    judged by what it leaves at its end: its crashes are those of the operations one by one.
    """
    log = {entry.order: entry for entry in lived.log}
    labels = {rule.label for rule in plan.rules}
    first = next((entry.order for entry in lived.log if entry.rule in labels), 0)
    last = lived.states[-1]
    for state, following in pairwise(lived.states):
        here, there = log.get(state.order), log.get(following.order)
        together = here is not None and there is not None and _unlisted(here) and here.class_ == there.class_
        if state.order >= first and not together and not plan.ordered:
            yield state
    yield last


def _unlisted(entry: LogEntry) -> bool:
    return entry.class_ == "generation" or (entry.class_ == "base" and entry.name.startswith(UNLISTED))
