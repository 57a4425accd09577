"""A table that is asked in every way there is, and what must hold of the answers: each agrees with a scan of all rows.

Lookups, filters, searches, limits and planned reads run the engine's own plans (`memwal.read`). What they should give
is worked out here from the rows of a scan, by plain Python. Whether a scan is right others judge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from memwal.codec.index_details import IndexDetails
from memwal.effects import Io
from memwal.ids import FragmentId, Milliseconds, SpecId
from memwal.index import mem_wal, transforms
from memwal.read import cut, filters, lookup, predicates, scan, text, vector
from memwal.read.merging import Hiding
from memwal.read.query import Query
from memwal.revisions import CONFIG_REVISION, Revision
from memwal.table import columns, write
from memwal.table import schema as schemas
from memwal.table.state import TableState, latest
from memwal.violations import Violation

from .. import fixtures
from ..histories.history import Call, History
from ..histories.notes import WRITE_ACKNOWLEDGED, WRITE_INVOKED
from ..oracles import inspected
from ..process import Process
from ..store import Contents
from ..world import Oracle, World
from . import ground, sharded
from .actors import Acting, Action, read_by
from .ground import KEY, TABLE, VALUE
from .one_region import world as world_of_regions
from .scenario import ScenarioSetting
from .scripts import Words
from .writes import reads_are_explained

AT, TEXT = "at", "text"
SCHEMA = schemas.with_primary_key(
    pa.schema(
        [
            pa.field(KEY, pa.string()),
            pa.field(VALUE, pa.string()),
            pa.field(AT, pa.list_(pa.float32(), 1)),
            pa.field(TEXT, pa.string()),
        ]
    ),
    [KEY],
)
"""Rows: a key, a value ``v1`` to ``v9``, and a vector and a text that follow from the value."""
FIXTURE = "asked_table"
FRAGMENTS = {"a": "v3", "b": "v5"}, {"c": "v7", "d": "v9"}
"""What the table begins with, by fragment: key -> value."""
BASE = {key: value for part in FRAGMENTS for key, value in part.items()}
SPEC = transforms.bucket("half", KEY, 2)
"""Of the keys, ``a`` is in one region, and ``b`` in the other."""
BEGUN = History((Call(name="fixture/1", rows=tuple(BASE.items()), invoked=0, returned=0, outcome="ok"),))
"""What was written to the table before anything else."""

FILTERED, LOOKED_UP, NEAREST = "a filter equals a scan", "a lookup equals a scan", "a vector search equals a scan"
MATCHED, LIMITED = "a text search scores as one table does", "a limit gives as many rows as there are"


def row(key: str, value: str) -> pa.Table:
    """The one row of ``key``."""
    number = int(value[1:])
    words = " ".join(["fox", *["red"] * number])
    return pa.table([[key], [value], pa.array([[float(number)]], SCHEMA.field(AT).type), [words]], schema=SCHEMA)


def table(revision: Revision) -> Contents:
    """Contents of a store with the table of the fixture, and MemWAL enabled with two buckets of the key."""
    return _table(revision)


@lru_cache
def _table(revision: Revision) -> Contents:
    return ground.after(fixtures.load(FIXTURE), Process("administrator-0", partial(_enabled, revision))).contents


async def _enabled(revision: Revision) -> TableState:
    configured = await write.set_config(TABLE, {CONFIG_REVISION: revision.name})
    spec = transforms.resolve(SPEC, SpecId(1), configured.schema, configured.field_ids, revision)
    details = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None, specs=(spec,))
    return await mem_wal.enable(TABLE, configured, details)


def delete(key: str) -> Action:
    """The step that deletes ``key``, durably, through its region (R)."""

    async def step(acting: Acting) -> None:
        io = acting.place.table
        acting.writes += 1
        name = f"{acting.name}/{acting.writes}"
        await io.note(WRITE_INVOKED, write=name, rows=((key, None),))
        if acting.writer is None:
            acting.writer = await sharded.open_for(acting, row(key, "v1"))
        await acting.writer.delete(pa.table({KEY: [key]}))
        await io.note(WRITE_ACKNOWLEDGED, write=name)

    return step


async def rewrite_texts(acting: Acting) -> None:
    """Give the rows of the first fragment of the base table other texts, in place, past all regions."""
    texts = pa.array([f"{row(key, value).column(TEXT)[0]} dog" for key, value in FRAGMENTS[0].items()])
    await columns.replace_data(acting.place.table, {FragmentId(0): pa.table({TEXT: texts})})


async def read_in_splits(acting: Acting) -> None:
    """Read the table strongly, in two splits of one cut, as two processes would."""

    async def rows() -> pa.Table:
        parts = [ground.rows_table({})]
        for split in await cut.planned(acting.place.table, Query(columns=[KEY, VALUE]), None, 2):
            asked = Query(columns=split.columns)
            parts += [part async for part in cut.split_rows(acting.place.table, split, asked, Hiding())]
        return pa.concat_tables([part.replace_schema_metadata(None) for part in parts])

    await read_by(acting, rows)


WORDS: Words = {
    **sharded.WORDS,
    "rows": sharded.row(rows=row),
    "delete": lambda given: delete(given.argument),
    "rewrite_texts": lambda _: rewrite_texts,
    "read_in_splits": lambda _: read_in_splits,
}
"""What clients and administrators of the table may do."""


Rows = Sequence[tuple[Any, ...]]
"""Key and value of rows, and perhaps a score."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """A table, and the rows that a scan finds in it."""

    io: Io
    schema: pa.Schema
    rows: Sequence[Mapping[str, Any]]

    def query(self, condition: str | None = None, rows_most: int | None = None) -> Query:
        """As the engine's interface asks."""
        understood = predicates.understood(condition, self.schema)
        return Query(
            columns=[KEY, VALUE],
            keep=None if condition is None else filters.parse(condition, self.schema),
            predicate=predicates.of_columns(understood, self.schema),
            understood=understood,
            rows_most=rows_most,
        )

    def check(self, oracle: str, asked: str, answered: Rows, wanted: Rows) -> list[Violation]:
        """What is wrong with an answer."""
        found = _compared(oracle, asked, answered, wanted, [_pair(each) for each in self.rows])
        return [] if found is None else [found]

    async def filtered(self) -> list[Violation]:
        """By value, which has an index, and by key, which tells the region."""
        found = []
        keys = sorted({*BASE, *(each[KEY] for each in self.rows)})
        asked = {f"{VALUE} = '{value}'": (VALUE, {value}) for value in sorted({*BASE.values(), *self._values})}
        asked |= {
            f"{KEY} IN ('{key}', '{last}')": (KEY, {key, last}) for key, last in zip(keys, keys[1:], strict=False)
        }
        for condition, (name, values) in asked.items():
            wanted = [_pair(each) for each in self.rows if each[name] in values]
            answer, _ = await scan.query(self.io, self.query(condition))
            found += self.check(FILTERED, condition, _pairs(answer), wanted)
        return found

    async def looked_up(self) -> list[Violation]:
        """All keys at once, and each by itself."""
        found, keys = [], sorted({*BASE, *(each[KEY] for each in self.rows), "absent"})
        for some in (keys, *([key] for key in keys)):
            wanted = [_pair(each) for each in self.rows if each[KEY] in some]
            answer, _ = await lookup.lookup(self.io, pa.table({KEY: some}), self.query())
            found += self.check(LOOKED_UP, f"keys {', '.join(some)}", _pairs(answer), wanted)
        return found

    async def nearest(self) -> list[Violation]:
        """The two nearest rows to each value."""
        found = []
        for near in sorted({*BASE.values(), *self._values}):
            place = float(near[1:]) + 0.25
            far = {_pair(each): abs(each[AT][0] - place) for each in self.rows}
            wanted = sorted(far, key=lambda pair: (far[pair], pair))[:2]
            answer, _ = await vector.search(self.io, vector.Nearest(column=AT, vector=[place], k=2), self.query())
            found += self.check(NEAREST, f"2 nearest to {near}", _pairs(answer), wanted)
        return found

    async def matched(self) -> list[Violation]:
        """All rows with a word, and their scores."""
        found = []
        for word in ("fox", "red", "dog"):
            answer, _ = await text.search(self.io, text.Matching(column=TEXT, query=word, k=100), self.query())
            scores = [round(float(score), 4) for score in answer.column(text.SCORE).to_pylist()]
            answered = [(*pair, score) for pair, score in zip(_pairs(answer), scores, strict=True)]
            found += self.check(MATCHED, f"rows with {word!r}", answered, self._scored(word))
        return found

    async def limited(self) -> list[Violation]:
        """Of a limit as many rows as it says, or as there are."""
        found = []
        for most in (1, len(self.rows) - 1):
            answer, _ = await scan.query(self.io, self.query(rows_most=most))
            count, strange = answer.num_rows, {*_pairs(answer)} - {*map(_pair, self.rows)}
            if count != most or strange:
                reason = f"a scan of at most {most} rows gives {count}, and there are {len(self.rows)}"
                found.append(Violation("READ-001", LIMITED, reason, (("answer", str(_pairs(answer))),)))
        return found

    @property
    def _values(self) -> set[str]:
        return {each[VALUE] for each in self.rows}

    def _scored(self, word: str) -> list[tuple[str, str, float]]:
        """BM25 by the texts of all rows together."""
        texts = {_pair(each): each[TEXT].split() for each in self.rows if each[TEXT]}
        having = sum(word in words for words in texts.values())
        average = sum(map(len, texts.values())) / max(1, len(texts))
        weight = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        found = []
        for pair, words in texts.items():
            times = Counter(words)[word]
            score = weight * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * len(words) / average))
            found += [(*pair, round(float(np.float32(score)), 4))] if times else []
        return found


