"""Tables with the columns ``id``, the key, and ``v``: made, written, and looked at; most on a store in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import memwal
import pyarrow as pa
from memwal.codec.index_details import IndexDetails
from memwal.effects import Io, Protocol
from memwal.ids import RegionId
from memwal.index import mem_wal, regions
from memwal.index.opening import region_of
from memwal.index.snapshot import RegionRow
from memwal.jobs import spec_change
from memwal.region.opening import open_writer
from memwal.revisions import STRICT
from memwal.table import read
from memwal.table.state import TableState, latest, load, versions

from .ground import SCHEMA, Ground, row

IO = Io("t", interpretation=STRICT)


def table(ground: Ground, revision: str = "B", **options: Any) -> memwal.Table:
    """A new table with the columns ``id``, the key, and ``v``."""
    return memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, store=ground, **options)


def opened(ground: Ground) -> memwal.Table:
    """The table as another process opens it."""
    return memwal.open("t", store=ground)


def keys_of(table: memwal.Table, value: object, count: int, field: str = "b") -> list[int]:
    """The first ``count`` keys whose rows have the region value."""
    ids = pa.table([pa.array(range(1_000)), pa.nulls(1_000, pa.string())], schema=SCHEMA)
    found = [at for at, own in enumerate(table.region_values(ids).column(field).to_pylist()) if own == value]
    return found[:count]


def flush(table: memwal.Table, *generations: pa.Table | Sequence[pa.Table], region: str | None = None) -> RegionId:
    """Write and flush each generation, one of several WAL entries where there are several tables; the region."""
    with table.writer(region, background=False) as writer:
        for generation in generations:
            for entry in [generation] if isinstance(generation, pa.Table) else generation:
                writer.put(entry)
            writer.flush()
        return writer.region_id


def flushed(table: memwal.Table, region: str, *keys: int, value: str = "x") -> None:
    """Write one generation per key."""
    flush(table, *(row(key, value) for key in keys), region=region)


def bucket_of(table: memwal.Table, key: int, field: str = "b", value: str = "x") -> object:
    """The region value of a row."""
    return table.region_values(row(key, value)).column(field)[0].as_py()


def by_id(table: pa.Table) -> dict[int, Any]:
    """``v`` by ``id``, ascending; fails for an id that is there twice."""
    found = table.column("id").to_pylist()
    assert len(set(found)) == len(found), found
    return dict(sorted(zip(found, table.column("v").to_pylist(), strict=True)))


def history(ground: Ground) -> list[TableState]:
    """Every version of the table that is there, ascending."""
    return [ground.run(load(IO, version)) for version in ground.run(versions(IO))]


def newest(ground: Ground) -> TableState:
    """The newest version of the table."""
    return ground.run(latest(IO))


def content(ground: Ground, state: TableState) -> dict[int, Any]:
    """``v`` by ``id`` in the base table of ``state``; fails for a key that is there twice."""
    return by_id(ground.run(read.scan(IO, state)))


def left_over(ground: Ground) -> set[str]:
    """Data and deletion files of the base that no version names."""
    named = set()
    for state in history(ground):
        for fragment in state.fragments:
            named |= {f"t/data/{file.path}" for file in fragment.files}
            if fragment.HasField("deletion_file"):
                named.add(f"t/{read.deletion_path(fragment)}")
    return {n for n in ground.objects if n.startswith(("t/data/", "t/_deletions/"))} - named


def changed(ground: Ground, change: Callable[[IndexDetails], IndexDetails]) -> TableState:
    """Commit other index details, as an administrator's process does."""
    return ground.run(changing(change))


def changing(change: Callable[[IndexDetails], IndexDetails]) -> Protocol[TableState]:
    """The process that commits other index details."""

    async def derive(_: TableState, details: IndexDetails) -> IndexDetails:
        return change(details)

    return mem_wal.change(IO, derive)


def registered(ground: Ground) -> dict[RegionId, RegionRow]:
    """Rows of the newest snapshot."""
    return {each.region_id: each for each in ground.run(regions.known(IO, newest(ground)))}


async def writing(state: TableState, region: RegionRow, rows: pa.Table) -> str:
    """Open the region as the process knew it at ``state``, and put ``rows`` durably."""
    writer = await open_writer(region_of(IO, state, region))
    await spec_change.admit(IO, region)
    await writer.put(rows)
    return "written"


def objects_below(ground: Ground, folder: str) -> list[str]:
    """Names of the objects in a folder of the table, relative to it."""
    prefix = f"t/{folder}/"
    return sorted(name.removeprefix(prefix) for name in ground.objects if name.startswith(prefix))
