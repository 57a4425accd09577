"""Something of all generations as one, which spares asking each of them: made once that has cost as much as making it.

It is kept from read to read, as long as the generations are the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..effects import Grew
from .collection import Above, Parts

T = TypeVar("T")

_FOR_A_GENERATION = 2_000
"""Reading what is wanted of a generation takes about as long as putting so many rows together."""

_ROWS_MOST = 1 << 22
"""The keys of more rows would take up most of what is kept, where a scan needs a few bytes for each."""


@dataclass(slots=True)
class _Asked(Generic[T]):
    """Threads may share it: what one does not see yet is made twice."""

    rows: int
    """Of all generations."""
    times: int = 0
    is_made: bool = False
    made: T | None = None


async def together(
    parts: Parts,
    above: Above,
    what: Hashable,
    make: Callable[[], Awaitable[T]],
    size_bytes: Callable[[T], int],
    *,
    spared: int | None,
) -> T | None:
    """What ``make`` works out of all generations; None as long as asking each of them has cost less than that.

    ``spared``: asking one of them takes as long as putting so many rows together; None: as putting all of its rows,
    which are not too many to keep.
    """

    async def begun() -> _Asked[T]:
        states = [await each.opened() for each in above.generations]
        return _Asked(sum(fragment.physical_rows for state in states for fragment in state.fragments))

    found = await parts.once(above, what, begun, lambda _: 0)
    found.times += 1
    count = len(above.generations)
    if spared is None:
        is_due = found.times > 1 and found.rows <= _ROWS_MOST
    else:
        is_due = found.times * spared * count >= found.rows + _FOR_A_GENERATION * count
    if is_due and not found.is_made:
        found.made = await make()
        found.is_made = True
        await Grew((what, above.names), size_bytes(found.made))
    return found.made
