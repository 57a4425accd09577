"""Two engines combine the columns of a hash differently."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from memwal.codec.index_details import RegionSpec
from memwal.index.hashing import bucket, murmur3
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


def _joined(_spec: RegionSpec, rows: pa.Table, _state: TableState) -> Mapping[str, object]:
    """In place of the second engine's buckets: one hash over the bytes of both columns in a row."""
    text = pc.binary_join_element_wise(rows.column("id"), rows.column("part"), "")
    return {"both": bucket(murmur3(text), 16)[0].as_py()}


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
    replaced={"memwal_sim.scenarios.specs:by_other_engine": _joined},
)
