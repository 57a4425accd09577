"""The soak of real processes: what it takes for a broken promise, and one short run of it."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from memwal_sim.cli.processes import commands
from memwal_sim.soak.processes import disk as disks
from memwal_sim.soak.processes.crew import Crew, Member
from memwal_sim.soak.processes.disk import Disk, small_disk
from memwal_sim.soak.processes.run import RunSettings, _ProcessRun, run
from typer.testing import CliRunner


@pytest.fixture
def driver(tmp_path: Path) -> _ProcessRun:
    """A driver whose table is there, and nobody works on it."""
    return _ProcessRun(
        RunSettings(seconds=1, seed=1), Disk(tmp_path, mounted=False), Crew(str(tmp_path / "t"), tmp_path)
    )


def member(driver: _ProcessRun, role: str, **state: Any) -> Member:
    """A process that never runs."""
    ours, _ = multiprocessing.Pipe()
    region = driver.regions[0] if role == "writer" else None
    made = Member(role, role, region, multiprocessing.Process(), ours, driver.disk.folder / "errors.txt", **state)
    driver.crew.members.append(made)
    return made


def acknowledged(driver: _ProcessRun, who: Member) -> dict[str, Any]:
    order = driver._next_order(who)
    while order["do"] != "put":
        order = driver._next_order(who)
    driver._done(who, order, None)
    return order


def rows(*orders: dict[str, Any]) -> dict[str, list[str]]:
    newest = {key: order["value"] for order in orders for key in order["keys"]}
    return {"key": list(newest), "value": list(newest.values())}


def test_acknowledged_rows_have_to_be_there_once(driver: _ProcessRun) -> None:
    order = acknowledged(driver, member(driver, "writer", epoch=1))
    driver._judge(rows(order), driver.history.start_read(driver.now_ms), "judge")
    assert driver.outcome.broken == []
    twice = {name: values + values[:1] for name, values in rows(order).items()}
    driver._judge(twice, driver.history.start_read(driver.now_ms), "judge")
    assert driver.outcome.broken == [f"judge: the keys {list(order['keys'][:1])} are there more than once"]
    driver._judge({"key": [], "value": []}, driver.history.start_read(driver.now_ms), "judge")
    assert "was written and acknowledged, and is not there" in driver.outcome.broken[-1]


def test_a_put_that_began_after_a_successor_had_opened_must_not_be_acknowledged(driver: _ProcessRun) -> None:
    old, new = member(driver, "writer"), member(driver, "writer")
    driver._done(new, {"do": "open"}, 4)
    driver._done(old, {"do": "open"}, 3)  # claimed first, heard last
    assert (old.succeeded, new.succeeded) == (True, False)
    acknowledged(driver, new)
    assert driver.outcome.broken == []
    acknowledged(driver, old)
    assert "was succeeded, and its put was acknowledged" in driver.outcome.broken[0]


@pytest.mark.parametrize(
    ("role", "failed", "state", "broken"),
    [
        ("writer", "Fenced", {"succeeded": True}, False),
        ("writer", "WriterStopped", {}, True),
        ("writer", "WriterStopped", {"full": True}, False),
        ("writer", "StorageError", {"full": True}, False),
        ("writer", "StorageError", {}, True),
        ("merger", "Conflict", {}, False),
        ("reader", "ReadRaced", {}, False),
        ("reader", "ArtifactError", {}, True),
        ("reader", "ArtifactError", {"full": True}, True),
        ("collector", "InvalidArgument", {}, True),
        ("merger", "NoSuchError", {}, True),
    ],
)
def test_an_error_has_to_be_explained_by_what_was_done(
    driver: _ProcessRun, role: str, failed: str, state: dict[str, Any], broken: bool
) -> None:
    outcome = failed not in ("ArtifactError", "InvalidArgument", "NoSuchError")
    driver._failed(
        member(driver, role, **state), {"do": "merge"}, {"failed": failed, "why": "because", "outcome": outcome}
    )
    assert bool(driver.outcome.broken) == broken


def test_replies_are_read_in_the_pieces_in_which_they_come(driver: _ProcessRun) -> None:
    ours, theirs = multiprocessing.Pipe()
    one = Member("w", "writer", None, multiprocessing.Process(), ours, Path("errors.txt"))
    os.write(theirs.fileno(), b'{"done": 1}\n{"do')
    assert one.replies() == ([{"done": 1}], False)
    os.write(theirs.fileno(), b'ne": 2}\n')
    theirs.close()
    assert one.replies() == ([{"done": 2}], False)
    assert one.replies() == ([], True)


def test_a_full_disk_is_one_that_the_kernel_calls_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = [3]

    def write(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "no space left on device")
        room[0] -= 1
        return len(data)

    monkeypatch.setattr(disks.os, "write", write)
    with small_disk(tmp_path, 0) as disk:
        assert not disk.mounted
        disk.fill()
        assert (disk.full, room, (tmp_path / "ballast").exists()) == (True, [0], True)
        disk.free()
        assert (disk.full, (tmp_path / "ballast").exists()) == (False, False)


@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_short_run_keeps_every_promise(revision: str) -> None:
    outcome = run(RunSettings(seconds=2, seed=1, revision=revision, disk_mib=0))
    assert outcome.broken == []
    assert outcome.counts["verifications"] >= 2
    assert outcome.counts["acknowledged puts"] <= outcome.counts["begun puts"]


def test_the_command_reports_counts_and_says_what_was_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    from memwal_sim.soak.processes import run as running

    app = typer.Typer()
    commands(app)
    outcome = running.RunResult(disk="filled up")
    outcome.counts["kills"] = 7
    monkeypatch.setattr(running, "run", lambda settings, follow: outcome)
    shown = CliRunner().invoke(app, ["--seconds", "1", "--json"])
    assert (shown.exit_code, json.loads(shown.output)["counts"]) == (0, {"kills": 7})
    outcome.broken.append("reader-1: a row is gone")
    shown = CliRunner().invoke(app, ["--seconds", "1"])
    assert shown.exit_code == 1
    assert "reader-1: a row is gone" in shown.output
    assert CliRunner().invoke(app, ["--revision", "X"]).exit_code == 2
