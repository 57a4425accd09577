"""A run told as a history of the machine: every change of a store as steps, one after another, or the run breaks off.

A store shows what processes do to it, and not what they do within themselves: what they replay or load, and what they
take for stored. Those steps are taken for them as soon as they can happen, and each table version has a builder that
loads it. Nothing is lost by that: a writer that has gone ahead can still do all that one could that waits, for what it
has sent may be carried out at any time. So a run breaks off only where no history of the machine has its changes.

Writers are named by their epochs (``w3``): two never have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .machine import ACTIONS, ASSUMPTIONS, FIELDS, INITIAL
from .states import Setting, Sizes, State, Step, after, possible, value_of
from .terms import Sort
from .text import PLAIN, parts

SEEN = (
    "epoch", "pointer", "current", "listed", "entry", "written", "newest", "progress", "caught_up", "retained", "hint",
    "version",
)  # fmt: skip
"""Fields that a store shows, what says most first. What is not there is as in the beginning."""

Partial = Mapping[str, Mapping[tuple[Any, ...], Any]]
"""What a store shows of a state: field -> arguments -> value."""

READINGS = tuple(name for name, each in ASSUMPTIONS.items() if each.note)
"""Assumptions that are readings of the texts, not axioms about the store."""
_MOVING = tuple(each.name for each in FIELDS if not each.over or not each.rigid)
_FIRST = {each.name: INITIAL[each] for each in FIELDS}


@dataclass(frozen=True, slots=True)
class Course:
    """A run up to here, as a state of the machine."""

    state: State
    known_from: int
    """Claims up to this epoch were made before the run was followed: what their writers know is not known."""
    without: tuple[str, ...] = ()
    """Readings that the run has been seen not to share."""

    def of(self, field: str, *place: Any) -> Any:
        """The value of a field."""
        return self.state[field].get(place, _FIRST[field])

    def reading(self, values: Mapping[str, bool]) -> Course:
        """With other values of settings or readings."""
        return replace(self, state={**self.state, **{name: {(): value} for name, value in values.items()}})

    def key(self) -> tuple[Any, ...]:
        """Equal for equal courses."""
        told = ((name, frozenset(self.state[name].items())) for name in _MOVING if self.state[name])
        return self.known_from, self.without, frozenset(told)


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
    course = Course(state, seen["epoch"].get((), 0))
    start = _start(course)
    entries = sorted(p for (p,) in seen["entry"])
    state["bottom"] = {(): min(start, *entries, start)}
    state["kept"] = {(p,): seen["written"][p,] for p in entries if p < start}
    state["files"] = dict(seen["listed"])
    state["restored"] = {(): course.of("newest")}
    state["covered"] = dict(seen["caught_up"])
    return _settled(course)[0]


def sizes(course: Course) -> Sizes:
    """What variables range over: numbers up to the next ones, writers by name; nobody reads, and keys are not told."""
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
    none, and of table versions what they consist of (``fragments``). ``lost``: whoever made the change did not learn
    of it.
    """
    nearest: Stopped | None = None
    seen = _without_late(course, seen)
    course = _adopted(course, seen)
    for plan in _plans(course, seen, lost=lost):
        found = _taken(course, plan, seen)
        if not isinstance(found, Stopped):
            return found
        nearest = nearest or replace(found, barrier=_is_barrier(found.nearest, seen))
    return nearest or Stopped(_changed(course, seen), None, "")


def _is_barrier(step: Step | None, seen: Partial) -> bool:
    return step is not None and step[0] == "carry_out" and not seen.get("rows", {}).get((step[1][1],), True)


def literal(course: Course, seen: Partial, *, lost: bool = False) -> tuple[Course, tuple[Step, ...]] | None:
    """As `follow`, without one reading that the run does not share; None if there is no such reading."""
    for name in READINGS:
        if name not in course.without:
            other, _ = _settled(replace(course.reading({name: False}), without=(*course.without, name)))
            found = follow(other, seen, lost=lost)
            if not isinstance(found, Stopped):
                return found
    return None


def _without_late(course: Course, seen: Partial) -> Partial:
    """Without table versions that take the number of one that expired: readers go by the newest.

    Nobody takes it where a collector has its grace time; elsewhere a late commit may.
    """
    kept = [place for place in seen["retained"] if course.of("retained", *place) or place[0] > course.of("newest")]
    progress = {place: seen["progress"].get(place, 0) for place in kept}
    caught_up = {place: to for place, to in seen["caught_up"].items() if place[:1] in kept}
    return {**seen, "retained": dict.fromkeys(kept, True), "progress": progress, "caught_up": caught_up}


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
    if not new:
        return course
    return replace(course, state={**course.state, **{n: {**course.state[n], **new} for n in ("caught_up", "covered")}})


