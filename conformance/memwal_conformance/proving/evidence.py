"""Which cases of the suite look at which clause: vectors, scenarios and structural checks."""

from __future__ import annotations

import json
from pathlib import Path

from .. import vectors
from ..judge.structure import CHECKS
from ..places import SUITE, scenario_files, vector_files
from ..running import including, scenarios


def cited(suite: Path = SUITE, about: str = "") -> dict[str, tuple[str, ...]]:
    """Clause -> what looks at it, sorted.

    A vector or scenario is named by its path below ``suite``, a structural check as ``check: <name>``. ``about``: only
    files that name this clause are read. Raises `BadCase` for a case that the suite cannot use.
    """
    found: dict[str, set[str]] = {}
    words = [about, *(f'"{name}"' for name, steps in including.known().items() if about in json.dumps(steps))]
    for file in (each for each in vector_files(suite) if about in each.read_text("utf-8")):
        for clause in vectors.load(file).clauses:
            found.setdefault(clause, set()).add(file.parent.relative_to(suite).as_posix())
    for file in (each for each in scenario_files(suite) if any(map(each.read_text("utf-8").__contains__, words))):
        scenario = scenarios.load(file)
        for clause in {c for revision in scenario.revisions for c in scenario.cited(revision)}:
            found.setdefault(clause, set()).add(file.relative_to(suite).as_posix())
    for check in CHECKS:
        for clause in {c for clauses in check.clauses.values() for c in clauses}:
            found.setdefault(clause, set()).add(f"check: {check.name}")
    return {clause: tuple(sorted(names)) for clause, names in sorted(found.items())}