def _pair(row_: Mapping[str, Any]) -> tuple[str, str]:
    return row_[KEY], row_[VALUE]


def _pairs(answer: pa.Table) -> list[tuple[str, str]]:
    return list(zip(answer.column(KEY).to_pylist(), answer.column(VALUE).to_pylist(), strict=True))


def _compared(
    oracle: str, asked: str, answered: Rows, wanted: Rows, there: Collection[tuple[str, str]]
) -> Violation | None:
    """What is wrong with an answer: a row that is not ``there``, one that is missing, one too many, or a score."""
    shown = (("answer", str(sorted(answered))), ("of a scan", str(sorted(wanted))))
    pairs, right = (Counter(each[:2] for each in rows) for rows in (answered, wanted))
    more, less, gone = pairs - right, right - pairs, {*pairs} - {*there}
    if gone:
        return Violation("READ-002", oracle, f"{asked}: {min(gone)} is in the answer, but was replaced", shown)
    if less:
        return Violation("READ-001", oracle, f"{asked}: {min(less)} is missing", shown)
    if more:
        return Violation("READ-002", oracle, f"{asked}: {min(more)} is in the answer, and should not be", shown)
    if sorted(answered) != sorted(wanted):
        return Violation("PLAN-024", oracle, f"{asked}: scores are not those of all rows together", shown)
    return None


WAYS: Mapping[str, Callable[[_Answers], Awaitable[list[Violation]]]] = {
    FILTERED: _Answers.filtered,
    LOOKED_UP: _Answers.looked_up,
    NEAREST: _Answers.nearest,
    MATCHED: _Answers.matched,
    LIMITED: _Answers.limited,
}
"""By oracle: how the table is asked."""


async def _asked(io: Io) -> list[Violation]:
    rows = await scan.scan(io)
    answers = _Answers(io, (await latest(io)).schema, rows.to_pylist())
    return [violation for way in WAYS.values() for violation in await way(answers)]


def answers_equal_a_scan(io: Io) -> tuple[Oracle, ...]:
    """The oracles that ask the table in every way."""
    return inspected(Process("asker", partial(_asked, io)), list(WAYS))


def world(setting: ScenarioSetting, processes: Sequence[Process], before: Sequence[Process]) -> World:
    """``processes`` on the table, after those of ``before`` ran alone, one after another."""
    asked: tuple[Oracle, ...] = (reads_are_explained, *answers_equal_a_scan(setting.table))
    return world_of_regions(setting, table(setting.revision), *processes, before=before, ghosts=BEGUN, oracles=asked)
