"""Table versions: which are retained, and how the others are expired.

**Why this is safe.** The newest version, tagged ones and those that branches start from always stay. A version is
expired by deleting its manifest, lowest number first, so that what remains is one upper block, tags aside, and the
newest is found by a listing. Before that its manifest is copied to `EXPIRED`: a collector that stops anywhere
leaves a record of the files that only that version needed, and a tag that was made while the version was expired
gets it back, from the next collector if this one stops.

**What it rests on.** A reader of a version that is expired meanwhile fails with an error and reads a newer one. But a
commit that read version v and was delayed until v + 1 is expired finds that number free, and a Restore or a tag that
looked at a version before it was expired may name it afterwards. The grace time is for these: it has to be longer than
any operation takes from reading a version to committing. A shallow clone elsewhere that names this table's files is
not seen: tag the version that it was made of.

Source: MemWAL revisions A and B, "Garbage Collector"; table documents, "Manifest Naming Schemes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import confirm, paths
from ...clauses import implements
from ...codec import json_text, table_manifest
from ...codec.table_manifest import TableManifest
from ...effects import Commits, Io
from ...errors import AlreadyExists, ArtifactError, NotFound, StorageError
from ...ids import Milliseconds, TableVersion
from ...table import versions as naming
from ...table.state import TableState, load, timestamp_ms
from . import names
from .decision import Decision, Eligibility, KeepRule, lasting
from .ledger import Ledger
from .policy import Policy

TAGS = "_refs/tags"
"""Folder of the table's tags: JSON objects with the member ``version``."""
BRANCHES = "_refs/branches"
"""Folder of the table's branches: JSON objects with the member ``parentVersion``."""
EXPIRED = "_expired"
"""Folder for the manifests of expired versions whose files are not collected yet. Readers do not look here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVersion:
    """A version that was found, and what decides on it."""

    state: TableState
    newer: int
    """How many versions above it were found."""
    superseded_ms: Milliseconds | None
    """Time stamp of the version after it; None for the newest and where that has none."""
    references: tuple[str, ...]
    """Tags and branches that name it, in words."""
    policy: Policy
    now_ms: Milliseconds

    @property
    def version(self) -> TableVersion:
        return self.state.version

    @property
    def was_newest_within_grace(self) -> bool:
        """Whether a process that started within the grace time may have taken it for the newest version."""
        if not self.newer:
            return True
        if not self.policy.grace_ms:
            return False
        return self.superseded_ms is None or self.superseded_ms > self.now_ms - self.policy.grace_ms


def _newest(held: FoundVersion) -> str:
    return "" if held.newer else "the newest version"


def _counted(held: FoundVersion) -> str:
    keep, age = held.policy.retain_versions, held.policy.retain_age_ms
    if keep is None:
        return "every version is retained" if age is None else ""
    return f"among the newest {keep}" if held.newer < keep else ""


def _young(held: FoundVersion) -> str:
    age = held.policy.retain_age_ms
    if age is None:
        return ""
    made_ms = timestamp_ms(held.state)
    if made_ms is None:
        return "it has no time stamp that tells its age"
    return f"younger than {lasting(age)}" if made_ms > held.now_ms - age else ""


def _referenced(held: FoundVersion) -> str:
    return ", ".join(held.references)


def _in_grace(held: FoundVersion) -> str:
    return (
        f"was the newest version less than {lasting(held.policy.grace_ms)} ago" if held.was_newest_within_grace else ""
    )


RULES: Eligibility[FoundVersion] = Eligibility(
    kind="version",
    what="table versions",
    rules=(
        KeepRule(name="newest", stays="always, if it is the newest", clauses=("GC-003",), reason=_newest),
        KeepRule(name="count", stays="among the newest retain_versions; all if nothing is chosen", clauses=("GC-003",),
             reason=_counted),
        KeepRule(name="age", stays="while it is younger than retain_age_ms", clauses=("GC-003",), reason=_young),
        KeepRule(name="reference", stays="while a tag or a branch names it", clauses=("GC-003", "AMB-98"),
             reason=_referenced),
        KeepRule(name="grace", stays="while it was the newest version less than grace_ms ago", clauses=("AMB-92",),
             reason=_in_grace),
    ),
)  # fmt: skip


@implements("AMB-98")
async def held_versions(io: Io, policy: Policy, now_ms: Milliseconds) -> tuple[FoundVersion, ...]:
    """Every version of the table, ascending. Raises `NotFound` if there is none, `ArtifactError` for a damaged one.

    A version that another collector expires meanwhile is left out; if it is the newest one, all are looked for again.
    """
    missing: set[TableVersion] = set()
    while True:
        listed = await naming.listing(io)
        if not listed.versions:
            raise NotFound(io.path(paths.VERSIONS))
        newest = listed.versions[-1]
        states = await _loaded(io, listed.versions)
        # The newest version is never expired: where it is missing, what was listed is old.
        if states and states[-1].version == newest:
            break
        # Missing twice, and listed twice: it was not expired.
        if newest in missing:
            raise ArtifactError(
                "TXN-008", io.path(listed.name(newest)), "the newest version is listed, and it is not there"
            )
        missing.add(newest)
    references = await _references(io)
    found = []
    for place, state in enumerate(states):
        after = states[place + 1] if place + 1 < len(states) else None
        found.append(
            FoundVersion(
                state=state,
                newer=len(states) - 1 - place,
                superseded_ms=timestamp_ms(after) if after is not None else None,
                references=references.get(state.version, ()),
                policy=policy,
                now_ms=now_ms,
            )
        )
    return tuple(found)


async def _loaded(io: Io, versions: Sequence[TableVersion]) -> list[TableState]:
    states = []
    for version in versions:
        try:
            states.append(await load(io, version))
        except NotFound:
            await io.note("expired_meanwhile", version=version)
    return states


async def newer_than(io: Io, newest: TableVersion) -> tuple[TableState, ...]:
    """Versions that were committed since ``newest``, ascending."""
    listed = await naming.listing(io)
    return tuple(await _loaded(io, [version for version in listed.versions if version > newest]))


async def _references(io: Io) -> Mapping[TableVersion, tuple[str, ...]]:
    """What names each version; raises `ArtifactError` for a tag or branch that cannot be read."""
    found: dict[TableVersion, tuple[str, ...]] = {}
    for folder, word in ((TAGS, "tag"), (BRANCHES, "branch")):
        for name in await io.list(folder):
            text = f"{word} {name.removeprefix(f'{folder}/').removesuffix('.json')!r} names it"
            for version in await named(io, name, word):
                found[version] = (*found.get(version, ()), text)
    return found


async def named(io: Io, name: str, word: str) -> frozenset[TableVersion]:
    """Versions that the object ``name`` keeps, a ``tag`` or ``branch``; raises `ArtifactError` if it cannot be read."""
    try:
        content = json_text.parse(await io.get(name))
        return frozenset(_of_tag(content) if word == "tag" else _of_branch(content))
    except NotFound:
        return frozenset()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ArtifactError("GC-003", io.path(name), f"it is not a readable {word}: {error!r}") from error


def _of_tag(content: Any) -> set[TableVersion]:
    """The version that a tag names, unless it is a branch's."""
    return set() if content.get("branch") else {TableVersion(int(content["version"]))}


