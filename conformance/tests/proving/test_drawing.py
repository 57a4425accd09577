"""Bugs that are drawn by lot are shown by the suite, and named only when it has spoken."""

import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.cli.planted import app
from memwal_conformance.places import SUITE
from memwal_conformance.proving import broken_survey, drawing
from memwal_conformance.proving.mutants import Mutant
from memwal_conformance.proving.planted import Planted
from typer.testing import CliRunner

CASES = {"scenarios/smoke.json::B": ("WAL-001", "READ-001")}


def ran(*words: str) -> tuple[int, list[str]]:
    done = CliRunner().invoke(app, ["draw", *words], env={"COLUMNS": "200", "TERM": "dumb"})
    return done.exit_code, done.output.splitlines()


def planted(name: str, *clauses: str, unseen: str = "") -> Planted:
    return Planted(
        name=name, kind="bug", clauses=clauses, what="It is wrong.", file="f", killers=("oracle s/B: o",), unseen=unseen
    )


def test_a_seed_draws_the_same_bugs_again_and_another_one_others() -> None:
    bugs = drawing.pool("bug")
    first = drawing.drawn(bugs, "0", 5)
    assert drawing.drawn(bugs[::-1], "0", 5) == first
    assert drawing.drawn(bugs, "1", 5) != first
    assert len({each.name for each in first}) == 5
    with pytest.raises(InvalidArgument, match="are to be drawn"):
        drawing.drawn(bugs, "0", len(bugs) + 1)


def test_a_drawn_bug_is_not_named_before_the_suite_has_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken_survey, "survey", lambda _: CASES)
    status, lines = ran("--seed", "7", "--count", "2")
    assert status == 0
    said = "fails in 1 case, the first is scenarios/smoke.json::B: WAL-001, READ-001"
    assert lines[:2] == [f"1: {said}", f"2: {said}"]
    assert [line.split(",")[0].split(" was ")[0] for line in lines[2:4]] == ["1", "2"]
    assert lines[-1] == "2 of 2 were shown"


def test_a_bug_that_nothing_shows_is_found_missing_unless_it_is_known_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken_survey, "survey", lambda _: {})
    for unseen, status in (("", 1), ("It shows in memory only.", 0)):
        bug = planted("one", "WAL-001", unseen=unseen)
        monkeypatch.setattr(drawing, "drawn", lambda *_, bug=bug: [bug])
        found, lines = ran()
        assert (found, lines[0], lines[-1]) == (status, "1: nothing fails", "0 of 1 were shown")


def test_a_bug_is_shown_for_its_clauses_or_for_others() -> None:
    assert drawing.Drawn(planted=planted("one", "AMB-13", "WAL-001"), cases=CASES).right == ("WAL-001",)
    assert "Shown for other clauses only" in drawing.Drawn(planted=planted("one", "GC-001"), cases=CASES).unveiled()


def test_mutants_that_are_drawn_change_the_engine() -> None:
    changes = [each.thing for each in drawing.pool("mutant")]
    assert len(changes) > 400
    assert all(isinstance(each, Mutant) and each.file.startswith("reference/memwal/") for each in changes)
    with pytest.raises(InvalidArgument, match="vector is neither bug nor mutant"):
        drawing.pool("vector")


def test_the_suite_judges_a_changed_engine_as_the_process_of_a_stranger() -> None:
    (mutant,) = [each.thing for each in drawing.pool("mutant") if each.name == "names_in_plain_binary"]
    assert isinstance(mutant, Mutant)
    found = broken_survey.survey_changed(mutant, [SUITE / "vectors" / "B" / "name"])
    assert found == {
        "vectors/B/name/region_manifests/case.json::eval": ("MANIFEST-024",),
        "vectors/B/name/wal_entries/case.json::eval": ("WAL-013",),
        "vectors/B/name/wal_suffix/case.json::eval": ("WAL-015",),
    }


@pytest.mark.long
def test_three_bugs_drawn_by_lot_are_shown_or_it_is_known_why_not() -> None:
    status, lines = ran("--seed", "a", "--count", "3")
    assert status == 0, lines
