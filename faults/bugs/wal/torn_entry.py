"""The last row of a write is left for another entry."""

from dataclasses import replace

from memwal.codec import wal
from memwal.codec.wal import WalEntry
from memwal.revisions import Revision
from memwal_sim.bugs import Bug

_encode = wal.encode


def _cut(entry: WalEntry, revision: Revision) -> bytes:
    """In place of encoding all rows."""
    rows = entry.rows.slice(0, entry.rows.num_rows - 1) if entry.rows.num_rows > 1 else entry.rows
    return _encode(replace(entry, rows=rows), revision)


BUG = Bug(
    name="torn_entry",
    clause="AMB-16",
    what="A WAL entry holds all rows of a write but the last, which is never stored.",
    why=(
        "A write is atomic: after a crash either all of its rows are there or none. An entry that takes only what "
        "fits leaves half a write behind."
    ),
    scenario="one_writer",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.codec.wal:encode": _cut},
)
