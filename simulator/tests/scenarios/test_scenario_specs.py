"""Scenarios of region specs: a key has one region, whoever creates regions and whatever becomes of the specs."""

from __future__ import annotations

import mmh3
import pytest
from kit.revisions import B_FIRST
from memwal.index import regions
from memwal.table.state import latest
from memwal_sim.exploring.exploration import Bounds, Exploration
from memwal_sim.exploring.explorer import explore
from memwal_sim.histories.history import History
from memwal_sim.oracles import Recovery
from memwal_sim.process import Process
from memwal_sim.scenarios import ground, sharded
from memwal_sim.scenarios.actors import Acting
from memwal_sim.scenarios.ground import TABLE
from memwal_sim.scenarios.one_region import SeenRegion, judge, surviving
from memwal_sim.scenarios.scenario import Scenario, find, of, setting
from memwal_sim.scenarios.scripts import Words, process
from memwal_sim.scenarios.specs import BY_OTHER_ENGINE
from memwal_sim.simulation import Simulation
from memwal_sim.store import Contents
from memwal_sim.traces.study import Study, canary

V1 = History().begun("one/1", (("k", "v1"),))
BOTH = V1.begun("two/1", (("k", "v2"),))


def run(name: str, revision: str = "B", preemptions: int | None = None, faults: int = 0) -> Exploration:
    scenario = find(name)
    bound = scenario.preemptions if preemptions is None else preemptions
    return explore(scenario.build(setting(revision)), Bounds(preemptions=bound, faults=faults, merge=True))


def one_after_another(name: str, *order: str, revision: str = "B") -> Simulation:
    """The scenario with each process run to its end in turn."""
    simulation = Simulation(find(name).build(setting(revision)))
    for each in order:
        while simulation.waiting(each) is not None:
            simulation.step(each)
    assert simulation.violation() is None
    return simulation


def seen(contents: Contents) -> SeenRegion:
    survivor = Process("survivor", lambda: surviving(setting().table))
    found = Recovery(survivor)(contents).end
    assert found.failure is None
    assert isinstance(found.result, SeenRegion)
    return found.result


def registered(contents: Contents, revision: str = "B") -> list[tuple[int, dict[str, object]]]:
    """Spec id and region values of each registered region."""

    async def look() -> list[tuple[int, dict[str, object]]]:
        table = setting(revision).table
        rows = await regions.known(table, await latest(table))
        return sorted(((int(row.spec_id), dict(row.values)) for row in rows), key=str)

    found = Recovery(Process("looking", look))(contents).end.result
    assert isinstance(found, list)
    return found


@pytest.mark.clause("AMB-52", "REGION-002", "REGION-003")
@pytest.mark.parametrize("revision", B_FIRST)
def test_two_creators_of_one_value_never_get_two_regions(revision: str) -> None:
    found = run("two_creators", revision, preemptions=1)
    assert found.complete, found.violation
    assert found.ends.keys() == {"done", "Fenced"}


def test_the_second_creator_takes_the_region_of_the_first() -> None:
    simulation = one_after_another("two_creators", "creator-1", "creator-2")
    assert registered(simulation.contents) == [(1, {"few": 0})]
    found = seen(simulation.contents)
    assert [keys for _, keys in found.held] == [("k",)]
    assert found.remote == found.merged == (("k", "v2"),)


@pytest.mark.parametrize(
    ("name", "revision", "value"),
    [
        ("two_engines", "B", {"many": 15}),
        ("two_engines_columns", "B", {"both": 9}),
        ("two_engines_null", "B", {"group": None}),
        ("two_engines", "R", {"many": 2}),
        ("two_engines_columns", "R", {"many": 1}),
        ("two_engines_null", "R", {"many": 0}),
    ],
)
def test_two_engines_that_agree_put_a_key_into_one_region(name: str, revision: str, value: dict[str, object]) -> None:
    found = run(name, revision, preemptions=0)
    assert found.complete, found.violation
    simulation = one_after_another(name, "engine-2", "engine-1", revision=revision)
    assert registered(simulation.contents, revision) == [(1, value)]


