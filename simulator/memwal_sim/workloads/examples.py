"""Worlds of worked examples and of crashes: tables on which a script says all, the state that it begins with included.

A process called a *scribe* writes what an example begins with: a region manifest, WAL entries and generations with the
numbers that a text gives. Every other process runs the engine. Oracles are few and cheap, since the processes that
recover are part of the history, and the trace says what has to be so after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial, wraps
from typing import Any

import pyarrow as pa
from memwal import paths
from memwal.codec import region_manifest, wal
from memwal.codec.index_details import IndexDetails
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.codec.wal import WalEntry
from memwal.effects import Commits, Io
from memwal.errors import EngineBug, InvalidArgument, check_name
from memwal.ids import Epoch, Generation, ManifestVersion, Milliseconds, SpecId, WalPosition
from memwal.index import mem_wal
from memwal.index.transforms import bucket, resolve
from memwal.jobs import column_change
from memwal.jobs import repair as repairing
from memwal.jobs.merger import merge_region
from memwal.region import manifest as manifests
from memwal.region.flush import write_generation
from memwal.region.memtable import MemTable
from memwal.revisions import CONFIG_REVISION, Revision
from memwal.table import schema as schemas
from memwal.table import write
from memwal.table.state import TableState
from memwal.violations import Violation

from .. import data
from ..data import DataTable
from ..histories.history import History
from ..histories.notes import WRITE_ACKNOWLEDGED, WRITE_INVOKED
from ..oracles import Asking
from ..process import Process
from ..scenarios import actors, clients, commits, ground, indexed, scripts, sharded
from ..scenarios.actors import Acting, Action, Workplace
from ..scenarios.scenario import ScenarioSetting
from ..scenarios.scripts import Given, Words
from ..store import Contents
from ..world import Oracle
from . import verdicts
from .clients import Client, actor_of
from .workload import Role, Workload


def _batch(given: Given) -> Action:
    """Argument: pairs of key and value, written in one write; a key may be there several times, and the last counts."""

    async def step(acting: Acting) -> None:
        writer, name = await acting.opened(), _next(acting)
        table = acting.place.table
        await table.note(WRITE_INVOKED, write=name, rows=tuple(dict(given.argument).items()))
        keys, values = zip(*given.argument, strict=True)
        await writer.put(pa.table({ground.KEY: keys, ground.VALUE: values}, schema=ground.SCHEMA))
        await table.note(WRITE_ACKNOWLEDGED, write=name)

    return step


def _next(acting: Acting) -> str:
    acting.writes += 1
    return f"{acting.name}/{acting.writes}"


async def _merge_next(acting: Acting) -> None:
    """Merge every generation of the region, as `actors.merge` does, and once more if another merger was faster."""
    for _ in range(2):
        await merge_region(acting.place.table, acting.place.region.region_id)


async def _repair(acting: Acting) -> None:
    """Repair the table."""
    await repairing.repair(acting.place.table)


def _manifest(given: Given) -> Action:
    """Argument: numbers of a region manifest, and ``flushed``, pairs of generation and folder. Its hint is put too."""

    async def step(acting: Acting) -> None:
        region, argument = acting.place.region, given.argument
        manifest = RegionManifest(
            version=ManifestVersion(argument["version"]),
            region_id=region.region_id,
            spec_id=SpecId(0),
            epoch=Epoch(argument["epoch"]),
            position_replay_after=WalPosition(argument["replay_after"]),
            position_last_seen=WalPosition(argument["last_seen"]),
            generation_current=Generation(argument["current_generation"]),
            flushed=tuple(
                FlushedGeneration(generation=Generation(number), path=folder)
                for number, folder in argument.get("flushed", ())
            ),
        )
        name = paths.manifest(manifest.version)
        await region.io.put_if_absent(name, region_manifest.encode(manifest, region.revision))
        await manifests.put_hint(region.io, manifest.version)

    return step


def _entry(given: Given) -> Action:
    """Argument: ``position``, ``epoch`` and ``rows`` of a WAL entry, which counts as an acknowledged write."""

    async def step(acting: Acting) -> None:
        region, argument, name = acting.place.region, given.argument, _next(acting)
        await acting.place.table.note(WRITE_INVOKED, write=name, rows=tuple(argument["rows"].items()))
        await region.io.put_if_absent(
            _entry_name(acting, argument), wal.encode(_encoded(acting, argument), region.revision)
        )
        await acting.place.table.note(WRITE_ACKNOWLEDGED, write=name)

    return step


def _torn(given: Given) -> Action:
    """Argument: as for `_entry`, of which the first half is stored: the end of a put that is not atomic."""

    async def step(acting: Acting) -> None:
        data = wal.encode(_encoded(acting, given.argument), acting.place.region.revision)
        await acting.place.region.io.put_if_absent(_entry_name(acting, given.argument), data[: len(data) // 2])

    return step


def _entry_name(acting: Acting, argument: Mapping[str, Any]) -> str:
    return paths.wal(WalPosition(argument["position"]), acting.place.region.revision.wal_suffix)


def _encoded(acting: Acting, argument: Mapping[str, Any]) -> WalEntry:
    stored = acting.place.region.rows.stored_schema
    columns = {field.name: pa.nulls(len(argument["rows"]), field.type) for field in stored}
    columns[ground.KEY] = pa.array(argument["rows"])
    columns[ground.VALUE] = pa.array(argument["rows"].values())
    return WalEntry(epoch=Epoch(argument["epoch"]), rows=pa.table(columns, schema=stored))


@dataclass(frozen=True)
class _Naming(Io):
    """An `Io` whose random digits are given."""

    digits: str = ""

    async def random_hex(self, digits: int) -> str:
        """The given ones; raises `EngineBug` if others are asked for than they are."""
        if digits != len(self.digits):
            raise EngineBug(f"{digits} digits are asked for, and {self.digits} are given")
        return self.digits


def _generation(given: Given) -> Action:
    """Argument: ``number``, ``prefix`` of its folder, ``position`` and ``epoch`` of its WAL entry, and ``rows``."""

    async def step(acting: Acting) -> None:
        region, argument = acting.place.region, given.argument
        await _entry(given)(acting)
        rows = ground.rows_table(argument["rows"])
        position = WalPosition(argument["position"])
        sealed = MemTable(generation=Generation(argument["number"]), schema=region.rows.schema)
        named = replace(
            region,
            io=_Naming(
                region.io.root, region.io.commits, interpretation=region.io.interpretation, digits=argument["prefix"]
            ),
        )
        await write_generation(named, Epoch(argument["epoch"]), sealed.with_replayed(position, rows), position)

    return step


def _merged(given: Given) -> Action:
    """Argument: the generation up to which all count as merged."""

    async def step(acting: Acting) -> None:
        progress = ((acting.place.region.region_id, Generation(given.argument)),)

        async def derive(_: TableState, details: IndexDetails) -> IndexDetails:
            return replace(details, merged=progress)

        await mem_wal.change(acting.place.table, derive)

    return step


WORDS: Words = {
    **scripts.WORDS,
    "batch": _batch,
    "merge_next": lambda _: _merge_next,
    "repair": lambda _: _repair,
    "given_manifest": _manifest,
    "given_entry": _entry,
    "given_half_entry": _torn,
    "given_generation": _generation,
    "given_progress": _merged,
    "given_base": lambda given: indexed.append(given.argument),
}
"""What a script may say: what clients say, and what a text gives."""

NAMES = ("scribe", "writer", "reader", "merger", "collector", "snapshotter", "indexer", "operator", "survivor")
"""Roles, which all know the same words: names are for people."""


def _in_region(setting: ScenarioSetting, number: int, *, collected: bool) -> Workplace:
    region, wanted = clients.place(setting, collected=collected).region, ground.region_id(number)
    io = setting.table.child(paths.region(wanted))
    return Workplace(region=replace(region, region_id=wanted, io=io))


def _roles(*, collected: bool = False, words: Words = WORDS) -> Mapping[str, Role]:
    return dict.fromkeys(NAMES, Client(place=partial(_in_region, collected=collected), words=words))


READS = "reads are explained"


def reads_are_explained(_contents: object, told: History) -> Violation | None:
    """Some order of the writes explains all strong reads."""
    return verdicts.ordered(told, stale=READS, torn=READS)


def oracles(_setting: ScenarioSetting) -> tuple[Oracle, ...]:
    """What must hold of reads, and of what is stored."""
    return (*_reads(_setting), *map(_once_there_is_a_manifest, ground.stored_invariants()))


def _once_there_is_a_manifest(oracle: Oracle) -> Oracle:
    """``oracle``, for a region that a scribe has given its manifest, which is the last thing that one writes."""
    folder = f"{paths.region(ground.REGION)}/manifest"

    @wraps(oracle)
    def judge(contents: Contents, told: History) -> Violation | None:
        return oracle(contents, told) if any(contents.below(folder)) else None

    return judge


def _reads(_setting: ScenarioSetting) -> tuple[Oracle, ...]:
    return (Asking(reads_are_explained), verdicts.reads_agree)


EMPTY = Workload(
    name="worked_examples",
    title="an empty table: whoever a script brings, the state that it begins with included",
    roles=_roles(),
    contents=lambda setting: ground.table(setting.revision, inline_regions="0"),
    oracles=oracles,
)

COLLECTED = replace(
    EMPTY,
    name="worked_examples_collected",
    title="the same where WAL entries and region manifests may be collected",
    roles=_roles(collected=True),
    contents=lambda setting: ground.table(setting.revision, inline_regions="0", **clients.COLLECTED),
)

INDEXED = replace(
    EMPTY,
    name="worked_examples_indexed",
    title="the same on a table with one row and an index that MemTables carry",
    roles=_roles(words={**WORDS, "open": indexed.WORDS["open"]}),
    contents=lambda setting: indexed.table(setting.revision, indexed.BY_VALUE),
    ghosts=indexed.BEGUN,
)


def _appending(commits_by: Commits, given: Given) -> Action:
    """Argument: key -> value, appended in one commit."""

    async def step(acting: Acting) -> None:
        io, name = replace(acting.place.table, commits=commits_by), _next(acting)
        await io.note(WRITE_INVOKED, write=name, rows=tuple(given.argument.items()))
        await write.append(io, ground.rows_table(given.argument))
        await io.note(WRITE_ACKNOWLEDGED, write=name)

    return step


def _reading(commits_by: Commits, _given: Given) -> Action:
    async def step(acting: Acting) -> None:
        await actors.read_by(acting, lambda: commits.rows(replace(acting.place.table, commits=commits_by)))

    return step


def _committing(commits_by: Commits) -> Workload:
    words = {"append": partial(_appending, commits_by), "read": partial(_reading, commits_by)}
    return replace(
        EMPTY,
        name=f"commits_by_{commits_by.value}",
        title=f"one table without regions, whose versions are created by {commits_by.value}",
        roles=_roles(words=words),
        contents=lambda _setting: commits.table(commits_by),
        oracles=_reads,
    )


USER_ID = "user_id"
USERS = schemas.with_primary_key(
    pa.schema([pa.field(USER_ID, pa.int64()), pa.field(ground.VALUE, pa.string())]), [USER_ID]
)
"""Rows of the texts' example of pruning: a number of a user, and a value."""


