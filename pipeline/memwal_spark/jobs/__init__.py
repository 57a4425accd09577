"""The jobs that keep a table going, as Spark runs them: write, merge, catch-up, snapshot, gc, verify, why.

- `loading`: files and change logs into a table, region by region; `fitting`: their columns in the table's types
- `upkeep`: merge and snapshot by region, catch-up by index
- `collecting`, `verifying` and `tracing`: gc, verify and why by region
- `spread`: work as one Spark task for each thing; `sessions`: the session, whose master is the caller's or Spark's
- `commands`: all of them as commands, under ``memwal spark`` and for ``spark-submit``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .collecting import gc
    from .loading import write
    from .tracing import why
    from .upkeep import catch_up, merge, snapshot
    from .verifying import verify

__all__ = ["catch_up", "gc", "merge", "snapshot", "verify", "why", "write"]


def __getattr__(name: str) -> Any:
    """The jobs; Spark is imported when the first of them is used."""
    if name not in __all__:
        raise AttributeError(name)
    from . import collecting, loading, tracing, upkeep, verifying

    rooms = {"write": loading, "gc": collecting, "verify": verifying, "why": tracing}
    return getattr(rooms.get(name, upkeep), name)
