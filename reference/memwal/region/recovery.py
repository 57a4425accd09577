"""Recovery of a claimed region: replay of its WAL tail, and the barrier that ends it.

Requests in the undisturbed case: one GET per entry and one for the position behind the last, one LIST of the WAL
folder, and the put of the barrier, which a region's first claim does without in A and R.

Source: MemWAL revisions A and B, "WAL Replay"; revision A, "Initialization & Recovery".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from .. import confirm, paths
from ..clauses import implements
from ..codec import wal
from ..codec.marks import Mark
from ..codec.region_manifest import RegionManifest
from ..codec.wal import WalEntry
from ..effects import Io
from ..errors import AlreadyExists, ArtifactError, EngineBug, Fenced, NotFound
from ..ids import UINT64_MAX, Epoch, Generation, WalPosition
from ..revisions import Revision
from . import manifest as manifests
from . import wal_folder
from .claim import verify_epoch
from .memtable import MemTable
from .region import Region


@implements("WAL-020", "AMB-07", "AMB-08", "AMB-09")
def replay_start(manifest: RegionManifest, revision: Revision) -> WalPosition:
    """Position of the first entry that no listed generation covers: one above the replay pointer.

    Before the first flush a pointer of 0 covers nothing, not even an entry 0. The last-seen hint plays no part.
    """
    if wal_folder.never_flushed(manifest, revision):
        # AMB-07, two meanings of 0: before the first flush it covers nothing.
        return revision.first_position
    if manifest.position_replay_after == UINT64_MAX:
        reason = "the replay pointer is the largest number: no entry follows it"
        raise ArtifactError("MANIFEST-008", paths.region(manifest.region_id), reason)
    # AMB-09, where recovery starts: behind the pointer, not at the last-seen hint.
    return WalPosition(manifest.position_replay_after + 1)


@implements("WAL-033", "AMB-12", "AMB-15")
async def read_entry(region: Io, position: WalPosition, revision: Revision, schema: pa.Schema) -> WalEntry:
    """The entry at ``position``; columns that are plain in ``schema`` are so in its rows.

    Raises `NotFound`, and `ArtifactError` for bytes that are no whole entry, by AMB-15, or whose epoch cannot be read:
    such an entry is neither skipped nor taken in part. It may be the end of a put on a store that does not create
    atomically, and then only a person can say that it was never acknowledged.
    """
    name = paths.wal(position, revision.wal_suffix)
    try:
        entry = wal.decode(await region.get(name), revision, region.path(name))
    except ArtifactError as error:
        # What is whole and breaks another clause is said as it is; the rest may be a put that was cut off.
        if error.clause not in wal.CONTAINER_CLAUSES:
            raise
        reason = (
            f"entry {position} cannot be read, and nothing is replayed past it: {error.reason} [{error.clause}]; "
            "`memwal table repair` says what can be kept"
        )
        raise ArtifactError("AMB-15", error.path, reason, error.offset) from error
    return wal.plain(entry, schema)


@implements("WAL-018", "AMB-09", "AMB-42")
def is_flushed(entry: WalEntry, manifest: RegionManifest) -> bool:
    """Whether a generation holds the rows of an entry above the replay pointer: the entry says of which they are (R).

    The native writer's pointer may lag: it leaves out entries that were being stored when their MemTable was sealed,
    and on tables that only grow it may leave out all. Replaying those again would bring back rows that were merged and
    deleted since, and without a key every row twice.
    """
    return entry.generation is not None and entry.generation < manifest.generation_current


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a WAL holds that no listed generation does."""

    frozen: tuple[MemTable, ...] = ()
    """MemTables that were sealed and never flushed, oldest first: entries say of which generation they are (R)."""
    memtable: MemTable
    """The active one."""

    @property
    def rows(self) -> int:
        """Of all replayed entries together."""
        return sum(memtable.rows for memtable in (*self.frozen, self.memtable))


@implements("FENCE-016", "AMB-24", "AMB-26")
async def recover(region: Region, manifest: RegionManifest) -> Recovered:
    """Rebuild the MemTables from the WAL and put the barrier at its end; ``manifest`` is the confirmed claim.

    Raises `ArtifactError` for a damaged entry, a hole, an epoch that was never claimed, or a WAL of another revision;
    then nothing was written. `Fenced` if there is a newer claim: its owner may have flushed and collected what is
    missed.
    """
    try:
        found = await _replayed(region, manifest)
    except ArtifactError:
        stored = await manifests.require(region.io, region.revision, collected=region.manifest_collection)
        # What is damage for the newest claim is none for this one: its successor may have flushed and collected.
        if stored.epoch > manifest.epoch:
            raise Fenced(region.region_id, manifest.epoch, stored.epoch) from None
        raise
    await region.io.note("recovered", region=region.region_id, epoch=manifest.epoch, rows=found.rows)
    return found


