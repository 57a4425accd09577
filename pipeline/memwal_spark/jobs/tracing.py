"""Where the rows of a key are and were: WAL entries, generations and versions of the base table, each with its place.

Each region is looked at in a Spark task of its own, and the base table in the last one. Nothing is filtered by what a
read would do: a row in a region that its key does not belong to is told like any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from memwal import cellwise
from memwal.errors import InvalidArgument
from memwal.ids import FragmentId
from memwal.read.fragments import restricted
from memwal.read.sources import open_generation
from memwal.region import manifest as manifests
from memwal.region.rows import TOMBSTONE
from memwal.table import read, state

from ..options import TableOption
from ..place import open_table
from .spread import JobDone, Tell, spread

if TYPE_CHECKING:
    from memwal import Table
    from pyspark.sql import SparkSession

BASE = "the base table"
"""Name of the last task."""
_KEY, _ROW = "__memwal_key", "__memwal_row"

_NUMBERS = ("region", "epoch", "position", "generation", "version", "fragment")

Tasks = Mapping[tuple[str, int], str]
"""Region and epoch -> who claimed it, as a report of a write says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHistory:
    """What there is of one key, the oldest first within each region."""

    key: dict[str, str | None]
    region: str | None
    """The region that it belongs to under the active spec; None if the key alone does not say it."""
    places: tuple[dict[str, Any], ...]
    """Each has ``place`` (``wal``, ``generation``, ``base``), what numbers that place has, ``deleted`` and ``row``."""
    now: dict[str, str | None] | None
    """The row that a read finds; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Traced(JobDone):
    """The tasks, one a region and one for the base table, and the histories of the keys in their order."""

    histories: tuple[KeyHistory, ...]

    def __repr__(self) -> str:
        return "\n".join([*map(told, self.histories), *self.errors])


def why(
    spark: SparkSession,
    path: str,
    keys: pa.Table,
    *,
    written: Tasks | None = None,
    storage: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> Traced:
    """Where the rows of ``keys``, a table of exactly the key columns, are and were; read only.

    ``written``: see `tasks_of`. What was collected is not told, since nothing is left of it. Raises InvalidArgument.
    """
    place = TableOption(path=path, storage=dict(storage or {}))
    table = open_table(place)
    if set(keys.schema.names) != set(table.primary_key):
        raise InvalidArgument(f"[MEMWAL_KEY] the columns of the key are {', '.join(table.primary_key)}")
    wanted = cellwise.converted(keys, pa.schema([table.schema.field(name) for name in table.primary_key]))

    def look(name: str) -> dict[str, Any]:
        opened = open_table(place)
        found = _versions(opened, wanted) if name == BASE else _region(opened, name, wanted)
        return {"places": list(found)}

    regions = table.regions()
    tasks = spread(spark, [*(str(each.region_id) for each in regions), BASE], look, tell)
    places = [each for task in tasks if task.found is not None for each in task.found["places"]]
    for each in places:
        by = (written or {}).get((each.get("region", ""), each.get("epoch", 0)))
        each.update({} if by is None else {"written_by": by})
    return Traced(
        tasks=tasks,
        histories=tuple(
            KeyHistory(
                key=_text(wanted, number),
                region=_home(table, wanted, number),
                places=tuple({n: v for n, v in each.items() if n != "key"} for each in places if each["key"] == number),
                now=next(iter(_texts(table.get(wanted.slice(number, 1)))), None),
            )
            for number in range(wanted.num_rows)
        ),
    )


def told(history: KeyHistory) -> str:
    """A history as text: the key, a line for each place, and what a read finds now."""
    key = f"key {_words(history.key)}" + (f", of region {history.region}" if history.region else "")
    return "\n  ".join([key, *lines(history)])


def lines(history: KeyHistory) -> tuple[str, ...]:
    """A line for each place, and what a read finds now."""
    found = []
    for each in history.places:
        numbers = [f"{name} {each[name]}" for name in _NUMBERS if name in each]
        merges = [f"merges generation {last} of {region}" for region, last in each.get("merged", {}).items()]
        if "region" in each and history.region not in (None, each["region"]):
            merges.append("not its region")
        by = [each["written_by"]] if "written_by" in each else []
        row = "gone" if each["place"] == "base" else "deleted"
        shown = row if each["deleted"] else _words({n: v for n, v in each["row"].items() if n not in history.key})
        found.append(f"{each['place']:<10} {', '.join([*numbers, *merges, *by])}: {shown}")
    now = "no row" if history.now is None else _words({n: v for n, v in history.now.items() if n not in history.key})
    return (*found, f"now: {now}")


def _words(row: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {'NULL' if value is None else value}" for name, value in row.items())


def tasks_of(reports: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], str]:
    """Who claimed which epoch of which region, by reports that option ``reportPath`` wrote, one a job."""
    return {
        (task["region_id"], task["epoch"]): f"job {job}, task {task['partition']}, attempt {task['attempt']}"
        for job, report in enumerate(reports)
        for task in report["tasks"]
        if task["region_id"] is not None
    }


def _region(table: Table, region: str, keys: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows of the keys in the WAL and in the listed generations of a region."""
    starts, ends = table.log_starts(), table.log_ends()
    known = {str(each): each for each in ends}
    if region not in known:
        return
    name = known[region]
    for entry in table.log_entries(region, starts[name], ends[name]):
        for key, at in _found(entry.rows, keys):
            row = {"deleted": bool(entry.deleted[at].as_py()), "row": _text(entry.rows, at)}
            yield {
                "key": key,
                "place": "wal",
                "region": region,
                "epoch": entry.epoch,
                "position": entry.position,
                **row,
            }
    io = manifests.folder(table._io, name)
    manifest = table._run(manifests.require(io, table.revision))
    for listed in sorted(manifest.flushed, key=lambda each: each.generation):
        for key, at in _found(rows := table._run(open_generation(io, listed.path)), keys):
            marks = rows[TOMBSTONE] if TOMBSTONE in rows.schema.names else None
            row = {"deleted": marks is not None and bool(marks[at].as_py()), "row": _text(rows, at)}
            yield {"key": key, "place": "generation", "region": region, "generation": listed.generation, **row}


