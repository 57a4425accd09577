"""The adapter of the native package: what it claims, and what it can be asked."""

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

lance = pytest.importorskip("lance", reason="the native package is not installed")

import pyarrow as pa  # noqa: E402
from kit.runs import Run, run_suite  # noqa: E402
from memwal_conformance.adapters import (  # noqa: E402
    native,
    native_errors,
    native_package,
    native_reads,
    native_state,
    native_store,
    versions,
)
from memwal_conformance.judge import content, structure  # noqa: E402
from memwal_conformance.judge import store as judged  # noqa: E402
from memwal_conformance.native import differential, reading, record, tables  # noqa: E402
from memwal_conformance.protocol import Hello  # noqa: E402
from memwal_conformance.running import checks, oracle, runner, scenarios  # noqa: E402
from memwal_conformance.running.checks import CheckContext  # noqa: E402

if not hasattr(lance.LanceDataset, "mem_wal_writer"):
    pytest.skip("the installed native package is from before MemWAL", allow_module_level=True)

HERE = Path(__file__).resolve().parents[2]
COMMAND = versions.command()
REGION = "0a0b0c0d-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Four scenarios and a vector, as a user would run them."""
    names = ("smoke", "second_writer_fences_first", "flush_wal_makes_durable", "regions_stay_disjoint")
    cases = [f"conformance/scenarios/{name}.json" for name in names]
    folder = tmp_path_factory.mktemp("native")
    return run_suite(folder, *cases, "conformance/vectors/R/region/bucket", "--memwal-adapter", versions.NAME)


def test_the_suite_runs_against_the_native_package_by_its_name(run: Run) -> None:
    verdicts = {case["case"].partition(".json")[0]: case["verdict"] for case in run.summary["cases"]}
    assert verdicts == {
        "scenarios/smoke": "PASS",
        "scenarios/second_writer_fences_first": "PASS",
        "scenarios/flush_wal_makes_durable": "UNSUPPORTED",
        "scenarios/regions_stay_disjoint": "UNSUPPORTED",
        "vectors/R/region/bucket/case": "OBSERVED",
    }


def test_the_sentence_says_which_roles_are_there_in_part_only_and_which_no_case_tested(run: Run) -> None:
    assert "roles reader, writer in part: " in run.text
    assert "; claimed and not tested: merger in part;" in run.text
    assert run.summary["version"] == lance.__version__
    assert [case["text"] for case in run.summary["cases"] if case["verdict"] == "UNSUPPORTED"] == [
        "not claimed: writer.flush_wal",
        "not claimed: table.create region_fields, writer.open values",
    ]


def test_a_case_of_which_two_runs_say_different_things_settles_nothing_and_the_sentence_is_of_both(run: Run) -> None:
    cases = {case["case"].partition(".json")[0]: case for case in run.summary["cases"]}
    broken = {"clauses": ["FENCE-016"], "broken": "a row is missing", "ambiguity": None, "witness": False}
    failed = {**cases["scenarios/smoke"], "verdict": "FAIL", "findings": [broken]}
    other = {**run.summary, "cases": [failed]}
    kept = record.short(record.joined([run.summary, other]))
    assert kept["cases"]["scenarios/smoke.json::R"]["verdict"] == "INCONCLUSIVE"
    assert len(kept["cases"]) == len(cases)
    assert kept["says"][0].startswith("in 2 runs: pylance was not shown to conform")
    alike = record.joined([run.summary, run.summary])
    assert (alike["revisions"], alike["runs"]) == (run.summary["revisions"], 2)


LOGGED = """{"order": 1, "actor": "one", "class": "wal", "name": "wal/@1", "key": "t/wal/x", "others": [],
    "operation": "CREATE", "fate": "applied", "status": 200, "request_bytes": 7, "request_digest": "d",
    "reply_bytes": 0, "reply_digest": "", "store": "s", "number": 4, "rule": "lost"}"""
"""A line of the gate's log, as a packed failure has it."""


