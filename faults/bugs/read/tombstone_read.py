"""A tombstone is read as a row."""

import pyarrow as pa
from memwal.region.rows import TOMBSTONE, Rows
from memwal_sim.bugs import Bug


def _all_live(rows: Rows, stored: pa.Table) -> tuple[pa.Table, pa.Table]:
    """In place of telling live rows from tombstones."""
    live = stored.drop_columns([TOMBSTONE]).cast(rows.plain)
    return live, live.slice(0, 0).select(list(rows.key))


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
    replaced={"memwal.region.rows:Rows.split": _all_live},
)
