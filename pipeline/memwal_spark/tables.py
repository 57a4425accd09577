"""What a table consists of beside its rows, as tables: regions, generations, WAL entries and marks of finished tasks.

All but the marks is what `memwal.inspect` tells of a region; what it cannot read is in column ``damage``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow as pa

if TYPE_CHECKING:
    from memwal import Table
    from memwal.inspection.node import Node

_ALL = 1 << 62
"""More than there is of anything."""

Inspected = Callable[[int, int], "Node"]
"""Looks at a region: at so many things of each kind, and at so many WAL entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRegion:
    """A region as the driver found it."""

    region: str
    spec_id: int
    claimed: bool
    merged: int
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """One of the tables."""

    columns: Mapping[str, tuple[pa.DataType, str]]
    """Name -> type and meaning."""
    rows: Callable[[Table, ListedRegion, Inspected], Iterator[dict[str, Any]]]
    """The rows of one region; the last argument inspects it."""

    @property
    def schema(self) -> pa.Schema:
        """Its Arrow schema."""
        return pa.schema([pa.field(name, kind) for name, (kind, _) in self.columns.items()])


def regions(table: Table) -> list[ListedRegion]:
    """All regions of the table, by id."""
    return [
        ListedRegion(
            region=str(each.region_id),
            spec_id=int(each.spec_id),
            claimed=each.manifest is not None,
            merged=int(each.merged),
            values={name: str(value) for name, value in each.values.items() if value is not None},
        )
        for each in table.regions()
    ]


def rows(name: str, table: Table, region: ListedRegion, path: str, storage: Mapping[str, str]) -> pa.Table:
    """The rows that table ``name`` has of one region."""

    def inspected(limit: int, entries: int) -> Node:
        found = memwal.inspect(
            path, region=region.region, limit=limit, entries=entries, storage_options=storage or None
        )
        return next(node for node in found.all() if node.kind == "region")

    listing = TABLES[name]
    return pa.Table.from_pylist(list(listing.rows(table, region, inspected)), listing.schema)


def _regions(_: Table, region: ListedRegion, inspected: Inspected) -> Iterator[dict[str, Any]]:
    known = {"region": region.region, "spec_id": region.spec_id, "generation_merged": region.merged}
    known["values"] = list(region.values.items())
    if not region.claimed:
        yield known
        return
    node = inspected(1, 1)
    told, wal = dict(node.fields), _fields(node, "wal")
    yield {
        **known,
        **{name: told.get(name) for name in ("epoch", "generation_current", "position_replay_after", "sealed")},
        "manifest_version": told.get("version"),
        "generations": len(told.get("generations", ())),  # type: ignore[arg-type] # a tuple
        "wal_first": wal.get("first"),
        "wal_last": wal.get("last"),
        "wal_unflushed": wal.get("unflushed"),
        "damage": _damage(node),
    }


def _generations(_: Table, region: ListedRegion, inspected: Inspected) -> Iterator[dict[str, Any]]:
    node = inspected(_ALL, 0) if region.claimed else None
    for each in _below(node, "generation"):
        told = dict(each.fields)
        yield {
            "region": region.region,
            "folder": each.name,
            **{name: told.get(name) for name in ("generation", "version", "rows", "fragments")},
            "merged": told["generation"] <= region.merged,  # type: ignore[operator] # a number
            "damage": _damage(each),
        }


def _wal(_: Table, region: ListedRegion, inspected: Inspected) -> Iterator[dict[str, Any]]:
    node = inspected(1, _ALL) if region.claimed else None
    for each in _below(node, "wal_entry"):
        told = dict(each.fields)
        yield {
            "region": region.region,
            "position": int(each.name),
            **{name: told.get(name) for name in ("epoch", "generation", "barrier", "rows", "size_bytes")},
            "damage": _damage(each),
        }


def _marks(table: Table, region: ListedRegion, _: Inspected) -> Iterator[dict[str, Any]]:
    for mark in table.done(region.region) if region.claimed else ():
        yield {
            "region": region.region,
            "application": mark.application,
            "batch": mark.batch,
            "partitions": list(mark.partitions),
        }


def _below(node: Node | None, kind: str) -> list[Node]:
    return [each for each in node.all() if each.kind == kind] if node is not None else []


def _fields(node: Node, kind: str) -> dict[str, Any]:
    return dict(next(iter(_below(node, kind)), node).fields)


def _damage(node: Node) -> str | None:
    """Why the node, or something below it, cannot be read; None if nothing is damaged."""
    return "; ".join(f"{one.path}: {one.reason}" for each in node.all() for one in each.damage) or None


_REGION = (pa.string(), "id of the region")
_DAMAGE = (pa.string(), "what of it cannot be read, and why; NULL if all can")

TABLES: Mapping[str, ListedTable] = {
    "regions": ListedTable(
        columns={
            "region": _REGION,
            "spec_id": (pa.int32(), "id of the region spec; 0 for a manual region"),
            "values": (pa.map_(pa.string(), pa.string()), "region value by field id, as text"),
            "manifest_version": (
                pa.int64(),
                "version of the newest manifest; NULL, like the columns below, if the region was never claimed",
            ),
            "epoch": (pa.int64(), "of the newest claim"),
            "generation_current": (pa.int64(), "generation that the next flush makes"),
            "generation_merged": (pa.int64(), "newest generation in the base table; 0 if none"),
            "generations": (pa.int64(), "number of generations that the manifest lists"),
            "position_replay_after": (pa.int64(), "position of the last WAL entry that is flushed"),
            "wal_first": (pa.int64(), "position of the first WAL entry that is there"),
            "wal_last": (pa.int64(), "position of the last one"),
            "wal_unflushed": (pa.int64(), "number of entries that no generation has"),
            "sealed": (pa.bool_(), "whether the region takes no more writes"),
            "damage": _DAMAGE,
        },
        rows=_regions,
    ),
    "generations": ListedTable(
        columns={
            "region": _REGION,
            "generation": (pa.int64(), "number of the generation"),
            "folder": (pa.string(), "its folder in that of the region"),
            "merged": (pa.bool_(), "whether the base table has its rows"),
            "version": (pa.int64(), "newest version of its table"),
            "rows": (pa.int64(), "rows of it, those that a later one replaces too"),
            "fragments": (pa.int64(), "its fragments"),
            "damage": _DAMAGE,
        },
        rows=_generations,
    ),
    "wal": ListedTable(
        columns={
            "region": _REGION,
            "position": (pa.int64(), "of the entry"),
            "epoch": (pa.int64(), "claim under which it was written"),
            "generation": (pa.int64(), "generation that it says it goes into (R)"),
            "barrier": (pa.bool_(), "whether it is the barrier of a claim"),
            "rows": (pa.int64(), "rows of it; 0 for barriers and marks"),
            "size_bytes": (pa.int64(), "size of its file"),
            "damage": _DAMAGE,
        },
        rows=_wal,
    ),
    "marks": ListedTable(
        columns={
            "region": _REGION,
            "application": (pa.string(), "name of the application"),
            "batch": (pa.int64(), "number of its newest batch with finished tasks"),
            "partitions": (pa.list_(pa.int64()), "partitions of these tasks"),
        },
        rows=_marks,
    ),
}
"""Name -> what option ``table`` of a read gives."""
