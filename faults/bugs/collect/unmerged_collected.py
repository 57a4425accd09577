"""A generation is collected without being merged."""

from dataclasses import replace
from typing import Any

from memwal.jobs.collector.decision import Decision, Eligibility
from memwal_sim.bugs import Bug

_decide = Eligibility.decide


_FORGOTTEN = (("generation", "unmerged"), ("generation", "time travel"), ("generation", "grace"))


def _forgetful(table: Eligibility[Any], candidate: Any, name: str, reason: str) -> Decision:
    """In place of asking every rule."""
    rules = tuple(rule for rule in table.rules if (table.kind, rule.name) not in _FORGOTTEN)
    return _decide(replace(table, rules=rules), candidate, name, reason)


BUG = Bug(
    name="unmerged_collected",
    clause="GC-001",
    what=(
        "A collector does not ask whether a generation is at or below the merge progress of the newest table version."
    ),
    why="Rows that were flushed and not merged are in their generation only, and are lost with it.",
    scenario="flush_and_collector",
    oracle="recovery succeeds",
    violated="WRITER-013",
    replaced={"memwal.jobs.collector.decision:Eligibility.decide": _forgetful},
)
