"""Last write wins, by the judge's own fold: what WAL entries, generations and the base table mean as rows by key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from . import table
from .store import JudgedRegion, JudgedStore, replay_start

TOMBSTONE = "_tombstone"
"""Column of revision R: true marks a delete."""

Key = tuple[Any, ...]
Row = dict[str, Any]
State = dict[Key, Row | None]
"""Newest row of each key; None for a deleted one."""


def shown(row: Row) -> str:
    """A row as a text that is the same wherever the row is stored."""
    return json.dumps({name: value for name, value in row.items() if name != TOMBSTONE}, sort_keys=True, default=repr)


def fold(rows: Iterable[Row], key: Sequence[str], into: State | None = None) -> State:
    """Apply rows in order; later rows of a key replace earlier ones."""
    state: State = {} if into is None else dict(into)
    for row in rows:
        deleted = bool(row.get(TOMBSTONE, False))
        state[tuple(row[name] for name in key)] = None if deleted else {k: v for k, v in row.items() if k != TOMBSTONE}
    return state


def wal_rows(region: JudgedRegion, first: int, last: int) -> list[Row]:
    """Rows of the WAL entries ``first`` to ``last`` that exist, in order."""
    entries = (entry for position, entry in sorted(region.wal.items()) if first <= position <= last)
    return [row for entry in entries if entry.rows.num_rows for row in table.plain(entry.rows)]


def generation_rows(store: JudgedStore, region: JudgedRegion, path: str) -> list[Row]:
    """Rows of a generation in write order, read by pylance. Raises `Damaged`.

    Revision R hides older rows of a key since its second release. A generation of the first one, which has neither
    tombstones nor a key index, holds them all, newest first.
    """
    return rows_in_order(region.folder / path, store.layout.revision, store.key, store.storage)


def rows_in_order(
    folder: Path, revision: str, key: Sequence[str], storage: Mapping[str, str] | None = None
) -> list[Row]:
    """The same of the folder of a generation."""
    found = table.plain(table.rows(folder, storage))
    first_release = revision == "R" and not (folder / "_pk_index").exists()
    if first_release and all(TOMBSTONE not in row for row in found) and len(keys(found, key)) < len(found):
        found.reverse()
    return found


def keys(rows: Iterable[Row], key: Sequence[str]) -> set[Key]:
    """Keys of rows, deletes included."""
    return {tuple(row[name] for name in key) for row in rows}


def region_keys(store: JudgedStore, region: JudgedRegion) -> set[Key]:
    """Every key in a region's WAL and generations. Raises `Damaged` if a listed generation cannot be read."""
    found: set[Key] = set()
    for entry in region.wal.values():
        if entry.rows.num_rows:
            found |= keys(table.plain(entry.rows), store.key)
    newest = region.newest
    for generation in newest.generations if newest is not None else ():
        found |= keys(generation_rows(store, region, generation.path), store.key)
    return found


def durable(store: JudgedStore) -> State:
    """What the whole store means: base, then unmerged generations, then unflushed WAL entries.

    Raises `Damaged` if something that it must read cannot be read.
    """
    state = fold(table.plain(table.rows(store.root, store.storage)), store.key)
    for region in store.regions.values():
        newest = region.newest
        if newest is None:
            continue
        for generation in sorted(newest.generations, key=lambda g: g.number):
            if generation.number > store.merged(region.region_id):
                state = fold(generation_rows(store, region, generation.path), store.key, state)
        start = replay_start(newest, store.layout)
        state = fold(wal_rows(region, start, max(region.wal, default=-1)), store.key, state)
    return state


def live(state: State) -> list[Row]:
    """Rows that are not deleted, by key."""
    return [row for _, row in sorted(state.items(), key=lambda item: repr(item[0])) if row is not None]


def without(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """``rows`` without the columns ``names``."""
    return rows.drop_columns([name for name in names if name in rows.column_names])
