"""A registered region as its writers and jobs open it, under one table version.

Source: MemWAL revisions A and B, "Region", "Writer Expectations"; AMB-53, 136.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from .. import paths
from ..effects import Io
from ..region import manifest as manifests
from ..region.region import Region
from ..region.rows import Rows
from ..table.state import TableState
from . import regions
from .region_values import to_shard_fields
from .snapshot import RegionRow


def _any_row(rows: pa.Table) -> None:
    """Nothing is written through regions that are opened for a job."""


def region_of(
    io: Io,
    state: TableState,
    row: RegionRow,
    *,
    location: str = "",
    belongs: Callable[[pa.Table], None] = _any_row,
) -> Region:
    """The region of ``row``. ``location``: absolute name of the table for readers outside the engine, if there is one.

    ``belongs``: see `memwal.region.rows.Rows`.
    """
    rows = Rows(
        table=state.schema,
        key=state.primary_key,
        revision=state.revision,
        field_ids=tuple(state.field_ids.items()),
        belongs=belongs,
    )
    spec = regions.spec_of(state.mem_wal, row.spec_id)
    return Region(
        io=manifests.folder(io, row.region_id),
        location=f"{location}/{paths.region(row.region_id)}" if location else "",
        region_id=row.region_id,
        revision=state.revision,
        rows=rows,
        spec_id=row.spec_id,
        shard_fields=to_shard_fields(row.values, spec) if state.revision.shard_fields else (),
        wal_collection=state.collects_wal,
        manifest_collection=state.collects_manifests,
    )
