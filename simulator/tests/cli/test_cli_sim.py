from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.commands import call
from memwal_sim import places


def test_a_clean_exploration_ends_with_0_and_says_complete() -> None:
    code, out, _ = call("explore", "one_writer", "--faults", "1")
    assert code == 0
    assert "complete: no violation within the bounds" in out
    assert "canary" in out


def test_a_certificate_is_json() -> None:
    code, out, _ = call("explore", "one_writer", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["scenario"], found["revision"], found["profile"]) == ("one_writer", "B", "strict")
    assert (found["complete"], found["violation"], found["canary"]["found"]) == (True, None, True)
    assert found["ends"] == {"done": 1}


def test_a_violation_ends_with_1_and_shows_its_history() -> None:
    code, out, _ = call("explore", "one_writer", "--bug", "canary", "--no-canary")
    assert code == 1
    assert "violation of WAL-001 (acknowledged writes survive)" in out
    assert "put_if_absent  wal/@0" in out


def test_a_violation_is_recorded_and_replayed(tmp_path: Path) -> None:
    file = tmp_path / "fault.jsonl"
    code, out, _ = call("explore", "two_writers", "--bug", "canary", "--title", "Mine", "--record", str(file))
    assert code == 1
    assert f"recorded in {file}" in out.replace("\n", "")
    code, out, _ = call("replay", str(file))
    assert code == 1
    assert out.startswith("Mine\n")
    assert "reproduced" in out
    code, out, _ = call("replay", str(file), "--json")
    assert (code, json.loads(out)["reproduced"]) == (1, True)


def test_a_replay_may_stop_and_write_the_store_out(tmp_path: Path) -> None:
    recorded = places.faults() / "recorded" / "fencing" / "zombie_append.jsonl"
    code, out, _ = call("replay", str(recorded), "--until", "4", "--dump", str(tmp_path / "store"))
    assert code == 0
    assert "stopped before the end" in out
    assert len(list((tmp_path / "store").glob("_mem_wal/*/manifest/*.binpb"))) == 1


def test_a_limit_is_no_certificate() -> None:
    code, out, _ = call("explore", "two_writers", "--states-max", "4096", "--no-canary")
    assert code == 0
    assert "stopped at 4,096 states: no violation so far, and no proof: raise the limit" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explore", "nothing"), "there is no scenario 'nothing'; there are 8"),
        (("explore", "one_writer", "--revision", "C"), "there is no revision 'C'"),
        (("explore", "one_writer", "--profile", "lax"), "there is no profile 'lax'"),
        (("explore", "one_writer", "--bug", "none"), "there is no planted bug 'none'"),
        (
            ("explore", "one_writer", "--reading", "nothing=false"),
            "there is no reading 'nothing'; ",
        ),
        (("explore", "one_writer", "--reading", "claim_barrier"), "must be NAME=true or NAME=false"),
        (("explore", "one_writer", "--fate", "eaten"), "there is no fate 'eaten'; choose one of lost, "),
        (("explore", "one_writer", "--faults", "-1"), "Invalid value for '--faults'"),
        (("replay", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_a_mistake_in_the_command_ends_with_2_and_names_it(words: tuple[str, ...], message: str) -> None:
    code, _, err = call(*words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


def test_a_file_that_is_no_trace_ends_with_2_and_the_line(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("{}")
    code, _, err = call("replay", str(file))
    assert code == 2
    assert "x.jsonl, line 1: no header" in " ".join(err.split())


def test_scenarios_are_listed() -> None:
    assert "two_writers_two_keys" in call("scenarios")[1]
    assert {row["name"] for row in json.loads(call("scenarios", "--json")[1])} >= {"one_writer", "two_writers"}


def test_the_gallery_on_disk_is_checked() -> None:
    assert call("gallery", "--check")[0] == 0
