"""Region manifest versions: finding the newest, and creating the next.

Requests in the undisturbed case. `latest`: the hint, the version that it names, and a HEAD of the version above; where
versions may have been collected a HEAD of the version below too. These two HEADs are all for a reader of the newest
version before. `advance`: those of `latest`, the conditional put, and the put of the hint; where versions may be
collected a LIST between the two puts.

Source: MemWAL revisions A and B, "Region Manifest Versioning".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from .. import confirm, paths
from ..clauses import implements
from ..codec import hint, region_manifest
from ..codec.region_manifest import RegionManifest
from ..effects import Commits, Io, remembered
from ..errors import (
    AlreadyExists,
    ArtifactError,
    EngineBug,
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    StorageError,
    Throttled,
)
from ..ids import UINT64_MAX, ManifestVersion, Milliseconds, RegionId
from ..revisions import Revision
from . import transitions
from .transitions import Trigger

RETAINED_LEAST = 2
"""Manifest versions that a collector has to leave (AMB-96)."""
_MESSAGE_FACTOR = 4
"""How many times as large as its bytes a manifest is in memory."""
_PAUSE_MS = 10
_DOUBLINGS = 7


def folder(table: Io, region: RegionId) -> Io:
    """The region's folder.

    Its manifests need conditional puts whatever the table is committed by, and its generations are put like them: an
    external manifest store has nothing but the versions of the table. Its `Io.location` follows from the table's.
    """
    name = paths.region(region)
    return table.child(name, Commits.PUT, f"{table.location}/{name}" if table.location else "")


@implements(
    "MANIFEST-001", "MANIFEST-029", "MANIFEST-030", "MANIFEST-031", "MANIFEST-032", "MANIFEST-033", "FENCE-004",
    "AMB-30", "AMB-31", "AMB-32",
)  # fmt: skip
async def latest(
    io: Io, revision: Revision, *, collected: bool = True, read: RegionManifest | None = None
) -> RegionManifest | None:
    """The newest manifest of the region at ``io``, or None if the region has none.

    Starts at the hint (or at 1), or at ``read``, which the caller has read before, and probes upward until a version
    is missing. Lists only where the first probe fails, where the hint is damaged, or where what was found may be a
    stale copy of a collected version: then the version below it is gone. So a hint that is ahead, behind, missing or
    rolled back never makes a region look new or old.

    ``collected``: whether versions may have been deleted, by any process. Only a caller that knows of none saves the
    question. What is left open then takes three faults at once: stale copies of two neighbours, and a hint that was
    rolled back to the upper one; nothing can be committed on top of it, since `advance` lists.
    """
    # MANIFEST-029, where to start: the hint, or version 1. A version that was read is as good: none ever changes.
    start = read.version if read is not None else await hinted(io)
    lists = io.interpretation.list_when_hint_fails
    # AMB-30, numbers are freed by collection: only then can a version be a stale copy.
    guarded = collected and lists and io.interpretation.guard_collected_versions
    found = await _climbed(io, start or ManifestVersion(1), revision, guarded, read) if start or not lists else None
    return await newest_listed(io, revision) if found is None and lists else found


async def hinted(io: Io) -> ManifestVersion | None:
    """The version at which readers start: the one that the hint names, 1 without a hint, None if it is damaged."""
    name = paths.VERSION_HINT
    try:
        found = hint.decode(await io.get(name), io.path(name))
    except NotFound:
        return ManifestVersion(1)
    if found is None:
        await io.note("hint_damaged", path=io.path(name))
    return found


async def _climbed(
    io: Io, start: ManifestVersion, revision: Revision, guarded: bool, read: RegionManifest | None
) -> RegionManifest | None:
    """The last version from ``start`` on without a gap; None if there is none, or if it may be a stale copy."""
    try:
        data = await _stored(io, start) if read is None else b""
        top = start
        # MANIFEST-030, MANIFEST-031: upward until one is missing, whatever the hint says.
        while top < UINT64_MAX and await _exists(io, ManifestVersion(top + 1)):
            top = ManifestVersion(top + 1)
        # A version whose neighbour below is gone begins the block that was kept, or is a stale copy: list.
        if guarded and (top == 1 or not await _exists(io, ManifestVersion(top - 1))) and not await _is_newest(io, top):
            return None
        if read is not None and top == start:
            return read
        # MANIFEST-032, HEAD requests: what lies between the first and the last is not read.
        if top > start:
            data = await _stored(io, top)
    except NotFound:
        return None
    return await _decoded(io, top, data, revision)


async def _stored(io: Io, version: ManifestVersion) -> bytes:
    """The bytes of a version, which never change. Raises `NotFound`."""
    name = paths.manifest(version)
    return await remembered(io, ("region manifest", io.path(name)), partial(io.get, name), len)


async def _decoded(io: Io, version: ManifestVersion, data: bytes, revision: Revision) -> RegionManifest:
    """What ``data``, the bytes of a version, say. Raises `ArtifactError` for damaged ones."""
    path = io.path(paths.manifest(version))

    async def made() -> RegionManifest:
        return region_manifest.decode(data, revision, path)

    what = ("decoded region manifest", path, revision.name)
    return await remembered(io, what, made, lambda _: _MESSAGE_FACTOR * len(data), of=[path])


async def _exists(io: Io, version: ManifestVersion) -> bool:
    try:
        await io.head(paths.manifest(version))
    except NotFound:
        return False
    return True


async def versions(io: Io) -> tuple[ManifestVersion, ...]:
    """The versions that are there, ascending, by listing; other files in the folder are ignored."""
    listed = (paths.manifest_version(name) for name in await io.list("manifest"))
    return tuple(sorted(version for version in listed if version is not None))


async def _is_newest(io: Io, version: ManifestVersion) -> bool:
    return (await versions(io))[-1:] == (version,)


@implements("AMB-31", "AMB-32", "AMB-143")
async def newest_listed(io: Io, revision: Revision) -> RegionManifest | None:
    """The newest manifest by listing, whatever the hint says; None if the region is new. Gaps are noted.

    A region has a manifest before it has anything else: raises `ArtifactError` if it has WAL entries or generations
    and no manifest, seen twice. Whatever held them was lost, and creating the region anew would begin a second history.
    """
    return await confirm.damage(partial(_newest_listed, io, revision))


async def _newest_listed(io: Io, revision: Revision) -> RegionManifest | None:
    gone = ManifestVersion(0)
    for _ in range(confirm.ATTEMPTS):
        folders = await io.list_folders()
        listed = await versions(io) if "manifest" in folders else ()
        if not listed:
            if "wal" in folders or any(paths.generation_number(name) is not None for name in folders):
                raise ArtifactError("AMB-143", io.root, "the region has a WAL or generations, and no manifest")
            return None
        # AMB-32, gaps: collection is ascending and leaves none. Damage below the newest does no harm.
        if listed[-1] - listed[0] >= len(listed):
            await io.note("manifest_gap", versions=listed)
        try:
            return await read(io, listed[-1], revision)
        except NotFound:
            # It was overtaken and collected between the two requests: list again.
            gone = listed[-1]
    raise NotFound(io.path(paths.manifest(gone)))


async def read(io: Io, version: ManifestVersion, revision: Revision) -> RegionManifest:
    """One manifest version. Raises `NotFound`, or `ArtifactError` for damaged bytes."""
    return await _decoded(io, version, await _stored(io, version), revision)


def present(found: RegionManifest | None, io: Io) -> RegionManifest:
    """``found``; raises `ArtifactError` if the region at ``io`` has no manifest."""
    if found is None:
        raise ArtifactError("AMB-143", io.root, "the region has no manifest")
    return found


async def require(io: Io, revision: Revision, *, collected: bool = True) -> RegionManifest:
    """`latest`, where a region without a manifest is an error."""
    return present(await latest(io, revision, collected=collected), io)


def following(manifest: RegionManifest) -> RegionManifest:
    """A copy under the next version number, to be changed by exactly one trigger's fields.

    Raises `ArtifactError` where no number is left.
    """
    if manifest.version == UINT64_MAX:
        raise ArtifactError("MANIFEST-018", paths.region(manifest.region_id), "no version follows the largest number")
    return replace(manifest, version=ManifestVersion(manifest.version + 1))


Derive = Callable[[RegionManifest | None], Awaitable[RegionManifest | None]]
"""Newest manifest (None: the region has none) -> the one that is to follow it; None if there is nothing to do.