@implements(
    "WAL-019", "WAL-020", "WAL-022", "FENCE-015", "FENCE-020", "FENCE-021", "AMB-20", "AMB-24", "AMB-26", "AMB-27",
    "AMB-139",
)  # fmt: skip
async def _replayed(region: Region, manifest: RegionManifest) -> Recovered:
    revision = region.revision
    position = replay_start(manifest, revision)
    schema = region.rows.schema
    replayed: list[_Replayed] = []
    needs_barrier = manifest.epoch > revision.epoch_first or revision.barrier_on_first_claim
    highest, checked = Epoch(0), False
    while True:
        name = paths.wal(position, revision.wal_suffix)
        try:
            entry = await read_entry(region.io, position, revision, schema)
        except NotFound:
            # Once is enough: what a rival puts there later is found by the barrier's own create.
            if not checked:
                await confirm.damage(partial(_check_names, region, manifest, position))
                checked = True
            found = _rebuilt(manifest, schema, replayed)
            # A first claim has no predecessor that might still write.
            if not needs_barrier or not region.io.interpretation.claim_barrier:
                return found
            try:
                # AMB-24, a zombie's append: it has to collide with something where the next entry goes.
                await _put_barrier(region, manifest, found.memtable.generation, position)
            except AlreadyExists:
                continue  # a rival's entry, or a newer claim's barrier: read what stands there
            return replace(found, memtable=found.memtable.with_replayed(position, schema.empty_table()))
        # AMB-27, interleaved epochs: a fenced writer's entry behind its successor's was not acknowledged, and is kept.
        if entry.epoch < highest:
            await region.io.note("epoch_went_back", position=position, epoch=entry.epoch, before=highest)
        highest = max(highest, entry.epoch)
        held = _Replayed(position, schema.empty_table())
        # FENCE-015, valid entries: those of this epoch and all before it.
        if entry.epoch <= manifest.epoch:
            # AMB-09, where recovery starts: what a generation holds is left out, though the pointer lags (R).
            if not is_flushed(entry, manifest):
                rows = region.rows.restored(entry.rows, region.io.path(name))
                held = _Replayed(position, rows, region.rows.filled(entry.rows), entry.generation, entry.done)
        elif region.io.interpretation.stop_on_newer_epoch:
            # AMB-26, an epoch that was never claimed: there is no rule by which it could be left out.
            reason = f"written under epoch {entry.epoch}, and the region's newest epoch is {manifest.epoch}"
            raise ArtifactError("FENCE-015", region.io.path(name), reason)
        # WAL-019, the order of replay: from lower to higher positions, so that what is later is newer.
        replayed.append(held)
        position = WalPosition(position + 1)


@dataclass(frozen=True, slots=True)
class _Replayed:
    """What one WAL entry contributes; no rows where a generation holds them, or it has none."""

    position: WalPosition
    rows: pa.Table
    filled: frozenset[str] = frozenset()
    generation: Generation | None = None
    """Of the rows, where entries say so (R)."""
    done: tuple[Mark, ...] = ()


@implements("WAL-018", "AMB-17")
def _rebuilt(manifest: RegionManifest, schema: pa.Schema, replayed: Sequence[_Replayed]) -> Recovered:
    """The MemTables of the writer before, sealed where the entries' generation grows; one, where they say of none.

    One also where generations go back, as in what earlier versions of this engine left: a flush of some of it would let
    the rest count as flushed.
    """
    frozen: list[MemTable] = []
    memtable = MemTable(generation=manifest.generation_current, schema=schema)
    told = [each.generation for each in replayed if each.generation is not None and each.rows.num_rows]
    # None: entries do not tell, and all is one MemTable.
    newest = None if told != sorted(told) else Generation(0)
    for each in replayed:
        if newest is not None and each.generation is not None and each.rows.num_rows:
            # WAL-018, AMB-17: an entry is of one generation, and a larger number begins the next MemTable.
            if each.generation > newest and memtable.rows:
                frozen.append(memtable)
                memtable = memtable.successor()
            newest = each.generation
        memtable = memtable.with_replayed(each.position, each.rows, filled=each.filled)
        memtable = memtable.with_done(each.done)
    rebuilt = Recovered(frozen=tuple(frozen), memtable=memtable)
    rows = sum(each.rows.num_rows for each in replayed)
    if rebuilt.rows != rows:
        raise EngineBug(f"{rows} rows were replayed, and the MemTables made of them have {rebuilt.rows}")
    return rebuilt


async def _check_names(region: Region, manifest: RegionManifest, tip: WalPosition) -> None:
    """Raise `ArtifactError` for what the names of the entries say, none where nothing is to be listed.

    ``tip``: where replay met no entry. To be asked before the barrier is put there, which would fill a hole and so hide
    what is behind it.
    """
    found: tuple[WalPosition, ...] = ()
    if region.io.interpretation.list_wal_tail:
        names = await region.io.list("wal")
        wal_folder.refuse_strangers(names, region.revision, region.io.root)
        found = wal_folder.positions(names, region.revision)
        wal_folder.check_first_position(manifest, region.revision, region.io.root, zero=0 in found, one=1 in found)
    wal_folder.check_end(tip, found, manifest, region.revision, region.io.root)


async def _put_barrier(region: Region, manifest: RegionManifest, generation: Generation, position: WalPosition) -> None:
    if position < replay_start(manifest, region.revision) or generation < manifest.generation_current:
        flushed = f"generation {manifest.generation_current} is the current one"
        raise EngineBug(f"a barrier of generation {generation} at position {position}, and {flushed}")
    entry = WalEntry(
        epoch=manifest.epoch,
        generation=generation,
        rows=region.rows.schema.empty_table(),
        barrier=True,
    )
    data = wal.encode(entry, region.revision)
    await confirm.create(region.io, paths.wal(position, region.revision.wal_suffix), data)
    if region.wal_collection:
        await verify_epoch(region, manifest)
