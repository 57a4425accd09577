"""A run told as a history of the machine: every change of a store as steps, one after another, or the run breaks off.

A store shows what processes do to it, and not what they do within themselves: what they replay or load, and what they
take for stored. Those steps are taken for them as soon as they can happen, and each table version has a builder that
loads it. Nothing is lost by that: a writer that has gone ahead can still do all that one could that waits, for what it
has sent may be carried out at any time. So a run breaks off only where no history of the machine has its changes.

Writers are named by their epochs (``w3``): two never have the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .course import SEEN, Course, Partial, differs, moved
from .machine import ACTIONS, ASSUMPTIONS
from .plans import plans
from .states import Setting, Sizes, Step, after, possible
from .terms import Sort, fields_of
from .text import PLAIN, missing

READINGS = tuple(name for name, each in ASSUMPTIONS.items() if each.note)
"""Assumptions that are readings of the texts, not axioms about the store."""

LOST = (
    "what indexes cover is forgotten, as by a compaction of a library that does not know their catch-up entries: "
    "have every index catch up before anything is collected, and compact with the table's own merger"
)
"""What is to be done where catch-up entries are gone: revision A has a collector take an absent entry for complete."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run breaks off here."""

    changed: str
    """What changed in the store."""
    nearest: Step | None
    """The step that comes nearest to it."""
    because: str
    """Why it cannot happen, or what it would have done."""
    barrier: bool = False
    """The change is a barrier: an entry without rows, which is put where it should not stand, and hides nothing."""
    left: str = ""
    """The field that is another one than the steps leave; empty if a step cannot happen at all."""
    asked: frozenset[str] = frozenset()
    """The fields that a step cannot happen for."""

    def __str__(self) -> str:
        if self.nearest is None:
            return f"{self.changed}: no step of the machine does that"
        name, parameters = self.nearest
        return f"{self.changed}: the nearest step is {' '.join(map(str, (name, *parameters)))}, but {self.because}"


def begun(seen: Partial, *, collects_wal: bool) -> Course:
    """A run that begins where a store shows ``seen``; what was flushed before counts as covered by generation 0."""
    first, barrier_first = (seen[name][()] for name in ("first", "barrier_first"))
    setting = Setting(first=first, barrier_first=barrier_first, collects_wal=collects_wal)
    state: dict[str, Any] = {**setting.initial()}
    state |= {name: dict(seen[name]) for name in SEEN}
    versions, made = sorted(t for (t,) in seen["retained"]), dict[Any, int]()
    for t, u in itertools.pairwise(versions):
        made = {**_added(seen, t, u), **made}
    course = Course(state, seen["epoch"].get((), 0), made=made)
    start = _start(course)
    entries = sorted(p for (p,) in seen["entry"])
    state["bottom"] = {(): min(start, *entries, start)}
    state["kept"] = {(p,): seen["written"][p,] for p in entries if p < start}
    state["restored"] = {(): course.of("newest")}
    state["covered"] = dict(seen["caught_up"])
    return _settled(course)[0]


def sizes(course: Course) -> Sizes:
    """What variables range over: numbers up to the next ones, writers by name; there are no reads and no keys."""
    top = max([course.of("pointer"), course.of("hint"), *(p for (p,) in course.state["entry"])])
    return {
        Sort.POSITION: range(top + 2),
        Sort.EPOCH: range(course.of("epoch") + 2),
        Sort.GENERATION: range(1, course.of("current") + 2),
        Sort.MANIFEST: range(1, course.of("version") + 2),
        Sort.TABLE: [t for (t,), there in course.state["retained"].items() if there],
        Sort.INDEX: [i for t, i in course.state["caught_up"] if t == course.of("newest")],
        **dict.fromkeys((Sort.WRITER, Sort.KEY, Sort.MERGER, Sort.BUILDER, Sort.READER), ()),
    }


def follow(course: Course, seen: Partial, *, lost: bool = False) -> tuple[Course, tuple[Step, ...]] | Stopped:
    """The course after a change that leaves ``seen``, and the steps that it took; `Stopped` if none make the change.

    ``seen`` may say more than the machine's fields: of entries whether they have rows (``rows``), as a barrier has
    none, and of table versions what they consist of (``fragments``; ``parts``, and ``missing`` in an index). ``lost``:
    the one that made the change did not learn of it.
    """
    nearest: Stopped | None = None
    seen = _without_late(course, seen)
    course, seen = _with_covered(_adopted(course, seen), seen)
    credited = _credits(course, seen)
    without = {place: course.of("caught_up", course.of("newest"), place[1]) for place in credited}
    seen = {**seen, "caught_up": {**seen["caught_up"], **without}}
    for plan in plans(course, seen, lost=lost):
        found = _taken(course, plan, seen)
        if not isinstance(found, Stopped):
            return _credited(found[0], credited), found[1]
        nearest = nearest or replace(found, barrier=_is_barrier(found.nearest, seen))
    return nearest or Stopped(_changed(course, seen), None, "")


