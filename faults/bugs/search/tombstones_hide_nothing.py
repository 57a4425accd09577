"""A search forgets that a delete is newer than the row that it deletes."""

import pyarrow.compute as pc
from memwal.codec.asked_keys import AskedKeys
from memwal.keys import KeySet, Mask
from memwal.read.freshness import Freshness
from memwal.read.parts import Part
from memwal.region.rows import TOMBSTONE
from memwal_sim.bugs import Bug


async def _has_value(fresh: Freshness, part: Part, asked: AskedKeys) -> Mask:
    """In place of asking whether a source has any row of a key."""
    rows = await part.rows(list(fresh.view.base.primary_key))
    if TOMBSTONE in rows.schema.names:
        rows = rows.filter(pc.invert(rows.column(TOMBSTONE)))
    return KeySet(rows.select(list(fresh.view.base.primary_key))).mask(asked.table)


BUG = Bug(
    name="tombstones_hide_nothing",
    clause="READ-002",
    what="A search drops an older hit only if a newer source has a value for its key, and not if it has a delete.",
    why=(
        "Deletes are rows without values, and an index over values has none of them. Asking the indexes alone "
        "what is newer brings deleted rows back."
    ),
    scenario="deleted_key",
    oracle="a search equals a scan",
    violated="READ-002",
    revision="R",
    replaced={"memwal.read.freshness:Freshness._has": _has_value},
)
