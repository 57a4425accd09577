"""What a committed transaction means for one that was prepared on an earlier version.

Source: table documents, "Conflict Resolution"; AMB-86, 122.
"""

from __future__ import annotations

from ..clauses import implements
from .conflict_table import CELLS, ConflictVerdict
from .transactions import Transaction, operation

__all__ = ["ConflictVerdict", "verdict"]


@implements("TXN-012", "TXN-015", "TXN-016", "TXN-017", "TXN-047", "TXN-048", "TXN-049", "TXN-055", "AMB-86", "AMB-122")
def verdict(ours: Transaction, theirs: Transaction | None) -> tuple[ConflictVerdict, str]:
    """What the committed ``theirs`` means for ``ours``, and why; None: its transaction cannot be read."""
    if theirs is None:
        return ConflictVerdict.FAIL, "the committed version names no transaction that can be read"
    if not operation(theirs):
        return ConflictVerdict.FAIL, "the committed operation is not known"
    cell = CELLS[operation(ours), operation(theirs)]
    return cell.decide(ours, theirs), cell.reason