def unacknowledged(course: Course, p: int, x: int) -> Stopped | None:
    """Why no step has acknowledged the entry that epoch ``x`` put at ``p``, as a client was told; None if one has."""
    w, words = f"w{x}", f"the entry of epoch {x} at position {p} was acknowledged"
    if x <= course.known_from or course.of("acked", p, x):
        return None
    if course.of("at", w) != p:
        return Stopped(words, ("acknowledge", (w,)), f"{w} is not at position {p}")
    return _refused(course, words, ("acknowledge", (w,)))


def _is_barrier(step: Step | None, seen: Partial) -> bool:
    return step is not None and step[0] == "carry_out" and not seen.get("rows", {}).get((step[1][1],), True)


def literal(course: Course, seen: Partial, *, lost: bool = False) -> tuple[Course, tuple[Step, ...]] | None:
    """As `follow`, without one reading that the run does not share; None if there is no such reading."""
    for name in READINGS:
        if name not in course.without:
            found = follow(dropped(course, name), seen, lost=lost)
            if not isinstance(found, Stopped):
                return found
    return None


def dropped(course: Course, name: str) -> Course:
    """The course of a run that does not share the reading ``name``."""
    return _settled(replace(course.reading({name: False}), without=(*course.without, name)))[0]


def _without_late(course: Course, seen: Partial) -> Partial:
    """Without table versions that take the number of one that expired: readers go by the newest.

    It is not taken where a collector has its grace time; elsewhere a late commit may.
    """
    kept = [place for place in seen["retained"] if course.of("retained", *place) or place[0] > course.of("newest")]
    progress = {place: seen["progress"].get(place, 0) for place in kept}
    caught_up = {place: to for place, to in seen["caught_up"].items() if place[:1] in kept}
    return {**seen, "retained": dict.fromkeys(kept, True), "progress": progress, "caught_up": caught_up}


def _with_covered(course: Course, seen: Partial) -> tuple[Course, Partial]:
    """With how far the indexes of a new version cover what was merged, by the parts of the table that they lack."""
    newest = seen["newest"].get((), 1)
    if newest == course.of("newest"):
        return course, {**seen, "covered": {}}
    made = {**_added(seen, course.of("newest"), newest), **course.made}
    course = replace(course, made=made)
    covered = {place: _covers(course, seen, place) for place in seen.get("missing", {}) if place[0] == newest}
    return course, {**seen, "covered": {place: to for place, to in covered.items() if place in seen["caught_up"]}}


def _covers(course: Course, seen: Partial, place: tuple[Any, ...]) -> int:
    """Up to where an index covers what was merged into a version, by the parts of the table that it lacks."""
    lacks = seen.get("missing", {}).get(place)
    if lacks is None:
        return 0
    progress: int = seen["progress"].get(place[:1], 0)
    return min([progress, *(course.made[part] for part in lacks if part in course.made)])


def _added(seen: Partial, t: int, u: int) -> Mapping[Any, int]:
    """What version ``u`` has and ``t`` has not, if a merge made it -> the progress before that."""
    before: int = seen["progress"].get((t,), 0)
    parts = seen.get("parts", {})
    if seen["progress"].get((u,), 0) <= before:
        return {}
    return dict.fromkeys(parts.get((u,), frozenset()) - parts.get((t,), frozenset()), before)


def _adopted(course: Course, seen: Partial) -> Course:
    """With the writer of an earlier claim who acts now: it may be anywhere, and have sent what it likes."""
    acting = {seen["written"][place]: place[0] for place in seen["entry"] if _is_put(course, seen, place)}
    if seen["current"] != course.state["current"]:
        acting[seen["epoch"].get((), 0)] = seen["pointer"].get((), 0) + 1
    for x, p in acting.items():
        w = f"w{x}"
        if 0 < x <= course.known_from and not course.of("mine", w):
            known = {"mine": x, "begins": _start(course), "number": course.of("current"), "at": p, "opened": True}
            state = {**course.state, **{name: {**course.state[name], (w,): value} for name, value in known.items()}}
            positions = range(course.of("first"), p)
            state["holds"] = {**state["holds"], **{(w, q): course.of("written", q) or x for q in positions}}
            state["sent"] = {**state["sent"], (w, p): True}
            course = replace(course, state=state)
    return _with_indexes(course, seen)