def test_the_requests_of_cases_that_fail_behind_the_gate_are_kept_as_a_log(run: Run, tmp_path: Path) -> None:
    case = next(case for case in run.summary["cases"] if case["case"].startswith("scenarios/smoke"))
    named = {**case, "case": "scenarios/gate/x.json::R"}
    request = json.loads(LOGGED)
    for name, verdict, requests in (("first", "FAIL", [request]), ("plain", "FAIL", []), ("later", "PASS", [])):
        (tmp_path / name / "failures").mkdir(parents=True)
        broken = [{"clauses": ["WAL-001"], "broken": "gone", "ambiguity": None, "witness": False}]
        told = {**named, "verdict": verdict, "findings": broken if verdict == "FAIL" else []}
        (tmp_path / name / "summary.json").write_text(json.dumps({**run.summary, "cases": [told]}), "utf-8")
        packed = {"case": named["case"], "requests": requests}
        if verdict == "FAIL":
            (tmp_path / name / "failures" / "scenarios-gate-x-R.json").write_text(json.dumps(packed), "utf-8")
    record.main([str(tmp_path / "first"), str(tmp_path / "plain"), str(tmp_path / "kept")])
    (file,) = (tmp_path / "kept" / "logs").iterdir()
    assert file.name == "gate-x-R.log"
    assert file.read_text("utf-8").split() == ["1", "one", "CREATE", "wal/@1", "200", "applied", "7", "0", "lost"]
    record.main([str(tmp_path / "later"), str(tmp_path / "kept")])
    assert list((tmp_path / "kept" / "logs").iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["only"], ["nowhere", "folder"]])
def test_a_record_without_a_usable_report_is_a_usage_error(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        record.main([str(tmp_path / each) for each in arguments])
    assert "usage: " in capsys.readouterr().err


def test_reports_about_different_versions_are_not_put_together(run: Run) -> None:
    with pytest.raises(ValueError, match="different versions"):
        record.joined([run.summary, {**run.summary, "version": "7.0.0"}])


def test_what_the_package_has_no_call_for_is_not_claimed() -> None:
    hello = Hello.of(native.hello(native_state.NativeState(), {}))
    assert "writer" not in hello.roles
    assert not hello.answers("writer.flush_wal")
    assert not hello.answers("writer.status")
    assert not hello.answers("inspect")
    assert not hello.answers("gc.run")
    assert hello.answers("writer.put")


def test_what_the_adapter_does_and_the_package_does_not_is_told_in_hello_the_terminal_and_the_summary(run: Run) -> None:
    helped = native.hello(native_state.NativeState(), {})["helped"]
    assert any(told.startswith("writer.flush_memtable: close, the only flush there is") for told in helped)
    assert run.summary["helped"] == helped
    assert [line.removeprefix("helped: ") for line in run.text.splitlines() if line.startswith("helped: ")] == helped


class ClaimedByAnother(native_state.NativeState):
    """A state of the adapter in which the newest manifest of every shard has epoch 2."""

    def store(self, table: str) -> Any:
        shard = native_store.Shard(shard_id="s", epoch=2, current_generation=1, generations=())
        return SimpleNamespace(shard=lambda _id: shard)


def test_a_fenced_close_that_says_ok_is_answered_as_the_package_answers_it_and_claims_nothing() -> None:
    state = ClaimedByAnother()
    package = SimpleNamespace(close=lambda: None)
    state.writers["w"] = native_state.NativeWriter("t", "s", 1, pa.schema([]), package, {})
    assert native.writer_flush_memtable(state, {"writer": "w"}) == {"generation": None}
    assert (state.writers["w"].epoch, state.writers["w"].native) == (1, package)


def test_sstables_go_to_the_readers_as_they_are_listed_those_that_the_base_has_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shard = native_store.Shard(shard_id=REGION, epoch=1, current_generation=4, generations=((3, "c"), (1, "a")))
    monkeypatch.setattr(native_store.TableStore, "shards", lambda _self: [shard])
    monkeypatch.setattr(native_store.TableStore, "compacted", lambda _self: pytest.fail("progress was asked for"))
    given: list[tuple[int, str]] = []

    def add(snapshot: Any, generation: int, folder: str) -> Any:
        given.append((generation, folder))
        return snapshot

    monkeypatch.setattr(native_reads, "ADD_SSTABLE", add)
    native_reads.snapshots(native_state.NativeState(), "/t")
    assert given == [(3, "c"), (1, "a")]


def test_a_parameter_that_is_not_taken_makes_a_scenario_unsupported() -> None:
    hello = Hello(
        implementation="x",
        version="1",
        revisions=("R",),
        roles=("writer", "reader", "merger"),
        capabilities=frozenset({"table.create"}),
        without=("writer.open values",),
    )
    spec = scenarios.load(HERE / "scenarios" / "regions_stay_disjoint.json")
    assert spec.missing("R", hello) == ["writer.open values"]


def test_the_attributes_of_another_version_are_found_by_their_names() -> None:
    old = SimpleNamespace(MergedGeneration="old name")
    assert native_package.named(old, "CompactedSsTable", "MergedGeneration") == "old name"
    assert native_package.named(None, "CompactedSsTable") is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Writer fenced (peer claimed epoch): local epoch 1 < stored epoch 2 for shard x", "fenced"),
        ("Writer fenced (persistence failure): WAL position 1 was taken after a failed PUT", "fenced"),
        ("LanceError(IO): WAL replay aborted: entry at position 2 (writer was fenced during open)", "fenced"),
        ("Invalid user input: ShardWriter is already closed, src/mem_wal.rs:270:29", "cancelled"),
        ("Invalid user input: MemWAL is already initialized on this dataset.", "already_exists"),
        ("Invalid user input: batch 0 column 1 is named 'other', but the base table declares 'v'", "invalid_argument"),
        ("Invalid user input: Stale SSTable compaction for shard x: proposed generation 1", "conflict"),
        ("Dataset at path nope was not found: Not found: nope/_versions", "not_found"),
        ("LanceError(IO): Generic S3 error: Error performing PUT http://127.0.0.1 in 2s", "storage"),
        ("RowAddrTreeMap::from_sorted_iter called with non-sorted input", "internal"),
    ],
)
def test_the_package_s_own_texts_have_kinds_and_others_are_listed_as_internal(text: str, kind: str) -> None:
    assert native_errors.kind_of(OSError(text)) == kind


