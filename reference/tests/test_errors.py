"""Errors keep what they say on their way to another process or thread."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_type_hints

import memwal
import pyarrow as pa
import pytest
from memwal.errors import ArtifactError, Conflict, EngineBug, Fenced, MemwalError, NotFound, Outcome
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


def subclasses_of_outcome() -> list[type[BaseException]]:
    return [kind for kind in every_error() if issubclass(kind, Outcome) and kind is not Outcome]


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


@pytest.mark.parametrize("kind", subclasses_of_outcome(), ids=lambda kind: kind.__qualname__)
def test_every_outcome_is_one_sentence_and_no_list_of_fields(kind: type[Outcome]) -> None:
    assert kind.SENTENCE, "an error without a sentence says nothing to its user"
    assert not re.search(r"\b[a-z_]+=", str(example(kind)))


def test_an_error_of_a_store_names_the_table_and_what_is_missing_there(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", pa.schema([pa.field("id", pa.int64(), nullable=False)]), primary_key=["id"])
    first = table.writer()
    with table.writer(), pytest.raises(Fenced) as fenced:
        first.put(pa.table({"id": [1]}))
    assert str(fenced.value).startswith(f"{tmp_path / 't'}: region {first.region_id} was claimed by another writer: ")

    shutil.rmtree(tmp_path / "t")
    with pytest.raises(NotFound) as missing:
        table.refresh()
    assert str(missing.value) == f"{tmp_path / 't'}: _versions was not found"


def lose() -> None:
    raise Conflict(TableVersion(7), "append", "overwrite", retryable=False)


def test_a_pool_of_processes_hands_on_the_error_of_its_worker() -> None:
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool, pytest.raises(Conflict) as lost:
        pool.submit(lose).result(timeout=60)

    assert (lost.value.version, lost.value.ours, lost.value.retryable) == (7, "append", False)
