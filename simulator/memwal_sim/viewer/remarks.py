"""What is worth saying about the steps of a film besides the requests: who ended, stopped or waited, what broke where.

All three forms of a film say these things, each in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from memwal.effects import StoreRequest
from memwal.errors import OutcomeUnknown
from memwal.stores.memory import Raised
from memwal.violations import Violation

from ..names import operation
from ..outcomes import FREE, Fate
from ..process import Ended
from ..simulation import StepTaken
from .addresses import Addresses
from .film import Film

HELD_FROM = 5
"""Steps of others between two of one actor from which on it is said to be held, times half the number of actors."""


class Sign(Enum):
    """Kind of a remark."""

    NOTE = "note"
    """An event that the actor reported."""
    END = "end"
    """The actor came to its end."""
    CRASH = "crash"
    """The actor makes no further request though it could."""
    BROKEN = "broken"
    """An oracle says no for the first time."""
    DIVERGED = "diverged"
    """The replay went another way than the trace."""
    EXPECTED = "expected"
    """What the trace says has to be so, and is."""
    UNEXPECTED = "unexpected"
    """What the trace says has to be so, and is not."""
    UNDER_WAY = "under way"
    """A request never landed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something that is said at a step."""

    step: int
    """Number of the step that it follows; 0: before the first."""
    sign: Sign
    actor: int | None
    """None for what is about no actor."""
    text: str
    more: tuple[str, ...] = ()
    """Further lines."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap in which an actor waits while others move."""

    actor: int
    after: int
    """Its last step before the gap; 0: it makes its first step behind the gap."""
    before: int
    """Its next step."""
    steps: int
    """Steps of others between."""
    long: bool
    """Long enough to be pointed out."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A request that the store did not answer and may still apply."""

    actor: int
    issued: int
    """Number of the step in which it was made."""
    landed: int | None
    """Number of the step in which it was applied; None if it is still under way at the end."""


class Path(Enum):
    """How far a request and its reply got."""

    WHOLE = "whole"
    """Request and reply arrived."""
    UNANSWERED = "unanswered"
    """The store applied the request; the reply did not arrive."""
    LOST = "lost"
    """The request did not arrive."""
    FLYING = "flying"
    """The caller gave up, and the request is still under way."""
    LANDED = "landed"
    """A request that was under way arrives."""


def path_of(film: Film, number: int) -> Path:
    """How far the request of step ``number`` got."""
    before, frame = film.frames[number - 1], film.frames[number]
    taken = frame.taken
    if taken is None or taken.fate is None:
        return Path.LANDED
    if len(frame.under_way) > len(before.under_way):
        return Path.FLYING
    if not (isinstance(taken.reply, Raised) and issubclass(taken.reply.kind, OutcomeUnknown)):
        return Path.WHOLE
    arrived = taken.fate is Fate.APPLIED or film.changed(number)
    return Path.UNANSWERED if arrived else Path.LOST


def is_fault(taken: StepTaken) -> bool:
    """Whether the step is not the normal one, or lands late."""
    return taken.fate not in FREE


def flights(film: Film) -> list[Flight]:
    """Requests with the fate that leaves them under way, in the order in which they were made."""
    open_: list[tuple[int, str, StoreRequest[Any]]] = []
    found: dict[int, int | None] = {}
    for number, taken in enumerate(film.taken(), 1):
        if taken.fate is None:
            issued = next(i for i in open_ if i[1:] == (taken.actor, taken.request))
            open_.remove(issued)
            found[issued[0]] = number
        elif path_of(film, number) is Path.FLYING:
            open_.append((number, taken.actor, taken.request))
            found[number] = None
    return [Flight(film.actors.index(film.at(i).actor), i, landed) for i, landed in sorted(found.items())]


