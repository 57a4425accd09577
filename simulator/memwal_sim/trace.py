"""Traces: one history as text, JSON lines: a header, then one line per step.

Steps are chosen by process and request, not by number, so that a trace survives changes of the engine that it is not
about; digests of replies and contents pin the first place where a replay goes another way. The format is
``faults/schema/trace.schema.json``, and `parse` is as strict as that.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from memwal.errors import ArtifactError

from . import places
from .cast import Part

FORMAT = 1
"""Version of the format that is written and read."""
LANDED = "landed"
"""Outcome of a step in which a request that was under way is applied."""
CLAUSE = "TRACE"
"""Clause of the `ArtifactError` that a broken trace is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The violation in which a trace ends."""

    clause: str
    oracle: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a history was played in."""

    format: int = FORMAT
    scenario: str
    revision: str
    profile: str
    readings: dict[str, bool | int | str]
    """Fields of the interpretation that differ from the profile's, planted bugs left out."""
    bugs: tuple[str, ...]
    """Planted bugs."""
    faults: int
    """Fault budget of the exploration."""
    preemptions: int | None
    """Preemption bound of the exploration."""
    engine: str
    """Digest of the engine's sources."""
    title: str
    """One line for lists."""
    description: str
    """What happens and why it is wrong, in plain words."""
    violation: Found | None
    """None for a history without one."""
    cast: tuple[Part, ...] = ()
    """The processes, where the scenario is a play: a world whose processes are given (`memwal_sim.plays`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request and what became of it."""

    index: int
    """From 1."""
    actor: str
    site: str
    """The protocol function that made the request; empty when it lands late."""
    operation: str
    path: str
    """Symbolic name, see `memwal_sim.names`."""
    outcome: str
    """Label of a `Fate`, or `LANDED`."""
    answer: str
    """The reply in words."""
    reply: str
    """Digest of the reply: 16 hexadecimal digits."""
    store: str
    """Digest of the contents afterwards: 16 hexadecimal digits."""
    notes: tuple[str, ...] = ()
    """Events that the process reported on the reply."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A header and its steps."""

    header: Header
    steps: tuple[Step, ...]


def dumps(trace: Trace) -> str:
    """The text of ``trace``: one JSON object per line, keys in the order of the fields."""
    header = asdict(trace.header)
    if not trace.header.cast:
        del header["cast"]
    lines = [header]
    for step in trace.steps:
        line = asdict(step)
        if not step.notes:
            del line["notes"]
        lines.append(line)
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def parse(text: str, name: str) -> Trace:
    """The trace in ``text``; raises `ArtifactError` with ``name`` and line number for anything else."""
    lines = text.splitlines()
    header = _header(_checked(lines[0] if lines else "", "header", name, 1))
    steps = tuple(_step(_checked(line, "step", name, number)) for number, line in enumerate(lines[1:], 2))
    for expected, step in enumerate(steps, 1):
        if step.index != expected:
            raise _broken(name, expected + 1, f"step {step.index} where step {expected} belongs")
    return Trace(header, steps)


def _broken(name: str, line: int, reason: str) -> ArtifactError:
    return ArtifactError(CLAUSE, f"{name}, line {line}", reason)


@cache
def _validator(kind: str) -> Draft202012Validator:
    schema = json.loads((places.faults() / "schema" / "trace.schema.json").read_text("utf-8"))
    return Draft202012Validator({**schema["$defs"][kind], "$defs": schema["$defs"]})


def _checked(line: str, kind: str, name: str, number: int) -> dict[str, Any]:
    """The object in ``line``, which is a valid ``kind`` (header, step)."""
    try:
        found: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError as error:
        raise _broken(name, number, f"not JSON: {error.msg} at column {error.colno}") from None
    wrong = best_match(_validator(kind).iter_errors(found))
    if wrong is not None:
        where = "".join(f"{part}: " for part in wrong.absolute_path)
        raise _broken(name, number, f"no {kind}: {where}{wrong.message}")
    return found


def _header(found: dict[str, Any]) -> Header:
    violation = Found(**found["violation"]) if found["violation"] is not None else None
    cast = tuple(Part(**part) for part in found.get("cast", ()))
    return Header(**{**found, "bugs": tuple(found["bugs"]), "violation": violation, "cast": cast})


def _step(found: dict[str, Any]) -> Step:
    return Step(**{**found, "notes": tuple(found.get("notes", ()))})
