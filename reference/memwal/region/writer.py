"""The writer of one region: claim, recover, put, WAL flush, MemTable flush, and what happens when any of it fails.

Source: MemWAL revisions A and B, "Writer Expectations" and "Writer Fencing"; revision A, "Writer Operations";
AMB-13, 14, 21, 24, 25, 26, 28, 29, 41, 43.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from .. import confirm, paths
from ..clauses import implements
from ..codec import region_manifest, wal
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..codec.wal import WalEntry
from ..effects import Io
from ..errors import (
    AlreadyExists,
    ArtifactError,
    EngineBug,
    Fenced,
    InvalidArgument,
    NotFound,
    Outcome,
    OutcomeUnknown,
    Throttled,
    WriterStopped,
)
from ..ids import Epoch, Generation, ManifestVersion, Milliseconds, RegionId, SpecId, WalPosition
from ..revisions import STRICT, Interpretation, Revision
from . import flush as flushing
from . import manifest as manifests
from .memtable import MemTable
from .rows import Rows

_PAUSE_MS = Milliseconds(10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Everything about a region that does not change while a writer is open."""

    io: Io
    """The region's folder."""
    region_id: RegionId
    revision: Revision
    rows: Rows
    """Schema of the rows as stored in WAL and generations, and how writes are validated."""
    location: str = ""
    """Absolute name of the region's folder for readers outside the engine; empty if the driver knows none (AMB-40)."""
    spec_id: SpecId = SpecId(0)
    shard_fields: tuple[tuple[str, bytes], ...] = ()
    """Region values for the manifest (R)."""
    interpretation: Interpretation = STRICT
    wal_collection: bool = False
    """Whether WAL files may be collected; then each WAL put is verified (AMB-25)."""


@implements("FENCE-002", "FENCE-004", "FENCE-005", "FENCE-006", "FENCE-007", "FENCE-008", "AMB-28", "AMB-35")
async def claim(region: Region) -> RegionManifest:
    """Take ownership of the region, creating it if it is new; returns the manifest that carries the new epoch.

    A claim that was not positively confirmed is treated as another's: the next one uses a higher epoch.
    """
    for _ in range(confirm.ATTEMPTS):
        current = await manifests.latest(region.io, region.revision, region.interpretation)
        wanted = claimed(current, region)
        try:
            await manifests.put(region.io, wanted, region.revision)
        except (AlreadyExists, OutcomeUnknown) as outcome:
            if not region.interpretation.own_claim_needs_confirmation and await _same_bytes(region, wanted):
                return wanted
            if isinstance(outcome, OutcomeUnknown):
                await region.io.sleep(_PAUSE_MS)
            continue
        except Throttled:
            await region.io.sleep(_PAUSE_MS)
            continue
        await manifests.put_hint(region.io, wanted.version)
        await region.io.note("claimed", region=region.region_id, epoch=wanted.epoch)
        return wanted
    raise OutcomeUnknown(region.io.path("manifest"), f"{confirm.ATTEMPTS} claims were lost or not confirmed")


async def _same_bytes(region: Region, wanted: RegionManifest) -> bool:
    try:
        found = await region.io.get(paths.manifest(wanted.version))
    except NotFound:
        return False
    return found == region_manifest.encode(wanted, region.revision)


def claimed(current: RegionManifest | None, region: Region) -> RegionManifest:
    """The manifest that claims the region: only the epoch changes; None creates version 1 with epoch 1."""
    if current is None:
        return RegionManifest(
            version=ManifestVersion(1),
            region_id=region.region_id,
            spec_id=region.spec_id,
            epoch=region.revision.epoch_first,
            position_replay_after=WalPosition(0),
            position_last_seen=WalPosition(0),
            generation_current=region.revision.generation_first,
            flushed=(),
            shard_fields=region.shard_fields,
        )
    if current.sealed:
        raise InvalidArgument(f"region {region.region_id} is sealed and takes no writer", clause="FENCE-003")
    return replace(manifests.following(current), epoch=Epoch(current.epoch + 1))


