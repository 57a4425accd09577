"""The WAL tail as a source: what a region's writer holds in memory, read from its WAL by anyone (AMB-141)."""

from __future__ import annotations

import pyarrow as pa

from .. import paths
from ..clauses import implements
from ..codec import wal
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import NotFound
from ..ids import WalPosition
from ..region import manifest as manifests
from ..region.recovery import replay_start
from ..region.rows import Rows
from ..revisions import Interpretation, Revision


@implements("AMB-141")
async def wal_tail(
    region: Io, manifest: RegionManifest, rows: Rows, revision: Revision, interpretation: Interpretation
) -> pa.Table | None:
    """Rows of the entries after the replay pointer, in write order; None if the region moved on while they were read.

    Equal to the memory of a writer that writes durably. Read-only: no claim and no barrier.
    """
    position = replay_start(manifest, revision)
    parts = [rows.schema.empty_table()]
    while True:
        name = paths.wal(position, revision.wal_suffix)
        try:
            entry = wal.decode(await region.get(name), revision, region.path(name))
        except NotFound:
            break
        if entry.epoch > manifest.epoch:
            return None
        if entry.rows.num_rows:
            held = [column for column in rows.schema.names if column in entry.rows.schema.names]
            parts.append(rows.restored(entry.rows.select(held), region.path(name)))
        position = WalPosition(position + 1)
    after = await manifests.latest(region, revision, interpretation)
    unmoved = after is not None and replay_start(after, revision) == replay_start(manifest, revision)
    return pa.concat_tables(parts) if unmoved else None
