"""What stands behind each clause: code, tests, cases of the suite, and planted bugs that show that a test can fail.

A clause is *mutation-checked* when something that breaks that very clause on purpose is known to be noticed: a planted
bug of the engine with a recorded history that its oracle objects to, a broken adapter that a case of the suite fails
for that clause, or a mutant of the source that a test with the clause's marker fails with. All are run again by tests
or by ``make explore``. Each counts for the clauses that it names itself, whatever else it breaks besides.
A clause without one is *unchecked*: its tests may be right, but nobody has seen them fail here.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument, check_name
from memwal_sim import places
from memwal_sim.bugs import load as load_bugs
from memwal_sim.evidence import recorded
from memwal_sim.process import ENGINE_CLAUSE
from memwal_sim.traces.trace import load_header

from ..registry.clauses import CLAUSES, Clause, Text, clauses, implemented, marked, status_of, texts
from . import evidence
from . import mutants as mutation
from .broken_survey import SEEN
from .defects import DEFECTS
from .end_to_end import end_to_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """Something wrong on purpose."""

    name: str
    kind: str
    """``planted bug`` of the engine, ``broken adapter``, or ``mutant``."""
    what: str
    """What it does wrong, in one sentence."""
    where: str
    """Scenario, case or test in which it is noticed."""
    dead: bool
    """Whether it is noticed there, for the clause in question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One clause with everything that stands behind it."""

    clause: Clause
    status: str
    """``tested``, or what the registry says: ``open``, ``excluded``, ``ambiguous``, ``unheld``."""
    code: tuple[str, ...] = ()
    """Qualified names of the engine's code that carries it."""
    tests: tuple[str, ...] = ()
    """``<file>::<test>`` of the tests that are about it."""
    end_to_end: tuple[str, ...] = ()
    """Those of its tests that go through the public interface only, and the scenarios of the suite."""
    cases: tuple[str, ...] = ()
    """Vectors and scenarios of the suite that look at it, and structural checks as ``check: <name>``."""
    planted: tuple[Planted, ...] = ()

    @property
    def mutation_checked(self) -> bool:
        """Whether it holds, and something that breaks it is known to be noticed."""
        return self.status != "unheld" and self.ways > 0

    @property
    def ways(self) -> int:
        """In how many ways it was broken on purpose and that was noticed."""
        return len({each.name for each in self.planted if each.dead})


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """All that names clauses: clause -> its names."""

    code: Mapping[str, tuple[str, ...]]
    tests: Mapping[str, tuple[str, ...]]
    cases: Mapping[str, tuple[str, ...]]
    planted: Mapping[str, tuple[Planted, ...]]

    def by_whom(self) -> dict[str, Iterable[str]]:
        """Who names clauses -> the clauses."""
        return {"code": self.code, "a test": self.tests, "a case": self.cases, "a planted bug": self.planted}


@functools.cache
def named() -> Named:
    """Everything that names clauses, looked for once.

    Raises `InvalidArgument` for a wrong registry or marker, ImportError if the engine cannot be imported.
    """
    cases = evidence.cited()
    return Named(code=implemented(), tests=marked(), cases=cases, planted=planted(cases))


@functools.cache
def standings() -> tuple[Standing, ...]:
    """All clauses, in the order of the registry. Raises what `named` does."""
    code, tests, cases, broken = named().code, named().tests, named().cases, named().planted
    return tuple(
        Standing(
            clause=clause,
            status=status_of(clause, tests),
            code=code.get(clause.id, ()),
            tests=tests.get(clause.id, ()),
            cases=cases.get(clause.id, ()),
            end_to_end=end_to_end(tests.get(clause.id, ()), cases.get(clause.id, ())),
            planted=broken.get(clause.id, ()),
        )
        for clause in clauses()
    )


def standing(id_: str) -> Standing:
    """The clause called ``id_``. Raises `InvalidArgument` if there is none."""
    known = {each.clause.id: each for each in standings()}
    check_name("clause", id_.upper(), known)
    return known[id_.upper()]


