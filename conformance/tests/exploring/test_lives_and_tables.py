"""Lives on tables of several kinds: with base writes, with every way to ask, with indexes, and with several regions."""

import dataclasses
import sys
from collections import Counter
from typing import Any

import pytest
from memwal_conformance.adapters.aided import AidedProcess
from memwal_conformance.adapters.harness import REFERENCE, Harness, players
from memwal_conformance.adapters.process import AdapterProcess
from memwal_conformance.exploring import judging, lives, living, orders, plans, starting, tables
from memwal_conformance.exploring.agenda import AGAIN, ELSEWHERE, Agenda
from memwal_conformance.exploring.judging import Recoverer, Symptom, of_run
from memwal_conformance.exploring.lived import Lived
from memwal_conformance.exploring.lives import ForeignLife
from memwal_conformance.protocol import Hello

HELLO = Hello(
    implementation="x", version="1", revisions=("B",), roles=("writer",), capabilities=frozenset({"s3", "table.create"})
)

BASE_WRITES = ForeignLife(
    name="base", about="", steps=lives.steps_of("w put, w flush, p base, m merge, p compact, m scan", "base")
)


def test_base_writes_are_part_of_a_life_and_rows_that_they_lose_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(REFERENCE, 60.0, {}, roles_by=players("suite"))
    start = starting.started(harness, "B", BASE_WRITES)
    assert BASE_WRITES.missing(harness.hello()) == []
    assert BASE_WRITES.missing(HELLO) == ["base.write", "merge.run", "reader.open", "reader.scan"]
    recoverer = Recoverer(harness, "B")
    lived = living.live(harness, "B", BASE_WRITES, start)
    assert lived.told[-4:] == ("p base: done", "m merge: done", "p compact: done", "m scan: done")
    assert [*of_run(lived, harness.hello()), *recoverer.after(lived, lived.states[-1])] == []
    told = AidedProcess.call

    def call(process: AidedProcess, message: str, params: Any) -> Any:
        if message == "base.write" and "append" in params:
            return {"version": "2"}  # and nothing is appended
        return told(process, message, params)

    monkeypatch.setattr(AidedProcess, "call", call)
    lived = living.live(harness, "B", BASE_WRITES, start)
    found = [*of_run(lived, harness.hello()), *recoverer.after(lived, lived.states[-1])]
    recoverer.close()
    harness.close()
    assert {each.oracle for each in found} == {"answer", "rows"}
    assert {each.words for each in found if each.oracle == "rows"} == {"the row … is missing"}


def lived_by(command: tuple[str, ...], life: ForeignLife, revision: str = "B") -> tuple[Lived, list[Symptom]]:
    """An undisturbed run, and what is wrong with it and with what it leaves."""
    harness = Harness(command, 60.0, {}, roles_by=players("suite"))
    start = starting.started(harness, revision, life)
    recoverer = Recoverer(harness, revision)
    lived = living.live(harness, revision, life, start)
    found = [*of_run(lived, harness.hello()), *recoverer.after(lived, lived.states[-1])]
    recoverer.close()
    harness.close()
    return lived, found


def broken(bug: str) -> tuple[str, ...]:
    """Command of the reference with a bug."""
    return sys.executable, "-m", "memwal_conformance.proving.broken", "--bug", bug


ASKED = ForeignLife(
    name="asked", about="", indexed=True, steps=lives.steps_of("w replace, w flush, w twice, w replace, w ask", "asked")
)


@pytest.mark.parametrize(
    "revision", [pytest.param("A", marks=pytest.mark.long), "B", pytest.param("R", marks=pytest.mark.long)]
)
def test_every_answer_of_the_reference_fits_its_scan(revision: str) -> None:
    lived, found = lived_by(REFERENCE, ASKED, revision)
    assert all(line.endswith(": done") for line in lived.told)
    assert found == []


@pytest.mark.parametrize(
    ("bug", "says"),
    [
        pytest.param(
            "filter_below_deduplication",
            "a scan with a filter by value does not find what a scan finds",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "limit_of_each_part", "a scan with a limit does not find what a scan finds", marks=pytest.mark.long
        ),
        ("stale_rows_take_places", "a filtered vector search does not find what a scan finds"),
    ],
)
def test_an_answer_that_shows_hidden_rows_is_found_by_the_scan_beside_it(bug: str, says: str) -> None:
    _, found = lived_by(broken(bug), ASKED)
    assert says in {each.words for each in found}
    assert {each.oracle for each in found} == {"answer"}


@pytest.mark.long
def test_a_plain_compaction_of_a_table_with_indexes_forgets_their_catch_up_and_the_finding_says_what_to_do() -> None:
    steps = "w replace, w flush, m merge, m index, w replace, w flush, m merge, p compact"
    life = ForeignLife(name="plain", about="", indexed=True, steps=lives.steps_of(steps, "plain"))
    lived, found = lived_by(REFERENCE, life)
    assert lived.told[-1] == "p compact: done"
    (one,) = found
    assert (one.oracle, one.clauses) == ("machine", ("CATCHUP-001",))
    assert "have every index catch up before anything is collected" in one.detail


REGIONS = ForeignLife(
    name="regions",
    about="",
    regions=2,
    steps=lives.steps_of("a put, b put 2, c put, c put 2, c flush 2", "regions"),
)


