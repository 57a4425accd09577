"""The engine's store under the reference adapter: it tells of requests, and ends the process at one of them.

Both happen around the store that the engine itself opens, so nothing else of the engine is different.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memwal.api import place
from memwal.effects import Copy, Delete, Put, PutIfAbsent, RenameIfAbsent, StoreRequest
from memwal.errors import AlreadyExists, NotFound
from memwal.stores.base import Store
from memwal.stores.urls import Options
from memwal_sim.names import operation

from memwal_conformance.gate.requests import class_of
from memwal_conformance.protocol import Json

CHANGES = (PutIfAbsent, Put, Delete, Copy, RenameIfAbsent)
OPERATIONS = {"get_ranges": "get", "stamped": "get", "open": "get", "list_folders": "list", "stat": "head"}
"""Operations that the protocol calls otherwise than the engine."""


@dataclass(slots=True)
class ProcessWatch:
    """What is to happen at the requests of one process."""

    tell: Callable[[Json], None] | None = None
    """Sends an event; None: none were asked for."""
    class_: str = ""
    """Of the changes that are counted; empty: none."""
    after: bool = False
    left: int = 0
    """Changes of that class until the process ends."""

    def every_store(self) -> None:
        """From now on every store that the engine opens in this process is watched."""
        opening = place.open_store  # type: ignore[attr-defined]

        def watched(url: str, storage_options: Options | None = None) -> tuple[Store, str]:
            store, root = opening(url, storage_options)
            return _Watched(store, self), root

        place.open_store = watched  # type: ignore[attr-defined]

    def crash(self, class_: str, moment: str, occurrence: int) -> None:
        """End the process at the ``occurrence``-th change of that class from now on."""
        self.class_, self.after, self.left = class_, moment == "after", occurrence

    def due(self, request: StoreRequest[Any]) -> bool:
        """Count ``request``; whether the process ends at it."""
        if not isinstance(request, CHANGES) or _class(request) != self.class_:
            return False
        self.left -= 1
        return self.left == 0


@dataclass(frozen=True, slots=True)
class _Watched:
    store: Store
    watch: ProcessWatch

    def perform(self, request: StoreRequest[Any]) -> Any:
        due = self.watch.due(request)
        if due and not self.watch.after:
            os.kill(os.getpid(), signal.SIGKILL)
        outcome = "failed"
        try:
            found = self.store.perform(request)
            outcome = "ok"
            return found
        except NotFound:
            outcome = "absent"
            raise
        except AlreadyExists:
            outcome = "exists"
            raise
        finally:
            if self.watch.tell is not None:
                name = operation(request)
                self.watch.tell({"operation": OPERATIONS.get(name, name), "path": _path(request), "outcome": outcome})
            if due:
                os.kill(os.getpid(), signal.SIGKILL)

    def describe(self) -> str:
        return self.store.describe()

    def close(self) -> None:
        self.store.close()


def _path(request: StoreRequest[Any]) -> str:
    """Name of the object; of the new one where there are two."""
    return request.target if isinstance(request, Copy | RenameIfAbsent) else request.path


def _class(request: StoreRequest[Any]) -> str:
    return class_of(_path(request))