@implements("WAL-020", "AMB-07", "AMB-09")
def replay_start(manifest: RegionManifest, revision: Revision) -> WalPosition:
    """Position of the first entry that no listed generation covers."""
    if manifest.generation_current == revision.generation_first:
        return revision.first_position
    return WalPosition(manifest.position_replay_after + 1)


@implements("WAL-019", "WAL-022", "FENCE-015", "FENCE-016", "AMB-24", "AMB-26")
async def recover(region: Region, manifest: RegionManifest) -> MemTable:
    """Rebuild the MemTable from the WAL and put the barrier at its end; ``manifest`` is the confirmed claim.

    Raises `Fenced` when an entry shows a newer claim, `ArtifactError` for a damaged entry or a hole.
    """
    start = position = replay_start(manifest, region.revision)
    memtable = MemTable(generation=manifest.generation_current, schema=region.rows.schema)
    needs_barrier = manifest.epoch > region.revision.epoch_first or region.revision.barrier_on_first_claim
    while True:
        name = paths.wal(position, region.revision.wal_suffix)
        try:
            entry = wal.decode(await region.io.get(name), region.revision, region.io.path(name))
        except NotFound:
            if not needs_barrier or not region.interpretation.claim_barrier:
                break
            try:
                await _put_barrier(region, manifest, position)
            except AlreadyExists:
                continue
            memtable = memtable.with_replayed(position, memtable.schema.empty_table())
            position = WalPosition(position + 1)
            break
        if entry.epoch <= manifest.epoch:
            rows = region.rows.restored(entry.rows, region.io.path(name))
            memtable = memtable.with_replayed(position, rows)
        elif region.interpretation.stop_on_newer_epoch:
            await _raise_fenced(region, manifest.epoch, name, entry.epoch)
        else:
            memtable = memtable.with_replayed(position, memtable.schema.empty_table())
        position = WalPosition(position + 1)
    await _check_no_hole(region, start)
    await region.io.note("recovered", region=region.region_id, epoch=manifest.epoch, rows=memtable.rows)
    return memtable


async def _put_barrier(region: Region, manifest: RegionManifest, position: WalPosition) -> None:
    entry = WalEntry(
        epoch=manifest.epoch,
        generation=manifest.generation_current,
        rows=region.rows.schema.empty_table(),
        barrier=True,
    )
    data = wal.encode(entry, region.revision)
    await confirm.create(region.io, paths.wal(position, region.revision.wal_suffix), data)
    if region.wal_collection:
        await verify_epoch(region, manifest)


async def _raise_fenced(region: Region, local: Epoch, name: str, epoch_entry: Epoch) -> None:
    stored = await manifests.require(region.io, region.revision, region.interpretation)
    if stored.epoch > local:
        raise Fenced(region.region_id, local, stored.epoch)
    reason = f"written under epoch {epoch_entry}, and the region's newest epoch is {stored.epoch}"
    raise ArtifactError("FENCE-015", region.io.path(name), reason)


@implements("WAL-007", "AMB-14", "AMB-139")
async def _check_no_hole(region: Region, start: WalPosition) -> None:
    """Entries from ``start`` on have to be dense: probing stops at a hole, and what lies behind it would be lost."""
    if not region.interpretation.list_wal_tail:
        return
    suffix = region.revision.wal_suffix
    listed = {paths.wal_position(name, suffix) for name in await region.io.list("wal")}
    above = sorted(position for position in listed if position is not None and position >= start)
    for expected, found in enumerate(above, start):
        if found != expected:
            missing = region.io.path(paths.wal(WalPosition(expected), suffix))
            raise ArtifactError("WAL-007", missing, f"entry {expected} is missing, and entry {found} exists")


@implements("FENCE-014", "FENCE-017", "AMB-25")
async def verify_epoch(region: Region, known: RegionManifest) -> None:
    """Raise `Fenced` unless ``known`` is still the newest manifest or a newer one has the same epoch.

    Two HEADs where nothing changed; on any doubt the newest manifest is read.
    """
    try:
        await region.io.head(paths.manifest(known.version))
        await region.io.head(paths.manifest(ManifestVersion(known.version + 1)))
    except NotFound as missing:
        if missing.path == region.io.path(paths.manifest(ManifestVersion(known.version + 1))):
            return
    stored = await manifests.require(region.io, region.revision, region.interpretation)
    if stored.epoch != known.epoch:
        raise Fenced(region.region_id, known.epoch, stored.epoch)


