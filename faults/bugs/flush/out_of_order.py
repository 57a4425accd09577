"""A MemTable is flushed while an older one is not."""

from dataclasses import replace

from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.ids import Epoch, Generation, WalPosition
from memwal.region import flush
from memwal.region import manifest as manifests
from memwal.region.claim import check_epoch
from memwal.region.recovery import replay_start
from memwal.region.region import Region
from memwal.region.transitions import FLUSH
from memwal.region.writer import RegionWriter
from memwal_sim.bugs import Bug


async def _newest_first(writer: RegionWriter) -> Generation | None:
    """In place of flushing the oldest sealed MemTable."""
    waiting = [m for m in writer.frozen if m.generation not in {g.generation for g in writer.manifest.flushed}]
    if not waiting:
        return None
    sealed = waiting[-1]
    assert sealed.position_covered is not None
    start = replay_start(writer.manifest, writer.region.revision)
    listed = await flush.write_generation(writer.region, writer.epoch, sealed, start)
    writer.manifest = await _commit(writer.region, writer.epoch, listed, sealed.position_covered)
    return sealed.generation


async def _commit(region: Region, epoch: Epoch, listed: FlushedGeneration, covered: WalPosition) -> RegionManifest:
    async def derive(current: RegionManifest | None) -> RegionManifest | None:
        stored = manifests.present(current, region.io)
        check_epoch(region, epoch, stored)
        return replace(
            manifests.following(stored),
            position_replay_after=max(stored.position_replay_after, covered),
            generation_current=Generation(max(stored.generation_current, listed.generation + 1)),
            flushed=tuple(sorted((*stored.flushed, listed), key=lambda each: each.generation)),
        )

    advanced = await manifests.advance(region.io, region.revision, FLUSH, derive, collected=region.manifest_collection)
    return manifests.present(advanced.manifest, region.io)


def _unasserted(*_: object) -> None:
    """In place of asserting what each step changes, which an engine need not do."""


BUG = Bug(
    name="out_of_order",
    clause="AMB-41",
    what=(
        "When several MemTables wait, the newest is flushed first, and its commit does not ask whether the one "
        "before it was flushed."
    ),
    why=(
        "The replay pointer moves over the entries of the older MemTable. If its flush fails, or the writer "
        "crashes, its acknowledged rows are in no generation and below the pointer. The texts let flushes run in "
        "parallel and do not order their commits."
    ),
    scenario="one_writer_frozen",
    oracle="recovery succeeds",
    violated="WRITER-013",
    replaced={
        "memwal.region.writer:RegionWriter.flush_oldest": _newest_first,
        "memwal.region.flush:_check_sealed": _unasserted,
        "memwal.region.transitions:check": _unasserted,
    },
)