@lru_cache
def _users(revision: Revision) -> Contents:
    async def creating() -> None:
        io = ground.TABLE
        created = await write.create(io, USERS, None, {CONFIG_REVISION: revision.name})
        spec = resolve(bucket("user_bucket", USER_ID, 10), SpecId(1), created.schema, created.field_ids, revision)
        details = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None, specs=(spec,))
        await mem_wal.enable(io, created, details)

    return ground.after(Contents(), Process("creator", creating)).contents


def _user(given: Given) -> Action:
    """Argument: a number of a user, whose row is put through its region, which is created if it is not there."""

    async def step(acting: Acting) -> None:
        name = _next(acting)
        await acting.place.table.note(WRITE_INVOKED, write=name, rows=((str(given.argument), given.value),))
        rows = pa.table([[given.argument], [given.value]], schema=USERS)
        await (await sharded.open_for(acting, rows)).put(rows)
        await acting.place.table.note(WRITE_ACKNOWLEDGED, write=name)

    return step


BUCKETS = replace(
    EMPTY,
    name="user_buckets",
    title="a table of users whose region spec is bucket(user_id, 10)",
    roles=_roles(words={"user": _user}),
    contents=lambda setting: _users(setting.revision),
    oracles=lambda _setting: (),
)


def _drop_columns(given: Given) -> Action:
    """Argument: names of columns that are dropped, which fences all writers; a refusal is noted."""

    async def step(acting: Acting) -> None:
        io = acting.place.table
        try:
            await column_change.drop(io, given.argument)
        except InvalidArgument as refused:
            await io.note("refused", clause=refused.clause)

    return step


