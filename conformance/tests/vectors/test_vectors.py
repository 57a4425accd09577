"""The vectors and scenarios as data: derived without the engine, complete, and citing what exists."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from memwal_conformance import places, protocol, vectors
from memwal_conformance.judge.structure import CHECKS
from memwal_conformance.proving import evidence
from memwal_conformance.registry.clauses import ambiguities, clauses
from memwal_conformance.registry.levels import PROMISED
from memwal_conformance.running import scenarios
from memwal_conformance.vectors import BadCase, Vector

HERE = Path(__file__).resolve().parents[2]
VECTORS = [vectors.load(file) for file in places.vector_files()]
SCENARIOS = [scenarios.load(file) for file in places.scenario_files()]


def bless(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, str(HERE / "vectors" / "bless.py"), *arguments]
    return subprocess.run(script, capture_output=True, text=True, check=False)


def test_the_vectors_are_what_their_script_derives() -> None:
    done = bless("--check")
    assert (done.returncode, done.stdout) == (0, "0 differences\n"), done.stdout + done.stderr


def test_a_changed_vector_and_one_of_nobody_are_found(tmp_path: Path) -> None:
    assert bless("--root", str(tmp_path)).returncode == 0
    (tmp_path / "B" / "hint" / "hint" / "expected.json").write_text('{"hint": {"version": "6"}}\n')
    (tmp_path / "B" / "hint" / "another").mkdir()
    (tmp_path / "B" / "hint" / "another" / "case.json").write_text("{}")
    (tmp_path / "A" / "name" / "wal_suffix" / "case.json").unlink()
    done = bless("--check", "--root", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "missing: A/name/wal_suffix/case.json",
        "different: B/hint/hint/expected.json",
        "not derived by this script: B/hint/another/case.json",
        "3 differences",
    ]


def test_the_script_that_derives_the_vectors_imports_neither_engine_nor_judge() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(HERE / 'vectors')!r}); import bless; bless.cases(); "
        "print([n for n in sys.modules if n.startswith('memwal')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("revision", protocol.REVISIONS)
def test_every_kind_of_vector_exists_under_every_revision(revision: str) -> None:
    areas = {vector.area for vector in VECTORS if vector.revision == revision}
    objects = {"name", "hash", "region", "bloom", "manifest", "hint", "wal", "index_details"}
    assert areas == {*objects, "state", "table", "invalid"}


def test_revision_0_has_index_details_states_and_faults() -> None:
    assert {vector.area for vector in VECTORS if vector.revision == "0"} == {"index_details", "state", "invalid"}


def test_everything_cites_clauses_and_notes_of_the_registry() -> None:
    assert set(evidence.cited()) <= {clause.id for clause in clauses()} | set(PROMISED)
    notes = {note.id for note in ambiguities()}
    assert {vector.ambiguity for vector in VECTORS} - {None} <= notes
    assert {
        step["ambiguity"]["note"] for scenario in SCENARIOS for step in scenario.steps if "ambiguity" in step
    } <= notes
    assert all(set(check.clauses) <= set(protocol.REVISIONS) for check in CHECKS)


def test_a_clause_names_the_vectors_scenarios_and_checks_that_look_at_it() -> None:
    cited = evidence.cited()
    assert cited["WAL-013"] == (
        "check: WAL names",
        "vectors/A/invalid/state_with_a_name_not_reversed",
        "vectors/A/name/wal_entries",
        "vectors/B/invalid/state_with_a_name_not_reversed",
        "vectors/B/name/wal_entries",
        "vectors/R/invalid/state_with_a_name_not_reversed",
        "vectors/R/name/wal_entries",
    )
    assert "scenarios/second_writer_fences_first.json" in cited["FENCE-017"]


def test_questions_of_vectors_and_messages_of_scenarios_match_their_schemas() -> None:
    for vector in VECTORS:
        if "eval" in vector.directions:
            (message,) = vectors.messages(vector, "eval")
            for question in json.loads((vector.folder / "input" / "questions.json").read_text("utf-8")):
                protocol.check(message, "params", question)
    for scenario in SCENARIOS:
        for step in scenario.steps:
            assert step.get("send", "hello") in protocol.messages()


def test_there_is_one_smoke_scenario_and_it_runs_under_every_revision() -> None:
    (smoke,) = (scenario for scenario in SCENARIOS if scenario.smoke)
    assert set(smoke.revisions) == set(protocol.REVISIONS)


def test_every_title_is_a_sentence_of_its_own() -> None:
    titles = [scenario.title for scenario in SCENARIOS]
    assert len(set(titles)) == len(titles)
    assert all(title.endswith(".") for title in [*titles, *(vector.title for vector in VECTORS)])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "colour"}, "colour"),
        ({"clauses": []}, "clauses"),
        ({"clauses": ["wal 1"]}, "clauses"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_case_that_breaks_its_schema_is_named(change: dict[str, object], reason: str, tmp_path: Path) -> None:
    folder = tmp_path / "B" / "hint" / "x"
    folder.mkdir(parents=True)
    case = {"title": "T.", "kind": "hint", "directions": ["decode"], "clauses": ["MANIFEST-026"], "derived": "By hand."}
    (folder / "expected.json").write_text("{}")
    (folder / "case.json").write_text(json.dumps(case | change))
    with pytest.raises(BadCase, match=reason):
        vectors.load(folder / "case.json")


def vector(**changes: object) -> Vector:
    base = next(v for v in VECTORS if v.revision == "B" and v.area == "manifest" and v.name == "generations")
    return base if not changes else Vector(**{name: getattr(base, name) for name in Vector.__slots__} | changes)


def test_an_answer_with_its_generations_in_another_order_is_the_same() -> None:
    answer = json.loads(json.dumps(vector().expected))
    answer["manifest"]["flushed_generations"].reverse()
    answer["manifest"]["status"] = "active"
    assert vectors.difference(vector().expected, answer) is None


def test_an_answer_that_differs_in_one_number_is_named_with_its_place() -> None:
    answer = json.loads(json.dumps(vector().expected))
    answer["manifest"]["writer_epoch"] = "4"
    assert vectors.difference(vector().expected, answer) == 'manifest.writer_epoch is "4", expected "3"'


def test_a_refusal_of_a_good_object_is_a_broken_clause() -> None:
    def refuse(_message: str, _params: object) -> dict[str, object]:
        raise protocol.AdapterError("internal", "NotImplementedError")

    finding = vectors.run(vector(), "decode", refuse)
    assert finding.broken == "refused: internal: NotImplementedError"


def test_a_damaged_object_must_be_refused_as_corrupt() -> None:
    cut = next(v for v in VECTORS if v.revision == "B" and v.name == "manifest_cut")

    def reply(kind: protocol.ErrorKind) -> object:
        def refuse(_message: str, _params: object) -> dict[str, object]:
            raise protocol.AdapterError(kind, "no")

        return vectors.run(cut, "decode", refuse).broken

    assert reply("corrupt") is None
    assert reply("storage") == "refused as storage: no, expected the kind corrupt"
    accepted = vectors.run(cut, "decode", lambda *_: dict(vector().expected)).broken
    assert accepted is not None
    assert accepted.startswith("the answer is {")
    assert accepted.endswith(", expected the error corrupt")


def named(revision: str, area: str, name: str) -> Vector:
    return vectors.load(HERE / "vectors" / revision / area / name / "case.json")


def recorded(rows: object, epoch: str = "3") -> tuple[vectors.Call, list[str]]:
    """An implementation that gives these rows whatever it is asked, and the messages that it was sent."""
    sent: list[str] = []
    answers: dict[str, dict[str, object]] = {
        "writer.open": {"writer": "w", "region_id": "r", "epoch": epoch},
        "reader.open": {"reader": "r", "version": "1"},
        "reader.scan": {"rows": rows},
        "writer.close": {},
    }

    def call(message: str, _params: object) -> dict[str, object]:
        sent.append(message)
        return answers[message]

    return call, sent


def test_a_wrong_answer_is_told_in_json_with_its_question() -> None:
    text = vectors.run(named("B", "hash", "text"), "eval", lambda *_: {"hash": 7}).broken
    question = '{"function": "murmur3", "values": [{"t": "utf8", "v": ""}]}'
    assert text == f'{question} gives {{"hash": 7}}, expected {{"hash": 0}}'
    answers = iter([{"hash": 7}, {"hash": None}] + [{"hash": 7}] * 6)
    equal = vectors.run(named("B", "hash", "promotion"), "eval", lambda *_: next(answers)).broken or ""
    assert equal.endswith(' gives {"hash": null}'), equal
    assert "'" not in equal


def test_recovered_rows_may_come_in_any_order_and_must_be_complete() -> None:
    case = named("B", "state", "wal_of_two_writers")
    rows = json.loads(json.dumps(case.expected["recover"]["rows"]))
    rows["rows"].reverse()
    call, sent = recorded(rows)
    assert vectors.run(case, "recover", call).broken is None
    assert sent == ["writer.open", "reader.open", "reader.scan", "writer.close"]
    del rows["rows"][0]
    broken = vectors.run(case, "recover", recorded(rows)[0]).broken
    assert broken == 'of 3 expected rows, missing: {"id": "3", "v": "c"}'
    rows["rows"].append([{"t": "int32", "v": "3"}, {"t": "utf8", "v": "c"}])
    broken = vectors.run(case, "recover", recorded(rows)[0]).broken or ""
    assert broken.startswith('of 3 expected rows, missing: {"id": {"t": "int64", "v": "3"}')


def test_a_recovery_under_another_epoch_is_named() -> None:
    case = named("B", "state", "wal_of_two_writers")
    call, _ = recorded(case.expected["recover"]["rows"], epoch="2")
    assert vectors.run(case, "recover", call).broken == "epoch is 2, expected 3"


def test_an_eventual_read_may_see_the_snapshot_or_the_manifest_and_a_strong_one_only_the_manifest() -> None:
    case = named("B", "table", "snapshot_of_the_first")
    older, newest = case.expected["read"]["eventual"]
    assert vectors.run(case, "read", recorded(newest)[0]).broken is None
    stale = vectors.run(case, "read", recorded(older)[0]).broken
    assert stale is not None
    assert stale.startswith("strong: of 4 expected rows, missing: ")


def test_a_filter_that_denies_a_key_of_its_own_or_denies_nothing_is_at_fault() -> None:
    case = named("A", "bloom", "own_filter_knows_its_keys")

    def filter_that_says(answer: bool) -> vectors.Call:
        def call(_message: str, params: dict[str, object]) -> dict[str, object]:
            keys: dict[str, list[object]] = params["keys"]  # type: ignore[assignment]
            return {"perhaps": [answer] * len(keys["rows"])} if "data" in params else {"data": ""}

        return call

    denies = vectors.run(case, "encode", filter_that_says(False)).broken
    assert denies == "the filter denies 7 of the 7 keys that it was built from"
    knows_nothing = vectors.run(case, "encode", filter_that_says(True)).broken
    assert knows_nothing == "the filter denies none of 64 other keys"


def test_a_record_of_revision_0_in_another_state_is_named() -> None:
    case = named("0", "index_details", "state_sealed")
    answer = json.loads(json.dumps(case.expected))
    answer["records"][0]["state"] = "open"
    broken = vectors.run(case, "decode", lambda *_: answer).broken
    assert broken == 'records.0.state is "open", expected "sealed"'
