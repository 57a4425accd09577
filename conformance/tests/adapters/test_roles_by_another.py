"""``--roles-by reference``: the jobs that an adapter does not claim are played by the reference, as the same actor."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kit import designs
from kit.runs import run_suite
from memwal_conformance.adapters.aided import JOBS, AidedProcess, HelperRefused, lent
from memwal_conformance.adapters.harness import REFERENCE, UNPLAYED, Harness, players
from memwal_conformance.adapters.process import AdapterCrash, AdapterTimeout
from memwal_conformance.places import SUITE
from memwal_conformance.protocol import ProtocolViolation
from memwal_conformance.running import scenarios

SMALL = (sys.executable, designs.__file__, "only_writes_and_reads")
ADAPTER = ("--memwal-adapter", " ".join(SMALL))


@pytest.mark.long  # two processes for each actor
def test_a_rule_of_the_gate_kills_an_actor_with_its_helper(tmp_path: Path) -> None:
    case = "conformance/scenarios/gate/crash_of_a_collection.json::B"
    helped = run_suite(tmp_path, case, *ADAPTER, "--roles-by", "reference", limit_s=400)
    assert [case["verdict"] for case in helped.summary["cases"]] == ["PASS"], helped.text


def test_cases_with_jobs_run_and_the_sentence_says_whose_the_jobs_were(tmp_path: Path) -> None:
    case = "conformance/scenarios/merge_is_done_once.json::B"
    alone = run_suite(tmp_path / "alone", case, *ADAPTER, "--roles-by", "none")
    assert [case["verdict"] for case in alone.summary["cases"]] == ["UNSUPPORTED"]
    helped = run_suite(tmp_path / "helped", case, *ADAPTER, "--roles-by", "reference", limit_s=240)
    assert [case["verdict"] for case in helped.summary["cases"]] == ["PASS"], helped.text
    (line,) = [line for line in helped.text.splitlines() if line.startswith("small ")]
    assert "revision B, roles writer: " in line
    assert "; played by another: merger, index_builder, collector" in line


def test_what_the_helper_refuses_is_not_put_down_to_the_adapter_and_a_strike_ends_both(tmp_path: Path) -> None:
    harness = Harness(command=SMALL, limit_s=60, settings={}, roles_by=players("reference"))
    assert harness.hello().lent == ("merger", "index_builder", "collector", "base_writer")
    process = harness.actor("one", "B")
    assert isinstance(process, AidedProcess)
    with pytest.raises(HelperRefused, match="by the helper of one: "):
        process.call("merge.run", {"table": str(tmp_path / "nowhere")})
    process.strike()
    with pytest.raises(AdapterCrash):
        process.call("merge.run", {"table": str(tmp_path / "nowhere")})
    process.kill()
    assert not process.alive


def test_the_suite_plays_no_snapshots_of_the_revision_of_which_no_text_says_what_they_are() -> None:
    snapshots = scenarios.load(SUITE / "scenarios" / "eventual_read_of_snapshot.json")
    for player, missing in (("suite", ["snapshot.run"]), ("reference", [])):
        hello = Harness(command=REFERENCE, limit_s=60, settings={}, roles_by=players(player))
        small = replace(lent(hello.hello(), {}, {}), roles=("reader", "writer"))
        shared = lent(small, hello.roles_by, UNPLAYED)
        assert snapshots.missing("R", shared) == missing
        assert snapshots.missing("B", shared) == []
        hello.close()


def test_a_helper_that_breaks_down_is_no_crash_of_the_adapter(tmp_path: Path) -> None:
    lazy = (sys.executable, "-c", "import sys; sys.stdin.readline()")
    process = Harness(command=SMALL, limit_s=60, settings={}, roles_by=dict.fromkeys(JOBS, lazy)).actor("one", "B")
    with pytest.raises(ProtocolViolation, match="the helper of one broke down"):
        process.call("merge.run", {"table": str(tmp_path)})
    assert process.alive
    process.end()


def test_nobody_else_plays_roles(tmp_path: Path) -> None:
    refused = run_suite(tmp_path, "conformance/scenarios/smoke.json", "--roles-by", "somebody")
    assert refused.status != 0
    assert "--roles-by" in refused.text
    assert "somebody" in refused.text


def test_a_helper_that_never_answers_ends_the_actor_as_an_adapter_would() -> None:
    silent = (sys.executable, "-c", "import sys; sys.stdin.read()")
    process = Harness(command=SMALL, limit_s=8, settings={}, roles_by=dict.fromkeys(JOBS, silent)).actor("one", "B")
    with pytest.raises(AdapterTimeout, match="no answer to hello in 8 s"):
        process.call("merge.run", {"table": "nowhere"})
    assert not process.alive
