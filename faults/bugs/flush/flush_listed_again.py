"""A flush whose commit was not answered looks for its folder in the list."""

from dataclasses import replace

from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.ids import Epoch, Generation, WalPosition
from memwal.region import manifest as manifests
from memwal.region.claim import check_epoch
from memwal.region.region import Region
from memwal.region.transitions import FLUSH
from memwal_sim.bugs import Bug
from memwal_sim.outcomes import Fate


async def _if_not_listed(
    region: Region, epoch: Epoch, _start: WalPosition, listed: FlushedGeneration, covered: WalPosition
) -> RegionManifest:
    """In place of asking whether the current generation is past this one."""

    async def derive(current: RegionManifest | None) -> RegionManifest | None:
        stored = manifests.present(current, region.io)
        check_epoch(region, epoch, stored)
        if listed in stored.flushed:
            return None
        return replace(
            manifests.following(stored),
            position_replay_after=max(stored.position_replay_after, covered),
            generation_current=Generation(listed.generation + 1),
            flushed=(*stored.flushed, listed),
        )

    advanced = await manifests.advance(region.io, region.revision, FLUSH, derive, collected=region.manifest_collection)
    return manifests.present(advanced.manifest, region.io)


def _unasserted(*_: object) -> None:
    """In place of asserting what each step changes, which an engine need not do."""


BUG = Bug(
    name="flush_listed_again",
    clause="FLUSH-012",
    what="A flush whose commit was not answered lists its generation again unless the manifest has its folder.",
    why=(
        "The commit had succeeded, and the generation was merged and collected before the writer looked. Its folder "
        "is not in the list any more because it is gone, and is listed again: readers and mergers find a generation "
        "that cannot be opened. The current generation, which never goes back, tells what became of the commit."
    ),
    scenario="unanswered_flush",
    oracle="listed_generations_open",
    violated="FLUSH-013",
    faults=1,
    kinds=frozenset({Fate.APPLIED}),
    replaced={"memwal.region.commit:commit_flush": _if_not_listed, "memwal.region.transitions:check": _unasserted},
)
