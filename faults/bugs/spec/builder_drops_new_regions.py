"""A snapshot lists the regions that were found by looking, and no others."""

from memwal.codec.index_details import IndexDetails
from memwal.effects import Io
from memwal.index import mem_wal, regions, snapshot
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


async def _build(
    io: Io, *, inline_most: int | None = None, whole: bool = False, scanned: regions.Scanned | None = None
) -> TableState:
    """In place of building the region snapshot."""

    async def derive(state: TableState, details: IndexDetails) -> snapshot.StoredSnapshot:
        live = scanned or await regions.scan(io, state, await regions.folders(io), whole=whole)
        return await snapshot.store(io, state, details, live.rows, most=inline_most)

    return await mem_wal.change(io, derive)


BUG = Bug(
    name="builder_drops_new_regions",
    clause="AMB-53",
    what="A snapshot builder writes down the regions that have a folder, and forgets those that are registered only.",
    why=(
        "The texts describe the builder as listing folders. A region that was registered and not opened yet has none: "
        "its value gets a second region from the next client, while the first one opens the region that it has."
    ),
    scenario="creator_and_builder",
    oracle="a key is in one region",
    violated="REGION-002",
    replaced={"memwal.index.regions:build_snapshot": _build},
)
