"""Upsert of a stream of rows by primary key, in one transaction: what a merge does to the base table.

Memory is bounded by the keys of the source, the rows that they match, `KEYS_BYTES`, and the bounds of `read.batches`
and `fragments.FILE_BYTES`; neither the size of the base nor that of the source's other columns counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import cellwise, paths
from ..clauses import implements
from ..codec import deletion, protobuf
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..effects import Io
from ..errors import EngineBug, NotFound, OutcomeUnknown, StorageError, Throttled, Unmergeable
from ..ids import FragmentId, Generation, RegionId, region_id_to_bytes
from ..keys import KeySet
from ..words import counted
from . import owners, read, schema
from .commit import commit
from .fragments import FragmentWriter, write_deletions
from .state import TableState, load, versions

Transaction = transaction_pb2.Transaction


class Source(Protocol):
    """Rows to be merged, at most one for a key, and keys to be deleted."""

    @property
    def path(self) -> str:
        """Where the rows come from, for errors."""

    @property
    def keys(self) -> pa.Table:
        """Keys of the rows and of the deletes: the key columns of the table; no column if the table has no key."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def absent(self) -> tuple[str, ...]:
        """Columns of the table that the source does not have: its rows have NULL there."""

    def batches(self) -> AsyncIterator[pa.Table]:
        """The rows, in the table's schema, in write order; each call begins anew."""


Holding = Mapping[FragmentId, npt.NDArray[np.uint64] | None]
"""Fragments that may hold some rows -> addresses where these may be, ascending; None: anywhere in the fragment."""
NOWHERE: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
_OFFSET = np.uint64(0xFFFFFFFF)
"""The part of a row address that is the place in its fragment."""

KEYS_BYTES = 256 << 20
"""Most bytes of keys of the base table that a pass of merges keeps."""


@dataclass(slots=True)
class KeysRead:
    """The keys of fragments of the base table that a pass of merges has read: it opens no fragment for them twice.

    What would be more than `KEYS_BYTES` together is read again where it is needed again.
    """

    size_bytes: int = 0
    held: dict[tuple[tuple[str, ...], bytes], tuple[pa.Table, ...]] = field(default_factory=dict)
    """Key columns and data files of the fragment -> the keys of its physical rows, in batches."""

    async def batches(
        self, io: Io, state: TableState, fragment: table_pb2.DataFragment, names: Sequence[str]
    ) -> AsyncIterator[pa.Table]:
        """The key columns ``names`` of the physical rows of ``fragment``."""
        files = tuple(names), b"".join(map(protobuf.serialise, fragment.files))
        if (known := self.held.get(files)) is not None:
            for batch in known:
                yield batch
            return
        read_now: list[pa.Table] | None = []
        async for batch in read.batches(io, state, fragment, names):
            if read_now is not None:
                read_now.append(batch)
                if self.size_bytes + sum(each.nbytes for each in read_now) > KEYS_BYTES:
                    read_now = None
            yield batch
        if read_now is not None:
            self.size_bytes += sum(each.nbytes for each in read_now)
            self.held[files] = tuple(read_now)


@dataclass(slots=True)
class Work:
    """What of an upsert is stored already, so that a later attempt on a newer version does only what changed.

    Data files depend on the source alone, and the rows of a fragment that a source's keys match on that fragment alone.
    """

    source: Source
    schema: tuple[object, ...]
    """Fields, metadata and file version of the table for which the source was opened."""
    keys: KeySet | None
    """None for a source without keys."""
    parts: Sequence[tuple[RegionId | None, Source]]
    """The source's rows by data files: each part has its own, named after its region if it has one."""
    owner: RegionId | None = None
    """The manual region that the rows are of, where the table has several: they may replace no other one's (AMB-56)."""
    new: list[table_pb2.DataFragment] | None = None
    """Fragments with the rows of the source; None until they are written."""
    masked: dict[bytes, table_pb2.DataFragment | None] = field(default_factory=dict)
    """Fragment as it was -> fragment without the matched rows; None if none are left."""
    base: KeysRead = field(default_factory=KeysRead)
    """Shared by the upserts of one pass."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What an upsert does to the fragments of one version."""

    updated: tuple[table_pb2.DataFragment, ...]
    removed: tuple[int, ...]


def begin(
    source: Source,
    state: TableState,
    base: KeysRead | None = None,
    parts: Sequence[tuple[RegionId | None, Source]] = (),
) -> Work:
    """An upsert of which nothing is done yet; it may be tried on every version with the schema of ``state``.

    ``base``: what earlier upserts of the same pass have read. ``parts``: those of `Work`; none: the source is one.
    """
    keys = source.keys
    known = KeySet(keys) if keys.num_columns and keys.num_rows else None
    return Work(source, schema_of(state), known, parts or ((None, source),), base=base or KeysRead())


def fits(work: Work, state: TableState) -> bool:
    """Whether the table still has the schema that the upsert was begun with."""
    return work.schema == schema_of(state)


