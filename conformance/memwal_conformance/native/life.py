"""A writer's life behind the gate, and what a crash at each of its changes leaves to those who come after.

The life: open, two puts, a flush, a put, close; open again, a put, close. Each put writes two rows of its own, so that
a put that is there by halves, or twice, is seen in what is counted.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memwal_sim.store import Contents

from ..adapters.harness import import_path
from ..adapters.process import AdapterCrash, AdapterProcess, AdapterTimeout
from ..gate import Address, CrashState, Do, FaultRule, Gate, GateLimits, LogEntry
from ..judge import store as judged
from ..judge import structure
from ..judge import table as judged_table
from ..judge.wire import DamagedBytes
from ..protocol import AdapterError, Json
from ..running.scenarios import plain_rows, rows

REGION = "0a0b0c0d-0000-4000-8000-000000000001"
WRITER = "writer-1"
SCHEMA: list[Json] = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "v", "type": "utf8", "nullable": True},
]
BASE = (100, 101)
STEPS = ("open", "put 1", "put 2", "flush", "put 3", "close", "open", "put 4", "close")
_LIMIT_S = 60.0
_TIMEOUT = {"storage.timeout": "2s"}


def ids_of(put: int) -> tuple[int, int]:
    """Ids of the rows of a put."""
    return 2 * put, 2 * put + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the table is made and how the package is set."""

    append_only: bool
    http_retries: int

    @property
    def settings(self) -> dict[str, str]:
        """For `configure`, without what leads to the store."""
        return {"append_only": "on" if self.append_only else "off"}

    def __str__(self) -> str:
        table = "append-only table" if self.append_only else "table with a primary key"
        return f"{table}, {self.http_retries} HTTP retries"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLife:
    """One life as it was recorded."""

    kind: Kind
    states: tuple[CrashState, ...]
    """From the creation of the table on; promises are numbers of puts."""
    log: tuple[LogEntry, ...]
    steps: tuple[str, ...]
    """What was asked, and how it ended."""
    inconclusive: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A state after which something is not as it must be."""

    order: int
    """Of the request, in the log, that made the state; 0: none."""
    where: str
    """The moment of looking: ``stored``, ``recovered``, ``flushed``."""
    what: str


@dataclass(slots=True)
class _LifeWriter:
    """The writer's side: continues with a new claim after an error, as a service would."""

    process: AdapterProcess
    table: str
    gate: Gate
    handle: str = ""
    said: list[str] = field(default_factory=list)

    def step(self, name: str) -> None:
        verb, _, number = name.partition(" ")
        if not self.handle and verb != "open":
            self.step("open")
        try:
            self._do(verb, int(number or 0))
            self.said.append(f"{name}: done")
        except AdapterError as error:
            self.said.append(f"{name}: {error}")
            if verb != "open" and self.handle:
                self._leave()

    def _do(self, verb: str, number: int) -> None:
        if verb == "open":
            opened = self.process.call("writer.open", {"table": self.table, "new_region_id": REGION})
            self.handle = opened["writer"]
        elif verb == "put":
            sent = {"writer": self.handle, "rows": rows_of(ids_of(number)), "durable": True}
            self.process.call("writer.put", sent)
            self.gate.acknowledge(WRITER, number)
        elif verb == "flush":
            self.process.call("writer.flush_memtable", {"writer": self.handle})
        else:
            handle, self.handle = self.handle, ""
            self.process.call("writer.close", {"writer": handle})

    def _leave(self) -> None:
        handle, self.handle = self.handle, ""
        try:
            self.process.call("writer.close", {"writer": handle})
        except AdapterError as error:
            self.said.append(f"close after the error: {error}")


def rows_of(ids: Iterable[int]) -> Json:
    """Rows with these ids, for a message."""
    return rows(SCHEMA, [(number, f"v{number}") for number in ids])


@contextmanager
def adapter(command: Sequence[str], settings: Mapping[str, str], more: Mapping[str, str]) -> Iterator[AdapterProcess]:
    """A configured process of the adapter, with ``more`` in its environment."""
    variables = {**os.environ, "PYTHONPATH": import_path(), **more}
    with AdapterProcess(tuple(command), actor=WRITER, limit_s=_LIMIT_S, environment=variables) as process:
        process.greet()
        process.call("configure", {"revision": "R", "settings": dict(settings)})
        yield process


