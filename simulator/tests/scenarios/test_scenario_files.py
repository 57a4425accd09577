"""Scenarios that are files: what one stands on, who acts, and what is refused with file and entry."""

from __future__ import annotations

import re
from typing import Any

import pytest
from memwal.errors import InvalidArgument
from memwal_sim import data
from memwal_sim.outcomes import Fate
from memwal_sim.process import Process
from memwal_sim.scenarios import files
from memwal_sim.scenarios.scenario import AREAS, known, of, setting
from memwal_sim.scenarios.scripts import Following, ScriptStep

GOOD = """
[[scenarios]]
name = "reader_of_the_past"
title = "a reader beside a collector"
about = "A reader reads\\nwhile something is collected."
collected = true
settled = true
questions.filters = ["a", "b"]
preemptions = 2
kinds = ["stale", "lost"]
sometimes = ["collecting"]
hazards = ["AMB-91"]
before = [{ name = "writer-0", script = [{ rows = { k = "a" } }, "flush"] }]
actors = [
  { name = "reader", insists = true, script = ["read", "read"] },
  { name = "collector", script = [{ collect = { retain_versions = 1 } }] },
]
"""


def followed(process: Process) -> Following:
    assert isinstance(process.start, Following)
    return process.start


def test_a_scenario_is_what_its_file_says() -> None:
    (scenario,) = files.read(data.parsed("a.toml", GOOD))
    assert (scenario.name, scenario.about) == ("reader_of_the_past", "A reader reads while something is collected.")
    assert (scenario.canary, scenario.preemptions, scenario.hazards) == ("canary", 2, ("AMB-91",))
    assert (scenario.kinds, scenario.sometimes) == ({Fate.STALE, Fate.LOST}, ("collecting",))
    world = scenario.build(setting("A"))
    reader, collector = world.processes
    assert (followed(reader).script, followed(reader).insists) == ((ScriptStep("read"), ScriptStep("read")), True)
    assert followed(collector).place.region.manifest_collection
    past: Any = world.ghosts
    assert [(write.rows, write.name in past.settled) for write in past.writes] == [((("k", "a"),), True)]
    (plain,) = files.read(data.parsed("a.toml", GOOD.replace('questions.filters = ["a", "b"]', "")))
    assert len(world.oracles) == len(plain.build(setting("A")).oracles) + 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("settled = true", "setled = true", "a.toml, scenario 1 (reader_of_the_past): there is no field 'setled'; "),
        ("settled = true", 'on = "regoin"', "scenario 1 (reader_of_the_past): there is no ground 'regoin'; "),
        ("questions.filters", "questions.filter", "scenario 1 (reader_of_the_past): there is no question 'filter'; "),
        ('["stale", "lost"]', '["stail"]', "scenario 1 (reader_of_the_past): there is no fate 'stail'; "),
        ('["read", "read"]', '["raed"]', "actor 1 (reader): there is no word of a script 'raed'; "),
        (
            "insists = true",
            "insist = true",
            "actor 1 (reader): there is no field 'insist'; choose one of insists, name, script",
        ),
        ("{ rows = {", "{ rwos = {", "before 1 (writer-0): there is no word of a script 'rwos'; "),
        ("collected = true", 'on = "indexed"', "there is no field 'settled'; "),
        ("preemptions = 2", "preemptions = true", "preemptions is not a whole number: True"),
    ],
)
def test_what_a_scenario_cannot_say_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        files.read(data.parsed("a.toml", GOOD.replace(old, new, 1)))


def test_every_area_has_scenarios_and_each_says_what_it_is_about() -> None:
    assert [area for area in AREAS if not of(area)] == []
    assert [each.name for each in known().values() if not each.about.endswith(".")] == []
