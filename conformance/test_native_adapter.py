"""The adapter of the native package: what it claims, what it can be asked, and what a crash of it leaves."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

lance = pytest.importorskip("lance", reason="the native package is not installed")

import pyarrow as pa  # noqa: E402
from conformance_runs import Run, run_suite  # noqa: E402
from memwal_conformance import (  # noqa: E402
    native_differential,
    native_life,
    native_race,
    native_versions,
    runner,
    scenarios,
)
from memwal_conformance.adapters import native, native_errors  # noqa: E402
from memwal_conformance.adapters.process import AdapterProcess  # noqa: E402
from memwal_conformance.checks import Scene  # noqa: E402
from memwal_conformance.gate import Address, CrashState, Do, Rule  # noqa: E402
from memwal_conformance.judge import content  # noqa: E402
from memwal_conformance.native_life import Kind, Life  # noqa: E402
from memwal_conformance.oracle import History  # noqa: E402
from memwal_conformance.protocol import Hello  # noqa: E402
from memwal_sim.store import Contents  # noqa: E402

if not hasattr(lance.LanceDataset, "mem_wal_writer"):
    pytest.skip("the installed native package is from before MemWAL", allow_module_level=True)

HERE = Path(__file__).resolve().parent
COMMAND = native_versions.command()
APPENDED = Kind(append_only=True, http_retries=3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Four scenarios and a vector, as a user would run them."""
    names = ("smoke", "second_writer_fences_first", "flush_wal_makes_durable", "regions_stay_disjoint")
    cases = [f"conformance/scenarios/{name}.json" for name in names]
    folder = tmp_path_factory.mktemp("native")
    return run_suite(folder, *cases, "conformance/vectors/R/region/bucket", "--memwal-adapter", native_versions.NAME)


def test_the_suite_runs_against_the_native_package_by_its_name(run: Run) -> None:
    verdicts = {case["case"].partition(".json")[0]: case["verdict"] for case in run.summary["cases"]}
    assert verdicts == {
        "scenarios/smoke": "PASS",
        "scenarios/second_writer_fences_first": "PASS",
        "scenarios/flush_wal_makes_durable": "UNSUPPORTED",
        "scenarios/regions_stay_disjoint": "UNSUPPORTED",
        "vectors/R/region/bucket/case": "PASS",
    }


def test_the_sentence_says_which_roles_are_there_in_part_only(run: Run) -> None:
    assert "roles reader, writer in part, merger in part" in run.text
    assert run.summary["version"] == lance.__version__
    assert [case["text"] for case in run.summary["cases"] if case["verdict"] == "UNSUPPORTED"] == [
        "not claimed: writer.flush_wal",
        "not claimed: table.create region_fields, writer.open values",
    ]


def test_what_the_package_has_no_call_for_is_not_claimed() -> None:
    hello = Hello.of(native.hello(native.State(), {}))
    assert "writer" not in hello.roles
    assert not hello.answers("writer.flush_wal")
    assert not hello.answers("writer.status")
    assert not hello.answers("inspect")
    assert not hello.answers("gc.run")
    assert hello.answers("writer.put")


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
    assert native.named(old, "CompactedSsTable", "MergedGeneration") == "old name"
    assert native.named(None, "CompactedSsTable") is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Writer fenced (peer claimed epoch): local epoch 1 < stored epoch 2 for shard x", "fenced"),
        ("Writer fenced (persistence failure): WAL position 1 was taken after a failed PUT", "fenced"),
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
    with pytest.raises(native_versions.NotInstalled, match=r"pylance 99\.0\.0 cannot .*No matching distribution"):
        native_versions.interpreter("99.0.0")
    with pytest.raises(native_versions.NotInstalled, match="is no version"):
        native_versions.interpreter("../../elsewhere")


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


# A life behind the gate -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def start() -> Contents:
    return native_life.created(COMMAND, APPENDED)


@pytest.fixture(scope="module")
def recoverer() -> Iterator[AdapterProcess]:
    with native_life.adapter(COMMAND, APPENDED.settings, {}) as process:
        yield process


@pytest.fixture(scope="module")
def honest(start: Contents) -> Life:
    return native_life.live(COMMAND, APPENDED, start)


@pytest.mark.long
def test_a_life_without_faults_keeps_each_acknowledged_row_once_wherever_it_is_cut_off(
    honest: Life, recoverer: AdapterProcess
) -> None:
    assert honest.inconclusive == ""
    assert honest.steps == tuple(f"{step}: done" for step in native_life.STEPS)
    assert [promise.what for promise in honest.states[-1].acknowledged] == [1, 2, 3, 4]
    assert len(honest.states) > 30
    looked_at = honest.states[::7]
    assert [native_life.look(recoverer, APPENDED, state) for state in looked_at] == [[] for _ in looked_at]


def test_a_store_that_lost_an_acknowledged_entry_is_noticed(honest: Life, recoverer: AdapterProcess) -> None:
    state = next(state for state in honest.states if len(state.acknowledged) == 2)
    (entry,) = (entry.key for entry in honest.log if entry.name == "wal/@2" and entry.operation == "CREATE")
    broken = CrashState(state.index, state.contents.without(entry), state.acknowledged, state.order)
    texts = [loss.what for loss in native_life.look(recoverer, APPENDED, broken)]
    assert "rows (4, 5), acknowledged, are there [0, 0] times" in texts