@dataclass(slots=True)
class Writer:
    """An open writer. Every method that fails with anything but `InvalidArgument` stops it for good (AMB-21)."""

    region: Region
    manifest: RegionManifest
    """The newest manifest that this writer knows; carries its epoch."""
    memtable: MemTable
    position_next: WalPosition
    stopped: str = ""
    """Why the writer stopped; empty while it is open."""
    frozen: list[MemTable] = field(default_factory=list)
    """MemTables whose flush is under way, oldest first; readable until their manifest is committed (AMB-102)."""

    @property
    def epoch(self) -> Epoch:
        return self.manifest.epoch

    def _check_open(self) -> None:
        if self.stopped:
            raise WriterStopped(self.region.region_id, self.stopped)

    def _stop(self, cause: Outcome | ArtifactError | EngineBug) -> None:
        self.stopped = str(cause)

    @implements("WRITER-015", "WRITER-018", "AMB-16", "AMB-136")
    async def put(self, rows: pa.Table, *, durable: bool = True) -> None:
        """Write ``rows`` as one atomic write; with ``durable`` it is in the WAL when this returns.

        Raises `InvalidArgument` (nothing happened), `Fenced`, `WriterStopped`, or the store's failure: then the write
        may or may not surface later, whole (AMB-22), and the writer is stopped.
        """
        self._check_open()
        await self._write(self.region.rows.upserts(rows), durable)

    async def delete(self, keys: pa.Table, *, durable: bool = True) -> None:
        """Delete the rows of ``keys`` (key columns only). Revision R; `InvalidArgument` in A and B (AMB-89)."""
        self._check_open()
        await self._write(self.region.rows.tombstones(keys), durable)

    async def _write(self, rows: pa.Table, durable: bool) -> None:
        if not rows.num_rows:
            return
        self.memtable = self.memtable.with_write(rows)
        if durable:
            await self.flush_wal()

    @implements("WAL-001", "WAL-006", "WAL-017", "WAL-021", "AMB-13", "AMB-14", "AMB-21", "FENCE-012", "FENCE-013")
    async def flush_wal(self) -> None:
        """Store all pending writes as the next WAL entry; without pending writes nothing is done."""
        self._check_open()
        if not self.memtable.pending:
            return
        position = self.position_next
        entry = WalEntry(
            epoch=self.epoch,
            generation=self.memtable.generation,
            rows=pa.concat_tables(self.memtable.pending),
        )
        try:
            while not await self._store(paths.wal(position, self.region.revision.wal_suffix), entry):
                position = WalPosition(position + 1)
            if self.region.wal_collection:
                await verify_epoch(self.region, self.manifest)
        except (Outcome, ArtifactError) as failure:
            self._stop(failure)
            raise
        self.memtable = self.memtable.with_entry(position)
        self.position_next = WalPosition(position + 1)

    async def _store(self, name: str, entry: WalEntry) -> bool:
        """Store ``entry`` under ``name``; false where the literal reading says to try the next position."""
        io, interpretation = self.region.io, self.region.interpretation
        data = wal.encode(entry, self.region.revision)
        if not interpretation.conditional_wal_put:
            await io.put(name, data)
            return True
        try:
            if interpretation.resolve_unknown_put:
                await confirm.create(io, name, data)
            else:
                await io.put_if_absent(name, data)
        except OutcomeUnknown:
            if interpretation.resolve_unknown_put:
                raise
            return False
        except AlreadyExists:
            stored = await manifests.require(io, self.region.revision, interpretation)
            if not interpretation.stop_on_taken_position:
                return False
            if stored.epoch > self.epoch:
                raise Fenced(self.region.region_id, self.epoch, stored.epoch) from None
            reason = f"the position is taken, and epoch {self.epoch} still owns the region"
            raise ArtifactError("WAL-006", io.path(name), reason) from None
        return True

    @implements("FLUSH-001", "FLUSH-003", "FLUSH-004", "FLUSH-013", "AMB-17", "AMB-41", "AMB-43", "AMB-45")
    async def flush(self) -> Generation | None:
        """Flush the MemTable into a new generation; returns its number, or None if there are no rows.

        Sealing stores the pending rows first, so that the replay pointer covers exactly the generation.
        """
        self._check_open()
        await self.flush_wal()
        sealed = self.memtable
        if not sealed.stored:
            return None
        covered = sealed.position_covered
        if covered is None:
            raise EngineBug("stored rows without a covered position")
        self.frozen.append(sealed)
        self.memtable = MemTable(
            generation=Generation(sealed.generation + 1), schema=sealed.schema, position_covered=covered
        )
        start = replay_start(self.manifest, self.region.revision)
        try:
            listed = await flushing.write_generation(self.region, self.epoch, sealed, start)
            self.manifest = await _commit_flush(self.region, self.epoch, start, listed, covered)
        except (Outcome, ArtifactError) as failure:
            self._stop(failure)
            raise
        self.frozen.remove(sealed)
        return sealed.generation

    async def close(self) -> None:
        """Store pending writes and stop. Rows that are not flushed stay in the WAL for the next writer."""
        if self.stopped:
            return
        await self.flush_wal()
        self.stopped = "closed"