def holds(film: Film) -> list[Gap]:
    """All gaps between steps of each actor, and before its first."""
    enough = max(HELD_FROM, HELD_FROM * len(film.actors) // 2)
    found = []
    for actor, name in enumerate(film.actors):
        own = [0, *film.steps_of(name)]
        for before, after in zip(own, own[1:], strict=False):
            steps = after - before - 1
            if steps:
                found.append(Gap(actor, before, after, steps, before > 0 and steps >= enough))
    return found


def remarks(film: Film, address: Addresses) -> list[Remark]:
    """All remarks, in the order of their steps."""
    found = [*_notes(film, address), *_ends(film), *_crashes(film, address), *_left(film, address)]
    found += [*_expected(film), *_broken(film), *_divergence(film)]
    return sorted(found, key=lambda remark: remark.step)


def asked(request: StoreRequest[Any], address: Addresses) -> str:
    """Operation and `named` of a request."""
    return f"{operation(request)} {named(request, address)}"


def named(request: StoreRequest[Any], address: Addresses) -> str:
    """Name of the object that a request is about, and the other name if it has one."""
    target = getattr(request, "target", "")
    return address(request.path) + (f" → {address(target)}" if target else "")


def _notes(film: Film, address: Addresses) -> list[Remark]:
    return [
        Remark(step=step.index, sign=Sign.NOTE, actor=film.actors.index(step.actor), text=address.short(note))
        for step in film.steps
        for note in step.notes
    ]


def _ends(film: Film) -> list[Remark]:
    found = []
    for actor, name in enumerate(film.actors):
        ended = [number for number, f in enumerate(film.frames) if isinstance(f.pauses[actor], Ended)]
        end = film.end(name)
        if ended and end is not None:
            how = "ends" if end.failure is None else f"ends with {end.failure.kind}: {end.failure.text}"
            found.append(Remark(step=ended[0], sign=Sign.END, actor=actor, text=f"{name} {how}"))
    return found


def _crashes(film: Film, address: Addresses) -> list[Remark]:
    found = []
    for actor, name in enumerate(film.actors):
        last, pause = film.crashed_after(name), film.frames[-1].pauses[actor]
        if last is None or pause is None or isinstance(pause, Ended):
            continue
        text = f"{name} makes no further request, as if it had crashed here (next: {asked(pause, address)})"
        found.append(Remark(step=last, sign=Sign.CRASH, actor=actor, text=text))
    return found


def _left(film: Film, address: Addresses) -> list[Remark]:
    end = len(film.steps)
    return [
        Remark(
            step=end,
            sign=Sign.UNDER_WAY,
            actor=flight.actor,
            text=f"still under way since step {flight.issued}: "
            f"{asked(film.at(flight.issued).request, address)} of {film.actors[flight.actor]}",
        )
        for flight in flights(film)
        if flight.landed is None
    ]


def _broken(film: Film) -> list[Remark]:
    found = []
    for oracle in range(len(film.oracles)):
        first = next(((n, v) for n, f in enumerate(film.frames) if (v := f.verdicts[oracle]) is not None), None)
        if first is not None:
            more = (first[1].reason, *(f"{name}: {value}" for name, value in first[1].shown))
            text = f"violates {first[1].clause}: {first[1].oracle}"
            found.append(Remark(step=first[0], sign=Sign.BROKEN, actor=None, text=text, more=more))
    return found


def _expected(film: Film) -> list[Remark]:
    """What has to be so after the steps that were replayed; facts are given where one is not."""
    replayed = film.replayed
    if replayed.elsewhere:
        return []
    found = []
    for expected in replayed.header.expected:
        if expected.after <= len(film.steps):
            wrong = replayed.unexpected
            failed = wrong is not None and wrong.expected == expected
            sign = Sign.UNEXPECTED if failed else Sign.EXPECTED
            more = (str(wrong),) if failed else ()
            found.append(Remark(step=expected.after, sign=sign, actor=None, text=expected.says, more=more))
    return found


def _divergence(film: Film) -> list[Remark]:
    found, at = film.replayed.divergence, film.replayed.diverged_at
    if found is None or at is None:
        return []
    text = f"diverges from step {found.index} of the trace: the {found.what} is another one"
    more = (f"recorded: {found.recorded}", f"found: {found.found}")
    return [Remark(step=at, sign=Sign.DIVERGED, actor=None, text=text, more=more)]


def verdict(film: Film) -> tuple[bool, str]:
    """Whether nothing is wrong, and one sentence about the whole replay."""
    violation: Violation | None = film.replayed.violation
    if violation is not None:
        return False, f"violates {violation.clause} at step {film.replayed.violation_at}: {violation.reason}"
    if film.replayed.header.violation is not None and not film.replayed.stopped_early:
        return False, "not reproduced: the engine no longer does what the trace records"
    if film.replayed.unexpected is not None:
        return False, f"not as the trace says: {film.replayed.unexpected}"
    broken: Sequence[Remark] = _broken(film)
    if broken:
        return False, f"{broken[0].text} at step {broken[0].step}: {broken[0].more[0]}"
    return True, "no violation"
