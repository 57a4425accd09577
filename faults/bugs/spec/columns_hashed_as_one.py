"""Two engines combine the columns of a hash differently."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from memwal.index import hashing
from memwal.index.hashing import Column, Profile
from memwal_sim.bugs import Bug


def _joined(columns: Sequence[Column], profile: Profile = "textbook") -> pa.Int32Array:
    """In place of one hash as the seed of the next: one hash over the bytes of all columns in a row."""
    return hashing.murmur3(pc.binary_join_element_wise(*(column.cast(pa.string()) for column in columns), ""), profile)


BUG = Bug(
    name="columns_hashed_as_one",
    clause="AMB-60",
    what="Of two engines that write one table, one hashes the bytes of all key columns as one text.",
    why=(
        "The texts ask for a hash over several columns and do not say how they are combined: in a row, or each one's "
        "hash as the seed of the next. Both spread keys well, and both give other buckets."
    ),
    scenario="two_engines_columns",
    oracle="a key is in one region",
    violated="REGION-002",
    replaced={"memwal.index.hashing:murmur3_multi": _joined},
)
