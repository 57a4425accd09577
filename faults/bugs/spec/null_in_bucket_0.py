"""Two engines send rows without a value to different regions."""

import pyarrow as pa
from memwal.index import hashing
from memwal.index.hashing import Profile
from memwal_sim.bugs import Bug

_bucket = hashing.bucket


def _zero(hashes: pa.Int32Array, buckets: int, profile: Profile = "textbook") -> pa.Int32Array:
    """In place of no bucket where there is no hash."""
    return _bucket(hashes.fill_null(0), buckets, profile)


BUG = Bug(
    name="null_in_bucket_0",
    clause="AMB-57",
    what="Of two engines that write one table, one puts rows whose source column is NULL into bucket 0.",
    why=(
        "The hash of a NULL is NULL, and so is its bucket: such rows have a region of their own. A bucket number is "
        "what the hash loop starts with, so that an engine that skips NULLs has 0 in its hand."
    ),
    scenario="two_engines_null",
    oracle="a key is in one region",
    violated="REGION-002",
    replaced={"memwal.index.hashing:bucket": _zero},
)
