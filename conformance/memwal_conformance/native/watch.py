"""What the newest native release does otherwise than the record says: install it, run the suite, compare."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memwal.errors import InvalidArgument
from memwal.words import reason

from ..adapters import versions
from ..places import OBSERVED, SUITE
from . import record

PACKAGE = "pylance"
_LIMIT_S = 120


def newest() -> str:
    """The newest release, as pip says. Raises `InvalidArgument` if it says nothing."""
    asked = [sys.executable, "-m", "pip", "index", "versions", PACKAGE]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidArgument(f"pip cannot be asked for releases of {PACKAGE}: {reason(error)}") from error
    found = re.match(rf"{PACKAGE} \(([^)]+)\)", done.stdout)
    if found is None:
        raise InvalidArgument(f"pip knows no release of {PACKAGE}: {done.stderr.strip() or done.stdout.strip()}")
    return found[1]


def recorded(version: str, observed: Path = OBSERVED) -> tuple[str, dict[str, Any]]:
    """The version whose record is compared with, and its cases: the same one, or the newest one before it.

    Raises `InvalidArgument` if there is no record of either.
    """
    known = sorted((record_of.parent.name for record_of in observed.glob("*/summary.json")), key=_numbers)
    older = [name for name in known if _numbers(name) <= _numbers(version)]
    if not older:
        raise InvalidArgument(f"there is no record of {PACKAGE} {version} or an older release in {observed}")
    cases: dict[str, Any] = json.loads((observed / older[-1] / "summary.json").read_text("utf-8"))["cases"]
    return older[-1], cases


def settings(version: str, observed: Path = OBSERVED) -> tuple[str, ...]:
    """The settings of the adapter, each NAME=VALUE, under which the record of a version was made."""
    told = json.loads((observed / version / "fingerprint.json").read_text("utf-8"))
    return tuple(told["settings"])


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version)]


def run(wanted: tuple[str, Path, tuple[str, ...]]) -> None:
    """The whole suite of revision R against a version, with every table behind the gate.

    ``wanted``: also where its report goes, and the settings of the adapter. Raises `versions.NotInstalled`, and
    `InvalidArgument` if the run leaves no report.
    """
    version, report, chosen = wanted
    versions.command(version)
    options = ["--memwal-adapter", versions.NAME, "--native-version", version, "--memwal-gate"]
    options += ["--memwal-report", str(report), *(part for one in chosen for part in ("--memwal-setting", one))]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SUITE / "scenarios")]
    command += [str(SUITE / "vectors" / "R")]
    subprocess.run([*command, *options], check=False, stdout=sys.stderr)
    if not (report / "summary.json").exists():
        raise InvalidArgument(f"the run against {PACKAGE} {version} left no summary in {report}")


def of_runs(reports: list[Path]) -> dict[str, Any]:
    """What several reports about one version come to, in the short form of the record."""
    return record.short(record.joined([json.loads((each / "summary.json").read_text("utf-8")) for each in reports]))


def changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """A line for each case whose verdict, or whose broken clauses, differ; case by case as the record has them."""
    for case in sorted({*was, *now}):
        before, after = (_told(cases.get(case)) for cases in (was, now))
        if before != after:
            found = now.get(case)
            why = found["text"].partition("\n")[0] if isinstance(found, dict) else ""
            yield f"{case}: {before} -> {after}{': ' if why else ''}{why}"


def _told(found: Any) -> str:
    """The verdict in a record; with the clauses of its FAIL lines, so that another fault is another result."""
    if found is None:
        return "not there"
    if isinstance(found, str):
        return found
    cited = sorted(
        {c for line in re.findall(r"^FAIL \[([^]]*)\]", found["text"], re.MULTILINE) for c in line.split(", ")}
    )
    verdict: str = found["verdict"]
    return f"{verdict} ({', '.join(cited)})" if cited else verdict
