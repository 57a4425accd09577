"""The WALs of a table as a log of changes: where each of them ends, and the rows of its entries, flushed or not.

What counts is what replay counts: every entry of an epoch that was claimed, in the order of positions. Entries of
one region are in the order in which its rows were written; nothing orders entries of two regions. A collector takes
entries whose generation was collected: then a reader that still wants them is told (`LogGone`), and never gets less.
Source: MemWAL revisions A and B, "WAL"; that WALs are read as a log of changes is no part of the texts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from .. import confirm, truths
from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..codec.wal import WalEntry
from ..coroutines import concurrently
from ..effects import Io, Protocol
from ..errors import ArtifactError, InvalidArgument, NotFound, Outcome
from ..ids import Epoch, RegionId, WalPosition
from ..index import regions
from ..region import manifest as manifests
from ..region import wal_folder
from ..region.recovery import read_entry, replay_start
from ..region.rows import TOMBSTONE, Rows
from ..table.state import TableState, latest
from .tail import wal_end
from .view import ATTEMPTS, ReadRaced


class LogGone(Outcome):
    """An entry of a WAL that was asked for was collected.

    ``position``: of that entry; ``first``: of the first one that can be read, or where the next one will be.
    """

    SENTENCE = "entry {position} of the WAL of region {region} was collected: the first one to read is {first}"

    def __init__(self, region: RegionId, position: WalPosition, first: WalPosition) -> None:
        super().__init__(region=region, position=position, first=first)
        self.region, self.position, self.first = region, position, first


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEntry:
    """One WAL entry with rows."""

    position: WalPosition
    epoch: Epoch
    rows: pa.Table
    """Columns of the base table, in write order; of a row that deletes its key the other columns are NULL."""
    deleted: pa.ChunkedArray
    """Whether each row deletes its key (R)."""


async def log_ends(io: Io) -> dict[RegionId, WalPosition]:
    """Of each region the position after the last entry of its WAL. Raises `ReadRaced`, and `ArtifactError` for damage.

    What is acknowledged before the call is below.
    """
    return await _of_each(io, _end)


async def log_starts(io: Io) -> dict[RegionId, WalPosition]:
    """Of each region the position of the first entry that its WAL still has, or where the next one will be."""
    return await _of_each(io, _first)


async def _of_each(
    io: Io, ask: Callable[[Io, RegionManifest, TableState], Protocol[WalPosition]]
) -> dict[RegionId, WalPosition]:
    base = await latest(io)
    found = await regions.discover(io, base.revision)
    asked = [partial(ask, manifests.folder(io, region), manifest, base) for region, manifest in found.items()]
    return dict(zip(found, await concurrently(io, asked), strict=True))


async def _end(region: Io, manifest: RegionManifest, base: TableState) -> WalPosition:
    for _ in range(ATTEMPTS):
        end = await wal_end(region, manifest, base)
        if end is not None:
            return end
        manifest = await manifests.require(region, base.revision)
    raise ReadRaced(path=region.path("wal"), attempts=ATTEMPTS)


async def _first(region: Io, manifest: RegionManifest, base: TableState) -> WalPosition:
    """Entries are collected from the bottom: what is left is one block, up to where replay starts and on from there.

    A name below a gap is no entry of the log: a fenced writer's late put took a position that was free again (AMB-25).
    """
    first = replay_start(manifest, base.revision)
    below = {each for each in wal_folder.positions(await region.list("wal"), base.revision) if each < first}
    while first - 1 in below:
        first = WalPosition(first - 1)
    return first


@implements("WAL-019", "FENCE-015", "AMB-26", "AMB-27")
async def log_entries(io: Io, region: RegionId, start: WalPosition, end: WalPosition) -> AsyncIterator[ChangeEntry]:
    """The entries of ``region`` from ``start`` to before ``end``, which `log_ends` gave, that have rows; in order.

    Barriers and marks have none. Raises `LogGone` if one of them was collected, now or meanwhile, `InvalidArgument` for
    a region that is not there or was never written to, and `ArtifactError` for damage: also for an entry of an epoch
    that was never claimed, of which replay makes nothing either.
    """
    base, folder = await latest(io), manifests.folder(io, region)
    manifest = await manifests.latest(folder, base.revision)
    if manifest is None:
        raise InvalidArgument(f"the table has no region {region} with a WAL: table.log_ends() lists those with one")
    shape = Rows.of(base)
    # Below that point entries may have been collected, and a fenced writer's late put may stand where one was.
    if start < min(end, replay_start(manifest, base.revision)):
        await _check_there(folder, region, start, end, base)
    position = start
    while position < end:
        try:
            entry = await read_entry(folder, position, base.revision, shape.schema)
        except NotFound:
            await confirm.damage(partial(_check_there, folder, region, position, end, base))
            raise ReadRaced(path=folder.path("wal"), attempts=1) from None
        if entry.epoch > manifest.epoch:
            manifest = await _claimed(folder, position, entry.epoch, base)
        if entry.rows.num_rows:
            yield _logged(position, entry, shape.restored(entry.rows, folder.path("wal")))
        position = WalPosition(position + 1)


async def _check_there(folder: Io, region: RegionId, start: WalPosition, end: WalPosition, base: TableState) -> None:
    """Raise `LogGone` if the entry ``start``, below ``end``, was collected, and `ArtifactError` if it is lost."""
    manifest = await manifests.require(folder, base.revision)
    first = await _first(folder, manifest, base)
    if start < first and start < replay_start(manifest, base.revision):
        raise LogGone(region, start, first)
    names = wal_folder.positions(await folder.list("wal"), base.revision)
    wal_folder.check_end(start, [*names, WalPosition(end - 1)], manifest, base.revision, folder.root)


async def _claimed(folder: Io, position: WalPosition, epoch: Epoch, base: TableState) -> RegionManifest:
    """The newest manifest, which has the claim under which an entry was written; raises `ArtifactError` if not."""
    manifest = await manifests.require(folder, base.revision)
    if epoch > manifest.epoch:
        reason = f"entry {position} was written under epoch {epoch}, and the region's newest epoch is {manifest.epoch}"
        raise ArtifactError("FENCE-015", folder.path("wal"), reason)
    return manifest


def _logged(position: WalPosition, entry: WalEntry, stored: pa.Table) -> ChangeEntry:
    if TOMBSTONE in stored.schema.names:
        deleted, rows = stored.column(TOMBSTONE), stored.drop_columns([TOMBSTONE])
    else:
        deleted, rows = pa.chunked_array([truths.repeated(False, stored.num_rows)]), stored
    return ChangeEntry(position=position, epoch=entry.epoch, rows=rows, deleted=deleted)
