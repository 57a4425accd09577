"""The garbage collector: what nothing needs any more, and why it is safe to delete.

Each kind of thing has a module with its argument and a table of reasons to keep it: table `versions`, merged
`generations`, `orphans`, `wal` entries, region `manifests`, and `files` that no retained version names. Nothing is
deleted that some process may still come to need; where only time can tell, the operator gives a grace time (`Policy`).

Source: MemWAL revisions A and B, "Garbage Collector".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..defaults import RETAIN_MANIFESTS
from . import files, generations, manifests, orphans, versions, wal
from .decision import Decision, Eligibility, KeepRule, Kind
from .generations import kept_because
from .ledger import Ledger
from .policy import KEEP_ALL, Policy, TimeTravel
from .regions import CollectionPlan
from .run import Begun, begin, collect, collect_planned, collect_waiting, finish

__all__ = [
    "ELIGIBILITY", "KEEP_ALL", "RETAIN_MANIFESTS", "Begun", "CollectionPlan", "Decision", "Eligibility", "KeepRule",
    "Kind", "Ledger", "Policy", "TimeTravel", "begin", "collect", "collect_planned", "collect_waiting", "finish",
    "kept_because", "rules",
]  # fmt: skip

ELIGIBILITY: tuple[Eligibility[Any], ...] = (
    versions.RULES,
    generations.RULES,
    orphans.RULES,
    wal.RULES,
    manifests.RULES,
    *files.RULES.values(),
)
"""The tables of all kinds, in the order in which things are collected."""


def rules() -> Iterator[tuple[Eligibility[Any], KeepRule[Any]]]:
    """Every row of every table."""
    for table in ELIGIBILITY:
        for rule in table.rules:
            yield table, rule
