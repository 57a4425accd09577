"""A pass of random mutants (`chances`): which of them the tests notice, and which survive.

A mutant is *noticed* when a test that passes without it fails with it, also one that stumbles (`trials.STUMBLES`) or
has no end. It *survived* when all of the tests that look at it (`watching`) pass, or as many as its budget allows.
What is seen is kept in a file, so that a pass can be ended and carried on; a survivor is tried again each time, since
tests change. A pass ends with the tests that noticed, run once more without a mutant.

A survivor that cannot be noticed is explained in ``conformance/mutants/explained.toml``: file, old and new text, and
why no test can tell. Its old text is found as that of a mutant is (`anchors`); once it is gone, the pass says so.
"""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from memwal.errors import InvalidArgument
from memwal_sim import parallel
from memwal_sim.parallel import ALONE, Workers

from ..registry.clauses import ROOT
from ..registry.texts import entries
from .chances import Chance
from .mutants import SourceChange
from .trials import Ran, Trying, changed, copy_of_the_checkout, run, warm
from .watching import WITHOUT_LONG, TestsByBlock

BUDGET_S = 60.0
"""Of CPU, for the tests of one mutant, as long as they took when they were recorded."""
SLOWER = 20
"""A run that takes so many times as long, by the clock, is cut off."""
EXPLAINED = Path("conformance/mutants/explained.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedMutant:
    """What became of one random mutant."""

    name: str
    digest: str
    verdict: str
    """``killed``, ``stumbled``, ``endless``, or ``survived``."""
    test: str
    """The test that noticed; empty for a survivor."""
    message: str
    seconds: float
    tests: int
    """That were to be run."""
    whole: bool
    """Whether these are all that look at it, and they came to their end or one failed."""
    diff: str

    @property
    def noticed(self) -> bool:
        """Whether a test failed."""
        return self.verdict != "survived"


def kept(file: Path) -> dict[str, TriedMutant]:
    """Digest -> what an earlier pass saw. Raises `InvalidArgument` for a file that is none of ours."""
    if not file.is_file():
        return {}
    try:
        return {each["digest"]: TriedMutant(**each) for each in json.loads(file.read_text("utf-8"))["mutants"]}
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidArgument(f"{file}: not what a pass of mutants keeps: {error}") from error


def keep(file: Path, seen: Sequence[TriedMutant]) -> None:
    """Write what was seen; the folder is made if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"mutants": [asdict(each) for each in seen]}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", "utf-8")


def tried(
    chosen: Sequence[Chance],
    known: dict[str, TriedMutant],
    table: TestsByBlock,
    *,
    minutes: float,
    budget_s: float = BUDGET_S,
    root: Path = ROOT,
    workers: Workers = ALONE,
) -> Iterator[TriedMutant]:
    """What becomes of each mutant, until the time is over; first of all of ``known`` ones that died.

    Raises `InvalidArgument` at the end if a test that noticed one fails without any, too.
    """
    until, noticing, left = time.time() + minutes * 60, set[str](), list[_DueMutant]()
    for chance in chosen:
        before = known.get(chance.digest(root))
        if before is not None and before.noticed and before.test in table.seconds:
            noticing.add(before.test)
            yield before
        else:
            tests, whole = table.watchers(chance.change.file, chance.block, budget_s)
            called = bool(table.entered(chance.change.file, chance.block))
            left.append(_DueMutant(chance, tuple(tests), whole, called))
    work = partial(_of_share, root=root, until=until, max_s=SLOWER * budget_s)
    for found in parallel.in_shares(work, left, workers) if minutes > 0 else ():
        noticing |= {found.test} - {""}
        yield found
    if not noticing:
        return
    with copy_of_the_checkout(root) as copy:
        again = run(copy, sorted(noticing), SLOWER * budget_s, *WITHOUT_LONG)
    if again.verdict != "survived":
        raise InvalidArgument(f"{again.test or 'pytest'}: fails without a mutant, too: {again.message}")


@dataclass(frozen=True, slots=True)
class _DueMutant:
    """A mutant that is to be tried, and who looks at it."""

    chance: Chance
    tests: tuple[str, ...]
    whole: bool
    """Whether these are all."""
    called: bool
    """Whether it is in what is called, and not in what an import runs."""


def _of_share(share: Sequence[_DueMutant], root: Path, until: float, max_s: float) -> Iterator[TriedMutant]:
    """What becomes of each, one after another, in one copy of the checkout, until the clock says ``until``."""
    files = {test.partition("::")[0] for each in share for test in each.tests}
    with copy_of_the_checkout(root) as copy, warm(copy, sorted(files), *WITHOUT_LONG) as trying:
        for each in share:
            if time.time() >= until:
                break
            ran = _ran(each.chance, copy, each.tests, trying if each.called else None, max_s)
            yield _seen(each.chance, copy, each.tests, ran, whole=each.whole)


def _ran(chance: Chance, copy: Path, tests: Sequence[str], trying: Trying | None, max_s: float) -> Ran:
    """In a process of its own where ``trying``, or its warm process, cannot do it: what an import runs has been run."""
    if not tests:
        return Ran(verdict="survived", message="", seconds=0.0)
    ran = None if trying is None else trying(chance.change, tests, max_s)
    if ran is None:
        with changed(chance.change, copy):
            ran = run(copy, tests, max_s, *WITHOUT_LONG)
    return ran


def _seen(chance: Chance, copy: Path, tests: Sequence[str], ran: Ran, *, whole: bool) -> TriedMutant:
    verdict = _verdict(ran)
    return TriedMutant(
        name=chance.name,
        digest=chance.digest(copy),
        verdict=verdict,
        test=ran.test or ("" if verdict == "survived" else tests[0]),
        message=ran.message,
        seconds=round(ran.seconds, 1),
        tests=len(tests),
        whole=verdict != "survived" or (whole and ran.verdict == "survived"),
        diff=diff(chance.change),
    )


def _verdict(ran: Ran) -> str:
    """A run that was cut off has noticed nothing; a test that was has."""
    if ran.verdict in ("survived", "too long"):
        return "survived"
    return "endless" if "TimeLimitError" in ran.message else "stumbled" if ran.verdict == "broken" else "killed"


def diff(change: SourceChange) -> str:
    """The lines that go and the lines that come."""
    old, new = change.old.splitlines(), change.new.splitlines()
    while len(old) > 1 and len(new) > 1 and old[0] == new[0]:
        del old[0], new[0]
    return "\n".join([*(f"-{line}" for line in old), *(f"+{line}" for line in new)])


def explained(root: Path = ROOT) -> dict[tuple[str, str], str]:
    """What each survivor that no test can notice makes of its source (`made`) -> why none can.

    Raises `InvalidArgument` for one whose old text is not in the file exactly once.
    """
    found = {}
    path = root / EXPLAINED
    for entry in entries(path, "survivor", "file") if path.is_file() else ():
        file, old, new, why = (entry.exact(name) for name in ("file", "old", "new", "why"))
        entry.close()
        try:
            found[made(SourceChange(file=file, old=old, new=new), root)] = why
        except InvalidArgument as error:
            raise entry.wrong(str(error)) from error
    return found


def made(change: SourceChange, root: Path = ROOT) -> tuple[str, str]:
    """The file, and what the changed source says whatever its comments, line breaks and brackets."""
    return change.file, ast.dump(ast.parse(change.applied(root)))
