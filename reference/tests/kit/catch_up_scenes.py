"""Scenes for the tests of catch-up: native tables with indexes, generations merged into them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import lance
import memwal
import numpy as np
import pyarrow as pa
import pyroaring
from memwal.codec.index_details import IndexDetails
from memwal.effects import Protocol, StoreRequest
from memwal.table.state import TableState

from .ground import Actor, Ground

T = TypeVar("T")

DIMENSION = 4
KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        ("cat", pa.string()),
        ("text", pa.string()),
        ("vector", pa.list_(pa.float32(), DIMENSION)),
    ]
)

CREATE: dict[str, Callable[[Any], None]] = {
    "btree": lambda ds: ds.create_scalar_index("id", "BTREE", name="btree"),
    "bitmap": lambda ds: ds.create_scalar_index("cat", "BITMAP", name="bitmap"),
    "inverted": lambda ds: ds.create_scalar_index("text", "INVERTED", name="inverted"),
    "IVF_FLAT": lambda ds: ds.create_index("vector", "IVF_FLAT", name="IVF_FLAT", num_partitions=2),
    "IVF_PQ": lambda ds: ds.create_index("vector", "IVF_PQ", name="IVF_PQ", num_partitions=2, num_sub_vectors=2),
    "IVF_SQ": lambda ds: ds.create_index("vector", "IVF_SQ", name="IVF_SQ", num_partitions=2),
}
"""How pylance creates an index of each kind; its name is the kind."""


def vector(number: int) -> list[float]:
    """A vector of its own for each number, inside the same box for all of them."""
    return [math.cos(number), math.sin(number), math.cos(3 * number), math.sin(5 * number)]


def rows(first: int, end: int, cat: str = "base") -> pa.Table:
    """Rows with the keys ``first`` to ``end - 1``."""
    ids = list(range(first, end))
    flat = np.array([vector(i) for i in ids], np.float32).reshape(-1)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), DIMENSION)
    texts = [f"word{i} {cat}" for i in ids]
    return pa.table([ids, [cat] * len(ids), texts, vectors], schema=SCHEMA)


def native(place: Path, kinds: list[str], base: pa.Table | None = None) -> None:
    """A table that pylance wrote, with 300 rows or ``base`` in fragment 0, and an index of each kind."""
    lance.write_dataset(rows(0, 300) if base is None else base, str(place))
    for kind in kinds:
        CREATE[kind](lance.dataset(str(place)))


def enabled(place: Path, kinds: list[str], revision: str = "R", maintained: list[str] | None = None) -> memwal.Table:
    """A native table with indexes, all maintained unless ``maintained`` names others, and MemWAL enabled."""
    native(place, kinds)
    return memwal.enable(place, revision=revision, maintained_indexes=kinds if maintained is None else maintained)


def details(place: Path) -> IndexDetails:
    """Details of the MemWAL index in the newest version."""
    return memwal.open(place)._state.mem_wal


def recorded(state: TableState, name: str, region: str) -> int | None:
    """The recorded catch-up of an index for a region; None if there is no entry."""
    entry = next((c for c in state.mem_wal.catchup if c.index_name == name), None)
    return None if entry is None else dict(entry.generations).get(region, 0)


def fragments_of(state: TableState, name: str) -> set[int]:
    """Fragments that the bitmaps of an index name."""
    entries = [e for e in state.manifest.indices if e.name == name]
    return {f for e in entries for f in pyroaring.BitMap.deserialize(e.fragment_bitmap)}


def requests(store: Ground, coroutine: Protocol[Any]) -> list[StoreRequest[Any]]:
    """The requests of ``coroutine`` on a copy of ``store``."""
    copy = store.copy()
    copy.run(coroutine)
    return copy.asked


def interrupted(store: Ground, coroutine: Protocol[T], at: int, meanwhile: Callable[[], None]) -> T:
    """Run ``coroutine`` to its end; ``meanwhile`` happens just before its request number ``at``, from 0."""
    actor = Actor(store, coroutine).stepped(at)
    if actor.waiting is not None:
        meanwhile()
    return actor.finish()


def crashed(store: Ground, coroutine: Protocol[Any], after: int) -> bool:
    """Run ``coroutine`` until ``after`` of its requests were performed, and drop it; whether it ended before."""
    actor = Actor(store, coroutine).stepped(after)
    actor.abandon()
    return actor.waiting is None
