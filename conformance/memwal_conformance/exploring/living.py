"""One run of a life behind the gate: under faults, in a chosen order of requests, or left alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from memwal_sim.following import RowsTold
from memwal_sim.histories.history import History, Rows

from .. import cells
from ..adapters.harness import Harness
from ..adapters.process import AdapterCrash, AdapterProcess, AdapterTimeout
from ..gate import FaultRule, Gate
from ..protocol import AdapterError, Hello, Json, ProtocolViolation
from ..running import machine
from ..running.testbed import FOLDER, storage_of
from . import asking, tables
from .asking import WrongAnswer
from .lived import Lived
from .lives import WITH_WRITER, ForeignLife, LifeStep, Verb
from .starting import LIMITS, Start, configured, leave, limits_of
from .tasks import TaskMarks

OLDER = 50
"""What the value of a row is ahead of its write's number, where the same put has the row once more behind it, and in
the first put of a group."""


@dataclass(slots=True)
class _Actor:
    """One actor of a running life."""

    name: str
    process: AdapterProcess
    handles: dict[int, str] = field(default_factory=dict)
    """Region -> its writer."""
    keys: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Region -> keys of its last put there."""
    stored: set[int] = field(default_factory=set)
    """Regions where its last put was acknowledged, in a table with sequences."""
    gone: str = ""
    """How it ended, if it did."""


