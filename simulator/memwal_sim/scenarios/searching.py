"""A search by the indexes of a table, as an engine that follows the indexed read plan makes it.

The plan is the engine's (`memwal.read.gap`), and so are all indexes: of the base table, of flushed generations and of
the MemTable. This only asks each source for a value and puts the answers together: within a source the last row of a
key counts, a hit whose key a newer source has is dropped, and a hit of a generation that stands for merged rows counts
only if the base has that row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from memwal import paths
from memwal.codec import bloom, data_file
from memwal.codec.bloom import Filter
from memwal.effects import Io
from memwal.ids import FragmentId
from memwal.maintained.memory import MemTableIndexes
from memwal.read import gap
from memwal.read.gap import IndexedPlan
from memwal.read.scan import View
from memwal.region.rows import TOMBSTONE
from memwal.region.writer import Writer
from memwal.table import read
from memwal.table.coverage import segments
from memwal.table.mirror import index_folder
from memwal.table.read import ROW_ADDRESS
from memwal.table.state import TableState, latest

from .actors import memory_of
from .ground import KEY, VALUE

PAGES = "page_data.lance"
"""File of a btree that has its values and the addresses of their rows."""

Row: TypeAlias = tuple[str, str | None]
"""Key and value; None: a row that deletes the key."""
Hit: TypeAlias = tuple[str | None, str, str]
"""The value that was asked for, and key and value of a row that was found."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source of a search: all that it holds, and what its index says."""

    rows: Mapping[int, Row]
    """By address, in write order: rows that are not hidden, superseded ones included."""
    indexed: Mapping[str | None, Sequence[int]]
    """Value -> addresses that the index gives for it."""
    filter: Filter | MemTableIndexes | None
    """What may be asked first whether the source has a key; None: nothing."""

    def has(self, key: str) -> bool:
        """Whether the source has a row of ``key``, as its filter and then its rows say."""
        return may_contain(self.filter, key) and any(key == own for own, _ in self.rows.values())


def may_contain(known: Filter | MemTableIndexes | None, key: str) -> bool:
    """What a filter says about ``key``."""
    asked = pa.table({KEY: [key]})
    if known is None:
        return True
    found = known.may_contain(asked) if isinstance(known, MemTableIndexes) else known.might_contain(asked)
    return bool(found[0])


def counting(source: Source) -> dict[int, Row]:
    """The rows of a source that no later one of their key supersedes, by address."""
    last = {key: address for address, (key, _) in source.rows.items()}
    return {address: source.rows[address] for address in last.values()}


async def hits(view: View, writer: Writer, table: Io, name: str) -> tuple[Hit, ...]:
    """What searches for every value find by the index ``name``, sorted, with what ``writer`` holds in memory.

    Only of the region of ``writer``, which has no frozen MemTables.
    """
    plan = await gap.plan(table, view, name, memory=[memory_of(writer)])
    newer = await _unmerged(view, writer, plan, name)
    base = await _source(table, view.base, name, None)
    found: list[Hit] = []
    for at, source in enumerate(newer):
        rows = dict(source.rows) if isinstance(source.filter, MemTableIndexes) else counting(source)
        found += [hit for hit in _answers(source, rows) if not superseded(hit[1], newer[:at])]
    merged = _answers(base, _within(base.rows, plan.indexed))
    scanned = _within(base.rows, plan.scanned)
    merged += [(value, key, value) for key, value in scanned.values() if value is not None]
    merged += await _from_gap(view, writer, plan, base, name)
    found += [hit for hit in merged if not superseded(hit[1], newer)]
    return tuple(sorted(found, key=str))


def superseded(key: str, newer: Sequence[Source]) -> bool:
    """Whether a newer source has the key, so that a hit of an older one does not count."""
    return any(source.has(key) for source in newer)


def _within(rows: Mapping[int, Row], fragments: frozenset[FragmentId]) -> dict[int, Row]:
    return {address: row for address, row in rows.items() if address >> 32 in fragments}


def _answers(source: Source, rows: Mapping[int, Row]) -> list[Hit]:
    found = []
    for asked, addresses in source.indexed.items():
        for address in addresses:
            key, value = rows.get(address, ("", None))
            if value is not None:
                found.append((asked, key, value))
    return found


async def _unmerged(view: View, writer: Writer, plan: IndexedPlan, name: str) -> list[Source]:
    """What the base table lacks, newest first: memory, and generations that are not merged."""
    region = plan.region(writer.region.region_id)
    newer = [_memory(writer, name)] if writer.memtable.generation in region.memory else []
    for listed in reversed(region.flushed):
        newer.append(await _generation(view, writer, listed.path, name))
    return newer


def _memory(writer: Writer, name: str) -> Source:
    indexes = writer.memtable.index_up_to_date(maintained=True)
    assert indexes is not None
    rows = dict(enumerate(_rows(writer.memtable.table())))
    values = {value for _, value in rows.values()}
    indexed = {value: tuple(int(offset) for offset in indexes.equal(name, value)) for value in values}
    return Source(rows, indexed, indexes)


async def _generation(view: View, writer: Writer, path: str, name: str) -> Source:
    io = writer.region.io.child(path)
    known = bloom.decode(await io.get(paths.BLOOM_FILTER), view.base.revision, io.path(paths.BLOOM_FILTER))
    return await _source(io, await latest(io), name, known)


async def _source(io: Io, state: TableState, name: str, known: Filter | None) -> Source:
    """A table whose rows are found by its own index, or by looking at each where it has none of that name."""
    columns = [column for column in (KEY, VALUE, TOMBSTONE) if column in state.schema.names]
    stored = await read.scan(io, state, columns, with_row_address=True)
    rows = dict(zip(stored.column(ROW_ADDRESS).to_pylist(), _rows(stored), strict=True))
    indexed: dict[str | None, list[int]] = {}
    for entry in segments(state, name):
        page = f"{index_folder(entry.uuid.uuid)}/{PAGES}"
        pages = data_file.decode(await io.get(page), io.path(page))
        for value, address in zip(pages.column("values").to_pylist(), pages.column("ids").to_pylist(), strict=True):
            indexed.setdefault(value, []).append(address)
    if not segments(state, name):
        for address, (_, value) in rows.items():
            indexed.setdefault(value, []).append(address)
    return Source(rows, indexed, known)


def _rows(stored: pa.Table) -> list[Row]:
    deleted = stored.column(TOMBSTONE).to_pylist() if TOMBSTONE in stored.schema.names else [False] * stored.num_rows
    keys, values = stored.column(KEY).to_pylist(), stored.column(VALUE).to_pylist()
    return [(key, None if gone else value) for key, value, gone in zip(keys, values, deleted, strict=True)]


async def _from_gap(view: View, writer: Writer, plan: IndexedPlan, base: Source, name: str) -> list[Hit]:
    """Hits of merged generations that answer for base fragments without cover."""
    found = []
    for used in plan.region(writer.region.region_id).gap:
        generation = await _generation(view, writer, used.path, name)
        merged = _within(base.rows, used.fragments)
        found += [hit for hit in _answers(generation, counting(generation)) if is_merged(hit, merged)]
    return found


def is_merged(hit: Hit, merged: Mapping[int, Row]) -> bool:
    """Whether the base has the row of a hit among those that the generation stands for."""
    return any(key == hit[1] for key, _ in merged.values())
