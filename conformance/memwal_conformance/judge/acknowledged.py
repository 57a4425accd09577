"""What a writer has acknowledged, held against the bytes: every row is in the WAL, and in what the table means.

The client of a writer keeps a file for each claim: an Arrow IPC stream whose schema metadata name the region and
the epoch of the claim, with the key columns, the column that orders the rows of a key, and ``deleted``. Of each key the
row with the highest order stands. The last message of a stream may be cut, since its owner may have been killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import content
from .choice import Seen
from .store import JudgedRegion, JudgedStore
from .wire import DamagedBytes

REGION, EPOCH, ORDER = b"region", b"epoch", b"order"
"""Metadata of such a stream."""
DELETED = "deleted"
_HIGHEST, _STORED = "__highest", "__stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """What was acknowledged under one claim of a region."""

    region_id: str
    epoch: int
    order: str
    """Column by which the rows of a key are ordered."""
    rows: pa.Table


def load(folder: Path) -> list[Acknowledged]:
    """All streams of a folder. Raises `DamagedBytes` for a file that is none."""
    return [_load(file) for file in sorted(folder.glob("*.arrows"))]


def _load(file: Path) -> Acknowledged:
    batches: list[pa.RecordBatch] = []
    try:
        with file.open("rb") as source, pa.ipc.open_stream(source) as reader:
            schema, cut = reader.schema, False
            while not cut:
                try:
                    batches.append(reader.read_next_batch())
                except (StopIteration, pa.ArrowInvalid, OSError):
                    cut = True
    except (pa.ArrowException, OSError) as error:
        raise DamagedBytes(f"{file.name} is not an Arrow stream: {error}") from error
    told: Mapping[bytes, bytes] = schema.metadata or {}
    if not {REGION, EPOCH, ORDER} <= set(told) or not told[EPOCH].isdigit():
        raise DamagedBytes(f"{file.name} does not say of which region and epoch it is, and what orders its rows")
    return Acknowledged(
        region_id=told[REGION].decode(),
        epoch=int(told[EPOCH]),
        order=told[ORDER].decode(),
        rows=pa.Table.from_batches(batches, schema).replace_schema_metadata(),
    )


def stored(store: JudgedStore, acknowledged: list[Acknowledged]) -> Seen:
    """A row that was acknowledged under an epoch is in a WAL entry of that epoch or an older one, or a newer row is.

    An entry of a later claim does not count: a row that is there because it was written again was lost before.
    """
    for one in acknowledged:
        region = store.regions.get(one.region_id)
        if region is None:
            yield f"{one.region_id}: rows were acknowledged under epoch {one.epoch}, and there is no such region"
            continue
        there = _in_wal(store, region, one)
        for deleted in (False, True):
            rows = one.rows.filter(pc.equal(pc.fill_null(one.rows[DELETED], False), deleted))
            yield from _lacking(store, one, rows, there.filter(pc.equal(there[DELETED], deleted)))


def _in_wal(store: JudgedStore, region: JudgedRegion, one: Acknowledged) -> pa.Table:
    """Key, order and mark of each row of the region's WAL up to the epoch, in the types of what was acknowledged."""
    names = [*store.key, one.order]
    wanted = pa.schema([*(one.rows.schema.field(name).with_nullable(True) for name in names), (DELETED, pa.bool_())])
    found = [wanted.empty_table()]
    for entry in region.wal.values():
        if entry.epoch <= one.epoch and entry.rows.num_rows:
            rows, none = entry.rows, pa.array([False] * entry.rows.num_rows)
            marks = pc.fill_null(rows[content.TOMBSTONE], False) if content.TOMBSTONE in rows.column_names else none
            found.append(rows.select(names).append_column(DELETED, marks).cast(wanted))
    return pa.concat_tables(found)


def _lacking(store: JudgedStore, one: Acknowledged, rows: pa.Table, there: pa.Table) -> Seen:
    """Of a delete the WAL need not have the order."""
    key = list(store.key)
    highest = there.group_by(key).aggregate([(one.order, "max")]).rename_columns([*key, _HIGHEST])
    both = rows.select([*key, one.order, DELETED]).join(highest.append_column(_STORED, _true(highest)), keys=key)
    enough = pc.or_(both[DELETED], pc.fill_null(pc.greater_equal(both[_HIGHEST], both[one.order]), False))
    good = pc.and_(pc.fill_null(both[_STORED], False), enough)
    lost = both.filter(pc.invert(good)).sort_by([(name, "ascending") for name in (one.order, *key)])
    if lost.num_rows:
        first = lost.select([*key, one.order]).slice(0, 1).to_pylist()[0]
        yield (
            f"{one.region_id}: {lost.num_rows} rows were acknowledged under epoch {one.epoch} and are in no WAL entry "
            f"up to that epoch, first {_words(first)}"
        )
    yield from (None for _ in range(rows.num_rows - lost.num_rows))


def _true(table: pa.Table) -> pa.Array:
    return pa.array([True] * table.num_rows, pa.bool_())


def standing(store: JudgedStore, acknowledged: list[Acknowledged]) -> Seen:
    """Base table, generations and WAL together have the newest acknowledged row of each key, or a newer one."""
    newest: dict[content.Key, tuple[object, bool, str]] = {}
    for one in acknowledged:
        columns = [one.rows[name].to_pylist() for name in (*store.key, one.order, DELETED)]
        for *key, order, deleted in zip(*columns, strict=True):
            known = newest.get(tuple(key))
            if known is None or order >= known[0]:
                newest[tuple(key)] = (order, bool(deleted), one.order)
    try:
        state = content.durable(store)
    except DamagedBytes as error:
        yield f"what the table means cannot be read: {error}"
        return
    yield from _compared(state, newest, store)


def _compared(
    state: content.State, newest: Mapping[content.Key, tuple[object, bool, str]], store: JudgedStore
) -> Iterator[str | None]:
    lost: list[str] = []
    for key, (order, deleted, column) in newest.items():
        row = state.get(key)
        there = row is not None and row[column] >= order
        if there or (row is None and deleted):
            yield None
        else:
            named = _words({**dict(zip(store.key, key, strict=True)), column: order})
            what = "the table has no row of it" if row is None else f"the table has {column} {row[column]}"
            lost.append(f"{named} was acknowledged{' as a delete' if deleted else ''}, and {what}")
    if lost:
        yield f"{len(lost)} keys lack their newest acknowledged row, first {lost[0]}"


def _words(row: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items())
