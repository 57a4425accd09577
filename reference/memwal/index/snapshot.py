"""Where the region snapshot of a table version is: inside the index details, or in a file of its own beside them.

Which of the two is found by looking, never by a threshold of one's own (AMB-75). A file is written once, under a fresh
index UUID, so that older table versions keep theirs (AMB-76); one that no version names was left by a crash.

Source: MemWAL revisions A and B, "Region Snapshot Storage"; AMB-53, 74, 75, 76.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import confirm, paths
from ..clauses import implements
from ..codec.index_details import IndexDetails
from ..effects import Io, remembered
from ..errors import ArtifactError, NotFound
from ..revisions import CONFIG_INLINE_REGIONS, Revision
from ..table.state import TableState
from . import snapshot_file
from .snapshot_file import RegionRow

__all__ = ["RegionRow", "StoredSnapshot", "Written", "external", "inline_most", "is_external", "load", "store"]

INLINE_REGIONS = 100
"""Most regions whose snapshot is inline where the table says nothing."""


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """Details whose snapshot was written anew."""

    details: IndexDetails
    index: bytes | None
    """The 16 bytes of the index UUID under which the snapshot is; None if it is inline, under any UUID."""


@dataclass(slots=True)
class Written:
    """The external snapshot that a process wrote last and has not committed: what it may name instead of another."""

    data: bytes = b""
    index: bytes = b""


def external(index: bytes) -> str:
    """Name of an external snapshot, for the 16 bytes of the index UUID."""
    return f"{paths.INDICES}/{uuid.UUID(bytes=index)}/index.lance"


@implements("AMB-75")
def is_external(details: IndexDetails, revision: Revision) -> bool:
    """Whether the snapshot is a file: nothing is inline, and regions are counted."""
    return revision.snapshot_files and not details.inline_snapshots and details.num_regions > 0


@implements("SNAP-014", "AMB-75")
def inline_most(state: TableState) -> int:
    """Most regions whose snapshot is inline, as the table's config says."""
    text = state.config.get(CONFIG_INLINE_REGIONS)
    if text is None:
        return INLINE_REGIONS
    if not text.isdecimal():
        raise ArtifactError("SNAP-014", state.path, f"config {CONFIG_INLINE_REGIONS} is not a number: {text!r}")
    return int(text)


@implements("INDEX-007", "INDEX-008", "INDEX-009", "INDEX-012", "INDEX-014", "SNAP-012", "SNAP-013", "AMB-75")
async def load(table: Io, state: TableState) -> tuple[RegionRow, ...]:
    """The snapshot in ``state``: inline if there is one, else the external file if regions are counted, else empty.

    Raises `ArtifactError` if the file is not there, or if the rows are not as many as the index says.
    """
    details, revision = state.mem_wal, state.revision
    path, inline, name = state.path, details.inline_snapshots, ""
    if is_external(details, revision):
        entry = state.mem_wal_entry
        assert entry is not None
        name = external(entry.uuid.uuid)
        path = table.path(name)
    elif not inline:
        return ()
    size_bytes = 0

    async def decoded() -> tuple[RegionRow, ...]:
        nonlocal size_bytes
        try:
            data = inline or await table.get(name)
        except NotFound:
            reason = f"the index counts {details.num_regions} regions, and this file is not there"
            raise ArtifactError("SNAP-013", path, reason) from None
        size_bytes = 4 * len(data)
        return snapshot_file.decode(data, details, revision, path)

    what = ("region snapshot", path, revision.name, details.specs, inline)
    rows = await remembered(table, what, decoded, lambda _: size_bytes)
    if revision.snapshot_files and len(rows) != details.num_regions:
        reason = f"the index counts {details.num_regions} regions, and the snapshot has {len(rows)} rows"
        raise ArtifactError("INDEX-012", path, reason)
    return rows


@implements("INDEX-008", "INDEX-012", "SNAP-012", "SNAP-013", "SNAP-014", "SNAP-022", "AMB-75", "AMB-76")
async def store(
    table: Io,
    state: TableState,
    details: IndexDetails,
    rows: Sequence[RegionRow],
    *,
    most: int | None = None,
    written: Written | None = None,
) -> StoredSnapshot:
    """``details`` with the snapshot ``rows``: inline for up to ``most`` of them (None: as the table says), else a file.

    The file is written before the commit that names it. ``written``: what an attempt that is known to have failed left
    behind; it is used again if the rows are the same, so that retries do not pile up files.
    """
    revision = state.revision
    data = snapshot_file.encode(rows, details, revision)
    if len(rows) <= (inline_most(state) if most is None else most) or not revision.snapshot_files:
        # Native writers count the shards that they were configured with (R).
        counted = len(rows) if revision.snapshot_files else max(len(rows), details.num_regions)
        return StoredSnapshot(replace(details, num_regions=counted, inline_snapshots=data), None)
    named = replace(details, num_regions=len(rows), inline_snapshots=None)
    entry = state.mem_wal_entry
    if not table.interpretation.snapshot_uuid_per_build and entry is not None:
        await table.put(external(entry.uuid.uuid), data)
        return StoredSnapshot(named, entry.uuid.uuid)
    if written is not None and written.data == data:
        return StoredSnapshot(named, written.index)
    index = uuid.UUID(hex=await table.random_hex(32), version=4).bytes
    await confirm.create_fresh(table, external(index), data)
    if written is not None:
        written.data, written.index = data, index
    return StoredSnapshot(named, index)
