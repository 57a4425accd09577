"""One run of a life behind the gate: under faults, in a chosen order of requests, or left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memwal_sim.following import RowsTold, RowTold
from memwal_sim.histories.history import Call, History, Rows
from memwal_sim.store import Contents

from .. import cells
from ..adapters.harness import Harness
from ..adapters.process import AdapterCrash, AdapterProcess, AdapterTimeout
from ..gate import CrashState, FaultRule, Gate, GateLimits, LogEntry
from ..protocol import AdapterError, Json, ProtocolViolation
from ..running import machine
from ..running.scenarios import plain_rows, rows
from ..running.testbed import FOLDER, storage_of
from ..verdicts import Finding
from .lives import WRITES, ForeignLife, LifeStep, Verb

SCHEMA: list[Json] = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "v", "type": "utf8", "nullable": True},
]
KEY = ("id",)
BASE = ((100_000, "base"), (100_001, "base"))
"""The first rows of every table."""
REGION = "0a0b0c0d-0000-4000-8000-000000000001"
"""Of a region that a life makes itself."""
LIMITS = GateLimits(life_s=900, log_entries=5_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The table that a life begins with, and its region; empty if the life makes it."""

    contents: Contents
    region_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """One run, as it was recorded."""

    life: ForeignLife
    history: History
    """All calls, as their clients know them."""
    begun: Mapping[str, int]
    """Name of a write -> how many changes of the store had been made when it was called."""
    states: tuple[CrashState, ...]
    """Promises are names of writes."""
    log: tuple[LogEntry, ...]
    told: tuple[str, ...]
    """What was asked, in order, and what came of it."""
    ended: tuple[str, ...]
    """How actors ended that were not killed: ``hang at …`` or ``crash at …``."""
    breaks: tuple[Finding, ...]
    """Where the run is none of the abstract machine."""
    region_id: str
    inconclusive: str
    exhausted: bool = False
    """It came to a limit of the gate: the implementation goes round in circles."""

    def at(self, state: CrashState) -> History:
        """What was called and promised by the time of a crash in ``state``."""
        promised = {promise.what for promise in state.acknowledged}
        calls = []
        for call in self.history.writes:
            if self.begun.get(call.name, 0) > state.index:
                continue
            kept = not call.process or call.name in promised
            calls.append(call if kept and call.outcome == "ok" else replace(call, outcome="unknown", returned=None))
        return History(tuple(calls))


def rows_of(ids: Sequence[int], value: str) -> Json:
    """Rows with these ids, for a message."""
    return rows(SCHEMA, [(number, value) for number in ids])


def written(sent: Json) -> Rows:
    """Rows of a message, as a history has them."""
    return tuple(((row["id"],), dict(row)) for row in plain_rows(sent))


def started(harness: Harness, revision: str, life: ForeignLife) -> Start:
    """A new table with `BASE`, and a region in it unless the life makes one. Raises what a broken adapter raises."""
    with Gate(limits=LIMITS) as gate:
        process = harness.actor("maker", revision)
        try:
            process.call("configure", configured(harness, revision, life) | {"storage": storage_of(gate, "maker")})
            table = f"s3://{gate.bucket}/{FOLDER}"
            process.call("table.create", {"table": table, "rows": rows(SCHEMA, list(BASE)), "primary_key": list(KEY)})
            region_id = ""
            if not life.new_region:
                opened = process.call("writer.open", {"table": table})
                region_id = opened["region_id"]
                process.call("writer.close", {"writer": opened["writer"]})
            contents = gate.contents
            leave(process, harness, revision, life)
        except BaseException:
            process.kill()
            raise
        harness.finish(process)
        return Start(contents=contents, region_id=region_id)


def configured(harness: Harness, revision: str, life: ForeignLife) -> Json:
    """What `configure` says for a life: what the user says, and that its table is append-only."""
    settings = {**harness.settings, **({"append_only": "on"} if life.append_only else {})}
    found: Json = {"revision": revision, "settings": settings}
    return found | ({"rows": "ipc"} if "rows.ipc" in harness.hello().capabilities else {})


def leave(process: AdapterProcess, harness: Harness, revision: str, life: ForeignLife) -> None:
    """Have a process drop what is open, while the gate still answers what it has to say."""
    process.call("configure", configured(harness, revision, life))


@dataclass(slots=True)
class _Actor:
    """One actor of a running life."""

    name: str
    process: AdapterProcess
    handle: str = ""
    keys: tuple[int, ...] = ()
    """Of its last put."""
    gone: str = ""
    """How it ended, if it did."""


