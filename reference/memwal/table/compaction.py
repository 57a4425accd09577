"""The same rows in fewer fragments, without deleted ones.

Source: table documents, "Rewrite" and "ReserveFragments".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import Conflict, InvalidArgument
from ..ids import FragmentId, RegionId
from . import coverage, owners, read, reuse, schema
from .commit import commit
from .fragments import FILE_BYTES, FRAGMENT_ROWS, write_fragments
from .state import TableState, latest
from .transactions import Transaction
from .write import retried

_Fragments = list[table_pb2.DataFragment]
_Kind = tuple[RegionId | None, frozenset[bytes]]
"""What fragments have in common that may become one: the region that names them, and what covers them: UUIDs of entries
of indexes."""

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
async def compact(
    io: Io, fragments: Collection[FragmentId] | None = None, *, defer_index_remap: bool = False
) -> TableState:
    """Rewrite the live rows of ``fragments`` (all if None) into as few as possible; deletions are materialised.

    Rows of several manual regions stay in fragments of their own, since their names say whose they are (AMB-56).
    Indexes lose the fragments that are gone, and have to be brought up to date. With ``defer_index_remap`` they cover
    what becomes of the fragments that they covered, by the fragment reuse index (`reuse`), where that is not too large;
    rows that different parts of indexes cover stay in fragments of their own then. Nothing is committed where there is
    nothing to gain. Raises `InvalidArgument` for a fragment that is not there.
    """
    return await _compacted(io, lambda state: _chosen(state, fragments), defer=defer_index_remap)


@implements("TXN-030", "TXN-031")
async def compact_small(io: Io, state: TableState, over: int, *, defer_index_remap: bool = False) -> TableState:
    """Rewrite small fragments as one as long as more than ``over`` of about one size are there; returns the last state.

    By `compact`, with its rules. Rows that are rewritten end in a fragment of a larger size, so that each is rewritten
    a few times at most, however many merges follow. A rewrite reads no more than one large fragment. ``state``: the
    newest version known; if it has nothing to rewrite, nothing is asked of the store. Nothing waits for this, so that
    one that loses its fragments to other commits too often is left to the next call, with a note.
    """
    defer = defer_index_remap
    while small(state, over, defer=defer):
        try:
            state = await _compacted(io, lambda newest: small(newest, over, defer=defer), defer=defer)
        except Conflict as lost:
            await io.note("compaction_lost", theirs=lost.theirs)
            return await latest(io)
    return state


def small(state: TableState, over: int, *, defer: bool = False) -> list[table_pb2.DataFragment]:
    """Small fragments of one size that are more than ``over``, as many as fit into one fragment; else none."""
    sizes: dict[tuple[_Kind, int], _Fragments] = {}
    kind = _kinds(state, defer=defer)
    for fragment in state.fragments:
        rows = _live_rows([fragment])
        if rows * SMALL <= FRAGMENT_ROWS and _bytes(fragment) * SMALL <= FILE_BYTES:
            size = -(-rows.bit_length() // _SIZE_BITS)
            sizes.setdefault((kind(fragment), size), []).append(fragment)
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


async def _compacted(io: Io, choose: Callable[[TableState], _Fragments], *, defer: bool) -> TableState:
    """Rewrite what ``choose`` says of the newest version, and again of the one that follows a conflict."""

    async def attempt(before: TableState) -> TableState:
        chosen = _groups(before, choose(before), defer=defer)
        if not chosen:
            return before
        needed = sum(-(-_live_rows(group) // FRAGMENT_ROWS) for _, group in chosen)
        state, ids = await reserve(io, needed) if needed else (await latest(io), range(0))
        chosen = _groups(state, choose(state), defer=defer)
        if not chosen:
            return state  # others rewrote or replaced them meanwhile
        done = [await _rewritten(io, state, kind, group) for kind, group in chosen]
        fresh = [fragment for each in done for fragment in each.new]
        if len(fresh) > len(ids):
            state, ids = await reserve(io, len(fresh))
        for fragment, number in zip(fresh, ids, strict=False):
            fragment.id = number
        rewrite = Transaction.Rewrite()
        for each in done:
            rewrite.groups.add(old_fragments=each.old, new_fragments=each.new)
        followed = tuple(reuse.group(each.old, each.new, each.kept) for each in done if each.kept is not None)
        moved = None
        if followed:
            moved = reuse.Moved(uuid.UUID(hex=await io.random_hex(32), version=4).bytes, followed)
        return await commit(io, state, Transaction(rewrite=rewrite), moved=moved)

    return await retried(io, attempt)


def _chosen(state: TableState, fragments: Collection[FragmentId] | None) -> list[table_pb2.DataFragment]:
    missing = set(fragments or ()) - {f.id for f in state.fragments}
    if missing:
        raise InvalidArgument(f"there are no fragments {sorted(missing)}", clause="TXN-030")
    return [f for f in state.fragments if fragments is None or f.id in fragments]


def _kinds(state: TableState, *, defer: bool) -> Callable[[table_pb2.DataFragment], _Kind]:
    """Of which kind a fragment of ``state`` is; what covers it counts where indexes are to follow later."""
    known = state.manifest.indices if defer else ()
    entries = [each for each in known if not coverage.is_system(each) and each.fragment_bitmap]
    covering = [(each.uuid.uuid, coverage.named_fragments(state, each)) for each in entries]

    def kind(fragment: table_pb2.DataFragment) -> _Kind:
        covered = frozenset(identity for identity, named in covering if fragment.id in named)
        return owners.named_owner(fragment), covered

    return kind


def _groups(state: TableState, chosen: _Fragments, *, defer: bool) -> list[tuple[_Kind, _Fragments]]:
    """``chosen`` by kind, in the order in which these come first; those of one kind in the order of their ids."""
    found: dict[_Kind, _Fragments] = {}
    kind = _kinds(state, defer=defer)
    for fragment in sorted(chosen, key=lambda each: each.id):
        found.setdefault(kind(fragment), []).append(fragment)
    return [(each, group) for each, group in found.items() if _worth_it(group)]


def _live_rows(group: _Fragments) -> int:
    return sum(f.physical_rows - f.deletion_file.num_deleted_rows for f in group)


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """Fragments, and what holds their live rows now."""

    old: _Fragments
    new: _Fragments
    kept: reuse.Addresses | None
    """Where these rows were, in their order; None where no index is to follow them."""


async def _rewritten(io: Io, state: TableState, kind: _Kind, group: _Fragments) -> _Rewritten:
    names, (owner, entries) = state.schema.names, kind
    parts = [await read.read_fragment(io, state, f, names, with_row_address=bool(entries)) for f in group]
    table = pa.concat_tables(parts)
    rows = pa.concat_tables([state.schema.empty_table(), table.select(list(range(len(names))))])
    new = await write_fragments(io, rows, schema.leaf_ids(state.fields), state.file_version, owners.prefix(owner))
    return _Rewritten(group, new, table.column(len(names)).to_numpy() if entries else None)


def _worth_it(chosen: _Fragments) -> bool:
    return len(chosen) > 1 or any(f.HasField("deletion_file") for f in chosen)
