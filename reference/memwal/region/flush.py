"""Turning a sealed MemTable into a flushed generation: a Lance table in a folder of its own.

Source: MemWAL revision A, "MemTable Flush"; revision B, "Flushed MemTable".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .. import cellwise, confirm, paths
from ..clauses import implements
from ..codec import bloom, key_index, marks
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..codec.region_manifest import FlushedGeneration
from ..effects import Io
from ..errors import AlreadyExists, EngineBug, OutcomeUnknown, Throttled
from ..ids import Epoch, Generation, Milliseconds, WalPosition
from ..keys import newest
from ..table import schema as schemas
from ..table.commit import commit
from ..table.write import fragment_message, write_deletions, write_fragments
from . import generation_indexes
from .generation_config import CONFIG_EPOCH, CONFIG_FILLED, CONFIG_FIRST, CONFIG_LAST
from .memtable import MemTable
from .region import Region

_PAUSE_MS = 10

WAL_BASE = 1
"""Base path id of the WAL folder in a generation of revision A."""


@implements(
    "FLUSH-002", "FLUSH-003", "FLUSH-004", "FLUSH-008", "FLUSH-013", "GEN-001", "GEN-004", "GEN-005", "GEN-008",
    "GEN-010", "GEN-014",
)  # fmt: skip
async def write_generation(region: Region, epoch: Epoch, sealed: MemTable, start: WalPosition) -> FlushedGeneration:
    """Write ``sealed``, whose rows are all in the WAL from ``start`` on, into a fresh folder; nothing refers to it yet.

    Order: bloom filter, data (B, R), deletions (R), files of maintained indexes, transaction, table manifest, both
    again where there are indexes, key index (R).
    """
    _check_sealed(sealed, start)
    rows = sealed.table()
    keys = rows.select(list(region.rows.key))
    # FLUSH-002, FLUSH-023: eight random digits for each attempt, and the bloom filter first.
    folder = await _fresh_folder(region, sealed.generation, bloom.encode(keys, region.revision))
    io = region.io.child(folder)
    stored = region.rows.stored_schema
    fields = schemas.numbered(schemas.to_fields(stored), dict(region.rows.field_ids))
    if region.revision.self_contained:
        # AMB-39, self-contained (B, R): the rows are written again, and the WAL may go.
        fragments = await write_fragments(io, cellwise.under(rows, stored), schemas.leaf_ids(fields))
    else:
        # FLUSH-006, references (A): the WAL files are the fragments.
        fragments = await _wal_fragments(region, sealed, schemas.leaf_ids(fields))
    _check_whole(sealed, fragments)
    if region.revision.mask_older:
        fragments = await _mask_older(io, fragments, rows, region.rows.key)
    entries = await generation_indexes.store(io, region, sealed, fragments, schemas.field_ids(fields))
    body = transaction_pb2.Transaction.Overwrite(
        fragments=fragments,
        schema=fields,
        config_upsert_values={
            # AMB-95, which WAL files: for the collector, which has to know what the generation covers.
            CONFIG_FIRST: str(start),
            CONFIG_LAST: str(sealed.position_covered),
            CONFIG_EPOCH: str(epoch),
            **generation_indexes.inherited_config(sealed),
            **({CONFIG_FILLED: "\n".join(sorted(sealed.filled))} if sealed.filled else {}),
            # AMB-149, finished tasks: the pointer covers the entries that say so, and these may go.
            **({marks.DONE: marks.encode(sealed.done)} if sealed.done else {}),
        },
        initial_bases=_bases(region),
    )
    # FLUSH-008, the order: the manifest names data and filter, which are all there.
    created = await commit(io, None, transaction_pb2.Transaction(overwrite=body))
    await generation_indexes.publish(io, created, entries)
    if region.revision.key_index:
        for name, data in key_index.encode(keys).items():
            await confirm.create(io, name, data)
    return FlushedGeneration(
        generation=sealed.generation,
        path=folder,
        in_memory_bytes=rows.nbytes if region.revision.added_fields else None,
        physical_rows=rows.num_rows if region.revision.added_fields else None,
        primary_key_bytes=keys.nbytes if region.revision.added_fields else None,
    )


def _check_sealed(sealed: MemTable, start: WalPosition) -> None:
    """Assert that the rows of ``sealed`` are in the WAL, in entries that no earlier generation covers."""
    if not sealed.stored or sealed.pending_rows:
        raise EngineBug(f"generation {sealed.generation} is to be written with {sealed.pending_rows} rows in no entry")
    first, last = sealed.stored[0].position, sealed.stored[-1].position
    if first < start or sealed.position_covered is None or sealed.position_covered < last:
        covered = f"covers {start} to {sealed.position_covered}"
        raise EngineBug(f"generation {sealed.generation} has rows of entries {first} to {last}, and {covered}")


def _check_whole(sealed: MemTable, fragments: Sequence[table_pb2.DataFragment]) -> None:
    """Assert that ``fragments`` have the rows of ``sealed``, no more and no fewer."""
    written = sum(fragment.physical_rows for fragment in fragments)
    if written != sealed.rows:
        raise EngineBug(f"generation {sealed.generation} has {sealed.rows} rows in memory and {written} in its files")


@implements("FLUSH-002", "FLUSH-023", "FLUSH-025", "AMB-44")
async def _fresh_folder(region: Region, generation: Generation, bloom_filter: bytes) -> str:
    """A folder that no other attempt uses, with its first object in it: the bloom filter, since its name never differs.

    Any doubt about that object means another folder. What is left in the first one is listed nowhere and never will be.
    """
    failure: AlreadyExists | OutcomeUnknown | Throttled | None = None
    for attempt in range(confirm.ATTEMPTS):
        folder = paths.generation(await region.io.random_hex(8), generation)
        try:
            await region.io.put_if_absent(f"{folder}/{paths.BLOOM_FILTER}", bloom_filter)
            return folder
        # FLUSH-025, a failed attempt: its folder is never used again, whatever is in it.
        except (AlreadyExists, OutcomeUnknown, Throttled) as outcome:
            failure = outcome
        await region.io.sleep(Milliseconds(_PAUSE_MS * 2**attempt))
    assert failure is not None
    raise failure


@implements("FLUSH-005", "GEN-011", "AMB-40")
def _bases(region: Region) -> list[table_pb2.BasePath]:
    """The WAL folder as base path, for generations whose fragments are WAL files (A)."""
    if region.revision.self_contained:
        return []
    # AMB-40, portable base paths: absolute where a reader elsewhere has to find it, else relative to the generation.
    location = f"{region.io.location}/wal" if region.io.location else "../wal"
    return [table_pb2.BasePath(id=WAL_BASE, name="wal", is_dataset_root=False, path=location)]


@implements("FLUSH-006", "AMB-18", "AMB-20")
async def _wal_fragments(region: Region, sealed: MemTable, ids: list[int]) -> list[table_pb2.DataFragment]:
    """One fragment for each WAL entry with rows, in order, naming the file through the base path."""
    fragments = []
    for stored in sealed.stored:
        name = paths.wal(stored.position, region.revision.wal_suffix)
        # What an earlier writer stored has a size that only the store knows.
        size = stored.size_bytes if stored.size_bytes is not None else await region.io.head(name)
        fragment = fragment_message(stored.rows, name.removeprefix("wal/"), size, ids)
        fragment.files[0].base_id = WAL_BASE
        fragments.append(fragment)
    return fragments


@implements("AMB-46")
async def _mask_older(
    io: Io, fragments: list[table_pb2.DataFragment], rows: pa.Table, key: tuple[str, ...]
) -> list[table_pb2.DataFragment]:
    """Hide all but the newest row of each key behind deletion files."""
    live = np.zeros(rows.num_rows, dtype=bool)
    live[newest(rows, key)] = True
    out, start, masked = [], 0, 0
    for number, fragment in enumerate(fragments):
        end = start + fragment.physical_rows
        older = np.flatnonzero(~live[start:end]).astype(np.uint32)
        start, masked = end, masked + len(older)
        if len(older):
            numbered = table_pb2.DataFragment()
            numbered.CopyFrom(fragment)
            numbered.id = number
            fragment = await write_deletions(io, numbered, older, read_version=1)
        out.append(fragment)
    if masked + np.count_nonzero(live) != start:
        raise EngineBug(f"of {start} rows {masked} are masked and {np.count_nonzero(live)} are the newest of their key")
    return out
