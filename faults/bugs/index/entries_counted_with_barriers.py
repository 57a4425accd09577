"""Index entries of a generation count WAL entries that have no rows."""

from memwal.ids import WalPosition
from memwal.region.mapping import FragmentMapping
from memwal_sim.bugs import Bug


def _from_first(mapping: FragmentMapping) -> tuple[WalPosition, ...]:
    """In place of the positions of entries with rows: all from the first to the last."""
    positions = [place.position for place in mapping.places]
    return tuple(WalPosition(position) for position in range(min(positions) - 1, max(positions) + 1))


BUG = Bug(
    name="entries_counted_with_barriers",
    clause="AMB-20",
    what="Index entries of a generation count WAL entries from the replay pointer on, those without rows included.",
    why=(
        "The texts say that entry numbers are relative to the replay pointer. The generation has a fragment for each "
        "entry with rows only, and a claim leaves an entry without rows in between."
    ),
    scenario="two_indexed_writers",
    oracle="a search equals a scan",
    violated="READ-001",
    revision="A",
    replaced={"memwal.region.mapping:FragmentMapping.positions": property(_from_first)},
)
