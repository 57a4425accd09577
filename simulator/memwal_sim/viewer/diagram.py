"""The space-time diagram: where everything of a film is drawn. Time goes down, one row for each step.

From left to right: numbers, a lane for each actor, tracks of requests that are under way, the store, and words. All
lengths are in pixels.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from memwal.stores.memory import Raised

from ..simulation import StepTaken
from .addresses import Addresses
from .film import Film
from .remarks import Flight, Path, Remark, Sign, flights, holds, is_fault, named, path_of, remarks

TOP = 14
ROW = 26
"""Height of a row without remarks."""
LINE = 17
"""Height of a line of a remark."""
NUMBERS = 52
"""Width of the column of step numbers."""
_LANES_MAX = 330
_LANE_MIN, _LANE_MAX = 30, 150
_CHARACTER = 7.3
_TRACK = 9
_GUTTER = 26
_STORE = 10
_WORDS = 18
_WIDTH = 560
"""Width of the words."""
_WRAP = 52
"""Characters in a line of a remark: with these, a window of 1,280 pixels shows all of it beside the panels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of words below a step."""

    y: int
    sign: str
    """Kind of the remark; empty for its further lines."""
    kind: str
    """Kind of the remark, for all lines."""
    actor: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One step."""

    number: int
    y: int
    """Middle of the request."""
    height: int
    actor: int
    request: str
    """Path data; empty for what landed."""
    reply: str
    cross: tuple[float, int] | None
    """Where the request or its reply was lost."""
    fault: str
    """The fate in words; empty for the normal one."""
    broken: bool
    """An oracle says no for the first time."""
    refused: bool
    """The reply is that the store does not do it."""
    changed: bool
    """The contents of the store are others afterwards."""
    operation: str
    name: str
    answer: str
    label: str
    """The whole step in words, for those who do not see it."""
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """The life of an actor."""

    actor: int
    x: float
    busy: str
    """Path data of the times in which it moves."""
    waiting: str
    """Path data of the times in which it waits while others move."""
    pills: tuple[tuple[float, str], ...]
    """Where it waits for long, and for how many steps."""


@dataclass(frozen=True, slots=True)
class Track:
    """The way of a request that lands late, or never."""

    path: str
    landed: bool
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """All of it."""

    width: int
    height: int
    store: float
    """Left edge of the store's bar."""
    words: float
    lanes: tuple[Lane, ...]
    tilted: bool
    """Names of actors are wider than their lanes."""
    tracks: tuple[Track, ...]
    before: tuple[Line, ...]
    """Remarks about the world before the first step."""
    start: int
    """Height of what is above the first row."""
    rows: tuple[Row, ...]


def draw(film: Film, address: Addresses) -> Diagram:
    """The diagram of ``film``."""
    return _Drawing(film, address).diagram()


