"""Wrong turns of the engine that machines have to find, and a way to see one found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from memwal_sim import bugs as planting
from memwal_sim import machines
from memwal_sim.bugs import Bug, planted
from memwal_sim.machines import BrokenError, EngineMachine
from memwal_sim.scenarios.scenario import setting
from memwal_sim.traces.replay import replay_in
from memwal_sim.workloads import find


def planted_bug(**replaced: Callable[..., Any]) -> Bug:
    """A bug that is known to nobody but the test; dots and colons of targets are written ``__`` and ``___``."""
    targets = {name.replace("___", ":").replace("__", "."): wrong for name, wrong in replaced.items()}
    return Bug(name="own", clause="X", what="w", why="y", scenario="", oracle="", violated="", replaced=targets)


def found(
    machine: type[EngineMachine],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *bugs: Bug,
    readings: Mapping[str, bool] | None = None,
    examples: int = 120,
) -> BrokenError:
    """What ``machine`` finds with ``bugs`` planted; its trace, made small, plays to the same violation."""
    monkeypatch.setenv("MEMWAL_TRACES", str(folder))
    how = settings(machines.chosen(), max_examples=examples)
    broken = machines.hunt(machine, how, bugs=bugs, readings=readings)
    assert broken is not None
    assert f"memwal explore replay {folder}/{machine.__name__}.jsonl" in str(broken)
    header = broken.trace.header
    with planted(bugs):
        under = setting(header.revision, "strict", {**header.readings, **planting.readings(bugs)})
        again = replay_in(find(header.scenario).world(under, header.actors), broken.trace)
    assert again.reproduced
    assert again.divergence is None
    return broken
