"""Writes are acknowledged and stored nowhere."""

from memwal.codec.wal import WalEntry
from memwal.region.writer import RegionWriter
from memwal_sim.bugs import Bug


async def _store_nothing(_writer: RegionWriter, _name: str, _entry: WalEntry) -> bool:
    """In place of storing a WAL entry; says that it was stored."""
    return True


BUG = Bug(
    name="canary",
    clause="WAL-001",
    what="A put is acknowledged without storing anything in the WAL.",
    why="No exploration of writers that misses this one can be trusted; it runs with every one of them.",
    scenario="one_writer",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.region.writer:RegionWriter._store": _store_nothing},
)