def test_a_version_that_cannot_be_installed_is_reported_with_the_installer_s_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(arguments: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        bad = "pip" in arguments
        return subprocess.CompletedProcess(arguments, int(bad), "", "ERROR: No matching distribution found")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(versions.NotInstalled, match=r"pylance 99\.0\.0 cannot .*No matching distribution"):
        versions.interpreter("99.0.0")
    with pytest.raises(versions.NotInstalled, match="is no version"):
        versions.interpreter("../../elsewhere")


# Generations of the first release ---------------------------------------------------------------------------------


def test_the_judge_reads_the_generations_of_the_first_release_newest_row_first(tmp_path: Path) -> None:
    store: Any = SimpleNamespace(layout=SimpleNamespace(revision="R"), key=("id",), storage=None)
    region: Any = SimpleNamespace(folder=tmp_path)
    stored = pa.table({"id": [2, 2, 1], "v": ["new", "old", "x"]})
    lance.write_dataset(stored, tmp_path / "00000000_gen_1")
    assert [row["v"] for row in content.generation_rows(store, region, "00000000_gen_1")] == ["x", "old", "new"]
    marked = stored.append_column("_tombstone", [[False, False, False]])
    lance.write_dataset(marked, tmp_path / "00000000_gen_2")
    assert [row["v"] for row in content.generation_rows(store, region, "00000000_gen_2")] == ["new", "old", "x"]


# Claims that are overtaken ----------------------------------------------------------------------------------------


def claimed_thrice(root: Path) -> dict[int, Path]:
    """A table whose WAL has a row of epoch 1, and the barriers of epochs 2 and 3; its entries by position."""
    key = {b"lance-schema:unenforced-primary-key": b"true"}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=key)])
    lance.write_dataset(pa.table([[9]], schema=schema), str(root), schema=schema).initialize_mem_wal()
    for number in (1, 2, 3):
        writer = lance.dataset(str(root)).mem_wal_writer(REGION, durable_write=True)
        if number == 1:
            writer.put(pa.table([[1]], schema=schema))
    return {int(file.stem[::-1], 2): file for file in root.glob("_mem_wal/*/wal/*.arrow")}


def epochs(root: Path) -> structure.CheckResult:
    return next(r for r in structure.run(judged.read(root, "R", ("id",))) if r.check == "WAL epochs")


def swapped(one: Path, other: Path) -> None:
    bytes_of_one = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(bytes_of_one)


def test_a_barrier_of_a_claim_that_was_overtaken_is_a_choice_and_no_fault(tmp_path: Path) -> None:
    """Revision R puts the barrier before it reads the entries below it; it has no rows that could override others."""
    entries = claimed_thrice(tmp_path / "t")
    assert sorted(entries) == [1, 2, 3]
    assert epochs(tmp_path / "t").choices == ()
    swapped(entries[2], entries[3])
    found = epochs(tmp_path / "t")
    assert found.faults == ()
    assert [(c.ambiguity, c.what.partition(": ")[2]) for c in found.choices] == [
        ("AMB-27", "entry 3 has epoch 2 after an entry of epoch 3, and no rows")
    ]


def test_rows_of_a_lower_epoch_behind_a_higher_one_are_a_fault(tmp_path: Path) -> None:
    entries = claimed_thrice(tmp_path / "t")
    swapped(entries[1], entries[2])
    found = epochs(tmp_path / "t")
    assert [fault.partition(": ")[2] for fault in found.faults] == ["entry 2 has epoch 1 after an entry of epoch 2"]
    assert found.choices == ()


def test_a_choice_that_the_judge_sees_is_observed_and_breaks_nothing(tmp_path: Path) -> None:
    entries = claimed_thrice(tmp_path / "t")
    swapped(entries[2], entries[3])
    spec = scenarios.load(HERE / "scenarios" / "smoke.json")
    context = CheckContext(tmp_path / "t", "R", scenarios.Names(spec, str(tmp_path), {}), ("id",))
    found = checks.look(context, {"check": "structure"})
    assert [f.ambiguity for f in found if f.broken is not None] == ["AMB-27"]
    assert {f.broken for f in found if "WAL-011" in f.clauses and f.ambiguity is None} == {None}