def environment(gate: Gate, actor: str) -> dict[str, str]:
    """The package comes as ``actor``, what the adapter looks up by itself as another one."""
    look = gate.credentials(f"{actor} looking")
    return {**gate.environment(actor), "MEMWAL_LOOK_KEY": look.access_key, "MEMWAL_LOOK_SECRET": look.secret_key}


def _region(gate: Gate) -> dict[str, str]:
    """7.0 asks the store for its region, in the world outside, unless a storage option has it."""
    return {"storage.aws_region": gate.region}


def created(command: Sequence[str], kind: Kind) -> Contents:
    """A store with a new table."""
    with Gate() as gate, adapter(command, {**kind.settings, **_region(gate)}, environment(gate, "create")) as process:
        create = {"table": f"s3://{gate.bucket}/t", "rows": rows_of(BASE), "primary_key": ["id"]}
        process.call("table.create", create)
        return gate.contents


def live(command: Sequence[str], kind: Kind, start: Contents, rules: Sequence[FaultRule] = ()) -> RecordedLife:
    """Live through `STEPS` on ``start``, under faults. A rule that kills does so with SIGKILL, and that is the end."""
    process: AdapterProcess | None = None

    def kill(_: str) -> None:
        assert process is not None
        os.killpg(process.number, signal.SIGKILL)

    settings = {**kind.settings, **_TIMEOUT, "storage.client_max_retries": str(kind.http_retries)}
    with Gate(start, rules=rules, kill=kill, limits=GateLimits(life_s=600)) as gate:
        with adapter(command, {**settings, **_region(gate)}, environment(gate, WRITER)) as process:
            writer = _LifeWriter(process, f"s3://{gate.bucket}/t", gate)
            try:
                for step in STEPS:
                    writer.step(step)
            except (AdapterCrash, AdapterTimeout) as end:
                writer.said.append(str(end).splitlines()[0])
            states, log = tuple(gate.prefixes), gate.log
        return RecordedLife(kind=kind, states=states, log=log, steps=tuple(writer.said), inconclusive=gate.inconclusive)


def changes(life: RecordedLife) -> list[Address]:
    """Where the writer changed the store: an address for each of its puts."""
    met: Counter[tuple[str, str]] = Counter()
    found = []
    for entry in life.log:
        if entry.actor == WRITER and entry.operation in ("CREATE", "PUT"):
            met[entry.operation, entry.name] += 1
            occurrence = met[entry.operation, entry.name]
            found.append(Address(actor=WRITER, operation=entry.operation, name=entry.name, occurrence=occurrence))
    return found


def look(recoverer: AdapterProcess, kind: Kind, state: CrashState) -> list[Loss]:
    """What is wrong after a crash in ``state``: on the store, with a recovered writer, and after its flush."""
    promised = [put for promise in state.acknowledged if isinstance(put := promise.what, int)]
    # A closed writer of 9.0 may still write its hint: then the folder cannot be removed at once.
    with tempfile.TemporaryDirectory(prefix="memwal-crash-", ignore_cleanup_errors=True) as scratch:
        root = Path(scratch) / "t"
        save(state.contents, Path(scratch))
        found = [Loss(order=state.order, where="stored", what=what) for what in _structural(root, kind)]
        try:
            for where, seen in recovered(recoverer, root, kind):
                found += [Loss(order=state.order, where=where, what=w) for w in _miscounted(seen, promised)]
        except (AdapterError, DamagedBytes) as error:
            found.append(Loss(order=state.order, where="recovered", what=f"no recovery: {error}"))
        found += [Loss(order=state.order, where="flushed", what=what) for what in _structural(root, kind)]
        recoverer.call("configure", {"revision": "R", "settings": kind.settings})
    return found


