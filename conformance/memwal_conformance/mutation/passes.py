"""A pass of random mutants (`chances`): which of them the tests notice, and which survive.

A mutant is *noticed* when a test that passes without it fails with it, also one that stumbles (`trials.STUMBLES`) or
has no end. It *survived* when all of the tests that look at it (`watching`) pass, or as many as there was time for.
What is seen is kept in a file, so that a pass can be ended and carried on; a survivor is tried again each time, since
tests change.

A survivor that cannot be noticed is explained in ``conformance/mutants/explained.toml``: file, old and new text, and
why nobody can tell. An explanation whose old text is gone is stale, and the pass says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from memwal.errors import InvalidArgument

from ..registry.clauses import ROOT, entries
from .chances import Chance
from .mutants import Change
from .trials import Ran, changed, copy_of_the_checkout, run
from .watching import watchers

TEST_S = 60
"""A single test that takes longer with a mutant has no end."""
RUN_S = 240.0
"""All tests of one mutant."""
EXPLAINED = Path("conformance/mutants/explained.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What became of one random mutant."""

    name: str
    digest: str
    verdict: str
    """``killed``, ``stumbled``, ``endless``, or ``survived``."""
    test: str
    """The test that noticed; empty for a survivor."""
    message: str
    seconds: float
    files: int
    """Test files that were to be run."""
    whole: bool
    """Whether they all came to their end, or one failed."""
    diff: str

    @property
    def noticed(self) -> bool:
        """Whether a test failed."""
        return self.verdict != "survived"


def kept(file: Path) -> dict[str, Seen]:
    """Digest -> what an earlier pass saw. Raises `InvalidArgument` for a file that is none of ours."""
    if not file.is_file():
        return {}
    try:
        return {each["digest"]: Seen(**each) for each in json.loads(file.read_text("utf-8"))["mutants"]}
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidArgument(f"{file}: not what a pass of mutants keeps: {error}") from error


def keep(file: Path, seen: Sequence[Seen]) -> None:
    """Write what was seen; the folder is made if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"mutants": [asdict(each) for each in seen]}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", "utf-8")


def tried(
    chosen: Sequence[Chance], known: dict[str, Seen], *, minutes: float, run_s: float = RUN_S, root: Path = ROOT
) -> Iterator[Seen]:
    """What becomes of each mutant, one after another, until the time is over; at once for ``known`` ones that died."""
    until, passing = time.monotonic() + minutes * 60, dict[str, Ran]()
    with copy_of_the_checkout(root) as copy:
        for chance in chosen:
            if (before := known.get(chance.digest(root))) is not None and before.noticed:
                yield before
            elif time.monotonic() < until:
                yield _one(chance, copy, passing, run_s)


def _one(chance: Chance, copy: Path, passing: dict[str, Ran], run_s: float) -> Seen:
    files = watchers(chance.change.file, chance.inside, copy)
    digest, limit = chance.digest(copy), f"--time-limit={TEST_S}"
    with changed(chance.change, copy):
        ran = run(copy, files, run_s, "-m", "not long", limit)
    if ran.verdict in ("killed", "broken"):
        again = [ran.test] if ran.test else files  # none is named where pytest itself ended
        if (key := " ".join(again)) not in passing:
            passing[key] = run(copy, again, run_s, "-m", "not long", limit)
        if passing[key].verdict in ("killed", "broken"):
            raise InvalidArgument(f"{passing[key].test or key}: fails without a mutant, too: {passing[key].message}")
    verdict = _verdict(ran)
    return Seen(
        name=chance.name,
        digest=digest,
        verdict=verdict,
        test=ran.test,
        message=ran.message,
        seconds=round(ran.seconds, 1),
        files=len(files),
        whole=ran.verdict != "too long",
        diff=diff(chance.change),
    )


def _verdict(ran: Ran) -> str:
    """A run that was cut off has noticed nothing; a test that was has."""
    if ran.verdict in ("survived", "too long"):
        return "survived"
    return "endless" if "TimeLimitError" in ran.message else "stumbled" if ran.verdict == "broken" else "killed"


def diff(change: Change) -> str:
    """The lines that go and the lines that come."""
    old, new = change.old.splitlines(), change.new.splitlines()
    while len(old) > 1 and len(new) > 1 and old[0] == new[0]:
        del old[0], new[0]
    return "\n".join([*(f"-{line}" for line in old), *(f"+{line}" for line in new)])


def explained(root: Path = ROOT) -> dict[tuple[str, str], str]:
    """File and diff of each survivor that nobody can notice -> why.

    Raises `InvalidArgument` for one whose old lines are no longer in the file.
    """
    found = {}
    path = root / EXPLAINED
    for entry in entries(path, "survivor", "file") if path.is_file() else ():
        file, old, new, why = (entry.text(name) for name in ("file", "old", "new", "why"))
        entry.done()
        change = Change(file=file, old=old, new=new)
        if old not in (root / file).read_text("utf-8"):
            raise entry.wrong(f"{file} no longer has the old lines")
        found[file, diff(change)] = why
    return found
