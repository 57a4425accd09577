"""A vector as it lies on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memwal.words import reason

from memwal_conformance import protocol
from memwal_conformance.protocol import Json

REVISIONS = ("0", *protocol.REVISIONS)
"""Folders of vectors. Revision 0 has index details only, so it is not a revision that an adapter is configured with."""


class BadCase(Exception):
    """A case on disk that the suite itself cannot use; the text names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One artifact vector; see ``schema/case.json``."""

    folder: Path
    revision: str
    kind: str
    area: str
    """Name of the folder between revision and case: the kind, or ``invalid``."""
    name: str
    title: str
    directions: tuple[str, ...]
    clauses: tuple[str, ...]
    ambiguity: str | None
    """The note that leaves the answer open."""
    outcomes: tuple[Json, ...]
    """The other answers that it explains, each as ``expected`` and ``compare`` in place of the vector's own."""
    compare: str
    chosen: str | None
    """What revision R chose here against the texts of A and B, and the note about it: a right answer is OBSERVED."""
    expected: Any


def load(file: Path) -> Vector:
    """The vector whose ``case.json`` is ``file``. Raises `BadCase`."""
    folder = file.parent
    try:
        case = json.loads(file.read_text("utf-8"))
        expected = json.loads((folder / "expected.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadCase(f"{file}: {reason(error)}") from error
    wrong = protocol.problem("urn:memwal:case#/$defs/case", case)
    if wrong is not None:
        raise BadCase(f"{file}: {wrong}")
    revision = folder.parent.parent.name
    if revision not in REVISIONS:
        raise BadCase(f"{file}: not below a folder named after a revision")
    return Vector(
        folder=folder,
        revision=revision,
        kind=case["kind"],
        area=folder.parent.name,
        name=folder.name,
        title=case["title"],
        directions=tuple(case["directions"]),
        clauses=tuple(case["clauses"]),
        ambiguity=case.get("ambiguity"),
        outcomes=tuple(case.get("outcomes", ())),
        compare=case.get("compare", "equal"),
        chosen=case.get("chosen"),
        expected=expected,
    )
