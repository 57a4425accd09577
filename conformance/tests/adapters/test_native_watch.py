"""What changed since the record of a native release, from summaries; no suite is run and nothing is installed."""

import json
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memwal.cli.main import app
from memwal.errors import InvalidArgument
from memwal_conformance.native import watch
from memwal_conformance.places import OBSERVED
from typer.testing import CliRunner

FAILED = {"verdict": "FAIL", "clauses": ["WAL-001"], "text": "FAIL [WAL-001, READ-002] a row is gone\nsteps: …"}


def summary(version: str, **cases: Any) -> str:
    return json.dumps({"implementation": "pylance", "version": version, "says": ["S."], "cases": cases})


@pytest.fixture
def observed(tmp_path: Path) -> Path:
    for version in ("9.0.1", "13.0.0", "14.0.2"):
        (tmp_path / "observed" / version).mkdir(parents=True)
        (tmp_path / "observed" / version / "summary.json").write_text(summary(version, of=version), "utf-8")
        settings = json.dumps({"settings": ["environment=on"] if version == "9.0.1" else []})
        (tmp_path / "observed" / version / "fingerprint.json").write_text(settings, "utf-8")
    return tmp_path / "observed"


def test_a_verdict_that_changed_is_told_with_the_clauses_that_are_broken_and_why() -> None:
    was = {"same": "PASS", "gone": "PASS", "fixed": FAILED, "broken": "PASS", "other": FAILED}
    now = {"same": "PASS", "fixed": "PASS", "broken": FAILED, "other": {**FAILED, "text": "FAIL [GEN-004] twice"}}
    assert list(watch.changes(was, now)) == [
        "broken: PASS -> FAIL (READ-002, WAL-001): FAIL [WAL-001, READ-002] a row is gone",
        "fixed: FAIL (READ-002, WAL-001) -> PASS",
        "gone: PASS -> not there",
        "other: FAIL (READ-002, WAL-001) -> FAIL (GEN-004): FAIL [GEN-004] twice",
    ]


@pytest.mark.parametrize(("asked", "found"), [("14.0.2", "14.0.2"), ("15.1.0", "14.0.2"), ("10.0.0", "9.0.1")])
def test_a_release_is_compared_with_its_own_record_or_the_newest_older_one(
    asked: str, found: str, observed: Path
) -> None:
    assert watch.recorded(asked, observed) == (found, {"of": found})


def test_all_records_are_of_the_same_cases_with_the_same_roles_lent_so_that_a_change_is_one_of_the_release() -> None:
    asked, lent = {}, {}
    for record in sorted(OBSERVED.glob("*/summary.json")):
        told = json.loads(record.read_text("utf-8"))
        asked[told["version"]] = set(told["cases"])
        (lent[told["version"]],) = re.findall("played by another: ([a-z_, ]+);", " ".join(told["says"]))
    assert len(asked) == 9
    newest = asked["14.0.2"]
    assert {version: sorted(cases ^ newest) for version, cases in asked.items() if cases != newest} == {}
    assert set(lent.values()) == {"index_builder, collector"}


def test_a_run_has_the_settings_of_the_record_that_it_is_compared_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, observed: Path
) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(watch, "recorded", partial(watch.recorded, observed=observed))
    monkeypatch.setattr(watch, "settings", partial(watch.settings, observed=observed))
    monkeypatch.setattr(watch, "run", lambda wanted: ran.append(wanted[2]))
    monkeypatch.setattr(watch, "of_runs", lambda reports: {"says": [], "cases": {}})
    command = ["native", "watch", "--version", "9.1.0", "--version", "14.0.2", "--runs", "1", "--report", str(tmp_path)]
    CliRunner().invoke(app, command)
    assert ran == [("environment=on",), ()]
    CliRunner().invoke(app, [*command, "--setting", "append_only=on"])
    assert ran[2:] == [("append_only=on",), ("append_only=on",)]


def test_a_release_older_than_all_records_is_refused(observed: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"no record of pylance 8\.0\.0 or an older release"):
        watch.recorded("8.0.0", observed)


def test_the_newest_release_is_the_one_that_pip_names_first(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ["pylance (15.0.0)\nAvailable versions: 15.0.0, 14.0.2\n", "nothing"]
    done = lambda arguments, **_: subprocess.CompletedProcess(arguments, 0, said.pop(0), "")  # noqa: E731
    monkeypatch.setattr(subprocess, "run", done)
    assert watch.newest() == "15.0.0"
    with pytest.raises(InvalidArgument, match="pip knows no release of pylance: nothing"):
        watch.newest()


def test_the_command_prints_what_changed_and_ends_with_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, observed: Path
) -> None:
    ran: list[tuple[str, Path]] = []
    monkeypatch.setattr(watch, "recorded", lambda version: ("14.0.2", {"a": "PASS"}))
    monkeypatch.setattr(watch, "run", lambda wanted: ran.append(wanted[:2]))
    monkeypatch.setattr(watch, "of_runs", lambda reports: {"says": ["The sentence."], "cases": {"a": "UNSUPPORTED"}})
    told = CliRunner().invoke(
        app, ["native", "watch", *("--version", "15.0.0"), *("--version", "16.0.0"), "--report", str(tmp_path)]
    )
    assert (told.exit_code, told.stdout.splitlines()[:6]) == (
        1,
        [
            "The sentence.",
            "a: PASS -> UNSUPPORTED",
            "pylance 15.0.0 in 2 runs, against the record of 14.0.2: 1 case changed",
            "The sentence.",
            "a: PASS -> UNSUPPORTED",
            "pylance 16.0.0 in 2 runs, against the record of 14.0.2: 1 case changed",
        ],
    )
    assert ran == [(each, tmp_path / each / f"run-{number}") for each in ("15.0.0", "16.0.0") for number in (1, 2)]
