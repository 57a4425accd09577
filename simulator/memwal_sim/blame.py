"""The clause that a run breaks where it is no history of the abstract machine."""

from __future__ import annotations

from collections.abc import Sequence

from memwal_model.following import Stopped
from memwal_model.states import Step

CLAUSES = {
    "claim": "FENCE-005",
    "read_manifest": "FENCE-005",
    "carry_out": "FENCE-017",
    "open_without_barrier": "FENCE-017",
    "acknowledge": "WAL-001",
    "flush": "MANIFEST-009",
    "list_generation": "FENCE-009",
    "raise_hint": "MANIFEST-011",
    "delete_entry": "GC-007",
    "doom": "GC-001",
    "unlist": "GC-001",
    "delete_files": "GC-010",
    "prepare_merge": "MERGE-001",
    "merge": "MERGE-006",
    "catch_up": "CATCHUP-001",
    "restore": "TXN-002",
    "commit_snapshot": "TXN-002",
    "expire": "TXN-001",
}
"""Nearest step -> the clause that is broken where it cannot happen."""
LEFT = {
    "epoch": "FENCE-005",
    "pointer": "MANIFEST-009",
    "current": "GEN-003",
    "files": "FLUSH-013",
    "version": "MANIFEST-020",
}
"""Field that is another one than the nearest step leaves -> the clause that is broken, whatever the step."""
ASKED = {"caught_up": "CATCHUP-013"}
"""Field that the nearest step cannot happen for -> the clause that is broken."""
LAGS = {"A": "MANIFEST-008", "B": "MANIFEST-038", "R": "MANIFEST-008"}
"""What a flush breaks whose pointer stays before the entries that it covers: nothing at or below it is lost."""
ANY_CHANGE = "MANIFEST-020"
"""The clause where no step is near."""


def blamed(stopped: Stopped, revision: str) -> str:
    """The clause that is broken where a run breaks off."""
    if stopped.left in LEFT:
        return LEFT[stopped.left]
    if asked := sorted(stopped.asked & ASKED.keys()):
        return ASKED[asked[0]]
    name, given = stopped.nearest or ("", ())
    if name == "flush" and given[2] < given[1]:
        return LAGS[revision]
    return CLAUSES.get(name, ANY_CHANGE)


def without(steps: Sequence[Step], strictly: Stopped | None) -> str:
    """The clause of steps that need another reading; ``strictly``: how the run breaks off with all readings."""
    asked = sorted(strictly.asked & ASKED.keys()) if strictly is not None else ()
    if asked:
        return ASKED[asked[0]]
    return next((CLAUSES[name] for name, _ in steps if name in CLAUSES), ANY_CHANGE)
