"""A sealed MemTable is forgotten before its generation is committed."""

from memwal.ids import Generation
from memwal.region import flush
from memwal.region.commit import commit_flush
from memwal.region.recovery import replay_start
from memwal.region.writer import RegionWriter
from memwal_sim.bugs import Bug


async def _forgets_first(writer: RegionWriter) -> Generation | None:
    """In place of keeping the MemTable until the manifest lists its generation."""
    async with writer.flushing:
        writer.check_open()
        if not writer.frozen:
            return None
        sealed, *others = writer.frozen
        assert sealed.position_covered is not None
        start = replay_start(writer.manifest, writer.region.revision)
        writer.frozen = tuple(others)
        listed = await flush.write_generation(writer.region, writer.epoch, sealed, start)
        writer.adopt(await commit_flush(writer.region, writer.epoch, start, listed, sealed.position_covered))
        return sealed.generation


BUG = Bug(
    name="released_before_the_commit",
    clause="AMB-102",
    what="A flush takes its MemTable out of memory when it begins, and not when the manifest lists the generation.",
    why=(
        "Meanwhile a reader in the writer's process finds the rows neither in memory nor in a generation that is "
        "listed, although they were acknowledged."
    ),
    scenario="observed_flush",
    oracle="reads are explained",
    violated="READ-008",
    replaced={"memwal.region.writer:RegionWriter.flush_oldest": _forgets_first},
)
