"""Two engines make different buckets of negative hashes."""

from collections.abc import Mapping

import pyarrow as pa
from memwal.codec.index_details import RegionSpec
from memwal.index.hashing import murmur3
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


def _masked(_spec: RegionSpec, rows: pa.Table, _state: TableState) -> Mapping[str, object]:
    """In place of the second engine's buckets: the hash without its sign bit, modulo the number of buckets."""
    return {"many": (murmur3(rows.column("id"))[0].as_py() & 0x7FFF_FFFF) % 16}


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
    replaced={"memwal_sim.scenarios.specs:by_other_engine": _masked},
)
