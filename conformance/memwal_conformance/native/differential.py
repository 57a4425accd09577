"""The readers of the native package against a dictionary: ``python -m memwal_conformance.native.differential --help``.

A seed gives a program: a schema, a base table, writes over several generations of one shard, and questions. What the
package answers is held against rows by key in a dictionary. Needs the package and its adapter, so that
it runs in the environment of any version.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import mem_wal
from memwal.words import counted

from memwal_conformance.adapters import native, native_reads, native_state, versions
from memwal_conformance.adapters.harness import import_path
from memwal_conformance.adapters.native_errors import RAISED

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
Row = tuple[Any, ...]
Step = tuple[str, tuple[Row, ...]]
"""``put``, ``delete`` (rows have the key only), ``reopen`` or ``merge``."""

VALUES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "int64": (pa.int64(), (0, 1, 2, 3, -1, 2**62, -(2**63))),
    "int16": (pa.int16(), (0, 1, 2, -1, 300)),
    "uint32": (pa.uint32(), (0, 1, 2, 2**31)),
    "utf8": (pa.string(), ("", "a", "b", "ab", "a\0", "é", "'")),
    "binary": (pa.binary(), (b"", b"a", b"\0", b"\0\0", b"\xff")),
    "bool": (pa.bool_(), (True, False)),
    "float64": (pa.float64(), (0.0, 1.5, -2.5)),
    "list": (pa.list_(pa.int32()), ([], [1], [1, None, 2])),
    "decimal": (pa.decimal128(10, 2), (0, 1, -3)),
}
KEYS = (("int64",), ("utf8",), ("uint32",), ("binary",), ("bool",), ("int64", "utf8"), ("utf8", "int16"))
COMPARED = ("int64", "int16", "uint32", "utf8", "bool", "float64")
"""Types whose values a filter names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked; ``get`` is a lookup of a key, anything else a scan of the writer or of the SSTables."""

    get: Row | None = None
    beside_writer: bool = False
    counts: bool = False
    filter: tuple[int, str, Any] | None = None
    """Column, operator and value."""
    columns: tuple[int, ...] | None = None
    limit: tuple[int, int | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Everything that one run does."""

    types: tuple[str, ...]
    key_columns: int
    base: tuple[Row, ...]
    steps: tuple[Step, ...]
    questions: tuple[Question, ...]
    settings: dict[str, int] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        fields = []
        for number, name in enumerate(self.types):
            marks = {b"lance-schema:unenforced-primary-key": b"true"} if number < self.key_columns else None
            if marks and self.key_columns > 1:
                marks[b"lance-schema:unenforced-primary-key:position"] = str(number + 1).encode()
            fields.append(pa.field(f"c{number}", VALUES[name][0], not marks, marks))
        return pa.schema(fields)

    def table(self, rows: Sequence[Row]) -> pa.Table:
        columns = [pa.array([row[n] for row in rows], f.type) for n, f in enumerate(self.schema)]
        return pa.table(columns, schema=self.schema)


def program(seed: int, *, small_memtables: bool) -> Program:
    """The program of a seed."""
    chance = random.Random(seed)
    key = chance.choice(KEYS)
    types = (*key, *(chance.choice(list(VALUES)) for _ in range(chance.randint(1, 3))))

    def row() -> Row:
        return tuple(
            chance.choice(VALUES[name][1]) if n < len(key) or chance.random() < 0.8 else None
            for n, name in enumerate(types)
        )

    def rows(most: int) -> tuple[Row, ...]:
        return tuple(row() for _ in range(chance.randint(1, most)))

    def step() -> Step:
        what = chance.choices(("put", "delete", "reopen", "merge"), (6, 2, 3, 1))[0]
        if what == "delete" and hasattr(mem_wal.ShardWriter, "delete"):
            return what, tuple(found[: len(key)] for found in rows(3))
        return (what, ()) if what in ("reopen", "merge") else ("put", rows(5))

    def question() -> Question:
        if chance.random() < 0.3:
            return Question(get=row()[: len(key)])
        column = chance.randrange(len(types))
        name = types[column]
        condition = (column, chance.choice(("=", "<", ">=", "!=")), chance.choice(VALUES[name][1]))
        return Question(
            beside_writer=chance.random() < 0.5,
            counts=chance.random() < 0.2,
            filter=condition if name in COMPARED and chance.random() < 0.5 else None,
            columns=tuple(sorted(chance.sample(range(len(types)), chance.randint(1, len(types)))))
            if chance.random() < 0.4
            else None,
            limit=(chance.choice((0, 1, 2, 3, 99)), chance.choice((None, 0, 1, 2))) if chance.random() < 0.4 else None,
        )

    base = {found[: len(key)]: found for found in rows(8)}
    return Program(
        types=types,
        key_columns=len(key),
        base=tuple(base.values()),
        steps=tuple(step() for _ in range(chance.randint(1, 8))),
        questions=tuple(question() for _ in range(8)),
        settings={"max_memtable_batches": chance.randint(1, 3)} if small_memtables else {},
    )


def wrong(asked: Program) -> str | None:
    """The first answer that differs from the dictionary's, or error; None if there is none."""
    with tempfile.TemporaryDirectory(prefix="memwal-diff-", ignore_cleanup_errors=True) as scratch:
        try:
            return next(_answers(asked, f"{scratch}/t"), None)
        except RAISED as error:
            return f"{type(error).__name__}: {str(error).split(', /')[0]}"


