"""Which planted bugs of the engine the suite sees from outside, and what sees them: a survey, kept as data.

    python -m memwal_conformance.proving.broken_survey           # every bug; takes a quarter of an hour
    python -m memwal_conformance.proving.broken_survey NAME …    # these bugs; the others stay as they are
    python -m memwal_conformance.proving.broken_survey --gate    # what nothing has shown yet, at the gate; half an hour

A bug is put in the engine behind the reference adapter, in this process: nobody else may use the engine in it. Under
the revision in which the simulator finds it, every vector and every scenario of the suite runs against that adapter;
what fails is kept with the clauses that it names. At the gate the adapter is a process of its own, and pytest runs the
scenarios there.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from memwal.errors import InvalidArgument
from memwal_sim import bugs

from .. import protocol, vectors
from ..adapters import reference
from ..adapters.process import BROKEN, AdapterCrash, AdapterProcess
from ..places import SUITE, scenario_files, vector_files
from ..protocol import AdapterError, Json
from ..registry.levels import levels_of
from ..running import runner, scenarios
from ..vectors import BadCase, Vector
from ..verdicts import FAILING, Finding, Verdict, level_of
from .broken import engine_with

SEEN = SUITE / "broken" / "seen.json"
"""What the last survey found: bug -> case -> clauses."""
UNSEEN = SUITE / "broken" / "unseen.json"
"""Bug -> why no case of the suite shows it; written by hand."""
PAGE = SUITE.parent / "docs" / "broken_adapters.md"

AT_GATE = "scenarios/gate/"
GATE_CRASHES = 6
"""Of each scenario at the gate that crashes an actor everywhere, this many are run."""
Cases = dict[str, list[str]]
"""Failing case -> clauses that it names as broken; empty for a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one case said."""

    failed: bool
    clauses: tuple[str, ...]


class InProcess:
    """The reference adapter in this process, with an adapter process's interface; a kill drops what it holds."""

    def __init__(self, revision: str) -> None:
        self.handlers = reference.handlers()
        self.call("configure", {"revision": revision, "settings": {}})

    def call(self, message: str, params: Json) -> Json:
        """Answer one request as `adapters.serve` and `AdapterProcess.call` do together."""
        protocol.check(message, "params", params)
        try:
            result = json.loads(json.dumps(self.handlers[message](params)))
        except AdapterError:
            raise
        except tuple(reference.KINDS) as error:
            kind = next(kind for known, kind in reference.KINDS.items() if isinstance(error, known))
            raise AdapterError(kind, str(error)) from error
        except Exception as error:
            raise AdapterCrash(message, 1, repr(error)) from error
        protocol.check(message, "result", result)
        return dict(result)

    def kill(self) -> bool:
        """Forget everything that is open; it was running until then."""
        self.handlers = reference.handlers()
        return True


def actor(revision: str) -> AdapterProcess:
    """An `InProcess` under the type that the runner names."""
    return cast(AdapterProcess, InProcess(revision))


def cases(revision: str) -> list[str]:
    """Names of all cases of a revision, as pytest has them below ``conformance/``."""
    loaded = [vectors.load(file) for file in vector_files()]
    asked = [_named(v, direction) for v in loaded if v.revision == revision for direction in v.directions]
    played = [
        f"scenarios/{file.name}::{revision}"
        for file in scenario_files()
        if file.parent.name == "scenarios" and _here(scenarios.load(file), revision)
    ]
    return [*asked, *played]


def _here(scenario: scenarios.Scenario, revision: str) -> bool:
    """Whether the scenario has the revision, and does not end the process that it runs in, which is this one."""
    sent = {step.get("send") for step in scenario.every_step(revision)}
    return revision in scenario.revisions and "sync.crash" not in sent


def _named(vector: Vector, direction: str) -> str:
    return f"{(vector.folder / 'case.json').relative_to(SUITE).as_posix()}::{direction}"


@functools.cache
def _levels(revision: str) -> dict[str, str]:
    return levels_of(revision)


def judge(case: str, folder: Path) -> Judged:
    """Run one case; a crash fails it without a clause."""
    file, _, what = case.partition("::")
    try:
        if file.startswith("vectors/"):
            vector = vectors.load(SUITE / file)
            finding = vectors.run(vector, what, actor(vector.revision).call)
            return _judged([finding], level_of(finding, _levels(vector.revision)) in FAILING)
        result = runner.run(
            scenarios.load(SUITE / file),
            what,
            folder=folder,
            start=lambda _: actor(what),
            finish=lambda _: None,
            levels=_levels(what),
            case=case,
        )
        return _judged(result.findings, result.verdict in FAILING)
    except (*BROKEN, BadCase):
        return Judged(failed=True, clauses=())


def _judged(findings: Iterable[Finding], failed: bool) -> Judged:
    broken = {c for finding in findings if finding.broken is not None for c in finding.clauses}
    return Judged(failed=failed, clauses=tuple(sorted(broken)))


