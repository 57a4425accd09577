"""Steps that may have made a change of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .course import FIRST, SEEN, Course, Partial, differs, moved
from .states import Step


def plans(course: Course, seen: Partial, *, lost: bool) -> Iterator[Sequence[Step]]:
    """Ways to make the change, the likeliest first."""
    changed = {name for name in SEEN if differs(course, seen, name)}
    if not changed:
        yield ()
    for fields, ways in _WAYS:
        if fields & changed:
            yield from ways(course, seen, lost)
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
        seen[name].get((), FIRST[name]) for name in ("epoch", "current", "hint", "pointer")
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


def _files(course: Course, seen: Partial, _lost: bool) -> Iterator[Sequence[Step]]:
    yield from ((("delete_files", place),) for place, _, _ in moved("files", course, seen))


_WAYS: tuple[tuple[frozenset[str], Callable[[Course, Partial, bool], Iterator[Sequence[Step]]]], ...] = (
    (frozenset({"entry", "written"}), _entries),
    (frozenset({"epoch", "version", "pointer", "hint", "current", "listed"}), _manifest),
    (frozenset({"newest", "progress", "caught_up", "retained"}), _table),
    (
        frozenset({"files"}),
        lambda course, seen, _lost: ((("delete_files", p),) for p, _, _ in moved("files", course, seen)),
    ),
)
"""Fields that a store shows -> the steps that change them."""
