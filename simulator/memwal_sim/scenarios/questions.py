"""What readers may ask for besides the newest rows: older table versions, and rows that match a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow.compute as pc
from memwal.read import filters, scan
from memwal.table.state import load, versions
from memwal.violations import Violation

from ..oracles import after_crash
from ..process import Process
from ..world import Oracle, says
from . import ground
from .actors import Workplace, seen, seen_at

TIME_TRAVEL = "retained versions are readable"
FILTERS = "a filter picks from the merged rows"


async def _read_all(place: Workplace) -> tuple[ground.Pairs, ...]:
    enabled = [number for number in await versions(place.table) if (await load(place.table, number)).mem_wal_entry]
    return tuple([ground.pairs(await seen_at(place, number)) for number in enabled])


@says(TIME_TRAVEL)
def _judge(_found: tuple[ground.Pairs, ...], _ghosts: Any) -> Violation | None:
    """A read that fails is the violation."""
    return None


def retained_versions_are_readable(place: Workplace) -> Oracle:
    """The oracle that reads every table version with the snapshot that it has."""
    return after_crash(Process("traveller", partial(_read_all, place)), _judge, clause="GC-003", name=TIME_TRAVEL)


async def _filtered(place: Workplace, value: str) -> tuple[ground.Pairs, ground.Pairs]:
    """All rows that have ``value``, by a read with a filter and by one without."""
    matching = filters.parse(pc.field(ground.VALUE) == value, ground.SCHEMA)
    asked = await scan.scan(place.table, keep=matching)
    return ground.pairs(asked), tuple(row for row in ground.pairs(await seen(place)) if row[1] == value)


@says(FILTERS)
def _same(found: tuple[ground.Pairs, ground.Pairs], _ghosts: Any) -> Violation | None:
    asked, picked = found
    if asked == picked:
        return None
    reason = f"a read with a filter finds {asked}, and of all rows {picked} match it"
    return Violation("READ-006", FILTERS, reason)


def filters_pick_from_merged_rows(place: Workplace, values: Sequence[str]) -> tuple[Oracle, ...]:
    """Oracles that ask for the rows of each of ``values``, and compare with all rows."""
    return tuple(
        after_crash(Process("asker", partial(_filtered, place, value)), _same, clause="READ-006", name=FILTERS)
        for value in values
    )


QUESTIONS: Mapping[str, Callable[[Workplace, Any], Sequence[Oracle]]] = {
    "retained_versions": lambda place, _: (retained_versions_are_readable(place),),
    "filters": filters_pick_from_merged_rows,
}
"""What a scenario may ask besides; the argument of ``filters`` is values."""
