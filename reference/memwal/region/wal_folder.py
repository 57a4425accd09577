"""What the names in a region's WAL folder say, without opening an entry.

Source: MemWAL revision A, "WAL"; revision B, "WAL Storage Layout" and "WAL Entry".
"""

from __future__ import annotations

from collections.abc import Iterable

from .. import paths
from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..errors import ArtifactError
from ..ids import WalPosition
from ..revisions import REVISIONS, Revision

SUFFIXES = frozenset(revision.wal_suffix for revision in REVISIONS.values())
"""Suffixes that entries have in some revision; other files in the folder are none."""


def positions(names: Iterable[str], revision: Revision) -> tuple[WalPosition, ...]:
    """Positions of the entries among the object names ``names``, ascending."""
    found = (paths.wal_position(name, revision.wal_suffix) for name in names)
    return tuple(sorted(position for position in found if position is not None))


@implements("WAL-014", "WAL-015", "AMB-10")
def strangers(names: Iterable[str], revision: Revision) -> tuple[str, ...]:
    """Those of ``names`` that are entries under another revision's suffix, by position.

    A region has one suffix. Two entries at one position were put by writers that could not see each other; one alone
    is an entry that no reader of this revision would ever look for.
    """
    found = [
        (position, name)
        for name in names
        for suffix in sorted(SUFFIXES - {revision.wal_suffix})
        if (position := paths.wal_position(name, suffix)) is not None
    ]
    return tuple(name for _, name in sorted(found))


@implements("AMB-10")
def refuse_strangers(names: Iterable[str], revision: Revision, root: str) -> None:
    """Raise `ArtifactError` if an entry has another suffix than the region's. ``root``: the region's folder."""
    names = tuple(names)
    for name in strangers(names, revision):
        own = f"{name.rpartition('.')[0]}.{revision.wal_suffix}"
        also = ", and the position has one of those too" if own in names else ""
        reason = f"entries of revision {revision.name} have the suffix .{revision.wal_suffix}{also}"
        raise ArtifactError("AMB-10", f"{root}/{name}", reason)


def never_flushed(manifest: RegionManifest, revision: Revision) -> bool:
    """Whether no flush has moved the replay pointer yet."""
    return manifest.position_replay_after == 0 and manifest.generation_current == revision.generation_first


@implements("WAL-004", "WAL-005", "AMB-06")
def check_first_position(manifest: RegionManifest, revision: Revision, root: str, *, zero: bool, one: bool) -> None:
    """Raise `ArtifactError` if the WAL of a region that was never flushed starts where ``revision`` does not.

    ``zero``, ``one``: whether there are entries at positions 0 and 1. Replay would miss entry 0 if the region counts
    from there and the revision does not, and take the WAL for empty the other way round. Once a generation was flushed
    the replay pointer says where to continue.
    """
    if not never_flushed(manifest, revision):
        return
    first = revision.first_position
    if first == 1 and zero:
        raise ArtifactError("AMB-06", f"{root}/wal", f"entry 0 exists: not a WAL of revision {revision.name}")
    if first == 0 and one and not zero:
        reason = f"entry 1 exists and entry 0 does not: not a WAL of revision {revision.name}, or entry 0 was lost"
        raise ArtifactError("AMB-06", f"{root}/wal", reason)


@implements("WAL-007", "AMB-14", "AMB-139")
def first_hole(tip: WalPosition, known: Iterable[WalPosition]) -> tuple[WalPosition, WalPosition] | None:
    """The first position from ``tip`` on that is not among ``known``, and the next one that is; None: none."""
    behind = sorted(position for position in known if position >= tip)
    for expected, found in enumerate(behind, tip):
        if found != expected:
            return WalPosition(expected), found
    return None


@implements("WAL-007", "AMB-09", "AMB-14", "AMB-139")
def check_end(
    tip: WalPosition, known: Iterable[WalPosition], manifest: RegionManifest, revision: Revision, root: str
) -> None:
    """Raise `ArtifactError` if an entry is known behind one that is missing.

    ``tip``: where probing met no entry; it may have got one since. ``known``: positions of entries that exist. The
    manifest's last-seen hint counts as well, as far as the replay pointer does not cover it: it is never raised but to
    an entry that is there, and nothing above the pointer is ever deleted.
    """
    behind = {position for position in known if position >= tip}
    hole = first_hole(tip, behind)
    end, seen = WalPosition(tip + len(behind)), manifest.position_last_seen
    if hole is None and seen >= end and seen > manifest.position_replay_after:
        hole = end, seen
    if hole is not None:
        missing = f"{root}/{paths.wal(hole[0], revision.wal_suffix)}"
        raise ArtifactError("WAL-007", missing, f"entry {hole[0]} is missing, and entry {hole[1]} exists or was seen")
