"""A registered region as its writers and jobs open it, under one table version.

Source: MemWAL revisions A and B, "Region", "Writer Expectations"; AMB-53, 136.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..effects import Io
from ..errors import InvalidArgument
from ..region import manifest as manifests
from ..region.region import Region
from ..region.rows import Belongs, Rows, any_row
from ..table.state import TableState
from . import regions, transforms
from .region_values import to_shard_fields
from .snapshot import RegionRow

Members = Callable[[pa.Table], pa.ChunkedArray]
"""Which rows of a table of the key columns are of a region: one truth value per row."""


def region_of(io: Io, state: TableState, row: RegionRow, *, belongs: Belongs = any_row) -> Region:
    """The region of ``row`` in the table at ``io``. ``belongs``: which rows are written through it."""
    spec = regions.spec_of(state.mem_wal, row.spec_id)
    return Region(
        io=manifests.folder(io, row.region_id),
        region_id=row.region_id,
        revision=state.revision,
        rows=Rows.of(state, belongs=belongs),
        spec_id=row.spec_id,
        shard_fields=to_shard_fields(row.values, spec) if state.revision.shard_fields else (),
        wal_collection=state.collects_wal,
        manifest_collection=state.collects_manifests,
    )


@implements("WRITER-015")
def belonging(row: RegionRow, state: TableState) -> Belongs:
    """Checks rows for the region of ``row``; those of a manual region, which has no values, all belong (AMB-56)."""
    wanted = dict(row.values)
    spec = regions.spec_of(state.mem_wal, row.spec_id)
    names = {i: n for n, i in state.field_ids.items()}

    def check(rows: pa.Table) -> None:
        if not wanted or spec is None:
            return
        found = transforms.evaluate(spec, rows, names, revision=state.revision)
        others = {name: _first_other(found.column(name), value) for name, value in wanted.items()}
        at, name = min(((at, name) for name, at in others.items() if at is not None), default=(-1, ""))
        if at >= 0:
            other = found.column(name)[at].as_py()
            reason = f"row {at} has region value {name}={other!r}; this region's is {wanted[name]!r}"
            raise InvalidArgument(reason, clause="WRITER-015")

    return check


def members(row: RegionRow, state: TableState) -> Members | None:
    """Tells which keys are of the region of ``row``; None where keys alone do not tell, as of a manual region."""
    wanted = dict(row.values)
    spec = regions.spec_of(state.mem_wal, row.spec_id)
    names = {i: n for n, i in state.field_ids.items()}
    if not wanted or spec is None:
        return None
    if not {names.get(number) for field in spec.fields for number in field.source_ids} <= set(state.primary_key):
        return None

    def of(keys: pa.Table) -> pa.ChunkedArray:
        found = transforms.evaluate(spec, keys, names, revision=state.revision)
        return reduce(pc.and_, (_equal(found.column(name), value) for name, value in wanted.items()))

    return of


def _first_other(found: pa.ChunkedArray, wanted: object) -> int | None:
    """Offset of the first region value that is not ``wanted``; None if all are."""
    at = pc.index(_equal(found, wanted), False).as_py()
    return None if at < 0 else int(at)


def _equal(found: pa.ChunkedArray, wanted: object) -> pa.ChunkedArray:
    """Which region values are ``wanted``. NULL equals NULL, and NaN NaN."""
    if pa.types.is_float16(found.type):
        found = found.cast(pa.float32())  # there is no comparison of half floats
    if wanted is None:
        return found.is_null()
    if isinstance(wanted, float) and math.isnan(wanted):
        return pc.fill_null(pc.is_nan(found), False)
    return pc.fill_null(pc.equal(found, pa.scalar(wanted, found.type)), False)