def survey(bug: bugs.Bug, wanted: Iterable[str] | None = None) -> Cases:
    """Cases that fail for the adapter with ``bug``."""
    found: Cases = {}
    with tempfile.TemporaryDirectory(prefix="memwal-survey-") as place, engine_with(bug):
        for number, case in enumerate(cases(bug.revision) if wanted is None else wanted):
            folder = Path(place) / str(number)
            folder.mkdir()
            judged = judge(case, folder)
            if judged.failed:
                found[case] = list(judged.clauses)
            shutil.rmtree(folder)
    return found


def survey_at_the_gate(bug: bugs.Bug) -> Cases:
    """Scenarios at the gate that fail for the adapter with ``bug``.

    Raises `InvalidArgument` if pytest did not run them to the end.
    """
    adapter = f"{sys.executable} -m memwal_conformance.proving.broken --bug {bug.name}"
    with tempfile.TemporaryDirectory(prefix="memwal-survey-") as place:
        options = ["--memwal-revision", bug.revision, "--memwal-crashes", str(GATE_CRASHES), "--memwal-report", place]
        command = [sys.executable, "-m", "pytest", "-q", str(SUITE / "scenarios" / "gate"), "--memwal-adapter", adapter]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        summary = Path(place) / "summary.json"
        if not summary.exists():
            raise InvalidArgument(f"{bug.name}: no summary; pytest said {done.stdout[-300:]}{done.stderr[-300:]}")
        found: Cases = {}
        for case in json.loads(summary.read_text("utf-8"))["cases"]:
            if Verdict(case["verdict"]) in FAILING:
                broken = {c for f in case["findings"] if f["broken"] is not None for c in f["clauses"]}
                found[case["case"]] = sorted(broken)
        return found


def page(known: Mapping[str, bugs.Bug], seen: Mapping[str, Cases], unseen: Mapping[str, str]) -> str:
    """The table of ``docs/broken_adapters.md``."""
    lines = [
        "# Broken adapters",
        "",
        "<!-- generated by python -m memwal_conformance.proving.broken_survey --page; do not edit -->",
        "",
        "A test suite that cannot fail proves nothing. `faults/bugs` holds planted bugs of the engine; each is put",
        "behind the reference adapter, and the suite is run on the result:",
        "",
        '    pytest conformance/ --memwal-adapter "python -m memwal_conformance.proving.broken --bug oldest_row_kept"',
        "",
        f"{len(seen)} of {len(known)} are seen from outside, by vectors, scenarios, or scenarios at the gate.",
        "",
        "## Seen",
        "",
        "| bug | what it does wrong | breaks | cases that fail | first of them | clauses that it names |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in sorted(seen.items()):
        first = best(known[name], found)
        cited = ", ".join(found[first][:4]) or "(crash)"
        bug = known[name]
        lines.append(f"| `{name}` | {bug.what} | {bug.clause} | {len(found)} | `{first}` | {cited} |")
    lines += ["", "## Not seen", "", "| bug | breaks | why no case shows it |", "|---|---|---|"]
    lines += [f"| `{name}` | {known[name].clause} | {unseen[name]} |" for name in sorted(unseen)]
    return "\n".join(lines) + "\n"


def best(bug: bugs.Bug, found: Cases) -> str:
    """The case to show: one that names a clause of the bug, or else names a clause at all, or the first."""
    for wanted in ({bug.clause, bug.violated}, None):
        for case, cited in sorted(found.items()):
            if (wanted is None and cited) or (wanted is not None and wanted & set(cited)):
                return case
    return min(found)


def load(file: Path) -> dict[str, Any]:
    """One of the two data files; empty if there is none."""
    read: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return read


def save(file: Path, data: Mapping[str, Any]) -> None:
    """Write a data file, one bug a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(data[name])}" for name in sorted(data))
    file.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="bugs to look at; default is all")
    parser.add_argument("--page", action="store_true", help="write the page from the data, without a survey")
    parser.add_argument("--gate", action="store_true", help="scenarios at the gate; default is the bugs not seen yet")
    given = parser.parse_args(arguments)
    known = bugs.load()
    seen: dict[str, Cases] = load(SEEN)
    if not given.page:
        every = [name for name in sorted(known) if not given.gate or name not in seen]
        for bug in bugs.choose(given.names or every, known):
            found = survey_at_the_gate(bug) if given.gate else survey(bug)
            kept = {c: cited for c, cited in seen.get(bug.name, {}).items() if given.gate != c.startswith(AT_GATE)}
            seen = {name: cited for name, cited in seen.items() if name != bug.name}
            if kept | found:
                seen[bug.name] = kept | found
                save(SEEN, seen)
                sys.stdout.write(f"{bug.name}: {len(found)} cases fail\n")
                sys.stdout.flush()
    PAGE.write_text(page(known, seen, {n: t for n, t in load(UNSEEN).items() if n not in seen}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
