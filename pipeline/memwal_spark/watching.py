"""Histories of some keys while Spark writes: what tasks wrote and when, and what a reader found meanwhile.

Each attempt of a task notes when it hands a watched row to the writer, and when the writer comes back for more: then
the row is durable. Readers look the same keys up. Put together these are a history of registers, one for each key, of
which ``memwal explore check-history`` says whether it can have happened.

A row has a number here, its rank among the rows of its key by sequence. All clocks are one: the machine's monotonic
one. Of a batch only the last row of a key is seen, so that only it is noted.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import memwal
import pyarrow as pa
import pyarrow.parquet as pq
from memwal import cellwise
from memwal.keys import last_of_each
from memwal.read.view import ReadRaced
from pyspark.sql import Window
from pyspark.sql import functions as sf

from .change_log import ChangeLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Done = TypeVar("Done")

BUSY, OTHERS = 32, 32
"""Keys that are watched: those with the most rows, and some others."""
_NUMBER, _RANK = "__memwal_number", "__memwal_rank"
_LOOKUPS = "lookups"
"""File beside the notes of tasks: how often a reader has looked."""
LOOK_S, _PAUSE_S = 5.0, 0.01
"""Longest that a task waits for a reader, and how long between two looks at whether it has looked."""
NOBODYS = -1
"""Rank of a row that is not in the log."""
_CHECK = "import sys; from memwal.cli.main import main; sys.exit(main())"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReport:
    """What readers saw, and whether it can have happened."""

    operations: int
    keys: int
    reads: int
    overlapping: int
    """Reads that found something before the last row of their key was durable: the others prove little."""
    conflicts: tuple[str, ...] = ()
    """Of each key whose history cannot have happened, why."""


def watch(log: ChangeLog, rows: DataFrame, target: Path) -> int:
    """Store the rows of the watched keys, numbered, at ``target``; returns how many there are.

    Keys that the log deletes are not watched, since absences have no rank.
    """
    counted = rows.groupBy(*log.key).agg(
        sf.count(sf.lit(1)).alias("rows"),
        sf.max(sf.coalesce(sf.col(log.delete), sf.lit(False)) if log.delete else sf.lit(False)).alias("gone"),
    )
    kept = counted.where("not gone").withColumn("chance", sf.xxhash64(*log.key)).cache()
    busy = kept.orderBy(sf.desc("rows"), "chance").limit(BUSY)
    others = kept.orderBy("chance").limit(OTHERS)
    keys = busy.union(others).select(*log.key).distinct()
    numbered = keys.withColumn(_NUMBER, sf.row_number().over(Window.orderBy(*log.key)))
    ranked = rows.select(*log.key, log.sequence).join(sf.broadcast(numbered), list(log.key)).distinct()
    ranked = ranked.withColumn(_RANK, sf.row_number().over(Window.partitionBy(_NUMBER).orderBy(log.sequence)))
    found = ranked.toArrow()
    kept.unpersist()
    wanted = [*(log.schema.field(name) for name in (*log.key, log.sequence)), found.schema.field(_NUMBER)]
    pq.write_table(cellwise.converted(found, pa.schema([*wanted, found.schema.field(_RANK)])), target)
    return int(found.num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRows:
    """What a task has to know to note rows; goes as JSON with the options of the write."""

    file: str
    folder: str
    key: tuple[str, ...]
    sequence: str

    def noted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The ``batches`` as they are; their consumer asks for the next one when the last one is durable.

        Behind the first one with watched rows a reader, if there is one, has looked before the next one goes on.
        """
        watched = pq.read_table(self.file)
        with self._notes() as notes:
            is_looked_at = False
            for batch in batches:
                found = numbers(pa.Table.from_batches([batch]), watched, self.key, self.sequence)
                if found:
                    notes.write(json.dumps({"begun": time.monotonic_ns(), "rows": found}) + "\n")
                yield batch
                if found:
                    notes.write(json.dumps({"durable": time.monotonic_ns()}) + "\n")
                    if not is_looked_at:
                        self._wait_for_a_look()
                    is_looked_at = True

    def _wait_for_a_look(self) -> None:
        """Wait, `LOOK_S` at most, until a lookup is through that began after now: another one may be under way."""
        before, ends = self._lookups(), time.monotonic() + LOOK_S
        while before is not None and self._lookups() in (before, before + 1) and time.monotonic() < ends:
            time.sleep(_PAUSE_S)

    def _lookups(self) -> int | None:
        """How often a reader has looked; None where there is none."""
        try:
            return int(Path(self.folder, _LOOKUPS).read_text())
        except FileNotFoundError:
            return None

    def looked(self, times: int) -> None:
        """Tell tasks how often a reader has looked."""
        told = Path(self.folder, f"{_LOOKUPS}.new")
        told.write_text(str(times))
        told.replace(Path(self.folder, _LOOKUPS))

    def noted_whole(self, batches: Iterator[pa.RecordBatch], write: Callable[[Iterator[pa.RecordBatch]], Done]) -> Done:
        """``write`` the ``batches``, which are durable when it returns, and not before."""
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return write(iter(held))
        with self._notes() as notes:
            found = numbers(pa.Table.from_batches(held), pq.read_table(self.file), self.key, self.sequence)
            notes.write(json.dumps({"begun": time.monotonic_ns(), "rows": found}) + "\n")
            done = write(iter(held))
            notes.write(json.dumps({"durable": time.monotonic_ns()}) + "\n")
        return done

    def _notes(self) -> TextIO:
        """A file of this attempt: numbers of attempts are unique in an application only."""
        return Path(self.folder, f"{secrets.token_hex(8)}.jsonl").open("a", buffering=1)