@dataclass(slots=True)
class LifeRun:
    """A life under way. `do` may be called from several threads, one for each actor."""

    life: ForeignLife
    start: Start
    gate: Gate
    revision: str
    hello: Hello
    over: Callable[[], bool]
    """Whether no further operation is to begin."""
    cut: bool = False
    """Some did not."""
    actors: dict[str, _Actor] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    history: History = field(default_factory=History)
    begun: dict[str, int] = field(default_factory=dict)
    operations: list[tuple[int, str, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    acknowledged: list[RowsTold] = field(default_factory=list)
    """What actors said is stored, in order."""
    wrong_answers: list[WrongAnswer] = field(default_factory=list)
    region_ids: dict[int, str] = field(default_factory=dict)
    flushed: set[str] = field(default_factory=set)
    """Writes that a flush has covered."""
    owners: dict[int, str] = field(default_factory=dict)
    """Region -> the actor that opened it last."""
    fenced: set[str] = field(default_factory=set)
    older: set[str] = field(default_factory=set)
    """Values that a newer row in the same put replaced."""
    tasks: TaskMarks = field(default_factory=TaskMarks)
    epochs: dict[int, set[str]] = field(default_factory=dict)
    """Region -> epochs that its claims were told."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.region_ids = dict(self.start.region_ids)
        base = tables.written(tables.made(self.life)["rows"])
        self.history = self.history.begun("base", base).ended("base", "ok")

    def do(self, number: int) -> None:
        """The ``number``-th operation of the life. What goes wrong is noted, not raised."""
        if self.over():
            self.cut = True
            return
        operation = self.life.steps[number]
        actor = self.actors[operation.actor]
        if actor.gone or actor.name in self.killed:
            return
        region = operation.region
        if operation.verb in WITH_WRITER and region not in actor.handles:
            self._tried(actor, LifeStep(actor.name, Verb.OPEN, region), number)
            if region not in actor.handles:
                return
        if operation.verb is Verb.CLOSE and region not in actor.handles:
            return
        self._tried(actor, operation, number)

    def _tried(self, actor: _Actor, operation: LifeStep, number: int) -> None:
        if actor.gone or actor.name in self.killed:
            return
        with self._lock:
            made = self.gate.log
            self.operations.append((made[-1].order if made else -1, actor.name, operation.verb))
        try:
            self._do(actor, operation, number)
            self._tell(f"{operation}: done")
        except AdapterError as error:
            self._tell(f"{operation}: {error}")
            self.wrong_answers += asking.not_due(operation.verb, error)
            if operation.verb in WITH_WRITER and operation.region in actor.handles:
                self._tried(actor, LifeStep(actor.name, Verb.CLOSE, operation.region), number)
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
        table, region = f"s3://{self.gate.bucket}/{FOLDER}", operation.region
        match operation.verb:
            case Verb.OPEN:
                if region in actor.handles:
                    self._close(actor, region)
                actor.handles[region] = self._open(actor.process, table, region)
                self.owners[region] = actor.name
            case Verb.FLUSH:
                covered = self._own(actor)
                actor.process.call("writer.flush_memtable", {"writer": actor.handles[region]})
                self.flushed |= covered
            case Verb.CLOSE:
                self._close(actor, region)
            case Verb.SCAN:
                self._scan(actor, table, number)
            case Verb.ASK:
                self._ask(actor, table)
            case Verb.FINISH:
                self.tasks.finish(actor.process.call, actor.handles[region], number)
            case Verb.DONE:
                for region_id in [*self.region_ids.values()][:1]:
                    self.wrong_answers += self.tasks.asked(actor.process.call, table, region_id)
            case Verb.LATE:
                self._late(actor, region, number)
            case Verb.MERGE:
                actor.process.call("merge.run", {"table": table})
            case Verb.INDEX:
                for index in tables.INDEXES:
                    actor.process.call("catchup.run", {"table": table, "index": index["name"]})
            case Verb.COLLECT:
                actor.process.call("gc.run", {"table": table, "retain_versions": 1})
            case Verb.SNAPSHOT:
                actor.process.call("snapshot.run", {"table": table})
            case Verb.COMPACT:
                actor.process.call("base.write", {"table": table, "compact": True})
            case Verb.BASE | Verb.UPDATE | Verb.REMOVE:
                self._base_write(actor, operation.verb, table, number)
            case _:
                self._write(actor, operation, number)

    def _open(self, process: AdapterProcess, table: str, region: int) -> str:
        asked: Json = {"table": table, **tables.of_region(self.life, region)}
        if self.life.regions == 1:  # any other is opened by its value, as by a writer that knows of no region
            known = self.region_ids.get(region)
            asked |= {"new_region_id": tables.REGION} if known is None else {"region_id": known}
        if self.life.sequenced:
            opened = process.call("sequence.open", asked | {"sequence_by": tables.SEQUENCE})
        else:
            opened = process.call("writer.open", asked | limits_of(self.life.memtable_rows))
        with self._lock:
            first = self.region_ids.setdefault(region, opened["region_id"])
            self.wrong_answers += asking.claimed(opened, first, self.epochs.setdefault(region, set()))
        handle: str = opened["writer"]
        return handle

    def _close(self, actor: _Actor, region: int) -> None:
        actor.process.call("writer.close", {"writer": actor.handles.pop(region)})

    def _own(self, actor: _Actor) -> set[str]:
        with self._lock:
            return {call.name for call in self.history.acknowledged if call.process == actor.name}

    def _write(self, actor: _Actor, operation: LifeStep, number: int) -> None:
        """A put or a delete: of new keys, of those of the last put, or of those that the table began with."""
        verb, region, life = operation.verb, operation.region, self.life
        last = actor.keys.get(region) or tables.new_keys(life, number, 1, region)
        keys = {
            Verb.FILL: tables.new_keys(life, number, life.memtable_rows or 2, region),
            Verb.REPLACE: tables.first_keys(life, region if life.regions > 1 else 0)[::2],
            Verb.AGAIN: last,
            Verb.DELETE: last,
        }.get(verb) or tables.new_keys(life, number, 2, region)
        actor.keys[region] = keys
        handle: Json = {"writer": actor.handles[region], "durable": True}
        if verb is Verb.DELETE:
            found: Rows = tuple(((key,), None) for key in keys)
            self._noted(actor, number, found, "writer.delete", handle | {"keys": tables.keys_sent(keys)})
            return
        sent = tables.sent(life, keys, f"w{number}")
        found = tables.written(sent)
        if life.sequenced:
            actor.stored.discard(region)
            put = self._noted(actor, number, found, "sequence.put", {"writer": actor.handles[region], "rows": sent})
            actor.stored.add(region)
            self.wrong_answers += asking.counted_late(put, 0)
            return
        if verb is Verb.GROUP:
            first = tables.sent(life, tables.new_keys(life, number, 4, region)[2:], f"w{number + OLDER}")
            before = tables.written(first)
            self._begun(actor, f"w{number + OLDER}", before)
            actor.process.call("writer.put", {**handle, "rows": first, "durable": False})
            self._noted(actor, number, found, "writer.put", handle | {"rows": sent})
            self._acknowledged(actor, f"w{number + OLDER}", before)
            return
        if verb is Verb.TWICE:
            self.older.add(f"w{number + OLDER}")
            older = tables.sent(life, keys, f"w{number + OLDER}")
            sent = {**sent, "rows": [*older["rows"], *sent["rows"]]}
        self._noted(actor, number, found, "writer.put", handle | {"rows": sent})

    def _base_write(self, actor: _Actor, verb: Verb, table: str, number: int) -> None:
        """By a plain user of Lance, of keys that no writer of the region writes."""
        (*_, key) = tables.first_keys(self.life)
        message: Json = {"table": table}
        if verb is Verb.REMOVE:
            message["delete"] = tables.keys_sent([key])
            found: Rows = (((key,), None),)
        else:
            keys = tables.new_keys(self.life, number, 2, 1) if verb is Verb.BASE else (key,)
            sent = tables.sent(self.life, keys, f"w{number}")
            message["append" if verb is Verb.BASE else "update"] = sent
            found = tables.written(sent)
        self._noted(actor, number, found, "base.write", message)
        self.flushed.add(f"w{number}")

    def _late(self, actor: _Actor, region: int, number: int) -> None:
        """A put of rows that are older than those of the last put, if that was acknowledged: it changes nothing."""
        if region in actor.stored:
            keys = actor.keys[region]
            sent = tables.sent(self.life, keys, f"w{number}", tables.LATE)
            put = actor.process.call("sequence.put", {"writer": actor.handles[region], "rows": sent})
            self.wrong_answers += asking.counted_late(put, len(keys))

    def _begun(self, actor: _Actor, name: str, found: Rows) -> None:
        with self._lock:
            self.begun[name] = len(self.gate.prefixes) - 1
            self.history = self.history.begun(name, found, process=actor.name)

    def _acknowledged(self, actor: _Actor, name: str, found: Rows, *, in_wal: bool = True) -> None:
        self.gate.acknowledge(actor.name, name)
        with self._lock:
            self.history = self.history.ended(name, "ok")
            if in_wal:
                self.acknowledged.append(RowsTold(actor.name, tables.told(found), self.gate.log[-1].order))

    def _noted(self, actor: _Actor, number: int, found: Rows, message: str, sent: Json) -> Json:
        """Send a write, and note when it was called and what came of it."""
        name = f"w{number}"
        self._begun(actor, name, found)
        try:
            answer = actor.process.call(message, sent)
        except AdapterError as error:
            with self._lock:
                self.history = self.history.ended(name, "failed" if error.kind == "invalid_argument" else "unknown")
            raise
        self._acknowledged(actor, name, found, in_wal=message != "base.write")
        return answer

    def _scan(self, actor: _Actor, table: str, number: int) -> None:
        own = self._memory(actor)
        strong = bool(own) or self.revision != "R"  # R: the rows of other writers' memory are theirs alone
        name = f"s{number}"
        with self._lock:
            self.history = self.history.begun(name, kind="read", process=actor.name, strong=strong)
            self.fenced |= {name for region in actor.handles if self.owners[region] != actor.name}
        reader = actor.process.call("reader.open", {"table": table, "consistency": "strong"})["reader"]
        seen = cells.to_table(actor.process.call("reader.scan", {"reader": reader, **own})["rows"]).to_pylist()
        found = tuple(((row["id"],), dict(row)) for row in seen)
        with self._lock:
            settled = self.history.settled | frozenset(self.flushed) | {"base"}
            self.history = replace(self.history.ended(name, "ok", kind="read", rows=found), settled=settled)

    def _memory(self, actor: _Actor) -> Json:
        """The writers of an actor, where a reader takes them."""
        own = [] if "reader.scan writers" in self.hello.without else list(actor.handles.values())
        return {"writers": own} if own else {}

    def _ask(self, actor: _Actor, table: str) -> None:
        own = self._memory(actor)
        reader = actor.process.call("reader.open", {"table": table, "consistency": "strong"})["reader"]
        with self._lock:
            rows = [(key, row) for call in self.history.writes for key, row in call.rows]

        def call(message: str, params: Json) -> Json:
            return actor.process.call(message, {"reader": reader, **params})

        keys = {key for (key,), _ in rows}
        values = Counter([*(row["v"] for _, row in rows if row is not None), *self.older])
        found = asking.asked(call, self.hello, self.life, keys, values, own, self.revision)
        with self._lock:
            self.wrong_answers += found


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
    over: Callable[[], bool] = lambda: False,
) -> Lived:
    """Run a life under ``rules``. A rule that kills does so with SIGKILL. No operation begins when it is ``over``."""
    hello = harness.hello()
    asked = configured(harness, revision, life)
    run: LifeRun | None = None

    def kill(name: str) -> None:
        assert run is not None
        run.killed.add(name)
        run.actors[name].process.strike()

    with Gate(start.contents, rules=rules, kill=kill, limits=LIMITS, looking=hello.looks_as) as gate:
        run = LifeRun(life, start, gate, revision, hello, over)
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
        operations=tuple(run.operations),
        told=tuple(run.told),
        ended=tuple(ended),
        breaks=breaks,
        wrong_answers=tuple(run.wrong_answers),
        region_ids=tuple(run.region_ids.values()),
        inconclusive=inconclusive,
        cut=run.cut,
        exhausted=exhausted,
        fenced=frozenset(run.fenced),
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
