"""A vector as data, and its files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One vector. ``files`` are the contents of ``input/`` by name."""

    revision: str
    folder: str
    """Kind folder: the kind itself, or ``invalid``."""
    name: str
    title: str
    kind: str
    directions: tuple[str, ...]
    clauses: tuple[str, ...]
    derived: str
    files: dict[str, bytes]
    expected: Any
    ambiguity: str | None = None
    outcomes: tuple[dict[str, Any], ...] = ()
    """The other answers that the note explains."""
    compare: str | None = None
    chosen: str | None = None
    """What revision R chose here against the texts of A and B."""
    stable: bool = field(default=True)
    """Whether another version of the libraries writes the same bytes (Lance files are compared by content only)."""

    @property
    def path(self) -> str:
        return f"{self.revision}/{self.folder}/{self.name}"

    def contents(self) -> dict[str, bytes]:
        """All files of the case, by name below its folder."""
        described: dict[str, Any] = {
            "title": self.title,
            "kind": self.kind,
            "directions": list(self.directions),
            "clauses": list(self.clauses),
        }
        if self.ambiguity is not None:
            described["ambiguity"] = self.ambiguity
            described["outcomes"] = list(self.outcomes)
        if self.compare is not None:
            described["compare"] = self.compare
        if self.chosen is not None:
            described["chosen"] = self.chosen
        described["derived"] = self.derived
        return {
            "case.json": pretty(described),
            "expected.json": pretty(self.expected),
            **{f"input/{name}": data for name, data in self.files.items()},
        }


def pretty(value: Any) -> bytes:
    """JSON with one item per line for a list, and one member per line for an object."""
    if isinstance(value, list):
        lines = ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in value)
        return f"[\n{lines}\n]\n".encode()
    members = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items())
    return f"{{\n{members}\n}}\n".encode()


def questions(asked: list[dict[str, Any]]) -> dict[str, bytes]:
    """The input of an eval case."""
    return {"questions.json": pretty(asked)}
