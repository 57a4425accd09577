"""What indexes say of a source: rows for which a condition may hold, in fragments of which they know all such rows.

Answers to the parts of a condition are joined as the condition is: rows of fragments that one side of an AND does not
know are left to the other side, and to the filter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ..ids import FragmentId
from ..table import reuse
from ..table.reuse import Addresses
from .conditions import AllOf, Condition, Leaf, OneOf

ENOUGH = 1_000
"""As few rows are looked at sooner than another index is asked for them."""

_NOTHING = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """Rows of one source."""

    addresses: Addresses
    """Ascending; each in one of ``fragments``. Deleted rows may be among them."""
    fragments: frozenset[FragmentId]
    """Every row of these for which the condition holds is among ``addresses``."""
    via: tuple[str, ...]
    """What gave it, as plans say it."""


Ask = Callable[[Leaf], Awaitable[IndexAnswer | None]]
"""Gives the answer to one comparison; None if no index knows it, or if it would be most of the rows."""


async def answer(condition: Condition, ask: Ask) -> IndexAnswer | None:
    """What is known of a ``condition``; None for nothing."""
    match condition:
        case AllOf(parts):
            found = None
            for part in parts:
                each = await answer(part, ask)
                if each is None:
                    continue  # the other parts and the filter decide
                found = each if found is None else _both(found, each)
                if len(found.addresses) <= ENOUGH:
                    break
            return found
        case OneOf(parts):
            answers = [await answer(part, ask) for part in parts]
            known = [each for each in answers if each is not None]
            return _either(known) if len(known) == len(answers) else None
        case _:
            return await ask(condition)


def joined(answers: Iterable[IndexAnswer]) -> IndexAnswer:
    """Answers to one comparison for different fragments of one source, as one."""
    found = list(answers)
    if len(found) == 1:
        return found[0]
    return IndexAnswer(
        np.unique(np.concatenate([_NOTHING, *(each.addresses for each in found)])),
        frozenset[FragmentId]().union(*(each.fragments for each in found)),
        tuple(dict.fromkeys(name for each in found for name in each.via)),
    )


def _both(one: IndexAnswer, other: IndexAnswer) -> IndexAnswer:
    held = np.isin(one.addresses, other.addresses) | ~reuse.within(one.addresses, other.fragments)
    more = ~reuse.within(other.addresses, one.fragments)
    fragments = one.fragments | other.fragments
    addresses = np.union1d(one.addresses[held], other.addresses[more])
    return IndexAnswer(addresses, fragments, tuple(dict.fromkeys((*one.via, *other.via))))


def _either(answers: list[IndexAnswer]) -> IndexAnswer:
    fragments = frozenset.intersection(*(each.fragments for each in answers))
    found = joined(answers)
    return IndexAnswer(found.addresses[reuse.within(found.addresses, fragments)], fragments, found.via)
