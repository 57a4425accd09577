"""How much a clause weighs under a revision."""

from __future__ import annotations

from .clauses import clauses as registry


def levels_of(revision: str) -> dict[str, str]:
    """Level of each clause under a revision. What the texts of the revision do not say is MAY.

    The table documents (T) hold under all; revision R is held to what A or B says, in its own reading.
    """
    spoken = {"0": {"0", "T"}, "A": {"A", "T"}, "B": {"B", "T"}, "R": {"A", "B", "T"}}[revision]
    return {c.id: c.level if spoken & set(c.revisions) else "MAY" for c in registry()}
