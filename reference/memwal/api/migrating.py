"""Bringing a table of revision 0 to another revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..drive import Listener, _no_listener
from ..ids import TableVersion
from ..revision_0 import entries
from ..revision_0 import migrate as migrating
from ..revision_0.migrate import MovedMemWal
from ..revisions import Revision
from ..stores import ManifestStore
from ..stores.base import Store
from ..table import state
from .place import PROFILE, Profile, find, found, named_revision


@dataclass(frozen=True, slots=True, kw_only=True)
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


def migrate(
    url: str | Path,
    *,
    revision: str | Revision = "B",
    entry_names: str = entries.PATTERN,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    manifest_store: ManifestStore | None = None,
    listener: Listener = _no_listener,
    profile: Profile = PROFILE,
) -> MigrationReport:
    """Merge everything that a MemWAL index of revision 0 lists, and put one of ``revision`` in its place.

    Offline: stop the writers of revision 0 first. One that goes on is stopped by its next write, and one that takes a
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
