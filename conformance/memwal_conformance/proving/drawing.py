"""Bugs of the engine, drawn by lot and unnamed, behind the door that any implementation comes through.

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
from .planted import Planted


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What the suite said of one bug."""

    planted: Planted
    cases: broken_survey.Cases

    @property
    def right(self) -> tuple[str, ...]:
        """Clauses of the bug that a failing case names."""
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


def drawn(bugs: Sequence[Planted], seed: str, count: int) -> list[Planted]:
    """``count`` of the bugs; the same ones for the same seed. Raises `InvalidArgument` if there are fewer."""
    if count > len(bugs):
        raise InvalidArgument(f"there are {len(bugs)} bugs, and {count} are to be drawn")
    return random.Random(seed).sample(sorted(bugs, key=lambda each: each.name), count)


def shown(planted: Planted) -> Drawn:
    """Ask all cases that are not at the gate; about a minute."""
    return Drawn(planted=planted, cases=broken_survey.survey(planted))
