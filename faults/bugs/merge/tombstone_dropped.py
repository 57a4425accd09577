"""A merge leaves tombstones out."""

from dataclasses import replace

from memwal.effects import Io
from memwal.read import generation
from memwal.read.generation import GenerationSource
from memwal.table.state import TableState
from memwal_sim.bugs import Bug

_open = generation.open_source


async def _live_only(region: Io, folder: str, base: TableState) -> GenerationSource:
    """In place of the keys of all rows, tombstones included."""
    source = await _open(region, folder, base)
    assert source.held is not None
    names = list(base.primary_key)
    return replace(source, keys=source.held.select([source.columns[n] for n in names]).rename_columns(names), deleted=0)


BUG = Bug(
    name="tombstone_dropped",
    clause="AMB-89",
    what="A merger drops the tombstones of a generation instead of deleting their keys in the base table.",
    why=(
        "A key that was deleted after it was merged stays in the base table, and comes back when the generation "
        "with the tombstone is merged."
    ),
    scenario="writer_deletes",
    oracle="a merge keeps all rows",
    violated="MERGE-001",
    revision="R",
    replaced={"memwal.read.generation:open_source": _live_only},
)
