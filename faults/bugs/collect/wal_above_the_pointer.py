"""WAL entries are collected up to the last."""

from dataclasses import replace
from typing import Any

from memwal.jobs.collector.decision import Decision, Eligibility
from memwal_sim.bugs import Bug

_decide = Eligibility.decide


_FORGOTTEN = (("wal", "flushed"), ("wal", "generation"))


def _forgetful(table: Eligibility[Any], candidate: Any, name: str, reason: str) -> Decision:
    """In place of asking every rule."""
    rules = tuple(rule for rule in table.rules if (table.kind, rule.name) not in _FORGOTTEN)
    return _decide(replace(table, rules=rules), candidate, name, reason)


BUG = Bug(
    name="wal_above_the_pointer",
    clause="GC-007",
    what="A collector deletes WAL entries without asking whether replay starts below them.",
    why="Entries above the replay pointer hold acknowledged rows that are in no generation.",
    scenario="flush_and_collector",
    oracle="recovery succeeds",
    violated="WRITER-013",
    unseen="needs a collector of WAL entries: seen with --memwal-setting wal_collection=on only",
    replaced={"memwal.jobs.collector.decision:Eligibility.decide": _forgetful},
)
