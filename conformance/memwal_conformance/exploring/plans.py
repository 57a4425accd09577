"""What is done to a run: single faults at every request, for once, for a while and for ever; preemptions; both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from memwal import paths

from ..gate import Address, CrashState, Do, FaultRule, LogEntry, S3Operation
from ..gate.calls import GROUP_OF
from .lived import Lived
from .lives import READS, WRITES

Deed = tuple[Do, int]
"""What is done, and with which HTTP status; 0: the deed has none."""

CONDITIONAL: tuple[Deed, ...] = (
    (Do.APPLY_THEN_FAIL, 500),
    (Do.APPLY_THEN_LOSE, 0),
    (Do.LOSE, 0),
    (Do.HALF, 0),
    (Do.FAIL, 503),
    (Do.FAIL, 500),
    (Do.DUPLICATE, 0),
    (Do.REFUSE, 409),
    (Do.APPLY_THEN_FAIL, 503),
    (Do.REFUSE, 429),
    (Do.REFUSE, 408),
    (Do.REFUSE, 403),
)
"""Of a put that must find its name free, those first that find most. S3 documents all these answers for it; 412 is the
store's own answer, and 404 none."""
CHANGING: tuple[Deed, ...] = tuple(deed for deed in CONDITIONAL if deed != (Do.REFUSE, 409))
"""Of any other change."""
READING: tuple[Deed, ...] = (
    (Do.FAIL, 503),
    (Do.LOSE, 0),
    (Do.HALF, 0),
    (Do.FAIL, 500),
    (Do.REFUSE, 429),
    (Do.REFUSE, 408),
    (Do.REFUSE, 403),
)
"""Of a request that changes nothing."""
LASTING: tuple[Deed, ...] = ((Do.FAIL, 503), (Do.LOSE, 0), (Do.APPLY_THEN_FAIL, 500), (Do.REFUSE, 403))
"""For a while, and for ever."""
SIMPLEST: tuple[Deed, ...] = ((Do.FAIL, 500), (Do.LOSE, 0), (Do.APPLY_THEN_FAIL, 500))
"""The fates by which a finding is told if they show it, the simplest first."""
A_WHILE = 3
"""Requests of a kind."""
COMMITS = ("wal", "manifest", paths.VERSIONS.removeprefix("_"))
"""Kinds of objects that make valid what was written before them."""
BY_NAME = ("wal", "manifest", "hint")
"""Classes of objects whose names are the same in every run; others go by their number."""
_WORDS = {
    Do.APPLY_THEN_FAIL: "carried out and answered {status}",
    Do.APPLY_THEN_LOSE: "carried out, and the connection reset",
    Do.LOSE: "not carried out, and the connection reset",
    Do.HALF: "carried out, and half of the reply sent",
    Do.FAIL: "not carried out and answered {status}",
    Do.REFUSE: "not carried out and answered {status}",
    Do.DUPLICATE: "carried out twice",
    Do.HOLD_BEFORE: "carried out late, after everything else, and never answered before",
    Do.DELAY: "carried out late, after the next change of its kind",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done to one run. A plan without rules and switches leaves it alone."""

    words: str
    hit: str
    """Class and operation of what a fault meets, such as ``manifest CREATE``; ``order`` where there is no fault."""
    rules: tuple[FaultRule, ...] = ()
    switches: Mapping[int, str] | None = None
    """Decision -> the actor that continues there; None: the operations run one after another."""
    random: str = ""
    """Seed of a random order; empty: none."""
    crash: int | None = None
    """Index of a state of the undisturbed run, which is judged as what a crash leaves; None: the life is run."""
    whole: bool = False
    """All crash states are judged, however many are new; otherwise a few."""
    kind: str = ""
    """What it does, without names and numbers: plans of one kind are likely to show the same."""
    rank: int = 0
    """What finds most has the lowest."""
    made: _Made | None = None
    """What a fault was made of; None: there is none."""
    fault: Plan | None = None
    """The fault of a plan that has an order of requests beside it."""

    @property
    def ordered(self) -> bool:
        """Whether it chooses the order of requests."""
        return self.switches is not None or bool(self.random)

    @property
    def way(self) -> str:
        """Whether it is a crash, a fault, an order, or a fault in an order."""
        if self.crash is not None:
            return "crash"
        return " ".join(word for word, is_it in (("fault", self.rules), ("order", self.ordered)) if is_it)

    @property
    def undisturbed(self) -> bool:
        """Whether nothing is done to the run: no fault, and no order of requests."""
        return not self.rules and not self.ordered

    @property
    def waits(self) -> bool:
        """Whether an actor may wait for ever under it, and nothing is wrong with that."""
        return any(rule.do in (Do.HOLD_BEFORE, Do.DELAY) or rule.at.occurrence is None for rule in self.rules)

    def to_json(self) -> dict[str, Any]:
        """As a finding keeps it."""
        found: dict[str, Any] = {"words": self.words, "hit": self.hit}
        if self.rules:
            found["rules"] = [rule.to_json() for rule in self.rules]
        if self.switches is not None:
            found["switches"] = {str(number): actor for number, actor in self.switches.items()}
        return found | ({"random": self.random} if self.random else {})


NO_FAULT = "no fault"
ALONE = Plan(words=NO_FAULT, hit=NO_FAULT)
"""The run that is left alone."""
UNLISTED = ("data/", "transactions/")
"""Beginnings of names in the base table that nothing lists before a version of it does."""
HELD, COMMIT, CRASH, LATER, READ, WHOLE, LASTS = -3, -2, 0, 2, 3, 6, 8
"""Ranks of the late manifest of a flush that runs beside other work; of what befalls a commit, above that of any other
request; of crashes of the undisturbed run; of changes that come late, or never; of the first fault of reads; of all
crashes behind a fault, above that of the fault; and of faults that last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Met:
    """A request of a run, and how it is found again in another."""

    entry: LogEntry
    group: str
    at: Mapping[str, Any]
    before: int
    """Requests of this class and operation before it, of all actors."""
    during: str
    """What its actor was about to do."""

    @property
    def hit(self) -> str:
        return hit(self.entry)

    @property
    def kind(self) -> str:
        """What is requested, without names and numbers."""
        return f"{self.entry.operation} of {kind_of(self.entry.name)}"

    @property
    def more(self) -> int:
        """How much more it tells than others, in ranks."""
        return COMMIT if commits(self.entry.operation, self.entry.name) else 0

    @property
    def beside(self) -> bool:
        """Whether it is of a flush that runs beside what its actor does: late, it leaves a MemTable full for longer."""
        return self.entry.class_ == "manifest" and self.during in (*WRITES, *READS)


@dataclass(frozen=True, slots=True)
class _Made:
    """What a fault was made of, so that one can be made that does less."""

    met: _Met
    deed: Deed
    lasting: Callable[[_Met, Deed], Plan] | None = None
    """What makes it last; None: it meets one request."""


def kind_of(name: str) -> str:
    """The kind of an object: the folder in its symbolic name, or the name itself."""
    return name.partition("/")[0]


def changes(operation: str) -> bool:
    """Whether a request changes the store."""
    return GROUP_OF[S3Operation(operation)] in ("PUT", "DELETE")


def commits(operation: str, name: str) -> bool:
    """Whether a request makes something valid at once: a WAL entry, a region manifest, or a version of the table."""
    return GROUP_OF[S3Operation(operation)] == "PUT" and kind_of(name) in COMMITS


def hit(entry: LogEntry) -> str:
    """What kind of request it is."""
    return f"{entry.class_} {entry.operation}"


def _met(lived: Lived) -> Iterator[_Met]:
    counted: Counter[tuple[str, ...]] = Counter()
    before: Counter[str] = Counter()
    known = set(lived.life.actors)
    for entry in lived.log:
        if entry.actor not in known:
            continue
        at: dict[str, Any] = {"actor": entry.actor, "class_": entry.class_, "operation": entry.operation}
        if entry.class_ in BY_NAME and "*" not in entry.name:
            at["name"] = entry.name
        counted[tuple(at.values())] += 1
        at["occurrence"] = counted[tuple(v for k, v in at.items() if k != "occurrence")]
        group, during = GROUP_OF[S3Operation(entry.operation)], lived.during(entry)
        yield _Met(entry=entry, group=group, at=at, before=before[hit(entry)], during=during)
        before[hit(entry)] += 1


def crashes(lived: Lived, states: Iterable[CrashState]) -> Iterator[Plan]:
    """One plan for each state of an undisturbed run, by the request behind which the crash comes."""
    log = {entry.order: entry for entry in lived.log}
    for state in states:
        kind, rank = "a crash", CRASH
        if entry := log.get(state.order):
            kind = f"{lived.during(entry)}: a crash behind {entry.operation} of {kind_of(entry.name)}"
            rank += COMMIT if commits(entry.operation, entry.name) else 0
        yield replace(ALONE, crash=state.index, kind=kind, rank=rank)


def faults(lived: Lived) -> list[Plan]:
    """Every single fault of an undisturbed run: changes before reads, once before a while before for ever."""
    met = list(_met(lived))
    changes = [each for each in met if each.group in ("PUT", "DELETE")]
    reads = [each for each in met if each.group not in ("PUT", "DELETE")]
    found: list[Plan] = []
    for rank in range(len(CONDITIONAL)):
        for each in changes:
            deeds = CONDITIONAL if each.entry.operation == "CREATE" else CHANGING
            found += [_once(each, deeds[rank], rank)] if rank < len(deeds) else []
    found += [_late(each) for each in changes if each.entry.operation == "CREATE" and each.entry.class_ in BY_NAME]
    for rank, deed in enumerate(READING):
        fitting = [each for each in reads if (each.entry.operation, deed[0]) != ("HEAD", Do.HALF)]
        found += [_once(each, deed, READ + rank) for each in fitting]
    found += [_for_a_while(each, deed) for deed in LASTING for each in changes]
    kinds = {(each.entry.actor, each.entry.class_, each.entry.operation): each for each in reversed(met)}  # the first
    found += [_for_ever(each, deed) for deed in LASTING for each in kinds.values() if _fits(each, deed)]
    found += [_silent(each) for each in changes if each.entry.operation == "CREATE"]
    return found


def with_all_crashes(plan: Plan) -> Plan:
    """The plan, of which all crash states are judged."""
    return replace(plan, whole=True, kind=f"{plan.kind}, all crashes", rank=plan.rank + WHOLE)


def _fits(each: _Met, deed: Deed) -> bool:
    return each.group in ("PUT", "DELETE") or deed[0] is not Do.APPLY_THEN_FAIL


def _rule(at: Mapping[str, Any], deed: Deed, **more: Any) -> FaultRule:
    do, status = deed
    return FaultRule(at=Address(**at), do=do, status=status, **more)


def _words(each: _Met, deed: Deed, which: str = "") -> str:
    entry = each.entry
    done = _WORDS[deed[0]].format(status=deed[1])
    if which:
        return f"{which} {entry.class_} {entry.operation} of {entry.actor} is {done}"
    return f"{entry.actor}'s {entry.operation} of {entry.name} is {done}"


def _once(each: _Met, deed: Deed, rank: int = 0) -> Plan:
    return _plan(_Made(each, deed), (_rule(each.at, deed),), rank + each.more)


def _plan(made: _Made, rules: tuple[FaultRule, ...], rank: int, lasts: str = "", which: str = "") -> Plan:
    each, deed = made.met, made.deed
    does = _WORDS[deed[0]].format(status=deed[1])
    what = f"{each.hit} {lasts}".strip()
    kind = f"{each.during}: {each.kind} {lasts}".strip() + f", {does}"
    return Plan(words=_words(each, deed, which), hit=what, rules=rules, kind=kind, rank=rank, made=made)


def _for_a_while(each: _Met, deed: Deed) -> Plan:
    kind = {name: value for name, value in each.at.items() if name != "name"}
    rules = tuple(_rule({**kind, "occurrence": each.at["occurrence"] + n}, deed) for n in range(A_WHILE))
    which = f"from number {each.at['occurrence']} on, each of {A_WHILE}"
    return _plan(_Made(each, deed, _for_a_while), rules, LASTS, "for a while", which)


def _for_ever(each: _Met, deed: Deed) -> Plan:
    kind = {name: value for name, value in each.at.items() if name != "name"} | {"occurrence": None}
    return _plan(_Made(each, deed, _for_ever), (_rule(kind, deed),), LASTS, "for ever", "each")


def _late(each: _Met) -> Plan:
    until = Address(class_=each.entry.class_, operation="CREATE", occurrence=each.before + 1)
    deed = (Do.DELAY, 0)
    rank = HELD if each.beside else LATER + each.more
    return _plan(_Made(each, deed), (_rule(each.at, deed, until=until),), rank)


def _silent(each: _Met) -> Plan:
    return _once(each, (Do.HOLD_BEFORE, 0), LATER)


def simpler(plan: Plan) -> Iterator[Plan]:
    """Faults that do less than this one, those first that do least: for once, and what is told in fewer words."""
    made = plan.made
    if made is None:
        return
    changes = made.met.group in ("PUT", "DELETE")
    own = next((n for n, deed in enumerate(SIMPLEST) if deed[0] is made.deed[0]), len(SIMPLEST))
    less = [deed for deed in SIMPLEST[:own] if changes or deed[0] is not Do.APPLY_THEN_FAIL]
    if made.lasting is None:
        yield from (_once(made.met, deed) for deed in less)
        return
    yield from (_once(made.met, deed) for deed in [*less, made.deed])
    if made.lasting is _for_ever:
        yield _for_a_while(made.met, made.deed)
    yield from (made.lasting(made.met, deed) for deed in less)


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


def most_telling(lived: Lived, plan: Plan, order: int | None = None) -> list[CrashState]:
    """The crash states, those first that show most: that behind the last put, and the last one.

    ``order``: of the request behind which another run showed something. Those nearest to it come first then, since a
    client's timers may have moved it.
    """
    states = list(crash_states(lived, plan))
    if order is not None:
        return sorted(states, key=lambda state: abs(state.order - order))
    puts = [entry.order for entry in lived.log if (entry.class_, entry.operation) == ("wal", "CREATE")]
    wanted = [state for state in states[:-1] if puts and state.order == max(puts)]
    return [*wanted, states[-1], *(state for state in states[:-1] if state not in wanted)]


def _unlisted(entry: LogEntry) -> bool:
    return entry.class_ == "generation" or (entry.class_ == "base" and entry.name.startswith(UNLISTED))
