"""An exploration whose lives are dealt to several places comes to one list of findings."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.exploring import findings, lives, sharing
from memwal_conformance.exploring.findings import Notebook
from memwal_conformance.exploring.judging import Symptom
from memwal_conformance.exploring.lives import ForeignLife
from memwal_conformance.exploring.plans import ALONE, Plan

LIVES = tuple(ForeignLife(name=name, about="", steps=lives.steps_of("w put", name)) for name in ("one", "two", "three"))
MISSING = Symptom(oracle="rows", words="a row is missing", detail="row 7 is missing", clauses=("WAL-001",), order=0)
TWICE = dataclasses.replace(MISSING, words="a key is twice", detail="key 7 is twice")
FAULT = Plan(words="the put is lost", hit="wal CREATE", rules=(), made=None)


def of(*found: tuple[Symptom, Plan]) -> Notebook:
    notebook = Notebook("x", "1", "B")
    for symptom, plan in found:
        lived: Any = SimpleNamespace(life=LIVES[0], states=[None], log=(), told=(), region_ids=())
        notebook.add([symptom], plan, lived, cut=False)
    return notebook


def test_what_two_places_found_is_one_finding_and_the_rest_has_numbers_of_its_own() -> None:
    whole = of((TWICE, FAULT), (MISSING, FAULT))
    whole.join(of((MISSING, FAULT), (TWICE, ALONE)))
    assert [(each.number, each.words, each.hit, each.seen) for each in whole.findings] == [
        (2, "a row is missing", "wal CREATE", 2),
        (3, "a key is twice", "no fault", 2),
    ]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The lives of each place; work and results go through `pickle`, as on a cluster."""
    dealt: list[list[str]] = []

    def each(work: Callable[[Any], Any], things: Any, workers: Any) -> Iterator[tuple[Any, Any]]:
        assert workers.on == "spark"
        for thing in things:
            dealt.append([life.name for life in thing.lives])
            yield thing, pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(thing)))

    monkeypatch.setattr(sharing.parallel, "each", each)
    return dealt


def test_lives_are_dealt_to_places_and_their_findings_are_kept_together(
    places: list[list[str]], tmp_path: Path
) -> None:
    adapter = f"{sys.executable} -m memwal_conformance.proving.broken halves_puts"
    task = sharing.ExplorationTask(against=adapter, lives=LIVES, seconds=3600, enough=1, jobs=2)
    said: list[str] = []
    found = sharing.carried_out(task, tmp_path, "spark", said.append)
    assert places == [["one", "three"], ["two"]]
    assert list(found.covered) == ["one", "two", "three"]
    assert [line.partition(":")[0] for line in said] == ["one, three", "two"]
    (one,) = findings.load(tmp_path)["findings"]
    assert (one.number, one.words, one.seen >= 2) == (1, "the row … is missing", True)
    assert (tmp_path / "01.log").exists()


def test_an_adapter_that_is_no_command_and_a_place_that_there_is_not_are_mistakes(tmp_path: Path) -> None:
    task = sharing.ExplorationTask(against="native", version="newest", lives=LIVES, seconds=1)
    with pytest.raises(InvalidArgument, match="'newest' is no version"):
        sharing.carried_out(task, tmp_path)
    with pytest.raises(InvalidArgument, match="spakr"):
        sharing.carried_out(task, tmp_path, "spakr")
