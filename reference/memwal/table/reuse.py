"""The fragment reuse index: where rows went that were compacted while the remapping of indexes was put off.

A compaction may leave the indexes as they are, so that these name fragments that are gone. The table then has an index
entry that says for each group of rewritten fragments which of their rows were kept; those are the rows of the new
fragments, in the same order. Whoever uses an index applies this to its fragments and to its row addresses.
Source: table documents, "Rebase Mechanism", and the tables that pylance 7.0 and 14.0 write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyroaring

from ..clauses import implements
from ..codec import protobuf
from ..codec.pb.lance import table_pb2
from ..errors import ArtifactError
from ..words import counted

Details = table_pb2.FragmentReuseIndexDetails
Addresses = npt.NDArray[np.uint64]
"""Row addresses, shape (rows,)."""
GONE = np.uint64(2**64 - 1)
"""Address of a row that was deleted before its fragment was rewritten; no fragment has it."""

_CLAUSE = "TXN-054"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFragments:
    """Fragments that were rewritten as others."""

    old: frozenset[int]
    new: frozenset[int]
    sources: Addresses
    """Addresses of the rows that were kept, ascending."""
    targets: Addresses
    """Where each of them is now."""


def is_reuse(entry: table_pb2.IndexMetadata) -> bool:
    """Whether an index entry is a fragment reuse index."""
    return entry.index_details.type_url.endswith("FragmentReuseIndexDetails")


def details(entry: table_pb2.IndexMetadata, path: str) -> Details:
    """What the entry says; raises `ArtifactError`."""
    return protobuf.parse(Details, entry.index_details.value, clause=_CLAUSE, path=path)


@implements("TXN-054")
def of(indices: Iterable[table_pb2.IndexMetadata], path: str) -> tuple[RewrittenFragments, ...]:
    """All rewrites that the indexes of a table version have yet to follow, in order; none without a reuse index.

    The content of a reuse index is inside of it (`older.completed`). One that lies in a base path tells nothing, and
    then fragments that were rewritten count as not covered. Raises `ArtifactError`.
    """
    found = []
    for entry in filter(is_reuse, indices):
        versions = details(entry, path).inline.versions
        for version in sorted(versions, key=lambda each: each.dataset_version):
            found += [_moved(group, path) for group in version.groups]
    return tuple(found)


def _moved(group: Details.Group, path: str) -> RewrittenFragments:
    try:
        kept = pyroaring.BitMap64.deserialize(group.changed_row_addrs)
    except (ValueError, IndexError) as error:
        reason = f"the rows of a rewritten fragment are no Roaring bitmap: {error}"
        raise ArtifactError(_CLAUSE, path, reason) from error
    rows = sum(each.physical_rows for each in group.new_fragments)
    if len(kept) != rows:  # before either is unpacked: a few bytes can stand for more rows than memory holds
        reason = f"rewritten fragments keep {counted(len(kept), 'row')}, and the new fragments have {rows}"
        raise ArtifactError(_CLAUSE, path, reason)
    parts = [
        (np.uint64(each.id) << np.uint64(32)) + np.arange(each.physical_rows, dtype=np.uint64)
        for each in group.new_fragments
    ]
    return RewrittenFragments(
        old=frozenset(each.id for each in group.old_fragments),
        new=frozenset(each.id for each in group.new_fragments),
        sources=np.asarray(kept.to_array(), np.uint64),
        targets=np.concatenate([np.empty(0, np.uint64), *parts]),
    )


@implements("TXN-054")
def fragments(named: frozenset[int], moves: Sequence[RewrittenFragments]) -> frozenset[int]:
    """Fragments that an index covers whose bitmap has ``named``: the new ones of groups that it covered whole."""
    for move in moves:
        if named & move.old:
            named = (named - move.old) | (move.new if move.old <= named else frozenset())
    return named


@implements("TXN-054")
def addresses(found: Addresses, moves: Sequence[RewrittenFragments]) -> Addresses:
    """Where the rows are now that an index has at ``found``; `GONE` for those that were deleted."""
    for move in moves:
        within = np.isin(found >> np.uint64(32), np.array(sorted(move.old), np.uint64))
        if not within.any():
            continue
        places = np.minimum(np.searchsorted(move.sources, found), max(0, len(move.sources) - 1))
        kept = within & (move.sources[places] == found) if len(move.sources) else np.zeros_like(within)
        moved = move.targets[places] if len(move.targets) else found
        found = np.where(kept, moved, np.where(within, GONE, found))
    return found
