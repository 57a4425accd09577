"""Looking at the versions of the base table, one after another."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .. import paths
from ..codec.index_details import IndexDetails, RegionSpec
from ..effects import Io
from ..ids import RegionId, SpecId, TableVersion
from ..index import snapshot
from ..index.snapshot import RegionRow
from ..jobs.collector.versions import BRANCHES, TAGS, named
from ..table import versions as naming
from ..table.commit import transaction_of
from ..table.state import TableState, timestamp_ms
from ..table.transactions import operation
from ..violations import Violation
from . import files, index, snapshots, table
from .finding import attempted
from .loading import opened
from .report import FindingsLedger
from .seen import RegionView


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What is known of the base table at one of its versions."""

    newest: TableState | None
    """The newest version that can be loaded."""
    enabled: bool
    """Whether it has a MemWAL index, readable or not."""
    details: IndexDetails | None
    """Its MemWAL index; None if it has none, or none that can be read."""
    rows: tuple[RegionRow, ...]
    """Its region snapshot."""


async def newest_readable(io: Io) -> TableState | None:
    """The newest table version that can be loaded; None if there is none."""
    for version in reversed((await naming.listing(io)).versions):
        seen = await attempted(opened(io, version), io.path(naming.name(version)))
        if isinstance(seen, TableState):
            return seen
    return None


async def details_of(state: TableState) -> IndexDetails | None:
    """Details of the MemWAL index; None without one. Raises `ArtifactError`."""
    return state.mem_wal if state.mem_wal_entry is not None else None


async def known_of(io: Io, state: TableState | None) -> Base:
    """What a version says of regions, without a word of what is wrong with it."""
    details = await attempted(details_of(state), state.path) if state is not None else None
    if state is None or details is None or isinstance(details, Violation):
        return Base(newest=state, enabled=details is not None, details=None, rows=())
    rows = await attempted(snapshot.load(io, state), state.path)
    return Base(newest=state, enabled=True, details=details, rows=() if isinstance(rows, Violation) else rows)


async def look_at_versions(
    io: Io,
    regions: Mapping[RegionId, RegionView],
    ledger: FindingsLedger,
    *,
    rows: bool,
    recent: int | None,
    unlooked: Collection[RegionId] = (),
) -> None:
    """Look at every retained version, or at the ``recent`` newest ones, ascending.

    ``unlooked``: regions that are there and not among ``regions``, of which nothing is said.
    """
    listing = await naming.listing(io)
    await _references(io, listing, ledger)
    ledger.add(table.table_versions_have_one_naming_scheme(listing, io.path(paths.VERSIONS)))
    transactions = frozenset(await io.list(paths.TRANSACTIONS))
    seen_files: set[str] = set()
    specs: dict[SpecId, RegionSpec] = {}
    found = Base(newest=None, enabled=False, details=None, rows=())
    wanted = listing.versions[-recent:] if recent else listing.versions
    for version in wanted:
        await io.note("verifying", table_version=version, of=wanted[-1])
        ledger.looked_at["table versions"] += 1
        path = io.path(listing.name(version))
        state = await attempted(opened(io, version), path)
        if isinstance(state, Violation):
            ledger.add(table.table_versions_open([state]))
            continue
        await _look_at_version(io, state, transactions, ledger)
        looked_at = await files.look_at_files(io, state, seen_files, rows=rows)
        add_files(looked_at, ledger)
        for name in looked_at.unread:
            ledger.note(f"{name}: not looked into")
        current = await _look_at_details(io, state, found, regions, unlooked, ledger)
        if current.details is not None:
            if found.newest is not None:
                await _look_at_step(io, found, current, ledger)
            ledger.add(index.region_specs_never_change(specs, state))
            specs.update({spec.spec_id: spec for spec in current.details.specs})
        elif found.enabled and not current.enabled:
            ledger.add(index.the_mem_wal_index_stays(state))
        found = current


def add_files(found: files.Files, ledger: FindingsLedger) -> None:
    """Enter what `files.look_at_files` found."""
    ledger.looked_at["files"] += found.looked_at
    ledger.add(files.named_files_are_there(found))
    ledger.add(files.index_files_are_there(found))
    ledger.add(files.named_files_are_whole(found))


