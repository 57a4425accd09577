"""The marks of finished tasks stay in their generation, and go with it."""

from collections.abc import Iterable, Mapping

from memwal.codec import marks as coding
from memwal.codec.marks import Mark
from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Io
from memwal.errors import NotFound
from memwal.ids import RegionId
from memwal.region.region import Region
from memwal.table.state import TableState, latest
from memwal_sim.bugs import Bug


async def _not_recorded(io: Io, _marks: Mapping[RegionId, Iterable[Mark]]) -> TableState:
    """In place of recording them in the table."""
    return await latest(io)


async def _in_listed(_io: Io, region: Region, manifest: RegionManifest) -> list[Mark]:
    """In place of those in generations that are not merged: those of merged ones, too, as long as they are listed."""
    found = list[Mark]()
    for listed in manifest.flushed:
        try:
            generation = await latest(region.io.child(listed.path))
        except NotFound:
            continue
        found += coding.decode(generation.config.get(coding.DONE), generation.path)
    return found


BUG = Bug(
    name="mark_collected",
    clause="AMB-149",
    what="The mark of a finished task is looked for in every generation that is listed, and is nowhere else.",
    why=(
        "It is found until a collector takes the merged generation away. All goes well as long as attempts are less "
        "late than collectors are."
    ),
    scenario="late_task_after_a_flush",
    oracle="a finished task puts nothing",
    violated="AMB-149",
    replaced={"memwal.table.marks:record": _not_recorded, "memwal.jobs.marks:_in_generations": _in_listed},
)
