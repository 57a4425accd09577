"""Invariants of a region's WAL.

Source: MemWAL revisions A and B, "WAL", "WAL Replay" and "Writer Fencing"; AMB-07, 10, 14, 15, 24, 26, 27, 50, 139.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import paths
from ..errors import ArtifactError
from ..ids import WalPosition
from ..region import wal_folder
from ..violations import Violation, objection
from .finding import invariant
from .seen import RegionView

_LOST = (
    "Recovery refuses the region rather than lose what lies behind it. Restore the entry from a backup of the store."
)


def _path(view: RegionView, position: int) -> str:
    return view.io.path(paths.wal(WalPosition(position), view.revision.wal_suffix))


@invariant(
    "WAL-009",
    "WAL-008",
    "WAL-010",
    "WAL-033",
    "AMB-11",
    "AMB-12",
    "AMB-15",
    about="WAL",
    remedy="`memwal table repair` sets its bytes aside once no writer is left, if it is the last entry, or whole but "
    "for some values: then its other rows stay. Otherwise restore it from a backup of the store.",
)
def wal_entries_open(view: RegionView) -> Iterator[Violation]:
    """Every WAL entry is complete, can be read, and carries the epoch of its writer."""
    yield from view.damaged_entries


@invariant("WAL-007", "WAL-004", "WAL-005", "WAL-006", "AMB-14", "AMB-139", about="WAL", remedy=_LOST)
def the_wal_has_no_hole(view: RegionView) -> Iterator[Violation]:
    """Entries that are not flushed are dense, and start where replay starts."""
    if view.newest is None:
        return
    hole = wal_folder.first_hole(view.first_unflushed, view.positions)
    if hole is not None:
        yield objection(_path(view, hole[0]), f"entry {hole[0]} is missing, entry {hole[1]} exists")


@invariant(
    "AMB-06",
    "WAL-004",
    "WAL-005",
    about="WAL",
    remedy="The table is of another revision than it says, or its first entry was lost. Look with `--revision`.",
)
def the_wal_starts_where_its_revision_does(view: RegionView) -> Iterator[Violation]:
    """Before the first flush the WAL starts at the revision's first position."""
    if view.newest is None:
        return
    zero, one = (WalPosition(p) in view.positions for p in (0, 1))
    try:
        wal_folder.check_first_position(view.newest, view.revision, view.io.root, zero=zero, one=one)
    except ArtifactError as error:
        yield objection(error.path, error.reason)


@invariant("AMB-14", "WAL-007", "MANIFEST-010", about="WAL", remedy=_LOST)
def the_wal_reaches_the_last_seen_entry(view: RegionView) -> Iterator[Violation]:
    """The entry that a manifest saw as the last one is there, unless it is flushed."""
    if view.newest is None:
        return
    seen = view.newest.position_last_seen
    if seen and seen >= view.first_unflushed and seen > max(view.positions, default=-1):
        yield objection(_path(view, seen), f"manifest version {view.newest.version} has seen entry {seen}")


@invariant(
    "GC-007",
    "GC-005",
    "AMB-95",
    about="WAL",
    severity="warning",
    remedy="No row depends on a flushed entry of a self-contained generation. Find out who deletes WAL files: the "
    "collector does so in ascending order only, and only where the table allows it.",
)
def flushed_entries_go_from_the_bottom(view: RegionView, *, collected: bool) -> Iterator[Violation]:
    """Flushed entries are gone only from the bottom, and only where the table allows it (``collected``)."""
    if view.newest is None:
        return
    below = [position for position in view.positions if position < view.first_unflushed]
    lowest = below[0] if below else view.first_unflushed
    if not collected and lowest > view.revision.first_position:
        first = view.revision.first_position
        yield objection(_path(view, first), f"entries {first} to {lowest - 1} are gone, and collection is not allowed")
    for expected, found in enumerate(below, lowest):
        if expected != found:
            yield objection(_path(view, expected), f"entry {expected} is missing, entry {found} exists")
            return
    if below and below[-1] + 1 != view.first_unflushed:
        yield objection(_path(view, below[-1] + 1), f"entry {below[-1] + 1} is missing, entry {below[-1]} exists")


