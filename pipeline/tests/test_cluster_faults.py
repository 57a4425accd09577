"""Faults that need a cluster, driver kills and all: what is right stays right, and what is planted is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from memwal_spark import faults, validate
from memwal_spark.job import Job
from memwal_spark.logs import Made
from memwal_spark.progress import PhaseProgress
from memwal_spark.report import JobReport
from rich.console import Console

if TYPE_CHECKING:
    pass


def run(folder: Path, kinds: tuple[str, ...], **more: Any) -> JobReport:
    job = Job(out=folder, log=Made(preset="ycsb-f", rows=12_000), regions=3, faults=kinds, **more)
    return validate.validate(job, PhaseProgress(Console(stderr=True)))


@pytest.mark.long
@pytest.mark.time_limit(900)
@pytest.mark.clause("AMB-148")
@pytest.mark.usefixtures("spark")
def test_a_build_that_does_not_look_for_late_rows_fails_where_a_copy_of_a_task_claims_last(tmp_path: Path) -> None:
    """The copy claims when the original has put everything, so that its old rows are the newest, and is killed."""
    found = run(tmp_path, ("original-wins",), late_rows="keep")
    assert [(proof.fault.kind, proof.happened) for proof in found.faults] == [("original-wins", True)]
    assert found.exit_code == 1
    assert all(comparison.changed > 0 for comparison in found.comparisons)
    assert {verified.findings for verified in found.verified} == {()}


@pytest.mark.long
@pytest.mark.time_limit(1800)
def test_all_faults_happen_and_change_no_row_and_happen_again_in_a_replay(tmp_path: Path) -> None:
    main = "import sys; from memwal.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", main, "spark", "validate", "--out", str(tmp_path / "first")]
    log = ["--preset", "late", "--rows", "20000", "--regions", "3", "--faults", "all", "--fault-seed", "3"]
    subprocess.run([*command, *log], check=True, timeout=800)
    first = json.loads((tmp_path / "first" / "report.json").read_text())
    command[-1] = str(tmp_path / "again")
    subprocess.run([*command, "--replay", str(tmp_path / "first" / "report.json")], check=True, timeout=800)
    again = json.loads((tmp_path / "again" / "report.json").read_text())
    assert again["job"] == first["job"]
    for told in (first, again):
        assert told["verdict"] == "ok"
        assert sorted(proof["fault"]["kind"] for proof in told["faults"]) == sorted(faults.KINDS)
        assert all(proof["happened"] for proof in told["faults"])
        assert len({attempt["application"] for proof in told["faults"] for attempt in proof["attempts"]}) == 2
