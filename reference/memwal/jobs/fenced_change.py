"""Changing what open writers rely on, the region specs or the columns of a table, under running writers.

Table and region manifests cannot be committed together; what orders a change and the writers that open meanwhile is
that each writes before it reads:

    the change: put a token into the MemWAL index; then look at the regions and fence them; then commit
    a writer:   claim its region; then look at the table, and remove a token that it finds in the MemWAL index

Either the change sees the claim, or the writer sees the token, and then the commit finds its token gone. A writer
never waits: a change that meets one fails, and can be tried again. Two changes are in one another's way like that too,
since there is one token. One that a crash left behind costs the next writer one commit.

Source: MemWAL revisions A and B, "Writer Fencing".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from ..clauses import implements
from ..codec.index_details import IndexDetails
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, Fenced, Outcome
from ..ids import Epoch, RegionId
from ..index import mem_wal, regions
from ..index.opening import region_of
from ..index.snapshot import RegionRow
from ..region.claim import claim
from ..region.region import Region
from ..table.state import TableState, latest

Epochs = Mapping[RegionId, Epoch]
"""Regions that are held, with the epochs that fence their writers."""

Settle = Callable[[Region, RegionManifest], Coroutine[Any, Any, None]]
"""Looks after a region that was just claimed for the change, or a sealed one; raises what ends the change."""


class ChangeLost(Outcome):
    """Another process opened a region, or made such a change, meanwhile; nothing was changed. Try again."""

    SENTENCE = "nothing was changed, since {reason}: try again"

    def __init__(self, reason: str) -> None:
        super().__init__(reason=reason)


async def begin(io: Io) -> str:
    """Put a token into the MemWAL index, in place of any other; returns it."""
    token = await io.random_hex(32)

    async def derive(_: TableState, details: IndexDetails) -> IndexDetails:
        return replace(details, spec_change=token)

    await mem_wal.change(io, derive)
    return token


async def end(io: Io, token: str) -> None:
    """Remove the token, if it is still there."""
    await mem_wal.change(io, _removing(token))


def _removing(token: str) -> mem_wal.Change:
    async def derive(_: TableState, details: IndexDetails) -> IndexDetails | None:
        return replace(details, spec_change="") if details.spec_change == token else None

    return derive


async def all_regions(io: Io, state: TableState) -> dict[RegionId, RegionRow]:
    """Every region, with its newest manifest: registered, or found by listing."""
    live = await regions.discover(io, state.revision)
    rows = {row.region_id: replace(row, manifest=None) for row in await regions.known(io, state)}
    for region, manifest in live.items():
        row = rows.get(region, RegionRow(region_id=region, spec_id=manifest.spec_id, values=(), manifest=None))
        rows[region] = replace(row, manifest=manifest)
    return rows


@implements("AMB-50", "AMB-142")
async def hold(
    io: Io,
    token: str,
    state: TableState,
    rows: Collection[RegionRow],
    settle: Settle,
) -> Epochs:
    """Claim each region of ``rows`` that has a manifest, and settle it; returns the epochs of the claims.

    A region without a manifest has no writer to fence; a later claimant sees the token. Sealed regions take no
    claims. ``state`` was loaded after the token was put. Raises `ChangeLost` where another process claims one
    meanwhile, or where the token is gone and what was found in a region does not fit ``state`` any more.
    """
    epochs: dict[RegionId, Epoch] = {}
    for row in sorted(rows, key=lambda row: row.region_id):
        manifest = row.manifest
        if manifest is None:
            # It was never claimed, so that it has no writer; a later claimant meets the token.
            continue
        opened = region_of(io, state, row)
        try:
            manifest = manifest if manifest.sealed else await claim(opened)
            await settle(opened, manifest)
        except Fenced as fenced:
            raise ChangeLost(str(fenced)) from None
        except ArtifactError:
            # What does not fit may be what was changed after the token was gone.
            await check_begun(io, token)
            raise
        epochs[row.region_id] = manifest.epoch
    return epochs


async def check_begun(io: Io, token: str) -> None:
    """`check_token` of the newest version."""
    check_token(token, (await latest(io)).mem_wal)


@implements("AMB-50", "AMB-142")
def check_token(token: str, details: IndexDetails) -> None:
    """Raise `ChangeLost` unless the token is still there: else a writer has opened, or another change has begun."""
    if details.spec_change != token:
        raise ChangeLost("the token of the change is gone")


@implements("AMB-50", "AMB-142")
def check_unmoved(epochs: Epochs, rows: Collection[RegionRow]) -> None:
    """Raise `ChangeLost` if one of the regions ``rows`` was claimed after it was held; its barrier keeps others out."""
    for row in rows:
        epoch = row.manifest.epoch if row.manifest is not None else None
        if epoch != epochs.get(row.region_id):
            raise ChangeLost(f"region {row.region_id} was opened under epoch {epoch}")


@implements("AMB-50", "AMB-142")
async def stop(io: Io, region: RegionId) -> TableState:
    """Stop a change that is under way, for the writer that has just claimed ``region``; returns the newest version.

    What the version says of specs and columns holds from then on as long as the claim does.
    """
    state = await latest(io)
    if state.mem_wal.spec_change:
        state = await mem_wal.change(io, _removing(state.mem_wal.spec_change))
        await io.note("spec_change_stopped", region=region)
    return state
