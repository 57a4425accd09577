"""One table's folder as the judge finds it: regions, manifest versions, WAL entries, generations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import artifacts, table, wal
from .artifacts import Manifest, number_of
from .table import JudgedTableManifest
from .wal import JudgedWalEntry
from .wire import DamagedBytes

_REGION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GENERATION = re.compile(r"[0-9a-fA-F]{8}_gen_([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLayout:
    """What differs between revisions on the store."""

    revision: str
    first_position: int
    container: str
    """``arrow`` or ``lance``; also the suffix of WAL entries."""
    self_contained: bool
    overtaken_barriers: bool = False
    """Whether the barrier of a claim that was overtaken may be behind entries of a higher epoch (AMB-27)."""


LAYOUTS = {
    "A": StoreLayout(revision="A", first_position=1, container="lance", self_contained=False),
    "B": StoreLayout(revision="B", first_position=0, container="arrow", self_contained=True),
    "R": StoreLayout(revision="R", first_position=1, container="arrow", self_contained=True, overtaken_barriers=True),
}
"""MemWAL revisions A and B, "WAL Entry" and "Storage Layout"; revision R as the native implementation writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRegion:
    """One region folder. Faults found while reading are kept, so that a check can report them under its clause."""

    region_id: str
    folder: Path
    manifests: dict[int, Manifest]
    wal: dict[int, JudgedWalEntry]
    wal_names: tuple[str, ...]
    generations: tuple[str, ...]
    """Folders that match the generation pattern, listed or not."""
    strangers: tuple[str, ...]
    """Entries of the region folder that the layout does not have."""
    hint: int | None
    damaged: tuple[tuple[str, DamagedBytes], ...] = field(default=())
    """Name of the object (``manifest/…``, ``wal/…``) and what is wrong with it."""

    @property
    def newest(self) -> Manifest | None:
        """The newest manifest; None if there is none."""
        return self.manifests[max(self.manifests)] if self.manifests else None

    def first_unflushed(self, layout: StoreLayout) -> int:
        """Position where replay starts (AMB-07: in revision B pointer 0 means none as long as nothing was flushed)."""
        manifest = self.newest
        if manifest is None:
            return layout.first_position
        return replay_start(manifest, layout)


def replay_start(manifest: Manifest, layout: StoreLayout) -> int:
    """Position of the first WAL entry that no flushed generation of ``manifest`` covers."""
    if manifest.current_generation <= 1 and manifest.replay_after == 0:
        return layout.first_position
    return manifest.replay_after + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStore:
    """One table's folder."""

    root: Path
    layout: StoreLayout
    key: tuple[str, ...]
    """Primary key columns of the table."""
    table: JudgedTableManifest
    regions: dict[str, JudgedRegion]
    strangers: tuple[str, ...]
    """Names under ``_mem_wal`` that are no region ids."""
    storage: Mapping[str, str] = field(default_factory=dict)
    """Options under which pylance reaches files that tables name by URL."""

    def merged(self, region_id: str) -> int:
        """Merge progress of a region, 0 without an entry (AMB-80)."""
        for details in self.table.memwal:
            for found, generation in details.merged:
                if found == region_id:
                    return generation
        return 0


def generation_number(folder: str) -> int | None:
    """Generation in a folder name; None for any other name."""
    found = _GENERATION.fullmatch(folder)
    return int(found[1]) if found else None


def read(root: Path, revision: str, key: Sequence[str], storage: Mapping[str, str] | None = None) -> JudgedStore:
    """Read the whole folder; ``key`` names the primary key columns, ``storage`` is that of `JudgedStore`.

    Raises `DamagedBytes` if there is no table; damage inside regions is kept in them.
    """
    layout = LAYOUTS[revision]
    folder = root / "_mem_wal"
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    return JudgedStore(
        root=root,
        layout=layout,
        key=tuple(key),
        table=table.newest(root),
        regions={name: region(folder / name, layout) for name in names if _REGION.fullmatch(name)},
        strangers=tuple(name for name in names if not _REGION.fullmatch(name)),
        storage=storage or {},
    )


def region(folder: Path, layout: StoreLayout) -> JudgedRegion:
    """Read one region folder."""
    damaged: list[tuple[str, DamagedBytes]] = []
    manifests: dict[int, Manifest] = {}
    for path in _files(folder / "manifest"):
        version = number_of(path.name, "binpb")
        if version is None:
            continue
        try:
            manifests[version] = artifacts.manifest(path.read_bytes(), folder.name, version)
        except DamagedBytes as error:
            damaged.append((f"manifest/{path.name}", error))
    entries: dict[int, JudgedWalEntry] = {}
    names = tuple(path.name for path in _files(folder / "wal") if ".tmp" not in path.name)
    for name in names:
        position = number_of(name, layout.container)
        if position is None:
            continue
        try:
            entries[position] = wal.decode((folder / "wal" / name).read_bytes(), layout.container)
        except DamagedBytes as error:
            damaged.append((f"wal/{name}", error))
    hint: int | None = None
    hint_file = folder / "manifest" / "version_hint.json"
    if hint_file.exists():
        try:
            hint = artifacts.hint(hint_file.read_bytes())
        except DamagedBytes as error:
            damaged.append(("manifest/version_hint.json", error))
    inside = sorted(p.name for p in folder.iterdir())
    generations = tuple(name for name in inside if generation_number(name) is not None)
    return JudgedRegion(
        region_id=folder.name,
        folder=folder,
        manifests=dict(sorted(manifests.items())),
        wal=dict(sorted(entries.items())),
        wal_names=names,
        generations=generations,
        strangers=tuple(name for name in inside if name not in ("manifest", "wal", *generations)),
        hint=hint,
        damaged=tuple(damaged),
    )


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []
