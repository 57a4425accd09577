"""Small protocols whose state spaces can be counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from memwal.effects import Io, Note
from memwal.errors import AlreadyExists, OutcomeUnknown
from memwal.revisions import STRICT
from memwal.violations import Violation
from memwal_sim.process import Process
from memwal_sim.store import Contents
from memwal_sim.world import World

IO = Io(interpretation=STRICT)


async def increment() -> None:
    """Read a counter and write it plus one: the lost update."""
    count = int(await IO.get("n"))
    await IO.put("n", str(count + 1).encode())
    await IO.note("counted")


async def lock(name: str) -> bool:
    """Take a lock that can be had once, and write under it; whether this process had it."""
    try:
        await IO.put_if_absent("lock", name.encode())
    except AlreadyExists:
        return False
    await IO.put("data", name.encode())
    return True


async def write_many(name: str, count: int) -> None:
    """Write ``count`` objects that no other process touches."""
    for number in range(count):
        await IO.put(f"{name}/{number}", b"")


async def create() -> str:
    """Create one object; says what it saw."""
    try:
        await IO.put_if_absent("x", b"1")
    except AlreadyExists:
        return "taken"
    except OutcomeUnknown:
        return "unknown"
    return "created"


def processes(*starts: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Process, ...]:
    """Processes p0, p1, … that start like this."""
    return tuple(Process(f"p{number}", start) for number, start in enumerate(starts))


def counters(count: int, **more: Any) -> World:
    """``count`` processes that increment one counter from 0."""
    return World(contents=Contents({"n": b"0"}), processes=processes(*[increment] * count), **more)


def lockers(count: int) -> World:
    """``count`` processes that try to take one lock."""
    return World(contents=Contents(), processes=processes(*(partial(lock, f"p{number}") for number in range(count))))


def count_notes(ghosts: int, _actor: str, note: Note) -> int:
    """Ghosts: how many increments came to their end."""
    return ghosts + (note.event == "counted")


def nothing_lost(contents: Contents, ghosts: int) -> Violation | None:
    """The counter is at least the number of increments that came to their end."""
    found = int(contents.objects["n"])
    if found >= ghosts:
        return None
    return Violation("TOY", "nothing lost", f"{ghosts} increments ended, and the counter is {found}")


def watched_counters(count: int) -> World:
    """`counters` with the oracle that finds the lost update."""
    return counters(count, ghosts=0, observe=count_notes, oracles=(nothing_lost,))
