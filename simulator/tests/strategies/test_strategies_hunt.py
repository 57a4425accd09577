"""Hunts: every strategy finds a planted bug in the engine, what it records replays, and a clean world has nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import typer
from kit.toys import counters, watched_counters
from memwal.errors import InvalidArgument
from memwal_sim import bugs as planting
from memwal_sim.cli import commands
from memwal_sim.exploring.exploration import Bounds
from memwal_sim.exploring.unfolding import FATE_MASK, Unfolding
from memwal_sim.outcomes import FAULTS
from memwal_sim.scenarios.scenario import Scenario, find
from memwal_sim.strategies import by_hypothesis
from memwal_sim.strategies.by_hypothesis import search
from memwal_sim.strategies.hunting import NAMES, Hunt, HuntProgress, hunt
from memwal_sim.strategies.strategy import Terms
from memwal_sim.strategies.walking import Walk
from memwal_sim.traces.replay import replay
from memwal_sim.traces.study import Study
from memwal_sim.traces.trace import dumps
from memwal_sim.world import World
from typer.testing import CliRunner

STRATEGIES = pytest.mark.parametrize("strategy", NAMES)


def toy(world: World, **more: object) -> Study:
    return Study(scenario=Scenario(name="toy", title="", build=lambda _setting: world), **more)  # type: ignore[arg-type]


def planted(name: str) -> Study:
    (bug,) = planting.choose([name])
    return Study(scenario=find(bug.scenario), bugs=(bug,), bounds=Bounds(faults=bug.faults), only=bug.oracle)


@STRATEGIES
def test_each_strategy_finds_a_plain_wal_put_and_what_it_records_replays(strategy: str, tmp_path: Path) -> None:
    found = hunt(planted("plain_wal_put"), strategy, seed=0, runs_max=2000)
    assert found.violation is not None
    assert (found.violation.clause, found.limit) == ("WAL-001", None)
    assert found.trace is not None
    assert found.trace.header.bugs == ("plain_wal_put",)
    assert len(found.trace.steps) == len(found.moves)
    file = tmp_path / "found.jsonl"
    file.write_text(dumps(found.trace), "utf-8")
    replayed = replay(file)
    assert replayed.reproduced
    assert replayed.divergence is None
    assert replayed.violation_at == len(replayed.steps)


@STRATEGIES
def test_nothing_is_found_in_a_scenario_without_a_bug(strategy: str) -> None:
    study = Study(scenario=find("two_writers_no_flush"), bounds=Bounds(faults=1))
    runs = 60 if strategy == "hypothesis" else 400
    found = hunt(study, strategy, runs_max=runs)
    assert (found.violation, found.trace, found.moves) == (None, None, ())
    assert (found.runs, found.limit) == (runs, f"{runs} runs")
    assert found.distinct > runs / 4


def essence(found: Hunt) -> tuple[object, ...]:
    return found.runs, found.distinct, found.steps, found.moves, found.violation


@STRATEGIES
def test_the_same_seed_is_the_same_hunt(strategy: str) -> None:
    study = toy(watched_counters(3), bounds=Bounds(faults=2))
    first, again = (hunt(study, strategy, seed=5) for _ in range(2))
    assert essence(first) == essence(again)
    assert first.violation is not None


@pytest.mark.parametrize("strategy", NAMES[:-1])
def test_the_run_that_found_something_is_found_again_by_its_own_seed(strategy: str) -> None:
    first = hunt(toy(watched_counters(3), bounds=Bounds(faults=1)), strategy, seed=20)
    assert first.found_by == 20 + first.runs - 1
    again = hunt(toy(watched_counters(3), bounds=Bounds(faults=1)), strategy, seed=first.found_by, runs_max=1)
    assert again.moves == first.moves


def test_a_hunt_counts_runs_schedules_and_steps() -> None:
    found = hunt(toy(counters(2)), "uniform", runs_max=500)
    # six schedules of two processes with two requests; crashes cut some short
    assert 6 <= found.distinct <= 6 + 2 + 4 + 4
    assert 1500 < found.steps <= 2000
    assert (found.runs, found.steps_usual, found.states, found.limit) == (500, 4, 13, "500 runs")
    assert found.guarantee is None
    assert hunt(toy(counters(2)), "pct", runs_max=1, depth=2).certificate()["guarantee"] == {
        "processes": 2,
        "steps": 4,
        "depth": 2,
        "faults": 0,
        "kinds": len(FAULTS),
        "probability": 0.125,
    }


def test_a_hunt_stops_at_its_time_and_at_the_memory_of_its_study() -> None:
    assert hunt(toy(counters(2)), "uniform", seconds_max=0.0).limit == "0 seconds"
    assert hunt(toy(counters(2), bounds=Bounds(memory_mib_max=1)), "pct").limit == "1 MiB of memory"
    assert hunt(toy(counters(3)), "hypothesis", seconds_max=0.0).limit == "0 seconds"
    assert hunt(toy(counters(3)), "hypothesis", seconds_max=0.0).runs == 1


def test_progress_is_reported_on_the_way() -> None:
    reports: list[HuntProgress] = []
    hunt(toy(counters(3)), "uniform", runs_max=600, progress=reports.append)
    assert [report.runs for report in reports] == [256, 512]


def searched(world: World, seed: int, faults: int = 0, runs_max: int = 100) -> tuple[list[Walk], Walk | None]:
    """The runs that a search by Hypothesis tells of, and what it found."""
    seen: list[Walk] = []
    terms = Terms(unfolding=Unfolding(world), faults=faults, steps=4, depth=1)
    return seen, search(terms, seed, runs_max, lambda run: bool(seen.append(run)))


@STRATEGIES
def test_what_each_strategy_finds_is_made_small(strategy: str) -> None:
    found = hunt(toy(watched_counters(4), bounds=Bounds(faults=2)), strategy, seed=0)
    assert found.shrunk is not None
    assert len(found.moves) == 4 <= len(found.shrunk.before)
    assert found.certificate()["steps_found"] == len(found.shrunk.before)


def test_a_run_is_kept_as_it_was_found_if_that_is_asked_for() -> None:
    study = toy(watched_counters(4), bounds=Bounds(faults=2))
    small, whole = (hunt(study, "uniform", seed=0, shrinking=shrinking) for shrinking in (True, False))
    assert small.shrunk is not None
    assert (whole.shrunk, whole.moves) == (None, small.shrunk.before)


def test_hypothesis_draws_no_more_faults_than_there_are() -> None:
    seen, _ = searched(counters(3), seed=0, faults=2)
    faults = Counter(sum(bool(key & FATE_MASK) for key in run.keys) for run in seen)
    assert max(faults) == 2
    assert faults[2] >= 5


def test_a_find_of_hypothesis_comes_close_to_the_shortest_history() -> None:
    # an exploration finds 17 steps
    found = hunt(planted("skip_newer_epoch"), "hypothesis", seed=1)
    assert 17 <= len(found.moves) <= 21


def test_hypothesis_ends_with_its_first_find() -> None:
    seen, found = searched(watched_counters(2), seed=1)
    assert found is not None
    assert [run.violation is not None for run in seen] == [False] * (len(seen) - 1) + [True]


def test_hypothesis_says_so_if_no_other_schedules_are_left() -> None:
    found = hunt(toy(counters(1)), "hypothesis")
    assert found.limit == f"{found.runs:,} runs: no others are left"


def test_without_hypothesis_its_strategy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hypothesis, "find_spec", lambda _name: None)
    with pytest.raises(InvalidArgument, match="needs the package hypothesis"):
        hunt(toy(counters(1)), "hypothesis")


def test_mistakes_are_refused() -> None:
    with pytest.raises(
        InvalidArgument, match="there is no strategy 'dfs'; choose one of uniform, pct, swarm, hypothesis"
    ):
        hunt(toy(counters(1)), "dfs")
    with pytest.raises(InvalidArgument, match="a depth of at least 1"):
        hunt(toy(counters(1)), "pct", depth=0)
    with pytest.raises(InvalidArgument, match="no bound on preemptions"):
        hunt(toy(counters(1), bounds=Bounds(preemptions=1)), "pct")


app = typer.Typer()
commands(app)


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["hunt", *words], env={"COLUMNS": "200", "TERM": "dumb"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_hunt_that_finds_nothing_ends_with_0_and_promises_nothing() -> None:
    code, out, _ = call("one_writer", "--runs", "50", "--faults", "1")
    assert code == 0
    assert "stopped at 50 runs: no violation so far" in out
    assert "promised" not in out


def test_a_hunt_that_finds_something_ends_with_1_and_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "found.jsonl"
    words = ("two_writers", "--bug", "canary", "--strategy", "pct", "--seed", "3", "--title", "Mine")
    code, out, _ = call(*words, "--record", str(file))
    assert code == 1
    assert "violation of WAL-001 (acknowledged writes survive)" in out
    assert "promised" in out
    assert "--seed 3 --runs 1" in out
    assert f"recorded in {file}" in out.replace("\n", "")
    assert json.loads(file.read_text("utf-8").splitlines()[0])["title"] == "Mine"
    assert replay(file).reproduced


def test_a_hunt_is_json() -> None:
    code, out, _ = call("one_writer", "--bug", "canary", "--strategy", "swarm", "--json")
    found = json.loads(out)
    assert (code, found["violation"]["clause"], found["strategy"], found["runs"]) == (1, "WAL-001", "swarm", 1)
    assert found["found_by"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "there is no scenario 'nothing'"),
        (
            ("one_writer", "--strategy", "dfs"),
            "there is no strategy 'dfs'; choose one of uniform, pct, swarm, hypothesis",
        ),
        (("one_writer", "--bug", "none"), "there is no planted bug 'none'"),
        (("one_writer", "--reading", "claim_barrier"), "must be NAME=true or NAME=false"),
        (("one_writer", "--runs", "0"), "Invalid value for '--runs'"),
        (("one_writer", "--record", "/nowhere/at/all", "--bug", "canary"), "/nowhere/at/all"),
    ],
)
def test_a_mistake_in_the_command_ends_with_2_and_names_it(words: tuple[str, ...], message: str) -> None:
    code, _, err = call(*words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
