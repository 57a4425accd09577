"""Which locals a frame may still read, judged by what the functions below plainly do."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import CodeType

import pytest
from memwal_sim.liveness import live_locals

Step = Generator[int, int, object]


def live_at_first_yield(function: Callable[..., Step]) -> frozenset[str]:
    running = function(1, 2)
    running.send(None)  # type: ignore[arg-type]
    frame = running.gi_frame
    assert frame is not None
    code: CodeType = function.__code__
    return live_locals(code)[frame.f_lasti]


def forgotten(used: int, unused: int) -> Step:
    got = yield unused
    return got + used


def overwritten(used: int, before: int) -> Step:
    before = yield before
    return before + used


def in_a_loop(used: int, count: int) -> Step:
    for _ in range(3):
        count = yield used
    return count


def in_a_handler(used: int, fallback: int) -> Step:
    try:
        used = yield used
    except ValueError:
        return fallback
    return used


def in_a_finally(used: int, closed: int) -> Step:
    try:
        used = yield 0
    finally:
        str(closed)
    return used


def on_one_branch(used: int, rare: int) -> Step:
    got = yield used
    if got:
        return rare
    return got


def deleted(used: int, gone: int) -> Step:
    got = yield gone
    del gone
    return got + used


@pytest.mark.parametrize(
    ("function", "live"),
    [
        (forgotten, {"used"}),
        (overwritten, {"used"}),
        (in_a_loop, {"used"}),
        (in_a_handler, {"fallback"}),
        (in_a_finally, {"closed"}),
        (on_one_branch, {"rare"}),
        (deleted, {"used"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_local_is_live_while_it_may_be_read_before_it_is_written(
    function: Callable[..., Step], live: set[str]
) -> None:
    assert live_at_first_yield(function) == live


def test_every_function_of_the_engine_can_be_analysed() -> None:
    import memwal.jobs.merger
    import memwal.region.manifest
    import memwal.table.commit

    for module in (memwal.jobs.merger, memwal.region.manifest, memwal.table.commit):
        for value in vars(module).values():
            code = getattr(value, "__code__", None)
            if code is not None:
                assert live_locals(code)
