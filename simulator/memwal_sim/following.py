"""A run of processes told as a history of the abstract machine, region by region, or up to where it breaks off.

Writers replay before they put, a barrier stands in the way of those that were fenced, and none acts under another's
claim. What a client is told to be stored has to be in an entry that a step has acknowledged.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from memwal import paths
from memwal.effects import Note
from memwal.ids import RegionId
from memwal.revisions import Revision
from memwal.violations import Violation
from memwal_model.course import Course, Partial
from memwal_model.following import READINGS, Stopped, begun, dropped, follow, literal, unacknowledged
from memwal_model.machine import ASSUMPTIONS
from memwal_model.states import Step

from .blame import blamed, without
from .histories.history import History, Rows
from .histories.notes import WRITE_ACKNOWLEDGED
from .regions import EntryRows, RegionsSeen
from .store import Contents
from .world import REFINEMENT


@dataclass(frozen=True, slots=True)
class StoreChange:
    """One change of a store."""

    contents: Contents
    """Afterwards."""
    actor: str = ""
    """Who made it; empty if that is not known."""
    lost: bool = False
    """The one that made it did not learn of it."""
    order: int = 0
    """Its place in a log or a trace."""


@dataclass(frozen=True, slots=True)
class RowTold:
    """A row that a client was told to be stored, as the words of its cells."""

    key: frozenset[str]
    cells: frozenset[str]
    """Those of the key and of the other columns, as far as words can be compared."""

    @classmethod
    def of(cls, key: Iterable[object], others: Iterable[object]) -> RowTold:
        """The row with these values in its key and in other columns; NULL has no word."""
        words, more = (frozenset(str(each) for each in values if each is not None) for values in (key, others))
        return cls(words, words | more)


@dataclass(frozen=True, slots=True)
class RowsTold:
    """What a client was told to be stored."""

    actor: str
    """Who told it."""
    rows: tuple[RowTold, ...]
    order: int = 0
    """Number of the last change in a log or a trace that was made by then."""


@dataclass(frozen=True, slots=True)
class ChangeTold:
    """What one change is for one region."""

    region: RegionId
    change: StoreChange
    """Of an acknowledgement, which changes nothing: the store as it is then."""
    steps: tuple[Step, ...]
    stopped: Stopped | None = None
    """Why the run breaks off here; None if it continues."""
    without: str = ""
    """The reading that had to be dropped for the run to continue."""
    strictly: Stopped | None = None
    """Why it does not go on with that reading."""

    @property
    def note(self) -> str:
        """The note of SPEC_NOTES that is about that reading; empty if none was dropped."""
        return ASSUMPTIONS[self.without].note if self.without else ""

    def __str__(self) -> str:
        if self.stopped is not None:
            return f"region {self.region}: {self.stopped}"
        return "; ".join(" ".join(map(str, (name, *parameters))) for name, parameters in self.steps)


def told(
    revision: Revision,
    first: Contents,
    events: Iterable[StoreChange | RowsTold],
    *,
    without: frozenset[str] = frozenset(),
) -> list[ChangeTold]:
    """Each change of a run that begins with ``first``, as steps; a region ends where its run breaks off.

    So it does at an acknowledgement that no step has made. ``without``: readings that the run need not share, by their
    names in `ASSUMPTIONS`.
    """
    run = list(events)
    collects = _collects([first, *(each.contents for each in run if isinstance(each, StoreChange))], revision)
    teller = Teller(revision, collects_wal=collects, without=without)
    found: list[ChangeTold] = []
    known, before = teller.begin(first), first
    for event in run:
        if isinstance(event, RowsTold):
            known, now = teller.hear(known, before, event)
            found += now
            continue
        known, now = teller.take(known, before, event)
        found += now
        before = event.contents
    return found


def _collects(states: list[Contents], revision: Revision) -> bool:
    """Whether a WAL entry is ever deleted."""
    names = [{name for name in each.below(paths.MEM_WAL) if name.endswith(revision.wal_suffix)} for each in states]
    return any(before - after for before, after in zip(names, names[1:], strict=False))


@dataclass(frozen=True, slots=True)
class RunTold:
    """What was told of a run up to here."""

    courses: Mapping[RegionId, Course]
    ended: frozenset[RegionId]
    """Regions whose run broke off, or that cannot be read any more."""
    claimed: Mapping[tuple[RegionId, str], str]
    """Region and writer -> who has claimed it."""
    rows: Mapping[tuple[RegionId, int, int], EntryRows]
    """Region, position and epoch of each entry that was put -> its rows."""

    def key(self) -> Hashable:
        """Equal where nothing that comes can tell the difference."""
        courses = frozenset((region, *course.key()) for region, course in self.courses.items())
        return courses, self.ended, frozenset(self.claimed.items()), frozenset(self.rows.items())


class Teller:
    """Tells runs, one change after the other."""

    def __init__(
        self, revision: Revision, *, collects_wal: bool = False, without: frozenset[str] = frozenset()
    ) -> None:
        """``collects_wal``: entries will be deleted; else that is known once one is."""
        self.seeing = RegionsSeen(revision)
        self.collects_wal, self.without = collects_wal, without

    def begin(self, contents: Contents) -> RunTold:
        """Nothing was told yet."""
        regions = self.seeing.regions(contents)
        return RunTold({region: self._begun(seen) for region, seen in regions.items()}, frozenset(), {}, {})

    def _begun(self, seen: Partial) -> Course:
        return begun(seen, collects_wal=self.collects_wal).reading(dict.fromkeys(self.without, False))

    def take(self, known: RunTold, before: Contents, change: StoreChange) -> tuple[RunTold, list[ChangeTold]]:
        """What the next change is, for each region that it changes."""
        found = []
        regions = self.seeing.regions(change.contents)
        rows = {
            (region, p, seen["written"][p,]): at
            for region, seen in regions.items()
            for (p,), at in seen["rows"].items()
        }
        rows = {**known.rows, **rows}
        known = replace(known, ended=known.ended | (known.courses.keys() - regions.keys()), rows=rows)
        for region, seen in regions.items():
            if region in known.ended:
                continue
            course = known.courses.get(region) or self._begun(self.seeing.nothing(region, before))
            known, told = self._of_region(known, region, course, seen, change)
            if told.steps or told.stopped is not None:
                found.append(told)
        return known, found

    def _of_region(
        self, known: RunTold, region: RegionId, course: Course, seen: Partial, change: StoreChange
    ) -> tuple[RunTold, ChangeTold]:
        if not course.state["entry"].keys() <= seen["entry"].keys():
            course = course.reading({"collects_wal": True})
        found, dropped, strictly = follow(course, seen, lost=change.lost), "", None
        if isinstance(found, Stopped) and (other := literal(course, seen, lost=change.lost)) is not None:
            dropped, strictly, found = other[0].without[-1], found, other
        if not isinstance(found, Stopped):
            course, steps = found
            acts = [(name, given) for name, given in steps if name in _UNDER_A_CLAIM]
            claimed = {(region, given[0]): change.actor for _, given in acts} | dict(known.claimed)
            stranger = next((each for each in acts if claimed[region, each[1][0]] != change.actor), None)
            if stranger is None:
                told = ChangeTold(region, change, steps, None, dropped, strictly)
                return replace(known, courses={**known.courses, region: course}, claimed=claimed), told
            w = stranger[1][0]
            what = f"{change.actor} acts under epoch {w[1:]}"
            found = Stopped(what, stranger, f"{claimed[region, w]} has claimed that epoch")
        return replace(known, ended=known.ended | {region}), ChangeTold(region, change, (), found)

    def acknowledged(self, known: RunTold, actor: str, row: RowTold) -> tuple[RegionId, Stopped] | None:
        """Why no step acknowledges a row that ``actor`` says is stored.

        None if one does, or if that cannot be told: of a key that is in some entry a writer may drop a row that is
        older by its sequence (AMB-148), and an actor that claims no region writes to the base table.
        """
        if known.ended:
            return None
        places = [place for place, rows in known.rows.items() if any(row.cells <= each for each in rows)]
        wrong = [(region, unacknowledged(known.courses[region], p, x)) for region, p, x in places]
        found = [(region, stopped) for region, stopped in wrong if stopped is not None]
        if places:
            return found[0] if len(found) == len(wrong) else None
        own = next((place for place, claimer in known.claimed.items() if claimer == actor), None)
        if own is None or any(row.key <= each for rows in known.rows.values() for each in rows):
            return None
        region, w = own
        what = f"the row {', '.join(sorted(row.cells))} was acknowledged to {actor}"
        return region, Stopped(what, ("acknowledge", (w,)), "no entry has it")

    def hear(self, known: RunTold, contents: Contents, told: RowsTold) -> tuple[RunTold, list[ChangeTold]]:
        """The run after rows were told to be stored: where no step has, it goes on without a reading, or breaks off."""
        wrong = next((each for row in told.rows if (each := self.acknowledged(known, told.actor, row))), None)
        if wrong is None:
            return known, []
        (region, stopped), change = wrong, StoreChange(contents, told.actor, order=told.order)
        steps = () if stopped.nearest is None else (stopped.nearest,)
        for name in READINGS:
            then = replace(known, courses={**known.courses, region: dropped(known.courses[region], name)})
            if not any(self.acknowledged(then, told.actor, row) for row in told.rows):
                return then, [ChangeTold(region, change, steps, None, name, stopped)]
        return replace(known, ended=known.ended | {region}), [ChangeTold(region, change, (), stopped)]


def acknowledged(ghosts: object, notes: Iterable[Note]) -> Rows:
    """Rows of the writes that ``notes`` say are stored; ``ghosts``: the history of all calls."""
    names = {dict(note.fields)["write"] for note in notes if note.event == WRITE_ACKNOWLEDGED}
    writes = ghosts.writes if names and isinstance(ghosts, History) else ()
    return tuple(row for call in writes if call.name in names for row in call.rows)


def rows_told(rows: Rows) -> tuple[RowTold, ...]:
    """Rows of a history (key and value; None: the key was deleted) as they are told to be stored."""
    return tuple(RowTold.of([key], [value]) for key, value in rows)


_UNDER_A_CLAIM = ("claim", "carry_out", "list_generation")


class Refinement:
    """The oracle: every change of a run is a step of the machine. What it has judged it remembers."""

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self.teller = Teller(revision)
        self.runs: dict[Hashable, RunTold] = {}
        self.judged: dict[tuple[int, Contents, str, bool], tuple[RunTold, Violation | None]] = {}

    def begin(self, contents: Contents) -> RunTold:
        """A run begins."""
        return self._known(self.teller.begin(contents))

    def after(
        self, known: RunTold, before: Contents, contents: Contents, actor: str, *, lost: bool
    ) -> tuple[RunTold, Violation | None]:
        """The run after a change, and what is wrong with that."""
        key = id(known), contents, actor, lost
        if key not in self.judged:
            then, told = self.teller.take(known, before, StoreChange(contents, actor, lost))
            wrong = next((each for each in told if each.stopped is not None or each.without), None)
            self.judged[key] = self._known(then), None if wrong is None else _violation(wrong, self.revision)
        return self.judged[key]

    def noted(self, known: RunTold, ghosts: object, actor: str, notes: tuple[Note, ...]) -> Violation | None:
        """What is wrong with the acknowledgements in ``notes``; ``ghosts``: the history of all calls."""
        for row in rows_told(acknowledged(ghosts, notes)):
            wrong = self.teller.acknowledged(known, actor, row)
            if wrong is not None:
                region, stopped = wrong
                clause = blamed(stopped, self.revision.name)
                return Violation(clause, REFINEMENT, f"region {region}: {stopped}")
        return None

    def _known(self, run: RunTold) -> RunTold:
        return self.runs.setdefault(run.key(), run)


def _violation(told: ChangeTold, revision: Revision) -> Violation:
    if told.stopped is not None:
        return Violation(blamed(told.stopped, revision.name), REFINEMENT, str(told))
    words = f"region {told.region}: {told.strictly}; without the reading {told.without} ({told.note}) it can"
    return Violation(without(told.steps, told.strictly), REFINEMENT, words)
