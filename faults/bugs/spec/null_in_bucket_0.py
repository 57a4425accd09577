"""Two engines send rows without a value to different regions."""

from collections.abc import Mapping

import pyarrow as pa
from memwal.codec.index_details import RegionSpec
from memwal.table.state import TableState
from memwal_sim.bugs import Bug
from memwal_sim.scenarios.sharded import by_engine


def _zero(spec: RegionSpec, rows: pa.Table, state: TableState) -> Mapping[str, object]:
    """In place of the second engine's buckets: 0 where there is none."""
    return {name: 0 if value is None else value for name, value in by_engine(spec, rows, state).items()}


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
    replaced={"memwal_sim.scenarios.specs:by_other_engine": _zero},
)
