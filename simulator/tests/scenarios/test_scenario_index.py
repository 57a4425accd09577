"""Scenarios of indexes: a search finds what a scan finds, whatever lags, and no index counts as more than it covers."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import lance
import pytest
from kit.revisions import B_FIRST
from memwal_sim import fixtures
from memwal_sim.exploring.exploration import Bounds, Exploration
from memwal_sim.exploring.explorer import explore
from memwal_sim.fixtures import make
from memwal_sim.oracles import Recovery
from memwal_sim.process import Process
from memwal_sim.scenarios import ground, indexed
from memwal_sim.scenarios.indexed import Looked, judge, looking
from memwal_sim.scenarios.scenario import Scenario, find, of, setting
from memwal_sim.scenarios.scripts import process
from memwal_sim.simulation import Simulation
from memwal_sim.store import Contents, dump
from memwal_sim.traces.study import Study, canary


def run(name: str, revision: str = "B", *, check: bool = False, **bounds: int) -> Exploration:
    scenario = find(name)
    chosen = Bounds(**{"preemptions": scenario.preemptions, **bounds}, kinds=scenario.kinds, merge=True)  # type: ignore[arg-type]
    return explore(scenario.build(setting(revision)), chosen, check=check)


def one_after_another(name: str, *order: str, revision: str = "B") -> Contents:
    """What the scenario leaves when each process runs to its end in turn."""
    simulation = Simulation(find(name).build(setting(revision)))
    for each in order:
        while simulation.waiting(each) is not None:
            simulation.step(each)
    assert simulation.violation() is None
    return simulation.contents


def looked(contents: Contents, revision: str = "B") -> Looked:
    here = indexed.place(setting(revision))
    end = Recovery(Process("searcher", lambda: looking(here)))(contents).end
    assert end.failure is None
    assert isinstance(end.result, Looked)
    return end.result


@pytest.mark.clause("AMB-19", "AMB-20", "FLUSH-007")
@pytest.mark.parametrize("revision", B_FIRST)
def test_the_index_of_a_generation_names_the_rows_of_batched_writes_around_a_barrier(revision: str) -> None:
    found = run("two_indexed_writers", revision, preemptions=0)
    assert found.complete, found.violation
    assert {"flushed", "recovered"} <= found.events
    contents = one_after_another("two_indexed_writers", "writer-1", "writer-2", revision=revision)
    assert looked(contents, revision).found == (
        ("v0", "base", "v0"),
        ("v1", "a", "v1"),
        ("v1", "c", "v1"),
        ("v2", "b", "v2"),
        ("v2", "d", "v2"),
    )


@pytest.mark.clause("AMB-109")
@pytest.mark.parametrize("revision", B_FIRST)
def test_no_search_finds_a_row_whose_key_was_written_again(revision: str) -> None:
    found = run("updated_key", revision, preemptions=0)
    assert found.complete, found.violation
    contents = one_after_another("updated_key", "writer", "merger", revision=revision)
    assert looked(contents, revision).found == (("v2", "base", "v2"), ("v3", "k", "v3"), ("v3", "l", "v3"))


def test_a_deleted_key_is_in_no_search() -> None:
    found = run("deleted_key", "R", preemptions=1)
    assert found.complete, found.violation
    contents = one_after_another("deleted_key", "writer", "merger", revision="R")
    assert looked(contents, "R").found == (("v0", "base", "v0"), ("v1", "l", "v1"))


@pytest.mark.clause("AMB-69", "AMB-70")
@pytest.mark.parametrize("name", ["indexer_and_merger", "two_indexers"])
def test_an_index_is_never_credited_with_more_than_it_covers_and_no_credit_is_lost(name: str) -> None:
    found = run(name, check=True)
    assert found.complete, found.violation
    assert "credit_conflict" in found.events
    assert found.ends.keys() == {"done"}


@pytest.mark.clause("AMB-71", "CATCHUP-013", "GC-002")
def test_a_generation_without_a_record_stays_until_the_index_covers_it() -> None:
    found = run("collector_and_indexer")
    assert found.complete, found.violation
    kept = one_after_another("collector_and_indexer", "collector", "indexer")
    gone = one_after_another("collector_and_indexer", "indexer", "collector")
    assert any("_gen_1/" in path for path in kept.objects)
    assert not any("_gen_1/" in path for path in gone.objects)
    assert looked(kept).found == looked(gone).found == (("v0", "base", "v0"), ("v1", "k", "v1"))


@pytest.mark.clause("AMB-88", "AMB-113")
def test_a_search_finds_appended_rows_and_not_deleted_ones_while_the_index_lags() -> None:
    found = run("lagging_index", preemptions=1)
    assert found.complete, found.violation
    contents = one_after_another("lagging_index", "client", "merger")
    assert looked(contents).found == (("v0", "base", "v0"), ("v1", "m", "v1"), ("v1", "x", "v1"), ("v2", "l", "v2"))


def test_an_index_builder_survives_one_fault_of_any_request() -> None:
    found = run("indexer_and_merger", preemptions=0, faults=1)
    assert found.complete, found.violation
    assert found.ends.keys() == {"done"}


@pytest.mark.parametrize("scenario", of("index"), ids=lambda scenario: scenario.name)
def test_the_canary_is_found(scenario: Scenario) -> None:
    found = canary(Study(scenario=scenario, bounds=Bounds(preemptions=0))).run
    assert found.violation is not None
    assert found.violation.clause in ("WAL-001", "READ-001")


def test_what_a_search_finds_too_much_and_what_it_misses_are_violations() -> None:
    right = Looked(scanned=(("k", "v1"), ("l", "v1")), found=(("v1", "k", "v1"), ("v1", "l", "v1")))
    assert judge(right, None) is None
    found = {
        "stale": replace(right, found=(*right.found, ("v0", "k", "v0"))),
        "twice": replace(right, found=(*right.found, ("v1", "k", "v1"))),
        "other value": replace(right, found=(("v1", "k", "v2"), ("v1", "l", "v1"))),
        "missing": replace(right, found=right.found[:1]),
    }
    clauses = {name: getattr(judge(each, None), "clause", None) for name, each in found.items()}
    assert clauses == {"stale": "READ-002", "twice": "READ-002", "other value": "READ-002", "missing": "READ-001"}


@pytest.mark.parametrize(
    ("name", "rows", "indexes"),
    [
        ("indexed_table", [{"id": "base", "value": "v0"}], ["by_id", "by_value"]),
        (
            "asked_table",
            [
                {"id": "a", "value": "v3", "at": [3.0], "text": "fox red red red"},
                {"id": "b", "value": "v5", "at": [5.0], "text": "fox red red red red red"},
                {"id": "c", "value": "v7", "at": [7.0], "text": "fox red red red red red red red"},
                {"id": "d", "value": "v9", "at": [9.0], "text": "fox red red red red red red red red red"},
            ],
            ["by_text", "by_value"],
        ),
    ],
)
def test_a_fixture_is_a_table_with_indexes_and_can_be_made_again(
    name: str, rows: list[dict[str, object]], indexes: list[str], tmp_path: Path
) -> None:
    make.make(name, tmp_path / "again.zip")
    with zipfile.ZipFile(tmp_path / "again.zip") as archive:
        again = Contents({path: archive.read(path) for path in archive.namelist()})
    for kind, contents in {"kept": fixtures.load(name), "again": again}.items():
        dump(contents, tmp_path / kind)
        opened = lance.dataset(str(tmp_path / kind))
        assert opened.to_table().to_pylist() == rows
        assert sorted(index.name for index in opened.describe_indices()) == indexes


def test_writes_that_are_put_together_share_one_wal_entry() -> None:
    here = indexed.place(setting())
    writer = process(here, "writer", "open", {"put_together": {"a": "v1", "b": "v1"}}, words=indexed.WORDS)
    alone = ground.after(indexed.table(setting().revision, indexed.BY_VALUE), writer)
    entries = [path for path in alone.contents.objects if path.endswith(".arrow")]
    assert len(entries) == 2  # the barrier of the claim, and both writes
    assert [note.event for note in alone.notes].count("write_acknowledged") == 2
