"""The way of rows through a table, and what the engine and pylance read of them at each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pyarrow.compute as pc

from .cells import Cell, cells

ID = "id"
Rows = dict[int, tuple[Cell, ...]]
"""Cells of the other columns by id."""


def found(table: pa.Table) -> Rows:
    """The rows of a table; fails for an id that is there twice."""
    ids = table.column(ID).to_pylist()
    assert len(set(ids)) == len(ids), ids
    columns = [cells(table.column(name)) for name in table.schema.names if name != ID]
    return dict(zip(ids, zip(*columns, strict=True), strict=True))


def journey(
    place: Path, schema: pa.Schema, revision: str, older: Sequence[pa.Table], newer: pa.Table
) -> Iterator[tuple[str, pa.Table]]:
    """Each step with all rows as they are read there; ``newer`` may replace rows of ``older``, which are put first."""
    table = memwal.create(place, schema, primary_key=[ID], revision=revision)
    first = table.writer(background=False)
    for rows in older:
        first.put(rows)
    first.put(newer)
    yield "WAL", table.scan()
    yield "memory", table.scan(writers=[first])
    yield "looked up in memory", table.get(table.scan(columns=[ID]), writers=[first])
    with table.writer(first.region_id, background=False) as second:
        yield "recovered memory", table.scan(writers=[second])
        second.flush()
        yield "generation", table.scan()
        yield "generation, by pylance", _generation(place)
        for rows in older:
            second.put(rows)
        second.put(newer)
        yield "WAL above a generation", table.scan()
        second.flush()
        yield "two generations", table.scan()
    table.merge()
    yield from _merged(place, table)
    with table.writer(first.region_id, background=False) as third:
        third.put(newer)
        third.flush()
    table.merge()
    yield "merged again, by pylance", lance.dataset(str(place)).to_table()
    memwal.base_table(place).compact()
    yield "compacted, by pylance", lance.dataset(str(place)).to_table()


def _merged(place: Path, table: memwal.Table) -> Iterator[tuple[str, pa.Table]]:
    yield "base", table.scan()
    yield (
        "base, in parts",
        pa.concat_tables([table.schema.remove_metadata().empty_table(), *map(_bare, table.batches())]),
    )
    yield "base, by pylance", lance.dataset(str(place)).to_table()
    half = table.scan().num_rows // 2
    sides = [table.scan(filter=f"{ID} < {half}"), table.scan(filter=pc.field(ID) >= half)]
    yield "filtered on the key", pa.concat_tables(sides)
    name = table.schema.names[1]
    sides = [table.scan(filter=f"{name} IS NULL"), table.scan(filter=pc.field(name).is_valid())]
    yield "filtered on a column", pa.concat_tables(sides)
    yield "looked up", table.get(table.scan(columns=[ID]))


def _bare(rows: pa.Table) -> pa.Table:
    return rows.replace_schema_metadata(None)


def _generation(place: Path) -> pa.Table:
    """Rows of the only generation, as pylance reads them; the last one of each id counts."""
    (folder,) = {path.parents[1] for path in place.rglob("_mem_wal/**/_versions/*.manifest")}
    rows = lance.dataset(str(folder)).to_table()
    last = {number: at for at, number in enumerate(rows.column(ID).to_pylist())}
    kept = [rows.slice(at, 1) for at in last.values()]
    names = [name for name in rows.schema.names if name != "_tombstone"]
    return pa.concat_tables([rows.slice(0, 0), *kept]).select(names)
