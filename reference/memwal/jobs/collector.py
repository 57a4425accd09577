"""The garbage collector: old table versions, merged generations, their WAL entries, and orphan folders.

Source: MemWAL revisions A and B, "Garbage Collector"; AMB-71, 73, 80, 91, 93, 94, 95, 98. Region manifest versions
are never collected (AMB-30).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import paths
from ..clauses import implements
from ..codec.index_details import IndexDetails
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import AlreadyExists, ArtifactError, InvalidArgument, NotFound, OutcomeUnknown, Throttled
from ..ids import Generation, RegionId, TableVersion, WalPosition
from ..index import regions, snapshot
from ..region import manifest as manifests
from ..region.flush import CONFIG_FIRST
from ..region.recovery import replay_start
from ..revisions import CONFIG_WAL_COLLECTION, STRICT, Interpretation, Revision
from ..table.state import TableState, latest, load, versions

TAGS = "_refs/tags"
"""Folder of the table's tags: JSON objects with the member ``version``."""
ATTEMPTS = 20
"""How often removing entries from a region manifest is tried again after losing to another update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the collector decided about one thing, and why."""

    kind: str
    """``version``, ``generation``, ``wal`` or ``orphan``."""
    name: str
    """Object or folder name relative to the table."""
    collected: bool
    """Deleted; in a dry run: would be."""
    reason: str


@implements("GC-001", "GC-002", "GC-003", "GC-004", "GC-008", "GC-010", "GC-013", "GC-014", "AMB-91", "AMB-98")
async def collect(
    io: Io, *, retain_versions: int | None = None, dry_run: bool = False, interpretation: Interpretation = STRICT
) -> tuple[Decision, ...]:
    """Collect what no retained table version and no index needs; returns a decision per thing looked at.

    ``retain_versions``: table versions to keep, at least 1; older ones are expired first. None keeps all.
    """
    if retain_versions is not None and retain_versions < 1:
        raise InvalidArgument(f"at least one table version is retained, not {retain_versions}", clause="GC-003")
    decisions, retained = await _expire(io, retain_versions, dry_run)
    newest = retained[-1]
    for region, manifest in (await regions.discover(io, newest.revision, interpretation)).items():
        decisions += await _collect_region(io, region, manifest, retained, dry_run, interpretation)
    return tuple(decisions)


async def _expire(io: Io, keep: int | None, dry_run: bool) -> tuple[list[Decision], list[TableState]]:
    """Delete table manifests beyond the newest ``keep``, oldest first; returns the retained versions, ascending.

    A version that a tag names is retained.
    """
    found = list(await versions(io))
    if not found:
        raise NotFound(io.path(paths.VERSIONS))
    tagged = await _tags(io)
    decisions, retained = [], []
    for version in found:
        if keep is None or version in found[-keep:] or version in tagged:
            retained.append(await load(io, version))
            continue
        name = paths.table_manifest(version)
        if not dry_run:
            await io.delete(name)
        decisions.append(Decision(kind="version", name=name, collected=True, reason=f"beyond the newest {keep}"))
    return decisions, retained


async def _tags(io: Io) -> set[TableVersion]:
    """Versions that tags of the table name."""
    found: set[TableVersion] = set()
    for name in await io.list(TAGS):
        try:
            content = json.loads(await io.get(name))
            found.add(TableVersion(int(content["version"])))
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError("GC-003", io.path(name), f"not a readable tag: {error!r}") from error
    return found


@implements("GC-011", "CATCHUP-013", "AMB-71", "AMB-72", "AMB-73", "AMB-80")
def kept_because(generation: Generation, region: RegionId, retained: Sequence[TableState]) -> str:
    """Why a generation has to stay; empty if it may go."""
    for state in retained:
        if state.mem_wal_entry is None:
            continue
        progress = state.mem_wal.progress(region)
        if generation > progress:
            return f"above merge progress {progress} of retained table version {state.version}"
    return _uncovered(generation, region, retained[-1].mem_wal)


def _uncovered(generation: Generation, region: RegionId, details: IndexDetails) -> str:
    for name in details.maintained_indexes:
        entry = next((c for c in details.catchup if c.index_name == name), None)
        caught_up = dict(entry.generations).get(region, Generation(0)) if entry else Generation(0)
        if generation > caught_up:
            return f"index {name!r} has caught up to generation {caught_up} only"
    return ""


async def _collect_region(
    io: Io,
    region: RegionId,
    manifest: RegionManifest,
    retained: Sequence[TableState],
    dry_run: bool,
    interpretation: Interpretation,
) -> list[Decision]:
    folder = manifests.folder(io, region)
    revision, relative = retained[-1].revision, paths.region(region)
    decisions, doomed = [], []
    for listed in manifest.flushed:
        reason = kept_because(listed.generation, region, retained)
        name = f"{relative}/{listed.path}"
        text = reason or "merged in every retained table version, and covered by every maintained index"
        decisions.append(Decision(kind="generation", name=name, collected=not reason, reason=text))
        if not reason:
            doomed.append(listed.generation)
    if doomed and not dry_run:
        await _unlist(folder, set(doomed), revision, interpretation)
    for listed in manifest.flushed:
        if listed.generation in doomed and not dry_run:
            await _delete_folder(folder, listed.path)
    decisions += await _collect_wal(folder, relative, manifest, set(doomed), retained[-1], dry_run)
    decisions += await _collect_orphans(folder, relative, retained, dry_run, interpretation)
    return decisions


