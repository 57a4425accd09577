"""What the processes of a recorded fault do, as messages of the protocol: none that no message can say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from memwal.jobs.collector import Policy
from memwal_sim.process import Process
from memwal_sim.scenarios import ground
from memwal_sim.scenarios.scripts import Following, ScriptStep, policy

from ..protocol import Json

STOPPED = ["fenced", "conflict", "cancelled", "storage", "not_found"]
"""Kinds of errors in which an operation beside others may end."""
SCHEMA: list[Json] = [
    {"name": ground.KEY, "type": "utf8", "nullable": True},
    {"name": ground.VALUE, "type": "utf8", "nullable": True},
]
"""Of the tables of recorded faults."""


class NotPortable(Exception):
    """A recorded fault that cannot be said to another implementation; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """One thing that a process does."""

    word: str
    """``open``, ``put``, ``flush``, ``merge``, ``collect``, ``snapshot`` or ``read``."""
    first: tuple[Json, ...] = ()
    """Messages before the one that faults are about."""
    message: Json
    after: tuple[Json, ...] = ()
    """Checks once it is done."""


def scripts(processes: Sequence[Process]) -> dict[str, list[Doing]]:
    """Name of each process -> what it does, in order. Raises `NotPortable`."""
    putting = {each.name for each in processes if any(step.word in _PUTTING for step in _steps(each))}
    return {each.name: _script(each, putting) for each in processes}


_PUTTING = ("rows", "tombstone")
"""Words that write."""


def _steps(process: Process) -> Sequence[ScriptStep]:
    if not isinstance(process.start, Following):
        raise NotPortable(f"{process.name} does something for which the protocol has no message")
    return process.start.script


def _script(process: Process, putting: set[str]) -> list[Doing]:
    """What ``process`` does; a writer is opened where it is first needed. ``putting``: the processes that put."""
    name, steps = process.name, _steps(process)
    found: list[Doing] = []
    writer, reads = "", 0
    for number, step in enumerate(steps):
        word = step.word
        if word in (*_PUTTING, "flush", "read_with_memory", "freeze") and not writer:
            writer = _plain(name)
            found.append(_open(name, writer))
        if word == "open":
            writer = _plain(f"{name}_{number}") if writer else _plain(name)
            found.append(_open(name, writer))
        elif word in ("read", "read_with_memory", "read_eventually"):
            reads += 1
            told_all = putting <= ({name} if word == "read_with_memory" else set())
            found.append(_read(name, _plain(f"{name}_read_{reads}"), word, writer, told_all=told_all))
        else:
            found.append(_doing(name, writer, step))
    return found


_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def _plain(name: str) -> str:
    """The name of an actor, or of an answer, in a scenario: letters and underscores."""
    spelt = "".join(_DIGITS[int(c)] if c.isdigit() else c for c in name.lower())
    return "".join(c if c.isascii() and c.isalpha() else "_" for c in spelt)


def actor(name: str) -> str:
    """The actor of a scenario that stands for a process."""
    return _plain(name)


def _message(name: str, message: str, params: Json, **more: Any) -> Json:
    return {"actor": _plain(name), "send": message, "with": params, "may_fail": STOPPED, **more}


def _open(name: str, writer: str) -> Doing:
    message = _message(name, "writer.open", {"table": "$table", "new_region_id": str(ground.REGION)}, **{"as": writer})
    return Doing(word="open", message=message)


def _read(name: str, answer: str, word: str, writer: str, *, told_all: bool) -> Doing:
    """``told_all``: no other process puts. A reader of the protocol may miss what others have not flushed."""
    consistency = "eventual" if word == "read_eventually" else "strong"
    opened = _message(
        name, "reader.open", {"table": "$table", "consistency": consistency}, **{"as": f"{answer}_reader"}
    )
    params: Json = {"reader": f"${answer}_reader.reader"}
    if word == "read_with_memory":
        params["writers"] = [f"${writer}.writer"]
        opened["given"] = writer
    scan = _message(name, "reader.scan", params, **{"as": answer, "given": f"{answer}_reader"})
    clauses = ["READ-008", "READ-001"] if consistency == "strong" else ["READ-010"]
    open_to: Json = {} if told_all else {"ambiguity": {"note": "AMB-141", "count": 0}}
    seen = {"check": "history", "of": f"${answer}.rows", "clauses": clauses, "given": answer, **open_to}
    return Doing(word="read", first=(opened,), message=scan, after=(seen,) if consistency == "strong" else ())


def _doing(name: str, writer: str, step: ScriptStep) -> Doing:
    handle = {"writer": f"${writer}.writer"}
    table, word = {"table": "$table"}, step.word
    if word == "rows":
        rows = {"rows": {"$rows": [list(row) for row in step.argument.items()]}, "durable": True}
        return Doing(word="put", message=_message(name, "writer.put", {**handle, **rows}, given=writer))
    if word == "tombstone":
        keys = {"keys": {"$keys": [[key] for key in step.argument]}, "durable": True}
        return Doing(word="put", message=_message(name, "writer.delete", {**handle, **keys}, given=writer))
    if word == "flush":
        return Doing(word=word, message=_message(name, "writer.flush_memtable", handle, given=writer))
    if word == "merge":
        return Doing(word=word, message=_message(name, "merge.run", table))
    if word == "snapshot":
        return Doing(word=word, message=_message(name, "snapshot.run", table))
    if word == "collect":
        return Doing(
            word=word, message=_message(name, "gc.run", {**table, "retain_versions": _retained(policy(step.argument))})
        )
    raise NotPortable(f"{name} does {word!r}, for which the protocol has no message")


def _retained(policy: Policy) -> int:
    """The one thing that `gc.run` can say of a policy; how many manifests are kept is left to the collector."""
    other = [f.name for f in fields(Policy) if f.name not in ("retain_versions", "retain_manifests")]
    if any(getattr(policy, name) != getattr(Policy(), name) for name in other) or policy.retain_versions is None:
        raise NotPortable("the collector has a policy for which the protocol has no message")
    return policy.retain_versions
