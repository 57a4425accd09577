"""Scripts: steps are words with arguments, and nothing starts that has a word that there is not."""

from __future__ import annotations

import pytest
from memwal.errors import InvalidArgument
from memwal_sim.process import Process
from memwal_sim.scenarios import clients, ground
from memwal_sim.scenarios.scenario import setting
from memwal_sim.scenarios.scripts import WORDS, Following, ScriptStep, process, steps


def written(process_: Process, revision: str) -> list[tuple[tuple[str, str | None], ...]]:
    """The rows of each write that the process announces, alone on an empty table."""
    notes = ground.after(ground.table(setting(revision).revision), process_).notes
    return [dict(note.fields)["rows"] for note in notes if note.event == "write_invoked"]


def test_a_step_is_a_word_or_a_word_with_an_argument() -> None:
    assert steps(["flush", {"rows": {"k": "v"}}], WORDS) == (ScriptStep("flush"), ScriptStep("rows", {"k": "v"}))


def test_an_unknown_word_is_refused_with_the_nearest_before_anything_runs() -> None:
    with pytest.raises(InvalidArgument, match=r"there is no word of a script 'flsh'.*Did you mean 'flush'"):
        process(clients.place(setting()), "writer-1", {"rows": {"k": "v"}}, "flsh")


@pytest.mark.parametrize("entry", [{"rows": {"k": "v"}, "flush": None}, {}, ["flush"], 1])
def test_a_step_of_no_word_or_of_several_is_refused(entry: object) -> None:
    with pytest.raises(InvalidArgument, match="a step of a script must be one word"):
        steps([entry], WORDS)  # type: ignore[list-item]


def test_values_that_a_script_does_not_give_are_named_after_process_and_step() -> None:
    client = process(clients.place(setting()), "writer-1", "open", {"put": ["a", "b"]}, "flush", {"put": ["a"]})
    assert written(client, "B") == [(("a", "writer-1.2"), ("b", "writer-1.2")), (("a", "writer-1.4"),)]


@pytest.mark.parametrize(("revision", "value"), [("A", "v2"), ("R", None)])
def test_a_delete_is_a_put_where_the_revision_has_no_deletes(revision: str, value: str | None) -> None:
    here = clients.place(setting(revision))
    client = process(here, "writer-1", {"rows": {"k": "v1"}}, {"delete": {"k": "v2"}})
    assert written(client, revision) == [(("k", "v1"),), (("k", value),)]


def test_what_a_process_follows_can_be_read_without_starting_it() -> None:
    start = process(clients.place(setting()), "writer-1", {"collect": {"retain_versions": 1}}, insists=True).start
    assert isinstance(start, Following)
    assert (start.script, start.insists) == ((ScriptStep("collect", {"retain_versions": 1}),), True)