def _with_indexes(course: Course, seen: Partial) -> Course:
    """With the indexes that are new in the newest version: each may have been built before it became maintained."""
    newest, top = course.of("newest"), seen["newest"].get((), 1)
    merged = course.of("progress", newest)
    new = {
        (newest, i): min(to, merged)
        for (t, i), to in seen["caught_up"].items()
        if t == top and (newest, i) not in course.state["caught_up"]
    }
    return _credited(course, new)


def _credits(course: Course, seen: Partial) -> Mapping[tuple[Any, ...], int]:
    """What the commit of a merge credits indexes with, if they covered it before.

    So they do when all that they lacked of a merged generation has been deleted since.
    """
    newest, top = course.of("newest"), seen["newest"].get((), 1)
    if seen["progress"].get((top,), 0) <= course.of("progress", newest):
        return {}
    return {
        (t, i): to
        for (t, i), to in seen["caught_up"].items()
        if t == top and course.of("caught_up", newest, i) < to <= _covers(course, seen, (newest, i))
    }


def _credited(course: Course, to: Mapping[tuple[Any, ...], int]) -> Course:
    """With these indexes credited; they cover at least that."""
    if not to:
        return course
    raised = {name: {**course.state[name], **to} for name in ("caught_up", "covered")}
    return replace(course, state={**course.state, **raised})


def _start(course: Course) -> int:
    start: int = course.of("first") if course.of("current") == 1 else course.of("pointer") + 1
    return start


def _changed(course: Course, seen: Partial) -> str:
    """What changed in the store, in words."""
    if place := next((place for place in sorted(seen["entry"]) if _is_put(course, seen, place)), None):
        return f"position {place[0]} was put under epoch {seen['written'][place]}"
    return "; ".join(sorted(_told(name, course, seen) for name in SEEN if differs(course, seen, name)))


def _told(name: str, course: Course, seen: Partial) -> str:
    places = sorted(moved(name, course, seen))
    told = ", ".join(f"{name}{list(p) if p else ''}: {a} -> {b}" for p, a, b in places)
    return f"{told} ({LOST})" if name == "caught_up" and any(b < a for _, a, b in places) else told


def _is_put(course: Course, seen: Partial, place: tuple[Any, ...]) -> bool:
    return bool(seen["written"][place] != course.of("written", *place))


def _taken(course: Course, plan: Sequence[Step], seen: Partial) -> tuple[Course, tuple[Step, ...]] | Stopped:
    start, steps = course, list[Step]()
    for step in plan:
        if not possible(course.state, step, sizes(course)):
            return _refused(course, _changed(start, seen), step)
        course = _after(course, step)
        steps.append(step)
    wrong = [name for name in SEEN if differs(course, seen, name)]
    if wrong:
        blamed = (step for step in plan if wrong[0] in {each.name for each in ACTIONS[step[0]].changed})
        made = f"it does not make that: {_told(wrong[0], course, seen)} is left"
        return Stopped(_changed(start, seen), next(blamed, plan[0] if plan else None), made, left=wrong[0])
    course, own = _settled(course)
    return course, (*steps, *own)


def _after(course: Course, step: Step) -> Course:
    return replace(course, state=after(course.state, step, sizes(course)))


def _refused(course: Course, changed: str, step: Step) -> Stopped:
    """The run breaks off where a step cannot happen."""
    if step[0] == "carry_out":
        return Stopped(changed, step, _not_carried_out(course, *step[1]))
    needed = missing(course.state, step, sizes(course))
    assert needed is not None, step
    asked = frozenset(each.name for each in fields_of(needed))
    return Stopped(changed, step, f"{PLAIN.of(needed)} does not hold", asked=asked)


def _not_carried_out(course: Course, w: str, p: int) -> str:
    if course.of("entry", p):
        return f"an entry of epoch {course.of('written', p)} stands there"
    if not course.of("mine", w):
        return f"no writer has claimed epoch {w[1:]}"
    at = course.of("at", w)
    stands = f"an entry of epoch {course.of('written', at)}" if course.of("entry", at) else "no entry"
    return f"{w} cannot have got past position {at}, where {stands} stands"


_OWN = ("send", "claim_recognised", "recover", "acknowledge", "replay")
"""What a writer does within itself, as soon as it can; what it sends first."""


def _settled(course: Course) -> tuple[Course, tuple[Step, ...]]:
    """The course after all that writers do within themselves, and these steps."""
    steps: list[Step] = []
    load = "load", (f"b{course.of('newest')}",)
    if not course.of("loaded", *load[1]):
        course = _after(course, load)
    for (w,) in {**course.state["basis"], **course.state["mine"]}:
        while True:
            fresh = not course.of("sent", w, course.of("at", w))
            names = _OWN if fresh else _OWN[1:]
            step = next(((n, (w,)) for n in names if possible(course.state, (n, (w,)), sizes(course))), None)
            if step is None:
                break
            course = _after(course, step)
            steps.append(step)
    return course, tuple(steps)
