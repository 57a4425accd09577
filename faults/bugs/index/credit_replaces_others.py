"""An index builder writes a list of records that has its own only."""

from dataclasses import replace

from memwal.codec.index_details import IndexCatchup, IndexDetails, Progress
from memwal_sim.bugs import Bug


def _own(details: IndexDetails, name: str, proven: Progress) -> IndexDetails:
    """In place of one record among those of other indexes."""
    return replace(details, catchup=(IndexCatchup(index_name=name, generations=proven),))


BUG = Bug(
    name="credit_replaces_others",
    clause="AMB-69",
    what="A builder that records its progress replaces the records of all other indexes.",
    why=(
        "Each change of the MemWAL index writes all of it. A process that does not carry over what is not its own "
        "takes other indexes back to nothing: their generations are kept for ever, or count as covered for want of a "
        "record."
    ),
    scenario="two_indexers",
    oracle="catch_up_never_goes_back",
    violated="AMB-70",
    replaced={"memwal.table.coverage:with_credit": _own},
)
