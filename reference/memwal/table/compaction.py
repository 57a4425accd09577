"""The same rows in fewer fragments, without deleted ones.

Source: table documents, "Rewrite" and "ReserveFragments".
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import Conflict, InvalidArgument
from ..ids import FragmentId, RegionId
from . import owners, read, schema
from .commit import commit
from .fragments import FILE_BYTES, FRAGMENT_ROWS, write_fragments
from .state import TableState, latest
from .transactions import Transaction
from .write import retried

_Fragments = list[table_pb2.DataFragment]

SMALL = 4
"""A fragment is small if so many like it fit into one of `FRAGMENT_ROWS` rows and `FILE_BYTES`."""
_SIZE_BITS = 3
"""Fragments are of one size if their numbers of rows have the same number of octal digits."""


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
    return await _compacted(io, lambda state: _chosen(state, fragments))


@implements("TXN-030", "TXN-031")
async def compact_small(io: Io, state: TableState, over: int) -> TableState:
    """Rewrite small fragments as one as long as more than ``over`` of about one size are there; returns the last state.

    By `compact`, with its rules. Rows that are rewritten end in a fragment of a larger size, so that each is rewritten
    a few times at most, however many merges follow. A rewrite reads no more than one large fragment. ``state``: the
    newest version known; if it has nothing to rewrite, nothing is asked of the store. Nothing waits for this, so that
    one that loses its fragments to other commits too often is left to the next call, with a note.
    """
    while small(state, over):
        try:
            state = await _compacted(io, lambda newest: small(newest, over))
        except Conflict as lost:
            await io.note("compaction_lost", theirs=lost.theirs)
            return await latest(io)
    return state


def small(state: TableState, over: int) -> list[table_pb2.DataFragment]:
    """Small fragments of one size that are more than ``over``, as many as fit into one fragment; else none."""
    sizes: dict[tuple[RegionId | None, int], _Fragments] = {}
    for fragment in state.fragments:
        rows = _live_rows([fragment])
        if rows * SMALL <= FRAGMENT_ROWS and _bytes(fragment) * SMALL <= FILE_BYTES:
            size = -(-rows.bit_length() // _SIZE_BITS)
            sizes.setdefault((owners.named_owner(fragment), size), []).append(fragment)
    for alike in sizes.values():
        if len(alike) > over:
            return _fitting(alike)
    return []


def _fitting(fragments: _Fragments) -> _Fragments:
    """The first of ``fragments`` that fit into one; `SMALL` of them at least, since all are small."""
    rows, size_bytes, found = 0, 0, _Fragments()
    for fragment in fragments:
        rows, size_bytes = rows + _live_rows([fragment]), size_bytes + _bytes(fragment)
        if rows > FRAGMENT_ROWS or size_bytes > FILE_BYTES:
            break
        found.append(fragment)
    return found


def _bytes(fragment: table_pb2.DataFragment) -> int:
    return sum(file.file_size_bytes for file in fragment.files)


async def _compacted(io: Io, choose: Callable[[TableState], _Fragments]) -> TableState:
    """Rewrite what ``choose`` says of the newest version, and again of the one that follows a conflict."""

    async def attempt(before: TableState) -> TableState:
        chosen = _groups(choose(before))
        if not chosen:
            return before
        needed = sum(-(-_live_rows(group) // FRAGMENT_ROWS) for _, group in chosen)
        state, ids = await reserve(io, needed) if needed else (await latest(io), range(0))
        chosen = _groups(choose(state))
        if not chosen:
            return state  # others rewrote or replaced them meanwhile
        groups = []
        for owner, group in chosen:
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
