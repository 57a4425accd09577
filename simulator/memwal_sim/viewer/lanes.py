"""A film as lines of text: a lane for each actor, one for the store, and words beside them."""

from __future__ import annotations

from dataclasses import dataclass

from .addresses import Addresses
from .diagram import SIGNS
from .film import Film
from .remarks import Path, Remark, Sign, asked, is_fault, path_of, remarks

LANES_MAX = 64
"""Columns that the lanes may take; if names need more, numbers stand for them."""
_NAME_MAX = 46
_STYLES = {
    Sign.NOTE: "dim",
    Sign.END: "",
    Sign.CRASH: "red",
    Sign.BROKEN: "bold red",
    Sign.DIVERGED: "yellow",
    Sign.EXPECTED: "green",
    Sign.UNEXPECTED: "bold red",
    Sign.UNDER_WAY: "red",
}
_PLAIN = str.maketrans("○●─━▷▶┊│┼╋◆■✕✗≠⇢╌…✓", "o*-=>>:|++@#xX!~-.v")
"""For terminals that have only ASCII."""


@dataclass(frozen=True, slots=True)
class LaneLine:
    """One line."""

    text: str
    style: str
    """For `rich`; empty for none."""


def plain(text: str) -> str:
    """``text`` with ASCII characters in place of arrows and signs."""
    return text.translate(_PLAIN)


def lines(film: Film, address: Addresses) -> list[LaneLine]:
    """The lane view."""
    return _Lanes(film, address).lines()


class _Lanes:
    def __init__(self, film: Film, address: Addresses) -> None:
        self.film, self.address = film, address
        self.digits = len(str(len(film.steps)))
        width = max((len(name) for name in film.actors), default=0) + 2
        self.names: tuple[str, ...] = film.actors
        if width * len(film.actors) > LANES_MAX:
            self.names = tuple(str(number) for number in range(1, len(film.actors) + 1))
            width = max(3, LANES_MAX // len(film.actors))
        self.width = width
        self.store = width * len(film.actors) + 3
        """Column of the store's lane."""
        self.own = [set(film.steps_of(name)) for name in film.actors]
        longest = max((len(asked(taken.request, address)) for taken in film.taken()), default=0)
        self.words = min(longest, _NAME_MAX)
        self.over: set[int] = set()
        """Actors whose lanes have come to their end."""
        self.said: dict[int, list[Remark]] = {}
        for remark in remarks(film, address):
            self.said.setdefault(remark.step, []).append(remark)

    def lines(self) -> list[LaneLine]:
        found = []
        if self.names != self.film.actors:
            legend = (f"{number} {name}" for number, name in zip(self.names, self.film.actors, strict=True))
            found.append(LaneLine(", ".join(legend), ""))
        head = "".join(name.center(self.width) for name in self.names).ljust(self.store - 2)
        found += [LaneLine(f"{'':{self.digits}} {head}store", "bold"), *self._remarks(0)]
        for number in range(1, len(self.film.steps) + 1):
            found += [self._step(number), *self._remarks(number)]
        return found

    def column(self, actor: int) -> int:
        return self.width * actor + (self.width - 1) // 2

    def _cells(self, number: int) -> list[str]:
        """The lanes at a step without its request: the actor that moves, those that wait, and the store."""
        cells = [" "] * (self.store + 1)
        for actor, own in enumerate(self.own):
            if actor in self.over:
                continue
            cells[self.column(actor)] = "│" if number in own else "┊"
        cells[self.store] = "│"
        return cells

    def _step(self, number: int) -> LaneLine:
        film, step = self.film, self.film.steps[number - 1]
        taken = film.at(number)
        changed = film.changed(number)
        path = path_of(film, number)
        cells = self._cells(number)
        dash, cross, head = ("━", "╋", "▶") if changed else ("─", "┼", "▷")
        start = self.column(film.actors.index(step.actor)) if path is not Path.LANDED else self.store - 3
        end = self.store if path not in (Path.LOST, Path.FLYING) else self.store - 2
        for place in range(start + 1, end):
            cells[place] = dash if cells[place] == " " else cross
        cells[start] = "⇢" if path is Path.LANDED else "●" if changed else "○"
        cells[end - 1] = {Path.LOST: "✗", Path.FLYING: "⇢"}.get(path, head)
        if path is Path.UNANSWERED:
            cells[self.store] = "✗"
        name = asked(taken.request, self.address)
        fate = f"  {step.outcome.upper()}" if is_fault(taken) else ""
        words = f"{name:{self.words}}  {step.answer}{fate}"
        style = "red" if is_fault(taken) else "" if changed else "dim"
        return LaneLine(f"{number:{self.digits}} {''.join(cells)} {words}".rstrip(), style)

    def _remarks(self, number: int) -> list[LaneLine]:
        found = []
        for remark in self.said.get(number, ()):
            cells, sign = self._cells(number), SIGNS[remark.sign]
            if remark.actor is not None and remark.sign is not Sign.UNDER_WAY:
                cells[self.column(remark.actor)] = sign
            if remark.sign in (Sign.END, Sign.CRASH) and remark.actor is not None:
                self.over.add(remark.actor)
            lanes = f"{'':{self.digits}} {''.join(cells)}"
            found.append(LaneLine(f"{lanes} {sign} {remark.text}", _STYLES[remark.sign]))
            lanes = f"{'':{self.digits}} {''.join(self._cells(number))}"
            found += [LaneLine(f"{lanes}   {text}", _STYLES[remark.sign]) for text in remark.more]
        return found
