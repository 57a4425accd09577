"""Planted things behind the messages of an adapter: which cases of the suite notice them.

A bug is put in the engine behind the reference adapter, in this process: no other process may use the engine in it.
Under the revision in which the simulator finds it, vectors and scenarios of the suite run against that adapter; what
fails has noticed. A defect is run so with its own case, an invalid vector without anything: there the case has noticed
if the reader of the engine did. At the gate the adapter is a process of its own, and pytest runs the scenarios there.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from memwal.errors import InvalidArgument
from memwal_sim import bugs

from .. import protocol, vectors
from ..adapters import reference, suite_roles
from ..adapters.process import BROKEN, AdapterCrash, AdapterProcess
from ..places import SUITE, scenario_files, vector_files
from ..protocol import REVISIONS, AdapterError, Hello, Json
from ..registry.clauses import ROOT
from ..registry.levels import levels_of
from ..running import runner, scenarios
from ..vectors import BadCase, Vector
from ..verdicts import FAILING, Finding, Verdict, level_of
from .broken import engine_with, handlers
from .deaths import Death, digest
from .defects import DEFECTS
from .mutants import Mutant
from .planted import Planted
from .trials import changed

AT_GATE = "scenarios/gate/"
GATE_CRASHES = 6
"""Of each scenario at the gate that crashes an actor everywhere, this many are run."""
ENOUGH = 10
"""A run of a changed engine ends when as many cases have failed."""
Cases = dict[str, tuple[str, ...]]
"""Case that notices -> the clauses that it names; none for a crash, and where a message is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one case said."""

    verdict: Verdict
    clauses: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether the case fails the run."""
        return self.verdict in FAILING


class InProcess:
    """The reference adapter in this process, with an adapter process's interface; a kill drops what it holds.

    Base writes are the suite's own, as in every run of the reference.
    """

    limit_s = 60.0
    """Of races, which count the time by themselves; a call has no other limit here."""

    def __init__(self, revision: str, defect: str = "") -> None:
        self.made = functools.partial(handlers, defect) if defect else reference.handlers
        self.handlers = self.made()
        self.hello = Hello.of(self.call("hello", {"protocol": protocol.VERSION}))
        self.call("configure", {"revision": revision, "settings": {}})

    def call(self, message: str, params: Json) -> Json:
        """Answer one request as `adapters.serve` and `AdapterProcess.call` do together."""
        protocol.check(message, "params", params)
        if message == "configure":
            self.helper = suite_roles.handlers()
            self.helper["configure"](params)
        if message == "base.write":
            return self.helper[message](params)
        try:
            result = json.loads(json.dumps(self.handlers[message](params)))
        except AdapterError:
            raise
        except tuple(reference.KINDS) as error:
            kind = next(kind for known, kind in reference.KINDS.items() if isinstance(error, known))
            raise AdapterError(kind, str(error)) from error
        except Exception as error:
            raise AdapterCrash(message, 1, repr(error)) from error
        return dict(protocol.accepted(message, result))

    def stderr_tail(self) -> str:
        """It writes nothing of its own."""
        return ""

    def kill(self) -> bool:
        """Forget everything that is open; it was running until then."""
        self.handlers = self.made()
        return True


def actor(revision: str, defect: str = "") -> AdapterProcess:
    """An `InProcess` under the type that the runner names."""
    return cast(AdapterProcess, InProcess(revision, defect))


def cases(revision: str) -> list[str]:
    """Names of all cases of a revision, as pytest has them below ``conformance/``."""
    loaded = [vectors.load(file) for file in vector_files()]
    asked = [_named(v, direction) for v in loaded if v.revision == revision for direction in v.directions]
    ran = [
        f"scenarios/{file.name}::{revision}"
        for file in scenario_files()
        if file.parent.name == "scenarios" and _here(scenarios.load(file), revision)
    ]
    return [*asked, *ran]


def _here(scenario: scenarios.SuiteScenario, revision: str) -> bool:
    """Whether the scenario has the revision, and does not end the process that it runs in, which is this one."""
    sent = {step.get("send") for step in scenario.every_step(revision)}
    return revision in scenario.revisions and "sync.crash" not in sent


def _named(vector: Vector, direction: str) -> str:
    return f"{(vector.folder / 'case.json').relative_to(SUITE).as_posix()}::{direction}"


@functools.cache
def _levels(revision: str) -> dict[str, str]:
    return levels_of(revision)


def judge(case: str, folder: Path, defect: str = "") -> Judged:
    """Run one case, with a defect or a deviation of `broken` if one is named; a crash fails it without a clause."""
    file, _, what = case.partition("::")
    try:
        if file.startswith("vectors/"):
            vector = vectors.load(SUITE / file)
            revision = REVISIONS[-1] if vector.revision == "0" else vector.revision
            finding = vectors.run(vector, what, actor(revision, defect).call)
            return _judged([finding], level_of(finding, _levels(vector.revision)))
        result = runner.run(
            scenarios.load(SUITE / file),
            what,
            folder=folder,
            start=lambda _: actor(what, defect),
            finish=lambda _: None,
            levels=_levels(what),
            case=case,
        )
        return _judged(result.findings, result.verdict)
    except (*BROKEN, BadCase):
        return Judged(verdict=Verdict.CRASH, clauses=())


def _judged(findings: Iterable[Finding], verdict: Verdict) -> Judged:
    broken = {c for finding in findings if finding.broken is not None for c in finding.clauses}
    return Judged(verdict=verdict, clauses=tuple(sorted(broken)))


