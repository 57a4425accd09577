"""Bringing a table of revision 0 to another revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..arguments import checked
from ..drive import Listener
from ..ids import TableVersion
from ..jobs.defaults import ENTRY_NAMES
from ..revision_0 import migrate as migrating
from ..revision_0.migrate import MovedMemWal
from ..revisions import Revision
from ..stores import ManifestStore
from ..stores.base import Store
from ..table import state
from ..words import counted, grid
from .place import PROFILE, Profile, Where, find, found, named_revision


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MigrationReport:
    """What one call of `migrate` did, or would do."""

    revision: str
    """The revision that the table is of afterwards."""
    dry_run: bool
    version_before: TableVersion
    version: TableVersion
    """The newest table version afterwards."""
    moved: tuple[MovedMemWal, ...]
    """MemWALs whose rows this call merged, in that order."""
    rewritten: bool
    """Whether all rows were written anew, since the table had data files of a version that is not written here."""
    left: tuple[str, ...]
    """WAL folders that the newest version does not name any more. Older versions do, and nothing here deletes them."""

    @property
    def summary(self) -> str:
        """One line."""
        verb = "would merge" if self.dry_run else "merged"
        return f"{verb} {counted(len(self.moved), 'MemWAL')} with {counted(sum(one.rows for one in self.moved), 'row')}"

    @property
    def outcome(self) -> str:
        """What the table is afterwards, in one line."""
        if self.dry_run:
            return f"would enable revision {self.revision} on version {self.version}; nothing was changed"
        return f"the table is of revision {self.revision} now, version {self.version}"

    def __repr__(self) -> str:
        rows = [(one.region, one.generation, one.state.name, one.entries, one.rows) for one in self.moved]
        table = [grid(("region", "generation", "state before", "entries", "rows"), rows)] if rows else []
        return "\n".join([self.summary, *table, self.outcome])


@checked
def migrate(
    url: Where,
    *,
    revision: str | Revision = "B",
    entry_names: str = ENTRY_NAMES,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    manifest_store: ManifestStore | None = None,
    listener: Listener | None = None,
    profile: Profile = PROFILE,
) -> MigrationReport:
    """Merge everything that a MemWAL index of revision 0 lists, and put one of ``revision`` in its place.

    Offline: stop the writers of revision 0 first. One that continues is stopped by its next write, and one that takes a
    region over meanwhile makes this call fail; then call it again. ``entry_names``: name of an entry's file in its WAL,
    with ``{id}`` for the number (``{id:020d}`` for 20 digits). ``dry_run``: read all that would be merged, and change
    nothing. ``manifest_store``: as for `open`.

    Raises `NotFound`, `InvalidArgument` for a table that cannot be migrated, saying why, and `ArtifactError` for an
    entry that is listed and cannot be read; then nothing was changed.
    """
    place = find(url, storage_options, store, listener, profile, manifest_store)
    chosen = named_revision(revision)
    planned = found(place, migrating.plan(place.io, chosen, pattern=entry_names))
    moved = planned.unmerged
    if not dry_run:
        moved = place.run(migrating.carry_out(place.io, chosen, planned, pattern=entry_names))
    return MigrationReport(
        revision=chosen.name,
        dry_run=dry_run,
        version_before=planned.version,
        version=planned.version if dry_run else place.run(state.latest(place.io)).version,
        moved=moved,
        rewritten=planned.rewritten,
        left=planned.wal_folders,
    )
