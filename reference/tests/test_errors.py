"""Errors keep what they say on their way to another process or thread."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, get_type_hints

import memwal
import pytest
from memwal.errors import ArtifactError, Conflict, EngineBug, MemwalError
from memwal.ids import TableVersion

VALUES: dict[str, object] = {
    "fields": 7,
    "failures": [ArtifactError("WAL-009", "wal/1", "cut", 3), OSError(28, "full")],
    "reasons": {"region 1": "has rows"},
    "retryable": True,
    "offset": 12,
}
"""What a parameter of that name gets; others get a text or a number that says their name."""


def subclasses(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def every_error() -> list[type[BaseException]]:
    for module in walk_packages(memwal.__path__, "memwal."):
        if "_pb2" not in module.name:
            import_module(module.name)
    own = {kind for kind in {*subclasses(MemwalError), EngineBug} if kind.__module__.startswith("memwal.")}
    return sorted(own, key=lambda kind: kind.__qualname__)


def example(kind: type[BaseException]) -> BaseException:
    if kind.__init__ is AssertionError.__init__:
        return kind("an assertion failed")
    hints = get_type_hints(kind.__init__)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        value = VALUES.get(name, 3 if hints.get(name) is int else f"the {name}")
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            named[name] = value
        else:
            positional.append(value)
    return kind(*positional, **named)


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__qualname__)
@pytest.mark.parametrize("carried", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_an_error_arrives_with_its_type_its_text_and_its_fields(
    kind: type[BaseException], carried: Callable[[BaseException], BaseException]
) -> None:
    error = example(kind)
    error.add_note("closing failed too")

    arrived = carried(error)

    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert list(map(repr, arrived.args)) == list(map(repr, error.args))
    assert {k: repr(v) for k, v in vars(arrived).items()} == {k: repr(v) for k, v in vars(error).items()}


def lose() -> None:
    raise Conflict(TableVersion(7), "append", "overwrite", retryable=False)


def test_a_pool_of_processes_hands_on_the_error_of_its_worker() -> None:
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool, pytest.raises(Conflict) as lost:
        pool.submit(lose).result(timeout=60)

    assert (lost.value.version, lost.value.ours, lost.value.retryable) == (7, "append", False)
