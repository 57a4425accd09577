"""A recorded fault as a scenario behind the gate: its operations as messages, its stops and faults as rules.

A trace says in which order the processes of one implementation made their requests. Another one makes others. What is
kept is where a process stands still while others run, and what becomes of a change of the store: given by class and
name of what is about to be asked for, and counted from the beginning of the operation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memwal_sim.histories.history import History
from memwal_sim.outcomes import Fate
from memwal_sim.scenarios import ground
from memwal_sim.scenarios.scenario import find, of, setting
from memwal_sim.store import Contents
from memwal_sim.traces.trace import Step, Trace
from memwal_sim.world import World

from ..protocol import Json
from ..running import oracle, scenarios
from ..running.scenarios import SuiteScenario
from ..running.testbed import FOLDER
from .scripts import SCHEMA, Doing, NotPortable, actor, scripts

PORTABLE = frozenset(scenario.name for scenario in (*of("writers"), *of("jobs")))
"""Scenarios of one region under the table that the protocol can say; others are about specs, indexes or commits."""
FAULTS = {
    Fate.LOST.label: "lose",
    Fate.APPLIED.label: "apply_then_lose",
    Fate.THROTTLED.label: "fail",
    Fate.CONFLICT.label: "refuse",
}
_CHANGES = frozenset({"put_if_absent", "put", "delete", "copy", "rename_if_absent"})
_READS = {"get": "GET", "head": "HEAD", "list": "LIST", "list_folders": "LIST"}
_CLASSES = {"hint": "hint", "manifest": "manifest", "wal": "wal", "gen": "generation", "region": "region"}
_BEGINS = {"write_invoked": "put", "frozen": "flush", "read_invoked": "read"}
"""Event of a note -> the operation that it begins."""
_ENDS = {"recovered": "open", "write_acknowledged": "put", "flushed": "flush", "read_returned": "read"}
_SITES = (("jobs.collector", "collect"), ("index.regions", "snapshot"), ("index.snapshot.store", "snapshot"))
"""Site of a request -> the operation that makes such ones."""


@dataclass(frozen=True, slots=True)
class TranslatedFault:
    """A recorded fault, ready to be run."""

    scenario: SuiteScenario
    contents: Contents
    history: History
    stops: tuple[tuple[str, ...], ...]
    """Labels of the rules for each place where a process stands still; one of them is enough."""


@dataclass(slots=True)
class _Operation:
    """One operation of a process, and the steps of the trace that it made."""

    doing: Doing
    steps: list[Step] = field(default_factory=list)
    over: bool = False
    rules: list[Json] = field(default_factory=list)
    stops: dict[int, list[str]] = field(default_factory=dict)
    """Index of the step before which it stands still -> labels of the rules, of which one is enough."""


def translated(trace: Trace, name: str, revision: str) -> TranslatedFault:
    """The scenario of ``trace`` under a revision. Raises `NotPortable`."""
    header = trace.header
    if header.scenario not in PORTABLE:
        raise NotPortable(f"the scenario {header.scenario} is not about writers, merges and reads of one region")
    if strange := {step.outcome for step in trace.steps} - {Fate.NORMAL.label, *FAULTS}:
        raise NotPortable(f"a request that is {sorted(strange)[0]} takes a client that gives up in time")
    world = find(header.scenario).build(setting(revision))
    operations = {name: _assigned(said, trace.steps, name) for name, said in scripts(world.processes).items()}
    _add_rules(trace.steps, operations)
    opened = [o.doing.message["as"] for each in operations.values() for o in each if o.doing.word == "open"]
    described: Json = {
        "title": header.title or name,
        "revisions": [revision],
        "clauses": _clauses(trace),
        "schema": SCHEMA,
        "primary_key": [ground.KEY],
        "gate": {"rules": [rule for each in operations.values() for operation in each for rule in operation.rules]},
        "steps": [*_steps(trace.steps, operations), *_afterwards(opened)],
    }
    contents = Contents({f"{FOLDER}/{path}": data for path, data in world.contents.objects.items()})
    stops = [stop for each in operations.values() for operation in each for stop in operation.stops.values()]
    return TranslatedFault(scenarios.made(described, Path(name)), contents, _history(world), tuple(map(tuple, stops)))


def _clauses(trace: Trace) -> list[str]:
    found = trace.header.violation
    return [found.clause] if found is not None and not found.clause.startswith(("AMB", "ENGINE")) else ["WAL-001"]


def _history(world: World) -> History:
    """The writes that made the table, in an order in which they may have happened."""
    assert isinstance(world.ghosts, History)
    history = History()
    for write in world.ghosts.acknowledged:
        put = [{ground.KEY: key, ground.VALUE: value} for key, value in write.rows if value is not None]
        gone = [{ground.KEY: key} for key, value in write.rows if value is None]
        history = oracle.written(history, (ground.KEY,), "", put, "ok")
        history = oracle.written(history, (ground.KEY,), "", gone, "ok", deletes=True)
    return history


def _assigned(doings: Sequence[Doing], steps: Sequence[Step], name: str) -> list[_Operation]:
    """The operations of a process with the steps of the trace that each made."""
    operations = [_Operation(doing) for doing in doings]
    place = 0
    for step in steps:
        if step.actor != name:
            continue
        site = next((word for prefix, word in _SITES if step.site.startswith(prefix)), "")
        if site and operations[place].doing.word != site:
            place = _next(operations, place, site)
        elif _merges_again(operations, place, step):
            place += 1
        if operations[place].over and place + 1 < len(operations):
            place += 1
        operations[place].steps.append(step)
        for event in (note.partition(" ")[0] for note in step.notes):
            if _ENDS.get(event) == operations[place].doing.word:
                operations[place].over = True
            begun = _BEGINS.get(event)
            if begun is not None and _is_next(operations[place], begun, event):
                place = _next(operations, place, begun)
    for operation in operations[:place]:
        operation.over = True
    last = operations[place]
    last.over = last.over or (last.doing.word == "merge" and not _pending(last.steps))
    return [operation for number, operation in enumerate(operations) if operation.steps or number < place]


def _is_next(here: _Operation, begun: str, event: str) -> bool:
    """Whether an event that begins an operation is about another one than ``here``."""
    earlier = (note for step in here.steps[:-1] for note in step.notes)
    return here.over or here.doing.word != begun or any(note.startswith(event) for note in earlier)


def _merges_again(operations: Sequence[_Operation], place: int, step: Step) -> bool:
    """Whether a merge that found nothing more to do is followed by another one, which begins with ``step``."""
    here = operations[place]
    return (
        [each.doing.word for each in operations[place : place + 2]] == ["merge", "merge"]
        and bool(here.steps)
        and here.steps[-1].site == "region.manifest._exists"
        and step.site == "table.versions.listing"
    )


def _next(operations: Sequence[_Operation], place: int, word: str) -> int:
    """The next operation of a kind behind ``place``, or ``place`` if there is none."""
    return next((n for n in range(place + 1, len(operations)) if operations[n].doing.word == word), place)


def _pending(steps: Sequence[Step]) -> bool:
    """Whether a merge stands in the middle: its last change is not the commit."""
    changes = [step for step in steps if step.operation in _CHANGES]
    return bool(changes) and not changes[-1].path.startswith("versions/")


def _add_rules(steps: Sequence[Step], operations: Mapping[str, Sequence[_Operation]]) -> None:
    """A rule for each place where an operation stands still, for each fault, and for each operation without an end."""
    numbers = iter(range(1, 10_000))
    blocks = {step.index: number for number, step in _numbered(steps)}
    for each in operations.values():
        for operation in each:
            mine = operation.steps
            for before, after in zip(mine, mine[1:], strict=False):
                if blocks[before.index] != blocks[after.index]:
                    _stop(operation, after, f"stop {next(numbers)}")
            for step in mine:
                if step.outcome in FAULTS and step.operation in _CHANGES:
                    _rule(operation, f"fault {next(numbers)}", step, FAULTS[step.outcome])
            changes = [step for step in mine if step.operation in _CHANGES]
            if not operation.over and changes:
                _rule(operation, f"crash {next(numbers)}", changes[-1], "kill_after")


def _numbered(steps: Sequence[Step]) -> Iterator[tuple[int, Step]]:
    """Each step with the number of its block: of steps of one process in a row."""
    number = 0
    for position, step in enumerate(steps):
        number += position > 0 and steps[position - 1].actor != step.actor
        yield number, step


def _stop(operation: _Operation, step: Step, label: str) -> None:
    """Hold the request; if it is a read, which others may make otherwise, the next change at the latest."""
    later = [s for s in operation.steps if s.index > step.index and s.operation in _CHANGES and s.path != "hint"]
    operation.stops[step.index] = [label]
    _rule(operation, label, step, "hold_before")
    if step.operation not in _CHANGES and later:
        operation.stops[step.index].append(f"{label} at the latest")
        _rule(operation, f"{label} at the latest", later[0], "hold_before")


def _rule(operation: _Operation, label: str, step: Step, do: str) -> None:
    def kind(one: Step) -> tuple[str, ...]:
        changing = one.operation in _CHANGES
        group = ("DELETE" if one.operation == "delete" else "PUT") if changing else _READS[one.operation]
        return _class(one.path), group, *((_pattern(one.path),) if changing else ())

    before = Counter(kind(one) for one in operation.steps if one.index <= step.index)
    class_, group, *name = kind(step)
    at: Json = {"actor": actor(step.actor), "class": class_, "operation": group, "occurrence": before[kind(step)]}
    if name:
        at["name"] = name[0]
    operation.rules.append({"label": label, "at": at, "do": do, "asleep": True, **_optional(label)})


def _optional(label: str) -> Json:
    """An implementation that is right may not continue to where a stop or a crash was; a fault it has to meet."""
    return {} if label.startswith("fault") else {"optional": True}


def _class(path: str) -> str:
    return _CLASSES.get(path.partition("/")[0], "base")


def _pattern(path: str) -> str:
    """Numbers differ between revisions and implementations."""
    return re.sub(r"@[0-9]+", "@*", path)


def _steps(steps: Sequence[Step], operations: Mapping[str, Sequence[_Operation]]) -> Iterator[Json]:
    """Messages and releases in the order of the trace."""
    owner = {step.index: operation for each in operations.values() for operation in each for step in operation.steps}
    sent: set[int] = set()
    for step in steps:
        operation = owner[step.index]
        if id(operation) not in sent:
            sent.add(id(operation))
            yield from _begun(operation)
        elif step.index in operation.stops:
            stops = list(operation.stops.values())
            labels = operation.stops[step.index]
            yield from ({"release": label} for label in labels)
            if stops[-1] != labels:
                yield {"reached": stops[stops.index(labels) + 1]}
            else:
                yield {"await": operation.doing.message["actor"]}
                yield from operation.doing.after


def _begun(operation: _Operation) -> Iterator[Json]:
    if not operation.over and not operation.rules:
        return  # it changed nothing until it crashed
    yield from operation.doing.first
    yield from ({"arm": rule["label"]} for rule in operation.rules)
    if operation.stops:
        yield {**operation.doing.message, "meanwhile": True}
        yield {"reached": next(iter(operation.stops.values()))}
    else:
        yield operation.doing.message
        yield from operation.doing.after


def _afterwards(writers: Sequence[str]) -> list[Json]:
    """What `memwal_sim.scenarios.survivor` does after a crash of all; no two of the writers have one epoch."""
    epochs = [f"${name}.epoch" for name in (*writers, "survivor")]
    opened = {"table": "$table", "new_region_id": str(ground.REGION)}
    reading = {"table": "$table", "consistency": "strong"}

    def sent(message: str, params: Json, **more: object) -> Json:
        return {"actor": "survivor", "send": message, "with": params, **more}

    return [
        {"check": "structure"},
        {"check": "once", "clauses": ["WAL-006"]},
        {"check": "durable", "clauses": ["WAL-001"]},
        sent("writer.open", opened, clauses=["WRITER-013", "FENCE-016"], **{"as": "survivor"}),
        {"check": "distinct", "of": epochs, "clauses": ["FENCE-008"]},
        sent("reader.open", reading, **{"as": "recovered_reader"}),
        sent(
            "reader.scan",
            {"reader": "$recovered_reader.reader", "writers": ["$survivor.writer"]},
            **{"as": "recovered"},
        ),
        {"check": "history", "of": "$recovered.rows", "clauses": ["WAL-001", "FENCE-016"]},
        sent("writer.flush_memtable", {"writer": "$survivor.writer"}, clauses=["FENCE-010"]),
        {"check": "durable", "clauses": ["WAL-001"]},
        sent("reader.open", reading, **{"as": "flushed_reader"}),
        sent("reader.scan", {"reader": "$flushed_reader.reader"}, **{"as": "flushed"}),
        {"check": "history", "of": "$flushed.rows", "clauses": ["WAL-001", "READ-002"]},
        sent("merge.run", {"table": "$table"}, clauses=["MERGE-001"]),
        {"check": "durable", "clauses": ["MERGE-001"]},
        {"check": "structure"},
    ]
