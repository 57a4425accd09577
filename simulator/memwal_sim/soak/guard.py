"""The oracle of deletions: at the moment of each one, no process may still need the object.

It looks at the newest table version and the newest manifest of the region only, decoded from the store, and shares no
rule with the collector: what these two need may never go, whichever process deletes it.
"""

from __future__ import annotations

from typing import Any

from memwal import paths
from memwal.effects import Delete, StoreRequest
from memwal.ids import RegionId, region_id
from memwal.stores.memory import Objects
from memwal.table import read, versions
from memwal.violations import Violation

from .views import ROOT, Views

DELETIONS = "nothing that is needed is deleted"


class Guard:
    """Judges deletions against the store as it is right before them."""

    def __init__(self, store: Objects, views: Views) -> None:
        self._store, self._views = store, views
        self.judged = 0
        """Deletions of objects that were there."""

    def judge(self, request: StoreRequest[Any]) -> Violation | None:
        """None if ``request`` deletes nothing, or nothing that is needed."""
        if not isinstance(request, Delete) or request.path not in self._store:
            return None
        self.judged += 1
        below = request.path.removeprefix(f"{ROOT}/")
        clause, reason = self._needed(below)
        shown = (("path", below),)
        return Violation(clause, DELETIONS, f"{below} is deleted: {reason}", shown) if reason else None

    def _needed(self, below: str) -> tuple[str, str]:
        first, _, rest = below.partition("/")
        if first != paths.MEM_WAL:
            return self._needed_by_table(below, first)
        region, _, rest = rest.partition("/")
        return self._needed_by_region(region_id(region), rest)

    def _needed_by_table(self, below: str, first: str) -> tuple[str, str]:
        newest = self._views.table()
        words = f"table version {newest.version}, the newest, needs it"
        if first == paths.VERSIONS:
            parsed = versions.parse(below)
            return "GC-003", words if parsed is not None and parsed[0] == newest.version else ""
        named = {paths.data_file(file.path) for fragment in newest.fragments for file in fragment.files}
        named |= {read.deletion_path(f) for f in newest.fragments if f.HasField("deletion_file")}
        folders = {_hyphenated(index.uuid.uuid) for index in newest.manifest.indices}
        in_index = first == paths.INDICES and below.split("/")[1] in folders
        return "GC-003", words if below in named or in_index else ""

    def _needed_by_region(self, region: RegionId, rest: str) -> tuple[str, str]:
        manifest = self._views.region(region)
        if manifest is None:
            return "GC-007", "its region has no manifest"
        folder, _, file = rest.partition("/")
        if folder == "manifest":
            version = paths.manifest_version(rest)
            newest = version == manifest.version
            return "AMB-30", f"version {version} is the newest of its region" if newest else ""
        if folder == "wal":
            position = paths.wal_position(rest, self._views.revision.wal_suffix)
            start = self._views.replay_start(manifest)
            if position is not None and position >= start:
                return "GC-007", f"replay of its region starts at {start}"
            return "GC-006", "a listed generation names it" if file in self._views.named_entries(manifest) else ""
        generation = paths.generation_number(folder)
        if generation is None:
            return "GC-007", f"it is not known what {file} is"
        if any(listed.path == folder for listed in manifest.flushed):
            return "AMB-93", "the region manifest lists its generation"
        if generation >= manifest.generation_current:
            return "AMB-94", f"a flush of generation {generation} may be under way"
        merged = self._views.merged(region)
        elsewhere = any(listed.generation == generation for listed in manifest.flushed)
        lost = generation > merged and not elsewhere
        return "GC-001", f"the base table has merged up to generation {merged} only" if lost else ""


def _hyphenated(identity: bytes) -> str:
    text = identity.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