@implements("MANIFEST-037", "GC-010", "AMB-33", "AMB-93")
async def _unlist(region: Io, doomed: set[Generation], revision: Revision, interpretation: Interpretation) -> None:
    """Remove entries from the region manifest before anything is deleted; nothing else of it changes."""
    for _ in range(ATTEMPTS):
        current = await manifests.require(region, revision, interpretation)
        kept = tuple(g for g in current.flushed if g.generation not in doomed)
        if kept == current.flushed:
            return
        wanted = replace(manifests.following(current), flushed=kept)
        try:
            await manifests.put(region, wanted, revision)
        except (AlreadyExists, OutcomeUnknown, Throttled):
            continue
        await manifests.put_hint(region, wanted.version)
        return
    raise OutcomeUnknown(region.path("manifest"), f"lost {ATTEMPTS} times to other updates")


async def _delete_folder(region: Io, name: str) -> None:
    """Delete a generation's folder, table versions first, so that half of it cannot be opened (AMB-93)."""
    names = await region.list(name)
    for found in sorted(names, key=lambda n: (not n.startswith(f"{name}/{paths.VERSIONS}/"), n)):
        await region.delete(found)


@implements("GC-005", "GC-006", "GC-007", "GC-012", "AMB-25", "AMB-95")
async def _collect_wal(
    region: Io, relative: str, manifest: RegionManifest, gone: set[Generation], newest: TableState, dry_run: bool
) -> list[Decision]:
    """Delete the WAL entries below the first one that a listed generation covers, where the table allows it.

    Generations are collected in ascending order, so that what lies below belongs to collected ones only; entries
    above the replay pointer are never touched. Without the table's consent writers do not verify their puts, and
    nothing is deleted.
    """
    suffix = newest.revision.wal_suffix
    below, why = await _first_needed(region, manifest, gone, newest.revision)
    listed = (paths.wal_position(name, suffix) for name in await region.list("wal"))
    doomed = sorted(position for position in listed if position is not None and position < below)
    if not doomed:
        return []
    if newest.config.get(CONFIG_WAL_COLLECTION) != "on":
        reason = f"config {CONFIG_WAL_COLLECTION} is not on: writers do not verify their puts"
        return [Decision(kind="wal", name=f"{relative}/wal", collected=False, reason=reason)]
    decisions = []
    for position in doomed:
        name = paths.wal(position, suffix)
        if not dry_run:
            await region.delete(name)
        reason = f"position {position} is below {below}, {why}"
        decisions.append(Decision(kind="wal", name=f"{relative}/{name}", collected=True, reason=reason))
    return decisions


async def _first_needed(
    region: Io, manifest: RegionManifest, gone: set[Generation], revision: Revision
) -> tuple[WalPosition, str]:
    """Lowest WAL position that a generation still refers to, or that is not flushed; and which of the two."""
    remaining = sorted((g for g in manifest.flushed if g.generation not in gone), key=lambda g: g.generation)
    if not remaining:
        return replay_start(manifest, revision), "where replay starts"
    lowest = remaining[0]
    config = (await latest(region.child(lowest.path))).config
    if CONFIG_FIRST not in config:
        return WalPosition(0), f"generation {lowest.generation} does not record which entries it covers"
    return WalPosition(int(config[CONFIG_FIRST])), f"the first entry of generation {lowest.generation}"


@implements("GC-009", "AMB-94")
async def _collect_orphans(
    region: Io,
    relative: str,
    retained: Sequence[TableState],
    dry_run: bool,
    interpretation: Interpretation,
) -> list[Decision]:
    """Delete folders of failed flushes: unlisted, and of a generation that can no longer be committed.

    The manifest is read after the folders were listed: a flush of a generation at or above its current one may be
    under way.
    """
    folders = [f for f in await region.list_folders() if paths.generation_number(f) is not None]
    if not folders:
        return []
    manifest = await manifests.require(region, retained[-1].revision, interpretation)
    listed = {g.path for g in manifest.flushed}
    remembered = await _in_snapshots(region, retained)
    decisions = []
    for folder in folders:
        number = paths.generation_number(folder)
        assert number is not None
        if folder in listed:
            continue
        if number >= manifest.generation_current:
            reason, collected = "a flush may still commit it", False
        elif folder in remembered and kept_because(number, manifest.region_id, retained):
            reason, collected = "a retained table version lists it", False
        else:
            reason, collected = f"not listed, and below the current generation {manifest.generation_current}", True
        if collected and not dry_run:
            await _delete_folder(region, folder)
        decisions.append(Decision(kind="orphan", name=f"{relative}/{folder}", collected=collected, reason=reason))
    return decisions


async def _in_snapshots(region: Io, retained: Sequence[TableState]) -> set[str]:
    """Generation folders of this region that a retained version's snapshot lists."""
    table = region.child("../..")
    own = region.root.rpartition("/")[2]
    found: set[str] = set()
    for state in retained:
        if state.mem_wal_entry is None:
            continue
        for row in await snapshot.load(table, state):
            if row.region_id == own and row.manifest is not None:
                found.update(g.path for g in row.manifest.flushed)
    return found
