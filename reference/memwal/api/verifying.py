"""Looking over a table, whatever state it is in, and the repairs that lose nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..arguments import checked
from ..drive import Listener
from ..invariants import INVARIANTS, Report, Violation
from ..invariants import verify as run_invariants
from ..jobs import repair as repairing
from ..jobs.repair import RepairStep
from ..revisions import Revision
from ..stores import ManifestStore
from ..stores.base import Store
from ..words import counted, grid
from .place import PROFILE, Place, Profile, Where, find, found, named_revision


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RepairReport:
    """What one call of `repair` did, and what it left."""

    steps: tuple[RepairStep, ...]
    left: tuple[Violation, ...]
    """Findings that no step is about."""
    dry_run: bool

    @property
    def summary(self) -> str:
        """One line."""
        verb = "would change" if self.dry_run else "changed"
        return f"{verb} {counted(len(self.changed), 'object')}; {counted(len(self.left), 'finding')} left"

    def __repr__(self) -> str:
        rows: list[tuple[str, ...]] = [(step.kind, step.path, step.reason) for step in self.steps]
        rows += [(found.severity, found.path, f"{found.reason}; {self.advice(found)}") for found in self.left]
        return "\n".join([self.summary, *([grid(("what", "path", "why"), rows)] if rows else [])])

    @property
    def changed(self) -> tuple[RepairStep, ...]:
        """Steps that wrote something; in a dry run nothing was written."""
        return tuple(step for step in self.steps if step.changes)

    def advice(self, found: Violation) -> str:
        """What an operator can do about a finding."""
        return INVARIANTS[found.oracle].remedy


@checked
def verify(
    url: Where,
    *,
    revision: str | Revision | None = None,
    fast: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    listener: Listener | None = None,
) -> Report:
    """Run every invariant over the table at ``url``; read only, and to the end whatever is found.

    Works on tables that cannot be opened, on those of the native writer, and on tables without MemWAL. ``revision``:
    read regions under this one, whatever the table says. ``fast``: leave out rows and old history. Raises `NotFound` if
    there is no trace of a table. Some damage inside of a Lance file ends the process of the native reader: the command
    ``memwal table verify`` survives that and names the file (docs/verify.md).
    """
    place = find(url, storage_options, store, listener, PROFILE)
    chosen = named_revision(revision) if revision is not None else None
    return verify_place(place, chosen, fast=fast)


def verify_place(place: Place, revision: Revision | None, *, fast: bool) -> Report:
    """`verify` at a place that is known."""
    return found(place, run_invariants(place.io, revision=revision, fast=fast))


@checked
def repair(
    url: Where,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    manifest_store: ManifestStore | None = None,
    listener: Listener | None = None,
    profile: Profile = PROFILE,
) -> RepairReport:
    """Repair what can be repaired without losing anything, and say what cannot. ``dry_run``: only say it.

    Before an unreadable WAL entry is moved aside the region is claimed, which fences its writer. The caller vouches
    that no process is still writing that entry. Raises `NotFound`, and `ArtifactError` if the newest table version
    cannot be read.
    """
    place = find(url, storage_options, store, listener, profile, manifest_store)
    return repair_place(place, dry_run=dry_run)


def repair_place(place: Place, *, dry_run: bool) -> RepairReport:
    """`repair` at a place that is known."""
    prefix = f"{place.io.root}/" if place.io.root else ""
    done = found(place, repairing.repair(place.io, dry_run=dry_run))
    steps = tuple(replace(step, path=step.path.removeprefix(prefix)) for step in done)
    about = {step.path for step in steps}
    left = tuple(v for v in verify_place(place, None, fast=True).findings if v.path not in about)
    return RepairReport(steps=steps, left=left, dry_run=dry_run)
