"""All WAL entries carry the first epoch."""

from dataclasses import replace

from memwal.codec import wal
from memwal.codec.wal import WalEntry
from memwal.ids import Epoch
from memwal.revisions import Revision
from memwal_sim.bugs import Bug

_encode = wal.encode


def _first(entry: WalEntry, revision: Revision) -> bytes:
    """In place of the writer's epoch."""
    return _encode(entry if entry.barrier else replace(entry, epoch=Epoch(1)), revision)


BUG = Bug(
    name="entries_of_the_first_epoch",
    clause="WAL-017",
    what="Every WAL entry is stored with epoch 1 in its metadata instead of the epoch of the writer's claim.",
    why=(
        "Replay tells entries of a newer owner by their epoch. When all say the same, a fenced writer that "
        "recovers does not notice that it reads its successor's entries."
    ),
    scenario="two_writers_two_keys",
    oracle="wal_epochs_never_decrease",
    violated="FENCE-015",
    replaced={"memwal.codec.wal:encode": _first},
)
