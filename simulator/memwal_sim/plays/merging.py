"""A region and its base table: writers, mergers, snapshot builders, collectors, and readers of all kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memwal.errors import ArtifactError, NotFound
from memwal.ids import TableVersion
from memwal.index import regions
from memwal.jobs import collector
from memwal.jobs.collector import Policy
from memwal.jobs.merger import merge_region
from memwal.read import scan
from memwal.region.writer import open_writer
from memwal.table import read as table_read
from memwal.table.state import latest, load

from .. import ground
from ..cast import Arguments
from ..oracles import after_crash
from ..process import Process
from ..scenario import Setting
from ..world import Oracle, Violation
from . import account
from .account import VERSION_READ, Account
from .play import Play
from .region import reader, seen, writer


async def merger(setting: Setting, _name: str, _arguments: Arguments) -> None:
    """Merge every generation of the region."""
    await merge_region(ground.TABLE, ground.REGION, setting.interpretation)


async def snapshotter(setting: Setting, _name: str, _arguments: Arguments) -> None:
    """Write the region snapshot anew."""
    await regions.build_snapshot(ground.TABLE, setting.interpretation)


async def garbage_collector(setting: Setting, _name: str, arguments: Arguments) -> None:
    """One run of the collector that retains ``versions`` table versions; null: all."""
    policy = Policy(retain_versions=arguments["versions"], retain_manifests=2)
    await collector.collect(ground.TABLE, policy, interpretation=setting.interpretation)


async def version_reader(setting: Setting, _name: str, arguments: Arguments) -> None:
    """Pin the version that is the newest now, and read it ``times`` times, as long as it is retained."""
    pinned = await latest(ground.TABLE)
    for _ in range(arguments["times"]):
        try:
            found = ground.rows_of(await scan.scan(ground.TABLE, version=pinned, interpretation=setting.interpretation))
        except (ArtifactError, NotFound):
            if await _is_retained(pinned.version):
                raise
            return
        await ground.TABLE.note(VERSION_READ, version=pinned.version, rows=tuple(sorted(found.items())))


async def _is_retained(version: TableVersion) -> bool:
    try:
        await load(ground.TABLE, version)
    except NotFound:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Seen:
    """What is there when everybody has crashed and all work is done, key -> value."""

    remote: dict[str, str]
    """Strong read before anybody did anything."""
    merged: dict[str, str]
    """The base table alone, after a fresh writer flushed and everything was merged."""


async def aftermath(setting: Setting) -> Seen:
    """Read, recover, flush, merge, and read the base."""
    remote = await seen(setting.interpretation)
    opened = await open_writer(ground.region(setting, wal_collection=True, manifest_collection=True))
    await opened.flush()
    await merge_region(ground.TABLE, ground.REGION, setting.interpretation)
    return Seen(remote, ground.rows_of(await table_read.scan(ground.TABLE, await latest(ground.TABLE))))


def judge(found: Seen, calls: Account) -> Violation | None:
    """The rows are explained by the calls; recovery, flush and merge change none; versions read the same for ever."""
    violation = account.judge(found.remote, calls) or account.judge_versions(calls)
    if violation is None and found.merged != found.remote:
        reason = f"the table holds {found.remote}, and its base {found.merged} after everything was merged"
        violation = Violation("MERGE-001", "a merge keeps all rows", reason)
    return violation


def oracles(setting: Setting) -> tuple[Oracle, ...]:
    """What must hold of the table at any time."""

    def after() -> Any:
        return aftermath(setting)

    return (after_crash(Process("aftermath", after), judge), *ground.stored_invariants())


ROLES = {
    "writer": writer,
    "reader": reader,
    "merger": merger,
    "snapshotter": snapshotter,
    "collector": garbage_collector,
    "version-reader": version_reader,
}

PLAY = Play(
    name="merging",
    title="a region and its base table: writers, mergers, snapshot builders, collectors and readers",
    roles=ROLES,
    contents=lambda setting: ground.table(setting.revision, wal_collection="on", manifest_collection="on"),
    oracles=oracles,
)