async def _references(io: Io, listing: naming.Listing, ledger: FindingsLedger) -> None:
    """Look at tags and branches, and at whether the versions that they do not keep are one block."""
    tags, branches = [
        {io.path(name): await attempted(named(io, name, word), io.path(name)) for name in await io.list(folder)}
        for folder, word in ((TAGS, "tag"), (BRANCHES, "branch"))
    ]
    kept = await _from_the_future(io, listing)
    for versions in (*tags.values(), *branches.values()):
        kept |= set() if isinstance(versions, Violation) else versions
    ledger.add(table.tags_name_versions(tags, branches, listing))
    ledger.add(table.table_versions_are_dense(listing, kept, io.path(paths.VERSIONS)))


async def _from_the_future(io: Io, listing: naming.Listing) -> set[TableVersion]:
    """Versions below a gap that say of a later time than the first one above it.

    They were committed before a clock was put back. Collection by age keeps them longer than their successors.
    """
    versions = listing.versions
    above = next((b for a, b in reversed(list(zip(versions, versions[1:], strict=False))) if b != a + 1), None)
    if above is None:
        return set()
    stamps = {}
    for version in versions[: versions.index(above) + 1]:
        state = await attempted(opened(io, version), io.path(listing.name(version)))
        stamps[version] = None if isinstance(state, Violation) else timestamp_ms(state)
    until = stamps.pop(above) or 0
    return {version for version, stamp in stamps.items() if stamp is not None and until and stamp > until}


async def _look_at_version(io: Io, state: TableState, transactions: frozenset[str], ledger: FindingsLedger) -> None:
    transaction = await attempted(transaction_of(io, state), state.path)
    ledger.add(table.transactions_are_there(state, transactions, transaction))
    ledger.add(table.fragment_ids_are_unique(state))
    ledger.add(table.data_files_have_one_version(state))
    ledger.add(table.deletion_files_are_announced(state))
    ledger.add(index.one_mem_wal_index(state))


async def _look_at_details(
    io: Io,
    state: TableState,
    before: Base,
    regions: Mapping[RegionId, RegionView],
    unlooked: Collection[RegionId],
    ledger: FindingsLedger,
) -> Base:
    """The MemWAL index of one version, and the region snapshot in it; ``before`` may have read the same snapshot."""
    details = await attempted(details_of(state), state.path)
    if isinstance(details, Violation):
        if not index.one_mem_wal_index(state):
            ledger.add(index.index_details_open([details]))
        return Base(newest=state, enabled=True, details=None, rows=())
    if details is None:
        return Base(newest=state, enabled=False, details=None, rows=())
    ledger.add(index.catch_up_is_not_ahead_of_merging(state, details))
    same = before.rows and before.details is not None and _is_same_snapshot(before.details, details)
    rows = before.rows if same else await attempted(snapshot.load(io, state), state.path)
    if isinstance(rows, Violation):
        ledger.add(snapshots.snapshots_open([rows]))
        return Base(newest=state, enabled=True, details=details, rows=())
    ledger.looked_at["snapshots"] += 1
    looked_at = [row for row in rows if row.region_id not in unlooked]
    ledger.add(snapshots.snapshots_are_not_ahead(state, looked_at, regions))
    ledger.add(snapshots.snapshots_list_what_is_there(state, looked_at, regions))
    return Base(newest=state, enabled=True, details=details, rows=rows)


def _is_same_snapshot(a: IndexDetails, b: IndexDetails) -> bool:
    """Whether both have the very same inline snapshot, so that it need not be read again."""
    if not a.inline_snapshots or a.inline_snapshots != b.inline_snapshots:
        return False
    return (a.num_regions, a.specs) == (b.num_regions, b.specs)


async def _look_at_step(io: Io, before: Base, after: Base, ledger: FindingsLedger) -> None:
    if before.details is None or before.newest is None or after.newest is None:
        return
    found = [
        *index.merge_progress_never_goes_back(before.newest, after.newest),
        *index.catch_up_never_goes_back(before.newest, after.newest),
    ]
    if found and await _restored(io, after.newest):
        return
    ledger.add(found)


async def _restored(io: Io, state: TableState) -> bool:
    """Whether the version was made by a Restore, the one operation by which progress goes back (AMB-87)."""
    transaction = await attempted(transaction_of(io, state), state.path)
    return not isinstance(transaction, Violation) and transaction is not None and operation(transaction) == "restore"
