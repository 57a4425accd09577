"""Files of data: what they cannot say is refused with file and entry, what is wrong, and the nearest name."""

from __future__ import annotations

import re

import pytest
from memwal.errors import InvalidArgument
from memwal_sim import data
from memwal_sim.actor import Actor
from memwal_sim.evidence import texts
from memwal_sim.evidence.schedules import Advance

GOOD = """
[[examples]]
path = "wal/one_{revision}"
workload = "worked_examples"
revisions = ["A", "B"]
title = "One row under {revision}"
description = \"\"\"
What happens is in
entry {first}.\"\"\"
by_revision.first = { A = "13", B = "11" }
actors = [
  { name = "writer-1", region = 2, script = [{ rows = { k = "v" } }, "flush"] },
  { name = "late", role = "reader" },
]

[[examples.steps]]
actor = "writer-1"
before = "put hint"
fate = "lost"
says = "So it is"
state.merged = 0
absent = ["snapshot"]
"""


def test_an_example_is_read_under_each_of_its_revisions() -> None:
    a, b = texts.examples(data.parsed("a.toml", GOOD))
    assert (a.path, a.title, a.description) == ("wal/one_a", "One row under A", "What happens is in entry 13.")
    assert (b.path, b.title, b.description) == ("wal/one_b", "One row under B", "What happens is in entry 11.")
    writer = Actor(
        name="writer-1", role="writer", arguments={"script": [{"rows": {"k": "v"}}, {"flush": None}], "region": 2}
    )
    assert a.actors == (writer, Actor(name="late", role="reader", arguments={"script": []}))
    (step,) = a.steps
    assert isinstance(step, Advance)
    assert (step.fate.label, step.state) == ("lost", {"merged": 0, "snapshot": None})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "[[examples]]",
            "[exampels]\n[[examples]]",
            "a.toml: there is no field 'exampels'; choose one of examples. Did you mean",
        ),
        (
            "title =",
            "titel =",
            "example 1 (wal/one_{revision}): title is missing; the fields are path, workload, revisions, titel",
        ),
        (
            'title = "One row under {revision}"',
            "",
            "a.toml, example 1 (wal/one_{revision}): title is missing; the fields are path",
        ),
        ('title = "One row under {revision}"', "title = 1", "example 1 (wal/one_{revision}): title is not text: 1"),
        ('"flush"]', '"flsh"]', "example 1 (wal/one_{revision}): there is no word of a script 'flsh'"),
        ('"flush"]', "1]", "a step of a script must be one word, or one word with an argument, not 1"),
        ('role = "reader"', 'role = "raeder"', "there is no role of worked_examples 'raeder'; "),
        ("region = 2", 'region = "2"', "actor 1 (writer-1): region is not a whole number: '2'"),
        ("region = 2", "regoin = 2", "actor 1 (writer-1): there is no field 'regoin'; "),
        ('workload = "worked_examples"', 'workload = "worked"', "there is no workload 'worked'; "),
        ('actor = "writer-1"', 'actor = "writer"', "there is no actor 'writer'; choose one of writer-1, late"),
        ('fate = "lost"', 'fate = "lots"', "step 1 (So it is): there is no fate 'lots'; "),
        ('absent = ["snapshot"]', "absent = [1]", "step 1 (So it is): absent is not a list of texts: [1]"),
        ('["A", "B"]', '["A", "C"]', "there is no revision 'C'; choose one of A, B, R"),
        ("{ A = ", "{ R = ", "example 1 (wal/one_{revision}), by_revision, first: A is missing; the fields are R, B"),
        ("actors = [", "actors = [1,", "example 1 (wal/one_{revision}): actor 1 is not a table: 1"),
        ("[[examples]]", "[[examples", "a.toml is not TOML: "),
    ],
)
def test_what_a_file_cannot_say_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        list(texts.examples(data.parsed("a.toml", GOOD.replace(old, new, 1))))
