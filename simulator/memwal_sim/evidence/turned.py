"""Each reading that is turned alone, and where what comes of it is looked for. Naming them explores nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from memwal.revisions import REVISIONS, Interpretation

from ..bugs import Bug


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedReading:
    """One reading that is turned, and where what comes of it is looked for."""

    reading: str
    bug: str
    """A planted bug that turns it; with its scenario and faults."""
    revision: str


def alone(known: Mapping[str, Bug]) -> tuple[TurnedReading, ...]:
    """Every reading in the scenarios of the bugs that turn it, under every revision, in the order of the fields."""
    found: dict[tuple[str, str, str], TurnedReading] = {}
    for field in fields(Interpretation):
        for bug in known.values():
            for revision in REVISIONS if field.name in bug.readings else ():
                one = TurnedReading(reading=field.name, bug=bug.name, revision=revision)
                found.setdefault((field.name, bug.scenario, revision), one)
    return tuple(found.values())
