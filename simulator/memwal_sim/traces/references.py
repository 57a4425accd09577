"""What a trace names: its scenario, readings, planted bugs, oracle and processes, looked up before it is replayed.

An unknown name is an `ArtifactError` with the line that has it, as for a trace that is broken in itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from memwal.errors import InvalidArgument
from memwal.revisions import Interpretation

from ..bugs import planted
from ..world import World
from . import facts
from .study import Study, recorded_in
from .trace import Header, Trace, broken, line_of, load


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trace whose names are all known, and the study that it was recorded in."""

    name: str
    """Of its file."""
    trace: Trace
    study: Study


def recorded(path: Path) -> Recorded:
    """The trace in the file ``path``; raises `ArtifactError` for what is no trace, or names what there is not."""
    return resolved(load(path), path.name)


def resolved(trace: Trace, name: str) -> Recorded:
    """As `recorded`, for a trace in hand that is called ``name``."""
    found = named(trace, name)
    with opened(found):
        return found


def found_in(path: Path) -> Recorded:
    """As `recorded`, but for the actors and their processes: the one that opens the world learns of those."""
    return named(load(path), path.name)


def named(trace: Trace, name: str) -> Recorded:
    """As `found_in`, for a trace in hand that is called ``name``."""
    header = trace.header
    try:
        study = recorded_in(header)
        study.setting()
        _check_readings(header)
        _check_oracle(header)
        for expected in header.expected:
            for fact in expected.state:
                facts.check(fact)
    except InvalidArgument as error:
        raise broken(name, 1, str(error)) from error
    return Recorded(name, trace, study)


@contextmanager
def opened(found: Recorded, study: Study | None = None) -> Iterator[World]:
    """A new world of ``found``, or of ``study`` in place of its own; its planted bugs are in place meanwhile.

    Raises `ArtifactError` if an actor is wrong, or if a step names a process that the world does not have.
    """
    chosen = study or found.study
    with planted(chosen.bugs):
        try:
            world = chosen.world()
        except InvalidArgument as error:
            raise broken(found.name, 1, str(error)) from error
        known = {process.name for process in world.processes}
        for step in found.trace.steps:
            if step.actor not in known:
                reason = f"there is no process {step.actor!r}; choose one of {', '.join(sorted(known))}"
                raise broken(found.name, line_of(step), reason)
        yield world


def _check_readings(header: Header) -> None:
    usual = Interpretation()
    for reading in fields(Interpretation):
        told, value = header.readings.get(reading.name), getattr(usual, reading.name)
        if told is not None and type(told) is not type(value):
            raise InvalidArgument(f"the reading {reading.name} is {told!r}, which is not a {type(value).__name__}")


def _check_oracle(header: Header) -> None:
    """An oracle has no entry in a table: its name is a text in the sources, or that of a function for an invariant."""
    if header.violation is not None:
        name = header.violation.oracle
        if not any(f'"{name}"' in source or f"def {name}(" in source for source in _oracle_sources()):
            raise InvalidArgument(f"no oracle {name!r}")


@cache
def _oracle_sources() -> tuple[str, ...]:
    """The sources of the simulator and of the invariants."""
    folders = (resources.files("memwal_sim"), resources.files("memwal.invariants"))
    return tuple(source for folder in folders for source in _sources(folder))


def _sources(folder: Traversable) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_text("utf-8")