@implements(
    "FENCE-009", "FENCE-010", "FENCE-011", "MANIFEST-022", "MANIFEST-035", "FLUSH-009", "FLUSH-010", "FLUSH-011",
    "FLUSH-012", "FLUSH-014", "FLUSH-016", "AMB-29", "AMB-33", "AMB-37",
)  # fmt: skip
async def _commit_flush(
    region: Region, epoch: Epoch, start: WalPosition, listed: FlushedGeneration, covered: WalPosition
) -> RegionManifest:
    """List the generation in the next manifest version, verifying the epoch against the version it is derived from."""
    known: RegionManifest | None = None
    unanswered = 0
    while True:
        if known is None or region.interpretation.reverify_each_attempt:
            current = await manifests.require(region.io, region.revision, region.interpretation)
            if current.epoch > epoch:
                raise Fenced(region.region_id, epoch, current.epoch)
            if current.epoch < epoch:
                reason = f"the stored epoch {current.epoch} is below this writer's epoch {epoch}"
                raise ArtifactError("AMB-37", region.io.root, reason)
            if current.generation_current > listed.generation:
                return current  # an own attempt whose outcome was unknown: only this epoch can commit it
            if replay_start(current, region.revision) != start or current.generation_current != listed.generation:
                reason = f"generation {listed.generation} would not follow {current.generation_current - 1}"
                raise ArtifactError("FLUSH-009", region.io.root, reason)
            known = current
        else:
            known = manifests.following(known)
        wanted = replace(
            manifests.following(known),
            position_replay_after=covered,
            position_last_seen=max(known.position_last_seen, covered),
            generation_current=Generation(listed.generation + 1),
            flushed=(*known.flushed, listed),
        )
        try:
            await manifests.put(region.io, wanted, region.revision)
        except AlreadyExists:
            continue
        except (OutcomeUnknown, Throttled):
            unanswered += 1
            if unanswered >= confirm.ATTEMPTS:
                raise
            await region.io.sleep(_PAUSE_MS)
            continue
        await manifests.put_hint(region.io, wanted.version)
        await region.io.note("flushed", region=region.region_id, generation=listed.generation)
        return wanted


@implements("FENCE-003", "FENCE-022", "WRITER-012")
async def open_writer(region: Region) -> Writer:
    """Claim the region and recover its MemTable; returns the open writer."""
    manifest = await claim(region)
    memtable = await recover(region, manifest)
    covered = memtable.position_covered
    following = WalPosition(covered + 1) if covered is not None else replay_start(manifest, region.revision)
    return Writer(region=region, manifest=manifest, memtable=memtable, position_next=following)
