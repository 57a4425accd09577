"""Making a violating history small: fewer steps, then fewer faults, then fewer changes from one process to another.

A history is a list of moves: which process moves, and what becomes of its request. Moves can be left out and put in
another order, and what is left is replayed: a move of a process that has ended is passed over, and a fate that the
request of the moment cannot meet is the normal one. What is tried is decided by the history alone, so that equal
histories shrink to equal ones. The result is smallest among its neighbours, not of all: that takes an exploration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from memwal.effects import StoreRequest
from memwal.errors import InvalidArgument
from memwal.violations import Violation
from memwal.words import counted

from ..exploring.exploration import Move
from ..exploring.tables import FATE_BITS
from ..exploring.unfolding import START, Unfolding
from ..outcomes import FREE, Fate
from ..world import World

TRIES_MAX = 20_000
"""Histories that are tried; counted, not timed, so that the result is the same on every machine."""
SHIFT_MAX = 16
"""Turns by which a change from one process to another is made earlier, at most."""
_REPORT_EVERY = 64

Moves: TypeAlias = tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkProgress:
    """Where shrinking stands."""

    tries: int
    steps: int
    """Of the smallest history so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """How shrinking went."""

    before: Moves
    """The history that was given."""
    moves: Moves
    """The small one; it ends in the first state that is violated."""
    violation: Violation
    """Of the same oracle and clause as before."""
    tries: int
    """Histories that were replayed."""
    limit: str | None
    """What stopped it before nothing smaller was left to try."""
    seconds: float


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """What makes a history small: compared field by field."""

    steps: int
    faults: int
    late: int
    """Requests that are applied, or may be, long after their process gave them up."""
    changes: int
    """Times that another process moves than the one before."""


def size(moves: Sequence[Move]) -> Size:
    """The size of a history."""
    actors = [move.actor for move in moves]
    return Size(
        steps=len(moves),
        faults=sum(move.fate is not None and move.fate not in FREE for move in moves),
        late=sum(move.fate is Fate.LATE for move in moves),
        changes=sum(one != other for one, other in zip(actors, actors[1:], strict=False)),
    )


def shrink(
    world: World,
    moves: Sequence[Move],
    *,
    clause: str,
    oracle: str,
    tries_max: int = TRIES_MAX,
    progress: Callable[[ShrinkProgress], None] | None = None,
) -> Shrunk:
    """A small history of ``world`` that ends in a violation of ``clause`` by ``oracle``, made of ``moves``.

    Raises `InvalidArgument` if ``moves`` do not end in one, or for more processes than an `Unfolding` can have.
    """
    began = time.monotonic()
    searching = _Shrinking(world, clause, oracle, tries_max, progress)
    first = searching.replay(moves)
    if first is None:
        raise InvalidArgument(f"the history does not violate {clause} ({oracle})")
    searching.best = first
    while searching.round():
        continue
    return Shrunk(
        before=tuple(moves),
        moves=searching.best[0],
        violation=searching.best[1],
        tries=searching.tries,
        limit=counted(tries_max, "history", "histories") if searching.over else None,
        seconds=time.monotonic() - began,
    )


_Replayed: TypeAlias = tuple[Moves, Violation]


