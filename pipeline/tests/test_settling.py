"""What a worker of Spark's is spared between two tasks."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest
from memwal_spark import settling


def test_what_is_there_is_left_out_of_collections_once_and_again_when_there_are_new_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(settling, "_settled", 0)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(len(sys.modules)))
    for _ in range(3):
        settling.settle()
    assert len(calls) == 1
    monkeypatch.setitem(sys.modules, "memwal_spark_tests_new_module", ModuleType("new"))
    settling.settle()
    settling.settle()
    assert len(calls) == 2
