"""A report says enough to run its job again, and what is no such report is refused in one line."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from memwal.errors import InvalidArgument
from memwal_spark import cli, faults, replaying
from memwal_spark.job import Job
from memwal_spark.logs import AnyLog, Flights, Made, OwnLog
from typer.testing import CliRunner

PLAN = faults.planned(("task-error", "orphan"), 7, [{0: 90, 1: 95}] * 2, 20, Path("evidence"))


def stored(folder: Path, job: Job, **changed: Any) -> Path:
    content = {
        "verdict": "ok",
        "job": replaying.recipe(job, "2-a-b") | changed,
        "faults": [{"fault": _told(f)} for f in PLAN],
    }
    (folder / "report.json").write_text(json.dumps(content))
    return folder / "report.json"


def _told(fault: faults.Fault) -> dict[str, Any]:
    return {**fault.drawn, "evidence": fault.evidence}


@pytest.mark.parametrize("kind", ["flights", "preset", "own"])
def test_a_job_comes_back_from_its_report_with_all_that_was_asked_for(tmp_path: Path, kind: str) -> None:
    (tmp_path / "own.csv").touch()
    own = OwnLog(path=str(tmp_path / "own.csv"), key=("a", "b"), sequence="c", delete="d", batch="e", region_by=("a",))
    log: dict[str, AnyLog] = {"flights": Flights(count=3), "preset": Made(preset="late", rows=700), "own": own}
    job = Job(
        out=tmp_path, revision="R", regions=3, log=log[kind], faults=("orphan",), seed=4, fault_seed=5, cores=3,
        writer="native", late_rows="keep",
    )  # fmt: skip
    assert all(getattr(job, field.name) != field.default for field in fields(job)), "nothing is left at its default"
    again, held = replaying.load(stored(tmp_path, job), tmp_path / "other")
    assert again == replace(job, out=tmp_path / "other")
    held.check_log("2-a-b")
    held.check_faults(PLAN)


def test_another_log_and_other_faults_than_those_of_the_report_are_refused(tmp_path: Path) -> None:
    _, held = replaying.load(stored(tmp_path, Job(out=tmp_path)), tmp_path)
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_REPLAY\] the change log has other rows now \(2-a-c\)"):
        held.check_log("2-a-c")
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_REPLAY\].*the seed draws 1 now"):
        held.check_faults(PLAN[:1])
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_REPLAY\].*'task-error'.*the seed draws .* now"):
        held.check_faults((replace(PLAN[0], rows=PLAN[0].rows + 1), PLAN[1]))


def invoke(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    cli.commands(app)
    result = CliRunner().invoke(app, ["validate", *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b'{"job": {', "not JSON at offset 9"),
        (b"[" * 100_000, "nested too deep"),
        (b"[1]", "a report is an object, not a list"),
        (b'{"verdict": "ok", "job": {}}', "job.format is None, and 1 is known"),
        (b'{"verdict": "ok"}', "no object `job`"),
        ({"format": 2}, "job.format is 2"),
        ({"faults": ["orphans"]}, "orphans"),
        ({"faults": "orphan"}, "faults is 'orphan'"),
        ({"seed": "one"}, "seed is 'one'"),
        ({"regions": True}, "regions is True"),
        ({"regions": 0}, "at least one region"),
        ({"log": {"kind": "birds"}}, "KeyError 'birds'"),
        ({"log": {"kind": "flights", "wings": 2}}, "wings"),
        ({"log": 7}, "job: "),
    ],
)
def test_a_report_that_is_damaged_or_somebody_elses_is_refused_in_one_line(
    tmp_path: Path, content: bytes | dict[str, Any] | None, said: str
) -> None:
    file = tmp_path / "report.json"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        stored(tmp_path, Job(out=tmp_path), **content)
    code, shown = invoke("--replay", str(file), "--out", str(tmp_path / "out"))
    assert code == 2
    assert said in shown
    assert len(shown.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_every_cut_of_a_report_is_refused(tmp_path: Path) -> None:
    whole = stored(tmp_path, Job(out=tmp_path)).read_bytes()
    for length in range(len(whole)):
        (tmp_path / "report.json").write_bytes(whole[:length])
        with pytest.raises(InvalidArgument, match=r"\[MEMWAL_REPORT\]"):
            replaying.load(tmp_path / "report.json", tmp_path)


def test_a_replay_takes_no_other_option(tmp_path: Path) -> None:
    code, shown = invoke("--replay", str(tmp_path / "r"), "--seed", "0", "--fault-seed", "1", "--json")
    assert code == 2
    assert "--seed, --fault-seed: leave out" in shown
