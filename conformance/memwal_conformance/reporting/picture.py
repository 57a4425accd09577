"""The space-time picture of a case: a lane for each actor, one for the store, time downwards.

Actors of a conformance run are foreign processes: all that is known of them is which messages they got, what they
answered, and, behind the gate, which requests they made. All lengths are in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..protocol import Json
from ..verdicts import CaseResult

NUMBERS, LANE, STORE, WORDS = 34.0, 92.0, 60.0, 18.0
"""Width of the numbers, of an actor's lane, of the way to the store, and of the gap before the words."""
ROW, TOP = 24, 10
"""Height of a row, and of what is above the first one."""
COLOURS = 8
"""Colours of actors; with more actors than that, they are used again."""
_CHARACTER = 7.3
QUIET = ("configure", "hello", "shutdown")
"""Messages that are about the process and not about the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRow:
    """One thing that happened."""

    kind: str
    """``message``, ``request``, ``kill``, ``rule``, ``check`` or ``again``."""
    y: int
    number: str
    """Of the step or, with ``#``, of the request in the gate's log; empty for what has none."""
    actor: int | None
    x: float
    """Where it is: on the lane of its actor, or at the left edge of the lanes."""
    words: str
    answer: str
    bad: bool
    """An expectation did not hold, or the store did not do what was asked."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The time from an actor's first message to its last, or to its end by force."""

    actor: int
    x: float
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All of it."""

    actors: tuple[tuple[str, float, int], ...]
    """Name, place of the lane, number of the colour."""
    store: float | None
    """Place of the store's lane."""
    words: float
    width: int
    height: int
    rows: tuple[PictureRow, ...]
    lives: tuple[Lifetime, ...]


def draw(result: CaseResult) -> Picture | None:
    """The picture of a case; None if nothing was done in it that is worth one."""
    steps = [(n, step) for n, step in enumerate(result.steps, 1) if step.get("message") not in QUIET]
    if result.area != "scenario" or not steps:
        return None
    names = list(dict.fromkeys(_names([step for _, step in steps], result.requests)))
    return _Picture(names, steps, result.requests).picture()


def _names(steps: Sequence[Json], requests: Sequence[Json]) -> list[str]:
    asked = [step.get("actor", step.get("kill")) for step in steps]
    return [name for name in [*asked, *(request["actor"] for request in requests)] if name is not None]