def schema_of(state: TableState) -> tuple[object, ...]:
    """What a source was opened for: fields, metadata and file version of the table."""
    metadata = sorted(state.manifest.message.schema_metadata.items())
    return (*map(protobuf.serialise, state.fields), *metadata, state.file_version)


@implements("MERGE-002", "MERGE-006", "TXN-040", "AMB-85")
async def upsert(
    io: Io,
    state: TableState,
    work: Work,
    *,
    progress: Sequence[tuple[RegionId, Generation]] = (),
    holding: Holding | None = None,
) -> TableState:
    """Commit the rows of a source together with merge progress, in one transaction built on ``state``.

    Rows of ``state`` with the same keys are masked by deletion files, and the source's rows are new fragments.
    ``holding``: where such rows may be; None: anywhere, so that the keys of all fragments are read. Raises
    `Conflict` and `AlreadyMerged` as `commit` does; then ``work`` may be tried again on a newer version, or given up
    with `discard`. Raises `Unmergeable` if values would be lost.
    """
    change = await _masked(io, state, work, holding)
    if work.new is None:
        work.new = await _written(io, state, work)
    body = Transaction.Update(
        updated_fragments=change.updated,
        removed_fragment_ids=change.removed,
        new_fragments=work.new,
        merged_generations=[merged_message(region, generation) for region, generation in progress],
        fields_modified=[],
        update_mode=Transaction.UpdateMode.REWRITE_ROWS,
    )
    return await commit(io, state, Transaction(update=body))


def merged_message(region: RegionId, generation: Generation) -> Any:
    """One generation as transactions name those that they merge."""
    message = Transaction.Update().merged_generations.add()
    message.region_id.uuid = region_id_to_bytes(region)
    message.generation = generation
    return message


async def _written(io: Io, state: TableState, work: Work) -> list[table_pb2.DataFragment]:
    done, source, leaves, fragments = 0, work.source, schema.leaf_ids(state.fields), list[table_pb2.DataFragment]()
    for owner, part in work.parts:
        with FragmentWriter(io, state.schema, leaves, state.file_version, owners.prefix(owner or work.owner)) as writer:
            async for batch in part.batches():
                await writer.write(batch)
                done += batch.num_rows
                await io.note("merge_progress", stage="rows", done=done, total=source.rows)
            await writer.finish()
        fragments += writer.fragments
    if done != source.rows:
        raise EngineBug(f"{source.path} has {source.rows} rows to be merged, and {done} were written")
    return fragments


async def _masked(io: Io, state: TableState, work: Work, holding: Holding | None) -> _Change:
    """Mask the rows of ``state`` that have a key of the source, fragment by fragment."""
    if work.keys is None:
        return _Change((), ())
    known = {fragment.id: protobuf.serialise(fragment) for fragment in state.fragments}
    missing = [fragment for fragment in state.fragments if known[fragment.id] not in work.masked]
    unknown = [each for each in missing if holding is None or holding.get(FragmentId(each.id), NOWHERE) is None]
    matched = await _matched(io, state, unknown, work.keys, work.base)
    matched |= await _matched_at(io, state, missing, work.keys, holding or {})
    await _check_own(io, state, [fragment for fragment in missing if fragment.id in matched], matched, work)
    for fragment in missing:
        work.masked[known[fragment.id]] = await _without(io, state, fragment, matched.get(fragment.id), work.source)
    updated, removed = [], []
    for fragment in state.fragments:
        after = work.masked[known[fragment.id]]
        if after is None:
            removed.append(fragment.id)
        elif after.deletion_file != fragment.deletion_file:
            updated.append(after)
    return _Change(tuple(updated), tuple(removed))


async def _matched(
    io: Io, state: TableState, fragments: Sequence[table_pb2.DataFragment], keys: KeySet, base: KeysRead
) -> dict[int, deletion.Offsets]:
    """Offsets of the rows of each fragment whose key is among ``keys``, deleted rows included; ascending.

    Only the key columns are read, and those of no fragment that the pass has read before.
    """
    found: dict[int, list[deletion.Offsets]] = {}
    waiting: list[tuple[int, int, pa.Table]] = []
    done, total = 0, sum(fragment.physical_rows for fragment in fragments)

    def look_up() -> None:
        mask = keys.mask(pa.concat_tables([table for _, _, table in waiting]))
        start = 0
        for number, first, table in waiting:
            offsets = np.flatnonzero(mask[start : start + table.num_rows])
            start += table.num_rows
            if len(offsets):
                found.setdefault(number, []).append((offsets + first).astype(np.uint32))
        waiting.clear()

    for fragment in fragments:
        first = 0
        async for batch in base.batches(io, state, fragment, keys.names):
            waiting.append((fragment.id, first, batch))
            first += batch.num_rows
            if sum(table.num_rows for _, _, table in waiting) >= keys.batch_rows:
                look_up()
        done += fragment.physical_rows
        await io.note("merge_progress", stage="base", done=done, total=total)
    if waiting:
        look_up()
    return {number: np.concatenate(parts) for number, parts in found.items()}


