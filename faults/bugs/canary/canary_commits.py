"""A version replaces another one."""

from memwal.effects import Io
from memwal.ids import TableVersion
from memwal.table import versions
from memwal_sim.bugs import Bug


async def _replace(io: Io, version: TableVersion, data: bytes, scheme: versions.Scheme = versions.Scheme.V2) -> None:
    """In place of creating a version if it is absent."""
    await io.put(versions.name(version, scheme), data)


BUG = Bug(
    name="canary_commits",
    clause="TXN-005",
    what="The manifest of a version is put whether or not there is one.",
    why="Two committers get the same version, and the first one's acknowledged rows are gone.",
    scenario="two_commits_put",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.table.versions:create": _replace},
)
