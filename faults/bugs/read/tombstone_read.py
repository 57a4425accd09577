"""A tombstone is read as a row."""

from collections.abc import Sequence

import pyarrow as pa
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


def _all(found: pa.Table, base: TableState, names: Sequence[str]) -> pa.Table:
    """In place of the rows that do not delete their key."""
    return found.select(list(names)).cast(pa.schema([base.schema.field(name) for name in names]))


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
    replaced={"memwal.read.nodes:live": _all},
)