def test_what_leads_to_the_store_is_in_the_environment_only_where_a_setting_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ENDPOINT", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ALLOW_HTTP"):
        monkeypatch.setenv(name, "before")
    storage = {"endpoint": "http://127.0.0.1:1", "region": "r", "access_key_id": "k", "secret_access_key": "s"}
    state = native_state.NativeState()
    native.configure(state, {"revision": "R", "settings": {}, "storage": storage})
    assert (os.environ["AWS_ENDPOINT"], os.environ["AWS_ACCESS_KEY_ID"]) == ("before", "before")
    assert state.storage["aws_access_key_id"] == "k"
    native.configure(state, {"revision": "R", "settings": {"environment": "on"}, "storage": storage})
    assert (os.environ["AWS_ENDPOINT"], os.environ["AWS_ALLOW_HTTP"]) == ("http://127.0.0.1:1", "true")


# What a run makes of it -------------------------------------------------------------------------------------------


def test_an_accepted_write_under_other_names_counts_by_place(tmp_path: Path) -> None:
    """The text leaves open whether it is refused (AMB-136); taken by place, its row is no broken read."""
    spec = scenarios.load(HERE / "scenarios" / "bad_rows_are_refused.json")
    names = scenarios.Names(spec, str(tmp_path), {"writer": {"writer": "w"}})
    context = CheckContext(tmp_path, "R", names, spec.primary_key)
    actor: Any = SimpleNamespace(call=lambda _message, _params: {})
    running = runner.ScenarioRun(spec, "R", context, lambda _name: actor)
    named_otherwise = next(step for step in spec.steps if "other" in str(step))
    running.step(named_otherwise)
    assert oracle.why_not(context.history, spec.primary_key, [{"id": 3, "v": "x"}]) is None
    assert [finding.ambiguity for finding in running.findings] == ["AMB-136"]


# The readers against a dictionary ---------------------------------------------------------------------------------


def test_a_merge_of_nothing_but_deletes_removes_their_rows() -> None:
    asked = differential.Program(
        types=("utf8", "int64"),
        key_columns=1,
        base=(("a", 1), ("b", 2)),
        steps=(("delete", (("a",),)), ("merge", ())),
        questions=(differential.Question(),),
    )
    assert differential.wrong(asked) is None


@pytest.mark.long
def test_seeded_programs_find_nothing_wrong_with_the_installed_package_s_readers() -> None:
    programs = [differential.program(seed, small_memtables=False) for seed in range(8)]
    assert {step[0] for asked in programs for step in asked.steps} == {"put", "delete", "reopen", "merge"}
    assert [differential.wrong(asked) for asked in programs] == [None] * 8


def test_a_wrong_answer_of_a_reader_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is not told of the SSTables."""
    monkeypatch.setattr(native_reads, "snapshots", lambda _state, _table: [])
    asked = differential.Program(
        types=("int64", "utf8"),
        key_columns=1,
        base=((1, "base"), (2, "base")),
        steps=(("put", ((1, "new"),)), ("put", ((3, "new"),)), ("reopen", ())),
        questions=(differential.Question(get=(7,)), differential.Question(filter=(1, "=", "base"))),
    )
    said = differential.wrong(asked)
    assert said is not None
    assert "{'c0': 1, 'c1': 'base'}" in said
    least = differential.smaller(asked)
    assert (least.steps, len(least.questions)) == ((("put", ((1, "new"),)),), 1)
    assert least.base == ((1, "base"),)


# The engine on the package's tables -----------------------------------------------------------------------------------


def test_the_engine_reads_what_the_package_wrote(capfd: pytest.CaptureFixture[str]) -> None:
    assert reading.main(["--programs", "4", "--first", "3000"]) == 0
    assert f"pylance {lance.__version__}: 0 of 4 tables read wrong" in capfd.readouterr().out


def test_a_table_that_is_read_wrong_is_told_with_its_rows(tmp_path: Path) -> None:
    asked = tables.of_seed(3001)
    tables.write(tmp_path, asked, lost=True).close()
    file = tmp_path / tables.ROWS
    first, *others = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(others), "utf-8")
    told = list(reading.wrong(tmp_path, asked))
    assert [each.partition(":")[0] for each in told] == ["scan", "scan after a merge", "base table"]
    assert all(first in each for each in told)


def test_a_version_that_cannot_be_installed_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        reading.main(["--native-version", "not a version"])
    assert "--native-version: " in capsys.readouterr().err