Raises whatever ends the step. An `ArtifactError` is believed only of a version that a listing showed to be the newest:
otherwise `advance` lists and asks again.
"""


@dataclass(frozen=True, slots=True)
class Advanced:
    """How a step of a region's manifest ended."""

    manifest: RegionManifest | None
    """The newest that the process knows."""
    committed: bool
    """Whether it is the process's own new version."""


@implements(
    "MANIFEST-019", "MANIFEST-020", "MANIFEST-021", "MANIFEST-022", "MANIFEST-023", "MANIFEST-039", "AMB-29", "AMB-30",
    "AMB-33", "AMB-37", "AMB-138",
)  # fmt: skip
async def advance(
    io: Io,
    revision: Revision,
    trigger: Trigger,
    derive: Derive,
    *,
    collected: bool,
    insist: bool = True,
) -> Advanced:
    """Read the newest manifest, derive the next from it, create that, confirm it, point the hint at it.

    An attempt that lost, was not answered, or turned out to stand on a collected version is void: the whole cycle
    runs again on what is newest then. Losing to others is no failure and is not counted; after `confirm.ATTEMPTS`
    attempts without an answer the last outcome is raised. With ``insist`` false one attempt is all.

    ``trigger``: what the step is; that it changes no more than that is asserted, unless the reading is the literal one
    of AMB-29, by which a step is derived from what was read first. ``collected``: whether manifest versions of the
    table may be deleted (`CONFIG_MANIFEST_COLLECTION`).
    """
    guarded = collected and io.interpretation.guard_collected_versions
    listing = False
    losses = fruitless = 0
    version_before = -1
    unsure: OutcomeUnknown | None = None
    try:
        while True:
            current = await _newest(io, revision, collected, listing)
            try:
                wanted = await derive(current)
            except ArtifactError:
                # What could be a stale version is no ground for an error: look again by listing.
                if listing:
                    raise
                listing = True
                continue  # the same question once more, of the version that a listing shows
            if wanted is None:
                return Advanced(current, committed=False)
            # Not in the literal reading of AMB-29 (check and act), where a step stands on what was read first.
            if io.interpretation.reverify_each_attempt:
                transitions.check(trigger, current, wanted, revision)
            listing = False
            failure: AlreadyExists | OutcomeUnknown | Throttled
            try:
                # MANIFEST-020, MANIFEST-021: the next number, by a create that fails when it is taken.
                await io.put_if_absent(paths.manifest(wanted.version), region_manifest.encode(wanted, revision))
                if guarded:
                    unsure = OutcomeUnknown(io.path(paths.manifest(wanted.version)), "created, and not confirmed")
                # AMB-30, numbers are freed: a create may have succeeded at one that was collected, and is void then.
                if not guarded or await _stands(io, wanted.version):
                    await put_hint(io, wanted.version)
                    return Advanced(wanted, committed=True)
                await io.note("manifest_void", version=wanted.version)
                failure, listing = AlreadyExists(io.path(paths.manifest(wanted.version))), True
            except (AlreadyExists, OutcomeUnknown, Throttled) as outcome:
                failure = outcome
            # Who only refreshes a hint does not compete for it: the winner's manifest is as good.
            if not insist:
                await io.note("manifest_lost", version=wanted.version, reason=str(failure))
                return Advanced(current, committed=False)
            if isinstance(failure, OutcomeUnknown):
                unsure = failure
            # AMB-138, bounded retries: the loser to another sees progress; no answer, or the same number, is none.
            if not isinstance(failure, AlreadyExists) or wanted.version == version_before:
                fruitless += 1
            if fruitless >= confirm.ATTEMPTS:
                raise unsure or failure
            # MANIFEST-022, the loser: starts again from what is stored by then.
            version_before = wanted.version
            await io.sleep(Milliseconds(_PAUSE_MS * 2 ** min(losses, _DOUBLINGS)))
            losses += 1
    except (Throttled, StorageError) as refused:  # of the last request; an earlier one may have been applied
        if unsure is None:
            raise
        raise OutcomeUnknown(unsure.path, f"{unsure.fields['reason']}, and then {refused}") from refused


