"""What is said when something that must hold does not: of a store, of a history of clients, of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]
"""``error``: rows are lost, hidden, wrong or unreadable, or will be. ``warning``: the texts are not followed, or a
trace of something is gone that no row depends on."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must hold does not, with its counterexample."""

    clause: str
    """Requirement or ambiguity that is broken, such as ``WAL-001``."""
    oracle: str
    """Name of the oracle that says so, such as an invariant; empty until one has said it."""
    reason: str
    """One sentence for people."""
    counterexample: tuple[tuple[str, str], ...] = ()
    """What shows it: names and values."""
    path: str = ""
    """Object or folder that is damaged, missing, or contradicts another one."""
    offset: int | None = None
    """Byte of the object where it goes wrong, where that is known."""
    severity: Severity = "error"

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """Where it is, and the counterexample."""
        where = (("path", self.path),) if self.path else ()
        at = () if self.offset is None else (("byte", str(self.offset)),)
        return (*where, *at, *self.counterexample)

    def as_json(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "clause": self.clause,
            "oracle": self.oracle,
            "reason": self.reason,
            "counterexample": dict(self.shown),
        }

    def __str__(self) -> str:
        shown = "".join(f"\n  {name}: {value}" for name, value in self.shown)
        return f"{self.reason} [{self.clause}, {self.oracle}]{shown}"


def objection(path: str, reason: str, clause: str = "", offset: int | None = None) -> Violation:
    """What is wrong with the object ``path``, before an oracle says so under its name."""
    return Violation(clause, "", reason, path=path, offset=offset)
