"""A reader takes what it finds of the WAL for its end."""

from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Io
from memwal.revisions import Revision
from memwal_sim.bugs import Bug


async def _never(_region: Io, _manifest: RegionManifest, _revision: Revision) -> bool:
    """In place of reading the manifest again."""
    return False


BUG = Bug(
    name="cut_wal_tail",
    clause="READ-012",
    what=(
        "A reader without access to a writer's memory reads WAL entries until one is missing, and does not look "
        "again whether the region was flushed meanwhile."
    ),
    why=(
        "The entries behind were flushed, merged and collected. The older ones that the reader has got shadow "
        "newer rows in the base table that it reads afterwards."
    ),
    scenario="wal_reader",
    oracle="reads are explained",
    violated="READ-008",
    unseen=(
        "needs a collector of WAL entries: scenarios/gate/reader_beside_a_wal_collection sees it with --memwal- "
        "setting wal_collection=on only"
    ),
    replaced={"memwal.read.tail:_moved": _never},
)