_SPECS = replace(
    EMPTY,
    roles=_roles(words={**sharded.WORDS, "drop_columns": _drop_columns}),
    contents=lambda setting: sharded.table(setting.revision, bucket("buckets_1", ground.KEY, 1)),
    oracles=_reads,
)

_BEGINNINGS = {"specs": _SPECS, **{workload.name: workload for workload in (EMPTY, COLLECTED, INDEXED)}}


def _begun(table: DataTable) -> Workload:
    """A workload after processes that are no part of a history: what a crash comes on top of."""
    with table.placed():
        check_name("beginning", of := table.text("of"), sorted(_BEGINNINGS))
    begun = replace(
        _BEGINNINGS[of],
        name=table.text("name"),
        title=table.text("title"),
        before=tuple(map(actor_of, table.tables("actors"))),
    )
    if not table.take("stored_invariants", bool, True):
        begun = replace(begun, oracles=_reads)
    table.close()
    with table.placed():
        for actor in begun.before:
            begun.check(actor)
    return begun


BEGUN = tuple(map(_begun, data.read("beginnings.toml").tables("beginnings")))
"""States in which a crash is looked at."""

WORKLOADS = (EMPTY, COLLECTED, INDEXED, *map(_committing, Commits), BUCKETS, *BEGUN)
