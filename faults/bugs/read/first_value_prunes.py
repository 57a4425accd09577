"""Of several values that a key may have, only the first one decides which regions are read."""

from collections.abc import Collection, Mapping

from memwal.ids import RegionId
from memwal.index.snapshot import RegionRow
from memwal.maintained.scalar import Between
from memwal.read import pruning
from memwal.read.values import Predicate
from memwal.table.state import TableState
from memwal_sim.bugs import Bug

_matching = pruning._matching


def _of_the_first(
    base: TableState, known: Mapping[RegionId, RegionRow], among: Collection[RegionId], predicate: Predicate
) -> frozenset[RegionId]:
    """In place of the regions that any of the values may be in."""
    first = {
        name: values if isinstance(values, Between) else frozenset(sorted(values, key=str)[:1])
        for name, values in predicate.items()
    }
    return _matching(base, known, among, first)


BUG = Bug(
    name="first_value_prunes",
    clause="PLAN-007",
    what="Of `id IN (…)` a reader computes the bucket of the first value only, and leaves out all other regions.",
    why="The example of the texts has one value. A region that is left out wrongly has newer rows than the base.",
    scenario="asked_every_way",
    oracle="a filter equals a scan",
    violated="READ-002",
    unseen="filters of the protocol compare with one value each: there is no IN",
    replaced={"memwal.read.pruning:_matching": _of_the_first},
)
