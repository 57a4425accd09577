"""A search in memory finds rows that were written again."""

import numpy as np
from memwal.codec.canonical import Mask
from memwal.maintained.memory import MemTableIndexes
from memwal_sim.bugs import Bug


def _every_row(indexes: MemTableIndexes) -> Mask:
    """In place of the rows that no later one supersedes."""
    return np.ones(indexes.rows, np.bool_)


BUG = Bug(
    name="superseded_in_memory",
    clause="AMB-109",
    what="The index of a MemTable answers with every row that it has, also with those whose key was written again.",
    why=(
        "The texts drop a row if a newer generation has its key, and say nothing of newer rows of the same generation. "
        "A search for a value finds the key that had it before, or that key twice."
    ),
    scenario="updated_key",
    oracle="a search equals a scan",
    violated="READ-002",
    unseen=(
        "run, and not seen: of the rows of a key a search keeps the last one of each source, whatever the source's "
        "index answers"
    ),
    replaced={"memwal.maintained.memory:MemTableIndexes.live": _every_row},
)
