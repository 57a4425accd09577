"""Region specs and routing: processes that change the spec, and writers that follow the one that they know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from memwal.index.transforms import SpecRequest, bucket

from ..scenarios import actors, one_region, sharded
from ..scenarios.actors import Step
from ..scenarios.ground import KEY
from ..scenarios.scenario import Setting
from ..scenarios.writes import Writes, observe_writes
from ..store import Contents
from ..world import Oracle
from .clients import Told, client
from .play import Play


def _spec(buckets: int) -> SpecRequest:
    return bucket(f"buckets_{buckets}", KEY, buckets)


WORDS: Mapping[str, Callable[[Told], Step]] = MappingProxyType(
    {
        "put": lambda told: sharded.put(told.argument, told.value),
        "flush": lambda _: sharded.flush,
        "close": lambda _: sharded.closed,
        "merge": lambda _: sharded.merge,
        "drain": lambda _: sharded.drain,
        "add_spec": lambda told: sharded.add_spec(_spec(told.argument)),
        "remove_spec": lambda told: sharded.remove_spec(told.argument),
        "drop_column": lambda told: sharded.drop_column(told.argument),
        "snapshot": lambda _: actors.snapshot,
        "read": lambda _: actors.read,
    }
)
"""What a script may say: ``put`` one key through its region, ``add_spec`` with so many buckets of the key, …"""


def _contents(setting: Setting) -> Contents:
    return sharded.table(setting.revision, _spec(1))


def oracles(setting: Setting) -> tuple[Oracle, ...]:
    """What must hold of the table at any time."""
    return one_region.world(setting, _contents(setting)).oracles


PLAY = Play(
    name="routing",
    title="changes of region specs, and writers that follow the spec that they know",
    roles={
        "writer": client(sharded.place, words=WORDS),
        "administrator": client(sharded.place, words=WORDS),
        "drainer": client(sharded.place, {"drain": None}, words=WORDS),
        "snapshotter": client(sharded.place, {"snapshot": None}, words=WORDS),
        "reader": client(sharded.place, {"read": None}, words=WORDS),
    },
    contents=_contents,
    ghosts=Writes(),
    observe=observe_writes,
    oracles=oracles,
)
