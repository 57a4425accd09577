"""Where a table is, and how coroutines run on its store; and the names by which callers pick revision and profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..clauses import implements
from ..codec.scratch import READS_OPENED
from ..drive import Listener, _no_listener, drive
from ..effects import Commits, Io, Protocol
from ..errors import AlreadyExists, ArtifactError, InvalidArgument, NotFound, Outcome, check_name
from ..ids import RegionId, region_id
from ..remembered import REMEMBERED_BYTES, ReadMemory
from ..revisions import CONFIG_COMMITS, PROFILES, REVISIONS, Interpretation, Revision
from ..stores import ManifestStore, open_store
from ..stores.base import Store
from ..stores.key_value import KeyValue, WithExternal
from ..stores.manifest_store import Located, open_manifest_store
from ..table import versions as naming
from ..table.state import TableState, versions
from ..words import counted

T = TypeVar("T")

Where: TypeAlias = str | Path | Any
"""A path, a URL, or a pylance dataset."""
Profile: TypeAlias = str | Interpretation
"""``strict``, ``literal``, or readings of one's own."""
PROFILE = "strict"
"""How the texts are read by default. It is chosen when the table is opened; nothing below has a default."""


def named_revision(name: str | Revision) -> Revision:
    if isinstance(name, Revision):
        return name
    check_name("revision", name, REVISIONS, clause="AMB-01")
    return REVISIONS[name]


def named_profile(name: Profile) -> Interpretation:
    if isinstance(name, Interpretation):
        return name
    check_name("profile", name, PROFILES)
    return PROFILES[name]


class Naming:
    """A context manager by which failures inside of it say of which ``table`` they are."""

    __slots__ = ("table",)

    def __init__(self, table: str) -> None:
        self.table = table

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, failure: BaseException | None, __: object) -> None:
        if isinstance(failure, Outcome | ArtifactError):
            failure.table = failure.table or self.table


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is."""

    store: Store
    io: Io
    listener: Listener = _no_listener
    memory: ReadMemory = field(default_factory=ReadMemory)
    """Of what was worked out of stored objects."""

    def run(self, coroutine: Protocol[T]) -> T:
        with self.named():
            return drive(coroutine, self.store, self.listener, self.memory, concurrent=self.io.concurrent)

    def named(self) -> Naming:
        """What leaves this says where the table is: names of objects are those inside of it."""
        return Naming(self.io.location)


def find(
    url: Where,
    storage_options: Mapping[str, str] | None,
    store: Store | None,
    listener: Listener | None,
    profile: Profile,
    manifest_store: ManifestStore | None = None,
    remember_bytes: int | None = None,
) -> Place:
    """Where ``url`` is: in ``store``, or in the one that it names. ``profile``: how the texts are read there.

    ``remember_bytes``: how much of what was worked out of stored objects is kept in memory; None: `REMEMBERED_BYTES`,
    and nothing where the caller hands the store over.

    With ``manifest_store`` tables there are committed through it. Its entries carry names inside of ``store``, or
    absolute names where ``url`` names the store: local ones without symbolic links.
    """
    url, listener = _named(url), listener or _no_listener
    interpretation = named_profile(profile)
    most_bytes = (REMEMBERED_BYTES if store is None else 0) if remember_bytes is None else remember_bytes
    memory, remembers = ReadMemory(most_bytes), most_bytes > 0
    if store is not None:
        place = Place(store, Io(str(url), interpretation=interpretation, remembers=remembers), listener, memory)
        return _arbitrated(place, open_manifest_store(manifest_store)) if manifest_store is not None else place
    text = str(url)
    opened, root = open_store(text, storage_options)
    local = "://" not in text or text.startswith("file://")
    location = str(Path(text.removeprefix("file://")).absolute()) if local else text.rstrip("/")
    named = "" if text.startswith("memory://") else location
    is_bucket = not local and not text.startswith("memory://")
    io = Io(
        root,
        location=named,
        interpretation=interpretation,
        remembers=remembers,
        concurrent=is_bucket,
        files=local and READS_OPENED,
    )
    place = Place(opened, io, listener, memory)
    if manifest_store is None:
        return place
    base = str(Path(location).resolve()) if local else location.removesuffix(root).rstrip("/")
    return _arbitrated(place, Located(open_manifest_store(manifest_store), base))


def _named(url: object) -> str | Path:
    """``url``, or where the pylance dataset is that it is; raises `InvalidArgument` for anything else."""
    named = getattr(url, "uri", url)
    if not isinstance(named, str | Path):
        raise InvalidArgument(f"a table is named by a path, a URL or a pylance dataset, not by {type(url).__name__}")
    return named


def _arbitrated(place: Place, external: KeyValue) -> Place:
    return replace(place, store=WithExternal(place.store, external), io=replace(place.io, commits=Commits.EXTERNAL))


def parsed_region(region: str) -> RegionId:
    try:
        return region_id(region)
    except ValueError as error:
        raise InvalidArgument(f"not a region id: {region!r} ({error})", clause="AMB-36") from error


@implements("TXN-006")
def check_mechanism(place: Place, current: TableState) -> None:
    """Raise `InvalidArgument` if the caller names an external manifest store and the table does not record one.

    Others create versions of such a table without it, and neither would see the other.
    """
    if place.io.commits is Commits.EXTERNAL and current.config.get(CONFIG_COMMITS) != Commits.EXTERNAL.value:
        reason = "this table is committed without an external manifest store; memwal.enable or create it with one"
        raise InvalidArgument(f"{current.path}: {reason}", clause="TXN-006")


def found(place: Place, looking: Protocol[T]) -> T:
    """What is there; where it is not, the error says in a sentence which table or which of its versions is missing."""
    try:
        return place.run(looking)
    except NotFound as missing:
        location = place.io.location
        path = f"{location}/{missing.path}" if location else missing.path
        raise NotFound(path, _said(place, location or place.io.root, missing)) from None


def taken(place: Place, there: AlreadyExists) -> AlreadyExists:
    """What a call that creates a table raises where there is one."""
    table = place.io.location or place.io.root
    return AlreadyExists(there.path, f"there is already a table at {table}: open it, or choose another path")


def _said(place: Place, table: str, missing: NotFound) -> str:
    known = place.run(versions(place.io))
    if not known:
        return f"there is no table at {table}: check the path, or create the table"
    parsed = naming.parse(missing.path)
    wanted = f"version {parsed[0]}" if parsed is not None else missing.path
    return f"{table} has no {wanted}: it has {counted(len(known), 'version')}, from {known[0]} to {known[-1]}"
