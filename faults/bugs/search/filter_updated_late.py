"""The key filter of a MemTable lags behind its rows."""

import pyarrow as pa
from memwal.maintained.key_filter import KeyFilter
from memwal_sim.bugs import Bug


def _later(known: KeyFilter, keys: pa.Table) -> None:
    """In place of adding keys to the filter with the write."""
    known.inserted.append(keys)


BUG = Bug(
    name="filter_updated_late",
    clause="AMB-116",
    what="The key filter of a MemTable is brought up to date some time after a write, as its other indexes may be.",
    why=(
        "For other indexes a lag makes searches incomplete. For the key filter it makes them wrong: it says that the "
        "MemTable does not have a key, and the older row of the key is returned."
    ),
    scenario="updated_key",
    oracle="a search equals a scan",
    violated="READ-002",
    replaced={"memwal.maintained.key_filter:KeyFilter.insert": _later},
)
