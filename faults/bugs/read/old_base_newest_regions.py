"""A reader of a table version takes the newest state of the regions."""

from memwal.effects import Io
from memwal.index import regions
from memwal.read.view import View
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


async def _newest_regions(io: Io, base: TableState) -> View:
    """In place of the snapshot that belongs to the version."""
    return View(base=base, manifests=await regions.discover(io, base.revision), live=False)


BUG = Bug(
    name="old_base_newest_regions",
    clause="READ-013",
    what="A read of a table version reads its base, and above it the generations that regions list by now.",
    why=(
        "Base and generations are of different moments. What was merged since and collected is in neither, and a "
        "version does not hold any more what it held."
    ),
    scenario="eventual_reader",
    oracle="reads are explained",
    violated="READ-013",
    unseen="no message of the protocol opens an older version of a table",
    replaced={"memwal.read.view:eventual_view": _newest_regions},
)
