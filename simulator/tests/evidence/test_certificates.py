"""What the explorations of all scenarios covered is what their certificates say, and nothing is wrong in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memwal.region import recovery
from memwal_sim import places
from memwal_sim.bugs import Bug, planted
from memwal_sim.cli.evidence import certify
from memwal_sim.evidence.certificates import Key, certificate, dumps, keys, load, study
from memwal_sim.exploring.explorer import explore
from memwal_sim.scenarios.scenario import find, of
from memwal_sim.store import Contents, Traits

CERTIFICATES = load(places.faults())
STORES_MAX = {"B": 30, "A": 10, "R": 10}
ASKED = {each.name for each in of("asking")}
"""Scenarios whose every state is asked hundreds of questions."""
SMALL = [
    key
    for key in keys()
    if key[0] not in ASKED and key in CERTIFICATES and CERTIFICATES[key]["stores"] <= STORES_MAX[key[1]]
]
"""The others, and those that are asked, are left to ``memwal docs certify --check``, which explores all."""


@pytest.mark.parametrize("key", keys(), ids="-".join)
def test_each_scenario_has_a_certificate_without_a_violation(key: Key) -> None:
    assert key in CERTIFICATES, f"run `memwal docs certify {key[0]}`"
    found = CERTIFICATES[key]
    assert found["complete"]
    assert found["violation"] is None
    assert found["limit"] is None
    assert found["unseen"] == []


@pytest.mark.parametrize("key", SMALL, ids="-".join)
def test_an_exploration_gives_the_certificate_again(key: Key) -> None:
    assert certificate(key) == CERTIFICATES[key]


def test_certifying_one_scenario_leaves_the_certificates_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied = {key: each | {"states": 0} for key, each in CERTIFICATES.items()}
    (tmp_path / "certificates.json").write_text(dumps(emptied))
    monkeypatch.setattr(places, "faults", lambda: tmp_path)
    certify(["base_delete"])
    assert load(tmp_path) == emptied | {key: each for key, each in CERTIFICATES.items() if key[0] == "base_delete"}


def test_no_certificate_is_of_a_scenario_that_is_gone() -> None:
    assert set(CERTIFICATES) == set(keys())


def test_a_run_that_computes_everything_twice_finds_no_hidden_state() -> None:
    exploration = study(find("merger_and_builder"), "B")
    run = explore(exploration.world(), exploration.bounds, check=True)
    assert run.complete


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["flush_and_collector", "one_writer_twice", "lost_hint", "two_mergers"])
def test_the_order_in_which_a_store_lists_makes_no_difference(scenario: str) -> None:
    exploration = study(find(scenario), "B")
    world = exploration.world()
    backwards = replace(world, contents=Contents(world.contents.objects, Traits(reversed_lists=True)))
    run = explore(backwards, exploration.bounds)
    assert run.complete
    assert len(run.terminal_stores) == CERTIFICATES[scenario, "B"]["terminal_stores"]


def test_a_successor_that_goes_back_to_the_first_generation_that_was_not_flushed_is_found() -> None:
    rebuilt = recovery._rebuilt

    def as_one(manifest: Any, schema: Any, replayed: Any) -> Any:
        return rebuilt(manifest, schema, [replace(each, generation=None) for each in replayed])

    bug = Bug(
        name="recovered_as_one",
        clause="AMB-17",
        what="Recovery puts the entries of several generations into one MemTable.",
        why="It is simpler.",
        scenario="successor_of_sealed",
        oracle="wal_generations_never_decrease",
        violated="WAL-018",
        replaced={"memwal.region.recovery:_rebuilt": as_one},
    )
    with planted([bug]):
        found = certificate((bug.scenario, "R"))
    assert (found["violation"]["oracle"], found["violation"]["clause"]) == (bug.oracle, bug.violated)
