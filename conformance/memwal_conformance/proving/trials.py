"""Trials: a copy of the checkout, one mutant in it at a time, and its test run there by a process of its own.

A mutant is *killed* when its test fails because something that it checks does not hold. A test that cannot even begin,
or that stumbles over a mutant that is not a working program (`STUMBLES`), has noticed nothing about the clause: such a
mutant is *broken*, and a defect of its description. Before the mutants, the tests run once without any.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from memwal.errors import InvalidArgument
from memwal_sim import parallel
from memwal_sim.parallel import ALONE, Workers

from ..registry.clauses import ROOT
from .deaths import Death, digest
from .mutants import Mutant, SourceChange
from .planted import of_mutant

TRIAL_MAX_S = 180.0
"""A test that takes longer than this with a mutant has not noticed it."""
COPIED = (
    *("reference", "simulator", "conformance", "pipeline", "faults", "protos", "docs", "benchmarks"),
    *(
        "conftest.py",
        "long_tests.txt",
        "pyproject.toml",
        "Makefile",
        "constraints.txt",
        "README.md",
        "SPEC_NOTES.md",
        "CONTRIBUTING.md",
    ),
)
"""What tests may look at, below the root of a checkout."""
PATHS = ("reference", "simulator", "conformance", "pipeline")
"""Where the packages of a copy are."""
STUMBLES = (
    "NameError",
    "UnboundLocalError",
    "ImportError",
    "ModuleNotFoundError",
    "SyntaxError",
    "AttributeError",
    "TypeError",
)
"""What a mutant that is not a working program ends in."""
MESSAGE_MAX = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of one mutant."""

    mutant: Mutant
    verdict: str
    """``killed``, ``survived``, ``broken``, or ``too long``."""
    message: str
    """First line of what the test said; empty if it passed."""
    seconds: float

    digest: str
    """Of the mutant and its test, as they were."""

    @property
    def death(self) -> Death | None:
        """To be kept; None unless it was killed."""
        if self.verdict != "killed":
            return None
        killer = f"test {self.mutant.test}"
        return Death(planted=self.mutant.name, killer=killer, digest=self.digest, said=self.message)


def trials(
    chosen: Sequence[Mutant], workers: Workers = ALONE, root: Path = ROOT, max_s: float = TRIAL_MAX_S
) -> Iterator[Trial]:
    """The trial of each mutant of the checkout at ``root``, as they end; each takes ``max_s`` at most.

    Raises `InvalidArgument` for a mutant that does not apply, and for tests that fail without any.
    """
    for mutant in chosen:
        _digest(mutant, root)
    by_test = sorted(chosen, key=lambda mutant: mutant.test)
    yield from parallel.in_shares(partial(_tried, root=root, max_s=max_s), by_test, workers)


def _tried(chosen: Sequence[Mutant], root: Path, max_s: float) -> Iterator[Trial]:
    """The same, in one copy of the checkout."""
    tests = sorted({mutant.test for mutant in chosen})
    with copy_of_the_checkout(root) as copy:
        ran = run(copy, tests, max_s * len(tests))
        if ran.verdict != "survived":
            raise InvalidArgument(f"a test does not pass without a mutant: {ran.message}")
        with warm(copy, sorted({test.partition("::")[0] for test in tests})) as trying:
            for mutant in chosen:
                yield _trial(mutant, copy, trying, max_s)


@contextmanager
def copy_of_the_checkout(root: Path = ROOT) -> Iterator[Path]:
    """A folder with its sources, tests and data, which may be changed."""
    with tempfile.TemporaryDirectory(prefix="memwal-mutants-") as name:
        copy = Path(name)
        for part in filter(Path.exists, (root / name for name in COPIED)):
            if part.is_dir():
                shutil.copytree(part, copy / part.name, ignore=shutil.ignore_patterns(".hypothesis"))
            else:
                shutil.copy2(part, copy / part.name)
        yield copy


def _trial(mutant: Mutant, copy: Path, trying: Trying, max_s: float) -> Trial:
    """What was killed in a child of a warm process is dead; anything else is tried again in a process of its own."""
    digest = _digest(mutant, copy)
    ran = trying(mutant, [mutant.test], max_s)
    if ran is None or ran.verdict != "killed" or "TimeLimitError" in ran.message:
        with changed(mutant, copy):
            ran = run(copy, [mutant.test], max_s)
    return Trial(mutant=mutant, verdict=ran.verdict, message=ran.message, seconds=ran.seconds, digest=digest)


def _digest(mutant: Mutant, root: Path) -> str:
    return digest(of_mutant(mutant), f"test {mutant.test}", root)