def _start(course: Course) -> int:
    start: int = course.of("first") if course.of("current") == 1 else course.of("pointer") + 1
    return start


def _changed(course: Course, seen: Partial) -> str:
    """What changed in the store, in words."""
    if place := next((place for place in sorted(seen["entry"]) if _is_put(course, seen, place)), None):
        return f"position {place[0]} was put under epoch {seen['written'][place]}"
    return "; ".join(sorted(_told(name, course, seen) for name in SEEN if _differs(course, seen, name)))


def _told(name: str, course: Course, seen: Partial) -> str:
    moved = [(p, course.of(name, *p), seen[name].get(p, _FIRST[name])) for p in sorted(_places(name, course, seen))]
    return ", ".join(f"{name}{list(p) if p else ''}: {a} -> {b}" for p, a, b in moved if a != b)


def _places(name: str, course: Course, seen: Partial) -> set[tuple[Any, ...]]:
    """Where a field is compared; of versions that are not retained, and of dropped indexes, a store says nothing."""
    return {*seen[name]} if name in ("progress", "caught_up") else {*course.state[name], *seen[name]}


def _is_put(course: Course, seen: Partial, place: tuple[Any, ...]) -> bool:
    return bool(seen["written"][place] != course.of("written", *place))


def _differs(course: Course, seen: Partial, name: str) -> bool:
    """Whether a field is not as ``seen``."""
    return any(course.of(name, *p) != seen[name].get(p, _FIRST[name]) for p in _places(name, course, seen))


def _taken(course: Course, plan: Sequence[Step], seen: Partial) -> tuple[Course, tuple[Step, ...]] | Stopped:
    start, steps = course, list[Step]()
    for step in plan:
        if not possible(course.state, step, sizes(course)):
            return Stopped(_changed(start, seen), step, _because(course, step))
        course = _after(course, step)
        steps.append(step)
    wrong = [name for name in SEEN if _differs(course, seen, name)]
    if wrong:
        blamed = (step for step in plan if wrong[0] in {each.name for each in ACTIONS[step[0]].changed})
        made = f"it does not make that: {_told(wrong[0], course, seen)} is left"
        return Stopped(_changed(start, seen), next(blamed, plan[0] if plan else None), made, left=wrong[0])
    course, own = _settled(course)
    return course, (*steps, *own)


def _after(course: Course, step: Step) -> Course:
    return replace(course, state=after(course.state, step, sizes(course)))


def _because(course: Course, step: Step) -> str:
    """Why a step cannot happen."""
    name, parameters = step
    if name == "carry_out":
        w, p = parameters
        if course.of("entry", p):
            return f"an entry of epoch {course.of('written', p)} stands there"
        if not course.of("mine", w):
            return f"no writer has claimed epoch {w[1:]}"
        at = course.of("at", w)
        stands = f"an entry of epoch {course.of('written', at)}" if course.of("entry", at) else "no entry"
        return f"{w} cannot have got past position {at}, where {stands} stands"
    action = ACTIONS[name]
    env = {each.args[0]: value for each, value in zip(action.parameters, parameters, strict=True)}
    failing = (each for each in parts(action.when) if not value_of(each, course.state, env, sizes=sizes(course)))
    return f"{PLAIN.of(next(failing))} does not hold"


_OWN = ("send", "claim_recognised", "recover", "acknowledge", "replay")
"""What a writer does within itself, as soon as it can; what it sends first."""


def _settled(course: Course) -> tuple[Course, tuple[Step, ...]]:
    """The course after all that writers do within themselves, and these steps."""
    steps: list[Step] = []
    load = "load", (f"b{course.of('newest')}",)
    if not course.of("loaded", *load[1]):
        course = _after(course, load)
    for (w,) in {**course.state["read"], **course.state["mine"]}:
        while True:
            fresh = not course.of("sent", w, course.of("at", w))
            names = _OWN if fresh else _OWN[1:]
            step = next(((n, (w,)) for n in names if possible(course.state, (n, (w,)), sizes(course))), None)
            if step is None:
                break
            course = _after(course, step)
            steps.append(step)
    return course, tuple(steps)


