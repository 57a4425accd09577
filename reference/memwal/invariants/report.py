"""What one run of all invariants found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..ids import TableVersion
from ..violations import Violation
from ..words import counted, grid

FINDINGS_MAX = 100
"""Findings of one invariant that are kept; the rest is counted."""


def looked(at: Iterable[tuple[str, int]]) -> str:
    """How many things of each kind were looked at, in words."""
    return ", ".join(counted(number, "WAL entry" if kind == "WAL entries" else kind[:-1], kind) for kind, number in at)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """What `verify` found. ``findings`` empty: every invariant that was looked at holds."""

    revision: str | None
    """Revision under which the regions were read; None if it is not known."""
    version: TableVersion | None
    """Newest table version that can be read; None if there is none."""
    mem_wal: bool
    """Whether that version has MemWAL enabled."""
    fast: bool
    """Whether rows were left out."""
    findings: tuple[Violation, ...]
    """Errors first; at most `FINDINGS_MAX` of each invariant. Paths are relative to the table where they lie in it."""
    suppressed: tuple[tuple[str, int], ...]
    """Invariants of which more was found than is kept, and how many more."""
    looked_at: tuple[tuple[str, int], ...]
    """How many things of each kind were looked at: what there was none of proves nothing."""
    notes: tuple[str, ...]
    """What could not be checked, and why."""
    moved: bool = False
    """Whether the table kept changing while it was looked at, so that findings may come from two moments."""

    unlooked: tuple[tuple[str, str], ...] = ()
    """What could not be looked at, a region or the base table, and with what that failed; `memwal.verify` raises it."""

    def __repr__(self) -> str:
        looked_at = looked(self.looked_at)
        found = "clean" if self.clean else counted(len(self.findings), "finding")
        rows = [(one.severity, one.path, f"{one.reason} [{one.oracle}, {one.clause}]") for one in self.findings]
        lines = [f"{found}; revision {self.revision or 'unknown'}, looked at {looked_at or 'nothing'}"]
        lines += [grid(("severity", "path", "what"), rows)] if rows else []
        lines += [f"… and {more:,} more of {name}" for name, more in self.suppressed]
        lines += [f"not looked at: {what}: {error}" for what, error in self.unlooked]
        return "\n".join([*lines, *(f"not checked: {note}" for note in self.notes)])

    @property
    def clean(self) -> bool:
        """Whether everything was looked at, and nothing was found."""
        return not self.findings and not self.unlooked


@dataclass(slots=True)
class FindingsLedger:
    """Findings and counts while they are collected."""

    findings: list[Violation] = field(default_factory=list)
    suppressed: Counter[str] = field(default_factory=Counter)
    looked_at: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    kept: Counter[str] = field(default_factory=Counter)
    more_notes: int = 0

    def add(self, found: Iterable[Violation]) -> None:
        """Keep ``found``, each once, up to the limit per invariant."""
        for one in found:
            if one in self.findings:
                continue
            if self.kept[one.oracle] == FINDINGS_MAX:
                self.suppressed[one.oracle] += 1
                continue
            self.kept[one.oracle] += 1
            self.findings.append(one)

    def note(self, text: str) -> None:
        """Say once that something was not checked, up to the limit."""
        if len(self.notes) < FINDINGS_MAX and text not in self.notes:
            self.notes.append(text)
        elif text not in self.notes:
            self.more_notes += 1

    def take(self, other: FindingsLedger) -> None:
        """Add what ``other`` has, as if it had been found here."""
        self.add(other.findings)
        self.suppressed.update(other.suppressed)
        self.looked_at.update(other.looked_at)
        for text in other.notes:
            self.note(text)
        self.more_notes += other.more_notes

    def all_notes(self) -> list[str]:
        """The notes, and how many there are beyond the limit."""
        return [*self.notes, f"and {self.more_notes} more"] if self.more_notes else self.notes
