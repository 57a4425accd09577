"""Index entries of a generation name rows by their place in the write, not in the WAL entry."""

import numpy as np
import numpy.typing as npt
from memwal.region.mapping import FragmentMapping
from memwal_sim.bugs import Bug


def _ordinals(mapping: FragmentMapping, offsets: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """In place of the addresses of MemTable rows: the entry, and the row's place in its own write."""
    first = {place.fragment: sum(p.rows for p in mapping.places[: place.fragment]) for place in mapping.places}
    found = [
        mapping.flushed_fragment(place.position) << 32 | (offset - first[place.fragment])
        for offset in offsets.tolist()
        for place in mapping.places
        if first[place.fragment] <= offset < first[place.fragment] + place.rows
    ]
    return np.array(found, np.uint64)


BUG = Bug(
    name="rows_numbered_from_their_write",
    clause="AMB-19",
    what="Where several writes share a WAL entry, index entries of the generation name rows by their place in a write.",
    why=(
        "The mapping of the texts knows the entry of a write and its ordinal there, which gives no row offset. With "
        "one write in each entry, which is what every durable put makes, there is no difference."
    ),
    scenario="two_indexed_writers",
    oracle="a search equals a scan",
    violated="READ-002",
    revision="A",
    replaced={"memwal.region.mapping:FragmentMapping.addresses": _ordinals},
)
