"""Retained table versions are not asked what they need."""

from dataclasses import replace
from typing import Any

from memwal.jobs.collector.decision import Decision, Eligibility
from memwal_sim.bugs import Bug

_decide = Eligibility.decide


_FORGOTTEN = (("generation", "time travel"), ("orphan", "remembered"))


def _forgetful(table: Eligibility[Any], candidate: Any, name: str, reason: str) -> Decision:
    """In place of asking every rule."""
    rules = tuple(rule for rule in table.rules if (table.kind, rule.name) not in _FORGOTTEN)
    return _decide(replace(table, rules=rules), candidate, name, reason)


BUG = Bug(
    name="time_travel_forgotten",
    clause="AMB-91",
    what="A collector looks at the merge progress of the newest table version only.",
    why=(
        "An older version that is retained lists generations in its region snapshot which it had not merged. They "
        "are collected, and reading that version fails or misses rows. By the letter of the rule nothing would "
        "ever go; by its intent each version keeps what its snapshot lists and it has not merged."
    ),
    scenario="eventual_reader",
    oracle="retained versions are readable",
    violated="GC-003",
    unseen="no message of the protocol reads or restores an older table version",
    replaced={"memwal.jobs.collector.decision:Eligibility.decide": _forgetful},
)
