"""``memwal explore replay FILE --against ADAPTER``: recorded faults, scenarios and failures, by others."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from memwal.cli.main import app
from memwal_conformance.proving import broken_survey
from memwal_conformance.proving.broken import engine_with
from memwal_conformance.registry.levels import levels_of
from memwal_conformance.replaying import against
from memwal_conformance.replaying.scripts import NotPortable
from memwal_conformance.replaying.translating import TranslatedFault, translated
from memwal_conformance.running import runner
from memwal_conformance.verdicts import CaseResult, Verdict
from memwal_sim import bugs, places
from memwal_sim.traces.trace import load
from typer.testing import CliRunner

RECORDED = places.faults() / "recorded"
REPRODUCED = {
    "fencing/zombie_append": "WAL-001",
    "fencing/barrier_over_an_entry": "FENCE-017",
    "fencing/no_check_after_put": "WAL-001",
    "wal/skip_newer_epoch": "FENCE-017",
    "wal/unresolved_put": "WAL-005",
    "wal/plain_wal_put": "WAL-001",
    "wal/start_at_last_seen": "FENCE-016",
    "manifest/stale_commit": "MANIFEST-007",
    "manifest/builder_undoes_a_claim": "MANIFEST-009",
    "flush/listed_before_written": "FLUSH-013",
    "flush/oldest_row_kept": "WAL-001",
    "read/base_read_first": "READ-008",
    "merge/tombstone_dropped": "MERGE-001",
}
"""Recorded fault -> a clause that the suite names when the engine with its planted bug goes through it."""
SKELETON = f"{sys.executable} -m memwal_conformance.adapters.skeleton"


def replayed(fault: TranslatedFault, revision: str, folder: Path) -> CaseResult:
    """Run a translated fault against the reference's adapter in this process."""
    return runner.run(
        fault.scenario,
        revision,
        folder=folder,
        start=lambda _: broken_survey.actor(revision),
        finish=lambda _: None,
        levels=levels_of(revision),
        case="test",
        contents=fault.contents,
        history=fault.history,
    )


@pytest.mark.parametrize("name", REPRODUCED)
def test_a_recorded_fault_is_caught_with_its_bug_and_passed_without(name: str, tmp_path: Path) -> None:
    trace = load(RECORDED / f"{name}.jsonl")
    fault = translated(trace, name, trace.header.revision)
    for place in ("right", "wrong"):
        (tmp_path / place).mkdir()
    right, stops = against.witnessed(fault, replayed(fault, trace.header.revision, tmp_path / "right"))
    assert right.verdict is Verdict.PASS, right.text
    assert stops[0] > 0 or stops[1] == 0
    (bug,) = bugs.choose(trace.header.bugs)
    with engine_with(bug):
        wrong = replayed(fault, trace.header.revision, tmp_path / "wrong")
    assert wrong.verdict is Verdict.FAIL, wrong.text
    assert REPRODUCED[name] in {c for f in wrong.findings if f.broken is not None for c in f.clauses}, wrong.text


def test_stops_and_faults_become_rules_by_class_and_name() -> None:
    trace = load(RECORDED / "wal" / "unresolved_put.jsonl")
    fault = translated(trace, "unresolved_put", "B")
    assert fault.scenario.rules is not None
    assert [(rule["do"], rule["at"]) for rule in fault.scenario.rules] == [
        (
            "lose",
            {"actor": "writer_one", "class": "wal", "operation": "PUT", "occurrence": 1, "name": "wal/@*"},
        )
    ]
    zombie = translated(load(RECORDED / "fencing" / "zombie_append.jsonl"), "zombie_append", "A")
    words = [
        next(word for word in ("send", "arm", "reached", "release", "await", "check") if word in s)
        for s in zombie.scenario.steps
    ]
    assert words[: words.index("check")].count("reached") == len(zombie.stops) > 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("table/committed_again", "is not about writers, merges and reads of one region"),
        ("flush/out_of_order", "does 'freeze', for which the protocol has no message"),
        ("manifest/missing_hint_means_new", "does 'lose_hint'"),
    ],
)
def test_what_no_message_says_is_not_portable(name: str, reason: str) -> None:
    with pytest.raises(NotPortable, match=reason):
        translated(load(RECORDED / f"{name}.jsonl"), name, "B")


def test_an_implementation_that_makes_none_of_the_stops_has_shown_nothing(tmp_path: Path) -> None:
    trace = load(RECORDED / "fencing" / "zombie_append.jsonl")
    fault = translated(trace, "zombie_append", "B")
    result, stops = against.witnessed(fault, replayed(fault, "B", tmp_path))
    assert (result.verdict, stops) == (Verdict.PASS, (len(fault.stops), len(fault.stops)))
    unstopped = CaseResult(**{name: getattr(result, name) for name in result.__slots__} | {"requests": ()})
    nothing, none = against.witnessed(fault, unstopped)
    assert (nothing.verdict, none) == (Verdict.INCONCLUSIVE, (0, len(fault.stops)))


def replay(*arguments: str) -> tuple[int, str]:
    """Exit code and output of ``memwal explore replay``."""
    done = CliRunner().invoke(app, ["replay", *arguments])
    return done.exit_code, done.output


def test_the_command_runs_a_recorded_fault_against_the_reference() -> None:
    status, text = replay(str(RECORDED / "fencing" / "zombie_append.jsonl"), "--against", "reference")
    assert status == 0, text
    assert "1 of 1 stops were made as recorded" in text
    assert "PASS under revision B" in text


def test_the_command_says_which_clause_a_broken_adapter_breaks() -> None:
    broken = f"{sys.executable} -m memwal_conformance.proving.broken --bug no_barrier"
    status, text = replay(str(RECORDED / "fencing" / "zombie_append.jsonl"), "--against", broken, "--json")
    assert status == 1, text
    found = json.loads(text)
    assert found["verdict"] == "FAIL"
    assert "WAL-001" in found["clauses"]


def test_the_command_ends_with_3_for_what_says_nothing_about_the_adapter() -> None:
    status, text = replay(str(RECORDED / "table" / "committed_again.jsonl"), "--against", "reference")
    assert (status, text.partition(":")[0]) == (3, "not portable")
    status, text = replay(str(RECORDED / "fencing" / "zombie_append.jsonl"), "--against", SKELETON)
    assert status == 3, text
    assert "does not claim" in text


def test_the_command_ends_with_2_for_what_it_cannot_use(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{}", encoding="utf-8")
    assert replay(str(tmp_path / "broken.json"), "--against", "reference")[0] == 2
    trace = str(RECORDED / "fencing" / "zombie_append.jsonl")
    assert replay(trace, "--against", "no-such-program")[0] == 2


def test_a_packed_failure_is_run_against_an_adapter(tmp_path: Path) -> None:
    suite = RECORDED.parents[1] / "conformance"
    described = json.loads((suite / "scenarios" / "smoke.json").read_text("utf-8"))
    packed = {"format": "memwal failure 1", "case": "scenarios/smoke.json::B", "revision": "B", "scenario": described}
    (tmp_path / "packed.json").write_text(json.dumps(packed), encoding="utf-8")
    status, text = replay(str(tmp_path / "packed.json"), "--against", "reference")
    assert status == 0, text
    assert "PASS under revision B" in text


def test_without_the_suite_the_option_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memwal_sim.cli.replay.entry_points", lambda group: ())
    status, text = replay(str(RECORDED / "fencing" / "zombie_append.jsonl"), "--against", "reference")
    assert status == 2
    assert "needs the conformance suite" in text