class _Drawing:
    def __init__(self, film: Film, address: Addresses) -> None:
        self.film, self.address = film, address
        actors = max(1, len(film.actors))
        wanted = max((len(name) for name in film.actors), default=0) * _CHARACTER + 30
        self.lane = max(_LANE_MIN, min(_LANE_MAX, wanted, _LANES_MAX / actors))
        self.tilted = wanted - 25 > self.lane
        self.flights = flights(film)
        self.places = _tracks(self.flights, len(film.steps))
        self.gutter = NUMBERS + self.lane * actors
        self.store = self.gutter + _GUTTER + _TRACK * len(set(self.places))
        self.said: dict[int, list[Remark]] = {}
        for remark in remarks(film, address):
            self.said.setdefault(remark.step, []).append(remark)
        self.y: list[int] = []
        """Middle of each step; the first is the world before them."""
        self.lines: list[tuple[Line, ...]] = []
        at = TOP
        for number in range(len(film.frames)):
            self.y.append(at + ROW // 2 if number else at)
            at += ROW if number else 0
            self.lines.append(self._lines(number, at - self.y[-1] + 8))
            at += LINE * len(self.lines[-1])
        self.height = at + TOP

    def diagram(self) -> Diagram:
        film = self.film
        return Diagram(
            width=round(self.store + _STORE + _WORDS + _WIDTH),
            height=self.height,
            store=self.store,
            words=self.store + _STORE + _WORDS,
            lanes=tuple(self._lane(actor) for actor in range(len(film.actors))),
            tilted=self.tilted,
            tracks=tuple(self._track(*each) for each in zip(self.flights, self.places, strict=True)),
            before=self.lines[0],
            start=TOP + LINE * len(self.lines[0]),
            rows=tuple(self._row(number, taken) for number, taken in enumerate(film.taken(), 1)),
        )

    def x(self, actor: int) -> float:
        return NUMBERS + self.lane * (actor + 0.5)

    def track_x(self, place: int) -> float:
        return self.gutter + _GUTTER / 2 + _TRACK * place

    def _lines(self, number: int, y: int) -> tuple[Line, ...]:
        """Lines of the remarks at a step; ``y``: of the first, from the middle of the step."""
        found: list[Line] = []
        for remark in self.said.get(number, ()):
            texts = [part for text in (remark.text, *remark.more) for part in textwrap.wrap(text, _WRAP) or [""]]
            for place, text in enumerate(texts):
                kind = remark.sign.value.replace(" ", "-")
                sign = kind if place == 0 else ""
                found.append(Line(y=y + LINE * len(found), sign=sign, kind=kind, actor=remark.actor, text=text))
        return tuple(found)

    def _row(self, number: int, taken: StepTaken) -> Row:
        step = self.film.steps[number - 1]
        actor = self.film.actors.index(taken.actor)
        path = path_of(self.film, number)
        request, reply, cross = self._shapes(self.x(actor), path, number)
        name = named(taken.request, self.address)
        fault = step.outcome if is_fault(taken) else ""
        label = f"Step {number}, {taken.actor}: {step.operation} {name}, {step.answer}{fault and ', '}{fault}"
        return Row(
            number=number,
            y=self.y[number],
            height=ROW + LINE * len(self.lines[number]),
            actor=actor,
            request=request,
            reply=reply,
            cross=cross,
            fault=fault,
            broken=any(line.kind == Sign.BROKEN.value for line in self.lines[number]),
            refused=isinstance(taken.reply, Raised),
            changed=self.film.changed(number),
            operation=step.operation,
            name=name,
            answer=step.answer,
            label=label,
            lines=self.lines[number],
        )

    def _shapes(self, x: float, path: Path, number: int) -> tuple[str, str, tuple[float, int] | None]:
        """Path data of request and reply, relative to the middle of the row, and where something got lost."""
        store = self.store
        out = f"M{x + 6:g} -4H{store - 1:g}m-5 -3.5l5 3.5l-5 3.5"
        back = f"M{store:g} 5H{x + 7:g}m5 -3l-5 3l5 3"
        gave_up = f"M{self.gutter + 4:g} 5H{x + 7:g}m5 -3l-5 3l5 3"
        match path:
            case Path.WHOLE:
                return out, back, None
            case Path.UNANSWERED:
                return out, gave_up, (self.gutter + 4, 5)
            case Path.LOST:
                return f"M{x + 6:g} -4H{self.gutter + 4:g}", gave_up, (self.gutter + 4, -4)
            case Path.FLYING:
                place = next(p for f, p in zip(self.flights, self.places, strict=True) if f.issued == number)
                return f"M{x + 6:g} -4H{self.track_x(place):g}", gave_up, None
        return "", "", None

    def _track(self, flight: Flight, place: int) -> Track:
        x, start = self.track_x(place), self.y[flight.issued] - 4
        request = self.film.at(flight.issued).request
        what = f"{self.film.actors[flight.actor]}: {self.address(request.path)}"
        if flight.landed is None:
            path = f"M{x:g} {start}V{self.height - TOP}"
            return Track(path, landed=False, label=f"{what}, under way since step {flight.issued}")
        end = self.y[flight.landed]
        path = f"M{x:g} {start}V{end - 5}q0 5 5 5H{self.store - 1:g}m-6 -4l6 4l-6 4"
        return Track(path, landed=True, label=f"{what}, made at step {flight.issued}, lands at step {flight.landed}")

    def _lane(self, actor: int) -> Lane:
        name, x = self.film.actors[actor], self.x(actor)
        own = self.film.steps_of(name)
        waiting, pills = "", []
        for held in (each for each in holds(self.film) if each.actor == actor):
            start, end = self.y[held.after] + (7 if held.after else 0), self.y[held.before] - 7
            waiting += f"M{x:g} {start}V{end}"
            if held.long:
                pills.append(((start + end) / 2, f"{held.steps}"))
        busy = "".join(f"M{x:g} {self.y[a]}V{self.y[b]}" for a, b in zip(own, own[1:], strict=False) if b == a + 1)
        if own:
            busy += f"M{x:g} {self.y[own[-1]]}V{self._stop(actor)}"
        return Lane(actor, x, busy, waiting, tuple(pills))

    def _stop(self, actor: int) -> int:
        """Where the lane ends: at the mark of a crash or of the actor's end, else at the bottom."""
        signs = {Sign.END.value, Sign.CRASH.value}
        marks = (
            self.y[number] + line.y - 10
            for number, lines in enumerate(self.lines)
            for line in lines
            if line.actor == actor and line.sign in signs
        )
        return next(marks, self.height - TOP)


def _tracks(found: list[Flight], steps: int) -> list[int]:
    """A place for each flight so that no two share one at a time."""
    free_from: list[int] = []
    places = []
    for flight in found:
        end = steps + 1 if flight.landed is None else flight.landed
        place = next((p for p, free in enumerate(free_from) if free <= flight.issued), len(free_from))
        if place == len(free_from):
            free_from.append(end)
        free_from[place] = end
        places.append(place)
    return places


SIGNS = {
    Sign.NOTE: "◆",
    Sign.END: "■",
    Sign.CRASH: "✕",
    Sign.BROKEN: "✗",
    Sign.DIVERGED: "≠",
    Sign.EXPECTED: "✓",
    Sign.UNEXPECTED: "✗",
    Sign.UNDER_WAY: "⇢",
}
"""A character for each kind of remark."""
