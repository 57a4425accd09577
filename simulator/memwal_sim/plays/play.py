"""What a play is, and how a world and a scenario are made of one and its cast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from memwal.effects import Protocol
from memwal.errors import InvalidArgument, check_name

from ..cast import Arguments, Part
from ..process import Process
from ..scenarios import ground
from ..scenarios.scenario import Scenario, Setting
from ..store import Contents
from ..world import Ghosts, Observe, Oracle, World
from .account import Account, observe
from .clients import Client

Role: TypeAlias = Callable[[Setting, str, Arguments], Protocol[Any]]
"""Setting, name of the process, arguments -> its protocol, from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A world without its processes."""

    name: str
    title: str
    """One line for lists."""
    roles: Mapping[str, Role]
    contents: Callable[[Setting], Contents]
    oracles: Callable[[Setting], Sequence[Oracle]]
    """New oracles; what they remember lives as long as the world that they judge."""
    ghosts: Ghosts = Account()
    observe: Observe = observe
    before: Sequence[Part] = ()
    """Processes that run alone, one after another, before all others start."""

    def check(self, part: Part) -> None:
        """Raises `InvalidArgument` for a role that there is not, and for what its processes cannot be told."""
        check_name(f"role of {self.name}", part.role, sorted(self.roles))
        role = self.roles[part.role]
        if isinstance(role, Client):
            role.steps(part.arguments)

    def process(self, setting: Setting, part: Part) -> Process:
        """The process of ``part``; raises `InvalidArgument` as `check` does."""
        self.check(part)
        return Process(part.name, partial(self.roles[part.role], setting, part.name, part.arguments))

    def world(self, setting: Setting, cast: Sequence[Part] = ()) -> World:
        """The world with this cast; raises `InvalidArgument` for an unknown role or two parts of one name."""
        if len({part.name for part in cast}) < len(cast):
            raise InvalidArgument(f"two processes of {self.name} have one name")
        contents, ghosts = self._begun(setting)
        return World(
            contents=contents,
            processes=tuple(self.process(setting, part) for part in cast),
            ghosts=ghosts,
            observe=self.observe,
            oracles=tuple(self.oracles(setting)),
        )

    def _begun(self, setting: Setting) -> tuple[Contents, Ghosts]:
        """What is there when the cast starts."""
        contents, ghosts = self.contents(setting), self.ghosts
        for part in self.before:
            alone = ground.after(contents, self.process(setting, part))
            contents = alone.contents
            for note in alone.notes:
                ghosts = self.observe(ghosts, part.name, note)
        return contents, ghosts


MODULES = ("region", "merging", "collecting", "routing", "committing", "examples")
"""Modules that define plays: each has one, called ``PLAY``, or several, in ``PLAYS``."""


@cache
def known() -> Mapping[str, Play]:
    """All plays by name."""
    plays = (play for module in MODULES for play in _defined(import_module(f"{__package__}.{module}")))
    return {play.name: play for play in plays}


def _defined(module: ModuleType) -> Sequence[Play]:
    plays: Sequence[Play] = module.PLAYS if hasattr(module, "PLAYS") else (module.PLAY,)
    return plays


def find(name: str) -> Play:
    """The play ``name``; raises `InvalidArgument` with the names that there are."""
    check_name("play", name, sorted(known()))
    return known()[name]


def staged(play: Play, cast: Sequence[Part]) -> Scenario:
    """The scenario that is ``play`` with this cast."""

    def build(setting: Setting) -> World:
        return play.world(setting, cast)

    return Scenario(name=play.name, title=play.title, build=build)