def _of_branch(content: Any) -> set[TableVersion]:
    """The version that a branch starts from, and those from which the branches start that it was made of."""
    lineage = content.get("identifier", {}).get("version_mapping", [])
    return {TableVersion(int(number)) for number in (content["parentVersion"], *(step[0] for step in lineage))}


@implements("AMB-98")
async def expire(io: Io, held: Sequence[FoundVersion], ledger: Ledger) -> tuple[TableState, ...]:
    """Expire what no row of `RULES` keeps; returns the states of the versions that are left, ascending."""
    decisions = [RULES.decide(one, _name(io, one), _gone(one)) for one in held]
    decisions = [await ledger.measured(io, decision, (decision.name,)) for decision in decisions]
    doomed = [one for one, decision in zip(held, decisions, strict=True) if decision.collected]
    revived: dict[TableVersion, str] = {}
    if doomed and not ledger.dry_run:
        # AMB-98, checks and deletion are two steps: a version is set aside, and comes back if it was tagged meanwhile.
        for one in doomed:
            await _set_aside(io, one)
        revived = await revive(io)
    retained = []
    for one, decision in zip(held, decisions, strict=True):
        tagged = revived.get(one.version)
        if tagged is not None:
            decision = Decision(kind="version", name=decision.name, collected=False, reason=tagged, rule="reference")
        ledger.enter(decision)
        if not decision.collected:
            retained.append(one.state)
    return tuple(retained)


