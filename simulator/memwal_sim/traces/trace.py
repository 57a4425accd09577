"""Traces: one history as text, JSON lines: a header, then one line per step.

Steps are chosen by process and request, not by number, so that a trace survives changes of the engine that it is not
about; digests of replies and contents pin the first place where a replay goes another way. The format is
``faults/schema/trace.schema.json``, and `parse` is as strict as that.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, Never

from jsonschema_rs import Draft202012Validator
from memwal.codec import json_schema, json_text
from memwal.errors import ArtifactError

from .. import places
from ..actor import Actor
from ..outcomes import Fate

FORMAT = 3
"""Version of the format that is written."""
FORMATS = (1, 2, 3)
"""Versions that are read; ``simulator/tests/fixtures/traces`` has a trace of each."""
_RENAMED = {"header": ("cast", "actors"), "step": ("turn", "switch")}
"""What formats 1 and 2 called otherwise: a field of headers, and an outcome of steps."""
LINE_BYTES_MAX = 1 << 20
"""Bytes of one line, its end included; a longer one is refused before it is read."""
MESSAGE_MAX = 500
"""Characters of what is wrong with a line that an error shows."""
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
class Expected:
    """What has to be so after a step."""

    after: int
    """Number of the step; 0: before the first."""
    says: str
    """What is so, in plain words."""
    state: Mapping[str, Any]
    """Facts by name, see `memwal_sim.traces.facts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a history was run in."""

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
    actors: tuple[Actor, ...] = ()
    """The processes, where the scenario is a workload: a world whose processes are given (`memwal_sim.workloads`)."""
    kinds: tuple[str, ...] = ()
    """Labels of the faults that counted as faults; none: all of them."""
    expected: tuple[Expected, ...] = ()
    """What has to be so on the way and at the end, in order."""


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
    for optional in ("actors", "kinds", "expected"):
        if not header[optional]:
            del header[optional]
    lines = [header]
    for step in trace.steps:
        line = asdict(step)
        if not step.notes:
            del line["notes"]
        lines.append(line)
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def load(path: Path) -> Trace:
    """The trace in the file ``path``; raises `ArtifactError` with its name and line number for anything else."""
    with path.open("rb") as file:
        return read(file, path.name)


def load_header(path: Path) -> Header:
    """The header of the trace in the file ``path``, whatever follows it; raises as `load`."""
    with path.open("rb") as file:
        return _header(_checked(_line(file, path.name, 1), "header", path.name, 1))


def parse(text: str, name: str) -> Trace:
    """As `load`, for a text in hand that is called ``name``."""
    return read(BytesIO(text.encode("utf-8", "surrogatepass")), name)


def read(file: BinaryIO, name: str) -> Trace:
    """As `load`, for an open file that is called ``name``; no more than one line of it is held besides the trace."""
    header = _header(_checked(_line(file, name, 1), "header", name, 1))
    steps: list[Step] = []
    under_way: Counter[tuple[str, str, str]] = Counter()
    while line := _line(file, name, number := len(steps) + 2):
        step = _step(_checked(line, "step", name, number))
        if step.index != len(steps) + 1:
            raise broken(name, number, f"step {step.index} where step {len(steps) + 1} belongs")
        request = (step.actor, step.operation, step.path)
        under_way[request] += (step.outcome == Fate.LATE.label) - (step.outcome == LANDED)
        if under_way[request] < 0:
            raise broken(name, number, f"{step.operation} {step.path} lands, and {step.actor} has none under way")
        steps.append(step)
    _check_expected(header, len(steps), name)
    return Trace(header, tuple(steps))


def _check_expected(header: Header, steps: int, name: str) -> None:
    """Steps after which something has to be so are in order, and are there."""
    places_ = [0, *(expected.after for expected in header.expected), steps]
    if places_ != sorted(places_):
        raise broken(name, 1, f"expected: after steps {places_[1:-1]} of {steps}, which are in no order or not there")


def broken(name: str, line: int, reason: str) -> ArtifactError:
    """The error for a trace called ``name`` whose ``line``, from 1, is wrong."""
    return ArtifactError(CLAUSE, f"{name}, line {line}", reason)


def line_of(step: Step) -> int:
    """The line of a trace that holds ``step``, from 1."""
    return step.index + 1


def _line(file: BinaryIO, name: str, number: int) -> bytes:
    line = file.readline(LINE_BYTES_MAX + 1)
    if len(line) > LINE_BYTES_MAX:
        raise broken(name, number, f"longer than {LINE_BYTES_MAX:,} bytes")
    return line


@cache
def _validator(kind: str) -> Draft202012Validator:
    schema = json.loads((places.faults() / "schema" / "trace.schema.json").read_text("utf-8"))
    return Draft202012Validator({**schema["$defs"][kind], "$defs": schema["$defs"]})


class _RefusedError(ValueError):
    """JSON that more than one reading can be made of."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise _RefusedError(f"the key {twice!r} is there twice")
    return found


def _number(text: str) -> float | int:
    """JSON has one kind of numbers, and 1.0 is an integer."""
    value = float(text)
    if not isfinite(value):
        raise _RefusedError(f"the number {text} is too large")
    return int(value) if value.is_integer() else value


def _constant(text: str) -> Never:
    raise _RefusedError(f"{text} is not a number")


def decoded(line: bytes) -> Any:
    """The JSON value in ``line``; raises `ValueError` for bytes that are none, or that can be read in two ways."""
    if line.startswith(codecs.BOM_UTF8):
        raise _RefusedError("a byte order mark")
    try:
        found = json_text.parse(
            line.decode("utf-8"), object_pairs_hook=_once, parse_float=_number, parse_constant=_constant
        )
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise _RefusedError(f"not UTF-8: byte {error.start + 1} of the line") from None
    except UnicodeEncodeError:
        raise _RefusedError("half of a surrogate pair") from None
    except RecursionError:
        raise _RefusedError("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _RefusedError(f"{error.msg} at column {error.colno}") from None
    return found


def _checked(line: bytes, kind: str, name: str, number: int) -> dict[str, Any]:
    """The object in ``line``, which is a valid ``kind`` (header, step)."""
    try:
        found: dict[str, Any] = decoded(line)
    except ValueError as error:
        raise broken(name, number, f"not JSON: {error}") from None
    if kind == "header" and isinstance(found, dict) and found.get("format", FORMAT) not in FORMATS:
        known = ", ".join(map(str, FORMATS))
        raise broken(name, number, f"format {found['format']!r} of traces; this program reads {known}")
    found = _renewed(found, kind)
    wrong = json_schema.problem(_validator(kind), found)
    if wrong is not None:
        where = "".join(f"{part}: " for part in wrong.path)
        raise broken(name, number, f"no {kind}: {where}{_shortened(wrong.reason)}")
    return found


def _renewed(found: Any, kind: str) -> Any:
    """A line of format 1 or 2 in the words of format 3; the old outcome of a step is read under any format."""
    if not isinstance(found, dict):
        return found
    old, new = _RENAMED[kind]
    if kind == "step":
        return {**found, "outcome": new} if found.get("outcome") == old else found
    if type(found.get("format")) is not int or found["format"] == FORMAT:
        return found
    if (found["format"] == 1) is ("expected" in found):
        return found  # the field that format 1 never has and format 2 always: refused as it is
    return {new if name == old else name: value for name, value in found.items()} | {"format": FORMAT}


def _shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]} …"


def _header(found: dict[str, Any]) -> Header:
    violation = Found(**found["violation"]) if found["violation"] is not None else None
    actors = tuple(Actor(**actor) for actor in found.get("actors", ()))
    expected = tuple(Expected(**each) for each in found.get("expected", ()))
    tuples = {"bugs": tuple(found["bugs"]), "kinds": tuple(found.get("kinds", ())), "expected": expected}
    return Header(**{**found, **tuples, "violation": violation, "actors": actors})


def _step(found: dict[str, Any]) -> Step:
    return Step(**{**found, "notes": tuple(found.get("notes", ()))})