def _versions(table: Table, keys: pa.Table) -> Iterator[dict[str, Any]]:
    """Where a version of the base table has another row of a key than the version before it, among those retained.

    A fragment is read once, with all versions that have it as it is.
    """
    looked: dict[bytes, list[tuple[int, dict[str, str | None]]]] = {}
    before: dict[int, list[tuple[int, dict[str, str | None]]]] = {}
    merged: dict[str, int] = {}
    for number, version in enumerate(table._run(state.versions(table._io))):
        now = table._run(state.load(table._io, version))
        there = defaultdict(list)
        for fragment in now.fragments:
            shape = fragment.SerializeToString(deterministic=True)
            if shape not in looked:
                part = restricted(now, [FragmentId(fragment.id)])
                rows = _found(table._run(read.scan(table._io, part, list(keys.schema.names))), keys)
                whole = table._run(read.scan(table._io, part, None)) if rows else None
                looked[shape] = [] if whole is None else [(key, _text(whole, at)) for key, at in rows]
            for key, row in looked[shape]:
                there[key].append((int(fragment.id), row))
        progress = {str(region): int(generation) for region, generation in now.mem_wal.merged} if _enabled(now) else {}
        advanced = {region: last for region, last in progress.items() if last > merged.get(region, 0)}
        for key in sorted({*there, *before}):
            if there[key] != before.get(key, []):
                rows_now = [{"fragment": fragment, "deleted": False, "row": row} for fragment, row in there[key]]
                for each in rows_now or [{"deleted": True, "row": None}]:
                    why_there = {"merged": advanced} if number and advanced else {}
                    yield {"key": key, "place": "base", "version": int(version), **why_there, **each}
        before, merged = {key: rows for key, rows in there.items() if rows}, progress


def _enabled(version: state.TableState) -> bool:
    return version.mem_wal_entry is not None


def _found(rows: pa.Table, keys: pa.Table) -> list[tuple[int, int]]:
    """Number of the key and place of its row, for each row of one of the ``keys``, in the order of ``rows``."""
    numbered = keys.append_column(_KEY, pa.array(np.arange(keys.num_rows)))
    there = cellwise.converted(rows.select(keys.schema.names), keys.schema)
    placed = there.append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    found = placed.join(numbered, keys=keys.schema.names, join_type="inner").sort_by(_ROW)
    return list(zip(found[_KEY].to_pylist(), found[_ROW].to_pylist(), strict=True))


def _home(table: Table, keys: pa.Table, number: int) -> str | None:
    try:
        (values,) = table.region_values(keys.slice(number, 1)).to_pylist()
    except InvalidArgument:
        return None
    return next((str(each.region_id) for each in table.regions() if each.values == values), None)


def _texts(rows: pa.Table) -> list[dict[str, str | None]]:
    return [_text(rows, at) for at in range(rows.num_rows)]


def _text(rows: pa.Table, at: int) -> dict[str, str | None]:
    """A row for people; without what the engine stores beside the table's columns."""
    (row,) = rows.slice(at, 1).to_pylist()
    return {name: None if value is None else str(value) for name, value in row.items() if name != TOMBSTONE}
