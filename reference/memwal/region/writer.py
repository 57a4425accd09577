"""The writer of one region: put, WAL flush, MemTable flush, and what happens when any of it fails.

Source: MemWAL revisions A and B, "Writer Expectations"; revision A, "Writer Operations"; AMB-13, 14, 21, 29, 41, 43.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from .. import confirm, paths
from ..clauses import implements
from ..codec import wal
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..codec.wal import WalEntry
from ..errors import (
    AlreadyExists,
    ArtifactError,
    EngineBug,
    Fenced,
    Outcome,
    OutcomeUnknown,
    Throttled,
    WriterStopped,
)
from ..ids import Epoch, Generation, Milliseconds, WalPosition
from . import flush as flushing
from . import manifest as manifests
from .claim import claim, verify_epoch
from .memtable import MemTable
from .recovery import recover, replay_start
from .region import Region

_PAUSE_MS = Milliseconds(10)


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
