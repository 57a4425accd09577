"""A run of processes told as a history of the abstract machine, region by region, or up to where it breaks off.

What `memwal_sim.refinement` asks of one change, this asks of a whole run: writers replay before they put, a barrier
stands in the way of those that were fenced, and nobody acts under a claim that is another's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from memwal import paths
from memwal.ids import RegionId
from memwal.revisions import Revision
from memwal_model.following import Course, Partial, Stopped, begun, follow, literal
from memwal_model.machine import ASSUMPTIONS
from memwal_model.states import Step

from .refinement import Refinement
from .store import Contents


@dataclass(frozen=True, slots=True)
class StoreChange:
    """One change of a store."""

    contents: Contents
    """Afterwards."""
    actor: str = ""
    """Who made it; empty if that is not known."""
    lost: bool = False
    """Whoever made it did not learn of it."""
    order: int = 0
    """Its place in a log or a trace."""


@dataclass(frozen=True, slots=True)
class ChangeTold:
    """What one change is for one region."""

    region: RegionId
    change: StoreChange
    steps: tuple[Step, ...]
    stopped: Stopped | None = None
    """Why the run breaks off here; None if it goes on."""
    without: str = ""
    """The reading that had to be dropped for the run to go on."""

    @property
    def note(self) -> str:
        """The note of SPEC_NOTES that is about that reading; empty if none was dropped."""
        return ASSUMPTIONS[self.without].note if self.without else ""

    def __str__(self) -> str:
        if self.stopped is not None:
            return f"region {self.region}: {self.stopped}"
        return "; ".join(" ".join(map(str, (name, *parameters))) for name, parameters in self.steps)


def told(
    revision: Revision, first: Contents, changes: Iterable[StoreChange], *, without: frozenset[str] = frozenset()
) -> list[ChangeTold]:
    """Each change of a run that begins with ``first``, as steps; a region ends where its run breaks off.

    ``without``: readings that the run need not share, by their names in `ASSUMPTIONS`.
    """
    run = list(changes)
    collects = _collects([first, *(each.contents for each in run)], revision)
    following = _Following(Refinement(revision), collects_wal=collects, without=without)
    following.begin(first)
    return [each for change in run for each in following.take(change)]


def _collects(states: list[Contents], revision: Revision) -> bool:
    """Whether a WAL entry is ever deleted."""
    names = [{name for name in each.below(paths.MEM_WAL) if name.endswith(revision.wal_suffix)} for each in states]
    return any(before - after for before, after in zip(names, names[1:], strict=False))


class _Following:
    def __init__(self, seeing: Refinement, *, collects_wal: bool, without: frozenset[str]) -> None:
        self.seeing, self.collects_wal, self.without = seeing, collects_wal, without
        self.courses: dict[RegionId, Course] = {}
        self.ended: set[RegionId] = set()
        self.claimed: dict[tuple[RegionId, str], str] = {}
        """Region and writer -> who has claimed it."""
        self.before = Contents()

    def begin(self, contents: Contents) -> None:
        self.before = contents
        for region, seen in self.seeing.regions(contents).items():
            self.courses[region] = self.begun(seen)

    def begun(self, seen: Partial) -> Course:
        course = begun(seen, collects_wal=self.collects_wal)
        return replace(course, state={**course.state, **{name: {(): False} for name in self.without}})

    def take(self, change: StoreChange) -> list[ChangeTold]:
        """What the next change is, for each region that it changes."""
        found = []
        for region, seen in self.seeing.regions(change.contents).items():
            if region not in self.courses:
                self.courses[region] = self.begun(self.seeing.nothing(region, self.before))
            if region in self.ended:
                continue
            told = self.of_region(region, seen, change)
            if told.stopped is not None:
                self.ended.add(region)
            if told.steps or told.stopped is not None:
                found.append(told)
        self.before = change.contents
        return found

    def of_region(self, region: RegionId, seen: Partial, change: StoreChange) -> ChangeTold:
        course = self.courses[region]
        found = follow(course, seen, lost=change.lost)
        dropped = ""
        if isinstance(found, Stopped) and (other := literal(course, seen, lost=change.lost)) is not None:
            found, dropped = other, other[0].without[-1]
        if isinstance(found, Stopped):
            return ChangeTold(region, change, (), found)
        course, steps = found
        for name, parameters in steps:
            if name in ("claim", "carry_out", "list_generation"):
                owner = self.claimed.setdefault((region, parameters[0]), change.actor)
                if owner != change.actor:
                    what = f"{change.actor} acts under epoch {parameters[0][1:]}"
                    stopped = Stopped(what, (name, parameters), f"{owner} has claimed that epoch")
                    return ChangeTold(region, change, (), stopped)
        self.courses[region] = course
        return ChangeTold(region, change, steps, None, dropped)
