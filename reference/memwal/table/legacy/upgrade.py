"""Bringing a table whose data files are not written here into files that are.

Source: table documents, "Overwrite" and "Fragments".
"""

from __future__ import annotations

from ...clauses import implements
from ...codec.data_file import FILE_VERSION
from ...codec.pb.lance import file_pb2, transaction_pb2
from ...effects import Io
from ...errors import Conflict
from .. import read, schema
from ..commit import commit
from ..fragments import FragmentWriter
from ..state import TableState, check_flags, files_written, latest
from ..write import CONFLICT_ATTEMPTS


@implements("FORMAT-021", "TXN-028")
async def upgrade(io: Io) -> TableState:
    """Write all rows anew, in files of `FILE_VERSION`, as one Overwrite, if the table's files are not written here.

    Fields keep their ids, and earlier versions their files. Rows get other addresses, so that indexes over columns are
    dropped; the MemWAL index stays. Raises `InvalidArgument` for feature flags that are not known.
    """
    for left in reversed(range(CONFLICT_ATTEMPTS)):
        state = await latest(io)
        check_flags(state)
        if files_written(state):
            return state
        try:
            return await _rewritten(io, state)
        except Conflict as conflict:
            if not conflict.retryable or not left:
                raise
            await io.note("executed_again", theirs=conflict.theirs)
    raise AssertionError("unreachable")


async def _rewritten(io: Io, state: TableState) -> TableState:
    names = state.schema.names
    with FragmentWriter(io, state.schema, schema.leaf_ids(state.fields), FILE_VERSION) as writer:
        for fragment in state.fragments:
            await writer.write(await read.read_fragment(io, state, fragment, names, with_row_address=False))
        await writer.finish()
    body = transaction_pb2.Transaction.Overwrite(
        fragments=writer.fragments,
        schema=[_plain(field) for field in state.fields],
        schema_metadata=dict(state.manifest.message.schema_metadata),
    )
    return await commit(io, state, transaction_pb2.Transaction(overwrite=body), rebase=False)


def _plain(field: file_pb2.Field) -> file_pb2.Field:
    """Without what tells how files of before are encoded."""
    plain = file_pb2.Field()
    plain.CopyFrom(field)
    plain.ClearField("encoding")
    plain.ClearField("dictionary")
    return plain
