"""Explores an implementation: lives, faults, crashes, orders, within a budget; confirms and shrinks what it finds."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from memwal.errors import InvalidArgument

from ..adapters.aided import JOBS
from ..adapters.harness import Harness
from ..adapters.process import BROKEN, AdapterCrash
from . import orders, plans
from .agenda import Agenda
from .covered import Covered
from .findings import ForeignFinding, Notebook, heading
from .judging import Recoverer, StateLook, Symptom, of_run
from .lived import Lived, not_begun, nothing_done
from .lives import ForeignLife
from .living import in_order, live
from .orders import InOrder, Touched
from .plans import ALONE, Plan
from .shrinking import ShownRun, smallest
from .starting import Start, started, table_of

AT_FIRST = 2
"""Crash states of the undisturbed run that are judged at once: its last one, and that behind the last put."""
NEW = 3
"""Crash states that are judged behind a fault, of those that are unlike all before; the others wait for their turn."""
AGAIN = 6
"""New crash states that are judged where it is asked whether no fault is needed: those nearest to what showed it."""
PAIRS = 500
"""Of a fault and a preemption, of each life."""
RANDOM = 50
"""Random orders of a life, when all orders within the bound are done."""
END = "end"
"""Behind all work."""
SMALLER = 0.5
"""Share of the budget that findings are made small in; each takes half of what is left of it at most."""
WAIT_S = 0.05
"""Until it is asked again whether there is work."""


@dataclass(slots=True)
class _Job:
    """A life under exploration."""

    life: ForeignLife
    start: Start | None = None
    touched: Touched | None = None
    covered: Covered = field(default_factory=Covered)
    agenda: Agenda = field(default_factory=Agenda)
    single: tuple[Plan, ...] = ()
    """Faults of one request, those left out that are carried out late."""
    alone: Lived | None = None
    """The undisturbed run."""
    random: int = 0
    usual: list[ForeignFinding] = field(default_factory=list)
    """What the life shows without any fault."""

    @property
    def ready(self) -> bool:
        """Whether plans of it can be run."""
        return self.start is not None and not self.covered.missing

    def at_random(self, seed: int) -> Plan | None:
        """One more random order, if the life has several actors and is not at its last one."""
        if len(self.life.actors) == 1 or self.random == RANDOM:
            return None
        self.random += 1
        return orders.at_random(self.random, seed, self.covered.decisions)


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
    smaller: bool = True
    """Whether findings are made small."""
    say: Callable[[str], None] = lambda line: None
    found: Callable[[ForeignFinding, float], None] = lambda finding, seconds: None
    """Told of each new finding, and of the seconds that it may take to show it in another way."""
    clock: Callable[[], float] = time.monotonic
    notebook: Notebook = field(init=False)
    jobs: list[_Job] = field(init=False)
    begun: int = 0
    """Plans that were begun, runs without faults among them."""
    runs: int = 0
    unconfirmed: int = 0
    lent: dict[str, str] = field(default_factory=dict)
    """What players of lent roles did wrong: in words, and as it was seen first."""
    _judged: dict[StateLook, tuple[Symptom, ...]] = field(default_factory=dict)
    _starts: dict[tuple[object, ...], Start] = field(default_factory=dict)
    """What several lives begin with."""
    _alone_first: deque[_Job] = field(init=False)
    _done: Counter[str] = field(default_factory=Counter)
    """Kind of plan -> how many were begun."""
    _running: int = 0
    _until: float = 0.0
    _smaller_s: float = 0.0
    """What is left of the time in which findings are made small."""
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
            job.covered.missing = ", ".join(job.life.missing(hello, self.revision))
        self._alone_first = deque(job for job in self.jobs if not job.covered.missing)

    def run(self) -> None:
        """Explore until the time is over or nothing is left. The first processes are started before it begins."""
        with ThreadPoolExecutor(len(self.harnesses)) as pool:
            list(pool.map(Harness.hello, self.harnesses))
            self._until = self.clock() + self.seconds
            self._smaller_s = SMALLER * self.seconds * len(self.harnesses)
            for done in [pool.submit(self._worker, harness) for harness in self.harnesses]:
                done.result()

    @property
    def covered(self) -> dict[str, Any]:
        """Life -> what was covered of it, in words."""
        return {job.life.name: job.covered.words(len(job.life.actors)) for job in self.jobs}

    def _following(self) -> tuple[_Job, Plan] | str | None:
        """Each life alone, and then of all plans the best; None: nothing yet, others are at it."""
        if self.begun == self.most:
            return END
        if self._alone_first:
            return self._alone_first.popleft(), ALONE
        ready = [job for job in self.jobs if job.ready]
        ways = [(best, job) for job in ready if (best := job.agenda.best(self._done))]
        if ways:
            (_, _, kind), job = min(ways, key=lambda way: way[0][:2])
            self._done[kind] += 1
            return job, job.agenda.take(kind)
        if self._running:
            return None
        return next(((job, plan) for job in ready if (plan := job.at_random(self.seed))), END)

    def _worker(self, harness: Harness) -> None:
        recoverer = Recoverer(harness, self.revision, self._judged)
        while self.clock() < self._until and (self.enough is None or len(self.notebook.errors) < self.enough):
            with self._lock:
                following = self._following()
                counts = isinstance(following, tuple)
                self.begun += counts
                self._running += counts
            if following is END:
                break
            if following is None:
                time.sleep(WAIT_S)
                continue
            assert not isinstance(following, str)
            try:
                self._carried_out(recoverer, *following)
            finally:
                recoverer.close()
                with self._lock:
                    self._running -= 1

    def _carried_out(self, recoverer: Recoverer, job: _Job, plan: Plan) -> None:
        try:
            if plan is ALONE:
                self._alone(recoverer, job)
            else:
                self._planned(recoverer, job, plan)
        except BROKEN as error:  # before the life began: it showed nothing
            if plan is ALONE and not job.covered.idle:
                self._alone_first.append(job)
            job.covered.idle += 1
            self.say(f"{job.life.name}, {plan.words}: not run: {str(error).splitlines()[0]}")

    def _alone(self, recoverer: Recoverer, job: _Job) -> None:
        """The run without faults: its crash states, the faults that it gives, and the first order."""
        try:
            start = self._starts.get(table_of(job.life)) or started(recoverer.harness, self.revision, job.life)
            self._starts[table_of(job.life)] = start
        except BROKEN as error:
            job.covered.missing = str(error).splitlines()[0]
            if isinstance(error, AdapterCrash):
                self._not_made(recoverer, job)
            return
        shown = self._shown(recoverer, job, start, ALONE, job.life)
        if shown.lived.cut:
            job.covered.missing = "the time was over before it had been left alone once"
            return
        if (why := nothing_done(shown.lived)) and not shown.symptoms:
            job.covered.missing = why
            return
        found = plans.faults(shown.lived)
        job.covered.faults = len(found)
        job.agenda.add(plans.crashes(shown.lived, list(plans.crash_states(shown.lived, ALONE))[:-1]))
        job.agenda.add(found)
        job.alone = shown.lived
        job.single = tuple(plan for plan in found if len(plan.rules) == 1 and not plan.waits)
        if len(job.life.actors) > 1:
            job.touched = Touched.of(shown.lived)
            job.agenda.add([orders.plan_of({}, kind=f"orders of {job.life.name}", rank=orders.FIRST)])
            job.covered.orders = 1
        self._noted(recoverer, job, start, ALONE, shown)
        job.start = start  # last: from here on others take plans of it

    def _not_made(self, recoverer: Recoverer, job: _Job) -> None:
        """A process ended while it made the table of a life: a finding, if it does so once more."""
        try:
            started(recoverer.harness, self.revision, job.life)
        except AdapterCrash as error:
            lived = not_begun(job.life, str(error))
            symptoms = list(of_run(lived, recoverer.harness.hello()))
            with self._lock:
                if self.notebook.known(symptoms, ALONE) is None:
                    after = self.clock() - self._until + self.seconds, self.runs
                    found = self.notebook.add(symptoms, ALONE, lived, cut=False, after=after)
                    self.say(f"finding {found.number}, {found.severity}, {found.came}: {found.sentence}")

    def _planned(self, recoverer: Recoverer, job: _Job, plan: Plan) -> None:
        assert job.start is not None
        shown = self._shown(recoverer, job, job.start, plan, job.life)
        covered, drive = job.covered, shown.drive
        with self._lock:
            if plan.crash is not None or shown.cut:
                pass
            elif drive is None:
                covered.faults_done += not shown.left_out
                covered.faults_idle += bool(shown.lived.inconclusive)
                if shown.left_out:
                    job.agenda.add([plans.with_all_crashes(plan)])
            elif plan.rules:
                covered.both_done += 1
            elif plan.random:
                covered.random_done += 1
            else:
                covered.orders_done += 1
                new = list(orders.further(plan, drive.decisions, self.preemptions))
                covered.orders += len(new)
                job.agenda.add(new)
                if not plan.switches:
                    self._pair(job, new)
                covered.decisions = max(covered.decisions, len(drive.decisions))
            covered.idle += bool(shown.lived.inconclusive or (drive is not None and drive.stuck)) and not shown.cut
        self._noted(recoverer, job, job.start, plan, shown)

    def _pair(self, job: _Job, interrupting: Sequence[Plan]) -> None:
        """Some of all pairs of a single fault and a single preemption, by chance: more than a budget has time for."""
        pairs = range(len(interrupting) * len(job.single))
        for pair in random.Random(self.seed).sample(pairs, min(PAIRS, len(pairs))):
            one, fault = interrupting[pair % len(interrupting)], job.single[pair // len(interrupting)]
            job.agenda.add([orders.plan_of(one.switches or {}, fault, kind=one.kind)])
        job.covered.both = len(pairs)

    def _shown(
        self,
        recoverer: Recoverer,
        job: _Job,
        start: Start,
        plan: Plan,
        life: ForeignLife,
        until: Symptom | None = None,
        ends: float | None = None,
    ) -> ShownRun:
        """A run of ``life``, which is the job's or a part of it, and what is wrong with it and its crash states.

        ``until``: a symptom behind which nothing more is judged. ``ends``: when its time is over, if it is not that of
        the whole; from there on no operation is begun and no state judged.
        """

        def over() -> bool:
            return self.clock() >= (self._until if ends is None else ends)

        if plan.crash is not None and until is None:
            assert job.alone is not None
            state = job.alone.states[plan.crash]
            return ShownRun(plan, job.alone, self._own(recoverer.after(job.alone, state)), states=1)
        drive = InOrder(plan, job.touched) if plan.ordered else None
        lived = live(recoverer.harness, self.revision, life, start, plan.rules, drive or in_order, over)
        with self._lock:
            self.runs += 1
        hello = recoverer.harness.hello()
        lent = not set(JOBS).isdisjoint(hello.lent)  # what the texts leave open, another player may have done
        shown = [each for each in of_run(lived, hello) if not (lent and each.note and each.oracle == "machine")]
        symptoms = [each for each in shown if not (each.oracle == "hang" and plan.waits)]
        states = left_out = 0
        cut = lived.cut
        most = None if plan.whole else NEW
        if plan is ALONE:
            most = AT_FIRST if until is None else AGAIN
        elif until is not None:
            most = None
        for state in plans.most_telling(lived, plan, None if until is None else until.order):
            if until is not None and until.words in (each.words for each in symptoms):
                break
            fresh = not recoverer.knows(lived, state)
            if fresh and most == 0:
                left_out += 1
                continue
            if cut := cut or over():
                break
            symptoms += recoverer.after(lived, state)
            states += 1
            most = most - 1 if fresh and most else most
        return ShownRun(plan, lived, self._own(symptoms), states, left_out, drive, cut)

    def _own(self, symptoms: Sequence[Symptom]) -> list[Symptom]:
        """Those that the implementation made. What another player did wrong is said once."""
        with self._lock:
            for each in symptoms:
                if each.lent and each.words not in self.lent:
                    self.lent[each.words] = each.detail
                    self.say(f"by the player of a role that is lent, and no finding: {each.detail}")
        return [each for each in symptoms if not each.lent]

    def _noted(self, recoverer: Recoverer, job: _Job, start: Start, plan: Plan, shown: ShownRun) -> None:
        """Group what is wrong; what is new is believed when it is seen again, and made small."""
        job.covered.states += shown.states
        symptoms = self._unusual(job, shown.symptoms, plan)
        if not symptoms:
            return
        with self._lock:
            known = self.notebook.known(symptoms, plan)
            if known is not None:
                self.notebook.again(known, symptoms, plan, job.life)
                job.usual += [known] if plan.undisturbed and known not in job.usual else []
                return
        head = heading(symptoms)

        def same(life: ForeignLife, plan: Plan, ends: float = self._until) -> ShownRun:
            shown = self._shown(recoverer, job, start, plan, life, head, ends)
            return shown if any(each.words == head.words for each in shown.symptoms) else replace(shown, symptoms=[])

        small = same(job.life, plan)
        if not small.symptoms:
            self.unconfirmed += 1
            why = "and its time was over before it was seen again" if small.cut else "and not again"
            self.say(f"seen once, {why}: {head.detail.splitlines()[0]} ({plan.words})")
            return
        with self._time_for_one() as ends:
            if self.smaller:
                small = smallest(lambda life, plan: same(life, plan, ends), small, lambda: self.clock() >= ends)
            with self._lock:
                known = self.notebook.known(small.symptoms, small.plan)
                if known is not None:
                    self.notebook.again(known, small.symptoms, plan, job.life)
                    return
                after = self.clock() - self._until + self.seconds, self.runs
                found = self.notebook.add(small.symptoms, small.plan, small.lived, cut=small.cut, after=after)
                job.usual += [found] if small.plan.undisturbed else []
            self.say(f"finding {found.number}, {found.severity}, {found.came}: {found.sentence}")
            self.found(found, ends - self.clock())

    def _unusual(self, job: _Job, symptoms: Sequence[Symptom], plan: Plan) -> list[Symptom]:
        """The symptoms that no finding without any fault is about, nor a consequence of one in this life."""
        with self._lock:
            usual = [
                (found, [each for each in symptoms if found.heads(each) or (mine and each.words in found.consequences)])
                for found in self.notebook.findings
                if found.undisturbed
                for mine in [found in job.usual]
            ]
            for found, here in usual:
                if here:
                    self.notebook.again(found, [], plan, job.life)
        return [each for each in symptoms if not any(each in here for _, here in usual)]

    @contextmanager
    def _time_for_one(self) -> Iterator[float]:
        """Until when one finding may be seen again, made small and shown alone: half of what is left for that."""
        with self._lock:
            allowed = self._smaller_s / 2
            self._smaller_s -= allowed
        begun = self.clock()
        try:
            yield min(begun + allowed, self._until)
        finally:
            with self._lock:
                self._smaller_s += max(0.0, allowed - (self.clock() - begun))
