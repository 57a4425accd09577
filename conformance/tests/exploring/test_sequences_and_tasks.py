"""Lives with a column that orders rows, with marks of finished tasks, and with regions by text."""

from collections.abc import Iterator
from typing import Any

import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.adapters.harness import REFERENCE, Harness
from memwal_conformance.adapters.process import AdapterProcess
from memwal_conformance.exploring import asking, lives, living, starting, tables
from memwal_conformance.exploring.judging import Recoverer, of_run
from memwal_conformance.exploring.lives import ForeignLife, Verb
from memwal_conformance.exploring.tasks import TaskMarks
from memwal_conformance.protocol import AdapterError, Hello

LATE = ForeignLife(
    name="late",
    about="",
    sequenced=True,
    steps=lives.steps_of("w put, w late, w finish, w flush, w late, w done", "late"),
)
HELLO = Hello(
    implementation="x", version="1", revisions=("B",), roles=("writer",), capabilities=frozenset({"s3", "table.create"})
)


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    made = Harness(REFERENCE, 60.0, {})
    yield made
    made.close()


def test_late_rows_change_nothing_and_those_that_are_kept_are_told(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, told = starting.started(harness, "B", LATE), AdapterProcess.call
    recoverer = Recoverer(harness, "B")
    honest = living.live(harness, "B", LATE, start)
    assert all(line.endswith(": done") for line in honest.told)
    assert [*of_run(honest, harness.hello()), *recoverer.after(honest, honest.states[-1])] == []

    def call(process: AdapterProcess, message: str, params: Any) -> Any:
        if message == "sequence.put" and params["rows"]["rows"][0][2]["v"] == str(tables.LATE):
            return {"late": "0"}
        return told(process, message, params)

    monkeypatch.setattr(AdapterProcess, "call", call)
    kept = living.live(harness, "B", LATE, start)
    recoverer.close()
    assert [each.words for each in of_run(kept, harness.hello())] == ["late rows are not left out"] * 2


def test_rows_that_are_not_late_are_not_to_be_left_out() -> None:
    assert asking.counted_late({"late": "0"}, 0) == asking.counted_late({"late": "2"}, 2) == []
    (wrong,) = asking.counted_late({"late": "1"}, 0)
    assert wrong.detail == "rows that are not late are left out: 1 of them, and not 0"


def test_no_two_claims_of_a_region_are_told_one_epoch() -> None:
    epochs: set[str] = set()
    claims = [{"region_id": "r", "epoch": "2"}, {"region_id": "r"}, {"region_id": "r", "epoch": "3"}]
    assert [asking.claimed(each, "r", epochs) for each in claims] == [[], [], []]
    (wrong,) = asking.claimed({"region_id": "r", "epoch": "2"}, "r", epochs)
    assert (wrong.detail, wrong.clauses) == ("two claims of a region have one epoch: 2", ("FENCE-008",))


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (lambda batch, partition: (batch, partition) in {(10, 0), (30, 0)} or batch < 30, []),
        (lambda batch, partition: batch == 30 and not partition, ["is not known", "is not known"]),
        (lambda batch, partition: batch <= 30, ["counts as finished"]),
    ],
)
def test_marks_are_known_from_their_acknowledgement_on_and_those_of_older_batches(known: Any, says: list[str]) -> None:
    marks = TaskMarks()

    def call(message: str, params: Any) -> Any:
        if message == "task.finish" and params["batch"] == 20:
            raise AdapterError("storage", "no")
        return {"done": known(params["batch"], params["partition"])} if message == "task.done" else {}

    for number in (0, 1, 2):
        try:
            marks.finish(call, "writer", number)
        except AdapterError:
            assert number == 1
    assert (marks.begun, marks.stored) == ([10, 20, 30], [10, 30])
    wrong = [each.words for each in marks.asked(call, "t", "r")]
    assert [words.partition(" older than one, ")[2] or words.removeprefix("a task ") for words in wrong] == says


def test_a_task_that_may_have_been_finished_meanwhile_is_not_asked_to_be_unknown() -> None:
    marks = TaskMarks(begun=[10])

    def call(message: str, params: Any) -> Any:
        marks.begun.append(20)
        return {"done": True}

    assert marks.asked(call, "t", "r") == []


def test_regions_by_text_have_the_rows_whose_text_and_key_say_so_and_no_others() -> None:
    life = lives.load()["text_regions"]
    assert tables.key_of(life) == ("tenant", "id")
    for region in (1, 2):
        keys = tables.new_keys(life, 1, 4, region)
        assert len(keys) == 4
        for key in keys:
            values = [cell["v"] for cell in tables.of_region(life, region)["values"].values()]
            assert values == [str(region - 1)] * 2
            assert len(tables.tenant(life, key) or "") % 4, "what a hash does behind the last whole word is seen, too"
    sources = {field["field_id"]: field["source_columns"] for field in tables.made(life)["region_fields"]}
    assert sources == {"bucket": ["tenant"], "both": ["tenant", "id"]}
    assert life.missing(HELLO, "R")[-1] == "buckets of text as in the revisions A and B"
    assert "buckets" not in " ".join(life.missing(HELLO, "B"))


def test_rows_without_a_text_are_in_a_region_of_their_own_and_their_text_is_no_part_of_the_key() -> None:
    life = lives.load()["regions_without_texts"]
    assert tables.key_of(life) == ("id",)
    assert [column["nullable"] for column in tables.columns(life) if column["name"] == "tenant"] == [True]
    values = {region: tables.of_region(life, region)["values"] for region in (1, 2)}
    assert [cell.get("v") for cell in values[1].values()] == ["0", "0"]
    assert [cell.get("v") for cell in values[2].values()] == [None, "1"]
    assert [{tables.tenant(life, key) is None for key in tables.new_keys(life, 1, 4, n)} for n in (1, 2)] == [
        {False},
        {True},
    ]
    fields = tables.made(life)["region_fields"]
    assert {field["parameters"]["immutable_sources"] for field in fields} == {"true"}
    others = tables.made(lives.load()["text_regions"])["region_fields"]
    assert not any("immutable_sources" in field["parameters"] for field in others)


def test_a_life_with_sequences_needs_their_messages_and_not_those_in_place_of_which_they_are() -> None:
    assert LATE.missing(HELLO) == ["sequence.open", "sequence.put", "task.done", "task.finish"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('sequenced = true\nsteps = "w put, w delete"', "a table with sequences has no delete here"),
        ('steps = "w put, w late"', "late and finish need a table with sequences"),
        ('by_text = true\nsteps = "w put"', "a table with regions by text has 2 of them"),
        ('textless = true\nsteps = "w put"', "textless needs regions by text"),
    ],
)
def test_a_life_that_cannot_be_is_refused(text: str, says: str, tmp_path: Any) -> None:
    (tmp_path / "mine.toml").write_text(f'[one]\nabout = "a"\n{text}\n', "utf-8")
    with pytest.raises(InvalidArgument, match=says):
        lives.load(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("verb", "kind", "due"),
    [
        (Verb.PUT, "invalid_argument", False),
        (Verb.DELETE, "invalid_argument", True),
        (Verb.FLUSH, "already_exists", False),
        (Verb.SCAN, "already_exists", True),
        (Verb.SCAN, "corrupt", False),
        (Verb.PUT, "fenced", True),
    ],
)
def test_errors_that_say_what_is_not_so_are_not_due(verb: Verb, kind: Any, due: bool) -> None:
    assert [each.oracle for each in asking.not_due(verb, AdapterError(kind, "no"))] == ([] if due else ["error"])
