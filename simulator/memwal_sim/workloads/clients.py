"""Roles whose processes follow a script of JSON, see `memwal_sim.scenarios.scripts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memwal.effects import Protocol
from memwal.errors import check_name

from ..actor import Actor, Arguments
from ..data import DataTable
from ..scenarios.actors import Workplace
from ..scenarios.scenario import ScenarioSetting
from ..scenarios.scripts import WORDS, Entry, Following, ScriptStep, Words, steps, written

SCRIPT, INSISTS, REGION = "script", "insists", "region"
"""What a client may be told: what it does; that it continues where a step fails; the number of the region, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The role of a process that follows its argument ``script``, or its own one."""

    place: Callable[[ScenarioSetting, int], Workplace]
    """Setting, number of the region -> where it works."""
    words: Words
    first: Sequence[Entry] = ()
    """Steps that it takes before the script."""
    script: Sequence[Entry] = ()

    def steps(self, arguments: Arguments) -> tuple[ScriptStep, ...]:
        """What it does; raises `InvalidArgument` for an unknown argument or word."""
        for name in arguments:
            check_name("argument of a client", name, (SCRIPT, INSISTS, REGION))
        return steps(arguments.get(SCRIPT, self.script), self.words)

    def __call__(self, setting: ScenarioSetting, name: str, arguments: Arguments) -> Protocol[None]:
        """The protocol, from the beginning."""
        return Following(
            place=self.place(setting, arguments.get(REGION, 1)),
            name=name,
            words=self.words,
            first=steps(self.first, self.words),
            script=self.steps(arguments),
            insists=arguments.get(INSISTS, False),
        )()


def client(
    place: Callable[[ScenarioSetting], Workplace], *script: Entry, words: Words = WORDS, first: Sequence[Entry] = ()
) -> Client:
    """The role of a client of one region, the same whatever it is told."""
    return Client(place=lambda setting, _: place(setting), words=words, first=first, script=script)


def actor_of(table: DataTable) -> Actor:
    """One process; its role is what its name begins with, up to a hyphen, if it has no other."""
    arguments: dict[str, Any] = {SCRIPT: [written(step) for step in table.take(SCRIPT, list, [])]}
    for name, kind in ((REGION, int), (INSISTS, bool)):
        if (value := table.maybe(name, kind)) is not None:
            arguments[name] = value
    name = table.text("name")
    actor = Actor(name=name, role=table.text("role", name.partition("-")[0]), arguments=arguments)
    table.close()
    return actor
