"""What another player does, whom the suite lends an implementation: the implementation is not accused of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from importlib.metadata import version

from ..adapters.aided import BASE_WRITER
from ..gate import CrashState
from ..protocol import Hello, messages
from .lived import Lived
from .lives import SENT, Verb

OWN_BASE_WRITER = "pylance"
"""The package by which the suite writes to the base table: what that does wrong, the same version of it does itself."""
_OF_BASE = (Verb.MERGE, Verb.BASE, Verb.UPDATE, Verb.REMOVE, Verb.COMPACT)
"""Operations that change nothing but the base table."""


def lent(hello: Hello) -> frozenset[Verb]:
    """Operations that another player carries out."""
    own = hello.implementation == OWN_BASE_WRITER and hello.version == version(OWN_BASE_WRITER)
    roles = {role for role in hello.lent if role != BASE_WRITER or not own}
    return frozenset(verb for verb, sent in SENT.items() if {messages()[each].role for each in sent} & roles)


def by_another(lived: Lived, order: int, hello: Hello) -> bool:
    """Whether a request was made by another player. The implementation may go on in the background meanwhile."""
    entry = next((each for each in lived.log if each.order == order), None)
    if entry is None or (verb := lived.during(entry)) not in lent(hello):
        return False
    return entry.class_ == "base" or verb not in _OF_BASE


def first_that(lived: Lived, state: CrashState, shows: Callable[[CrashState], bool]) -> CrashState:
    """The first of the states up to one that shows it, if those behind it do, too."""
    before = [each for each in lived.states if each.index <= state.index]
    return before[bisect_left(before, True, key=lambda each: each is state or shows(each))]
