"""The evidence for each clause: code, tests, cases of the suite, and planted bugs that show that a test can fail.

A clause is *mutation-checked* when something that breaks that very clause on purpose (`planted`) is known to be noticed
(`deaths`): by its oracle, by a case of the suite for that clause, or by a test with the clause's marker. All are run
again by ``make explore``. Each counts for the clauses that it names itself, whatever else it breaks besides.
A clause without one is *unchecked*: its tests may be right, but they were not seen to fail here.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memwal.errors import InvalidArgument, check_name

from ..registry.clauses import Clause, clauses, implemented, marked, marked_files, status_of
from ..registry.texts import CLAUSES, Text, texts
from .deaths import Death, by_name, deaths, fresh
from .planted import Planted, register


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way in which a clause is broken on purpose."""

    name: str
    """Of what is planted."""
    kind: str
    """Of `planted.KINDS`."""
    what: str
    """What it does wrong, in one sentence."""
    where: str
    """Who notices: an oracle, a case or a test."""
    dead: bool
    """Whether it is noticed there, for the clause in question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseCoverage:
    """One clause with all the evidence for it."""

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
    planted: tuple[Way, ...] = ()

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
    planted: Mapping[str, tuple[Way, ...]]

    def by_whom(self) -> dict[str, Iterable[str]]:
        """Who names clauses -> the clauses."""
        return {"code": self.code, "a test": self.tests, "a case": self.cases, "a planted bug": self.planted}


@functools.cache
def named() -> Named:
    """Everything that names clauses, looked for once.

    Raises `InvalidArgument` for a wrong registry or marker, ImportError if the engine cannot be imported.
    """
    from .evidence import cited

    planted = ways(register(), by_name(deaths()))
    return Named(code=implemented(), tests=marked(), cases=cited(), planted=planted)


@functools.cache
def coverages() -> tuple[ClauseCoverage, ...]:
    """All clauses, in the order of the registry. Raises what `named` does."""
    return tuple(_covered(clause, named()) for clause in clauses())


def coverage_of(id_: str) -> ClauseCoverage:
    """The clause called ``id_``, with the evidence for it alone. Raises `InvalidArgument` if there is none."""
    from .evidence import cited

    known, wanted = {each.id: each for each in clauses()}, id_.upper()
    check_name("clause", wanted, known, listed_by="memwal conformance clauses list")
    mine = Named(
        code=implemented(wanted),
        tests=marked(about=wanted),
        cases=cited(about=wanted),
        planted=ways(register(about=wanted), by_name(deaths())),
    )
    return _covered(known[wanted], mine)


def recorded(group: str = "", *, tests_too: bool = True) -> tuple[ClauseCoverage, ...]:
    """All clauses, or those of ``group``, by their markers and the record of deaths: a list waits for nothing else.

    Whether a death is stale is not asked, and neither code nor cases of the suite are looked for. Of a group, no file
    is read that does not name its clauses. ``tests_too``: the tests by name, and not only whether there are any.
    """
    about = f"{group}-" if group else ""
    planted = register(about=about, vectors_too=False)
    tests = marked(about=about) if tests_too else marked_files(about=about)
    broken = ways(planted, by_name(deaths()), lambda _, kept: kept)
    return tuple(
        ClauseCoverage(
            clause=clause,
            status=status_of(clause, tests),
            tests=tests.get(clause.id, ()) if tests_too else (),
            planted=broken.get(clause.id, ()),
        )
        for clause in clauses()
        if group in ("", clause.group)
    )


def _covered(clause: Clause, names: Named) -> ClauseCoverage:
    from .end_to_end import end_to_end

    tests, cases = names.tests.get(clause.id, ()), names.cases.get(clause.id, ())
    return ClauseCoverage(
        clause=clause,
        status=status_of(clause, names.tests),
        code=names.code.get(clause.id, ()),
        tests=tests,
        cases=cases,
        end_to_end=end_to_end(tests, cases),
        planted=names.planted.get(clause.id, ()),
    )


def ways(
    known: Mapping[str, Planted],
    kept: Mapping[str, Sequence[Death]],
    good: Callable[[Planted, Sequence[Death]], Sequence[Death]] = fresh,
) -> dict[str, tuple[Way, ...]]:
    """Clause or note id -> what breaks it on purpose and says so, sorted; ``kept`` as `deaths.by_name` gives it.

    ``good``: which of them count. An invalid vector breaks no implementation, and is none.
    """
    found: dict[str, set[Way]] = {}
    for planted in known.values():
        if planted.kind == "vector":
            continue
        noticed = [
            (death.killer, id_)
            for death in good(planted, kept.get(planted.name, ()))
            for id_ in (planted.clauses if death.clauses is None else {*planted.clauses}.intersection(death.clauses))
            if not death.lives
        ]
        wanted = noticed or [(killer, id_) for killer in planted.killers for id_ in planted.clauses]
        for killer, id_ in wanted:
            one = Way(name=planted.name, kind=planted.kind, what=planted.what, where=killer, dead=bool(noticed))
            found.setdefault(id_, set()).add(one)
    return {
        id_: tuple(sorted(each, key=lambda one: (one.kind, one.name, one.where))) for id_, each in sorted(found.items())
    }


def faults(known: Sequence[ClauseCoverage], names: Mapping[str, Iterable[str]]) -> list[str]:
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
    """Which of the pinned texts ``folder`` does not hold with their digest, and which sections are not in their line.

    Other files in it do not matter. Raises `InvalidArgument` if it is not a folder.
    """
    if not folder.is_dir():
        raise InvalidArgument(f"{folder} is not a folder")
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    there = {hashlib.sha256(data).hexdigest(): data for data in files}
    found = []
    for text in texts(CLAUSES) if pinned is None else pinned:
        if text.sha256 not in there:
            found.append(f"{text.name}: no file in {folder} has its digest {text.sha256[:12]}…")
            continue
        lines = there[text.sha256].decode("utf-8").split("\n")
        for section, number in text.lines.items():
            heading = lines[number - 1].lstrip("# ") if number <= len(lines) else ""
            if heading.partition(":")[0] != section:
                found.append(f"{text.name}: line {number} is no heading {section!r}")
    return found