class _Shrinking:
    best: _Replayed

    def __init__(
        self, world: World, clause: str, oracle: str, tries_max: int, progress: Callable[[ShrinkProgress], None] | None
    ) -> None:
        self.unfolding = Unfolding(world, frozenset(Fate) - {Fate.NORMAL}, oracle)
        self.lane = {process.name: lane for lane, process in enumerate(world.processes)}
        self.clause = clause
        self.tries_max = tries_max
        self.progress = progress
        self.tries = 0
        self.tried: set[Moves] = set()

    @property
    def over(self) -> bool:
        return self.tries >= self.tries_max

    def round(self) -> bool:
        """Try everything once; whether something helped."""
        before = self.best[0]
        for each in (self._without_actors, self._without_tails, self._without_chunks, self._faults, self._joined):
            each()
        if self.best[0] == before:
            self._shifted()
        return self.best[0] != before and not self.over

    def attempt(self, candidate: Sequence[Move]) -> bool:
        """Play ``candidate``; whether it is the best from now on."""
        key = tuple(candidate)
        if self.over or key in self.tried:
            return False
        self.tried.add(key)
        self.tries += 1
        if self.progress is not None and self.tries % _REPORT_EVERY == 0:
            self.progress(ShrinkProgress(tries=self.tries, steps=len(self.best[0])))
        replayed = self.replay(candidate)
        if replayed is None or size(replayed[0]) >= size(self.best[0]):
            return False
        self.best = replayed
        return True

    def replay(self, candidate: Sequence[Move]) -> _Replayed | None:
        """What was made of ``candidate``, to the first violation; None if there is none, or one of another clause."""
        unfolding, state = self.unfolding, START
        made: list[Move] = []
        if START in unfolding.violations:
            return self._ended((), unfolding.violations[START])
        for wanted in candidate:
            found = self._key(state, wanted)
            if found is None:
                continue
            key, move = found
            known = unfolding.after[state].get(key)
            state = unfolding.replay(state, key) if known is None else known
            made.append(move)
            violation = unfolding.violations.get(state)
            if violation is not None:
                return self._ended(tuple(made), violation)
        return None

    def _ended(self, made: Moves, violation: Violation) -> _Replayed | None:
        return (made, violation) if violation.clause == self.clause else None

    def _key(self, state: int, wanted: Move) -> tuple[int, Move] | None:
        """The number of the move that comes nearest to ``wanted`` in ``state``, and what it is; None: nothing does."""
        unfolding = self.unfolding
        if wanted.landed is not None:
            return self._landing(state, wanted.actor, wanted.landed)
        lane = self.lane[wanted.actor]
        if lane not in unfolding.lanes[state]:
            return None
        fate = wanted.fate if wanted.fate is not None and wanted.fate in unfolding.faults(state, lane) else Fate.NORMAL
        return lane << FATE_BITS | fate, Move(wanted.actor, fate)

    def _landing(self, state: int, actor: str, wanted: StoreRequest[Any]) -> tuple[int, Move] | None:
        """That the request ``wanted`` lands, or else one to the same object, or else any of ``actor``."""
        own = [(place, it) for place, (whose, it) in enumerate(self.unfolding.under_way(state)) if whose == actor]
        if not own:
            return None

        def strangeness(found: tuple[int, StoreRequest[Any]]) -> tuple[bool, bool]:
            _, it = found
            return it != wanted, (type(it), it.path) != (type(wanted), wanted.path)

        place, request = min(own, key=strangeness)
        return (len(self.lane) + place) << FATE_BITS, Move(actor, None, request)

    def _without_actors(self) -> None:
        for actor in sorted({move.actor for move in self.best[0]}):
            self.attempt([move for move in self.best[0] if move.actor != actor])

    def _without_tails(self) -> None:
        """Each process stops earlier: by half of its moves, by a quarter, …, by one."""
        for actor in sorted({move.actor for move in self.best[0]}):
            many = sum(move.actor == actor for move in self.best[0]) // 2
            while many:
                moves = self.best[0]
                places = [place for place, move in enumerate(moves) if move.actor == actor]
                gone = set(places[len(places) - many :])
                if not self.attempt([move for place, move in enumerate(moves) if place not in gone]):
                    many //= 2

    def _without_chunks(self) -> None:
        many = len(self.best[0]) // 2
        while many:
            start, helped = 0, False
            while start < len(self.best[0]):
                moves = self.best[0]
                if self.attempt(moves[:start] + moves[start + many :]):
                    helped = True
                else:
                    start += many
            if not helped or many > 1:
                many //= 2

    def _faults(self) -> None:
        """Requests that fail are answered; those that land late are applied at once, or never."""
        for place in range(len(self.best[0])):
            moves = self.best[0]
            if place < len(moves) and moves[place].fate not in (None, Fate.NORMAL):
                for changed in _milder(moves, place):
                    if self.attempt(changed):
                        break

    def _joined(self) -> None:
        """Moves of one process that are apart are made one after another, at the earlier or at the later place."""
        at = 0
        while True:
            runs = list(_runs(self.best[0]))
            if at >= len(runs):
                return
            if not any(self.attempt(_flat(changed)) for changed in _joinings(runs, at)):
                at += 1

    def _shifted(self) -> None:
        """A process is left earlier, so that the next one has less to do: the slowest to try, and so the last."""
        for at in range(len(list(_runs(self.best[0]))) - 1):
            runs = list(_runs(self.best[0]))
            for changed in _shiftings(runs, at) if at + 1 < len(runs) else ():
                if self.attempt(_flat(changed)):
                    break


def _milder(moves: Moves, place: int) -> Iterator[list[Move]]:
    """``moves`` with milder fates of the one at ``place``."""
    move = moves[place]
    yield [*moves[:place], replace(move, fate=Fate.NORMAL), *moves[place + 1 :]]
    if move.fate is not Fate.LATE:
        return
    landing = next((at for at in range(place + 1, len(moves)) if _lands(moves[at], move)), None)
    for fate in (Fate.LOST, Fate.APPLIED):
        rest = [other for at, other in enumerate(moves[place + 1 :], place + 1) if at != landing]
        yield [*moves[:place], replace(move, fate=fate), *rest]


def _lands(move: Move, late: Move) -> bool:
    return move.fate is None and move.actor == late.actor


def _runs(moves: Moves) -> Iterator[list[Move]]:
    """Moves of one process after another, together."""
    run: list[Move] = []
    for move in moves:
        if run and run[-1].actor != move.actor:
            yield run
            run = []
        run.append(move)
    if run:
        yield run


def _joinings(runs: list[list[Move]], at: int) -> Iterator[list[list[Move]]]:
    """``runs`` with the one at ``at`` and the next of the same process brought together."""
    other = next((place for place in range(at + 1, len(runs)) if runs[place][0].actor == runs[at][0].actor), None)
    if other is None:
        return
    between = runs[at + 1 : other]
    yield [*runs[:at], runs[at], runs[other], *between, *runs[other + 1 :]]
    yield [*runs[:at], *between, runs[at], runs[other], *runs[other + 1 :]]


def _shiftings(runs: list[list[Move]], at: int) -> Iterator[list[list[Move]]]:
    """``runs`` with the end of the one at ``at`` put behind the next one, which is cut."""
    one, other = runs[at], runs[at + 1]
    for late in range(1, min(len(one), SHIFT_MAX) + 1):
        for cut in range(1, min(len(other), SHIFT_MAX) + 1):
            stays, goes = one[: len(one) - late], one[len(one) - late :]
            yield [*runs[:at], stays, other[: len(other) - cut], goes, *runs[at + 2 :]]


def _flat(runs: Sequence[Sequence[Move]]) -> list[Move]:
    return [move for run in runs for move in run]