# ---- Steps that may have made a change


def _plans(course: Course, seen: Partial, *, lost: bool) -> Iterator[Sequence[Step]]:
    """Ways to make the change, the likeliest first."""
    changed = {name for name in SEEN if _differs(course, seen, name)}
    if not changed:
        yield ()
    for fields, plans in _WAYS:
        if fields & changed:
            yield from plans(course, seen, lost)
            return


def _entries(course: Course, seen: Partial, _lost: bool) -> Iterator[Sequence[Step]]:
    for p in sorted({p for (p,) in {**course.state["entry"], **seen["entry"]}}):
        old, new = (course.of(name, p) for name in ("entry", "written")), (
            seen["entry"].get((p,), False), seen["written"].get((p,), 0),
        )  # fmt: skip
        if tuple(old) == new:
            continue
        if not new[0]:
            yield (("delete_entry", (p,)),)
            continue
        w = f"w{new[1]}"
        opens = course.of("at", w) == p and not course.of("opened", w) and seen.get("rows", {}).get((p,), False)
        put = ("carry_out", (w, p))
        yield (("open_without_barrier", (w,)), put) if opens else (put,)


def _manifest(course: Course, seen: Partial, lost: bool) -> Iterator[Sequence[Step]]:
    epoch, current, hint, pointer = (
        seen[name].get((), _FIRST[name]) for name in ("epoch", "current", "hint", "pointer")
    )
    w = f"w{epoch}"
    if current != course.of("current") or pointer != course.of("pointer"):
        listed = (
            ("flush", (w, course.of("begins", w), pointer)), ("list_generation", (w,)), ("learn_of_listing", (w,)),
        )  # fmt: skip
        yield listed if course.of("opened", w) else (("open_without_barrier", (w,)), *listed)
    elif not epoch:
        yield (("create_region", ()),)
    elif epoch != course.of("epoch"):
        yield (("read_manifest", (w,)), ("claim_of_nobody", ()) if lost else ("claim", (w,)))
    elif hint != course.of("hint"):
        yield (("raise_hint", (hint,)),)
    else:
        gone = sorted(g for (g,), there in course.state["listed"].items() if there and (g,) not in seen["listed"])
        w = f"w{course.of('epoch') + 1}"
        claim = ("read_manifest", (w,)), ("claim", (w,))
        yield (*(("doom", (g,)) for g in gone), ("unlist", (gone[0], gone[-1]))) if gone else claim


def _table(course: Course, seen: Partial, _lost: bool) -> Iterator[Sequence[Step]]:
    newest = seen["newest"].get((), 1)
    kept = [t for (t,), there in course.state["retained"].items() if there]
    expired = tuple(("expire", (t,)) for t in kept if (t,) not in seen["retained"])
    if newest == course.of("newest"):
        yield expired
        return
    now, then = course.of("progress", course.of("newest")), seen["progress"].get((newest,), 0)
    rows = seen.get("fragments", {})
    commit = ("load", ("b",)), ("commit_snapshot", ("b",))
    restores = [
        (("restore", (t,)),)
        for t in kept
        if t < course.of("newest") and then != now and rows.get((t,)) == rows.get((newest,))
    ]
    merge = ("prepare_merge", ("m", then)), ("merge", ("m",))
    credited = [_credit(course, i, to) for (t, i), to in seen["caught_up"].items() if t == newest]
    caught = [(step,) for step in credited if step is not None]
    yield from ((*plan, *expired) for plan in ([merge] if then > now else [*restores, *caught, commit]))


def _credit(course: Course, i: str, to: int) -> Step | None:
    """The commit of an index that is credited with ``to``, by a builder that loaded a version with that progress."""
    if to == course.of("caught_up", course.of("newest"), i):
        return None
    loaded = [(t, b) for (b,), t in course.state["loaded"].items() if t >= course.of("restored")]
    alike = [b for t, b in loaded if course.of("progress", t) == to]
    return "catch_up", (alike[-1] if alike else max(loaded)[1], i)


_WAYS: tuple[tuple[frozenset[str], Callable[[Course, Partial, bool], Iterator[Sequence[Step]]]], ...] = (
    (frozenset({"entry", "written"}), _entries),
    (frozenset({"epoch", "version", "pointer", "hint", "current", "listed"}), _manifest),
    (frozenset({"newest", "progress", "caught_up", "retained"}), _table),
)
"""Fields that a store shows -> the steps that change them."""
