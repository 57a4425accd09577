"""Roles whose processes follow a script of JSON, made of the steps that `memwal_sim.scenarios.actors` knows.

A script is a list of steps with one word each: ``[{"put": ["a", "b"]}, {"flush": null}]``. Values that are written are
named after the process and the number of the step, so that each is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from memwal.errors import InvalidArgument
from memwal.jobs.collector import Policy

from ..cast import Arguments
from ..scenarios import actors
from ..scenarios.actors import Place, Step
from ..scenarios.scenario import Setting
from .play import Role

Script: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Told:
    """What a step is told besides its word."""

    argument: Any
    """JSON value."""
    value: str
    """For rows that the step writes."""
    setting: Setting


def put(told: Told) -> Step:
    """Argument: keys, which get the step's value in one write."""
    return actors.put(dict.fromkeys(told.argument, told.value))


def delete(told: Told) -> Step:
    """Argument: keys. A put where the revision has no deletes (A, B)."""
    return actors.put(dict.fromkeys(told.argument)) if told.setting.revision.tombstones else put(told)


def collect(told: Told) -> Step:
    """Argument: fields of `Policy` that are not those of one that keeps all table versions, and few manifests."""
    return actors.collect(Policy(**{"retain_manifests": 2, **told.argument}))


WORDS: Mapping[str, Callable[[Told], Step]] = {
    "open": lambda _: actors.opened,
    "put": put,
    "delete": delete,
    "flush": lambda _: actors.flush,
    "freeze": lambda _: actors.freeze,
    "flush_frozen": lambda _: actors.flush_frozen,
    "merge": lambda _: actors.merge,
    "snapshot": lambda _: actors.snapshot,
    "collect": collect,
    "tag": lambda _: actors.tag,
    "lose_hint": lambda _: actors.lose_hint,
    "delete_from_base": lambda told: actors.delete_from_base(told.argument),
    "read": lambda _: actors.read,
    "read_with_memory": lambda _: actors.read_with_memory,
    "read_eventually": lambda _: actors.read_eventually,
    "read_while_retained": lambda _: actors.read_while_retained,
}
"""What a script of a client of one region may say."""


def client(
    place: Callable[[Setting], Place],
    *script: Mapping[str, Any],
    words: Mapping[str, Callable[[Told], Step]] = WORDS,
    first: Sequence[Step] = (),
) -> Role:
    """The role of a process that follows its argument ``script``, or this one if it has none.

    ``first``: steps that it takes before those. Argument ``insists``: it goes on to the next step where one fails.
    Raises `InvalidArgument` for an unknown word.
    """

    async def role(setting: Setting, name: str, arguments: Arguments) -> None:
        steps = (*first, *_steps(words, setting, name, arguments.get("script", script)))
        await actors.act(place(setting), name, steps, insists=arguments.get("insists", False))

    return role


def _steps(words: Mapping[str, Callable[[Told], Step]], setting: Setting, name: str, script: Script) -> Iterator[Step]:
    for number, step in enumerate(script, 1):
        ((word, argument),) = step.items()
        if word not in words:
            raise InvalidArgument(f"{name} is told to {word!r}; it knows {', '.join(sorted(words))}")
        yield words[word](Told(argument, f"{name}.{number}", setting))
