"""Region values of a region that was never registered, from the first row that it holds (AMB-53)."""

from __future__ import annotations

import pyarrow as pa

from ..clauses import implements
from ..codec.index_details import RegionSpec
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import InvalidArgument, NotFound
from ..ids import WalPosition
from ..region.recovery import read_entry, replay_start
from ..table import read
from ..table.state import TableState, latest
from . import transforms
from .region_values import Values


@implements("AMB-53")
async def values_of_rows(region: Io, manifest: RegionManifest, spec: RegionSpec, state: TableState) -> Values:
    """Region values under ``spec`` of a row in the WAL or, without one there, in a generation; empty if unknown.

    Unknown are the values of a region without rows, and values that this engine cannot compute.
    """
    row = await _row_of_wal(region, manifest, state)
    for listed in manifest.flushed if row is None else ():
        folder = region.child(listed.path)
        try:
            rows = await read.scan(folder, await latest(folder))
        except NotFound:
            continue  # collected since the manifest was read
        if rows.num_rows:
            row = rows.slice(0, 1)
            break
    if row is None:
        return ()
    names = {i: n for n, i in state.field_ids.items()}
    try:
        found = transforms.evaluate(spec, row, names, revision=state.revision)
    except InvalidArgument as refused:
        await region.note("region_values_unknown", reason=str(refused))
        return ()
    return tuple((name, found.column(name)[0].as_py()) for name in found.schema.names)


async def _row_of_wal(region: Io, manifest: RegionManifest, state: TableState) -> pa.Table | None:
    """The first row above the replay pointer; None if there is none."""
    position = replay_start(manifest, state.revision)
    while True:
        try:
            entry = await read_entry(region, position, state.revision, state.schema)
        except NotFound:
            return None
        if entry.rows.num_rows:
            return entry.rows.slice(0, 1)
        position = WalPosition(position + 1)