async def _newest(io: Io, revision: Revision, collected: bool, listing: bool) -> RegionManifest | None:
    if listing:
        return await newest_listed(io, revision)
    return await latest(io, revision, collected=collected)


@implements("AMB-30")
async def _stands(io: Io, version: ManifestVersion) -> bool:
    """Whether the version just created is the newest, which no number is that was there before and was collected.

    The newest version is never collected, so that a listing shows a larger one if this number was ever taken. The
    version below proves less: it may itself be a stale copy, and version 1 has none. A version that can only be such
    a copy is deleted: the next one is missing, and larger ones exist.
    """
    listed = await versions(io)
    if listed[-1:] == (version,):
        return True
    # Only a stale copy has no next version below a larger one; what was overtaken has, and stays.
    if version in listed and version + 1 not in listed:
        try:
            await io.delete(paths.manifest(version))
        except (OutcomeUnknown, Throttled, StorageError) as failed:
            await io.note("stale_version_left", version=version, reason=str(failed))
    return False


@implements("MANIFEST-026", "MANIFEST-027", "MANIFEST-028", "AMB-31")
async def put_hint(io: Io, version: ManifestVersion) -> None:
    """Point the hint at ``version``, which exists. Best effort: a failure changes no outcome.

    The hint that the process has read named an older version or none that exists, so that it never goes back by
    what the process knows.
    """
    try:
        # MANIFEST-027, MANIFEST-028: best effort. Whatever becomes of it, the version is committed.
        await io.put(paths.VERSION_HINT, hint.encode(version))
    except (OutcomeUnknown, Throttled, StorageError) as failure:
        await io.note("hint_failed", version=version, reason=str(failure))


@implements("AMB-30", "AMB-32", "AMB-96")
def collectable(
    listed: Sequence[ManifestVersion], hinted: ManifestVersion | None, retain: int
) -> tuple[ManifestVersion, ...]:
    """Of the versions ``listed``, ascending, those that a collector may delete, in the order in which it has to.

    ``retain`` versions stay, at least `RETAINED_LEAST`, and so does whatever is not below the one that the hint names.
    Deletion is ascending, so that what remains is one block up to the newest. Raises `InvalidArgument`.
    """
    if retain < RETAINED_LEAST:
        reason = f"at least {RETAINED_LEAST} manifest versions are retained, not {retain}"
        raise InvalidArgument(reason, clause="AMB-96")
    if any(below >= above for below, above in pairwise(listed)):
        raise EngineBug(f"manifest versions are to be collected in ascending order, and were listed as {listed}")
    kept = {*listed[-retain:], *(version for version in listed if version == hinted)}
    return tuple(version for version in listed if version < min(kept))
