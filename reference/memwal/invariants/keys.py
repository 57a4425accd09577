"""Keys of many rows in bounded memory: which key is there twice, and which one in two regions.

Keys are hashed, and only keys whose hash occurs more than once are looked at as values. Sources are read in as many
passes as the number of keys needs.

Source: MemWAL revisions A and B, "Region"; AMB-52, 54, 55, 105.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..codec.canonical import canonical_bytes, flat, stored_numbers
from ..codec.siphash import Hashes, siphash13_values
from ..violations import Violation, objection
from ..words import counted
from .finding import invariant

KEYS_PER_PASS = 1 << 23
"""Keys whose hashes are held at a time: 64 MiB."""
EXAMPLES = 20
"""Hashes that are looked at as values."""
_MIX = np.uint64(0x9E3779B97F4A7C15)

Source = Callable[[], Awaitable[pa.Table]]
"""Reads the key columns of one part of the rows; called again in each pass."""


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Some of the rows whose keys are compared."""

    owner: str
    """The region that the rows are of; the same for all parts of the base table."""
    path: str
    rows: int
    """About how many."""
    read: Source


@dataclass(frozen=True, slots=True)
class Repeated:
    """A key that occurs more than once."""

    key: Mapping[str, object]
    places: Mapping[tuple[str, str], int]
    """Owner and path of its rows, and how many are there."""


def hashes(keys: pa.Table) -> Hashes:
    """A 64-bit hash of each key; equal keys of one table have equal hashes. Shape (rows,).

    Raises `InvalidArgument` for a type that has no canonical bytes.
    """
    mixed = np.zeros(keys.num_rows, np.uint64)
    for name in keys.schema.names:
        values = canonical_bytes(keys.column(name), name).fill_null(b"")
        mixed = (mixed ^ siphash13_values(values)) * _MIX
    return mixed


async def repeated(parts: Sequence[KeyedRows], *, across_owners: bool) -> tuple[Repeated, ...]:
    """Keys that occur more than once in ``parts``, or, ``across_owners``, in parts of more than one owner.

    At most `EXAMPLES` of them. Rows with NULL in the key are left out: they are equal to nothing.
    """
    owners = sorted({part.owner for part in parts})
    passes = max(1, -(-sum(part.rows for part in parts) // KEYS_PER_PASS))
    suspects = np.empty(0, np.uint64)
    for number in range(passes):
        found = [await _hashed(part, owners.index(part.owner), number, passes) for part in parts]
        suspects = np.union1d(suspects, _suspects(found, across_owners))[:EXAMPLES]
    if not len(suspects):
        return ()
    places: dict[tuple[object, ...], Counter[tuple[str, str]]] = {}
    for part in parts:
        keys = _without_null(await part.read())
        chosen = keys.filter(pa.array(np.isin(hashes(keys), suspects)))
        for row in _rows(chosen):
            places.setdefault(tuple(row.items()), Counter())[part.owner, part.path] += 1
    return tuple(
        Repeated(dict(key), where)  # type: ignore[arg-type]
        for key, where in places.items()
        if (len({owner for owner, _ in where}) if across_owners else where.total()) > 1
    )


def _rows(keys: pa.Table) -> list[dict[str, object]]:
    """``keys`` as Python values; days and times that Python does not have, or not all of them, as numbers."""
    try:
        return list(keys.to_pylist())
    except (ValueError, OverflowError, KeyError):
        columns = [pa.array(stored_numbers(flat(c))) if pa.types.is_temporal(c.type) else c for c in keys.columns]
        return list(pa.table(columns, names=keys.schema.names).to_pylist())


async def _hashed(part: KeyedRows, owner: int, number: int, passes: int) -> tuple[Hashes, npt.NDArray[np.int32]]:
    found = hashes(_without_null(await part.read()))
    found = found[found % np.uint64(passes) == number]
    return found, np.full(len(found), owner, np.int32)


def _suspects(found: Sequence[tuple[Hashes, npt.NDArray[np.int32]]], across_owners: bool) -> Hashes:
    every = np.concatenate([np.empty(0, np.uint64), *(h for h, _ in found)])
    owners = np.concatenate([np.empty(0, np.int32), *(o for _, o in found)])
    order = np.lexsort((owners, every))
    every, owners = every[order], owners[order]
    twice = every[1:] == every[:-1]
    if across_owners:
        twice &= owners[1:] != owners[:-1]
    return np.unique(every[1:][twice])[:EXAMPLES]


def _without_null(keys: pa.Table) -> pa.Table:
    return keys.drop_null() if any(column.null_count for column in keys.columns) else keys


@invariant(
    "AMB-105",
    "READ-015",
    about="rows",
    rows=True,
    remedy="Readers of the base table alone see the key twice, merged reads once. Delete all rows of the key but one; "
    "a merge that updates the key does so by itself.",
)
def base_keys_are_unique(found: Sequence[Repeated]) -> Iterator[Violation]:
    """No two rows of the base table have the same key."""
    for one in found:
        where = sorted({path for _, path in one.places})
        yield objection(
            where[0], f"{counted(sum(one.places.values()), 'row')} have the key {dict(one.key)}: in {', '.join(where)}"
        )


@invariant(
    "AMB-105",
    "AMB-136",
    about="rows",
    rows=True,
    remedy="Such a row is never matched by a merge. Give it a key, or delete it.",
)
def base_keys_are_not_null(nulls: Sequence[tuple[str, str, int]]) -> Iterator[Violation]:
    """No row of the base table has NULL in a key column."""
    for path, column, rows in nulls:
        yield objection(path, f"key column {column!r} is NULL in {counted(rows, 'row')}")


@invariant(
    "REGION-002",
    "REGION-003",
    "READ-014",
    "AMB-52",
    "AMB-54",
    "AMB-55",
    "AMB-56",
    about="rows",
    rows=True,
    remedy="The order of merging decides which row wins. Stop the writers of both regions, and merge the region with "
    "the older row first; the other one then needs replace_rows_of_others.",
)
def keys_are_in_one_region(found: Sequence[Repeated]) -> Iterator[Violation]:
    """No key has rows in two regions: not merged ones, and merged ones where it is known which region merged them."""
    for one in found:
        regions = sorted({owner for owner, _ in one.places})
        for path in sorted({path for _, path in one.places}):
            yield objection(path, f"the key {dict(one.key)} has rows in the regions {' and '.join(regions)}")
