"""A film as a Mermaid sequence diagram, for pages that render those."""

from __future__ import annotations

from collections.abc import Iterator

from .addresses import Addresses
from .diagram import SIGNS
from .film import Film
from .remarks import Path, Remark, Sign, asked, flights, is_fault, path_of, remarks

_STORE = "S"
_RED = "rect rgba(200, 40, 30, 0.15)"
_ESCAPES = str.maketrans({"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;", "%": "#37;", '"': "#quot;", "\n": " "})


def render(film: Film, address: Addresses) -> str:
    """The text of the diagram; each request is a message and each reply another, with the number of the step."""
    return "\n".join(_lines(film, address)) + "\n"


def _lines(film: Film, address: Addresses) -> Iterator[str]:
    yield "sequenceDiagram"
    yield f"    accTitle: {_text(film.replayed.header.title)}"
    for actor, name in enumerate(film.actors):
        yield f"    participant {_id(actor)} as {_text(name)}"
    yield f"    participant {_STORE} as store"
    said: dict[int, list[Remark]] = {}
    for remark in remarks(film, address):
        said.setdefault(remark.step, []).append(remark)
    landed = {flight.landed: flight.issued for flight in flights(film)}
    for number in range(len(film.frames)):
        if number:
            yield from _step(film, number, address, landed.get(number))
        for remark in said.get(number, ()):
            yield from _remark(film, remark)


def _step(film: Film, number: int, address: Addresses, issued: int | None) -> Iterator[str]:
    step, taken = film.steps[number - 1], film.at(number)
    actor, fault = _id(film.actors.index(step.actor)), is_fault(taken)
    what = _text(f"{number} {asked(taken.request, address)}")
    answer = _text(step.answer)
    if fault:
        what += f" ({_text(step.outcome)})"
        yield f"    {_RED}"
    match path_of(film, number):
        case Path.WHOLE:
            yield f"    {actor}->>{_STORE}: {what}"
            yield f"    {_STORE}-->>{actor}: {answer}"
        case Path.UNANSWERED:
            yield f"    {actor}->>{_STORE}: {what}"
            yield f"    {_STORE}--x{actor}: {answer}"
        case Path.LOST:
            yield f"    {actor}-x{_STORE}: {what}"
        case Path.FLYING:
            yield f"    {actor}-){_STORE}: {what}, still under way"
        case Path.LANDED:
            yield f"    {actor}-){_STORE}: {what} of step {issued}: {answer}"
    if fault:
        yield "    end"


def _remark(film: Film, remark: Remark) -> Iterator[str]:
    over = _STORE if remark.actor is None else _id(remark.actor)
    if remark.actor is None and film.actors:
        over = f"{_id(0)},{_STORE}"
    text = "<br/>".join(_text(line) for line in (f"{SIGNS[remark.sign]} {remark.text}", *remark.more))
    red = remark.sign in (Sign.BROKEN, Sign.CRASH, Sign.UNEXPECTED)
    if red:
        yield f"    {_RED}"
    yield f"    Note over {over}: {text}"
    if red:
        yield "    end"


def _id(actor: int) -> str:
    return f"A{actor + 1}"


def _text(text: str) -> str:
    """``text`` without what Mermaid would take for its own."""
    return text.translate(_ESCAPES)
