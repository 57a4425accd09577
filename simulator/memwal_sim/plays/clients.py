"""Roles whose processes follow a script of JSON, see `memwal_sim.scenarios.scripts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..cast import Arguments
from ..scenarios.actors import Place
from ..scenarios.scenario import Setting
from ..scenarios.scripts import WORDS, Entry, Following, Words, steps
from .play import Role


def client(
    place: Callable[[Setting], Place],
    *script: Entry,
    words: Words = WORDS,
    first: Sequence[Entry] = (),
) -> Role:
    """The role of a process that follows its argument ``script``, or this one if it has none.

    ``first``: steps that it takes before those. Argument ``insists``: it goes on to the next step where one fails.
    Raises `InvalidArgument` for an unknown word.
    """

    async def role(setting: Setting, name: str, arguments: Arguments) -> None:
        await Following(
            place=place(setting),
            name=name,
            words=words,
            first=steps(first, words),
            script=steps(arguments.get("script", script), words),
            insists=arguments.get("insists", False),
        )()

    return role