def numbers(rows: pa.Table, watched: pa.Table, key: Sequence[str], sequence: str) -> list[tuple[int, int]]:
    """Number and rank of the last row of each watched key in ``rows``; `NOBODYS` for one that the log does not have."""
    names = [*key, sequence]
    keys = watched.select([*key, _NUMBER]).group_by([*key, _NUMBER]).aggregate([])
    there = cellwise.converted(rows, pa.schema([watched.schema.field(name) for name in names]))
    there = there.join(keys, keys=list(key), join_type="inner")
    if not there.num_rows:
        return []
    there = last_of_each(there.sort_by(sequence), tuple(key))
    found = there.join(watched.select([*names, _RANK]), keys=names, join_type="left outer")
    ranks = [NOBODYS if rank is None else rank for rank in found[_RANK].to_pylist()]
    return sorted(zip(found[_NUMBER].to_pylist(), ranks, strict=True))


class KeyReader:
    """Looks the watched keys up, and keeps what it found."""

    def __init__(self, table: Path, rows: WatchedRows) -> None:
        self._path, self._rows = table, rows
        self._watched = pq.read_table(rows.file)
        self._keys = self._watched.select(list(rows.key)).group_by(list(rows.key)).aggregate([])
        self._names = sorted(set(self._watched[_NUMBER].to_pylist()))
        self._table = memwal.open(table)
        self.found: list[dict[str, Any]] = []
        self.reads = self.raced = 0
        rows.looked(0)

    def step(self) -> None:
        """One lookup of all of them; every eighth opens the table anew."""
        if self.reads % 8 == 7:
            self._table = memwal.open(self._path)
        invoked = time.monotonic_ns()
        try:
            rows = self._table.get(self._keys, columns=[*self._rows.key, self._rows.sequence])
        except ReadRaced:
            self.raced += 1
            return
        returned = time.monotonic_ns()
        self.reads += 1
        self._rows.looked(self.reads)
        there = dict(numbers(rows, self._watched, self._rows.key, self._rows.sequence))
        self.found += [
            {"key": str(name), "kind": "read", "value": there.get(name), "invoked": invoked, "returned": returned,
             "name": f"lookup {self.reads}"}
            for name in self._names
        ]  # fmt: skip


def history(notes: Path, reads: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The notes of all attempts and the reads as one history.

    A row that several attempts wrote is one write, begun by the first and durable when the first of them says so. A row
    that was begun after one of a higher rank was durable has no effect, and is no write at all.
    """
    begun: dict[tuple[int, int], int] = {}
    durable: dict[tuple[int, int], int] = {}
    for file in sorted(notes.glob("*.jsonl")):
        rows: list[tuple[int, int]] = []
        for line in file.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                break
            note = json.loads(line)
            if "begun" in note:
                rows = [(number, rank) for number, rank in note["rows"]]
                begun |= {row: min(note["begun"], begun.get(row, note["begun"])) for row in rows}
            else:
                durable |= {row: min(note["durable"], durable.get(row, note["durable"])) for row in rows}
    ends: dict[int, list[tuple[int, int]]] = {}
    for (number, rank), at in durable.items():
        ends.setdefault(number, []).append((at, rank))
    writes = [
        {"key": str(number), "kind": "write", "value": rank, "invoked": at, "returned": durable.get((number, rank))}
        for (number, rank), at in begun.items()
        if not any(end < at and higher > rank for end, higher in ends.get(number, ()))
    ]
    return sorted([*writes, *reads], key=lambda each: each["invoked"])


def check(operations: Sequence[dict[str, Any]], file: Path) -> HistoryReport:
    """Store the history, and ask ``memwal explore check-history`` about it.

    That is a program of its own, since the simulator is no part of what runs in Spark.
    """
    file.write_text("".join(json.dumps(each) + "\n" for each in operations))
    asked = subprocess.run(
        [sys.executable, "-c", _CHECK, "explore", "check-history", str(file), "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if asked.returncode not in (0, 1):
        raise RuntimeError(f"memwal explore check-history {file}: {asked.stderr.strip()}")
    verdict = json.loads(asked.stdout)
    reads = [each for each in operations if each["kind"] == "read"]
    last: dict[str, int] = {}
    for each in operations:
        if each["kind"] == "write" and each["returned"] is not None:
            last[each["key"]] = max(last.get(each["key"], 0), each["returned"])
    return HistoryReport(
        operations=verdict["operations"],
        keys=verdict["keys"],
        reads=len(reads),
        overlapping=sum(r["value"] is not None and r["invoked"] < last.get(r["key"], 0) for r in reads),
        conflicts=tuple(f"key {each['key']}: {each['reason']}" for each in verdict["conflicts"]),
    )
