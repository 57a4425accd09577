"""What was seen of one region, as its invariants look at it: values, which `memwal.invariants.view` loads."""

from __future__ import annotations

from dataclasses import dataclass

from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..effects import Io
from ..ids import Epoch, Generation, ManifestVersion, RegionId, WalPosition
from ..region.recovery import replay_start
from ..revisions import Revision
from ..table.state import TableState
from ..violations import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEntry:
    """A WAL entry that can be read, without its rows."""

    position: WalPosition
    path: str
    epoch: Epoch
    generation: Generation | None
    """Recorded generation (R)."""
    barrier: bool
    rows: int
    misfit: str = ""
    """Why its rows are not rows of the table; empty if they are, or if the table's schema is not known."""
    tombstones: bool = False
    """Whether it has the tombstone column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationView:
    """A listed generation."""

    io: Io
    listed: FlushedGeneration
    names: frozenset[str]
    """Objects in its folder, relative to it."""
    state: TableState | None
    """Its newest table version; None if that cannot be loaded."""
    damaged: Violation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionView:
    """A region as found in the store."""

    io: Io
    region_id: RegionId
    revision: Revision
    names: tuple[str, ...]
    """Objects in its folder, relative to it."""
    numbers: tuple[ManifestVersion, ...]
    """Manifest versions, readable or not, ascending."""
    newest: RegionManifest | None
    """The newest readable manifest."""
    damaged_manifests: tuple[Violation, ...]
    found_in_manifests: tuple[Violation, ...]
    """What looking at single manifests and at each step between two of them found."""
    hint: ManifestVersion | None
    """The version that the hint names; None if there is none, or none that can be read."""
    positions: tuple[WalPosition, ...]
    """WAL positions, readable or not, ascending."""
    entries: tuple[SeenEntry, ...]
    """WAL entries that were read, by position."""
    damaged_entries: tuple[Violation, ...]
    generations: tuple[GenerationView, ...]
    """Listed generations in the order of the list."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Names directly below the region's folder that objects are in."""
        return tuple(sorted({name.partition("/")[0] for name in self.names}))

    @property
    def first_unflushed(self) -> WalPosition:
        """Position from which the WAL is needed; in R the entries of flushed generations above the pointer are not.

        The native writer's pointer may lag behind: replay goes by the generation in each entry.
        """
        if self.newest is None:
            return self.revision.first_position
        start = replay_start(self.newest, self.revision)
        if self.revision.entry_generation:
            current = self.newest.generation_current
            older = [e.position for e in self.entries if e.generation is not None and e.generation < current]
            start = max([start, *(WalPosition(position + 1) for position in older)])
        return start
