"""What is wrong after a run of a life: in what is stored, in what a fresh process recovers, and in what was answered.

Every crash state is recovered by a fresh process under the limits of the writer, and once more under others.
Acknowledged writes have to be there, others whole or not at all, nothing twice, and the same before and after the flush
of the one that recovered.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memwal import paths
from memwal.words import counted
from memwal_sim.histories.history import History

from .. import cells
from ..adapters.harness import Harness
from ..adapters.process import BROKEN, AdapterProcess
from ..gate import CrashState
from ..gate.requests import class_of, name_of
from ..judge import content, entries, structure, table
from ..judge import store as judged
from ..judge.choice import Breach
from ..judge.wire import DamagedBytes, WireMessage
from ..protocol import Hello, Json
from ..running import oracle
from ..running.testbed import FOLDER
from ..sentences import without_names
from .asking import READS
from .copies import StateCopy, copied
from .lending import by_another, first_that, lent
from .lived import Lived
from .lives import ForeignLife
from .starting import configured, limits_of
from .tables import KEY, columns, key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Something that is wrong, and where it was seen."""

    oracle: str
    """``rows``, ``structure``, ``machine``, ``recovery``, ``answer``, ``crash``, ``error`` or ``hang``."""
    words: str
    """What is wrong, without numbers and names: the same in every run that shows it."""
    detail: str
    """What is wrong, as it was seen."""
    clauses: tuple[str, ...]
    order: int
    """Of the request, in the log, that made the state; 0: the whole run."""
    where: str = ""
    """``stored``, ``recovered`` or ``flushed``."""
    other_limits: bool = False
    """It was seen only by a process that recovered under another limit than the writer's."""
    note: str | None = None
    """The note of SPEC_NOTES by which the texts leave it open."""
    lent: bool = False
    """Another player made it, in a role that the suite lends the implementation."""


DURABLE = ("WAL-001",)
"""What is broken where an acknowledged row is not there, or not as it was acknowledged."""
MERGED = ("MERGE-002", "READ-002")
"""What is broken where the base table has a key twice."""
STALE = "a scan through the memory of a writer that another one has replaced lacks acknowledged rows"
STRONG = ("READ-008",)
"""What is broken by that, as AMB-140 (strong reads from a fenced writer's memory) is read."""
RECOVERED = ("FENCE-016",)
"""What is broken where a fresh process cannot recover a region."""
COMPLETE = ("FLUSH-013",)
"""What is broken where it misses a file of a generation that the region lists."""
ONE_ENTRY = ("WAL-006",)
"""What is broken where the rows of one write are in two entries."""
_MISSED = re.compile(r"(?i)not ?found.*_gen_|_gen_.*not ?found", re.DOTALL)


Broken = Callable[[str], tuple[str, ...]]
"""What is wrong with rows -> the clauses that are broken."""


def _by_stored(_: str) -> tuple[str, ...]:
    """The judge reads the newest of each key: what is wrong was not kept."""
    return DURABLE


def _by_appended(wrong: str) -> tuple[str, ...]:
    """Of rows that are stored twice without a key no clause speaks; those of what stored them so are cited."""
    return () if "twice" in wrong else DURABLE


def _by_read(wrong: str) -> tuple[str, ...]:
    """A row that a reader misses was not kept; any other answer is not the newest version of each key."""
    return DURABLE if "missing" in wrong else READS[1:]


