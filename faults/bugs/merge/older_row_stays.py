"""A merge inserts rows and leaves older ones of their key."""

from collections.abc import Sequence

from memwal.codec import deletion
from memwal.codec.pb.lance import table_pb2
from memwal.effects import Io
from memwal.keys import KeySet
from memwal.table.state import TableState
from memwal.table.upsert import KeysRead
from memwal_sim.bugs import Bug


async def _nothing(
    _io: Io, _state: TableState, _fragments: Sequence[table_pb2.DataFragment], _keys: KeySet, _base: KeysRead
) -> dict[int, deletion.Offsets]:
    """In place of looking for rows with the same keys."""
    return {}


BUG = Bug(
    name="older_row_stays",
    clause="MERGE-002",
    what=("A merge appends the rows of a generation without masking the rows of the same keys in the base table."),
    why=("The base table has a key once for every generation that wrote it. A merge is an upsert, not an append."),
    scenario="one_writer_duplicates",
    oracle="each key is there once",
    violated="READ-002",
    replaced={"memwal.table.upsert:_matched": _nothing},
)
