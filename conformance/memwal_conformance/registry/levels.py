"""How much a clause weighs under a revision, and the notes that limit it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from .clauses import Ambiguity, ambiguities
from .clauses import clauses as registry

PROMISED = ("AMB-148", "AMB-149")
"""Notes about what no text speaks of: claiming the capabilities ``sequence.*`` and ``task.*`` promises as much."""


def levels_of(revision: str) -> dict[str, str]:
    """Level of each clause under a revision. What the texts of the revision do not say is MAY.

    The table documents (T) hold under all; revision R is held to what A or B says, in its own reading.
    """
    spoken = {"0": {"0", "T"}, "A": {"A", "T"}, "B": {"B", "T"}, "R": {"A", "B", "T"}}[revision]
    return {c.id: c.level if spoken & set(c.revisions) else "MAY" for c in registry()} | dict.fromkeys(PROMISED, "MUST")


def words(note: str) -> str:
    """A note of SPEC_NOTES.md by its id, such as ``AMB-07``, with what it is about and how the suite reads it."""
    found = _notes()[note]
    return f"{note} ({found.title}): {found.resolution}"


def notes_of(cited: Iterable[str]) -> list[str]:
    """Ids of the notes that limit some clauses, in order."""
    limits = _limits()
    return sorted({note for clause in cited for note in limits[clause]}, key=lambda note: _notes()[note].number)


@cache
def _notes() -> dict[str, Ambiguity]:
    return {note.id: note for note in ambiguities()}


@cache
def _limits() -> dict[str, tuple[str, ...]]:
    return {clause.id: clause.ambiguities for clause in registry()} | {note: (note,) for note in PROMISED}