async def _matched_at(
    io: Io, state: TableState, fragments: Sequence[table_pb2.DataFragment], keys: KeySet, holding: Holding
) -> dict[int, deletion.Offsets]:
    """As `_matched`, of live rows, for the fragments of which it is told where such rows may be."""
    found: dict[int, deletion.Offsets] = {}
    for fragment in fragments:
        told = holding.get(FragmentId(fragment.id))
        if told is None:
            continue  # nothing is there, or it is not known where
        taken = await read.take(io, state, fragment, keys.names, told & _OFFSET)
        offsets = taken.column(read.ROW_ADDRESS).to_numpy()[keys.mask(taken)] & _OFFSET
        if len(offsets):
            found[fragment.id] = offsets.astype(np.uint32)
    return found


async def _without(
    io: Io,
    state: TableState,
    fragment: table_pb2.DataFragment,
    matched: deletion.Offsets | None,
    source: Source,
) -> table_pb2.DataFragment | None:
    """``fragment`` with the rows at ``matched`` deleted; None if no row is left."""
    if matched is None:
        return fragment
    before = await read.deleted_offsets(io, fragment, state)
    after = np.union1d(before, matched) if len(before) else matched
    if len(after) == len(before):
        return fragment
    if source.absent:
        await _check_not_erased(io, state, fragment, np.setdiff1d(matched, before, assume_unique=True), source)
    if len(after) == fragment.physical_rows:
        return None
    return await write_deletions(io, fragment, after, state.version)


@implements("REGION-003", "AMB-56")
async def _check_own(
    io: Io,
    state: TableState,
    fragments: Sequence[table_pb2.DataFragment],
    matched: Mapping[int, deletion.Offsets],
    work: Work,
) -> None:
    """Raise `Unmergeable` if a row to be replaced was merged by another manual region."""
    if work.owner is None or work.keys is None or not fragments:
        return
    known = await owners.owners(io, state, fragments)
    for fragment in fragments:
        owner = known.get(FragmentId(fragment.id), work.owner)
        if owner == work.owner:
            continue
        replaced = np.setdiff1d(matched[fragment.id], await read.deleted_offsets(io, fragment, state))
        if len(replaced):
            key = await _key_at(io, state, fragment, int(replaced[0]), work.keys.names)
            reason = (
                f"the key {key} is in two manual regions: the row in the base is of region {owner}, and this merge of "
                f"region {work.owner} would replace {counted(len(replaced), 'row')} of it"
            )
            raise Unmergeable(work.source.path, reason, "REGION-003")


async def _key_at(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, offset: int, names: Sequence[str]
) -> dict[str, object]:
    """The key of the physical row at ``offset``."""
    async for batch in read.batches(io, state, fragment, names):
        if offset < batch.num_rows:
            return dict(batch.slice(offset, 1).to_pylist()[0])
        offset -= batch.num_rows
    raise EngineBug(f"fragment {fragment.id} has no row {offset}")


@implements("AMB-50")
async def _check_not_erased(
    io: Io, state: TableState, fragment: table_pb2.DataFragment, replaced: deletion.Offsets, source: Source
) -> None:
    """Raise `Unmergeable` if one of the rows to be replaced has a value in a column that the source does not have."""
    start = 0
    async for batch in read.batches(io, state, fragment, source.absent):
        here = replaced[(replaced >= start) & (replaced < start + batch.num_rows)] - np.uint32(start)
        start += batch.num_rows
        taken = cellwise.at(batch, here)
        for name in source.absent:
            values = len(here) - taken.column(name).null_count
            if values:
                reason = f"column {name!r}: the generation lacks it, the base has values in {counted(values, 'row')}"
                raise Unmergeable(source.path, f"{reason} of fragment {fragment.id} that would be lost", "AMB-50")


async def discard(io: Io, work: Work, first: TableState) -> None:
    """Delete the files of an upsert that was given up; left as they are where a version may refer to them.

    ``first``: the version that was read when it was begun: none that is older refers to its files.
    """
    names = {paths.data_file(file.path) for fragment in work.new or () for file in fragment.files}
    for before, after in work.masked.items():
        if after is not None and after.HasField("deletion_file") and protobuf.serialise(after) != before:
            names.add(read.deletion_path(after))
    try:
        for version in await versions(io) if names else ():
            if version > first.version and names & _named(await load(io, version)):
                return
        for name in sorted(names):
            await io.delete(name)
    except (NotFound, OutcomeUnknown, StorageError, Throttled) as failure:
        await io.note("merge_files_left", source=work.source.path, reason=str(failure))


def _named(state: TableState) -> set[str]:
    """Files of a version's fragments that lie in the table itself."""
    found = {paths.data_file(file.path) for fragment in state.fragments for file in fragment.files}
    found.update(read.deletion_path(fragment) for fragment in state.fragments if fragment.HasField("deletion_file"))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """Rows in memory as a source."""

    path: str
    table: pa.Table
    """Rows in the table's schema."""
    keys: pa.Table
    absent: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    async def batches(self) -> AsyncIterator[pa.Table]:
        """All rows at once."""
        yield self.table
