"""A flushed generation as a source for the base table: its columns mapped, the last row of each key, in batches.

Columns are mapped by field id where the generation's ids are those of the base, else by name. In memory are the keys of
all its rows and a few bytes for each row; the rows themselves only of a generation that is small.
Source: MemWAL revisions A and B, "Flushed MemTable" and "MemTable Merger".
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .. import cellwise
from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import EngineBug, Unmergeable
from ..ids import FieldId
from ..keys import newest
from ..region.generation_config import CONFIG_EPOCH, CONFIG_FILLED
from ..region.rows import TOMBSTONE, field_id
from ..table import read
from ..table.state import TableState, latest

HELD_BYTES = 4 << 20
"""A generation whose data files are not larger than this together, and whose rows take up at most `HELD_ROWS_BYTES`, is
read once: its rows are kept in memory."""
HELD_ROWS_BYTES = 32 << 20
NATIVE_WITH_BASE_IDS = 13, 0
"""First version of the native writer that gives the columns of a generation the field ids of the base table."""
NATIVE_IN_WRITE_ORDER = 7, 1
"""First version of the native writer that stores the rows of a generation in write order; before, the newest first."""

Kept = npt.NDArray[np.bool_]
"""Which physical rows of a fragment are merged, shape (rows,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSource:
    """What a generation brings into one state of the base table; see `memwal.table.upsert.Source`."""

    io: Io
    generation: TableState
    base: TableState
    columns: Mapping[str, str]
    """Column of the base -> column of the generation."""
    keys: pa.Table
    """Keys of all undeleted rows, tombstones included; they may repeat."""
    kept: Mapping[int, Kept]
    """By fragment: the last row of each key, unless it is a tombstone."""
    deleted: int
    """Keys whose last row is a tombstone (R)."""
    held: pa.Table | None = None
    """The rows that are merged, of a small generation; None for one that is read again for its rows."""

    @property
    def path(self) -> str:
        return self.io.root

    @property
    def rows(self) -> int:
        return sum(int(kept.sum()) for kept in self.kept.values())

    @property
    def absent(self) -> tuple[str, ...]:
        filled = set(self.generation.config.get(CONFIG_FILLED, "").split("\n"))
        return tuple(name for name in self.base.schema.names if self.columns.get(name) in {None, *filled})

    async def batches(self) -> AsyncIterator[pa.Table]:
        """The rows in the base table's schema, in write order. Raises `Unmergeable` for a NULL that it forbids."""
        schema = self.base.schema
        if self.held is not None:
            yield self._conformed(self.held, schema)
            return
        for fragment in _in_order(self.generation):
            kept, first = self.kept[fragment.id], 0
            if not kept.any():
                continue  # nothing of it is merged, so that its columns are not read
            async for batch in read.batches(self.io, self.generation, fragment, list(self.columns.values())):
                here = kept[first : first + batch.num_rows]
                first += batch.num_rows
                yield self._conformed(batch if here.all() else cellwise.where(batch, here), schema)

    def _conformed(self, batch: pa.Table, schema: pa.Schema) -> pa.Table:
        columns = []
        for column in schema:
            held = self.columns.get(column.name)
            values = pa.nulls(batch.num_rows, column.type) if held is None else batch.column(held)
            if not column.nullable and values.null_count:
                whose = "is not in the generation" if held is None else "has NULLs in the generation"
                raise Unmergeable(self.path, f"column {column.name!r} {whose}, and the base has none", "AMB-50")
            columns.append(values)
        return pa.table(columns, schema=schema)


def _in_order(generation: TableState) -> list[table_pb2.DataFragment]:
    """Fragments in write order: by row address."""
    return sorted(generation.fragments, key=lambda fragment: fragment.id)


@implements("MERGE-005", "MERGE-020", "GEN-012", "AMB-46", "AMB-50")
async def open_source(region: Io, folder: str, base: TableState) -> GenerationSource:
    """Open the generation in ``folder`` for merging into ``base``; its keys are read, its rows only if it is small.

    Raises `NotFound` if the folder holds no table, `ArtifactError` for missing or damaged files, and `Unmergeable` if
    the columns do not fit.
    """
    io = region.child(folder)
    generation = await latest(io)
    columns = mapped_columns(io.root, generation, base)
    key = [columns[name] for name in base.primary_key]
    # AMB-89, deletes: only R has tombstones, and a generation without any need not have the column.
    has_tombstones = base.revision.tombstones and TOMBSTONE in generation.schema.names
    wanted = [*key, TOMBSTONE] if has_tombstones else key
    everything = list(dict.fromkeys([*wanted, *columns.values()]))
    # Reading a small one once is cheaper than reading its keys and then its rows.
    small = _data_bytes(generation) <= HELD_BYTES
    fragments = _in_order(generation)
    parts, live = [], {}
    done, total = 0, sum(fragment.physical_rows for fragment in fragments)
    for fragment in fragments:
        rows, live[fragment.id] = await _undeleted(io, generation, fragment, everything if small else wanted)
        parts.append(rows)
        if small and sum(part.nbytes for part in parts) > HELD_ROWS_BYTES:
            small, parts = False, [part.select(wanted) for part in parts]
        done += fragment.physical_rows
        await io.note("merge_progress", stage="keys", done=done, total=total)
    as_stored = _stacked(parts, generation, everything if small else wanted)
    stacked = in_write_order(as_stored, generation)
    kept, deleted = _last(stacked, key, has_tombstones)
    _scatter(live, kept if kept is None or stacked is as_stored else kept[::-1])
    keys = stacked.select(key).rename_columns(list(base.primary_key))
    _check_keys(io.root, keys)
    return GenerationSource(
        io=io,
        generation=generation,
        base=base,
        columns=columns,
        keys=keys,
        kept=live,
        deleted=deleted,
        held=(stacked if kept is None else cellwise.where(stacked, kept)) if small else None,
    )


def _data_bytes(generation: TableState) -> float:
    """Size of the generation's data files together; infinite if one is not known."""
    sizes = [file.file_size_bytes for fragment in generation.fragments for file in fragment.files]
    return sum(sizes) if all(sizes) else math.inf


async def _undeleted(
    io: Io, generation: TableState, fragment: table_pb2.DataFragment, columns: Sequence[str]
) -> tuple[pa.Table, Kept]:
    """Those columns of the fragment's rows that are not deleted, and which rows those are."""
    live = np.ones(fragment.physical_rows, dtype=np.bool_)
    live[await read.deleted_offsets(io, fragment)] = False
    parts, first = [], 0
    if columns:
        async for batch in read.batches(io, generation, fragment, columns):
            here = live[first : first + batch.num_rows]
            first += batch.num_rows
            parts.append(batch if here.all() else cellwise.where(batch, here))
    return _stacked(parts, generation, columns), live


def _stacked(parts: Sequence[pa.Table], generation: TableState, columns: Sequence[str]) -> pa.Table:
    return pa.concat_tables([pa.schema([generation.schema.field(name) for name in columns]).empty_table(), *parts])


def _last(rows: pa.Table, key: Sequence[str], has_tombstones: bool) -> tuple[Kept | None, int]:
    """Which rows are the last of their key and no tombstones (None: all), and how many last rows are tombstones."""
    if not key:
        return None, 0
    last = newest(rows, key)
    kept = np.zeros(rows.num_rows, dtype=np.bool_)
    kept[last] = True
    if not has_tombstones or not pc.any(rows.column(TOMBSTONE)).as_py():
        return (kept if len(last) < rows.num_rows else None), 0
    kept &= ~rows.column(TOMBSTONE).to_numpy()
    return kept, len(last) - int(kept.sum())


def _scatter(live: dict[int, Kept], kept: Kept | None) -> None:
    """Restrict the undeleted rows of each fragment to those that are kept, fragment after fragment."""
    if kept is None:
        return
    start = 0
    for mask in live.values():
        count = int(mask.sum())
        mask[mask] = kept[start : start + count]
        start += count
    if start != len(kept):
        raise EngineBug(f"{len(kept)} rows were judged, and the fragments have {start}")


def _check_keys(path: str, keys: pa.Table) -> None:
    for name in keys.schema.names:
        if keys.column(name).null_count:
            raise Unmergeable(path, f"key column {name!r} has NULLs in the generation", "AMB-136")


@implements("AMB-50", "AMB-89")
def mapped_columns(path: str, generation: TableState, base: TableState) -> dict[str, str]:
    """Column of ``base`` -> column of ``generation`` that holds its values; a column that was added has no entry.

    Columns that the base does not have any more are left out. Raises `Unmergeable` for another type, for a key column
    that is not there, and for tombstones where the revision has none.
    """
    if not base.revision.tombstones and TOMBSTONE in generation.schema.names:
        reason = f"column {TOMBSTONE!r} may mark deletes, which revision {base.revision.name} does not have"
        raise Unmergeable(path, reason, "AMB-89")
    ids = _base_ids(generation, base)
    by_id = {number: name for name, number in base.field_ids.items()}
    found: dict[str, str] = {}
    for held in generation.schema.names:
        number = ids.get(held)
        name = held if number is None else by_id.get(number)
        if name is None or name not in base.field_ids:
            continue  # the column was dropped since: AMB-50, schema changes, says that its values go with it
        theirs, ours = generation.schema.field(held).type, base.schema.field(name).type
        if theirs != ours:
            reason = f"column {held!r} is {theirs} in the generation and {ours} in the base"
            raise Unmergeable(path, reason, "AMB-50")
        found[name] = held
    missing = [name for name in base.primary_key if name not in found]
    if missing:
        raise Unmergeable(path, f"key columns {missing} are not in the generation", "AMB-50")
    return {name: found[name] for name in base.schema.names if name in found}


def _base_ids(generation: TableState, base: TableState) -> dict[str, FieldId]:
    """Ids that columns of the generation have in the base, as far as the generation tells.

    A column may carry its id as metadata. The engine and revision R's native writer give the columns of a generation
    the ids of the base, that one from 13.0 on; what others do with ids is not known.
    """
    marked = {column.name: number for column in generation.schema if (number := field_id(column)) is not None}
    own = CONFIG_EPOCH in generation.config or (
        base.revision.base_field_ids and not _written_before(generation, NATIVE_WITH_BASE_IDS)
    )
    numbered = {name: number for name, number in generation.field_ids.items() if name != TOMBSTONE} if own else {}
    return {**numbered, **marked}


def _written_before(generation: TableState, version: tuple[int, int]) -> bool:
    """Whether the native writer wrote the generation, in a version before that."""
    writer = generation.manifest.message.writer_version
    numbers = writer.version.split(".")[:2]
    native = writer.library == "lance" and CONFIG_EPOCH not in generation.config
    return native and len(numbers) == 2 and all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) < version


def newest_first(generation: TableState) -> bool:
    """Whether later rows of a generation are older, in its fragments and from fragment to fragment."""
    return _written_before(generation, NATIVE_IN_WRITE_ORDER)


@implements("READ-005", "AMB-46")
def in_write_order(rows: pa.Table, generation: TableState) -> pa.Table:
    """All rows of a generation, given as they are stored; later ones are newer."""
    if not newest_first(generation):
        return rows
    return cellwise.at(rows, np.arange(rows.num_rows)[::-1])
