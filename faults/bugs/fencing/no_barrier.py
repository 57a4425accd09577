"""A claim leaves no mark in the WAL, and a writer that meets a taken position goes on to the next."""

from memwal.errors import ArtifactError
from memwal.ids import WalPosition
from memwal.region.writer import Writer
from memwal_sim.bugs import Bug

_flush_wal = Writer.flush_wal


async def _flush_wal_somewhere(writer: Writer) -> None:
    """Store the pending writes at the next free position, whoever took those before it."""
    while True:
        try:
            await _flush_wal(writer)
            return
        except ArtifactError as taken:
            if taken.clause != "WAL-006":
                raise
            writer.stopped = ""
            writer.position_next = WalPosition(writer.position_next + 1)


BUG = Bug(
    name="no_barrier",
    clause="AMB-24",
    what="A claim puts no barrier entry into the WAL, and a put that finds its position taken goes on to the next.",
    why=(
        "The fenced predecessor finds the next position free, stores its row there and acknowledges it after its "
        "successor has finished replay. The successor steps over the entry, and its next flush moves the replay "
        "pointer past a row that it never saw. The texts ask for no mark, do not check the epoch on WAL writes, and "
        "do not say what a taken position means."
    ),
    scenario="two_writers_two_keys",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    readings={"claim_barrier": False},
    replaced={"memwal.region.writer:Writer.flush_wal": _flush_wal_somewhere},
)
