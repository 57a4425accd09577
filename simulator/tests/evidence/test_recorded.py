from __future__ import annotations

from pathlib import Path

import pytest
import typer
from memwal_sim import places
from memwal_sim.cli import evidence
from memwal_sim.evidence import recorded
from memwal_sim.traces import gallery
from memwal_sim.traces.trace import load_header
from typer.testing import CliRunner

FILES = {name: path.relative_to(places.faults()).as_posix() for name, path in recorded.wanted(places.faults()).items()}


def test_each_planted_bug_has_its_recorded_history() -> None:
    missing = [name for name, path in FILES.items() if not (places.faults() / path).is_file()]
    assert missing == []


def test_a_history_that_was_given_a_name_keeps_it() -> None:
    assert FILES["no_barrier"] == "recorded/fencing/zombie_append.jsonl"
    assert FILES["claim_by_equal_bytes"] == "recorded/fencing/claim_by_equal_bytes.jsonl"


def test_the_areas_are_those_of_the_gallery() -> None:
    assert FILES["spec_id_used_again"] == "recorded/region/spec_id_used_again.jsonl"
    assert FILES["superseded_in_memory"] == "recorded/read/superseded_in_memory.jsonl"
    assert {path.split("/")[1] for path in FILES.values()} == {
        "fencing", "wal", "manifest", "flush", "merge", "index", "collect", "read", "region", "table", "late",
    }  # fmt: skip


def test_nobody_needs_to_see_a_canary() -> None:
    assert not [name for name in FILES if name.startswith("canary")]


def test_the_gallery_records_a_bug_that_has_no_history_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "bugs/wal/readings.toml"
    mine.parent.mkdir(parents=True)
    whole = (places.faults() / "bugs/wal/readings.toml").read_text("utf-8")
    entry = next(each for each in whole.split("[[bug]]") if 'name = "plain_wal_put"' in each)
    mine.write_text(f"[[bug]]{entry}", "utf-8")
    monkeypatch.setattr(places, "faults", lambda: tmp_path)
    monkeypatch.setattr(gallery, "render", lambda folder: f"a page of {folder.name}")
    app = typer.Typer()
    evidence.commands(app)
    history = tmp_path / "recorded/wal/plain_wal_put.jsonl"

    assert CliRunner().invoke(app, ["gallery", "--check"]).exit_code == 1
    assert not history.exists()
    done = CliRunner().invoke(app, ["gallery"])
    assert (done.exit_code, (tmp_path / gallery.INDEX).read_text("utf-8")) == (0, f"a page of {tmp_path.name}")
    assert done.output.endswith("wrote INDEX.md\n")
    assert load_header(history).bugs == ("plain_wal_put",)
