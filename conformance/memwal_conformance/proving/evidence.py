"""Which cases of the suite look at which clause: vectors, scenarios and structural checks."""

from __future__ import annotations

from pathlib import Path

from .. import vectors
from ..judge.structure import CHECKS
from ..places import SUITE, scenario_files, vector_files
from ..running import scenarios


def cited(suite: Path = SUITE) -> dict[str, tuple[str, ...]]:
    """Clause -> what looks at it, sorted.

    A vector or scenario is named by its path below ``suite``, a structural check as ``check: <name>``. Raises
    `BadCase` for a case that the suite cannot use.
    """
    found: dict[str, set[str]] = {}
    for file in vector_files(suite):
        for clause in vectors.load(file).clauses:
            found.setdefault(clause, set()).add(file.parent.relative_to(suite).as_posix())
    for file in scenario_files(suite):
        scenario = scenarios.load(file)
        for clause in {c for revision in scenario.revisions for c in scenario.cited(revision)}:
            found.setdefault(clause, set()).add(file.relative_to(suite).as_posix())
    for check in CHECKS:
        for clause in {c for clauses in check.clauses.values() for c in clauses}:
            found.setdefault(clause, set()).add(f"check: {check.name}")
    return {clause: tuple(sorted(names)) for clause, names in sorted(found.items())}