def _name(io: Io, held: FoundVersion) -> str:
    return io.relative(held.state.path)


def _gone(held: FoundVersion) -> str:
    keep, age = held.policy.retain_versions, held.policy.retain_age_ms
    beyond = [f"beyond the newest {keep}"] if keep is not None else []
    return " and ".join([*beyond, *([f"older than {lasting(age)}"] if age is not None else [])])


async def _set_aside(io: Io, held: FoundVersion) -> None:
    """Copy the manifest to `EXPIRED`, then delete it; move it where the store refuses a copy, as a full disk does."""
    name = _name(io, held)
    aside = f"{EXPIRED}/{name.rpartition('/')[2]}"
    try:
        data = await io.get(name)
        try:
            await confirm.create(io, aside, data)
        except StorageError:
            # Its entry would continue naming a manifest that was moved.
            if io.commits is Commits.EXTERNAL:
                raise
            await confirm.rename(io, name, aside, data)
    except NotFound:
        await io.note("expired_meanwhile", version=held.version)
        return
    except AlreadyExists:
        await io.note("expired_before", version=held.version)
    await naming.remove(io, held.version, name)


@implements("AMB-98")
async def revive(io: Io) -> dict[TableVersion, str]:
    """Put back versions that were tagged while they were expired, by this collector or one that stopped.

    Returns what names each.

    A version some of whose files are gone stays expired: it was tagged after it had ceased to be there.
    """
    aside = {parsed[0]: name for name in await io.list(EXPIRED) if (parsed := naming.parse(name)) is not None}
    references = await _references(io) if aside else {}
    revived = {}
    for version in sorted(aside.keys() & references.keys()):
        try:
            data = await io.get(aside[version])
        except NotFound:
            continue  # another collector has put it back, or let it go
        if not await _is_whole(io, table_manifest.decode(data, io.path(aside[version]))):
            await io.note("tagged_too_late", version=version)
            continue  # it would be a version that names files which are gone
        try:
            await confirm.create(io, f"{paths.VERSIONS}/{aside[version].rpartition('/')[2]}", data)
        except AlreadyExists:
            await io.note("put_back_before", version=version)
        revived[version] = ", ".join(references[version])
    return revived


async def _is_whole(io: Io, manifest: TableManifest) -> bool:
    """Whether all data and deletion files are there that a version names; they are collected before anything else."""
    folders = (paths.DATA, paths.DELETIONS)
    there = {name for folder in folders for name in await io.list(folder)}
    return all(name in there for name in names.of_manifest(manifest) if name.partition("/")[0] in folders)


async def expired_manifests(io: Io) -> tuple[tuple[str, TableManifest], ...]:
    """The manifests in `EXPIRED` with their names; raises `ArtifactError` for a damaged one."""
    found = []
    for name in await io.list(EXPIRED):
        try:
            found.append((name, table_manifest.decode(await io.get(name), io.path(name))))
        except NotFound:
            await io.note("collected_meanwhile", path=io.path(name))
    return tuple(found)


async def detached_manifests(io: Io) -> tuple[tuple[str, TableManifest], ...]:
    """Manifests of versions beside the numbered ones, whose files are in use; raises `ArtifactError` for a damaged one.

    Their names are ``d`` and the version; they are not listed, and the process that made them knows their number.
    """
    found = []
    for name in await io.list(paths.VERSIONS):
        stem = name.rpartition("/")[2]
        if stem.startswith("d") and stem.endswith(".manifest"):
            try:
                found.append((name, table_manifest.decode(await io.get(name), io.path(name))))
            except NotFound:
                await io.note("collected_meanwhile", path=io.path(name))
    return tuple(found)
