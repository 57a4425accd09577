"""The fragment reuse index: where rows went that were compacted while the remapping of indexes was put off.

A compaction may leave the indexes as they are, so that these name fragments that are gone. The table then has an index
entry that says for each group of rewritten fragments which of their rows were kept; those are the rows of the new
fragments, in the same order. An index is used with this applied to its fragments and to its row addresses. No message
of a Rewrite transaction carries it: it is in the version that the rewrite made, and in those after it until every
index was built on a later version.
Source: table documents, "Rebase Mechanism", and the tables that pylance 7.0 and 14.0 write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyroaring

from ..clauses import implements
from ..codec import fragment_bitmap, protobuf
from ..codec.pb.lance import table_pb2
from ..errors import ArtifactError
from ..words import counted

Details = table_pb2.FragmentReuseIndexDetails
Addresses = npt.NDArray[np.uint64]
"""Row addresses, shape (rows,)."""
GONE = np.uint64(2**64 - 1)
"""Address of a row that was deleted before its fragment was rewritten; no fragment has it."""

NAME = "__lance_frag_reuse"
"""Name of the entry, as pylance has it."""
MOST_BYTES = 200 << 10
"""Most bytes of the entry that a rewrite makes: each version of the table carries it."""
_TYPE = "/lance.table.FragmentReuseIndexDetails"
_CLAUSE = "TXN-054"


FEW = 1000
"""Addresses that are looked up one by one, which needs none of the others unpacked."""


def within(addresses: Addresses, fragments: Collection[int]) -> npt.NDArray[np.bool_]:
    """Which of ``addresses`` are in one of ``fragments``."""
    homes = addresses >> np.uint64(32)
    if len(fragments) == 1:
        (only,) = fragments
        found: npt.NDArray[np.bool_] = homes == np.uint64(only)
        return found
    return np.isin(homes, np.array(sorted(fragments), np.uint64))


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFragments:
    """Fragments that were rewritten as others."""

    old: frozenset[int]
    new: frozenset[int]
    kept: pyroaring.BitMap64
    """Addresses of the rows that were kept."""
    targets: tuple[tuple[int, int], ...]
    """Id and rows of each new fragment, which hold these rows in the same order."""

    def places(self, found: Addresses) -> npt.NDArray[np.int64]:
        """The place of each of ``found`` among the rows that were kept; -1 for what is none of them."""
        if len(found) <= FEW:
            return np.array(
                [self.kept.rank(each) - 1 if each in self.kept else -1 for each in found.tolist()], np.int64
            )
        sources = np.asarray(self.kept.to_array(), np.uint64)
        places = np.searchsorted(sources, found)
        hit = places < len(sources)
        hit[hit] = sources[places[hit]] == found[hit]
        return np.where(hit, places, -1)

    def addresses(self, places: npt.NDArray[np.int64]) -> Addresses:
        """Where the rows at ``places`` are now; any address for a place of -1."""
        ends = np.cumsum([rows for _, rows in self.targets])
        which = np.searchsorted(ends, places, side="right")
        ids = np.array([number for number, _ in self.targets], np.uint64)[which]
        starts = np.concatenate([[0], ends[:-1]])[which]
        found: Addresses = (ids << np.uint64(32)) + (places - starts).astype(np.uint64)
        return found


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
        reason = f"the rows of a rewritten fragment are not a Roaring bitmap: {error}"
        raise ArtifactError(_CLAUSE, path, reason) from error
    rows = sum(each.physical_rows for each in group.new_fragments)
    if len(kept) != rows:  # before either is unpacked: a few bytes can stand for more rows than memory holds
        reason = f"rewritten fragments keep {counted(len(kept), 'row')}, and the new fragments have {rows}"
        raise ArtifactError(_CLAUSE, path, reason)
    return RewrittenFragments(
        old=frozenset(each.id for each in group.old_fragments),
        new=frozenset(each.id for each in group.new_fragments),
        kept=kept,
        targets=tuple((each.id, each.physical_rows) for each in group.new_fragments),
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
        places = np.full(len(found), -1)
        places[within] = move.places(found[within])
        kept = places >= 0
        moved = move.addresses(places) if move.targets else found
        found = np.where(kept, moved, np.where(within, GONE, found))
    return found


@implements("TXN-054")
def group(
    old: Sequence[table_pb2.DataFragment], new: Sequence[table_pb2.DataFragment], kept: Addresses
) -> Details.Group:
    """One rewrite for the index: ``kept``, ascending, are the rows of ``old`` that ``new`` has, in the same order."""
    found = Details.Group(changed_row_addrs=pyroaring.BitMap64(kept).serialize())
    for digests, fragments_ in ((found.old_fragments, old), (found.new_fragments, new)):
        for each in fragments_:
            deleted = each.deletion_file.num_deleted_rows
            digests.add(id=each.id, physical_rows=each.physical_rows, num_deleted_rows=deleted)
    return found


@dataclass(frozen=True, slots=True)
class Moved:
    """What a rewrite tells indexes that are to follow it later."""

    identity: bytes
    """UUID of the entry of the version that the rewrite makes."""
    groups: tuple[Details.Group, ...]


@implements("TXN-054")
def entry(
    indices: Iterable[table_pb2.IndexMetadata], moved: Moved, version: int, path: str
) -> table_pb2.IndexMetadata | None:
    """The entry that says what the one among ``indices`` says and then ``moved``.

    None if it would be too large, or if that one is of a form that is not known. ``version``: the table version whose
    fragments are rewritten.
    """
    content = Details()
    for known in filter(is_reuse, indices):
        if not _understood(known):
            return None
        content.inline.versions.extend(details(known, path).inline.versions)
    content.inline.versions.add(dataset_version=version, groups=moved.groups)
    if content.ByteSize() > MOST_BYTES:
        return None
    found = table_pb2.IndexMetadata(name=NAME, dataset_version=version)
    found.uuid.uuid = moved.identity
    found.index_details.type_url, found.index_details.value = _TYPE, protobuf.serialise(content)
    found.fragment_bitmap = fragment_bitmap.encode(each.id for one in moved.groups for each in one.new_fragments)
    return found


@implements("TXN-054")
def needed(indices: Sequence[table_pb2.IndexMetadata], path: str) -> list[table_pb2.IndexMetadata]:
    """``indices`` without what a reuse index says of rewrites that no index has yet to follow.

    An index has none to follow if it covers no fragment of any rewrite, and not that one if it was built on a later
    version and does not name the fragments that are gone.
    """
    found = []
    for each in indices:
        if is_reuse(each) and _understood(each):
            versions = details(each, path).inline.versions
            left = [one for one in versions if not all(_follows(index, one, versions, path) for index in indices)]
            if not left:
                continue  # every index knows where the rows are
            if len(left) < len(versions):
                changed = table_pb2.IndexMetadata()
                changed.CopyFrom(each)
                changed.index_details.value = protobuf.serialise(Details(inline=Details.InlineContent(versions=left)))
                each = changed
        found.append(each)
    return found


def _follows(
    index: table_pb2.IndexMetadata, rewrite: Details.Version, chain: Sequence[Details.Version], path: str
) -> bool:
    """Whether ``index`` is right without what is said of ``rewrite``, which is one of ``chain``."""
    if not index.fields:
        return True  # bookkeeping of the table
    named = fragment_bitmap.decode(index.fragment_bitmap, path)
    if named.isdisjoint(number for one in chain for number in _ids(one)):
        return True
    return index.dataset_version > rewrite.dataset_version and named.isdisjoint(_ids(rewrite, new=False))


def _ids(rewrite: Details.Version, *, new: bool = True) -> set[int]:
    """Fragments that a rewrite took away, and with ``new`` those that it made."""
    taken = {each.id for group_ in rewrite.groups for each in group_.old_fragments}
    return taken | {each.id for group_ in rewrite.groups for each in group_.new_fragments if new}


def _understood(entry_: table_pb2.IndexMetadata) -> bool:
    """Whether a reuse index is of the form that is written here, and lies in the table itself."""
    return not entry_.index_version and not entry_.HasField("base_id")
