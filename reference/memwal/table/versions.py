"""The versions of a table as objects: their names, how they are found, and how one is created.

Source: table documents, "Manifest Naming Schemes", "Storage Primitives" and "External Manifest Store"; AMB-119, 120,
121, 124, 125.

With an external manifest store an entry says where the manifest of a version is: under a staged name that ends in a
UUID until it was copied to its final one. A process that meets a staged name finishes the copy, so that at most one
version is not final: a committer reads the version before its own first.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from operator import itemgetter

from .. import confirm, paths
from ..clauses import implements
from ..effects import Commits, Io
from ..errors import AlreadyExists, ArtifactError, NotFound, OutcomeUnknown, StorageError, Throttled
from ..ids import UINT64_MAX, TableVersion

_STEM = re.compile(r"([0-9]{1,20})\.manifest")
_NAMES = 1 << 12
"""So many names of manifests are not parsed anew where they are listed again."""
_STAGED = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)


class Scheme(Enum):
    """How manifests of a table are named."""

    V1 = "V1"
    """The version in decimal."""
    V2 = "V2"
    """The largest 64-bit number minus the version, in 20 digits: the newest version sorts first."""


@implements("TXN-018", "TXN-019", "TXN-020")
def name(version: TableVersion, scheme: Scheme = Scheme.V2) -> str:
    """Final name of the manifest of ``version``, relative to the table."""
    stem = str(version) if scheme is Scheme.V1 else f"{UINT64_MAX - version:020d}"
    return f"{paths.VERSIONS}/{stem}.manifest"


@lru_cache(maxsize=_NAMES)
@implements("AMB-120")
def parse(file: str) -> tuple[TableVersion, Scheme] | None:
    """Version and scheme of a final manifest name; None for anything else, staged manifests included."""
    found = _STEM.fullmatch(file.rpartition("/")[2])
    if found is None:
        return None
    number = int(found[1])
    if len(found[1]) == 20:
        return (TableVersion(UINT64_MAX - number), Scheme.V2) if number < UINT64_MAX else None
    return (TableVersion(number), Scheme.V1) if number and not found[1].startswith("0") else None


@dataclass(frozen=True, slots=True)
class Listing:
    """The versions of a table that can be found."""

    schemes: tuple[tuple[TableVersion, Scheme], ...]
    """Ascending by version; the scheme under which each is named."""

    @property
    def versions(self) -> tuple[TableVersion, ...]:
        return tuple(version for version, _ in self.schemes)

    @property
    def scheme(self) -> Scheme:
        """The table's scheme: that of its newest version; V2 for a table that is not there yet."""
        return self.schemes[-1][1] if self.schemes else Scheme.V2

    @property
    def mixed(self) -> bool:
        """Names of both schemes are there, which no writer should have made (AMB-120)."""
        return any(scheme is not self.scheme for _, scheme in self.schemes)

    def name(self, version: TableVersion) -> str:
        """Final name of ``version``: as listed, or as the table's scheme has it."""
        return name(version, dict(self.schemes).get(version, self.scheme))


@implements("TXN-008", "TXN-021", "AMB-119")
async def listing(io: Io) -> Listing:
    """All versions of the table at ``io``; the folder of versions decides, not a pointer to the latest.

    With an external store, versions that only it knows are listed too.
    """
    found = dict(parsed for file in await io.list(paths.VERSIONS) if (parsed := parse(file)) is not None)
    if io.commits is Commits.EXTERNAL:
        scheme = Listing(tuple(sorted(found.items(), key=itemgetter(0)))).scheme
        for key in await io.external.list():
            found.setdefault(_version_of(io, key), scheme)
    listed = Listing(tuple(sorted(found.items(), key=itemgetter(0))))
    if listed.mixed:
        await io.note("mixed_manifest_names", folder=io.path(paths.VERSIONS))
    return listed


def _version_of(io: Io, key: str) -> TableVersion:
    if not (key.isdecimal() and int(key) > 0):
        raise ArtifactError("EXT-006", io.external.path(key), "a key of the external manifest store is not a version")
    return TableVersion(int(key))


def _key(version: TableVersion) -> str:
    return f"{version:020d}"


