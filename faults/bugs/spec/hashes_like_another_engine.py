"""Two engines hash different bytes."""

import pyarrow as pa
from memwal.index import hashing
from memwal.index.hashing import Column, Profile
from memwal_sim.bugs import Bug

_murmur3 = hashing.murmur3


def _spark_like(column: Column, _profile: Profile = "textbook") -> pa.Int32Array:
    """In place of the hash of the whole text: the one that mixes its last bytes one by one."""
    return _murmur3(column, "R")


BUG = Bug(
    name="hashes_like_another_engine",
    clause="AMB-59",
    what="Of two engines that write one table, one finds buckets by a variant of the hash function.",
    why=(
        "The texts name the hash function and not the bytes that go into it, and their example fits no variant. Each "
        "engine is consistent with itself, and the same key goes to two regions."
    ),
    scenario="two_engines",
    oracle="a key is in one region",
    violated="REGION-002",
    replaced={"memwal.index.hashing:murmur3": _spark_like},
)
