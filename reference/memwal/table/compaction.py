"""The same rows in fewer fragments, without deleted ones.

Source: table documents, "Rewrite" and "ReserveFragments".
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import InvalidArgument
from ..ids import FragmentId, RegionId
from . import owners, read, schema
from .commit import commit
from .fragments import FRAGMENT_ROWS, write_fragments
from .state import TableState, latest
from .transactions import Transaction
from .write import retried

_Fragments = list[table_pb2.DataFragment]


@implements("TXN-036")
async def reserve(io: Io, count: int) -> tuple[TableState, range]:
    """Take ``count`` fragment ids out of use, for a rewrite; returns the version that did so, and the ids."""
    if count < 1:
        raise InvalidArgument(f"at least one fragment id is reserved, not {count}", clause="TXN-036")
    body = Transaction(reserve_fragments=Transaction.ReserveFragments(num_fragments=count))
    state = await retried(io, lambda current: commit(io, current, body))
    last = state.manifest.message.max_fragment_id
    return state, range(last - count + 1, last + 1)


@implements("TXN-030", "TXN-031", "TXN-032", "TXN-054", "FORMAT-041")
async def compact(io: Io, fragments: Collection[FragmentId] | None = None) -> TableState:
    """Rewrite the live rows of ``fragments`` (all if None) into as few as possible; deletions are materialised.

    Rows of several manual regions stay in fragments of their own, since their names say whose they are (AMB-56).
    Indexes lose the fragments that are gone, and have to be brought up to date. Nothing is committed where there is
    nothing to gain. A fragment reuse index stays as it is: the new fragments are not in it. Raises `InvalidArgument`
    for a fragment that is not there.
    """

    async def attempt(before: TableState) -> TableState:
        if not _groups(_chosen(before, fragments)):
            return before
        needed = sum(-(-_live_rows(group) // FRAGMENT_ROWS) for _, group in _groups(_chosen(before, fragments)))
        state, ids = await reserve(io, needed) if needed else (await latest(io), range(0))
        groups = []
        for owner, group in _groups(_chosen(state, fragments)):
            new = await _rewritten(io, state, group, owner)
            groups.append(Transaction.Rewrite.RewriteGroup(old_fragments=group, new_fragments=new))
        fresh = [fragment for group in groups for fragment in group.new_fragments]
        if len(fresh) > len(ids):
            state, ids = await reserve(io, len(fresh))
        for fragment, number in zip(fresh, ids, strict=False):
            fragment.id = number
        return await commit(io, state, Transaction(rewrite=Transaction.Rewrite(groups=groups)))

    return await retried(io, attempt)


def _chosen(state: TableState, fragments: Collection[FragmentId] | None) -> list[table_pb2.DataFragment]:
    missing = set(fragments or ()) - {f.id for f in state.fragments}
    if missing:
        raise InvalidArgument(f"there are no fragments {sorted(missing)}", clause="TXN-030")
    return [f for f in state.fragments if fragments is None or f.id in fragments]


def _groups(chosen: _Fragments) -> list[tuple[RegionId | None, _Fragments]]:
    """``chosen`` by the region that their names tell, in the order in which these come first."""
    found: dict[RegionId | None, _Fragments] = {}
    for fragment in chosen:
        found.setdefault(owners.named_owner(fragment), []).append(fragment)
    return [(owner, group) for owner, group in found.items() if _worth_it(group)]


def _live_rows(group: _Fragments) -> int:
    return sum(f.physical_rows - f.deletion_file.num_deleted_rows for f in group)


async def _rewritten(io: Io, state: TableState, group: _Fragments, owner: RegionId | None) -> _Fragments:
    names = state.schema.names
    parts = [await read.read_fragment(io, state, f, names, with_row_address=False) for f in group]
    table = pa.concat_tables([state.schema.empty_table(), *parts])
    leaves = schema.leaf_ids(state.fields)
    return await write_fragments(io, table, leaves, state.file_version, owners.prefix(owner))


def _worth_it(chosen: _Fragments) -> bool:
    return len(chosen) > 1 or any(f.HasField("deletion_file") for f in chosen)
