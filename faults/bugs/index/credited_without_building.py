"""An index builder believes that there is nothing to build."""

from memwal.ids import FragmentId
from memwal_sim.bugs import Bug


def _nothing(*_: object) -> frozenset[FragmentId]:
    """In place of the fragments that an index does not cover."""
    return frozenset()


BUG = Bug(
    name="credited_without_building",
    clause="CATCHUP-006",
    what="A builder that finds nothing to index records all the same that the index has caught up with every merge.",
    why=(
        "A search for new rows by their number, or by a time, finds none where a merge replaced rows. The record "
        "then rests on nothing."
    ),
    scenario="indexer_and_merger",
    oracle="an index covers what it is credited with",
    violated="CATCHUP-001",
    replaced={"memwal.jobs.index_builder:uncovered": _nothing},
)
