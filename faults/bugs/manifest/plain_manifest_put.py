"""A manifest version replaces what is there."""

from memwal.effects import Io, Put, PutIfAbsent
from memwal_sim.bugs import Bug


async def _put_manifests(io: Io, name: str, data: bytes) -> None:
    """In place of a conditional put, for manifests."""
    request = Put if name.startswith("manifest/") else PutIfAbsent
    await request(io.path(name), data)


BUG = Bug(
    name="plain_manifest_put",
    clause="MANIFEST-020",
    what="A region manifest version is stored with a plain put instead of put-if-not-exists.",
    why=(
        "Two processes that derive the same version number both succeed, and the first one's claim or flush "
        "vanishes without a trace."
    ),
    scenario="two_writers_two_keys",
    oracle="no process breaks",
    violated="WAL-006",
    replaced={"memwal.effects:Io.put_if_absent": _put_manifests},
)
