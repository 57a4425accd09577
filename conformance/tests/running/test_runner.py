"""The runner of scenarios, on a model of an implementation that lives in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from memwal_conformance.adapters.process import AdapterCrash, AdapterProcess, AdapterTimeout
from memwal_conformance.protocol import AdapterError, Json, ProtocolViolation
from memwal_conformance.running import runner
from memwal_conformance.running.scenarios import SuiteScenario
from memwal_conformance.verdicts import CaseResult, Verdict

SCHEMA = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "v", "type": "utf8", "nullable": True},
]
LEVELS = {"WAL-001": "MUST", "WAL-016": "SHOULD", "READ-001": "MUST", "FENCE-017": "MUST"}
Rows = list[list[Json]]


class Model:
    """An actor: durable rows are on a disk that all actors share, buffered ones in the actor."""

    def __init__(self, disk: dict[str, Rows]) -> None:
        self.disk = disk
        self.buffer: Rows = []
        self.alive = True

    def call(self, message: str, params: Json) -> Json:
        """What the model answers."""
        answers: dict[str, Callable[[Json], Json]] = {
            "table.create": lambda p: self.store(p["rows"]["rows"]),
            "writer.open": lambda _: {"writer": "w", "region_id": "r", "epoch": "1"},
            "writer.put": self.put,
            "writer.flush_wal": lambda _: self.sync(),
            "reader.open": lambda _: {"reader": "r", "version": "1"},
            "reader.scan": lambda _: {"rows": {"columns": SCHEMA, "rows": self.newest()}},
        }
        return answers[message](params)

    def store(self, rows: Rows) -> Json:
        self.disk.setdefault("rows", []).extend(rows)
        return {"version": "1"}

    def put(self, params: Json) -> Json:
        self.buffer += params["rows"]["rows"]
        return self.sync() if params["durable"] else {}

    def sync(self) -> Json:
        self.store(self.buffer)
        self.buffer = []
        return {}

    def newest(self) -> Rows:
        rows = {row[0]["v"]: row for row in [*self.disk["rows"], *self.buffer]}
        return list(rows.values())

    def kill(self) -> bool:
        was, self.alive = self.alive, False
        return was


def send(message: str, params: Json, actor: str = "one", **more: Any) -> Json:
    return {"actor": actor, "send": message, "with": params, **more}


def put(rows: list[list[object]], *, durable: bool = True, **more: Any) -> Json:
    params = {"writer": "$writer.writer", "rows": {"$rows": rows}, "durable": durable}
    return send("writer.put", params, **more)


def run(folder: Path, *steps: Json, kind: type[Model] = Model) -> CaseResult:
    """Run steps behind the creation of a table with one row and the opening of a writer."""
    opening = [
        send("table.create", {"rows": {"$rows": [[9, "base"]]}}),
        {"actor": "one", "send": "writer.open", "as": "writer"},
    ]
    scenario = SuiteScenario(
        file=folder / "x.json",
        title="T.",
        smoke=False,
        revisions=("B",),
        clauses=("WAL-001",),
        schema=SCHEMA,
        primary_key=("id",),
        steps=(*opening, *steps),
    )
    disk: dict[str, Rows] = {}
    return runner.run(
        scenario,
        "B",
        folder=folder,
        start=lambda _: cast("AdapterProcess", kind(disk)),
        finish=lambda _: None,
        levels=LEVELS,
        case="x",
    )


SCAN: tuple[Json, ...] = (
    {"actor": "two", "send": "reader.open", "as": "reader"},
    {"actor": "two", "send": "reader.scan", "with": {"reader": "$reader.reader"}, "as": "seen"},
    {"check": "history", "of": "$seen.rows", "clauses": ["READ-001"]},
)


def test_a_model_that_keeps_its_word_passes(tmp_path: Path) -> None:
    result = run(tmp_path, put([[1, "a"]]), put([[1, "b"], [2, "b"]], durable=False), {"kill": "one"}, *SCAN)
    assert (result.verdict, result.text) == (Verdict.PASS, "")
    assert {c for finding in result.findings for c in finding.clauses} == {"WAL-001", "READ-001"}


class LosesBuffered(Model):
    """A durable put overtakes what was buffered before it, which is lost in a crash."""

    def put(self, params: Json) -> Json:
        if not params["durable"]:
            return super().put(params)
        self.store(params["rows"]["rows"])
        return {}


def test_a_durable_put_acknowledges_what_its_writer_had_buffered_before(tmp_path: Path) -> None:
    steps = (put([[1, "a"]], durable=False), put([[2, "b"]]), {"kill": "one"}, *SCAN)
    assert run(tmp_path, *steps).verdict is Verdict.PASS
    lost = run(tmp_path, *steps, kind=LosesBuffered)
    assert lost.verdict is Verdict.FAIL
    assert "FAIL [READ-001] the row {'id': 1, 'v': 'a'} is missing" in lost.text


def failing(error: Exception) -> type[Model]:
    """A model whose puts end in ``error``."""

    class Failing(Model):
        def put(self, params: Json) -> Json:
            raise error

    return Failing


def test_an_error_that_was_not_due_is_refused_and_blames_no_clause_of_the_case(tmp_path: Path) -> None:
    result = run(tmp_path, put([[1, "a"]]), *SCAN, kind=failing(AdapterError("internal", "NullPointerException")))
    assert result.verdict is Verdict.REFUSED
    assert "REFUSED one's writer.put ended in internal: NullPointerException, expected success" in result.text
    assert "the steps behind it were not run" in result.text
    assert result.unmapped == ("NullPointerException",)
    assert [clause for finding in result.findings for clause in finding.clauses] == []


@pytest.mark.parametrize(
    ("kind", "blamed"),
    [
        *((kind, ["FENCE-017"]) for kind in ("fenced", "conflict", "not_found", "already_exists", "corrupt")),
        *((kind, []) for kind in ("storage", "cancelled", "internal", "invalid_argument")),
    ],
)
def test_a_step_that_says_what_its_success_shows_is_broken_by_an_error_of_the_protocol_only(
    kind: Any, blamed: list[str], tmp_path: Path
) -> None:
    result = run(tmp_path, put([[1, "a"]], clauses=["FENCE-017"]), *SCAN, kind=failing(AdapterError(kind, "no")))
    assert result.verdict is (Verdict.FAIL if blamed else Verdict.REFUSED)
    assert [clause for finding in result.findings for clause in finding.clauses] == blamed


def test_an_expected_error_holds_and_another_kind_does_not(tmp_path: Path) -> None:
    step = put([[1, "a"]], fails=["fenced"], clauses=["FENCE-017"])
    assert run(tmp_path, step, *SCAN, kind=failing(AdapterError("fenced", "gone"))).verdict is Verdict.PASS
    other = run(tmp_path, step, *SCAN, kind=failing(AdapterError("storage", "503")))
    assert other.verdict is Verdict.REFUSED
    assert "REFUSED one's writer.put ended in storage: 503, expected fenced" in other.text
    wrong = run(tmp_path, step, *SCAN, kind=failing(AdapterError("conflict", "another")))
    assert "FAIL [FENCE-017] one's writer.put ended in conflict: another, expected fenced" in wrong.text


def test_success_where_an_error_was_expected_breaks_the_step_and_the_scenario_goes_on(tmp_path: Path) -> None:
    result = run(tmp_path, put([[1, "a"]], fails=["fenced"], clauses=["FENCE-017"]), *SCAN)
    assert result.verdict is Verdict.FAIL
    assert "one's writer.put succeeded, expected fenced" in result.text
    assert [f.clauses for f in result.findings if f.broken is None] == [("READ-001",)]


def test_success_where_the_text_leaves_the_answer_open_is_observed(tmp_path: Path) -> None:
    step = put([[1, "a"]], fails=["fenced"], clauses=["FENCE-017"], ambiguity={"note": "AMB-24", "succeeds": True})
    assert run(tmp_path, step, *SCAN).verdict is Verdict.OBSERVED


def test_an_error_of_a_kind_that_no_note_names_breaks_the_clause(tmp_path: Path) -> None:
    step = put([[1, "a"]], fails=["fenced"], clauses=["FENCE-017"], ambiguity={"note": "AMB-24", "succeeds": True})
    assert run(tmp_path, step, *SCAN, kind=failing(AdapterError("conflict", "another"))).verdict is Verdict.FAIL


def test_a_failed_write_may_be_there_but_an_invalid_one_may_not(tmp_path: Path) -> None:
    class StoresAndFails(Model):
        kind = "storage"

        def put(self, params: Json) -> Json:
            super().put(params)
            raise AdapterError(self.kind, "no")  # type: ignore[arg-type]

    class StoresAndRefuses(StoresAndFails):
        kind = "invalid_argument"

    step = put([[1, "a"]], fails=["storage", "invalid_argument"])
    assert run(tmp_path, step, *SCAN, kind=StoresAndFails).verdict is Verdict.PASS
    refused = run(tmp_path, step, *SCAN, kind=StoresAndRefuses)
    assert refused.verdict is Verdict.FAIL
    assert "the row {'id': 1, 'v': 'a'} should not be there" in refused.text


def test_a_kill_of_a_process_that_was_dead_already_is_no_witness(tmp_path: Path) -> None:
    class DiesAlone(Model):
        def kill(self) -> bool:
            return False

    result = run(tmp_path, put([[1, "a"]]), {"kill": "one"}, *SCAN, kind=DiesAlone)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "INCONCLUSIVE [witness] one did not run any more" in result.text


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (AdapterCrash("writer.put", -11, "segfault"), Verdict.CRASH),
        (AdapterTimeout("writer.put", 5, ""), Verdict.HANG),
        (ProtocolViolation("garbage"), Verdict.HARNESS_ERROR),
    ],
)
def test_what_a_broken_adapter_does_is_named_and_proves_nothing(
    error: Exception, verdict: Verdict, tmp_path: Path
) -> None:
    result = run(tmp_path, put([[1, "a"]]), *SCAN, kind=failing(error))
    assert result.verdict is verdict
    assert result.text.startswith(str(error))
    assert not [finding for finding in result.findings if finding.clauses]


class Closes(Model):
    """A writer whose close says OK, whoever has claimed the region."""

    def call(self, message: str, params: Json) -> Json:
        return {} if message == "writer.close" else super().call(message, params)


@pytest.mark.parametrize(("claimed", "verdict"), [(True, Verdict.OBSERVED), (False, Verdict.PASS)])
def test_a_close_that_says_ok_after_another_claim_is_observed(claimed: bool, verdict: Verdict, tmp_path: Path) -> None:
    another = [{"actor": "two", "send": "writer.open", "as": "second"}] if claimed else []
    close = send("writer.close", {"writer": "$writer.writer"}, may_fail=["fenced"])
    result = run(tmp_path, put([[1, "a"]]), *another, close, *SCAN, kind=Closes)
    assert result.verdict is verdict
    told = [(finding.clauses, finding.ambiguity) for finding in result.findings if finding.broken is not None]
    assert told == ([(("FENCE-011",), "AMB-29")] if claimed else [])


@pytest.mark.parametrize("status", [-9, 137])
@pytest.mark.parametrize("kept", [True, False])
def test_a_process_that_ends_where_it_was_asked_to_is_a_witness_and_its_write_may_be_there(
    kept: bool, status: int, tmp_path: Path
) -> None:
    class Ends(Model):
        def put(self, params: Json) -> Json:
            if self.disk.setdefault("puts", []):
                if kept:
                    super().put(params)
                raise AdapterCrash("writer.put", status, "")
            self.disk["puts"].append([])
            return super().put(params)

    result = run(tmp_path, put([[1, "a"]]), put([[1, "b"]], dies=True), *SCAN, kind=Ends)
    assert result.verdict is Verdict.PASS, result.text


def test_a_process_that_ends_otherwise_than_it_was_asked_to_has_crashed(tmp_path: Path) -> None:
    result = run(tmp_path, put([[1, "a"]], dies=True), kind=failing(AdapterCrash("writer.put", 1, "Traceback")))
    assert result.verdict is Verdict.CRASH


def test_a_process_that_answers_where_it_was_to_end_shows_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, put([[1, "a"]], dies=True))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "one answered writer.put, and was to end in it" in result.text


def test_an_answer_without_the_member_that_is_looked_at_breaks_the_check(tmp_path: Path) -> None:
    step = {"check": "equal", "of": "$writer.merged.1", "is": "2", "clauses": ["WAL-001"]}
    result = run(tmp_path, step)
    assert result.verdict is Verdict.FAIL
    assert "nothing is named $writer.merged.1" in result.text


SCANNED = [
    put([[1, "a"], [2, "b"]]),
    send("reader.open", {}, **{"as": "reader"}),
    send("reader.scan", {"reader": "$reader.reader"}, **{"as": "seen"}),
]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ({"check": "ordered", "is": [[9, "base"], [1, "a"], [2, "b"]]}, None),
        ({"check": "ordered", "is": [[1, "a"], [2, "b"], [9, "base"]]}, "expected in this order"),
        ({"check": "ordered", "is": [[9, "base"], [1, "a"]]}, "expected in this order"),
        ({"check": "some", "is": [[1, "a"], [2, "b"], [9, "base"], [3, "c"]]}, None),
        ({"check": "some", "is": [[1, "a"], [2, "b"], [9, "base"], [3, "c"]], "count": 3}, None),
        ({"check": "some", "is": [[1, "a"], [2, "b"], [9, "base"]], "count": 2}, "3 rows, expected 2"),
        ({"check": "some", "is": [[1, "a"], [9, "base"]]}, "is none of those that there are"),
    ],
)
def test_rows_are_held_against_an_order_or_against_what_is_possible(
    check: Json, expected: str | None, tmp_path: Path
) -> None:
    result = run(tmp_path, *SCANNED, {**check, "of": "$seen.rows", "clauses": ["READ-001"]})
    assert result.verdict is (Verdict.PASS if expected is None else Verdict.FAIL)
    assert (expected or "") in result.text


def test_rows_that_differ_are_told_as_what_is_missing_and_what_was_not_expected(tmp_path: Path) -> None:
    check = {"check": "rows", "is": [[1, "a"], [2, "other"], [9, "base"]], "of": "$seen.rows", "clauses": ["READ-001"]}
    result = run(tmp_path, *SCANNED, check)
    assert 'of 3 expected rows, missing: {"id": 2, "v": "other"}; not expected: {"id": 2, "v": "b"}\n' in result.text


def test_a_row_that_comes_twice_is_not_one_of_several(tmp_path: Path) -> None:
    class Doubling(Model):
        def newest(self) -> Rows:
            return [*super().newest(), super().newest()[0]]

    check = {"check": "some", "of": "$seen.rows", "is": [[1, "a"], [2, "b"], [9, "base"]], "clauses": ["READ-001"]}
    result = run(tmp_path, *SCANNED, check, kind=Doubling)
    assert result.verdict is Verdict.FAIL
    assert "a row is there twice" in result.text


def test_a_check_without_clauses_is_a_witness(tmp_path: Path) -> None:
    step = {"check": "equal", "of": "$writer.epoch", "is": "2"}
    assert run(tmp_path, step).verdict is Verdict.INCONCLUSIVE


def test_steps_of_other_revisions_are_left_out(tmp_path: Path) -> None:
    assert run(tmp_path, {"check": "equal", "of": "$writer.epoch", "is": "2", "only": ["R"]}).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("expected", "verdict"),
    [
        ({"may_fail": ["fenced", "storage"]}, Verdict.PASS),
        ({"fails": ["fenced"]}, Verdict.PASS),
        ({"fails": ["invalid_argument"]}, Verdict.REFUSED),
        ({}, Verdict.REFUSED),
    ],
)
def test_an_error_without_a_kind_is_a_stop_where_a_stop_is_allowed(
    tmp_path: Path, expected: Json, verdict: Verdict
) -> None:
    class Unmapped(Model):
        def put(self, params: Json) -> Json:
            raise AdapterError("internal", "it stopped")

    result = run(tmp_path, put([[1, "a"]], **expected), kind=Unmapped)
    assert result.verdict is verdict
    assert result.unmapped == ("it stopped",)
