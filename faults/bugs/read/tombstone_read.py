"""A tombstone is read as a row."""

import numpy as np
import pyarrow as pa
from memwal.keys import Mask
from memwal_sim.bugs import Bug


def _all(rows: pa.Table) -> Mask:
    """In place of the rows that do not delete their key."""
    return np.ones(rows.num_rows, np.bool_)


BUG = Bug(
    name="tombstone_read",
    clause="AMB-89",
    what="A reader returns rows that mark their key as deleted.",
    why=(
        "A deleted key comes back with empty values, until the generation that deletes it is merged: then the base "
        "lacks it, and the answer changes without a write."
    ),
    scenario="writer_deletes",
    oracle="a merge keeps all rows",
    violated="MERGE-001",
    revision="R",
    replaced={"memwal.read.nodes:stays": _all},
)
