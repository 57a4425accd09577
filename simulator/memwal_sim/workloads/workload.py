"""What a workload is, and how a world and a scenario are made of one and its actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from memwal.effects import Protocol
from memwal.errors import InvalidArgument, check_name

from ..actor import Actor, Arguments
from ..following import Refinement
from ..histories.history import History
from ..histories.notes import observe
from ..process import Process
from ..scenarios import ground
from ..scenarios.scenario import Scenario, ScenarioSetting
from ..store import Contents
from ..world import Ghosts, Observe, Oracle, World
from .clients import Client

Role: TypeAlias = Callable[[ScenarioSetting, str, Arguments], Protocol[Any]]
"""Setting, name of the process, arguments -> its protocol, from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A world without its processes."""

    name: str
    title: str
    """One line for lists."""
    roles: Mapping[str, Role]
    contents: Callable[[ScenarioSetting], Contents]
    oracles: Callable[[ScenarioSetting], Sequence[Oracle]]
    """New oracles; what they remember lives as long as the world that they judge."""
    ghosts: Ghosts = History()
    observe: Observe = observe
    before: Sequence[Actor] = ()
    """Processes that run alone, one after another, before all others start."""

    def check(self, actor: Actor) -> None:
        """Raises `InvalidArgument` for an unknown role, and for what its processes cannot be given."""
        check_name(f"role of {self.name}", actor.role, sorted(self.roles))
        role = self.roles[actor.role]
        if isinstance(role, Client):
            role.steps(actor.arguments)

    def process(self, setting: ScenarioSetting, actor: Actor) -> Process:
        """The process of ``actor``; raises `InvalidArgument` as `check` does."""
        self.check(actor)
        return Process(actor.name, partial(self.roles[actor.role], setting, actor.name, actor.arguments))

    def world(self, setting: ScenarioSetting, actors: Sequence[Actor] = (), *, refine: bool = False) -> World:
        """The world with these actors; raises `InvalidArgument` for an unknown role or two actors of one name.

        ``refine``: every change of the store has to be a step of the abstract machine.
        """
        if len({actor.name for actor in actors}) < len(actors):
            raise InvalidArgument(f"two processes of {self.name} have one name")
        contents, ghosts = self._begun(setting)
        return World(
            contents=contents,
            processes=tuple(self.process(setting, actor) for actor in actors),
            ghosts=ghosts,
            observe=self.observe,
            oracles=tuple(self.oracles(setting)),
            step=Refinement(setting.revision) if refine else None,
        )

    def _begun(self, setting: ScenarioSetting) -> tuple[Contents, Ghosts]:
        """What is there when the actors start."""
        contents, ghosts = self.contents(setting), self.ghosts
        for actor in self.before:
            alone = ground.after(contents, self.process(setting, actor))
            contents = alone.contents
            for note in alone.notes:
                ghosts = self.observe(ghosts, actor.name, note)
        return contents, ghosts


MODULES = ("region", "merging", "collecting", "routing", "committing", "examples")
"""Modules that define workloads: each has one, called ``WORKLOAD``, or several, in ``WORKLOADS``."""


@cache
def known() -> Mapping[str, Workload]:
    """All workloads by name."""
    workloads = (workload for module in MODULES for workload in _defined(import_module(f"{__package__}.{module}")))
    return {workload.name: workload for workload in workloads}


def _defined(module: ModuleType) -> Sequence[Workload]:
    workloads: Sequence[Workload] = module.WORKLOADS if hasattr(module, "WORKLOADS") else (module.WORKLOAD,)
    return workloads


def find(name: str) -> Workload:
    """The workload ``name``; raises `InvalidArgument` with the names that there are."""
    check_name("workload", name, sorted(known()))
    return known()[name]


def scenario_of(workload: Workload, actors: Sequence[Actor]) -> Scenario:
    """The scenario that is ``workload`` with these actors."""

    def build(setting: ScenarioSetting) -> World:
        return workload.world(setting, actors)

    return Scenario(name=workload.name, title=workload.title, build=build)
