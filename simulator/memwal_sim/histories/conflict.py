"""Why no object can have done what a history says: the operations that contradict each other, and a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.violations import Violation

from .operations import Operation

ORACLE = "operations have an order"
"""Name of the oracle in the violations that conflicts become."""
OF_ONE_READ = ("unwritten", "refused", "early")
"""Kinds of conflict between a read and the write of its value."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A counterexample."""

    kind: str
    """``unwritten``, ``refused``, ``early``: one read and its value. ``overlapping``, ``inside``: two values and when
    the register had to hold them. ``unordered``: a search found no order."""
    reason: str
    """One sentence for people."""
    operations: tuple[Operation, ...]
    """Operations that are a conflict by themselves, in which none can be left out: what remained would be possible, or
    a read would find what was never written."""

    def violation(self, clause: str, oracle: str = ORACLE) -> Violation:
        """As the verdict of an oracle that proves ``clause``."""
        shown = tuple((f"operation {number}", _told(each)) for number, each in enumerate(self.operations, 1))
        return Violation(clause, oracle, self.reason, shown)


def _told(operation: Operation) -> str:
    end = "never" if operation.returned is None else operation.returned
    return f"{operation}, invoked {operation.invoked}, returned {end}, {operation.outcome}"
