"""An index is committed before its files are stored."""

from memwal.codec.pb.lance import table_pb2
from memwal.effects import Io
from memwal.jobs.extension import Extension, Segments
from memwal.table.mirror import Mirror
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


async def _not_yet(
    io: Io, _mirror: Mirror, state: TableState, extension: Extension
) -> tuple[Segments, tuple[str, ...]]:
    """In place of storing the files of an extended index."""
    added = []
    for built in extension.added:
        entry = table_pb2.IndexMetadata()
        entry.CopyFrom(built)
        entry.uuid.uuid = bytes.fromhex(await io.random_hex(32))
        entry.created_at = await io.now()
        entry.dataset_version = state.version
        added.append(entry)
    return tuple(added), ()


BUG = Bug(
    name="index_without_files",
    clause="TXN-009",
    what="The table names an extended index whose files are not in the store.",
    why=(
        "Committing first and storing afterwards is shorter by a check for left-overs. A search in between, or "
        "after a crash of the builder, finds the index named and not there."
    ),
    scenario="indexer_and_merger",
    oracle="a search equals a scan",
    violated="CATCHUP-012",
    replaced={"memwal.jobs.index_builder:_store": _not_yet},
)
