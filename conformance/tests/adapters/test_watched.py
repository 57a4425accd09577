"""What the reference adapter tells of the engine's requests is what the protocol knows."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from memwal import effects
from memwal.effects import StoreRequest
from memwal.errors import AlreadyExists, InvalidArgument
from memwal.stores.memory import MemoryStore
from memwal_conformance import protocol
from memwal_conformance.adapters import watched

KINDS = [
    kind
    for kind in vars(effects).values()
    if isinstance(kind, type) and issubclass(kind, StoreRequest) and kind is not StoreRequest
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_of_each_request_follows_the_schema(kind: type[StoreRequest[Any]]) -> None:
    events: list[protocol.Json] = []
    store = watched._Watched(MemoryStore({"wal/1": b"data"}), watched.ProcessWatch(tell=events.append))
    fields = {"target": "wal/2"} if "target" in kind.__dataclass_fields__ else {}
    with suppress(AlreadyExists, InvalidArgument):  # a store in memory opens no files
        store.perform(kind("wal/1", **fields))
    (event,) = events
    assert protocol.problem("urn:memwal:envelope#/$defs/event", {"trace": event}) is None
