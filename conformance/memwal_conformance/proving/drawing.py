"""Bugs and mutants of the engine, drawn by lot and unnamed, behind the door that any implementation comes through.

The suite is told nothing of what is planted. It has found a bug where a case fails, and found it for the right clause
where that case names one that the bug is written down for.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from memwal.errors import InvalidArgument
from memwal.words import counted

from . import broken_survey
from .mutants import Mutant
from .planted import Planted, choose, register

ENGINE = "reference/memwal/"
"""Where the changes of the mutants that are drawn are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What the suite said of one of them."""

    planted: Planted
    cases: broken_survey.Cases

    @property
    def right(self) -> tuple[str, ...]:
        """Clauses that it breaks and a failing case names."""
        named = {clause for clauses in self.cases.values() for clause in clauses}
        return tuple(clause for clause in self.planted.clauses if clause in named)

    def said(self) -> str:
        """What is known without looking what was planted."""
        if not self.cases:
            return "nothing fails"
        first, clauses = next(iter(self.cases.items()))
        return f"fails in {counted(len(self.cases), 'case')}, the first is {first}: {', '.join(clauses) or 'a crash'}"

    def unveiled(self) -> str:
        """What it was, and whether it was found for what it is."""
        each = self.planted
        about = f"{each.name}, which breaks {', '.join(each.clauses)}: {each.what}"
        if not self.cases:
            return f"{about} Not shown: {each.unseen or 'the reason is not known'}"
        return f"{about} Shown for {', '.join(self.right) or 'other clauses only'}"


def pool(kind: str) -> list[Planted]:
    """What can be drawn: the bugs, or the mutants that change the engine. Raises `InvalidArgument` for another kind."""
    if kind not in ("bug", "mutant"):
        raise InvalidArgument(f"{kind} is neither bug nor mutant")
    known = choose((), register(), [kind])
    return [each for each in known if not isinstance(each.thing, Mutant) or each.thing.file.startswith(ENGINE)]


def drawn(planted: Sequence[Planted], seed: str, count: int) -> list[Planted]:
    """``count`` of the ``planted``; the same ones for the same seed. Raises `InvalidArgument` if there are fewer."""
    if count > len(planted):
        raise InvalidArgument(f"there are {len(planted)} to draw from, and {count} are to be drawn")
    return random.Random(seed).sample(sorted(planted, key=lambda each: each.name), count)


def shown(planted: Planted) -> Drawn:
    """Ask all cases that are not at the gate; about a minute for a bug, and three for a mutant."""
    if isinstance(planted.thing, Mutant):
        return Drawn(planted=planted, cases=broken_survey.survey_changed(planted.thing))
    return Drawn(planted=planted, cases=broken_survey.survey(planted))
