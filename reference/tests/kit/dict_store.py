"""A store in memory: quick to copy, to damage, and to count requests to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from memwal.effects import Get, Head, List, ListFolders, StoreRequest
from memwal.stores.memory import MemoryStore

READS = (Get, Head, List, ListFolders)


class DictStore(MemoryStore):
    """Objects by name. ``after`` is called after every request that changed something."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        super().__init__(objects)
        self.requests: Counter[str] = Counter()
        self.before: Callable[[StoreRequest[Any]], None] = lambda request: None
        self.after: Callable[[StoreRequest[Any]], None] = lambda request: None

    def copy(self) -> DictStore:
        return DictStore(self.objects)

    @property
    def changes(self) -> int:
        """Requests so far that were no reads."""
        return sum(n for kind, n in self.requests.items() if kind not in {read.__name__ for read in READS})

    def perform(self, request: StoreRequest[Any]) -> Any:
        self.requests[type(request).__name__] += 1
        self.before(request)
        reply = super().perform(request)
        if not isinstance(request, READS):
            self.after(request)
        return reply
