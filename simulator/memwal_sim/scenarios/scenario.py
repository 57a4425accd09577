"""Scenarios: named worlds of processes that run the engine's own protocol code, under a revision and a profile."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import import_module

from memwal.effects import Io
from memwal.errors import InvalidArgument, check_name
from memwal.revisions import PROFILES, REVISIONS, STRICT, B, Interpretation, Revision

from .. import data
from ..outcomes import FAULTS, Fate
from ..world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioSetting:
    """Under what a scenario runs."""

    revision: Revision = B
    interpretation: Interpretation = STRICT

    @property
    def table(self) -> Io:
        """The table, the root of the store, as those see it who work there."""
        return Io(interpretation=self.interpretation)


def setting(
    revision: str = "B", profile: str = "strict", overrides: Mapping[str, object] | None = None
) -> ScenarioSetting:
    """The setting of these names; ``overrides``: fields of `Interpretation` on top of the profile.

    Raises `InvalidArgument` for an unknown name.
    """
    check_name("revision", revision, REVISIONS)
    check_name("profile", profile, PROFILES)
    for name in overrides or ():
        check_name("reading", name, [field.name for field in fields(Interpretation)])
    interpretation = replace(PROFILES[profile], **dict(overrides or {}))  # type: ignore[arg-type]
    return ScenarioSetting(revision=REVISIONS[revision], interpretation=interpretation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A world that can be built under any setting."""

    name: str
    title: str
    """One line for lists."""
    build: Callable[[ScenarioSetting], World]
    """A new world; each call starts from nothing."""
    about: str = ""
    """What happens in it, in plain words."""
    canary: str = "canary"
    """The planted bug that every exploration of it has to find, or its own verdict is worth nothing."""
    preemptions: int | None = None
    """Bound on preemptions within which it is explored by default; for those with many states."""
    kinds: frozenset[Fate] = FAULTS
    """The faults that its requests may meet."""
    sometimes: tuple[str, ...] = ()
    """Events of notes, or kinds of failures, that some history has to have: else an exploration of it says little."""
    hazards: tuple[str, ...] = ()
    """Ambiguities whose hazard it can show, as AMB numbers."""

    def __reduce__(self) -> tuple[Callable[[str], Scenario], tuple[str]]:
        """Another process finds it by its name."""
        return find, (self.name,)


AREAS = ("writers", "putters", "jobs", "commits", "specs", "columns", "index", "late", "first_seconds", "asking")
"""Files of ``data/scenarios``, and the module `commits`, whose scenarios are made by code."""


@cache
def of(area: str) -> tuple[Scenario, ...]:
    """The scenarios of an area."""
    made = import_module(f"{__package__}.commits" if area == "commits" else f"{__package__}.files")
    found: tuple[Scenario, ...] = made.SCENARIOS if area == "commits" else made.of(area)
    return found


@cache
def known() -> Mapping[str, Scenario]:
    """All scenarios by name; raises `InvalidArgument` if two have one name."""
    found: dict[str, Scenario] = {}
    for scenario in (each for area in AREAS for each in of(area)):
        if found.setdefault(scenario.name, scenario) is not scenario:
            raise InvalidArgument(f"two scenarios are called {scenario.name!r}")
    return found


@cache
def text(name: str) -> str:
    """How the scenario ``name`` is written down: its entry in a file of data, or the module that makes it."""
    for file in data.read_all("scenarios"):
        for entry in file.fields.get("scenarios", ()):
            if entry["name"] == name:
                return json.dumps(entry, sort_keys=True)
    find(name)
    return inspect.getsource(import_module(f"{__package__}.commits"))


def find(name: str) -> Scenario:
    """The scenario ``name``; raises `InvalidArgument` with the names that there are."""
    check_name("scenario", name, sorted(known()), listed_by="memwal explore scenarios")
    return known()[name]
