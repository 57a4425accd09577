"""Coroutines of one process on threads: a step under one lock, and requests outside of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memwal.coroutines import Turn, until
from memwal.drive import Threads
from memwal.effects import Io, Join, Spawn
from memwal.errors import InvalidArgument, NotFound
from memwal.ids import Milliseconds
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore

IO = Io(interpretation=STRICT)
PATIENCE_S = 60


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(LocalStore(tmp_path))


class Calling:
    """A store that calls the test for each request, without anything below it."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.perform = call

    def describe(self) -> str:
        return "calling"

    def close(self) -> None:
        """Nothing is held."""


def test_who_joins_gets_the_result_or_the_failure(threads: Threads) -> None:
    async def result() -> int:
        return 7

    async def fails() -> None:
        raise InvalidArgument("no")

    async def both() -> int:
        good, bad = await Spawn(result), await Spawn(fails)
        with pytest.raises(InvalidArgument, match="no"):
            await Join(bad)
        return await Join(good)

    assert threads.run(both()) == 7
    assert [each for each in threading.enumerate() if each.name == "memwal"] == []


def test_who_waits_for_memory_goes_on_once_another_one_has_changed_it(threads: Threads) -> None:
    turn, order = Turn(taken=True), []

    async def waits() -> None:
        async with turn:
            order.append("second")

    async def works() -> None:
        task = await Spawn(waits)
        await IO.put("a", b"")
        order.append("first")
        turn.taken = False
        await Join(task)

    threads.run(works())
    assert order == ["first", "second"]


def test_a_time_limit_ends_a_wait(threads: Threads) -> None:
    async def waits() -> bool:
        return await until(lambda: False, Milliseconds(1))

    assert threads.run(waits()) is True


def test_the_lock_is_free_while_a_request_is_performed_and_held_while_a_step_runs() -> None:
    held = []

    def call(_request: Any) -> None:
        held.append(threads.changed.acquire(blocking=False))
        threads.changed.release()

    async def step() -> None:
        await IO.now()
        held.append(threads.changed.acquire(blocking=False))
        await IO.put("a", b"")

    threads = Threads(Calling(call))  # type: ignore[arg-type]
    threads.run(step())
    assert held == [False, True]


def test_listeners_are_told_between_two_steps_in_order() -> None:
    told = []

    def listen(event: str, fields: dict[str, object]) -> None:
        with threads.changed:
            told.append((event, fields))

    async def notes() -> None:
        await IO.note("one", number=1)
        await IO.put("a", b"")
        await IO.note("two")

    threads = Threads(Calling(lambda _request: told.append(("put", {}))), listen)  # type: ignore[arg-type]
    threads.run(notes())
    assert told == [("one", {"number": 1}), ("put", {}), ("two", {})]


@pytest.mark.parametrize("failure", [NotFound("a"), KeyboardInterrupt()])
def test_what_a_request_raises_is_raised_in_the_coroutine(failure: BaseException) -> None:
    def call(_request: Any) -> None:
        raise failure

    async def asks() -> BaseException | None:
        try:
            await IO.put("a", b"")
        except (NotFound, KeyboardInterrupt) as raised:
            return raised
        return None

    assert Threads(Calling(call)).run(asks()) is failure  # type: ignore[arg-type]
