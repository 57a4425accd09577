"""Steps that scenarios have in common: they stand under a name in ``scenarios/included/steps.json``, and are included.

``{"include": "read", "with": {"actor": "two", "as": "seen", …}}`` stands for the steps of that name. ``{actor}`` in
them is replaced by what ``with`` says: by any JSON value where it is all of a text, by text within a longer one. Only
the loader of scenarios sees an include.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from memwal.errors import InvalidArgument, check_name

from ..places import SUITE
from ..protocol import Json
from ..vectors import BadCase

FILE = SUITE / "scenarios" / "included" / "steps.json"
INCLUDE, WITH = "include", "with"
_PLACE = re.compile(r"\{([a-z_]+)\}")


@cache
def known() -> Mapping[str, Json]:
    """Name -> ``about``, one sentence, and ``steps``."""
    found: dict[str, Json] = json.loads(FILE.read_text("utf-8"))
    return found


def expanded(described: Any, file: Path) -> Any:
    """A scenario as it stands in ``file``, with all steps that it includes. Raises `BadCase` with the step.

    What is no scenario stays as it is, for the schema to refuse.
    """
    if not isinstance(described, dict):
        return described
    listed = {part: steps for part in ("steps", "afterwards") if isinstance(steps := described.get(part), list)}
    return {**described, **{part: list(_all(steps, f"{file}: {part}")) for part, steps in listed.items()}}


def _all(steps: list[Any], where: str) -> Iterator[Any]:
    for number, step in enumerate(steps, 1):
        if not (isinstance(step, dict) and INCLUDE in step):
            yield step
            continue
        try:
            yield from _included(step)
        except InvalidArgument as wrong:
            raise BadCase(f"{where}, {number}: {wrong}") from wrong


def _included(step: Json) -> list[Json]:
    for name in step:
        check_name("member of an include", name, (INCLUDE, WITH))
    check_name("steps to include", str(step[INCLUDE]), sorted(known()))
    steps: list[Json] = known()[step[INCLUDE]]["steps"]
    parameters = step.get(WITH, {})
    if not isinstance(parameters, dict):
        raise InvalidArgument(f"the parameters of {step[INCLUDE]} must be an object: {parameters!r}")
    wanted = set(_PLACE.findall(json.dumps(steps)))
    for name in parameters:
        check_name(f"parameter of {step[INCLUDE]}", name, sorted(wanted))
    if missing := sorted(wanted - parameters.keys()):
        raise InvalidArgument(f"{step[INCLUDE]} needs the parameter {missing[0]}")
    return [_filled(each, parameters) for each in steps]


def _filled(value: Any, parameters: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_filled(each, parameters) for each in value]
    if isinstance(value, dict):
        return {name: _filled(each, parameters) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    if whole := _PLACE.fullmatch(value):
        return parameters[whole[1]]
    return _PLACE.sub(lambda place: _text(place[1], parameters[place[1]]), value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text, not {value!r}")
    return value
