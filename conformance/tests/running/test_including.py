"""Steps that scenarios have in common: they are put in the place of their name before anything else sees a scenario."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from memwal_conformance.places import SUITE, scenario_files
from memwal_conformance.running import including, scenarios
from memwal_conformance.vectors import BadCase

GIVEN = {"actor": "two", "as": "seen", "clauses": ["READ-001"]}
READ = {"include": "read", "with": GIVEN}
SCENARIO: dict[str, Any] = {
    "title": "What is read is what was written.",
    "clauses": ["READ-001"],
    "schema": [{"name": "id", "type": "int64", "nullable": False}],
    "primary_key": ["id"],
}


def made(*steps: Any, **more: Any) -> scenarios.SuiteScenario:
    return scenarios.made({**SCENARIO, "steps": list(steps), **more}, Path("a.json"))


def test_an_include_stands_for_the_steps_of_its_name_with_its_parameters() -> None:
    scenario = made({"check": "structure"}, READ)
    assert scenario.steps == (
        {"check": "structure"},
        {
            "actor": "two",
            "send": "reader.open",
            "with": {"table": "$table", "consistency": "strong"},
            "as": "seen_reader",
        },
        {"actor": "two", "send": "reader.scan", "with": {"reader": "$seen_reader.reader"}, "as": "seen"},
        {"check": "history", "of": "$seen.rows", "clauses": ["READ-001"]},
    )
    assert scenario.cited("B") == ("READ-001",)
    assert list(scenario.steps) == scenario.described["steps"]


def test_what_follows_a_crash_may_include_steps_too() -> None:
    scenario = made({"check": "structure"}, gate={"rules": []}, crash={"actor": "one"}, afterwards=[READ])
    assert [step.get("send", step.get("check")) for step in scenario.afterwards] == [
        "reader.open",
        "reader.scan",
        "history",
    ]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"include": "raed", "with": GIVEN}, "a.json: steps, 2: there is no steps to include 'raed'; "),
        ({"include": "read", "wiht": GIVEN}, "there is no member of an include 'wiht'; choose one of include, with"),
        (
            {"include": "read", "with": {**GIVEN, "actr": "x"}},
            "there is no parameter of read 'actr'; choose one of actor, as, clauses",
        ),
        ({"include": "read", "with": {"actor": "two", "as": "seen"}}, "read needs the parameter clauses"),
        ({"include": "read", "with": {**GIVEN, "as": 1}}, "as must be text, not 1"),
        ({"include": "read", "with": 1}, "the parameters of read must be an object: 1"),
    ],
)
def test_an_include_that_stands_for_nothing_is_refused_with_its_step(step: dict[str, Any], said: str) -> None:
    with pytest.raises(BadCase, match=re.escape(said)):
        made({"check": "structure"}, step)


def test_steps_that_are_included_include_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(including, "known", lambda: {"outer": {"about": "One in another.", "steps": [READ]}})
    with pytest.raises(BadCase, match="cannot be included by steps that are included themselves"):
        made({"include": "outer", "with": {}})


def test_what_is_no_list_of_steps_is_left_to_the_schema() -> None:
    for described in (1, [], {**SCENARIO, "steps": 1}, {**SCENARIO, "steps": [1]}):
        with pytest.raises(BadCase, match=r"a\.json"):
            scenarios.made(described, Path("a.json"))


def test_all_that_can_be_included_is_included_somewhere_and_says_what_it_is() -> None:
    texts = [json.loads(file.read_text("utf-8")) for file in scenario_files(SUITE)]
    used = {step["include"] for each in texts for step in each["steps"] if "include" in step}
    assert used == including.known().keys()
    assert all(each["about"].endswith(".") for each in including.known().values())