class _Picture:
    def __init__(self, names: list[str], steps: Sequence[tuple[int, Json]], requests: Sequence[Json]) -> None:
        self.names, self.steps, self.requests = names, steps, requests
        self.lane = max([LANE, *(len(name) * _CHARACTER + 24 for name in names)])
        self.rows: list[PictureRow] = []
        self.lives: list[Lifetime] = []
        self.alive: dict[int, list[int]] = {}
        """Actor -> where its present life begins, and where it was seen last."""
        self.shown = 0

    def picture(self) -> Picture:
        for number, step, times in _grouped(self.steps):
            self._requests(step.get("requests", self.shown))
            self._step(number, step, times)
        self._requests(len(self.requests))
        for actor in list(self.alive):
            self._over(actor)
        edge = NUMBERS + self.lane * len(self.names)
        store = edge + STORE if self.requests else None
        words = (edge if store is None else store) + WORDS
        longest = max(len(row.words) + len(row.answer) + 3 for row in self.rows)
        return Picture(
            actors=tuple((name, self.x(place), place % COLOURS) for place, name in enumerate(self.names)),
            store=store,
            words=words,
            width=round(words + longest * _CHARACTER + 16),
            height=TOP + ROW * len(self.rows) + TOP,
            rows=tuple(self.rows),
            lives=tuple(self.lives),
        )

    def x(self, actor: int) -> float:
        return NUMBERS + self.lane * (actor + 0.5)

    def _requests(self, until: int) -> None:
        """Rows of the requests that had been logged by then."""
        for request in self.requests[self.shown : until]:
            normal = request["fate"] == "normal"
            said = f"{request['status'] or 'no answer'}" + ("" if normal else f", {request['fate']}")
            words = f"{request['operation']} {request['name']}"
            self._add("request", f"#{request['order']}", request["actor"], words, said, bad=not normal)
        self.shown = max(self.shown, until)

    def _step(self, number: int, step: Json, times: int) -> None:
        if "again" in step:
            self._requests(len(self.requests))
            self._add("again", "", None, f"{step['again']}; the case is run again", "")
            for actor in list(self.alive):
                self._over(actor)
        elif "check" in step:
            broken = step["broken"]
            said = broken or ("holds" if times == 1 else f"holds, {times} times")
            self._add("check", f"{number}", None, f"check {step['check']}", said, bad=broken is not None)
        elif "rule" in step:
            self._add("rule", f"{number}", None, f"{step['what']} the rule {step['rule']}", "")
        elif "kill" in step:
            self._add("kill", f"{number}", step["kill"], f"SIGKILL {step['kill']}", "", bad=not step["died"])
            self._over(self.names.index(step["kill"]))
        else:
            answer, bad = answered(step)
            self._add("message", f"{number}", step["actor"], f"{step['message']}{_told(step)}", answer, bad=bad)

    def _add(self, kind: str, number: str, name: str | None, words: str, answer: str, *, bad: bool = False) -> None:
        y = TOP + ROW * len(self.rows) + ROW // 2
        actor = None if name is None else self.names.index(name)
        if actor is not None:
            self.alive.setdefault(actor, [y, y])[1] = y
        place = NUMBERS if actor is None else self.x(actor)
        row = PictureRow(
            kind=kind,
            y=y,
            number=number,
            actor=actor,
            x=place,
            words=_cut(words),
            answer=_cut(answer),
            bad=bad,
        )
        self.rows.append(row)

    def _over(self, actor: int) -> None:
        start, end = self.alive.pop(actor)
        self.lives.append(Lifetime(actor, self.x(actor), start, end))


def _grouped(steps: Sequence[tuple[int, Json]]) -> list[tuple[int, Json, int]]:
    """Steps, and how often each happens in a row: of checks of one name that hold, only the first is shown."""

    def same(numbered: tuple[int, Json]) -> str | int:
        number, step = numbered
        return str(step["check"]) if "check" in step and step["broken"] is None else number

    groups = [list(group) for _, group in groupby(steps, same)]
    return [(*group[0], len(group)) for group in groups]


def answered(step: Json) -> tuple[str, bool]:
    """The outcome of a message in a few words, and whether there was none that the protocol allows."""
    outcome = step["outcome"]
    if "error" in outcome:
        return str(outcome["error"]["kind"]), False
    if "killed" in outcome:
        return "killed before it answered", False
    if "broken" in outcome:
        return str(outcome["broken"]).partition("\n")[0], True
    return _short(outcome["result"]), False


def _told(step: Json) -> str:
    """The parameters that tell most, in a few words."""
    params = step["params"]
    parts = []
    for member in ("rows", "keys"):
        if isinstance(params.get(member), dict) and "rows" in params[member]:
            parts.append(_count(len(params[member]["rows"]), member.removesuffix("s")))
    if "durable" in params:
        parts.append("durable" if params["durable"] else "not durable")
    if "consistency" in params:
        parts.append(str(params["consistency"]))
    return f" ({', '.join(parts)})" if parts else ""


def _short(answer: Json) -> str:
    parts = []
    for member, value in answer.items():
        if member == "rows" and isinstance(value, dict):
            parts.append(_count(len(value["rows"]), "row"))
        elif isinstance(value, str | int) and len(str(value)) <= 12:
            parts.append(f"{member} {value}")
        elif isinstance(value, list):
            parts.append(f"{member} {len(value)}")
    return ", ".join(parts) or "done"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _cut(text: Any, most: int = 110) -> str:
    line = str(text).partition("\n")[0]
    return line if len(line) <= most else line[: most - 1] + "…"
