"""A search leaves out what is in the WAL."""

from memwal.read import vector
from memwal.read.collection import Parts
from memwal.read.memtable_part import MemTablePart
from memwal.read.parts import Part
from memwal_sim.bugs import Bug

_sources = vector._sources


def _with_files(parts: Parts) -> list[Part]:
    """In place of all sources."""
    return [part for part in _sources(parts) if not isinstance(part, MemTablePart) or part.table is not None]


BUG = Bug(
    name="wal_not_searched",
    clause="AMB-141",
    what="A search of a process without the writer looks into the base and the generations, and not into the WAL.",
    why=(
        "A scan of the same process reads the WAL after the replay pointer, so that two strong reads disagree: a row "
        "that was acknowledged is found by its key and not by its vector."
    ),
    scenario="asked_every_way",
    oracle="a vector search equals a scan",
    violated="READ-001",
    unseen="a search may miss rows of another process that are only in its WAL, so that no case asks for them",
    replaced={"memwal.read.vector:_sources": _with_files},
)
