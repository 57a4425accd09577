"""The WAL tail as a source: what a region's writer holds in memory, read from its WAL by any process (AMB-141)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from .. import confirm, paths
from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..ids import WalPosition
from ..region import manifest as manifests
from ..region import wal_folder
from ..region.recovery import is_flushed, read_entry, replay_start
from ..region.rows import Rows
from ..revisions import Revision
from ..table.state import TableState
from .origin import WrittenBy


@dataclass(frozen=True, slots=True)
class Tail:
    """What a WAL holds above the replay pointer."""

    rows: pa.Table
    """In write order."""
    written: tuple[WrittenBy, ...]
    """The entries that the rows are of, in that order."""


@implements("AMB-141")
async def wal_tail(
    region: Io, manifest: RegionManifest, rows: Rows, revision: Revision, end: WalPosition | None = None
) -> Tail | None:
    """Rows of the entries after the replay pointer, in write order; None if the region moved on while they were read.

    Equal to the memory of a writer that writes durably. Read-only: no claim and no barrier. ``end``: the position
    before which to stop, which `wal_end` has found; None: where an entry is missing. Raises `ArtifactError` for a
    damaged entry, and for a WAL that does not start where the revision does or ends before the last-seen hint, each
    seen twice; a reader does not list the folder.
    """
    try:
        tail = await confirm.damage(partial(_rows, region, manifest, rows, revision, end))
    except ArtifactError:
        if await _moved(region, manifest, revision):
            return None
        raise
    # With a known end all entries were there: that the region moved on since takes nothing from them.
    return None if tail is None or (end is None and await _moved(region, manifest, revision)) else tail


@implements("AMB-141")
async def wal_end(region: Io, manifest: RegionManifest, base: TableState) -> WalPosition | None:
    """The position after the last entry of `wal_tail`; None if the region moved on while it was looked for.

    A few requests, however long the tail: entries above the replay pointer leave no gap (WAL-007). Raises as that does.
    """
    revision = base.revision
    try:
        end = await confirm.damage(partial(_end, region, manifest, base))
    except ArtifactError:
        if await _moved(region, manifest, revision):
            return None
        raise
    return None if end is None or await _moved(region, manifest, revision) else end


async def _end(region: Io, manifest: RegionManifest, base: TableState) -> WalPosition | None:
    revision = base.revision
    start = replay_start(manifest, revision)
    end, step = start, 1
    while await _exists(region, WalPosition(end + step - 1), revision):
        end, step = WalPosition(end + step), 2 * step
    # The entry before ``end`` is there, and one of the next ``step`` is not.
    while step > 1:
        step //= 2
        if await _exists(region, WalPosition(end + step - 1), revision):
            end = WalPosition(end + step)
    if end > start:
        try:
            last = await read_entry(region, WalPosition(end - 1), revision, base.schema)
        except NotFound:
            return None
        # Epochs of a WAL never fall, so that the last one tells whether there is a newer claim than the manifest's.
        if last.epoch > manifest.epoch:
            return None
    await _check_end(region, manifest, revision, end)
    return end


async def _exists(region: Io, position: WalPosition, revision: Revision) -> bool:
    try:
        await region.head(paths.wal(position, revision.wal_suffix))
    except NotFound:
        return False
    return True


async def _rows(
    region: Io, manifest: RegionManifest, rows: Rows, revision: Revision, end: WalPosition | None
) -> Tail | None:
    position = replay_start(manifest, revision)
    parts, written = list[pa.Table](), list[WrittenBy]()
    while end is None or position < end:
        try:
            entry = await read_entry(region, position, revision, rows.schema)
        except NotFound:
            if end is None:
                break
            # WAL-007, holes: what was there and is not any more was collected, unless the region says otherwise.
            wal_folder.check_end(position, (WalPosition(end - 1),), manifest, revision, region.root)
            return None
        # There is a newer claim than the manifest knows of: the view is older than the region.
        if entry.epoch > manifest.epoch:
            return None
        # A barrier has no rows; those of a listed generation are read there.
        if entry.rows.num_rows and not is_flushed(entry, manifest):
            name = region.path(paths.wal(position, revision.wal_suffix))
            parts.append(rows.restored(entry.rows, name, narrowed=True))
            written.append(WrittenBy(entry.rows.num_rows, entry.epoch, position))
        position = WalPosition(position + 1)
    if end is None:
        await _check_end(region, manifest, revision, position)
    return Tail(pa.concat_tables(parts) if parts else rows.none, tuple(written))


async def _check_end(region: Io, manifest: RegionManifest, revision: Revision, end: WalPosition) -> None:
    # AMB-06, AMB-139, first and last position: a tail that only seems to be empty would hide acknowledged rows.
    wal_folder.check_end(end, (), manifest, revision, region.root)
    if wal_folder.never_flushed(manifest, revision):
        await _check_first_position(region, manifest, revision, end)


@implements("AMB-06")
async def _check_first_position(region: Io, manifest: RegionManifest, revision: Revision, end: WalPosition) -> None:
    """One HEAD of the position at which the other revisions start, unless entries say enough."""
    first = revision.first_position
    if end > first == 0:
        return
    try:
        await region.head(paths.wal(WalPosition(1 - first), revision.wal_suffix))
    except NotFound:
        return
    wal_folder.check_first_position(manifest, revision, region.root, zero=first == 1, one=True)


async def _moved(region: Io, manifest: RegionManifest, revision: Revision) -> bool:
    # From the manifest at hand on: the hint could only say that there are newer ones, which the probe shows.
    after = await manifests.latest(region, revision, read=manifest)
    return after is None or replay_start(after, revision) != replay_start(manifest, revision)