def test_a_flush_whose_manifest_was_stored_and_answered_500_lists_its_generation_twice(
    start: Contents, recoverer: AdapterProcess
) -> None:
    """A finding about pylance 9.0.1 and 14.0.2; ``observed/scripts/lost_answers.py`` shows it without this project."""
    rule = Rule(at=Address(actor=native_life.WRITER, operation="CREATE", name="manifest/@2"), do=Do.APPLY_THEN_FAIL)
    life = native_life.live(COMMAND, APPENDED, start, [rule])
    assert life.inconclusive == ""
    met = native_life.fault_order(life, rule)
    assert met is not None
    listed = next(state for state in life.states if state.order > met + 1)
    texts = [loss.what for loss in native_life.look(recoverer, APPENDED, listed)]
    assert any("generation 1 at" in text and "is listed 2 times" in text for text in texts)


@pytest.mark.long
def test_a_real_kill_leaves_what_a_crash_state_has(start: Contents, honest: Life, recoverer: AdapterProcess) -> None:
    rule = Rule(at=Address(actor=native_life.WRITER, operation="CREATE", name="wal/@2"), do=Do.KILL_AFTER)
    life = native_life.live(COMMAND, APPENDED, start, [rule])
    assert "signal 9" in life.steps[-1]
    left = life.states[-1]
    alike = next(s for s in honest.states if sum("/wal/" in path for path in s.contents.objects) == 2)
    assert sorted(left.contents.objects) == sorted(alike.contents.objects)
    assert [promise.what for promise in left.acknowledged] == [1]
    assert native_life.look(recoverer, APPENDED, left) == []


# What a run makes of it -------------------------------------------------------------------------------------------


def test_an_accepted_write_under_other_names_counts_by_place(tmp_path: Path) -> None:
    """The text leaves open whether it is refused (AMB-136); taken by place, its row is no broken read."""
    spec = scenarios.load(HERE / "scenarios" / "bad_rows_are_refused.json")
    history = History(spec.primary_key)
    scene = Scene(tmp_path, "R", scenarios.Names(spec, str(tmp_path), {"writer": {"writer": "w"}}), history)
    actor: Any = SimpleNamespace(call=lambda _message, _params: {})
    running = runner.Run(spec, "R", scene, lambda _name: actor)
    named_otherwise = next(step for step in spec.steps if "other" in str(step))
    running.step(named_otherwise)
    assert history.why_not([{"id": 3, "v": "x"}]) is None
    assert [finding.ambiguity for finding in running.findings] == ["AMB-136"]


# The readers against a dictionary ---------------------------------------------------------------------------------


def test_a_merge_of_nothing_but_deletes_removes_their_rows() -> None:
    asked = native_differential.Program(
        types=("utf8", "int64"),
        key_columns=1,
        base=(("a", 1), ("b", 2)),
        steps=(("delete", (("a",),)), ("merge", ())),
        questions=(native_differential.Question(),),
    )
    assert native_differential.wrong(asked) is None


@pytest.mark.long
def test_seeded_programs_find_nothing_wrong_with_the_installed_package_s_readers() -> None:
    programs = [native_differential.program(seed, small_memtables=False) for seed in range(8)]
    assert {step[0] for asked in programs for step in asked.steps} == {"put", "delete", "reopen", "merge"}
    assert [native_differential.wrong(asked) for asked in programs] == [None] * 8


def test_a_wrong_answer_of_a_reader_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is not told of the SSTables."""
    monkeypatch.setattr(native, "snapshots", lambda _table: [])
    asked = native_differential.Program(
        types=("int64", "utf8"),
        key_columns=1,
        base=((1, "base"), (2, "base")),
        steps=(("put", ((1, "new"),)), ("put", ((3, "new"),)), ("reopen", ())),
        questions=(native_differential.Question(get=(7,)), native_differential.Question(filter=(1, "=", "base"))),
    )
    said = native_differential.wrong(asked)
    assert said is not None
    assert "{'c0': 1, 'c1': 'base'}" in said
    least = native_differential.smaller(asked)
    assert (least.steps, len(least.questions)) == ((("put", ((1, "new"),)),), 1)
    assert least.base == ((1, "base"),)


# Two writers, request by request ----------------------------------------------------------------------------------


@pytest.mark.long
def test_two_native_writers_in_a_seeded_order_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    keyed = Kind(append_only=False, http_retries=0)
    told = native_race.run(COMMAND, keyed, native_life.created(COMMAND, keyed), 1, tmp_path)
    assert told["promised"] != []
    assert any("fenced" in text for text in told["refused"])
    assert told["wrong"] == []


def test_a_third_writer_tells_a_row_that_was_promised_and_is_not_there() -> None:
    keyed = Kind(append_only=False, http_retries=0)
    wrong = native_race.wrong_after(COMMAND, keyed, native_life.created(COMMAND, keyed), [10])
    assert list(wrong) == [
        "recovered: row 10, acknowledged, is there 0 times",
        "flushed: row 10, acknowledged, is there 0 times",
    ]
