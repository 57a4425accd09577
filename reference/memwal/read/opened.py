"""A table that a read has opened: its newest state, its columns, and what was worked out of its files.

That of a flushed generation is kept from read to read. What a region manifest lists as a generation is complete and
does not change any more (GEN-001), so that its table manifest alone tells whether it is still the same one: neither its
folder is listed again nor its other files are looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..effects import Grew, Io
from ..table.state import TableState

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Opened:
    """One table in one read, or a generation in all reads while it is kept. Threads may share it."""

    state: TableState
    name: Hashable = None
    """Under which it is kept; None for one that is not."""
    made: dict[Hashable, Any] = field(default_factory=dict)

    async def once(self, what: Hashable, make: Callable[[], Awaitable[T]], size_bytes: Callable[[T], int]) -> T:
        """What ``make`` works out of the table's files; it never changes."""
        if what not in self.made:
            value = await make()
            if self.made.setdefault(what, value) is value and self.name is not None:
                await Grew(self.name, size_bytes(value))
        found: T = self.made[what]
        return found


def name_of(io: Io) -> Hashable:
    """Under which a generation is kept; None where nothing is."""
    return ("generation", io.root) if io.remembers else None