@dataclass(slots=True)
class LifeRun:
    """A life under way. `do` may be called from several threads, one for each actor."""

    life: ForeignLife
    start: Start
    gate: Gate
    revision: str
    without: frozenset[str]
    actors: dict[str, _Actor] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    history: History = field(default_factory=History)
    begun: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    acknowledged: list[RowsTold] = field(default_factory=list)
    """What actors said is stored, in order."""
    region_id: str = ""
    flushed: set[str] = field(default_factory=set)
    """Writes that a flush has covered."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.region_id = self.start.region_id
        base = tuple(((number,), {"id": number, "v": value}) for number, value in BASE)
        self.history = self.history.begun("base", base).ended("base", "ok")

    def do(self, number: int) -> None:
        """The ``number``-th operation of the life. What goes wrong is noted, not raised."""
        operation = self.life.steps[number]
        actor = self.actors[operation.actor]
        if actor.gone or actor.name in self.killed:
            return
        if operation.verb in (*WRITES, Verb.FLUSH) and not actor.handle:
            self._tried(actor, LifeStep(actor.name, Verb.OPEN), number)
            if not actor.handle:
                return
        if operation.verb is Verb.CLOSE and not actor.handle:
            return
        self._tried(actor, operation, number)

    def _tried(self, actor: _Actor, operation: LifeStep, number: int) -> None:
        if actor.gone or actor.name in self.killed:
            return
        try:
            self._do(actor, operation, number)
            self._tell(f"{operation}: done")
        except AdapterError as error:
            self._tell(f"{operation}: {error}")
            if operation.verb in (*WRITES, Verb.FLUSH) and actor.handle:
                self._tried(actor, LifeStep(actor.name, Verb.CLOSE), number)
        except AdapterTimeout:
            actor.gone = f"hang at {operation.verb}"
            self._tell(f"{operation}: no answer in {actor.process.limit_s:g} s")
        except AdapterCrash as error:
            if actor.name not in self.killed:
                actor.gone = f"crash at {operation.verb}"
            self._tell(f"{operation}: {str(error).splitlines()[0]}")
        except ProtocolViolation as error:
            actor.gone = f"crash at {operation.verb}"
            self._tell(f"{operation}: {error}")

    def _tell(self, line: str) -> None:
        with self._lock:
            self.told.append(line)

    def _do(self, actor: _Actor, operation: LifeStep, number: int) -> None:
        table = f"s3://{self.gate.bucket}/{FOLDER}"
        match operation.verb:
            case Verb.OPEN:
                if actor.handle:
                    self._close(actor)
                actor.handle = self._open(actor.process, table)
            case Verb.PUT | Verb.FILL:
                size = 2 if operation.verb is Verb.PUT else self.life.memtable_rows or 2
                actor.keys = tuple(range(100 * number, 100 * number + size))
                self._write(actor, number, "writer.put", {"rows": rows_of(actor.keys, f"w{number}")})
            case Verb.AGAIN:
                actor.keys = actor.keys or (100 * number,)
                self._write(actor, number, "writer.put", {"rows": rows_of(actor.keys, f"w{number}")})
            case Verb.DELETE:
                keys = rows(SCHEMA[:1], [(key,) for key in actor.keys])
                self._write(actor, number, "writer.delete", {"keys": keys})
            case Verb.FLUSH:
                covered = self._own(actor)
                actor.process.call("writer.flush_memtable", {"writer": actor.handle})
                self.flushed |= covered
            case Verb.CLOSE:
                self._close(actor)
            case Verb.SCAN:
                self._scan(actor, table, number)
            case Verb.MERGE:
                actor.process.call("merge.run", {"table": table})
            case Verb.COLLECT:
                actor.process.call("gc.run", {"table": table, "retain_versions": 1})
            case Verb.SNAPSHOT:
                actor.process.call("snapshot.run", {"table": table})
            case Verb.BASE:
                sent = rows_of(range(100 * number, 100 * number + 2), f"w{number}")
                self._noted(actor, number, written(sent), "base.write", {"table": table, "append": sent})
                self.flushed.add(f"w{number}")
            case Verb.COMPACT:
                actor.process.call("base.write", {"table": table, "compact": True})

    def _open(self, process: AdapterProcess, table: str) -> str:
        asked: Json = {"table": table}
        if self.region_id:
            asked["region_id"] = self.region_id
        else:
            asked["new_region_id"] = REGION
        opened = process.call("writer.open", asked | limits_of(self.life.memtable_rows))
        self.region_id = opened["region_id"]
        handle: str = opened["writer"]
        return handle

    def _close(self, actor: _Actor) -> None:
        handle, actor.handle = actor.handle, ""
        actor.process.call("writer.close", {"writer": handle})

    def _own(self, actor: _Actor) -> set[str]:
        with self._lock:
            return {call.name for call in self.history.acknowledged if call.process == actor.name}

    def _write(self, actor: _Actor, number: int, message: str, sent: Json) -> None:
        deletes = message == "writer.delete"
        found: Rows = tuple(((key,), None) for key in actor.keys) if deletes else written(sent["rows"])
        self._noted(actor, number, found, message, {"writer": actor.handle, "durable": True, **sent})

    def _noted(self, actor: _Actor, number: int, found: Rows, message: str, sent: Json) -> None:
        """Send a write, and note when it was called and what came of it."""
        name = f"w{number}"
        with self._lock:
            self.begun[name] = len(self.gate.prefixes) - 1
            self.history = self.history.begun(name, found, process=actor.name)
        try:
            actor.process.call(message, sent)
        except AdapterError as error:
            with self._lock:
                self.history = self.history.ended(name, "failed" if error.kind == "invalid_argument" else "unknown")
            raise
        self.gate.acknowledge(actor.name, name)
        with self._lock:
            self.history = self.history.ended(name, "ok")
            self.acknowledged.append(RowsTold(actor.name, _told(found), self.gate.log[-1].order))

    def _scan(self, actor: _Actor, table: str, number: int) -> None:
        own = [actor.handle] if actor.handle and "reader.scan writers" not in self.without else []
        strong = bool(own) or self.revision != "R"  # R: the rows of other writers' memory are theirs alone
        name = f"s{number}"
        with self._lock:
            self.history = self.history.begun(name, kind="read", process=actor.name, strong=strong)
        reader = actor.process.call("reader.open", {"table": table, "consistency": "strong"})["reader"]
        beside: Json = {"writers": own} if own else {}
        seen = cells.to_table(actor.process.call("reader.scan", {"reader": reader, **beside})["rows"]).to_pylist()
        found = tuple(((row["id"],), dict(row)) for row in seen)
        with self._lock:
            settled = self.history.settled | frozenset(self.flushed) | {"base"}
            self.history = replace(self.history.ended(name, "ok", kind="read", rows=found), settled=settled)


def _told(rows: Rows) -> tuple[RowTold, ...]:
    """Rows of a write as words: all columns of lives have one word for each value."""
    return tuple(RowTold.of(key, (row or {}).values()) for key, row in rows)


def limits_of(rows: int | None) -> Json:
    """What `writer.open` is told of the MemTable; None: no limit."""
    return {} if rows is None else {"memtable_rows": rows}


Drive = Callable[[LifeRun], None]
"""Carries out all operations of a running life, in some order."""


def in_order(run: LifeRun) -> None:
    """The operations as the life has them."""
    for number in range(len(run.life.steps)):
        run.do(number)


def live(
    harness: Harness,
    revision: str,
    life: ForeignLife,
    start: Start,
    rules: Sequence[FaultRule] = (),
    drive: Drive = in_order,
) -> Lived:
    """Run a life under ``rules``. A rule that kills does so with SIGKILL."""
    hello = harness.hello()
    asked = configured(harness, revision, life)
    run: LifeRun | None = None

    def kill(name: str) -> None:
        assert run is not None
        run.killed.add(name)
        run.actors[name].process.strike()

    with Gate(start.contents, rules=rules, kill=kill, limits=LIMITS, looking=hello.looks_as) as gate:
        run = LifeRun(life, start, gate, revision, frozenset(hello.without))
        try:
            for name in life.actors:
                process = harness.actor(name, revision)
                run.actors[name] = _Actor(name, process)
                process.call("configure", asked | {"storage": storage_of(gate, name)})
            drive(run)
            states, log = tuple(gate.prefixes), gate.log
            inconclusive = gate.inconclusive
            breaks = tuple(machine.looked(gate, revision, FOLDER, run.acknowledged))
            exhausted = len(log) >= LIMITS.log_entries
            gate.use(lambda _request, apply: apply())  # from here on every request is answered honestly
            for rule in rules:
                gate.release(rule)
            ended = [actor.gone for actor in run.actors.values() if actor.gone]
            _left(harness, run)
        except BaseException:
            for actor in run.actors.values():
                actor.process.kill()
            raise
    return Lived(
        life=life,
        history=run.history,
        begun=run.begun,
        states=states,
        log=log,
        told=tuple(run.told),
        ended=tuple(ended),
        breaks=breaks,
        region_id=run.region_id,
        inconclusive=inconclusive,
        exhausted=exhausted,
    )


def _left(harness: Harness, run: LifeRun) -> None:
    """Give back the processes that drop what is open when they are told to; the others are killed."""
    for actor in run.actors.values():
        if actor.gone or actor.name in run.killed or not actor.process.alive:
            actor.process.kill()
            continue
        try:
            leave(actor.process, harness, run.revision, run.life)
        except (AdapterError, AdapterCrash, AdapterTimeout, ProtocolViolation):  # it is of no use any more
            actor.process.kill()
        else:
            harness.finish(actor.process)


def unexplained(lived: Lived) -> list[Call]:
    """Reads whose answers no order of the writes explains."""
    return [read for read in lived.history.reads if not lived.history.explains(read)]
