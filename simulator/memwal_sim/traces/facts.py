"""Facts of a state: named JSON values that a trace may state, read from what is stored and from what processes did.

A fact of the store is read from the objects themselves, by the engine's readers, and never from a process's memory.
``region``, ``wal``, … are of region 1, the one of most worlds; ``region of 2`` is of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from memwal import paths
from memwal.codec import wal
from memwal.effects import Io
from memwal.errors import InvalidArgument, check_name
from memwal.ids import RegionId
from memwal.index import regions, snapshot
from memwal.read import scan
from memwal.read.sources import open_generation
from memwal.region import manifest as manifests
from memwal.table import read as table_read
from memwal.table.state import TableState, latest

from ..histories.history import History
from ..process import Ended, Process, run_alone
from ..scenarios import ground, indexed
from ..scenarios.actors import Workplace
from ..scenarios.scenario import ScenarioSetting
from ..simulation import Simulation

ENDED, RUNNING = "done", "has not ended"
"""What ``ended`` says of a process that came to its end, and of one that did not: it stalled, or crashed."""
_OF = " of "


def look(simulation: Simulation, name: str) -> Any:
    """The fact ``name`` as it is now; raises `InvalidArgument` for an unknown name."""
    kind, number = _parsed(name)
    if kind in PROCESSES:
        return PROCESSES[kind](simulation)
    end = run_alone(Process("onlooker", partial(_stored, kind, ground.region_id(number))), simulation.contents).end
    return end.result if end.failure is None else f"{end.failure.kind}: {end.failure.text}"


def check(name: str) -> None:
    """Raises `InvalidArgument` if there is no fact ``name``."""
    _parsed(name)


def holds(wanted: Any, found: Any) -> bool:
    """Whether ``found`` is ``wanted``; of an object the fields that ``wanted`` has, where the fact has fields."""
    if isinstance(found, Fields):
        return isinstance(wanted, Mapping) and all(key in found and found[key] == wanted[key] for key in wanted)
    return bool(wanted == found)


class Fields(dict[str, Any]):
    """A fact with fields, of which a trace may state some."""


def _parsed(name: str) -> tuple[str, int]:
    kind, _, number = name.partition(_OF)
    check_name("fact", kind, sorted((*PROCESSES, *STORED)))
    if number and not (number.isdecimal() and kind in STORED):
        raise InvalidArgument(f"no fact {name!r}: {number!r} is not a number of a region")
    return kind, int(number or 1)


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table whose newest version was loaded."""

    io: Io
    state: TableState
    region: RegionId

    @property
    def folder(self) -> Io:
        """The region's."""
        return manifests.folder(self.io, self.region)


async def _stored(kind: str, region: RegionId) -> Any:
    io = ground.TABLE
    return await STORED[kind](LoadedTable(io, await latest(io), region))


async def _region(seen: LoadedTable) -> Fields | None:
    """The newest region manifest; None if there is none."""
    manifest = await manifests.newest_listed(seen.folder, seen.state.revision)
    if manifest is None:
        return None
    return Fields(
        version=manifest.version,
        epoch=manifest.epoch,
        replay_after=manifest.position_replay_after,
        last_seen=manifest.position_last_seen,
        current_generation=manifest.generation_current,
        flushed=[listed.generation for listed in manifest.flushed],
        folders=[listed.path for listed in manifest.flushed],
    )


async def _manifests(seen: LoadedTable) -> list[int]:
    """Versions of the region manifest that are stored."""
    return sorted(await manifests.versions(seen.folder))


async def _hint(seen: LoadedTable) -> int | None:
    """The version that the hint names; None without one."""
    return await manifests.hinted(seen.folder)


async def _wal(seen: LoadedTable) -> dict[str, int]:
    """Position of each WAL entry that is stored -> its epoch."""
    return {position: entry.epoch for position, entry in (await _entries(seen)).items()}


async def _wal_rows(seen: LoadedTable) -> dict[str, Any]:
    """Position of each WAL entry that is stored -> its rows; none for one without."""
    return {position: _rows(entry.rows) for position, entry in (await _entries(seen)).items()}


async def _entries(seen: LoadedTable) -> dict[str, wal.WalEntry]:
    suffix, folder, found = seen.state.revision.wal_suffix, seen.folder, {}
    for path in await folder.list("wal"):
        name = path.removeprefix(f"{folder.root}/")
        position = paths.wal_position(name, suffix)
        if position is not None:
            found[position] = wal.decode(await folder.get(name), seen.state.revision, path)
    return {str(position): found[position] for position in sorted(found)}


async def _generations(seen: LoadedTable) -> dict[str, Any]:
    """Each generation that the newest manifest lists -> its rows."""
    manifest = await manifests.newest_listed(seen.folder, seen.state.revision)
    listed = () if manifest is None else manifest.flushed
    return {str(each.generation): _rows(await open_generation(seen.folder, each.path)) for each in listed}


