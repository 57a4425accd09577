"""An index answers for fragments whose values were rewritten."""

import numpy as np
from memwal.ids import FragmentId
from memwal.keys import Mask
from memwal.table.reuse import Addresses
from memwal_sim.bugs import Bug


def _everywhere(_fragments: frozenset[FragmentId], addresses: Addresses) -> Mask:
    """In place of the rows that are in fragments that the index names."""
    return np.ones(len(addresses), np.bool_)


BUG = Bug(
    name="rewritten_fragment_answered",
    clause="AMB-78",
    what="A search takes all entries of an index, also those of fragments that its bitmap names no more.",
    why=(
        "A column was rewritten in place: the rows are where they were, and the index has their old values. A search "
        "finds them by what they said before."
    ),
    scenario="asked_every_way",
    oracle="a text search scores as one table does",
    violated="READ-002",
    unseen="no message of the protocol rewrites a column in place",
    replaced={"memwal.read.indexed:inside": _everywhere},
)
