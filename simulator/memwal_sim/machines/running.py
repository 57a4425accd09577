"""Running a machine: with its planted bugs in place, until it is through or has found something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from ..bugs import Bug, planted
from .engine import BrokenError, EngineMachine, Finds
from .profiles import chosen


def run(
    machine: type[EngineMachine],
    how: settings | None = None,
    *,
    bugs: Sequence[Bug] = (),
    readings: Mapping[str, bool | int | str] | None = None,
) -> None:
    """Run ``machine`` with ``bugs`` planted, as ``how`` says; None: as the profile says that the environment names.

    ``readings``: fields of the interpretation on top of its profile's. Raises `BrokenError` with the shortest history
    that shows what it found.
    """
    own: dict[str, Any] = {
        "bugs": (*machine.bugs, *bugs),
        "readings": {**machine.readings, **(readings or {})},
        "worlds": {},
        "finds": Finds(),
        "__module__": machine.__module__,
    }
    once: type[EngineMachine] = type(machine.__name__, (machine,), own)
    with planted(once.bugs):
        run_state_machine_as_test(once, settings=how or chosen())


def hunt(
    machine: type[EngineMachine],
    how: settings | None = None,
    *,
    bugs: Sequence[Bug] = (),
    readings: Mapping[str, bool | int | str] | None = None,
) -> BrokenError | None:
    """As `run`, but return what was found; None for nothing."""
    try:
        run(machine, how, bugs=bugs, readings=readings)
    except BrokenError as broken:
        return broken
    return None