@invariant(
    "FENCE-015",
    "WAL-011",
    "FENCE-017",
    "AMB-26",
    "AMB-27",
    about="WAL",
    remedy="An entry above the manifest's epoch means that manifest versions were lost: restore them. An epoch that "
    "goes back means that a fenced writer wrote after its successor: stop it; recovery replays its entry in place.",
)
def wal_epochs_never_decrease(view: RegionView) -> Iterator[Violation]:
    """Epochs along the WAL never decrease, but those of barriers in R; none is above the manifest's."""
    before = 0
    for entry in view.entries:
        allowed = entry.barrier and view.revision.overtaken_barriers
        if entry.epoch < before and not allowed:
            yield objection(entry.path, f"entry {entry.position} has epoch {entry.epoch} after {before}")
        if view.newest is not None and entry.epoch > view.newest.epoch:
            reason = f"entry {entry.position} has epoch {entry.epoch}, the newest claim is {view.newest.epoch}"
            yield objection(entry.path, reason)
        before = max(before, entry.epoch)


@invariant(
    "AMB-10",
    "WAL-014",
    "WAL-015",
    "WAL-012",
    about="WAL",
    remedy="Two implementations of different revisions wrote into one region. Stop both; entries of the other suffix "
    "are not replayed by this one, and an operator has to decide about their rows.",
)
def wal_entries_have_one_suffix(view: RegionView) -> Iterator[Violation]:
    """All WAL entries of a region have the suffix of its revision."""
    taken = set(view.positions)
    for name in wal_folder.strangers([n for n in view.names if n.startswith("wal/")], view.revision):
        position = paths.wal_position(name, name.rpartition(".")[2])
        beside = ", beside the entry of this revision" if position in taken else ""
        yield objection(view.io.path(name), f"entry {position} of another revision{beside}")


@invariant(
    "AMB-50",
    "WRITER-015",
    about="WAL",
    remedy="Recovery refuses such an entry. Undo the change of the table's schema, flush and merge the region, then "
    "change the schema again.",
)
def unflushed_entries_fit_the_table(view: RegionView) -> Iterator[Violation]:
    """Rows of entries that are not flushed have the schema of the table."""
    for entry in view.entries:
        if entry.misfit and entry.position >= view.first_unflushed:
            yield objection(entry.path, entry.misfit)


@invariant(
    "AMB-24",
    "FENCE-016",
    about="WAL",
    severity="warning",
    remedy="The writer of that epoch did not fence the WAL: its predecessor may have stored entries behind its back. "
    "Compare the neighbouring entries' epochs; use an implementation that puts a barrier.",
)
def each_claim_has_a_barrier(view: RegionView) -> Iterator[Violation]:
    """Each epoch that took the region over from an earlier one has a barrier, an entry without rows, in the WAL.

    It need not be the epoch's first entry: the native writer puts it beside its first write, which a predecessor's put
    collides with just as well.
    """
    first = view.revision.epoch_first if view.revision.barrier_on_first_claim else view.revision.epoch_first + 1
    having = {entry.epoch for entry in view.entries if entry.barrier}
    before = 0
    position_before: int | None = view.revision.first_position - 1
    for entry in view.entries:
        neighbours = position_before is not None and entry.position == position_before + 1
        if entry.epoch > before and entry.epoch >= first and entry.epoch not in having and neighbours:
            yield objection(
                entry.path, f"entry {entry.position} is the first of epoch {entry.epoch}, which has no barrier"
            )
        before = max(before, entry.epoch)
        position_before = entry.position


@invariant(
    "WAL-018",
    "AMB-17",
    about="WAL",
    remedy="An entry behind one of a later generation counts as flushed too early, once an earlier one was. Open the "
    "region with this engine and flush it, which flushes all such entries as one; then find out who wrote it.",
)
def wal_generations_never_decrease(view: RegionView) -> Iterator[Violation]:
    """Where entries record their generation (R), it never decreases along the WAL."""
    before = 0
    for entry in view.entries:
        if entry.generation is None:
            continue
        if entry.generation < before:
            yield objection(entry.path, f"entry {entry.position} is of generation {entry.generation} after {before}")
        before = max(before, entry.generation)


def look_at_wal(view: RegionView, *, collected: bool) -> list[Violation]:
    """Every invariant of the WAL of one region."""
    return [
        *wal_entries_open(view),
        *the_wal_starts_where_its_revision_does(view),
        *the_wal_has_no_hole(view),
        *the_wal_reaches_the_last_seen_entry(view),
        *flushed_entries_go_from_the_bottom(view, collected=collected),
        *wal_epochs_never_decrease(view),
        *wal_entries_have_one_suffix(view),
        *unflushed_entries_fit_the_table(view),
        *each_claim_has_a_barrier(view),
        *wal_generations_never_decrease(view),
    ]
