"""Two engines make different buckets of negative hashes."""

import pyarrow as pa
from memwal.index import hashing
from memwal.index.hashing import Profile
from memwal_sim.bugs import Bug

_bucket = hashing.bucket


def _masked(hashes: pa.Int32Array, buckets: int, _profile: Profile = "textbook") -> pa.Int32Array:
    """In place of the absolute value: the hash without its sign bit, modulo the number of buckets."""
    return _bucket(hashes, buckets, "R")


BUG = Bug(
    name="sign_bit_off",
    clause="REGION-036",
    what="Of two engines of one table, one clears the sign bit of a hash where the other takes its absolute value.",
    why=(
        "It is how other table formats make a hash positive, and it agrees for half of all keys: those whose hash is "
        "positive already."
    ),
    scenario="two_engines",
    oracle="a key is in one region",
    violated="REGION-002",
    replaced={"memwal.index.hashing:bucket": _masked},
)
