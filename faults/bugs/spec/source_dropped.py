"""The column that decides on regions can be dropped at any time."""

from memwal_sim.bugs import Bug


async def _accept(*_: object) -> None:
    """In place of asking whether every region of the specs over a column is drained."""


BUG = Bug(
    name="source_dropped",
    clause="AMB-66",
    what="A source column of a region spec is dropped while regions of the spec hold rows that are not merged.",
    why=(
        "The texts say that a missing column counts as NULL, so that every later row goes to the region of NULL, while "
        "older rows of the same keys wait in other regions. They do not connect this with the rule that a key has one "
        "region."
    ),
    scenario="dropped_source",
    oracle="a key is in one region",
    violated="REGION-002",
    unseen="no message of the protocol changes the region specs of a table that is there",
    replaced={"memwal.index.drained:check_columns_may_change": _accept},
)