def recovered(process: AdapterProcess, root: Path, kind: Kind) -> Iterator[tuple[str, list[int]]]:
    """Ids that are seen. The package scans no table without a primary key: there each generation is read by itself."""
    table = str(root)
    writer = process.call("writer.open", {"table": table, "new_region_id": REGION})["writer"]
    if not kind.append_only:
        yield "recovered", _scanned(process, table, [writer])
    process.call("writer.close", {"writer": writer})
    yield "flushed", _appended(root) if kind.append_only else _scanned(process, table, [])


def _appended(root: Path) -> list[int]:
    found = table_of(root)
    for region in judged.read(root, "R", ()).regions.values():
        for generation in region.newest.generations if region.newest is not None else ():
            found += table_of(region.folder / generation.path)
    return found


def table_of(root: Path) -> list[int]:
    """Ids in one Lance table. Raises `DamagedBytes`."""
    ids: list[int] = judged_table.rows(root)["id"].to_pylist()
    return ids


def _scanned(process: AdapterProcess, table: str, writers: list[str]) -> list[int]:
    reader = process.call("reader.open", {"table": table, "consistency": "strong"})["reader"]
    beside: Json = {"writers": writers} if writers else {}
    found = plain_rows(process.call("reader.scan", {"reader": reader, **beside})["rows"])
    return [row["id"] for row in found]


def _miscounted(seen: Sequence[int], promised: Sequence[int]) -> Iterator[str]:
    """Acknowledged: each row once. Not acknowledged: all rows once, or none. The base: as it was."""
    counts = Counter(seen)
    every = {number: put for put in range(1, 5) for number in ids_of(put)}
    for number in sorted({*counts, *BASE, *every}):
        if number in BASE and counts[number] != 1:
            yield f"base row {number} is there {counts[number]} times"
        elif number not in BASE and number not in every:
            yield f"row {number} was never written"
    for put in range(1, 5):
        there = [counts[number] for number in ids_of(put)]
        if (there != [1, 1]) if put in promised else (there not in ([0, 0], [1, 1])):
            promise = "acknowledged" if put in promised else "never acknowledged"
            yield f"rows {ids_of(put)}, {promise}, are there {there} times"


def _structural(root: Path, kind: Kind) -> list[str]:
    """What is broken, also on a second look: during the first, a closed writer of 8.0 to 11.0 may write its hint."""
    return [what for what in _broken(root, kind) if what in _broken(root, kind)]


def _broken(root: Path, kind: Kind) -> Iterator[str]:
    try:
        results = structure.run(judged.read(root, "R", () if kind.append_only else ("id",)))
    except DamagedBytes as error:
        yield f"the judge cannot read the store: {error}"
        return
    for result in results:
        for fault in result.broken:
            yield f"[{', '.join(fault.clauses)}] {result.check}: {fault.what}"


def save(contents: Contents, folder: Path) -> None:
    """Every object as a file."""
    for name, data in contents.objects.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def lost(recoverer: AdapterProcess, life: RecordedLife, first_order: int = 0) -> list[Loss]:
    """`look` at every state that a request from ``first_order`` on made."""
    found: list[Loss] = []
    for state in life.states:
        if state.order >= first_order:
            found += look(recoverer, life.kind, state)
    return found


def faults(life: RecordedLife) -> list[FaultRule]:
    """The four fates of a change that its sender cannot tell apart from a refusal, at each change of a life."""
    deeds = (Do.FAIL, Do.LOSE, Do.APPLY_THEN_FAIL, Do.APPLY_THEN_LOSE)
    return [FaultRule(at=address, do=do) for address in changes(life) for do in deeds]


def fault_order(life: RecordedLife, rule: FaultRule) -> int | None:
    """Order, in the log, of the request that the rule met; None if it met none."""
    return next((entry.order for entry in life.log if entry.rule == rule.label), None)


def report(life: RecordedLife, losses: Sequence[Loss]) -> dict[str, Any]:
    """As JSON."""
    texts: dict[str, list[int]] = {}
    for loss in losses:
        orders = texts.setdefault(f"{loss.where}: {loss.what}", [])
        if loss.order not in orders:
            orders.append(loss.order)
    return {
        "kind": str(life.kind),
        "steps": list(life.steps),
        "states": len(life.states),
        "losses": [{"what": what, "after requests": orders} for what, orders in texts.items()],
    }
