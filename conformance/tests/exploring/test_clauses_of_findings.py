"""What an exploration cites, and what it takes for wrong besides: errors of fresh processes, and those that mislead."""

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from memwal_conformance.adapters.harness import REFERENCE, Harness
from memwal_conformance.adapters.process import AdapterCrash, AdapterProcess
from memwal_conformance.exploring import explorer, findings, judging, lives, living, plans, starting
from memwal_conformance.exploring.explorer import ForeignExploration
from memwal_conformance.exploring.judging import Recoverer, Symptom, of_run
from memwal_conformance.exploring.lives import ForeignLife
from memwal_conformance.protocol import AdapterError

SHORT = ForeignLife(name="short", about="", steps=lives.steps_of("w open, w put, w close", "short"))
MISSING = "Not found: t/_mem_wal/r/0011_gen_1/_pk_index/page_lookup.lance"


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    made = Harness(REFERENCE, 60.0, {})
    yield made
    made.close()


@pytest.mark.parametrize(
    ("message", "text", "clauses", "says"),
    [
        ("writer.open", "no", ("FENCE-016",), "a fresh process cannot recover the region: "),
        ("reader.scan", "no", ("READ-001",), "a fresh process cannot read the region: "),
        ("reader.scan", MISSING, ("FLUSH-013",), "a fresh process cannot read the region: "),
    ],
)
def test_an_error_of_a_fresh_process_cites_the_clause_of_what_it_could_not_do(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, message: str, text: str, clauses: tuple[str, ...], says: str
) -> None:
    lived = living.live(harness, "B", SHORT, starting.started(harness, "B", SHORT))
    told = AdapterProcess.call

    def call(process: AdapterProcess, asked: str, params: Any) -> Any:
        if asked == message:
            raise AdapterError("storage", text)
        return told(process, asked, params)

    monkeypatch.setattr(AdapterProcess, "call", call)
    recoverer = Recoverer(harness, "B")
    (found,) = recoverer.after(lived, lived.states[-1])
    recoverer.close()
    assert (found.clauses, found.words.startswith(says)) == (clauses, True)


def test_an_error_that_tells_of_damage_where_nothing_is_damaged_is_wrong_and_others_are_not(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, told = starting.started(harness, "B", SHORT), AdapterProcess.call
    seen = []
    for kind in ("corrupt", "storage"):

        def call(process: AdapterProcess, asked: str, params: Any, kind: str = kind) -> Any:
            if asked == "writer.put":
                raise AdapterError(kind, "no")
            return told(process, asked, params)

        monkeypatch.setattr(AdapterProcess, "call", call)
        seen.append(
            [(each.oracle, each.words) for each in of_run(living.live(harness, "B", SHORT, start), harness.hello())]
        )
    assert seen == [[("error", "put ends in an error that is not due there: corrupt")], []]


def test_rows_that_are_in_two_entries_are_told_by_the_clause_of_the_entry(harness: Harness) -> None:
    lived = living.live(harness, "B", SHORT, starting.started(harness, "B", SHORT))
    last = lived.states[-1]
    (entry,) = (name for name, data in last.contents.objects.items() if "/wal/" in name and b"w1" in data)
    copy = entry.replace("/wal/01", "/wal/11")  # position 2, by reversed bits, and 3 behind it
    twice = dataclasses.replace(last, contents=last.contents.having(copy, last.contents.objects[entry]))
    recoverer = Recoverer(harness, "B")
    found = {(each.words, each.clauses) for each in recoverer.after(lived, twice)}
    assert recoverer.after(lived, last) == []
    recoverer.close()
    assert found == {("a row of one write is in two WAL entries", ("WAL-006",))}


def symptom(oracle_: str, *clauses: str) -> Symptom:
    return Symptom(oracle=oracle_, words=oracle_, detail="it is", clauses=clauses, order=1)


def test_what_no_clause_speaks_of_cites_what_is_stored_before_what_cannot_be_recovered() -> None:
    shown = [symptom("rows"), symptom("recovery", "FENCE-016"), symptom("structure", "WAL-006")]
    assert findings._cause(shown) == ["WAL-006"]
    assert findings._cause(shown[:2]) == ["FENCE-016"]
    assert judging._by_appended("a row is there twice") == ()


def test_what_the_texts_leave_open_is_observed_and_no_finding() -> None:
    book = findings.Notebook("x", "1", "B")
    lived: Any = SimpleNamespace(states=[SimpleNamespace(order=1, index=0)], log=[], life=SHORT, told=[])
    for note in ("AMB-107", None):
        shown = dataclasses.replace(symptom("answer", "PLAN-021"), note=note, order=0, words=str(note))
        book.add([shown], plans.ALONE, lived, cut=False)
    assert [each.severity for each in book.findings] == ["observed", "critical"]
    assert [each.words for each in book.errors] == ["None"]
    assert [each.number for (each,) in findings.matters(book.findings)] == [2, 1]


def test_a_process_that_ends_while_it_makes_a_table_twice_is_a_finding_and_once_is_none(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ForeignExploration(harnesses=[harness], revision="B", lives=[SHORT], seconds=3600)
    ends = iter([True, True, False])

    def started(*_: object) -> None:
        if next(ends):
            raise AdapterCrash("table.create", 1, "")

    monkeypatch.setattr(explorer, "started", started)
    for count in (1, 1):  # once more and it is known; and it is no other if it was not seen again
        made._not_made(Recoverer(harness, "B"), made.jobs[0])
        assert [each.words for each in made.notebook.findings] == ["crash at the making of a table"] * count
    made.notebook.findings.clear()
    made._not_made(Recoverer(harness, "B"), made.jobs[0])
    assert (made.notebook.findings, made.notebook.errors) == ([], [])
