"""Table operations that run at once, and all that they may lead to if they ran one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from memwal.effects import Io, Note, Protocol
from memwal.errors import Conflict, InvalidArgument
from memwal.ids import TableVersion
from memwal.revisions import STRICT
from memwal.table import columns, compaction, read, state, whole, write
from memwal.table import schema as schemas
from memwal.violations import Violation
from memwal_sim.oracles import after_crash
from memwal_sim.process import Process, run_alone
from memwal_sim.store import Contents
from memwal_sim.world import World

IO = Io(interpretation=STRICT)
SCHEMA = schemas.with_primary_key(pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())]), ["id"])
W = pa.schema([("w", pa.string())])
ENDED = "operation_ended"

DONE, REFUSED, INCOMPATIBLE = "done", "refused", "incompatible"


def rows(found: Mapping[int, str]) -> pa.Table:
    return pa.table([pa.array(found.keys(), pa.int64()), pa.array(found.values())], schema=SCHEMA)


def _ids(*ids: int) -> Callable[[pa.Table], Any]:
    return lambda table: np.isin(table.column("id").to_numpy(), ids)


def _value(*wanted: str) -> Callable[[pa.Table], Any]:
    return lambda table: np.isin(table.column("v").to_pylist(), wanted)


def _to(value: str) -> Callable[[pa.Table], pa.Table]:
    def compute(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index("v")
        return table.set_column(place, table.schema.field("v"), pa.array([value] * table.num_rows, pa.string()))

    return compute


def _appended(suffix: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: pa.table({"v": [f"{v}{suffix}" for v in table.column("v").to_pylist()]})


def _w_of_v(table: pa.Table) -> pa.Table:
    return pa.table({"w": [f"w{v}" for v in table.column("v").to_pylist()]})


async def _upsert(found: Mapping[int, str]) -> state.TableState:
    return await write.retried(IO, lambda current: write.merge_insert(IO, current, rows(found)))


OPERATIONS: dict[str, Callable[[], Protocol[Any]]] = {
    "append 7": lambda: write.append(IO, rows({7: "a"})),
    "append 8": lambda: write.append(IO, rows({8: "b"})),
    "delete 0": lambda: write.delete(IO, _ids(0), "id = 0"),
    "delete 1": lambda: write.delete(IO, _ids(1), "id = 1"),
    "delete 0 1": lambda: write.delete(IO, _ids(0, 1), "id < 2"),
    "delete a": lambda: write.delete(IO, _value("a"), "v = 'a'"),
    "update a to b": lambda: write.update(IO, _value("a"), _to("b")),
    "update b to a": lambda: write.update(IO, _value("b"), _to("a")),
    "update 1": lambda: write.update(IO, _ids(1), _to("c")),
    "upsert 0 9": lambda: _upsert({0: "d", 9: "d"}),
    "upsert 2 9": lambda: _upsert({2: "e", 9: "e"}),
    "overwrite": lambda: whole.overwrite(IO, rows({0: "f"})),
    "restore 1": lambda: whole.restore(IO, TableVersion(1)),
    "compact": lambda: compaction.compact(IO),
    "add w": lambda: columns.add(IO, W, _w_of_v),
    "add w empty": lambda: columns.add(IO, W),
    "drop v": lambda: columns.drop(IO, ["v"]),
    "recompute v": lambda: columns.recompute(IO, ["v"], _appended("!")),
    "replace w": lambda: columns.replace_data(IO, {1: pa.table({"w": ["g", "h"]})}),
    "config a": lambda: write.set_config(IO, {"a": "1"}),
    "config a b": lambda: write.update_metadata(IO, config={"a": None, "b": "2"}, fields={1: {"f": "1"}}),
    "reserve": lambda: compaction.reserve(IO, 2),
}


async def run(name: str) -> None:
    """Run an operation and say how it ended."""
    try:
        await OPERATIONS[name]()
        outcome = DONE
    except (InvalidArgument, KeyError):  # KeyError: the operation's own function misses a column
        outcome = REFUSED
    except Conflict as conflict:
        if conflict.retryable:
            raise
        outcome = INCOMPATIBLE
    await IO.note(ENDED, operation=name, outcome=outcome)


Seen = tuple[tuple[tuple[str, ...], ...], ...]
"""All that a table says: columns, rows, configuration, metadata of fields."""


async def look() -> Seen:
    """Read the newest version and check that all earlier ones are there."""
    current = await state.latest(IO)
    for version in range(1, current.version):
        await state.load(IO, TableVersion(version))
    found = (await read.scan(IO, current)).to_pylist()
    names = tuple(sorted(current.schema.names))
    held = tuple(sorted(tuple(str(row[name]) for name in names) for row in found))
    config = tuple(sorted(current.config.items()))
    metadata = tuple((f.name, str(dict(f.metadata or {}))) for f in current.schema)
    return ((names,), held, config, tuple(sorted(metadata)))


async def _plain() -> None:
    await write.create(IO, SCHEMA, rows({0: "a", 1: "b"}))
    await write.append(IO, rows({2: "a", 3: "b"}))


@lru_cache
def beginning() -> Contents:
    """Two fragments with rows 0 to 3, of values a and b, in version 2."""
    alone = run_alone(Process("creator", _plain), Contents())
    assert alone.end.failure is None, alone.end.failure
    return alone.contents


@dataclass(frozen=True)
class Serial:
    """Operations, one after another: how each ended, and what the table says then."""

    outcomes: tuple[tuple[str, str], ...]
    seen: Seen


@lru_cache(maxsize=5_000)
def _step(names: tuple[str, ...]) -> tuple[Contents, tuple[tuple[str, str], ...]]:
    if not names:
        return beginning(), ()
    before, outcomes = _step(names[:-1])
    alone = run_alone(Process(" then ".join(names), partial(run, names[-1])), before)
    assert alone.end.failure is None, (names, alone.end.failure)
    (ended,) = [dict(note.fields) for note in alone.notes if note.event == ENDED]
    return alone.contents, (*outcomes, (names[-1], str(ended["outcome"])))


@lru_cache(maxsize=5_000)
def serial(names: tuple[str, ...]) -> Serial:
    """Run ``names`` in this order on `beginning`."""
    contents, outcomes = _step(names)
    end = run_alone(Process("look", look), contents).end
    assert end.failure is None, end.failure
    return Serial(outcomes, end.result)  # type: ignore[arg-type]


def _orders(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    yield ()
    for at, name in enumerate(names):
        for rest in _orders([*names[:at], *names[at + 1 :]]):
            yield (name, *rest)


def explained(names: Sequence[str], ended: Mapping[str, str], seen: Seen) -> bool:
    """Whether some order of the operations that took effect, and of none that did not, leads to ``seen``.

    ``ended``: outcomes of those that ended; another may have taken effect or not.
    """
    for order in _orders([name for name in names if ended.get(name) != INCOMPATIBLE]):
        if not {name for name, outcome in ended.items() if outcome in (DONE, REFUSED)} <= set(order):
            continue
        found = serial(order)
        same = all(ended.get(name, outcome) == outcome for name, outcome in found.outcomes)
        if same and found.seen == seen:
            return True
    return False


Ghosts = tuple[tuple[str, str], ...]


def _observe(ghosts: Ghosts, _actor: str, note: Note) -> Ghosts:
    fields = dict(note.fields)
    if note.event != ENDED:
        return ghosts
    return tuple(sorted((*ghosts, (str(fields["operation"]), str(fields["outcome"])))))


def world(names: Sequence[str]) -> World:
    """The operations at once, each a process of its own."""

    def judge(seen: Seen, ghosts: Ghosts) -> Violation | None:
        if explained(names, dict(ghosts), seen):
            return None
        reason = f"no serial order of {', '.join(names)} leads to {seen} where {dict(ghosts)} ended"
        return Violation("TXN-002", "what commits is serial", reason)

    return World(
        contents=beginning(),
        processes=tuple(Process(name, partial(run, name)) for name in names),
        ghosts=(),
        observe=_observe,
        oracles=(after_crash(Process("reader", look), judge, clause="TXN-004"),),
    )
