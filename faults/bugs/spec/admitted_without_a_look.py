"""A writer that opens a region does not look for a change of specs that is under way."""

from memwal_sim.bugs import Bug


async def _admit(*_: object, **__: object) -> None:
    """In place of looking at the MemWAL index once more after the claim."""


BUG = Bug(
    name="admitted_without_a_look",
    clause="WRITER-002",
    what="A writer trusts the configuration that it read before it claimed its region.",
    why=(
        "Each process can be sure of the other only if both write before they read. A change of specs that is "
        "committed between the writer's look at the table and its claim finds no writer to fence, and the writer "
        "puts its row into a region of a spec that no longer governs."
    ),
    scenario="running_writer",
    oracle="a key is in one region",
    violated="REGION-002",
    unseen="no message of the protocol changes the region specs of a table that is there",
    replaced={"memwal.jobs.spec_change:admit": _admit},
)
