"""Which evidence for a clause is end to end, and which looks at inner functions.

A test is *end to end* when it goes through the public interface only: what it and its helpers use of the engine are
names of ``memwal`` itself, or commands. A scenario of the suite is, too: it knows an engine by its adapter only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import memwal

from ..registry.clauses import ROOT
from .footing import footing

INTERFACE = (*(f"memwal.{name}" for name in memwal.__all__), "memwal.api", "memwal.cli")
"""What of the engine a user calls."""
VALUES = ("memwal.errors", "memwal.ids", "memwal.revisions")
"""What of the engine a user gets, hands over and compares."""


def end_to_end(tests: Iterable[str], cases: Iterable[str], root: Path = ROOT) -> tuple[str, ...]:
    """Those of ``tests`` and ``cases`` that see the engine as its users do."""
    found = [test for test in tests if through_the_interface(root, test)]
    return (*found, *(case for case in cases if case.startswith("scenarios/")))


def through_the_interface(root: Path, test: str) -> bool:
    """Whether ``test``, with its helpers, calls the public interface or a command, and nothing else of our packages."""
    stands_on = footing(root, test)
    called = {use for use in stands_on.uses if _below(use, INTERFACE)}
    commanded = any("subprocess" in source and "memwal" in source for source in stands_on.sources)
    return bool(called or commanded) and all(use in called or _below(use, VALUES) for use in stands_on.uses)


def _below(name: str, known: Iterable[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in known)