def survey(planted: Planted, wanted: Iterable[str] | None = None) -> Cases:
    """What notices ``planted`` among the cases that are ``wanted``; default: all that are not at the gate.

    These are the cases of the revision in which the simulator finds it, and if none of them fails those of the others.
    """
    bug = planted.thing if isinstance(planted.thing, bugs.Bug) else None
    if wanted is None and bug is not None:
        revisions = sorted(REVISIONS, key=lambda revision: revision != bug.revision)
        return next(filter(None, (survey(planted, cases(revision)) for revision in revisions)), {})
    asked = list(wanted or ())
    found: Cases = {}
    with tempfile.TemporaryDirectory(prefix="memwal-survey-") as place, _in_place(planted):
        for number, case in enumerate(each for each in asked if not each.startswith(AT_GATE)):
            folder = Path(place) / str(number)
            folder.mkdir()
            judged = judge(case, folder, planted.name if planted.kind == "adapter" else "")
            held = not judged.failed and not judged.clauses
            if held if planted.kind == "vector" else judged.failed:
                found[case] = judged.clauses
            shutil.rmtree(folder)
    at_gate = [case for case in asked if case.startswith(AT_GATE)]
    return found | (survey_at_the_gate(planted, at_gate) if at_gate else {})


@contextmanager
def _in_place(planted: Planted) -> Iterator[None]:
    if isinstance(planted.thing, bugs.Bug):
        with engine_with(planted.thing):
            yield
    else:
        with bugs.replacing(DEFECTS[planted.name].replaced if planted.kind == "adapter" else {}):
            yield


def survey_at_the_gate(planted: Planted, wanted: Iterable[str] = ()) -> Cases:
    """Scenarios at the gate that fail for the adapter with ``planted``: all, or those of the files of the ``wanted``.

    Raises `InvalidArgument` if pytest did not run them to the end.
    """
    defect = planted.kind == "adapter"
    adapter = f"{sys.executable} -m memwal_conformance.proving.broken {'' if defect else '--bug '}{planted.name}"
    files = sorted({str(SUITE / case.partition("::")[0]) for case in wanted}) or [str(SUITE / "scenarios" / "gate")]
    revisions = {case.rpartition("::")[2][:1] for case in wanted} or {cast(bugs.Bug, planted.thing).revision}
    options = ["--memwal-revision", ",".join(sorted(revisions)), "--memwal-crashes", str(GATE_CRASHES)]
    return _run(planted.name, adapter, [*files, *options])


def survey_changed(mutant: Mutant, files: Sequence[Path] = ()) -> Cases:
    """Cases of the ``files`` that fail for the reference with the source of ``mutant``; a run ends after `ENOUGH`.

    Revisions A and R are asked only if nothing fails under B. By default the files are all that are not at the gate.
    The adapter is a process of the reference as it is, but for one file of the engine. Raises `InvalidArgument` if the
    mutant does not apply, or pytest did not run.
    """
    asked = files or [SUITE / "vectors", *(file for file in scenario_files() if file.parent.name == "scenarios")]
    engine = Path("reference") / "memwal"
    with tempfile.TemporaryDirectory(prefix="memwal-survey-") as place:
        copy = Path(place)
        shutil.copytree(ROOT / engine, copy / engine, ignore=shutil.ignore_patterns("__pycache__"))
        with changed(mutant, copy):
            path = os.pathsep.join([str(copy / "reference"), *filter(None, [os.environ.get("PYTHONPATH")])])
            adapter = f"env PYTHONPATH={path} {sys.executable} -m memwal_conformance.adapters.reference"
            options = [*map(str, asked), "--maxfail", str(ENOUGH), "--memwal-timeout", "20", "--memwal-revision"]
            return _run(mutant.name, adapter, [*options, "B"]) or _run(mutant.name, adapter, [*options, "A,R"])


def _run(name: str, adapter: str, arguments: Iterable[str]) -> Cases:
    """Cases that fail for an adapter, in a run of pytest of its own."""
    with tempfile.TemporaryDirectory(prefix="memwal-survey-") as place:
        command = [sys.executable, "-m", "pytest", "-q", *arguments, "--memwal-adapter", adapter]
        done = subprocess.run([*command, "--memwal-report", place], capture_output=True, text=True, check=False)
        summary = Path(place) / "summary.json"
        if not summary.exists():
            raise InvalidArgument(f"{name}: no summary; pytest said {done.stdout[-300:]}{done.stderr[-300:]}")
        found: Cases = {}
        for case in json.loads(summary.read_text("utf-8"))["cases"]:
            if Verdict(case["verdict"]) in FAILING:
                broken = {c for f in case["findings"] if f["broken"] is not None for c in f["clauses"]}
                found[case["case"]] = tuple(sorted(broken))
        return found


def _said(planted: Planted, clauses: tuple[str, ...]) -> str:
    if planted.kind == "vector":
        return "answered as it must be"
    return "failed" if clauses else "crashed, or refused a message"


def seen(planted: Planted, found: Cases) -> list[Death]:
    """What a survey ``found``, to be kept."""
    return [
        Death(
            planted=planted.name,
            killer=f"case {case}",
            digest=digest(planted, f"case {case}"),
            said=_said(planted, clauses),
            clauses=None if planted.kind == "vector" else clauses,
        )
        for case, clauses in found.items()
    ]
