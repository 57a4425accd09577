"""An index builder records its progress for every index."""

from dataclasses import replace

from memwal.codec.index_details import IndexDetails, Progress
from memwal_sim.bugs import Bug


def _all(details: IndexDetails, _name: str, proven: Progress) -> IndexDetails:
    """In place of the record of one index."""
    return replace(details, catchup=tuple(replace(entry, generations=proven) for entry in details.catchup))


BUG = Bug(
    name="credit_for_all_indexes",
    clause="CATCHUP-008",
    what="A builder that has extended one index records the new progress for all indexes of the table.",
    why=(
        "With one index there is no difference. With two, the one that was not built counts as covering rows that it "
        "lacks until it is built too."
    ),
    scenario="two_indexers",
    oracle="an index covers what it is credited with",
    violated="CATCHUP-001",
    replaced={"memwal.table.coverage:with_credit": _all},
)