def of_run(lived: Lived, hello: Hello) -> Iterator[Symptom]:
    """What is wrong with the run itself: steps that no step of the machine allows, answers, ends."""
    for finding in lived.breaks:
        assert finding.broken is not None
        near, _, line = finding.broken.partition("(line ")
        number = line.partition(" ")[0]
        yield Symptom(
            oracle="machine",
            words=without_names(near),
            detail=finding.broken,
            clauses=finding.clauses,
            order=0,
            note=finding.ambiguity,
            lent=number.isdecimal() and by_another(lived, int(number), hello),
        )
    for read in lived.history.reads:
        if lived.history.explains(read):
            continue
        stale = read.name in lived.fenced and lived.history.explains(replace(read, strong=False))
        why, clauses = (STALE, STRONG) if stale else ("a scan found rows that no order of the writes gives", READS)
        yield Symptom(oracle="answer", words=why, detail=f"{why}: {dict(read.rows)}", clauses=clauses, order=0)
    for wrong in lived.wrong_answers:
        yield Symptom(
            oracle=wrong.oracle, words=wrong.words, detail=wrong.detail, clauses=wrong.clauses, order=0, note=wrong.note
        )
    for ended in lived.ended:
        kind, _, _ = ended.partition(" ")
        yield Symptom(oracle=kind, words=ended, detail=ended, clauses=(), order=0)
    if lived.exhausted:
        words = "it sends requests without an end"
        yield Symptom(oracle="hang", words=words, detail=lived.inconclusive, clauses=(), order=0)


_RANDOM = re.compile(rb"[0-9a-fA-F]{8}(?=_gen_[0-9])|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,}")
"""Parts of names that are others in every run."""
_BY_SIZE = (paths.VERSIONS, paths.TRANSACTIONS, "_pk_index")
"""Folders of Lance tables whose files differ between equal runs: they hold times, random names, and hash maps."""
StateLook = tuple[object, ...]
"""What a crash state is, as far as a recovering process can tell: equal for states that need one judgement only."""


def look_of(lived: Lived, state: CrashState) -> StateLook:
    """Every object by its bytes without what is another in every run, and what was promised by then."""
    objects = Counter((name_of(_bare(name)), _kept(name, data)) for name, data in state.contents.objects.items())
    calls = tuple((call.name, call.outcome, repr(call.rows)) for call in lived.at(state).calls)
    life = lived.life
    return life.append_only, life.memtable_rows, lived.region_ids, frozenset(objects.items()), calls


def _bare(name: str) -> str:
    """A name without a random last part, as probes of a store have it."""
    return re.sub(r"(?<=/)[0-9a-f]{32}$", "*", name)


@functools.lru_cache(maxsize=1 << 14)
def _kept(name: str, data: bytes) -> object:
    """What of an object tells states apart: of a table's manifest what it says, of other unsteady files their size."""
    inside = name.split("/")
    if paths.VERSIONS in inside:
        try:
            said = table.table_manifest(data)
        except DamagedBytes:
            return data
        fragments = [repr(_fragment(each)) for each in said.data]
        return said.version, tuple(fragments), repr(said.memwal), repr(said.config)
    if any(folder in inside for folder in _BY_SIZE):
        return len(data) if paths.TRANSACTIONS not in inside else None
    return hashlib.sha256(_RANDOM.sub(b"", data) if class_of(name) in ("manifest", "hint") else data).digest()


def _fragment(data: bytes) -> tuple[object, ...]:
    """A fragment without the random names of its files (table documents, "Fragments")."""
    fragment = WireMessage.of(data)
    deletions = fragment.message(3)
    deleted = None if deletions is None else (deletions.uint(1), deletions.uint(2), deletions.uint(4))
    return fragment.uint(1), [_RANDOM.sub(b"", file) for file in fragment.blobs(2)], deleted, fragment.uint(4)


OTHER_ROWS = 2
"""MemTable limit of a second recovery where the writer had none: what is in the WAL fills several MemTables."""


def _limit(rows: int | None) -> str:
    return "no limit of the MemTable" if rows is None else f"a MemTable of {counted(rows, 'row')}"


