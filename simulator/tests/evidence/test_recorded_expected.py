"""What a trace says has to be so: how `memwal explore replay` and the viewer show it, and how all is recorded again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kit.commands import call
from memwal.cli.main import app
from memwal_sim.cli import evidence
from memwal_sim.evidence import examples, texts
from memwal_sim.evidence.schedules import trace_of
from memwal_sim.traces.replay import replay
from memwal_sim.traces.trace import dumps
from memwal_sim.viewer.addresses import Addresses
from memwal_sim.viewer.film import film
from memwal_sim.viewer.remarks import Sign, remarks, verdict

(SHORT,) = (example for example in texts.worked_examples() if example.path == "wal/buffered_write_is_lost")
TRACE = trace_of(SHORT)
STEPS = len(TRACE.steps)


def replayed(*words: str) -> tuple[int, str, str]:
    return call("replay", *words, app=app)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.jsonl"
    path.write_text(dumps(TRACE), "utf-8")
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """As ``good``, but that a row that is lost is said to be there."""
    path, text = tmp_path / "wrong.jsonl", dumps(TRACE)
    assert text.count('"reads": {"writer-2/1": {"k1": "v1"}}') == 1
    path.write_text(text.replace('"reads": {"writer-2/1": {"k1": "v1"}}', '"reads": {"writer-2/1": {"k2": "v2"}}'))
    return path


def test_a_replay_prints_what_has_to_be_so_and_ends_with_0(good: Path) -> None:
    code, out, _ = replayed(str(good))
    assert code == 0
    assert "writer-1 holds a second row in memory only, and crashes" in out
    assert f"after step {STEPS}: The durable row was recovered and flushed" in out
    assert "reproduced: everything is as it must be" in out


def test_a_replay_of_what_is_not_so_says_what_is_and_ends_with_1(wrong: Path) -> None:
    code, out, _ = replayed(str(wrong))
    assert code == 1
    assert f"after step {STEPS}, reads has to be {{'writer-2/1': {{'k2': 'v2'}}}}, and is" in out
    assert "The durable row was recovered and flushed" not in out
    assert "not reproduced" in out


def test_the_json_of_a_replay_has_what_is_not_so(good: Path, wrong: Path) -> None:
    assert json.loads(replayed(str(good), "--json")[1])["unexpected"] is None
    found = json.loads(replayed(str(wrong), "--json")[1])
    assert found["unexpected"].startswith(f"after step {STEPS}, reads has to be")
    assert (found["expected"], found["reproduced"]) == (2, False)


def test_elsewhere_nothing_has_to_be_so(wrong: Path) -> None:
    code, out, _ = replayed(str(wrong), "--profile", "strict")
    assert code == 0
    assert "under profile strict, every step is as recorded" in out


def test_a_film_says_what_is_as_it_has_to_be(good: Path, wrong: Path) -> None:
    shown = film(good)
    said = [(each.step, each.text) for each in remarks(shown, Addresses(())) if each.sign is Sign.EXPECTED]
    assert said == [(expected.after, expected.says) for expected in TRACE.header.expected]
    assert verdict(shown) == (True, "no violation")
    shown = film(wrong)
    (missed,) = (each for each in remarks(shown, Addresses(())) if each.sign is Sign.UNEXPECTED)
    assert (missed.step, missed.text) == (STEPS, "The durable row was recovered and flushed")
    assert not verdict(shown)[0]


def test_a_film_that_stops_early_says_what_came_before(good: Path) -> None:
    shown = film(good, until=STEPS - 1)
    assert [each.step for each in remarks(shown, Addresses(())) if each.sign is Sign.EXPECTED] == [
        TRACE.header.expected[0].after
    ]


def test_recording_all_again_writes_what_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "every_example", lambda: iter([SHORT]))
    file = tmp_path / SHORT.file
    file.parent.mkdir(parents=True)
    file.write_text(dumps(TRACE).replace("lost in a crash", "found again"), "utf-8")
    (tmp_path / "bugs").mkdir()
    evidence._record_all_again(tmp_path, 1)
    assert file.read_text("utf-8") == dumps(TRACE)


def test_oracles_are_asked_where_something_has_to_be_so(tmp_path: Path) -> None:
    (told,) = (example for example in texts.worked_examples() if example.path == "region/same_key_in_two_regions")
    trace = trace_of(told)
    path = tmp_path / "trace.jsonl"
    path.write_text(dumps(replace(trace, header=replace(trace.header, violation=None))), "utf-8")
    replayed = replay(path)
    assert (replayed.reproduced, replayed.unexpected) == (False, None)
    assert replayed.violation is not None
    assert (replayed.violation.oracle, replayed.violation_at) == ("reads are explained", len(trace.steps))
