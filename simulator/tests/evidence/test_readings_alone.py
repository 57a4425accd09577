"""The table of what each reading does alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import typer
from memwal_sim import bugs as planting
from memwal_sim.bugs import Bug
from memwal_sim.cli import commands
from memwal_sim.evidence import readings
from memwal_sim.evidence.readings import Case, Row
from typer.testing import CliRunner

app = typer.Typer()
commands(app)
STOP: Case = ("stop_on_taken_position", "B", "two_writers_two_keys", 0, ())
BARRIER: Case = ("claim_barrier", "B", "two_writers_two_keys", 0, ())


def of_one(name: str, *turned: str) -> Bug:
    found = planting.load()["no_barrier"]
    return replace(found, name=name, readings=dict.fromkeys(turned, False))


def test_every_reading_is_explored_in_the_scenarios_of_the_bugs_that_turn_it_under_every_revision() -> None:
    known = {"one": of_one("one", "claim_barrier"), "two": of_one("two", "stop_on_taken_position", "claim_barrier")}
    found = readings.cases(known)
    assert {(reading, revision) for reading, revision, *_ in found} == {
        (reading, revision) for reading in ("claim_barrier", "stop_on_taken_position") for revision in ("A", "B", "R")
    }
    assert len(found) == 6


def test_a_reading_alone_is_told_by_the_oracles_that_object_within_the_bounds() -> None:
    found = readings.row(STOP, states_max=1_500)
    assert found.case == STOP
    assert not found.complete
    assert found.steps == {"wal_epochs_never_decrease": 23}
    assert readings.row(BARRIER, states_max=1_500).steps == {"no process breaks": 20}


def test_the_page_says_what_objects_what_nobody_ran_and_which_hazards_are_of_two_readings() -> None:
    known = {"one": of_one("one", "claim_barrier"), "two": of_one("two", "stop_on_taken_position", "claim_barrier")}
    case = next(each for each in readings.cases(known) if each[:2] == ("claim_barrier", "B"))
    row = Row(case=case, states=7, complete=False, steps={"recovery succeeds": 9, "acknowledged writes survive": 3})
    page = readings.render({case: row}, known).splitlines()
    (barrier,) = [line for line in page if line.startswith("| `claim_barrier` |")]
    assert barrier.endswith("| not run | ○ acknowledged writes survive 3, recovery succeeds 9 | not run |")
    assert "bug of two" not in barrier
    (stop,) = [line for line in page if line.startswith("| `stop_on_taken_position` |")]
    assert "(bug of two)" in stop
    assert stop.endswith("| not run | not run | not run |")


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"two": of_one("two", "stop_on_taken_position", "claim_barrier")}
    explored: list[Case] = []

    def row(case: Case) -> Row:
        explored.append(case)
        if len(explored) == 3:
            raise KeyboardInterrupt
        return Row(case=case, states=len(explored), complete=True, steps={})

    monkeypatch.setattr(planting, "load", lambda: known)
    monkeypatch.setattr(readings, "row", row)
    page = tmp_path / "readings.md"
    CliRunner().invoke(app, ["bugs", "--readings", str(page)])
    assert page.read_text("utf-8").count("● none") == 2
    assert page.read_text("utf-8").count("not run |") == 4
    CliRunner().invoke(app, ["bugs", "--readings", str(page)])
    assert page.read_text("utf-8").count("● none") == 6
    assert len(explored) == 7
    assert len(set(explored)) == 6
