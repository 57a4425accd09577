"""What scenarios stand on: a small table with MemWAL enabled, one region, and the engine's own way to look at both."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

import pyarrow as pa
from memwal import invariants, paths
from memwal.codec.index_details import IndexDetails
from memwal.effects import Io
from memwal.errors import EngineBug
from memwal.ids import Milliseconds, RegionId
from memwal.index import mem_wal
from memwal.region.region import Region
from memwal.region.rows import Rows
from memwal.revisions import CONFIG_REVISION, STRICT, Revision
from memwal.table import schema as schemas
from memwal.table import write
from memwal.table.state import TableState

from ..bugs import none_planted
from ..oracles import inspected
from ..process import Alone, Process, run_alone
from ..store import Contents
from ..world import Oracle
from .scenario import ScenarioSetting

TABLE = Io(interpretation=STRICT)
"""The table, the root of the store, for those who make it or look at it from outside: others have that of their
`ScenarioSetting`."""


def region_id(number: int) -> RegionId:
    """The id of the manual region ``number``, from 1; a manual region needs no registration."""
    return RegionId(f"00000000-0000-4000-8000-{number:012d}")


REGION = region_id(1)
"""The one region of most worlds."""
KEY, VALUE = "id", "value"
SCHEMA = schemas.with_primary_key(pa.schema([pa.field(KEY, pa.string()), pa.field(VALUE, pa.string())]), [KEY])
"""Rows: a text key and a text value."""
Pairs = tuple[tuple[str, str], ...]
"""(key, value) of rows."""


async def _enabled(revision: Revision, config: Mapping[str, str]) -> TableState:
    config = {CONFIG_REVISION: revision.name, **config}
    created = await write.create(TABLE, SCHEMA, None, config)
    details = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None)
    return await mem_wal.enable(TABLE, created, details)


def table(revision: Revision, **config: str) -> Contents:
    """Contents of a store with an empty table on which MemWAL is enabled; ``config``: keys below ``memwal.``."""
    return _table(revision, tuple(sorted((f"memwal.{key}", value) for key, value in config.items())))


@lru_cache
def _table(revision: Revision, config: tuple[tuple[str, str], ...]) -> Contents:
    return after(Contents(), Process("creator", partial(_enabled, revision, dict(config)))).contents


def after(contents: Contents, process: Process) -> Alone:
    """How ``process`` ran on ``contents``, alone; raises `EngineBug` if it failed: nothing can be built on that.

    No bug is planted in it: a scenario begins in the same way whatever breaks it later.
    """
    with none_planted():
        alone = run_alone(process, contents)
    if alone.end.failure is not None:
        raise EngineBug(f"{process.name} failed: {alone.end.failure.kind}: {alone.end.failure.text}")
    return alone


def region(setting: ScenarioSetting, *, wal_collection: bool = False, manifest_collection: bool = False) -> Region:
    """The region under ``setting``, as a writer of the table knows it."""
    ids = schemas.field_ids(schemas.to_fields(SCHEMA))
    return Region(
        io=setting.table.child(paths.region(REGION)),
        region_id=REGION,
        revision=setting.revision,
        rows=Rows(table=SCHEMA, key=(KEY,), revision=setting.revision, field_ids=tuple(ids.items())),
        wal_collection=wal_collection,
        manifest_collection=manifest_collection,
    )


def rows_table(rows: Mapping[str, str]) -> pa.Table:
    """``rows`` (key -> value) as a client passes them to a put."""
    return pa.table({KEY: list(rows), VALUE: list(rows.values())}, schema=SCHEMA)


def pairs(found: pa.Table) -> Pairs:
    """The (key, value) pairs of the rows that a read returned, sorted; a key may be there twice."""
    return tuple(sorted(zip(found.column(KEY).to_pylist(), found.column(VALUE).to_pylist(), strict=True)))


def rows_of(found: pa.Table) -> dict[str, str]:
    """Key -> value of the rows that a read returned; raises `EngineBug` if a key is there twice."""
    rows = pairs(found)
    if len(dict(rows)) < len(rows):
        raise EngineBug(f"a merged read returned a key twice: {rows}")
    return dict(rows)


def stored_invariants() -> tuple[Oracle, ...]:
    """One oracle per invariant that `memwal.invariants` knows of a table and its regions."""
    names = [*invariants.REGION_INVARIANTS, *invariants.TABLE_INVARIANTS]
    return inspected(Process("inspector", partial(invariants.check, TABLE)), names)
