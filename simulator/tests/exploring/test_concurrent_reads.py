"""Reads whose requests do not wait for each other, in every order: no scenario shows more than with one at a time."""

from __future__ import annotations

import pytest
from kit.revisions import B_FIRST
from memwal.effects import Io
from memwal_sim.bugs import choose, planted
from memwal_sim.exploring.exploration import Bounds, Exploration
from memwal_sim.exploring.explorer import explore
from memwal_sim.scenarios.scenario import ScenarioSetting, find, setting

READERS = ("strong_reader", "wal_reader", "eventual_reader")


def explored(name: str, revision: str, monkeypatch: pytest.MonkeyPatch, *, concurrent: bool) -> Exploration:
    def table(under: ScenarioSetting) -> Io:
        return Io(interpretation=under.interpretation, concurrent=concurrent)

    monkeypatch.setattr(ScenarioSetting, "table", property(table))
    preemptions = None if name == "strong_reader" else 1
    return explore(find(name).build(setting(revision)), Bounds(reduce=True, merge=True, preemptions=preemptions))


@pytest.mark.parametrize("revision", B_FIRST)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.clause("AMB-101", "READ-008")
def test_a_reader_that_asks_for_several_things_at_once_sees_what_one_after_another_shows(
    name: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, several = (explored(name, revision, monkeypatch, concurrent=concurrent) for concurrent in (False, True))
    assert several.complete
    assert several.violation is None
    assert several.states > one.states
    assert several.terminal_stores == one.terminal_stores


@pytest.mark.clause("AMB-150")
def test_a_merger_that_reads_several_regions_at_once_leaves_what_one_after_another_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, several = (
        explored("group_merger_and_merger", "B", monkeypatch, concurrent=concurrent) for concurrent in (False, True)
    )
    assert several.complete
    assert several.violation is None
    assert several.states > one.states
    assert several.terminal_stores == one.terminal_stores


@pytest.mark.clause("AMB-101", "READ-008")
def test_what_a_reader_does_wrong_is_found_in_one_that_asks_for_several_things_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with planted(choose([find("strong_reader").canary])):
        found = explored("strong_reader", "B", monkeypatch, concurrent=True)
    assert found.violation is not None