@implements("TXN-001", "TXN-005", "TXN-006")
async def create(io: Io, version: TableVersion, data: bytes, scheme: Scheme = Scheme.V2) -> None:
    """Create ``version`` with the manifest ``data``, by what `Io.commits` names; exactly one of several wins.

    Raises `AlreadyExists` when another won, and `OutcomeUnknown` or `Throttled` when the attempts are used up.
    """
    final = name(version, scheme)
    match io.commits:
        case Commits.PUT:
            await confirm.create(io, final, data)
        case Commits.RENAME:
            await _create_by_rename(io, final, data)
        case Commits.EXTERNAL:
            await _create_externally(io, version, final, data)


async def _stage(io: Io, final: str, data: bytes) -> str:
    staged = f"{final}-{uuid.UUID(hex=await io.random_hex(32), version=4)}"
    await confirm.create_unconditionally(io, staged, data)
    return staged


@implements("TXN-005")
async def _create_by_rename(io: Io, final: str, data: bytes) -> None:
    staged = await _stage(io, final, data)
    try:
        await confirm.rename(io, staged, final, data)
    except AlreadyExists:
        await _drop(io, staged)
        raise


@implements("EXT-004", "EXT-005", "EXT-006", "EXT-007", "EXT-008", "EXT-009", "EXT-010")
async def _create_externally(io: Io, version: TableVersion, final: str, data: bytes) -> None:
    """Stage, enter, copy, enter again. The version is decided by the second step; readers can do the last two.

    Where the second step was not answered, a reader may have finished the commit and changed the entry: then the final
    manifest holds our bytes, which name our transaction.
    """
    staged = await _stage(io, final, data)
    try:
        await confirm.create(io.external, _key(version), io.path(staged).encode())
    except AlreadyExists:
        try:
            ours = await confirm.is_ours(io, final, data)
        except (Throttled, StorageError) as refused:  # of a read: it may be ours all the same
            raise OutcomeUnknown(io.path(final), f"the version is entered, and whose it is {refused}") from refused
        if ours:
            await io.note("commit_finished_by_a_reader", version=version)
        else:
            await _drop(io, staged)
            raise
    try:
        await _finalise(io, version, staged, final)
    except (OutcomeUnknown, Throttled, StorageError, NotFound) as left:
        await io.note("finalisation_left_to_readers", version=version, reason=str(left))


async def _finalise(io: Io, version: TableVersion, staged: str, final: str) -> None:
    await io.copy(staged, final)
    await io.external.put(_key(version), io.path(final).encode())
    await _drop(io, staged)


async def _drop(io: Io, staged: str) -> None:
    """Delete a staged manifest that nothing refers to; one that stays is harmless."""
    try:
        await io.delete(staged)
    except (OutcomeUnknown, Throttled, StorageError) as failure:
        await io.note("staged_manifest_left", name=staged, reason=str(failure))


@implements("EXT-011", "EXT-012", "EXT-013", "EXT-014", "EXT-015", "EXT-016", "AMB-124", "AMB-125")
async def locate(io: Io, version: TableVersion, final: str) -> str:
    """Final name of ``version``, after finishing a commit that its writer left half done.

    Raises `ArtifactError` if the external store names a manifest that cannot be brought to its final name. A version
    that the external store does not know was committed before the table had one.
    """
    if io.commits is not Commits.EXTERNAL:
        return final
    for _ in range(2):
        try:
            entry = (await io.external.get(_key(version))).decode()
        except NotFound:
            return final
        relative = _inside(io, version, entry)
        if _STAGED.search(relative) is None:
            return relative
        try:
            await _finalise(io, version, relative, _STAGED.sub("", relative))
        except NotFound:
            continue
        return _STAGED.sub("", relative)
    reason = f"the external manifest store names {entry!r} for version {version}, and it is not there"
    raise ArtifactError("EXT-012", io.path(final), reason)


def _inside(io: Io, version: TableVersion, entry: str) -> str:
    try:
        relative = io.relative(entry)
    except ValueError:
        relative = ""
    parsed = parse(_STAGED.sub("", relative))
    if parsed is None or parsed[0] != version:
        reason = f"the entry for version {version} names {entry!r}, which is not a manifest of it in this table"
        raise ArtifactError("EXT-006", io.external.path(_key(version)), reason)
    return relative


async def remove(io: Io, version: TableVersion, final: str) -> None:
    """Delete a version that nothing retains, ``final`` being its name; its entry in the external store goes first.

    Deleting what is not there succeeds. Raises `OutcomeUnknown` or `Throttled` when the attempts are used up.
    """
    if io.commits is Commits.EXTERNAL:
        await confirm.delete(io.external, _key(version))
    await confirm.delete(io, final)
