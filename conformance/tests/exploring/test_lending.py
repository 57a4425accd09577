"""What another player does in a role that is lent is no finding about the implementation."""

from __future__ import annotations

import dataclasses
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from memwal_conformance.adapters.aided import BASE_WRITER
from memwal_conformance.adapters.harness import REFERENCE, Harness
from memwal_conformance.exploring import lending, lives
from memwal_conformance.exploring.explorer import ForeignExploration
from memwal_conformance.exploring.lives import ForeignLife, Verb
from memwal_conformance.protocol import Hello

PLAYER = """
from memwal_conformance.adapters import suite_base, suite_roles
from memwal_conformance.adapters.serve import serve
from memwal_conformance.adapters.suite_store import commit
from memwal_conformance.judge import merging

def change(dataset, where, params):
    (region,), (_, base) = where.regions(), where.newest_version()
    with where.changed(base) as (_root, new):
        following = merging.merged(base, new(), merging.MergeStep(region_id=region, generation=9, behind={}))
    commit(where, following)

suite_base._change = change
serve(suite_roles.handlers(), {OSError: "storage"})
"""
"""A writer of the base table that says that generation 9 is merged."""
LIFE = ForeignLife(name="a", about="", steps=lives.steps_of("w put, p compact, w put", "a"))


def test_what_the_player_of_a_lent_role_breaks_is_said_and_no_finding(tmp_path: Path) -> None:
    (tmp_path / "player.py").write_text(PLAYER, "utf-8")
    harness = Harness(REFERENCE, 60.0, {}, roles_by={BASE_WRITER: (sys.executable, str(tmp_path / "player.py"))})
    said: list[str] = []
    made = ForeignExploration(harnesses=[harness], revision="B", lives=[LIFE], seconds=3600, most=1, say=said.append)
    made.run()
    harness.close()
    assert (made.notebook.findings, made.unconfirmed) == ([], 0)
    assert {words.partition(":")[0] for words in made.lent} == {"steps of the machine", "one MemWAL index"}
    assert len(said) == len(made.lent)
    assert all(line.startswith("by the player of a role that is lent, and no finding: ") for line in said)


HELLO = Hello(implementation="x", version="1", revisions=("B",), roles=("writer",), capabilities=frozenset())


def test_the_package_that_the_suite_writes_by_is_not_another_one_in_the_same_version() -> None:
    aided = dataclasses.replace(HELLO, lent=(BASE_WRITER, "merger"))
    assert {Verb.MERGE, Verb.COMPACT, Verb.BASE} <= lending.lent(aided)
    assert lending.lent(HELLO) == frozenset()
    package = dataclasses.replace(aided, implementation="pylance")
    assert Verb.COMPACT in lending.lent(package)
    assert lending.lent(dataclasses.replace(package, version=version("pylance"))) == {Verb.MERGE}


@pytest.mark.parametrize(
    ("class_", "during", "other"),
    [
        ("base", Verb.COMPACT, True),
        ("manifest", Verb.COMPACT, False),  # a flush goes on beside it
        ("manifest", Verb.COLLECT, True),
        ("base", Verb.PUT, False),
    ],
)
def test_a_request_is_another_players_by_what_was_under_way_and_what_it_met(
    class_: str, during: Verb, other: bool
) -> None:
    lived: Any = SimpleNamespace(log=[SimpleNamespace(order=3, class_=class_)], during=lambda _: during)
    aided = dataclasses.replace(HELLO, lent=(BASE_WRITER, "merger", "collector"))
    assert lending.by_another(lived, 3, aided) is other
    assert not lending.by_another(lived, 4, aided)


def test_the_first_state_that_shows_something_is_found() -> None:
    states = [SimpleNamespace(index=number) for number in range(9)]
    lived: Any = SimpleNamespace(states=states)
    for first in range(7):
        found = lending.first_that(lived, states[6], lambda state, first=first: state.index >= first)  # type: ignore[arg-type,misc]
        assert found.index == first
