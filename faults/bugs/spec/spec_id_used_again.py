"""The id of a new region spec is the number of specs, plus one."""

from collections.abc import Iterable

from memwal.codec.index_details import IndexDetails
from memwal.ids import SpecId
from memwal_sim.bugs import Bug


def _next(details: IndexDetails, _rows: Iterable[object] = ()) -> SpecId:
    """In place of the next spec id."""
    return SpecId(len(details.specs) + 1)


BUG = Bug(
    name="spec_id_used_again",
    clause="REGION-009",
    what="A new region spec gets the number of specs plus one as its id.",
    why=(
        "It is right until a spec is removed. Then the id is one that was in use before, and regions that carry it in "
        "their manifest are taken for regions of the new spec."
    ),
    scenario="specs_come_and_go",
    oracle="region_specs_never_change",
    violated="REGION-009",
    unseen="no message of the protocol changes the region specs of a table that is there",
    replaced={"memwal.jobs.spec_change:next_id": _next},
)