@contextmanager
def changed(change: SourceChange, copy: Path) -> Iterator[None]:
    """``copy`` with the change in it. Raises `InvalidArgument` if it does not apply."""
    file = copy / change.file
    as_it_was = file.with_name(f"{file.name}.as_it_was")
    text = change.applied(copy)
    shutil.copy2(file, as_it_was)
    try:
        file.write_text(text, "utf-8")
        yield
    finally:
        as_it_was.replace(file)  # with its time, so that what was compiled from it is used again


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of a run of tests, which ends with the first that fails."""

    verdict: str
    """As of a `Trial`."""
    message: str
    """First line of what the test said; empty if all passed."""
    seconds: float
    test: str = ""
    """The test that failed."""


def run(copy: Path, tests: Sequence[str], max_s: float, *options: str) -> Ran:
    """Run ``tests`` in ``copy`` by a pytest of its own, for ``max_s`` at most."""
    report, began = copy / "report.xml", time.monotonic()
    report.unlink(missing_ok=True)
    process = _pytest(
        copy, "-x", "-o", "junit_family=xunit1", f"--junitxml={report}", *options, *tests, stdout=subprocess.PIPE
    )

    def ran(verdict: str, message: str, test: str = "") -> Ran:
        return Ran(verdict=verdict, message=message, seconds=time.monotonic() - began, test=test)

    try:
        output, _ = process.communicate(timeout=max_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return ran("too long", f"not done after {max_s:.0f} s")
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []  # noqa: S314 - our own report
    for case in cases:
        for kind in ("error", "failure"):
            if (found := case.find(kind)) is not None:
                return ran(*_judged(kind, found.get("message", ""), copy), test=_name(case))
    if process.returncode == 0 and any(case.find("skipped") is None for case in cases):
        return ran("survived", "")
    return ran("broken", _line(output.strip().rpartition("\n")[2] or f"pytest ended with {process.returncode}", copy))


def _pytest(copy: Path, *arguments: str, **process: Any) -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(copy / path) for path in PATHS)
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **process,
    )


Trying = Callable[[SourceChange, Sequence[str], float], Ran | None]
"""Runs tests with a change, for so many seconds; None where a process of its own has to do that, by `run`."""


@contextmanager
def warm(copy: Path, files: Sequence[str], *options: str) -> Iterator[Trying]:
    """A process that has collected ``files``, and tries changes of the functions of ``copy`` in children (`warm`).

    What it gives raises `InvalidArgument` if that process has ended.
    """
    (orders, tell), (hear, answers), log = os.pipe(), os.pipe(), copy / "warm.log"
    with log.open("w") as output, os.fdopen(tell, "wb", buffering=0) as telling, os.fdopen(hear) as hearing:
        plugin = ("-p", f"{__package__}.warm", f"--orders={orders}", f"--answers={answers}")
        process = _pytest(
            copy,
            *("--continue-on-collection-errors", *plugin, *options, *files),
            stdout=output,
            pass_fds=(orders, answers),
        )
        os.close(orders)
        os.close(answers)

        def answer() -> dict[str, Any] | None:
            if line := hearing.readline():
                return cast(dict[str, Any] | None, json.loads(line))
            said = log.read_text("utf-8").strip().rpartition("\n")[2]
            raise InvalidArgument(f"pytest has ended: {_line(said, copy)}")

        def trying(change: SourceChange, tests: Sequence[str], max_s: float) -> Ran | None:
            began, file = time.monotonic(), copy / change.file
            before = file.read_text("utf-8")
            with changed(change, copy):
                order = {"file": str(file), "before": before, "tests": tests, "max_s": max_s}
                with suppress(BrokenPipeError):
                    telling.write(json.dumps(order).encode() + b"\n")
                found = answer()
            if found is None:
                return None
            seconds = time.monotonic() - began
            if "test" not in found:
                return Ran(verdict="survived" if found["whole"] else "too long", message="", seconds=seconds)
            verdict, message = _judged("failure" if found["when"] == "call" else "error", found["message"], copy)
            return Ran(verdict=verdict, message=message, seconds=seconds, test=found["test"])

        try:
            answer()
            yield trying
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _name(case: ElementTree.Element) -> str:
    """``<file>::<test>`` of a case in pytest's report; ``<file>`` where the file itself cannot be imported."""
    file, name = case.get("file", ""), case.get("name", "")
    module = file.removesuffix(".py").replace("/", ".")
    if not file or name == module:
        return file or f"{name.replace('.', '/')}.py"
    inner = case.get("classname", "").removeprefix(module).strip(".")
    return "::".join(filter(None, (file, inner.replace(".", "::"), name)))


def _judged(kind: str, message: str, copy: Path) -> tuple[str, str]:
    line = _line(message, copy)
    stumbled = kind == "error" or line.partition(":")[0].rpartition(".")[2] in STUMBLES
    return ("broken" if stumbled else "killed"), line


def _line(message: str, copy: Path) -> str:
    """The first line, without what differs from run to run."""
    first = message.strip().partition("\n")[0].replace(f"{copy}/", "")
    return re.sub(r"/[^\s'\"]*/pytest-[^\s'\"/]*/[^\s'\"/]*/[^\s'\"/]*", "…", first)[:MESSAGE_MAX]