def planted(cases: Mapping[str, Collection[str]]) -> dict[str, tuple[Planted, ...]]:
    """Clause or note id -> what breaks it on purpose and says so, sorted; ``cases`` as `evidence.cited` gives them."""
    found: dict[str, set[Planted]] = {}
    histories = recorded.wanted(places.faults())
    bugs = load_bugs(places.faults() / "bugs")
    for name, bug in bugs.items():
        history = histories.get(name)
        noticed = None if history is None or not history.exists() else load_header(history).violation
        dead = noticed is not None and (noticed.oracle, noticed.clause) == (bug.oracle, bug.violated)
        one = Planted(name=name, kind="planted bug", what=bug.what, where=f"scenario {bug.scenario}", dead=dead)
        for id_ in {bug.clause, bug.violated} - {ENGINE_CLAUSE}:  # a process that ends so breaks no clause of the texts
            found.setdefault(id_, set()).add(one)
    surveyed = ((name, *seen) for name, cases in _surveyed().items() if name in bugs for seen in cases.items())
    for name, case, broken in surveyed:
        one = Planted(name=name, kind="broken adapter", what=bugs[name].what, where=case, dead=True)
        for id_ in {bugs[name].clause, bugs[name].violated}.intersection(broken):  # a case looks at others, too
            found.setdefault(id_, set()).add(one)
    for name, defect in DEFECTS.items():
        file = defect.case.partition("::")[0].removesuffix("/case.json")
        dead = file in cases.get(defect.clause, ())
        one = Planted(name=name, kind="broken adapter", what=defect.sentence, where=defect.case, dead=dead)
        found.setdefault(defect.clause, set()).add(one)
    killed = mutation.dead(known := mutation.mutants())
    for mutant in known:
        one = Planted(name=mutant.name, kind="mutant", what=mutant.what, where=mutant.test, dead=mutant.name in killed)
        for id_ in mutant.clauses:
            found.setdefault(id_, set()).add(one)
    return {id_: tuple(sorted(each, key=lambda one: (one.kind, one.name))) for id_, each in sorted(found.items())}


def _surveyed() -> dict[str, dict[str, list[str]]]:
    """Planted bug -> case of the suite that fails with it in the engine -> clauses that the case names."""
    found: dict[str, dict[str, list[str]]] = json.loads(SEEN.read_text("utf-8")) if SEEN.exists() else {}
    return found


def faults(known: Sequence[Standing], names: Mapping[str, Iterable[str]]) -> list[str]:
    """What is wrong with the registry: statuses that are not final, ``names`` that it does not have. Empty: nothing.

    Every MUST is tested, mutation-checked and broken in two ways, excluded or unheld with a reason, or ambiguous with a
    note; reasons and notes are checked when the registry is read.
    Code, tests, cases and planted bugs name only clauses that there are.
    """
    ids = {each.clause.id for each in known}
    found = [
        f"{each.clause.id}: a MUST that is neither tested, nor excluded, nor ambiguous"
        for each in known
        if each.clause.level == "MUST" and each.status == "open"
    ]
    found += [
        f"{each.clause.id}: a tested MUST, and nothing that breaks it is known to be noticed"
        for each in known
        if each.clause.level == "MUST" and each.status == "tested" and not each.mutation_checked
    ]
    found += [
        f"{each.clause.id}: a tested MUST that is broken in one way only: {each.planted[0].name}"
        for each in known
        if each.clause.level == "MUST" and each.status == "tested"
        if each.mutation_checked and len({one.name for one in each.planted}) == 1
    ]
    for what, mine in names.items():
        strange = sorted(name for name in mine if name not in ids and not name.startswith("AMB-"))
        found += [f"{name}: {what} names it, the registry does not have it" for name in strange]
    return found


def differing(folder: Path, pinned: Sequence[Text] | None = None) -> list[str]:
    """Which of the pinned texts ``folder`` does not hold with their digest; other files in it do not matter.

    Raises `InvalidArgument` if it is no folder.
    """
    if not folder.is_dir():
        raise InvalidArgument(f"{folder} is no folder")
    there = {hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
    return [
        f"{text.name}: no file in {folder} has its digest {text.sha256[:12]}…"
        for text in (texts(CLAUSES) if pinned is None else pinned)
        if text.sha256 not in there
    ]
