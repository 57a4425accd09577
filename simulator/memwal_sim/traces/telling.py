"""A recorded history as one of the abstract machine: what each of its requests is there, and where it breaks off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memwal.revisions import REVISIONS

from ..following import ChangeTold, RowsTold, StoreChange, acknowledged, rows_told, told
from ..names import operation, symbolic
from ..outcomes import UNLEARNED
from ..simulation import Simulation, StepTaken
from ..store import Contents
from .references import found_in
from .replay import Replayed, replay


@dataclass(frozen=True, slots=True)
class TraceTold:
    """A recorded history, and what the machine says of it."""

    replayed: Replayed
    requests: tuple[str, ...]
    """Who made each request, and what it was."""
    told: tuple[ChangeTold, ...]
    """Changes by the number of their request, from 1."""

    @property
    def stopped(self) -> ChangeTold | None:
        """Where the first region breaks off; None if none does."""
        return next((each for each in self.told if each.stopped is not None), None)

    @property
    def without(self) -> tuple[str, ...]:
        """Readings that had to be dropped on the way."""
        return tuple(dict.fromkeys(each.without for each in self.told if each.without))


def tell(path: Path) -> TraceTold:
    """Replay the trace in the file ``path`` and tell it. Raises as `replay` does."""
    states: list[Contents] = []
    events: list[StoreChange | RowsTold] = []
    requests: list[str] = []

    def watch(simulation: Simulation, taken: StepTaken | None) -> None:
        if taken is None:
            states.append(simulation.contents)
            return
        fate = "late" if taken.fate is None else taken.fate.label
        requests.append(f"{taken.actor} {operation(taken.request)} {symbolic(taken.request.path)} {fate}")
        lost = taken.fate is None or taken.fate in UNLEARNED
        if simulation.contents != states[-1]:
            states.append(simulation.contents)
            events.append(StoreChange(simulation.contents, taken.actor, lost, len(requests)))
        rows = rows_told(acknowledged(simulation.ghosts, taken.notes))
        if rows:
            events.append(RowsTold(taken.actor, rows, len(requests)))

    replayed = replay(path, watch=watch)
    revision = REVISIONS[found_in(path).study.revision]
    return TraceTold(replayed, tuple(requests), tuple(told(revision, states[0], events)))
