"""A writer continues after a WAL flush failed."""

from memwal.region.writer import RegionWriter
from memwal_sim.bugs import Bug


def _anyway(_writer: RegionWriter) -> None:
    """In place of refusing calls after a failure."""


async def _once(writer: RegionWriter, name: str, data: bytes) -> bool:
    """In place of finding out what became of the entry."""
    await writer.region.io.put_if_absent(name, data)
    return True


BUG = Bug(
    name="goes_on_after_failure",
    clause="AMB-21",
    what=("A writer whose WAL flush failed keeps the rows in memory, shows them to readers, and takes further calls."),
    why=(
        "A reader has seen the rows, and a crash takes them back: they were visible and never durable. The texts "
        "leave open whether such rows are rolled back, stay pending, or stop the writer."
    ),
    scenario="one_writer_observed",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    faults=1,
    replaced={
        "memwal.region.writer:RegionWriter.check_open": _anyway,
        "memwal.region.writer:RegionWriter._store": _once,
    },
)
