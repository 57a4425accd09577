"""The folder faults: planted bugs are found, recorded faults are reproduced, and the gallery is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from memwal_sim import places
from memwal_sim.bugs import Bug, load
from memwal_sim.evidence import recorded
from memwal_sim.evidence.certificates import load as load_certificates
from memwal_sim.scenarios.scenario import find, known, of
from memwal_sim.traces import gallery
from memwal_sim.traces.replay import replay
from memwal_sim.traces.study import Study, canary, carry_out, kill, killed, surviving
from memwal_sim.traces.trace import load as load_trace

BUGS = load()
RECORDED = sorted((places.faults() / "recorded").rglob("*.jsonl"))
REVISIONS = ["A", "B", "R"]


def test_there_are_bugs_and_recorded_faults() -> None:
    assert {"canary", "no_barrier", "plain_wal_put"} <= BUGS.keys()
    assert {"zombie_append.jsonl", "two_winners_of_one_claim.jsonl"} <= {path.name for path in RECORDED}


CERTIFICATES = load_certificates(places.faults())
STORES_MAX, FAULTY_STORES_MAX = 30, 25
ASKED = {each.name for each in of("asking")}
QUICK = [
    bug
    for bug in BUGS.values()
    if bug.scenario not in ASKED and CERTIFICATES[bug.scenario, bug.revision]["stores"] <= STORES_MAX
]
"""Bugs of scenarios with more stores, or whose every state is asked hundreds of questions, are looked for by ``make
explore``; here their recorded histories are replayed."""
WANTED = recorded.wanted(places.faults())


@pytest.mark.parametrize("bug", QUICK, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found_by_its_oracle_after_a_history_as_short_as_the_recorded_one(bug: Bug) -> None:
    finding = kill(bug)
    assert killed(bug, finding.run), finding.run.violation
    assert finding.trace is not None
    assert finding.trace.header.bugs == (bug.name,)
    if bug.name in WANTED:
        assert len(finding.trace.steps) == len(load_trace(WANTED[bug.name]).steps)


FAULTY = {(bug.scenario, bug.revision, bug.faults, bug.kinds): bug for bug in BUGS.values() if bug.faults}
"""A bug for each scenario in which bugs need a fault; what holds without faults is in the certificates."""


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(
            bug,
            marks=[pytest.mark.long] * (CERTIFICATES[bug.scenario, bug.revision]["stores"] > FAULTY_STORES_MAX),
            id=bug.scenario,
        )
        for bug in FAULTY.values()
    ],
)
def test_the_scenario_of_a_planted_bug_passes_without_it_whatever_fails(bug: Bug) -> None:
    assert carry_out(surviving(bug)).run.complete


@pytest.mark.parametrize("scenario", sorted(known()))
def test_the_canary_is_found_in_every_scenario(scenario: str) -> None:
    found = canary(Study(scenario=find(scenario)))
    assert found.run.violation is not None
    assert found.run.violation.oracle == BUGS[find(scenario).canary].oracle


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_canary_is_found_under_every_revision(revision: str) -> None:
    found = canary(Study(scenario=find("two_writers"), revision=revision)).run
    assert found.violation is not None
    assert found.violation.clause == "WAL-001"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_each_recorded_fault_is_reproduced(path: Path) -> None:
    replayed = replay(path)
    assert replayed.unexpected is None, str(replayed.unexpected)
    assert replayed.reproduced
    assert replayed.violation_at == (None if replayed.header.violation is None else len(replayed.steps))
    assert replayed.divergence is None or replayed.engine_changed


def test_each_recorded_fault_says_in_plain_words_what_happens() -> None:
    for path in RECORDED:
        header = load_trace(path).header
        assert len(header.description) > 150, path.name
        assert header.violation is not None or header.expected, path.name
        assert header.violation is None or header.title != header.violation.reason, path.name


def test_the_store_of_a_recorded_fault_can_be_written_out_at_any_step(tmp_path: Path) -> None:
    import lance

    path = next(path for path in RECORDED if path.stem == "zombie_append")
    replay(path, until=0, dump=tmp_path / "start")
    replayed = replay(path, dump=tmp_path / "end")
    assert lance.dataset(str(tmp_path / "start")).count_rows() == 0
    assert not (tmp_path / "start" / "_mem_wal").exists()
    entries = list((tmp_path / "end").glob("_mem_wal/*/wal/*.arrow"))
    assert len(entries) == 2
    (generation,) = (tmp_path / "end").glob("_mem_wal/*/*_gen_1")
    assert lance.dataset(str(generation)).to_table().to_pylist() == [{"id": "k2", "value": "v2"}]
    assert replayed.violation is not None
    assert "k1 holds nothing" in replayed.violation.reason


def test_the_gallery_is_up_to_date() -> None:
    folder = places.faults()
    assert (folder / gallery.INDEX).read_text("utf-8") == gallery.render(folder)
