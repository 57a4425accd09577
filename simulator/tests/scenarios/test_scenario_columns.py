"""Scenarios of columns: no acknowledged row is lost or becomes unreadable when the columns of the table change."""

from __future__ import annotations

import pytest
from memwal_sim.exploring.exploration import Bounds, Exploration
from memwal_sim.exploring.explorer import explore
from memwal_sim.scenarios.scenario import Scenario, find, of, setting
from memwal_sim.traces.study import Study, canary


def run(name: str, preemptions: int, **readings: object) -> Exploration:
    return explore(find(name).build(setting("B", "strict", readings)), Bounds(preemptions=preemptions, merge=True))


@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize(
    "name",
    ["columns_beside_a_writer", "columns_beside_a_reader", pytest.param("two_column_changes", marks=pytest.mark.long)],
)
def test_columns_come_and_go_one_after_another_and_every_row_stays(name: str) -> None:
    found = run(name, 0)
    assert found.complete, found.violation
    assert "flushed" in found.events


@pytest.mark.clause("AMB-50")
def test_a_reader_finds_every_row_whenever_the_columns_change() -> None:
    found = run("columns_beside_a_reader", 1)
    assert found.complete, found.violation
    assert found.ends.keys() == {"done"}


@pytest.mark.clause("AMB-50")
def test_a_writer_that_no_change_of_columns_fences_stores_a_row_that_nobody_can_recover() -> None:
    found = run("columns_beside_a_writer", 1, fence_before_new_columns=False)
    assert found.violation is not None
    assert (found.violation.clause, found.violation.oracle) == ("WRITER-013", "recovery succeeds")
    assert "AMB-50" in str(found.violation)


@pytest.mark.parametrize("scenario", of("columns"), ids=lambda scenario: scenario.name)
def test_the_canary_is_found(scenario: Scenario) -> None:
    found = canary(Study(scenario=scenario, bounds=Bounds(preemptions=0))).run
    assert found.violation is not None
