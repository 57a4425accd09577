"""What may happen to a request besides its normal reply, and what each costs from the fault budget.

A store that does not answer may have applied the request, may not have, or may do so later. The last contains the other
two in what it lets happen, but they are the ones that tests and coverage ask for by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from memwal.effects import Copy, Delete, Put, PutIfAbsent, RenameIfAbsent, StoreRequest
from memwal.errors import OutcomeUnknown, Throttled
from memwal.stores.memory import Raised, Reply

from .store import SWITCHED, Contents, GoOn, perform

ENGINE_CLAUSE = "ENGINE"
"""In place of a clause of the specification: code of ours failed."""


class Fate(IntEnum):
    """What becomes of one request."""

    NORMAL = 0
    """Applied and answered."""
    LOST = 1
    """Never applied; the caller sees `OutcomeUnknown`."""
    APPLIED = 2
    """Applied; the caller sees `OutcomeUnknown`."""
    LATE = 3
    """The caller sees `OutcomeUnknown`; the request may still be applied, once, at any later moment."""
    THROTTLED = 4
    """Refused and not applied; the caller sees `Throttled`."""
    CONFLICT = 5
    """A conditional create that meets another one under way: undecided and not applied; the caller sees `Throttled`."""
    STALE = 6
    """A read that is answered as if the last change had not been made yet, on a store that remembers it."""
    SWITCH = 7
    """Not made now: another coroutine of the process that can run, too, runs instead."""

    @property
    def label(self) -> str:
        """The lower-case name that traces carry."""
        return self.name.lower()


FATES: dict[str, Fate] = {fate.label: fate for fate in Fate}
FREE: frozenset[Fate] = frozenset({Fate.NORMAL, Fate.SWITCH})
"""Fates that are no fault."""
FAULTS: frozenset[Fate] = frozenset(Fate) - FREE - {Fate.STALE}
"""All that is not normal on a store that answers by its contents; each costs one from the budget."""

UNLEARNED = frozenset({Fate.APPLIED, Fate.LATE})
"""Fates after which the caller does not know that its request was, or will be, applied."""

MUTATING: tuple[type[StoreRequest[Any]], ...] = (Put, PutIfAbsent, Delete, Copy, RenameIfAbsent)
"""Requests that change the store, and may therefore have an unknown outcome."""

_CONDITIONAL: tuple[type[StoreRequest[Any]], ...] = (PutIfAbsent, RenameIfAbsent)
_OF_MUTATING = (Fate.NORMAL, Fate.LOST, Fate.APPLIED, Fate.LATE, Fate.THROTTLED)
_OF_READING = (Fate.NORMAL, Fate.THROTTLED, Fate.STALE)


def fates(request: StoreRequest[Any], allowed: frozenset[Fate], *, switches: bool = False) -> tuple[Fate, ...]:
    """The fates that ``request`` may meet when those ``allowed`` are: normal first, then in order of `Fate`.

    ``switches``: another coroutine of its process can run, too.
    """
    possible: tuple[Fate, ...] = _OF_MUTATING if isinstance(request, MUTATING) else _OF_READING
    if isinstance(request, GoOn):
        possible = (Fate.NORMAL,)
    if isinstance(request, _CONDITIONAL):
        possible = (*possible, Fate.CONFLICT)
    if switches:
        possible = (*possible, Fate.SWITCH)
    return tuple(fate for fate in possible if fate is Fate.NORMAL or fate in allowed)


@dataclass(frozen=True, slots=True)
class Met:
    """A request and its fate, together."""

    contents: Contents
    """The store afterwards."""
    reply: Reply
    """What the caller sees."""
    orphaned: bool = False
    """The request is still under way and may be applied later."""


def meet(contents: Contents, request: StoreRequest[Any], fate: Fate) -> Met:
    """What ``fate`` makes of ``request``. Pure."""
    match fate:
        case Fate.NORMAL:
            return Met(*perform(contents, request))
        case Fate.THROTTLED | Fate.CONFLICT:
            return Met(contents, Raised(Throttled, request.path))
        case Fate.STALE:
            return Met(contents, perform(contents.before(request.path), request)[1])
        case Fate.SWITCH:
            return Met(contents, SWITCHED)
        case Fate.APPLIED:
            return Met(perform(contents, request)[0], Raised(OutcomeUnknown, request.path))
        case Fate.LOST | Fate.LATE:
            return Met(contents, Raised(OutcomeUnknown, request.path), orphaned=fate is Fate.LATE)
