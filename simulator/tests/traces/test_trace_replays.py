"""Replays of recorded histories: the same each time, and under another profile or without their planted bugs."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import typer
from kit.toys import IO, processes, watched_counters
from memwal.errors import InvalidArgument
from memwal_sim.bugs import choose
from memwal_sim.cli import commands
from memwal_sim.exploring.explorer import explore
from memwal_sim.scenarios.scenario import Scenario
from memwal_sim.store import Contents
from memwal_sim.traces import replay as replaying
from memwal_sim.traces.recording import record
from memwal_sim.traces.references import Recorded
from memwal_sim.traces.replay import Divergence, replay, replay_in
from memwal_sim.traces.study import Study, carry_out, killing
from memwal_sim.traces.trace import Found, Header, Trace, dumps
from memwal_sim.world import World
from typer.testing import CliRunner

FIXTURE = Path(__file__).parents[1] / "fixtures" / "traces" / "format_1.jsonl"
HEADER = Header(
    scenario="toy",
    revision="B",
    profile="strict",
    readings={},
    bugs=(),
    faults=0,
    preemptions=None,
    engine="0123456789abcdef",
    title="A lost update",
    description="",
    violation=Found(clause="TOY", oracle="nothing lost", reason="2 increments ended, and the counter is 1"),
)
LOST = Trace(HEADER, record(watched_counters(2), explore(watched_counters(2)).trace)[0])


def toy(monkeypatch: pytest.MonkeyPatch, world: World, trace: Trace = LOST) -> Path:
    """The name of a file that is taken for ``trace`` of a scenario that builds ``world``."""
    scenario = Scenario(name="toy", title="", build=lambda _setting: world)
    monkeypatch.setattr(replaying, "found_in", lambda path: Recorded(path.name, trace, Study(scenario=scenario)))
    return Path("toy.jsonl")


def test_two_replays_of_a_deterministic_engine_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = replay(toy(monkeypatch, watched_counters(2)), twice=True)
    assert (replayed.reproduced, replayed.unstable_at) == (True, None)


def hidden(numbers: count[int]) -> World:
    """Increments that put something else each time that they run: state that no request shows."""

    async def increment() -> None:
        found = int(await IO.get("n"))
        await IO.put("n", str(found + next(numbers) * 0 + 1).encode() + b" " * next(numbers))

    return replace(watched_counters(2), processes=processes(increment, increment))


def test_state_that_no_request_shows_is_found_by_the_second_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    path = toy(monkeypatch, hidden(count()))
    assert replay(path).unstable_at is None
    # the first two steps read, and the third puts what the hidden state says
    assert replay(path, twice=True).unstable_at == 3


def test_a_replay_elsewhere_asks_every_oracle_and_has_nothing_to_reproduce() -> None:
    other = replace(HEADER, violation=Found(clause="X", oracle="another", reason="x"))
    trace = Trace(other, LOST.steps)
    assert replay_in(watched_counters(2), trace).violation is None
    found = replay_in(watched_counters(2), trace, elsewhere=True)
    assert found.elsewhere
    assert found.violation is not None
    assert (found.violation.clause, found.violation_at) == ("TOY", 4)


def test_elsewhere_bytes_may_differ_and_requests_and_answers_in_words_are_compared() -> None:
    more = replace(watched_counters(2), contents=Contents({"n": b"0", "more": b""}))
    assert replay_in(more, LOST, elsewhere=True).divergence is None
    longer = replace(watched_counters(2), contents=Contents({"n": b"10"}))
    assert replay_in(longer, LOST, elsewhere=True).divergence == Divergence(1, "reply", "1 bytes", "2 bytes")


def test_a_hazard_of_the_texts_breaks_nothing_under_the_strict_profile() -> None:
    replayed = replay(FIXTURE, profile="strict", twice=True)
    assert replayed.elsewhere
    assert (replayed.violation, replayed.unstable_at) == (None, None)
    assert replayed.divergence is not None
    assert replayed.divergence.what == "request"
    again = replay(FIXTURE, profile="literal")
    assert again.violation is not None
    assert again.violation.clause == "WAL-001"


def killed(folder: Path) -> Path:
    """The shortest history that shows a planted bug, in a file."""
    trace = carry_out(killing(choose(["unresolved_put"])[0])).trace
    assert trace is not None
    file = folder / "bug.jsonl"
    file.write_text(dumps(trace), "utf-8")
    return file


def test_a_history_of_a_planted_bug_breaks_nothing_without_it(tmp_path: Path) -> None:
    file = killed(tmp_path)
    assert replay(file).reproduced
    replayed = replay(file, without_bugs=True)
    assert replayed.violation is None
    assert replayed.divergence is not None


def test_bugs_that_are_not_there_cannot_be_left_out_and_profiles_have_names() -> None:
    with pytest.raises(InvalidArgument, match=r"format_1\.jsonl has no planted bugs"):
        replay(FIXTURE, without_bugs=True)
    with pytest.raises(InvalidArgument, match="there is no profile 'lax'; "):
        replay(FIXTURE, profile="lax")


app = typer.Typer()
commands(app)


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["replay", *words], env={"COLUMNS": "200", "TERM": "dumb"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_replay_under_another_profile_says_where_it_differs_and_that_nothing_is_broken() -> None:
    code, out, _ = call(str(FIXTURE), "--profile", "strict")
    told = " ".join(out.split())
    assert code == 0
    assert "under profile strict, step 3 goes another way: request was put_if_absent manifest/@1, and is" in told
    assert "nothing is broken after any of" in told
    assert "as recorded, WAL-001 is (acknowledged writes survive)" in told
    assert "not reproduced" not in told


def test_a_violation_elsewhere_ends_with_1_and_is_shown() -> None:
    code, out, _ = call(str(FIXTURE), "--profile", "literal", "--once")
    assert code == 1
    assert "violation of WAL-001 (acknowledged writes survive)" in out
    assert "under profile literal, every step is as recorded" in out or "goes another way" in out


def test_a_replay_elsewhere_is_json() -> None:
    code, out, _ = call(str(FIXTURE), "--profile", "strict", "--json")
    found = json.loads(out)
    assert (code, found["profile"], found["violation"], found["unstable_at"]) == (0, "strict", None, None)


def test_a_replay_that_differs_the_second_time_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = call(str(toy(monkeypatch, hidden(count()))))
    assert code == 1
    assert "not deterministic: a second replay differs at step 3" in err
    assert "not deterministic" not in call(str(toy(monkeypatch, hidden(count()))), "--once")[2]
