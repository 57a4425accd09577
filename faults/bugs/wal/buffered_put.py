"""A durable put returns when its rows are in memory."""

import pyarrow as pa
from memwal.region.writer import RegionWriter
from memwal_sim.bugs import Bug


async def _buffered(writer: RegionWriter, rows: pa.Table, _durable: bool, _indexed: bool) -> None:
    """In place of storing the rows before returning."""
    writer.insert(rows)


BUG = Bug(
    name="buffered_put",
    clause="WRITER-003",
    what="A put that was asked to be durable returns before its rows are stored in the WAL.",
    why=(
        "The client takes the return for durability. A crash before the next WAL flush loses rows that were "
        "acknowledged."
    ),
    scenario="one_writer",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    unseen="the adapter's durable put goes through a call of the engine that waits by itself",
    replaced={"memwal.region.writer:RegionWriter.write": _buffered},
)
