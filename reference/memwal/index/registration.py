"""Registration of regions through a table commit: the serial point at which a region value gets its one region.

Source: MemWAL revisions A and B, "Region", "Region Identifier"; AMB-52, 53, 56, 57.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..clauses import implements
from ..codec.index_details import IndexDetails, RegionSpec
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument
from ..ids import RegionId, SpecId, region_id_from_random
from ..region import manifest as manifests
from ..table.state import TableState
from . import discovery, mem_wal, snapshot
from .region_values import RegionKey, Values, checked, values_key
from .snapshot import RegionRow, StoredSnapshot, Written

Wanted = Mapping[str, object] | None
"""Region value by field id of the active spec; None: a new manual region."""
SHOWN = 5
"""Regions that a message names; it counts the others."""


@dataclass(frozen=True, slots=True)
class Registered:
    """Outcome of a registration."""

    region_ids: tuple[RegionId, ...]
    """The region of each wanted value, in order."""
    state: TableState
    """A table version that has them."""

    @property
    def region_id(self) -> RegionId:
        """The first of them."""
        return self.region_ids[0]


@implements("REGION-003", "REGION-006", "REGION-007", "REGION-012", "AMB-52", "AMB-56")
async def register_all(io: Io, wanted: Sequence[Wanted], *, beside_spec: bool = False) -> Registered:
    """Get or create the region of each of ``wanted`` under the active spec, in one commit; None is a manual region.

    The commit that adds regions is derived anew from the version that it is built on, so that of two creators of one
    value the second gets the region of the first. A region that was created without being registered is found by
    listing, and registered. ``beside_spec``: allow manual regions in a table that has a spec. Raises
    `InvalidArgument` for values that no row can have, and `ArtifactError` if the registered regions cannot be read:
    without them the value might get a second region.
    """
    fresh: dict[int, RegionId] = {}
    chosen: list[RegionId] = []

    async def choose(state: TableState, details: IndexDetails) -> tuple[Rows, Rows]:
        spec = discovery.active_spec(details)
        values = [_wanted(each, spec, state, beside_spec=beside_spec) for each in wanted]
        rows = {row.region_id: row for row in await snapshot.load(io, state)}
        before = dict(rows)
        if spec is not None and any(each is not None for each in values):
            rows |= await _unlisted(io, state, rows)
        known = _by_values(rows.values(), spec, state.path)
        chosen.clear()
        for at, own in enumerate(values):
            region = known.get(values_key(dict(own))) if own is not None else None
            if region is None:
                if at not in fresh:
                    fresh[at] = region_id_from_random(await io.random_hex(32))
                region = fresh[at]
                spec_id = spec.spec_id if own is not None and spec is not None else SpecId(0)
                rows[region] = RegionRow(region_id=region, spec_id=spec_id, values=own or (), manifest=None)
                if own is not None:
                    known[values_key(dict(own))] = region
            chosen.append(region)
        return rows, before

    return await _registered(io, choose, chosen)


Rows = dict[RegionId, RegionRow]


async def _registered(
    io: Io, choose: Callable[[TableState, IndexDetails], Awaitable[tuple[Rows, Rows]]], chosen: Sequence[RegionId]
) -> Registered:
    """Commit the rows that ``choose`` wants where others are registered, of each version anew; it fills ``chosen``."""
    written = Written()

    async def derive(state: TableState, details: IndexDetails) -> StoredSnapshot | None:
        wanted, before = await choose(state, details)
        if wanted == before:
            return None
        return await snapshot.store(io, state, details, tuple(wanted.values()), written=written)

    state = await mem_wal.change(io, derive)
    return Registered(tuple(chosen), state)


async def register(io: Io, wanted: Wanted, *, beside_spec: bool = False) -> Registered:
    """`register_all` for one region."""
    return await register_all(io, [wanted], beside_spec=beside_spec)


@implements("REGION-003", "REGION-012", "AMB-56")
async def the_manual_region(io: Io) -> Registered:
    """Get or create the one manual region of a table without a region spec: that of every writer that names none.

    As in `register_all`, the commit is derived anew from the version that it is built on, so that of two first writers
    the second gets the region of the first; a region that is there and not registered counts, and is registered.
    Raises `InvalidArgument` for a table that has a spec, and for one with several manual regions, naming them: with
    several the caller has to say which, since no key may be in two of them.
    """
    fresh: list[RegionId] = []
    chosen: list[RegionId] = []

    async def choose(state: TableState, details: IndexDetails) -> tuple[Rows, Rows]:
        if discovery.active_spec(details) is not None:
            raise InvalidArgument("the table has a region spec: give the region's values", clause="AMB-56")
        before = {row.region_id: row for row in await snapshot.load(io, state)}
        rows = before | await _unlisted(io, state, before)
        manual = sorted(region for region, row in rows.items() if not row.spec_id)
        if len(manual) > 1:
            raise InvalidArgument(_several(manual), clause="REGION-003")
        if not manual:
            if not fresh:
                fresh.append(region_id_from_random(await io.random_hex(32)))
            manual = fresh
            rows[fresh[0]] = RegionRow(region_id=fresh[0], spec_id=SpecId(0), values=(), manifest=None)
        chosen[:] = manual
        return rows, before

    return await _registered(io, choose, chosen)


def _several(manual: Sequence[RegionId]) -> str:
    shown = ", ".join(manual[:SHOWN]) + (f" and {len(manual) - SHOWN} more" if len(manual) > SHOWN else "")
    return (
        f"the table has {len(manual)} manual regions, and a key belongs to one of them only: name the one to write to, "
        f"as in writer({manual[0]!r}); there are {shown}"
    )


def _wanted(values: Wanted, spec: RegionSpec | None, state: TableState, *, beside_spec: bool) -> Values | None:
    if values is None:
        if spec is not None and not beside_spec:
            reason = "the table has a region spec: give the region's values, or beside_spec=True for a manual region"
            raise InvalidArgument(reason, clause="AMB-56")
        return None
    if spec is None:
        raise InvalidArgument("the table has no region spec: regions are manual", clause="REGION-012")
    return checked(values, spec, state.revision)


@implements("REGION-002", "AMB-52")
def _by_values(rows: Iterable[RegionRow], spec: RegionSpec | None, path: str) -> dict[RegionKey, RegionId]:
    """Region by its values under ``spec``; raises `ArtifactError` where two regions have the same."""
    found: dict[RegionKey, RegionId] = {}
    for row in rows:
        if spec is None or row.spec_id != spec.spec_id or len(row.values) != len(spec.fields):
            continue
        key = values_key(dict(row.values))
        if key in found:
            reason = f"regions {found[key]} and {row.region_id} of spec {spec.spec_id} have the values {row.values}"
            raise ArtifactError("AMB-52", path, reason)
        found[key] = row.region_id
    return found


async def _unlisted(io: Io, state: TableState, rows: Mapping[RegionId, RegionRow]) -> dict[RegionId, RegionRow]:
    """Regions that have a folder and a manifest and are not registered."""
    found: dict[RegionId, RegionManifest] = {}
    for region in await discovery.folders(io):
        if region in rows:
            continue
        manifest = await manifests.latest(manifests.folder(io, region), state.revision)
        if manifest is not None:
            found[region] = manifest
    return {row.region_id: row for row in await discovery.unregistered(io, state, found)}
