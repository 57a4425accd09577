"""The key filter of a generation has the last key only."""

import pyarrow as pa
from memwal.codec import bloom
from memwal.revisions import Revision
from memwal_sim.bugs import Bug

_ENCODE = bloom.encode


def _last(keys: pa.Table, revision: Revision) -> bytes:
    """In place of a filter over all keys."""
    return _ENCODE(keys.slice(keys.num_rows - 1), revision)


BUG = Bug(
    name="filter_of_the_last_row",
    clause="GEN-010",
    what="The key filter that is stored with a generation lacks keys of the generation.",
    why=(
        "A filter may answer yes for a key that is not there, never no for one that is. A search that trusts it takes "
        "a key for absent from the newer generation, and returns its older row."
    ),
    scenario="updated_key",
    oracle="a search equals a scan",
    violated="READ-002",
    replaced={"memwal.codec.bloom:encode": _last},
)
