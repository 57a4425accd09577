"""Campaigns on Spark: what comes of the work is what comes of it here, also where a worker dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from memwal.cli.main import app
from memwal.errors import InvalidArgument
from memwal_sim.evidence import certificates
from memwal_sim.parallel import Workers, each, in_shares
from memwal_spark import cluster
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("spark")
SPARK = Workers(on="spark")


def test_a_certificate_made_on_spark_is_the_one_made_here() -> None:
    keys = [("one_writer", "B"), ("one_writer", "A")]
    assert dict(certificates.renewed(keys, SPARK)) == {key: certificates.certificate(key) for key in keys}


@pytest.mark.long  # 1,200 runs, here and there; the certificates go the same way
def test_a_hunt_on_spark_finds_what_the_hunt_here_finds() -> None:
    words = [
        "explore",
        "hunt",
        "two_writers",
        "--bug",
        "plain_wal_put",
        "--strategy",
        "pct",
        "--runs",
        "1200",
        "--json",
    ]
    here, there = (json.loads(CliRunner().invoke(app, [*words, *more]).stdout) for more in ([], ["--on", "spark"]))
    assert here["violation"] is not None
    differ = {name for name in here if here[name] != there[name]}
    assert differ <= {"seconds", "rate", "states"}


@pytest.mark.long  # two explorations; the lives of each place go the same way as all work
def test_an_exploration_on_spark_finds_what_one_here_finds(tmp_path: Path) -> None:
    adapter = f"{sys.executable} -m memwal_conformance.proving.broken halves_puts"
    words = [
        "conformance",
        "explore",
        "--against",
        adapter,
        "one_writer",
        "takeover",
        "--seconds",
        "60",
        "--enough",
        "1",
    ]
    words += ["--out", str(tmp_path), "--json"]
    here, there = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["--on", "spark", "--jobs", "2"]))
    assert (here.exit_code, there.exit_code) == (1, 1), there.output
    one, other = (json.loads(done.stdout) for done in (here, there))
    assert {each["words"] for each in one["findings"]} == {each["words"] for each in other["findings"]}
    assert set(other["covered"]) == {"one_writer", "takeover"}


def test_a_worker_that_dies_is_replaced_and_the_rest_is_done(tmp_path: Path) -> None:
    def work(thing: int) -> int:
        died = tmp_path / str(thing)
        if thing == 2 and not died.exists():
            died.touch()
            os._exit(1)
        return thing * thing

    assert dict(each(work, [1, 2, 3], SPARK)) == {1: 1, 2: 4, 3: 9}
    assert (tmp_path / "2").exists()


DRIVER = """
import json, os, signal, sys
from pathlib import Path
from memwal_sim.parallel import Workers, each
from memwal_spark import runtime

conf, folder = json.loads(sys.argv[1]), Path(sys.argv[2])

def work(thing):
    died = folder / str(thing)
    if thing in (1, 4) and not died.exists():
        died.touch()
        daemon = os.getppid()
        os.kill(int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    return thing * thing

runtime.session("campaign", conf=conf)
print(json.dumps(dict(each(work, [0, 1, 2, 3, 4, 5], Workers(on="spark")))))
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the executor in /proc")
def test_the_work_of_an_executor_that_is_lost_is_done_by_another(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    with cluster.standalone(tmp_path / "cluster") as made:
        command = [sys.executable, str(tmp_path / "driver.py"), json.dumps(dict(made.conf)), str(tmp_path)]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {str(thing): thing * thing for thing in range(6)}
    assert "Lost executor" in ran.stderr
    assert (tmp_path / "1").exists()
    assert (tmp_path / "4").exists()


def test_what_the_work_raises_comes_back_as_it_is(tmp_path: Path) -> None:
    def work(thing: int) -> int:
        with (tmp_path / "tries").open("a") as file:
            file.write(".")
        raise InvalidArgument(f"{thing} is refused", clause="WAL-001")

    with pytest.raises(InvalidArgument, match="1 is refused") as refused:
        dict(each(work, [1], SPARK))
    assert refused.value.clause == "WAL-001"
    assert (tmp_path / "tries").read_text() == "."


def test_shares_give_what_the_whole_gives() -> None:
    def doubled(things: list[int]) -> list[int]:
        return [2 * thing for thing in things]

    assert sorted(in_shares(doubled, list(range(40)), SPARK)) == [2 * number for number in range(40)]
    assert list(in_shares(doubled, [], SPARK)) == []


def test_a_place_that_nobody_brings_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"'spakr'.*here.*spark"):
        Workers(on="spakr")
