"""Commits to one table by every way of creating a version, explored in full."""

from __future__ import annotations

import pytest
from memwal_sim.exploring.exploration import Bounds
from memwal_sim.exploring.explorer import explore
from memwal_sim.scenarios.scenario import find, setting


@pytest.mark.clause("EXT-003", "EXT-007", "EXT-011", "TXN-002", "TXN-004", "TXN-005", "TXN-013")
@pytest.mark.parametrize(("how", "faults"), [("put", 1), ("rename", 1), ("external", 0)])
def test_two_commits_are_both_there_once_in_every_interleaving_with_a_crash_anywhere(how: str, faults: int) -> None:
    found = explore(find(f"two_commits_{how}").build(setting()), Bounds(faults=faults))
    assert found.complete, found.violation
    assert "done" in found.ends


@pytest.mark.clause("EXT-008", "EXT-014")
def test_a_commit_through_an_external_store_survives_an_unanswered_request_and_a_preemption() -> None:
    found = explore(find("two_commits_external").build(setting()), Bounds(faults=1, preemptions=2))
    assert found.complete, found.violation
