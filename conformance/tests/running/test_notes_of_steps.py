"""A note on a step or a vector covers the outcome that it names: whatever else goes wrong there breaks the clauses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memwal_conformance import vectors
from memwal_conformance.places import SUITE
from memwal_conformance.protocol import AdapterError, Json
from memwal_conformance.registry.levels import levels_of
from memwal_conformance.running import scenarios
from memwal_conformance.running.cases import CaseRunner
from memwal_conformance.verdicts import Finding, Verdict, level_of

START: tuple[Json, ...] = (
    {"include": "new_region", "with": {"rows": [[1, "a"], [2, "b"], [3, "c"]]}},
    {"actor": "one", "send": "writer.flush_memtable", "with": {"writer": "$first.writer"}, "as": "flushed"},
)


def run(cases: CaseRunner, step: Json) -> Verdict:
    """The verdict of a scenario that ends with ``step``; one generation is listed before it."""
    described: Any = json.loads((SUITE / "scenarios" / "smoke.json").read_text("utf-8"))
    described |= {"steps": [*START, step]}
    return cases.run(scenarios.made(described, Path("made.json"))).verdict


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        ({"check": "generations", "is": 1}, Verdict.PASS),
        ({"check": "generations", "is": 0, "ambiguity": {"note": "AMB-45", "is": 1}}, Verdict.OBSERVED),
        ({"check": "generations", "is": 0, "ambiguity": {"note": "AMB-45", "is": 2}}, Verdict.FAIL),
        ({"check": "equal", "of": "$flushed.generation", "is": "1"}, Verdict.PASS),
        (
            {"check": "equal", "of": "$flushed.generation", "is": "7", "ambiguity": {"note": "AMB-45", "is": "1"}},
            Verdict.OBSERVED,
        ),
        (
            {"check": "equal", "of": "$flushed.generation", "is": "7", "ambiguity": {"note": "AMB-45", "is": "8"}},
            Verdict.FAIL,
        ),
        ({"check": "answered", "of": "third", "ambiguity": {"note": "AMB-28", "is": False}}, Verdict.OBSERVED),
    ],
)
def test_a_check_is_observed_where_it_holds_as_its_note_says_only(
    step: Json, verdict: Verdict, cases: CaseRunner
) -> None:
    assert run(cases, {**step, "clauses": ["GEN-003"]}) is verdict


@pytest.mark.parametrize(
    ("fails", "note", "verdict"),
    [
        (["conflict"], {"succeeds": True}, Verdict.OBSERVED),
        (["conflict"], {"fails": ["storage"]}, Verdict.FAIL),
    ],
)
def test_a_message_that_succeeds_is_observed_where_its_note_says_so(
    fails: list[str], note: Json, verdict: Verdict, cases: CaseRunner
) -> None:
    put = {
        "actor": "one",
        "send": "writer.put",
        "with": {"writer": "$first.writer", "rows": {"$rows": [[4, "d"]]}, "durable": True},
    }
    assert run(cases, {**put, "fails": fails, "ambiguity": {"note": "AMB-24", **note}}) is verdict


@pytest.mark.parametrize(("kind", "verdict"), [("not_found", Verdict.OBSERVED), ("conflict", Verdict.FAIL)])
def test_an_error_is_observed_where_its_note_names_the_kind(kind: str, verdict: Verdict, cases: CaseRunner) -> None:
    nowhere = {"actor": "two", "send": "merge.run", "with": {"table": "/nowhere/at/all"}, "clauses": ["MERGE-001"]}
    assert run(cases, {**nowhere, "fails": ["storage"], "ambiguity": {"note": "AMB-24", "fails": [kind]}}) is verdict


def answering(*answers: Json | AdapterError) -> Callable[[str, Json], Json]:
    """An adapter that gives the same answer to all it is asked."""

    def call(_message: str, _params: Json) -> Json:
        (answer,) = answers
        if isinstance(answer, AdapterError):
            raise answer
        return answer

    return call


def judged(case: str, direction: str, answer: Json | AdapterError) -> tuple[Verdict, Finding]:
    vector = vectors.load(SUITE / "vectors" / case / "case.json")
    finding = vectors.run(vector, direction, answering(answer))
    return level_of(finding, levels_of(vector.revision)), finding


ENTRY: Json = json.loads((SUITE / "vectors" / "B" / "wal" / "two_batches" / "expected.json").read_text("utf-8"))
HALF: Json = {"wal": {**ENTRY["wal"], "rows": {**ENTRY["wal"]["rows"], "rows": ENTRY["wal"]["rows"]["rows"][:1]}}}


@pytest.mark.parametrize(
    ("case", "answer", "verdict"),
    [
        ("B/invalid/wal_without_end_mark", AdapterError("corrupt", "cut"), Verdict.PASS),
        ("B/invalid/wal_without_end_mark", ENTRY, Verdict.OBSERVED),
        ("B/invalid/wal_without_end_mark", HALF, Verdict.FAIL),
        ("B/invalid/wal_without_end_mark", AdapterError("fenced", "?"), Verdict.FAIL),
        ("B/wal/no_rows", AdapterError("corrupt", "empty"), Verdict.OBSERVED),
        ("B/wal/no_rows", ENTRY, Verdict.FAIL),
        ("B/wal/no_rows", AdapterError("storage", "503"), Verdict.REFUSED),
        ("B/wal/two_batches", AdapterError("corrupt", "no"), Verdict.FAIL),
        ("B/wal/two_batches", AdapterError("invalid_argument", "no"), Verdict.FAIL),
        ("B/wal/two_batches", AdapterError("internal", "no"), Verdict.REFUSED),
    ],
)
def test_a_vector_is_observed_for_the_outcomes_that_its_note_explains_only(
    case: str, answer: Json | AdapterError, verdict: Verdict
) -> None:
    found, finding = judged(case, "decode", answer)
    assert found is verdict, finding


@pytest.mark.parametrize(("value", "verdict"), [(7, Verdict.OBSERVED), (None, Verdict.FAIL)])
def test_any_number_is_a_choice_of_a_hash_and_null_is_none(value: int | None, verdict: Verdict) -> None:
    found, finding = judged("B/hash/numbers", "eval", {"hash": value})
    assert found is verdict, finding


def test_every_vector_whose_answer_is_open_says_to_what() -> None:
    files = sorted((SUITE / "vectors").glob("*/*/*/case.json"))
    loaded = [vectors.load(file) for file in files]
    assert [v.name for v in loaded if (v.ambiguity is None) != (not v.outcomes)] == []
    assert len([v for v in loaded if v.outcomes]) > 40
