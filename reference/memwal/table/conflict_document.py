"""The conflict table for people, as Markdown: what docs/transactions.md prints."""

from __future__ import annotations

from .conflict_table import CELLS, Cell, ConflictVerdict
from .transactions import OPERATIONS

BEGIN, END = "<!-- conflict table: begin -->", "<!-- conflict table: end -->"

_MARKS = {ConflictVerdict.REBASE: "=", ConflictVerdict.RETRY: "R", ConflictVerdict.FAIL: "X"}
_WORDS = {
    "TXN-052": "conflicts by row",
    "TXN-056": "two deletes of one fragment",
    "TXN-058": "an update beside a compaction",
    "TXN-059": "a delete beside a restore",
    "AMB-123": "two deletes of one row",
}
"""What the clauses and notes that reasons name are about."""


def section() -> str:
    """The generated part of the page, from `BEGIN` to `END`."""
    return "\n\n".join([BEGIN, _overview(), *map(_row, OPERATIONS), END])


def _overview() -> str:
    numbers = range(1, len(OPERATIONS) + 1)
    lines = [f"| ours \\ committed | {' | '.join(map(str, numbers))} |", f"| --- |{' --- |' * len(OPERATIONS)}"]
    for number, ours in zip(numbers, OPERATIONS, strict=True):
        marks = " | ".join(_mark(CELLS[ours, theirs]) for theirs in OPERATIONS)
        lines.append(f"| {number} {_title(ours)} | {marks} |")
    return "\n".join(lines)


def _mark(cell: Cell) -> str:
    return f"({_MARKS[cell.verdict]})" if cell.when else _MARKS[cell.verdict]


def _row(ours: str) -> str:
    head = ["| committed meanwhile | ours is | source | because |", "| --- | --- | --- | --- |"]
    lines = [f"### {_title(ours)}", "", *head]
    for theirs in OPERATIONS:
        cell = CELLS[ours, theirs]
        lines.append(f"| {_title(theirs)} | {cell.words} | {cell.basis.value} | {_told(cell.reason)} |")
    return "\n".join(lines)


def _title(operation: str) -> str:
    return "".join(part.capitalize() for part in operation.split("_"))


def _told(reason: str) -> str:
    """``reason``, with words beside each id in brackets."""
    words, _, ids = reason.partition(" (")
    return f"{words} ({'; '.join(f'{each}, {_WORDS[each]}' for each in ids[:-1].split(', '))})" if ids else reason