async def _folders(seen: LoadedTable) -> list[str]:
    """Generation folders that are stored, listed or not, without their random prefixes."""
    names = [name for name in await seen.io.list_folders(paths.region(seen.region)) if "_gen_" in name]
    return sorted(name.partition("_")[2] for name in names)


async def _merged(seen: LoadedTable) -> int:
    """The last generation that is merged; 0 if none is."""
    return seen.state.mem_wal.progress(seen.region)


async def _catch_up(seen: LoadedTable) -> dict[str, int]:
    """Index -> the last generation of the region that it is credited with."""
    return {each.index_name: dict(each.generations).get(seen.region, 0) for each in seen.state.mem_wal.catchup}


async def _snapshot(seen: LoadedTable) -> Fields | None:
    """The region's row in the snapshot of the newest table version; None if it has none."""
    for row in await snapshot.load(seen.io, seen.state):
        if row.region_id == seen.region and row.manifest is not None:
            flushed = [listed.generation for listed in row.manifest.flushed]
            return Fields(epoch=row.manifest.epoch, version=row.manifest.version, flushed=flushed)
    return None


async def _specs(seen: LoadedTable) -> list[int]:
    """Ids of the region specs."""
    return [spec.spec_id for spec in seen.state.mem_wal.specs]


async def _region_values(seen: LoadedTable) -> list[dict[str, Any]]:
    """Region values of the regions that are registered, in order."""
    known = await regions.known(seen.io, seen.state)
    return sorted((dict(row.values) for row in known), key=str)


async def _columns(seen: LoadedTable) -> list[str]:
    """Names of the table's columns."""
    return list(seen.state.schema.names)


async def _version(seen: LoadedTable) -> int:
    """The newest table version."""
    return seen.state.version


async def _base(seen: LoadedTable) -> Any:
    """Rows of the base table alone."""
    return _rows(await table_read.scan(seen.io, seen.state))


async def _all(seen: LoadedTable) -> Any:
    """Rows that a strong read finds."""
    return _rows(await scan.scan(seen.io))


async def _found_by_index(seen: LoadedTable) -> dict[str, list[str]]:
    """Each value of the scenario's index -> the keys that a search by it finds, in the process of a fresh writer."""
    region = ground.region(ScenarioSetting(revision=seen.state.revision))
    found: dict[str, list[str]] = {}
    for _, key, value in (await indexed.looking(Workplace(region=region))).found:
        found.setdefault(value, []).append(key)
    return found


def _rows(found: Any) -> Any:
    """Key -> value; a list of pairs if a key is there several times."""
    keys, values = found[found.column_names[0]].to_pylist(), found[ground.VALUE].to_pylist()
    pairs = [list(pair) for pair in zip(keys, values, strict=True)]
    if len({key for key, _ in pairs}) < len(pairs):
        return pairs
    return {str(key): value for key, value in sorted(pairs)}


StoredFact: TypeAlias = Callable[[LoadedTable], Coroutine[Any, Any, Any]]
STORED: Mapping[str, StoredFact] = {
    "region": _region,
    "manifests": _manifests,
    "hint": _hint,
    "wal": _wal,
    "wal rows": _wal_rows,
    "generations": _generations,
    "generation folders": _folders,
    "merged": _merged,
    "catch-up": _catch_up,
    "snapshot": _snapshot,
    "specs": _specs,
    "region values": _region_values,
    "columns": _columns,
    "table version": _version,
    "base rows": _base,
    "rows": _all,
    "found by index": _found_by_index,
}
"""Facts of what is stored."""


def _ended(simulation: Simulation) -> Fields:
    """How each process ended: `ENDED`, `RUNNING`, or the kind of its failure."""
    pauses = {name: running.pause for name, running in simulation.running.items()}
    return Fields({name: _end(pause) if isinstance(pause, Ended) else RUNNING for name, pause in pauses.items()})


def _end(pause: Ended) -> str:
    return ENDED if pause.failure is None else pause.failure.kind


def _reads(simulation: Simulation) -> Fields:
    """Each read that has returned -> the rows that it found."""
    reads = simulation.ghosts.reads if isinstance(simulation.ghosts, History) else ()
    return Fields({call.name: dict(call.rows) for call in reads})


def _acknowledged(simulation: Simulation) -> list[str]:
    """Writes that were acknowledged, by name."""
    return (
        sorted(write.name for write in simulation.ghosts.acknowledged) if isinstance(simulation.ghosts, History) else []
    )


PROCESSES: Mapping[str, Callable[[Simulation], Any]] = {"ended": _ended, "reads": _reads, "acknowledged": _acknowledged}
"""Facts of what processes did."""