def test_a_life_of_two_regions_has_a_writer_of_each_and_one_of_both() -> None:
    lived, found = lived_by(REFERENCE, REGIONS)
    assert found == []
    assert len(set(lived.region_ids)) == 2
    assert lived.told[-1] == "c flush 2: done"
    written = {call.name: {key for (key,), _ in call.rows} for call in lived.history.writes if call.process}
    for name, region in (("w0", 1), ("w1", 2), ("w2", 1), ("w3", 2)):
        keys = tables.new_keys(REGIONS, int(name[1:]), 2, region)
        assert written[name] == set(keys)
        assert len(keys) == 2
    entries = Counter(each.name for each in lived.log if each.class_ == "wal" and each.operation == "CREATE")
    assert entries["wal/@1"] == 2  # the first entry of each region


def test_a_row_that_one_of_two_regions_loses_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = AdapterProcess.call

    def call(process: AdapterProcess, message: str, params: Any) -> Any:
        if message == "writer.put" and process.actor == "b":
            return {}  # and nothing is put
        return told(process, message, params)

    monkeypatch.setattr(AdapterProcess, "call", call)
    _, found = lived_by(REFERENCE, REGIONS)
    assert "rows" in {each.oracle for each in found}


def test_a_value_that_is_opened_as_another_region_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = AdapterProcess.call

    def call(process: AdapterProcess, message: str, params: Any) -> Any:
        answer = told(process, message, params)
        return {**answer, "region_id": "another"} if (process.actor, message) == ("a", "writer.open") else answer

    monkeypatch.setattr(AdapterProcess, "call", call)
    life = ForeignLife(name="values", about="", regions=2, steps=lives.steps_of("a open, a close, b open 2", "values"))
    _, found = lived_by(REFERENCE, life)
    assert [(each.words, each.clauses) for each in found if each.oracle == "answer"] == [
        ("an open by the value of a region got another region", ("REGION-002",))
    ]


def test_one_run_of_each_kind_comes_before_a_second_one_of_any() -> None:
    agenda = Agenda()
    some = [plans.Plan(words=str(n), hit="", kind=kind, rank=rank) for n, (kind, rank) in enumerate(WAITING)]
    agenda.add(some)
    done: Counter[str] = Counter()
    taken = []
    while best := agenda.best(done):
        kind = best[-1]
        done[kind] += 1
        taken.append(agenda.take(kind).kind)
    assert taken == ["first", "second", "late", "first", "second", "first"]
    assert agenda.taken.total() == len(WAITING)


def test_a_run_of_a_kind_counts_less_in_a_life_that_has_had_none_of_it() -> None:
    mine, other = Agenda(), Agenda()
    some = [plans.Plan(words=kind, hit="", kind=kind) for kind in ("same", "same")]
    mine.add(some)
    other.add(some)
    mine.take("same")
    done = Counter({"same": 1})
    worth = [agenda.best(done) for agenda in (mine, other)]
    assert [each and each[0] for each in worth] == [AGAIN, ELSEWHERE]


WAITING = (("first", 0), ("first", 0), ("first", 0), ("second", 0), ("second", 0), ("late", 3))


def test_crashes_faults_and_orders_take_turns_where_they_are_worth_the_same() -> None:
    agenda = Agenda()
    made = {"crash": {"crash": 1}, "fault": {"rules": (None,)}, "order": {"switches": {1: "a"}}}
    ways = ["crash"] * 3 + ["fault"] * 3 + ["order"] * 2
    found: list[Any] = [plans.Plan(words="", hit="", kind=str(n), **made[way]) for n, way in enumerate(ways)]
    agenda.add(found)
    taken = []
    while best := agenda.best(Counter()):
        taken.append(agenda.take(best[-1]).way)
    assert taken == ["crash", "fault", "order", "crash", "fault", "order", "crash", "fault"]


def test_the_lives_of_the_suite_name_no_region_that_their_table_lacks() -> None:
    assert {life.regions for life in lives.load().values()} == {1, 2}
    assert all(step.region <= life.regions for life in lives.load().values() for step in life.steps)
    missing = dataclasses.replace(HELLO, without=("table.create region_fields", "table.create indexes"))
    assert "table.create region_fields" in lives.load()["two_regions"].missing(missing)
    assert "table.create indexes" in lives.load()["builders"].missing(missing)


def test_orders_come_first_where_the_operations_of_two_actors_stand_side_by_side() -> None:
    moments = [(f"put: CREATE of wal, {n}", {"b": ("merge", orders.FAR)}) for n in range(9)]
    decisions = [orders.OrderMoment(*each) for each in [*moments, ("merge: CREATE of versions", {"b": ("merge", 0)})]]
    agenda, done = Agenda(), Counter[str]()
    agenda.add(orders.further(orders.plan_of({}), decisions, 1))
    best = agenda.best(done)
    assert best is not None
    assert agenda.take(best[-1]).switches == {9: "b"}


def test_rows_of_one_key_in_the_base_table_are_told_and_others_are_not() -> None:
    one, two, three = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}, {"id": 2, "v": "a"}
    assert judging._twice([one, two, three]) == [one, two]
    assert judging._twice([one, three]) == []