def carried_out(asked: Program, url: str) -> tuple[Any, list[Row]]:
    """Do the steps of a program on a table that is there; gives the open writer, and the rows that there must be."""
    rows = {row[: asked.key_columns]: row for row in asked.base}

    def claim() -> Any:
        return lance.dataset(url).mem_wal_writer(
            SHARD, durable_write=True, max_wal_flush_interval_ms=1, **asked.settings
        )

    writer = claim()
    try:
        for what, given in asked.steps:
            if what == "put":
                writer.put(asked.table(given))
                rows |= {row[: asked.key_columns]: row for row in given}
            elif what == "delete":
                keys = asked.table([(*key, *[None] * (len(asked.types) - len(key))) for key in given])
                writer.delete(keys.select(range(asked.key_columns)))
                rows = {key: row for key, row in rows.items() if key not in given}
            else:
                writer.close()
                if what == "merge":
                    native.merge_run(native_state.NativeState(), {"table": url})
                writer = claim()
    except BaseException:
        with contextlib.suppress(*RAISED):
            writer.close()
        raise
    return writer, list(rows.values())


def _answers(asked: Program, url: str) -> Iterator[str]:
    lance.write_dataset(asked.table(asked.base), url, schema=asked.schema).initialize_mem_wal()
    writer, rows = carried_out(asked, url)
    try:
        for question in asked.questions:
            if question.beside_writer:
                yield from _differs(asked, question, url, writer, rows)
        writer.close()
        for question in asked.questions:
            if not question.beside_writer:
                yield from _differs(asked, question, url, None, rows)
    finally:
        with contextlib.suppress(*RAISED):
            writer.close()


def _differs(asked: Program, question: Question, url: str, writer: Any, rows: list[Row]) -> Iterator[str]:
    columns = question.columns or tuple(range(len(asked.types)))
    names = [f"c{n}" for n in columns]
    if question.get is not None:
        due = [row for row in rows if row[: asked.key_columns] == question.get]
        found = _lookup(asked, question.get, url)
    else:
        due = [row for row in rows if _passes(question, row)]
        scanner = _scanner(url, writer)
        if question.filter is not None:
            scanner = scanner.filter(_sql(question.filter))
        if question.columns is not None:
            scanner = scanner.project(names)
        if question.limit is not None:
            scanner = scanner.limit(*question.limit)
        if question.counts:
            number = scanner.count_rows()
            if number != _most(question, len(due)):
                yield f"{question}: {counted(number, 'row')}, not {_most(question, len(due))}"
            return
        found = scanner.to_table()
    wanted = asked.table(due).select(columns).to_pylist()
    got = found.select(names).to_pylist()
    strange = [row for row in got if got.count(row) > wanted.count(row)]
    if strange or len(got) != _most(question, len(due)):
        yield f"{question}: {got}, of {wanted}"


def _most(question: Question, rows: int) -> int:
    limit, offset = question.limit or (rows, None)
    return max(0, min(limit, rows - (offset or 0)))


def _passes(question: Question, row: Row) -> bool:
    if question.filter is None:
        return True
    column, operator, value = question.filter
    if row[column] is None:
        return False
    return bool({"=": pc.equal, "<": pc.less, ">=": pc.greater_equal, "!=": pc.not_equal}[operator](row[column], value))


def _sql(condition: tuple[int, str, Any]) -> str:
    column, operator, value = condition
    text = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()
    return f"c{column} {operator} {text}"


def _scanner(url: str, writer: Any) -> Any:
    if writer is None:
        return mem_wal.LsmScanner.from_snapshots(
            lance.dataset(url), native_reads.snapshots(native_state.NativeState(), url)
        )
    until = time.monotonic() + 10  # what a full MemTable hides until it is flushed is known (`full_memtable.py`)
    while writer.memtable_stats().get("frozen_count") and time.monotonic() < until:
        time.sleep(0.005)
    return writer.lsm_scanner()


def _lookup(asked: Program, key: Row, url: str) -> pa.Table:
    names = [f"c{n}" for n in range(asked.key_columns)]
    arrays = [pa.array([value], asked.schema.field(n).type) for n, value in enumerate(key)]
    wanted = arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, names=names)
    return (
        mem_wal.LsmPointLookupPlanner(
            lance.dataset(url), native_reads.snapshots(native_state.NativeState(), url), names
        )
        .plan_lookup(wanted)
        .to_table()
    )


def smaller(asked: Program, tries: int = 150) -> Program:
    """A program that still goes wrong, with less in it."""
    for part in ("questions", "steps", "base"):
        number = 0
        while number < len(getattr(asked, part)) and tries:
            kept = getattr(asked, part)
            less = replace(asked, **{part: kept[:number] + kept[number + 1 :]})
            tries -= 1
            if wrong(less):
                asked = less
            else:
                number += 1
    return asked


def main() -> int:
    """The command line. Exit status 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m memwal_conformance.native.differential")
    parser.add_argument("--native-version", metavar="X", help="pylance==X in an environment of its own")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--programs", type=int, default=100, metavar="N", help="how many")
    parser.add_argument("--small-memtables", action="store_true", help="MemTables of one to three batches")
    asked = parser.parse_args()
    if asked.native_version is not None:
        more = ["--small-memtables"] if asked.small_memtables else []
        numbers = ["--first", str(asked.first), "--programs", str(asked.programs)]
        python = str(versions.interpreter(asked.native_version))
        command = [python, "-m", "memwal_conformance.native.differential", *numbers, *more]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": import_path()}, check=False).returncode
    bad = 0
    for seed in range(asked.first, asked.first + asked.programs):
        found = program(seed, small_memtables=asked.small_memtables)
        if said := wrong(found):
            bad += 1
            least = smaller(found)
            sys.stdout.write(f"seed {seed}: {said}\n  {least}\n  {wrong(least)}\n")
    sys.stdout.write(f"pylance {lance.__version__}: {bad} of {asked.programs} programs with a wrong answer\n")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