@dataclass(slots=True)
class Recoverer:
    """A fresh process for each crash state: one process of the adapter, which is configured anew each time."""

    harness: Harness
    revision: str
    judged: dict[StateLook, tuple[Symptom, ...]] = field(default_factory=dict)
    """What has been judged already; several may share it."""
    _process: AdapterProcess | None = None
    _scans: bool = False
    """Whether it has recovered and reads."""

    def knows(self, lived: Lived, state: CrashState) -> bool:
        """Whether a state like this one has been judged."""
        return look_of(lived, state) in self.judged

    def after(self, lived: Lived, state: CrashState) -> list[Symptom]:
        """What is wrong after a crash in ``state``."""
        look = look_of(lived, state)
        known = self.judged.get(look)
        if known is None:
            known = self.judged[look] = tuple(self._after(lived, state))
        return [replace(each, order=state.order) for each in known]

    def _after(self, lived: Lived, state: CrashState) -> list[Symptom]:
        found: list[Symptom] = []
        history = lived.at(state)
        own = lived.life.memtable_rows
        for rows in (own, OTHER_ROWS if own is None else None):
            with copied(state.contents, self.revision) as copy:
                if rows == own:
                    found += self._stored(lived, history, state, copy, "stored")
                found += self._reopened(lived, history, state, copy, rows)
            if found:
                break  # the other limit has nothing to say about what is wrong without it
        others = {each.words for each in found if each.lent}
        return [replace(each, lent=each.words in others) for each in found]

    def _reopened(
        self, lived: Lived, history: History, state: CrashState, copy: StateCopy, rows: int | None
    ) -> Iterator[Symptom]:
        """By a process that recovers under this limit of the MemTable."""
        other = rows != lived.life.memtable_rows
        self._scans = False
        try:
            for each in self._recovered(lived, history, state, copy, rows):
                told = f"{each.detail} (recovered with {_limit(rows)})" if other else each.detail
                yield replace(each, detail=told, other_limits=other)
        except BROKEN as error:
            self._end()
            text = str(error).splitlines()[0].replace(str(copy.root), FOLDER)  # its place is another each time
            failed, clauses = ("read the region", READS[:1]) if self._scans else ("recover the region", RECOVERED)
            yield Symptom(
                oracle="recovery",
                words=f"a fresh process cannot {failed}: {without_names(text)}",
                detail=f"{text} (recovered with {_limit(rows)})" if other else text,
                clauses=COMPLETE if _MISSED.search(str(error)) else clauses,
                order=state.order,
                other_limits=other,
            )

    def close(self) -> None:
        """Give the process back."""
        if self._process is not None:
            self.harness.finish(self._process)
            self._process = None

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _stored(
        self, lived: Lived, history: History, state: CrashState, copy: StateCopy, where: str
    ) -> Iterator[Symptom]:
        """Structure, and the rows that the judge reads."""
        try:
            store = judged.read(copy.root, self.revision, key_of(lived.life), copy.storage)
            for result in structure.run(store):
                for fault in result.broken:
                    words = f"{result.check}: {without_names(fault.what)}"
                    yield Symptom(
                        oracle="structure",
                        words=words,
                        detail=fault.what,
                        clauses=fault.clauses,
                        order=state.order,
                        where=where,
                        lent=where == "stored" and self._lent(lived, state, words),
                    )
            again = entries.stored_once(store, _rows_written(history, lived.life))
            twice = [] if lived.life.append_only else _twice(table.plain(table.rows(store.root, store.storage)))
            seen = appended(store) if lived.life.append_only else content.live(content.durable(store))
        except DamagedBytes as error:
            words = f"the store cannot be read: {without_names(str(error))}"
            yield Symptom(
                oracle="recovery", words=words, detail=str(error), clauses=DURABLE, order=state.order, where=where
            )
            return
        if again is not None:
            words = "a row of one write is in two WAL entries"
            of = again.clauses if isinstance(again, Breach) else ONE_ENTRY
            yield Symptom(
                oracle="structure",
                words=words,
                detail=again.what if isinstance(again, Breach) else again,
                clauses=of,
                order=state.order,
                where=where,
            )
        if twice:
            yield Symptom(
                oracle="rows",
                words="the base table has rows of one key twice",
                detail=f"the base table has rows of one key twice: {twice}",
                clauses=MERGED,
                order=state.order,
                where=where,
            )
        broken = _by_appended if lived.life.append_only else _by_stored
        yield from self._compared(history, seen, state, where, broken)

    def _lent(self, lived: Lived, state: CrashState, words: str) -> bool:
        """Whether another player made what is wrong with the structure of a state."""
        hello = self.harness.hello()
        if lent(hello).isdisjoint(step.verb for step in lived.life.steps):
            return False

        def shows(earlier: CrashState) -> bool:
            with copied(earlier.contents, self.revision) as copy:
                found = self._stored(lived, lived.at(earlier), earlier, copy, "earlier")
                return any(each.words == words for each in found)

        return by_another(lived, first_that(lived, state, shows).order, hello)

    def _compared(
        self, history: History, seen: Sequence[dict[str, Any]], state: CrashState, where: str, broken: Broken
    ) -> Iterator[Symptom]:
        wrong = oracle.why_not(history, KEY, seen)
        if wrong is not None:
            yield Symptom(
                oracle="rows",
                words=without_names(wrong),
                detail=wrong,
                clauses=broken(wrong),
                order=state.order,
                where=where,
            )

    def _recovered(
        self, lived: Lived, history: History, state: CrashState, copy: StateCopy, rows: int | None
    ) -> Iterator[Symptom]:
        """By a writer that opens the region, and after its close. Raises what a broken adapter raises."""
        life = lived.life
        regions = [each for each in lived.region_ids if list(copy.root.glob(f"_mem_wal/{each}/manifest/*.binpb"))]
        if not regions:
            return
        if self._process is None:
            self._process = self.harness.actor("recoverer", self.revision)
        process, hello = self._process, self.harness.hello()
        asked = configured(self.harness, self.revision, life)
        process.call("configure", asked | copy.asked)
        opened = [{"table": copy.table, "region_id": each, **limits_of(rows)} for each in regions]
        writers = [process.call("writer.open", each)["writer"] for each in opened]
        scans = hello.answers("reader.scan") and not life.append_only
        if scans:
            beside: Json = {} if "reader.scan writers" in hello.without else {"writers": writers}
            yield from self._compared(history, self._scanned(process, copy.table, beside), state, "recovered", _by_read)
        for writer in writers:
            process.call("writer.close", {"writer": writer})
        copy.changed()
        yield from self._stored(lived, history, state, copy, "flushed")
        if scans:
            yield from self._compared(history, self._scanned(process, copy.table, {}), state, "flushed", _by_read)

    def _scanned(self, process: AdapterProcess, place: str, beside: Json) -> list[dict[str, Any]]:
        self._scans = True
        reader = process.call("reader.open", {"table": place, "consistency": "strong"})["reader"]
        found = table.plain(cells.to_table(process.call("reader.scan", {"reader": reader, **beside})["rows"]))
        self._scans = False
        return found


def _twice(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows whose key is not theirs alone."""
    keys = Counter(tuple(row[name] for name in KEY) for row in rows)
    return [row for row in rows if keys[tuple(row[name] for name in KEY)] > 1]


def _rows_written(history: History, life: ForeignLife) -> Counter[str]:
    """Each row, as entries are asked for it -> how many writes have it; of a delete its key, and NULL."""
    empty = dict.fromkeys(column["name"] for column in columns(life))
    rows = [row or {**empty, **dict(zip(KEY, key, strict=True))} for write in history.writes for key, row in write.rows]
    return Counter(map(content.shown, rows))


def appended(store: judged.JudgedStore) -> list[dict[str, Any]]:
    """Every row of an append-only table, as often as it is stored. Raises `DamagedBytes`."""
    found = table.plain(table.rows(store.root, store.storage))
    for region in store.regions.values():
        newest = region.newest
        if newest is None:
            continue
        for generation in newest.generations:
            if generation.number > store.merged(region.region_id):
                found += table.plain(table.rows(region.folder / generation.path, store.storage))
        found += content.wal_rows(region, judged.replay_start(newest, store.layout), max(region.wal, default=-1))
    return [{name: row[name] for name in ("id", "v")} for row in found]
