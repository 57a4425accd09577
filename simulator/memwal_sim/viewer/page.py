"""A film as one self-contained page, which refers to nothing outside itself."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..traces.trace import Header
from .addresses import Addresses
from .diagram import ROW, SIGNS, draw
from .facts import Facts
from .film import Film
from .remarks import is_fault, verdict

COLOURS = 8
"""Colours of actors; with more actors than that, they are used again."""
PART_ROWS = 40
"""Rows of the diagram in one drawing: what is out of sight need not be painted."""
_SHOWN_APART = frozenset({"title", "description", "violation"})


def render(film: Film) -> str:
    """The page."""
    address = addresses(film)
    environment = Environment(
        loader=PackageLoader(__package__ or ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["px"] = lambda number: f"{number:g}"
    fine, sentence = verdict(film)
    diagram = draw(film, address)
    return environment.get_template("page.html.j2").render(
        film=film,
        header=film.replayed.header,
        about=_about(film.replayed.header),
        fine=fine,
        sentence=sentence,
        diagram=diagram,
        faults=[number for number, taken in enumerate(film.taken(), 1) if is_fault(taken)],
        strips=strips(film),
        signs={sign.value.replace(" ", "-"): character for sign, character in SIGNS.items()},
        colours=COLOURS,
        part=PART_ROWS,
        style=_asset("page.css"),
        script=_asset("page.js"),
        facts={
            **Facts(film, address).as_json(),
            "tops": [0, *(row.y - ROW // 2 for row in diagram.rows)],
            "heights": [diagram.start, *(row.height for row in diagram.rows)],
        },
    )


def addresses(film: Film) -> Addresses:
    """Names for all objects and folders that the film touches."""
    asked = [path for p in film.taken() for path in (p.request.path, getattr(p.request, "target", ""))]
    return Addresses({*asked, *(path for frame in film.frames for path in frame.contents.objects)})


def strips(film: Film) -> list[str]:
    """For each actor, path data of its steps on a line that is one unit high, and one unit wide for each step."""
    found = []
    for place, name in enumerate(film.actors):
        runs: list[list[int]] = []
        for number in film.steps_of(name):
            if runs and runs[-1][1] == number - 1:
                runs[-1][1] = number
            else:
                runs.append([number - 1, number])
        found.append("".join(f"M{start} {place}h{end - start}v.8h{start - end}z" for start, end in runs))
    return found


def _about(header: Header) -> list[tuple[str, str]]:
    found = [(field.name, getattr(header, field.name)) for field in fields(header) if field.name not in _SHOWN_APART]
    return [(name, _plain(value)) for name, value in found if value not in ((), {}, None)]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_plain(each)}" for name, each in value.items())
    if is_dataclass(value) and not isinstance(value, type):
        return " ".join(_plain(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_plain, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _asset(name: str) -> str:
    return (resources.files(__package__ or "") / "templates" / name).read_text("utf-8")