def one_byte_as_a_word(byte: int) -> int:
    """Murmur3 of one byte as R has it: the step for a whole word, and the end for a text of one byte."""

    def turned(x: int, bits: int) -> int:
        return (x << bits | x >> (32 - bits)) % 2**32

    mixed = turned(byte * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32
    hashed = (turned(mixed, 13) * 5 + 0xE6546B64) % 2**32 ^ 1
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B % 2**32
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 % 2**32
    return hashed ^ hashed >> 16


@pytest.mark.clause("AMB-59", "AMB-60", "AMB-57")
def test_what_the_second_engine_answers_follows_from_the_texts_and_mmh3() -> None:
    first = mmh3.hash(b"a") % 2**32
    assert BY_OTHER_ENGINE["textbook"] == {
        ("many", "k"): abs(mmh3.hash(b"k")) % 16,
        ("both", "a"): abs(mmh3.hash(b"a-part", first)) % 16,
        ("group", "none"): None,
    }
    assert BY_OTHER_ENGINE["R"] == {
        ("many", "k"): one_byte_as_a_word(ord("k")) % 2**31 % 16,
        ("many", "a"): one_byte_as_a_word(ord("a")) % 2**31 % 16,
        ("many", "none"): mmh3.hash(b"none") % 2**31 % 16,  # four bytes, a whole word: as the texts have it
    }


@pytest.mark.clause("AMB-54")
def test_a_new_spec_waits_until_the_regions_of_older_ones_are_drained() -> None:
    found = run("new_spec", preemptions=1)
    assert found.complete, found.violation
    assert found.ends.keys() == {"done", "Fenced"}
    refused = one_after_another("new_spec", "administrator", "drainer")
    assert registered(refused.contents) == [(1, {"few": 0})]
    accepted = one_after_another("new_spec", "drainer", "administrator")
    assert registered(accepted.contents) == [(1, {"few": 0}), (2, {"many": 15})]
    assert [keys for _, keys in seen(accepted.contents).held if keys] == [("k",)]


@pytest.mark.clause("AMB-142")
def test_a_writer_that_opens_a_region_and_a_change_of_specs_never_both_go_on() -> None:
    found = run("running_writer", preemptions=1)
    assert found.complete, found.violation
    assert found.ends.keys() == {"done", "Fenced", "InvalidArgument"}
    assert {"spec_change_stopped", "write_acknowledged"} <= found.events


@pytest.mark.clause("AMB-55")
def test_a_spec_over_a_value_is_refused_and_both_values_go_to_one_region() -> None:
    found = run("spec_over_value")
    assert found.complete, found.violation
    assert "refused" in found.events
    simulation = one_after_another("spec_over_value", "administrator")
    assert registered(simulation.contents) == [(1, {"few": 0})]
    assert seen(simulation.contents).remote == (("k", "v2"),)


@pytest.mark.clause("AMB-66")
def test_a_source_column_is_dropped_only_once_the_rows_that_it_routed_are_merged() -> None:
    found = run("dropped_source")
    assert found.complete, found.violation
    refused = one_after_another("dropped_source", "administrator", "merger")
    assert registered(refused.contents) == [(1, {"group": "group of k"})]
    dropped = one_after_another("dropped_source", "merger", "administrator")
    assert registered(dropped.contents) == [(1, {"group": "group of k"}), (1, {"group": None})]
    assert seen(dropped.contents).merged == (("k", "v1"),)


@pytest.mark.clause("REGION-009", "REGION-011")
@pytest.mark.parametrize(("name", "specs"), [("specs_come_and_go", [2, 3]), ("spec_in_use", [1, 2])])
def test_no_spec_id_comes_back_and_no_spec_goes_that_a_region_is_of(name: str, specs: list[int]) -> None:
    found = run(name)
    assert found.complete, found.violation
    simulation = one_after_another(name, "administrator", "writer")

    async def listed() -> list[int]:
        return [int(spec.spec_id) for spec in (await latest(TABLE)).mem_wal.specs]

    assert Recovery(Process("looking", listed))(simulation.contents).end.result == specs


def test_a_write_survives_one_fault_of_any_request_of_its_client() -> None:
    found = run("spec_over_value", preemptions=0, faults=1)
    assert found.complete, found.violation


@pytest.mark.parametrize("scenario", of("specs"), ids=lambda scenario: scenario.name)
def test_the_canary_is_found(scenario: Scenario) -> None:
    found = canary(Study(scenario=scenario, bounds=Bounds(preemptions=0))).run
    assert found.violation is not None
    assert found.violation.clause == "WAL-001"


def test_a_key_in_two_regions_is_a_violation_even_if_both_rows_are_equal() -> None:
    twice = SeenRegion(remote=(("k", "v1"),), held=(("r1", ("k",)), ("r2", ("k",))), merged=(("k", "v1"),))
    found = judge(twice, V1.ended("one/1", "ok"))
    assert found is not None
    assert (found.clause, found.oracle) == ("REGION-002", "a key is in one region")


def test_a_key_that_is_read_twice_and_a_row_that_a_merge_changes_are_violations() -> None:
    apart = (("r1", ("k",)), ("r2", ()))
    twice = judge(SeenRegion(remote=(("k", "v1"), ("k", "v2")), held=apart, merged=(("k", "v2"),)), BOTH)
    changed = judge(SeenRegion(remote=(("k", "v1"),), held=apart, merged=(("k", "v2"),)), BOTH)
    lost = judge(SeenRegion(remote=(), held=apart, merged=()), BOTH.ended("one/1", "ok"))
    assert twice is not None
    assert twice.clause == "READ-002"
    assert changed is not None
    assert changed.clause == "MERGE-001"
    assert lost is not None
    assert lost.clause == "WAL-001"
    assert judge(SeenRegion(remote=(("k", "v1"),), held=apart, merged=(("k", "v1"),)), BOTH) is None


def test_a_client_routes_anew_only_after_it_forgot_its_writer() -> None:
    here = sharded.place(setting())
    opened: list[Acting] = []

    async def remember(acting: Acting) -> None:
        opened.append(acting)

    words: Words = {**sharded.WORDS, "remember": lambda _: remember}
    script = ({"rows": {"k": "v1"}}, "remember", {"rows": {"k": "v2"}}, "close", "remember")
    client = process(here, "client", *script, words=words)
    alone = ground.after(sharded.table(setting().revision, sharded.spec(1)), client)
    assert [note.event for note in alone.notes].count("claimed") == 1
    assert opened[0] is opened[1]
    assert opened[1].writer is None
