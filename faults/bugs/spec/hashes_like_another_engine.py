"""Two engines hash different bytes."""

from collections.abc import Mapping

import pyarrow as pa
from memwal.codec.index_details import RegionSpec
from memwal.index.hashing import bucket, murmur3
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


def _spark_like(_spec: RegionSpec, rows: pa.Table, _state: TableState) -> Mapping[str, object]:
    """In place of the second engine's buckets: the hash that mixes the last bytes of a text one by one."""
    return {"many": bucket(murmur3(rows.column("id"), "R"), 16, "R")[0].as_py()}


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
    replaced={"memwal_sim.scenarios.specs:by_other_engine": _spark_like},
)
