"""What holds for every test of the project: what Hypothesis tries, how long a test may take, that it leaves nothing.

Hypothesis has one profile (`memwal_sim.profiles`), and what it tried is counted before pytest's closing line.

The time limit is a guard against endless loops, far above what any test takes, and no test depends on it. At the limit
the test fails by name, with the stack of where it was. One that goes on all the same, because it swallows whatever is
raised or never comes back from native code, ends its process some seconds later, with the stacks of all threads;
pytest-xdist then names the test and goes on with another worker.

A costly test by which no planted bug or mutant is recorded to die is named in `long_tests.txt` and counts as marked
``long``: `make explore` runs it, `make test` does not. Costly is over two seconds of a processor, or 0.7 where the test
explores or asks the same at every request; so are in Spark the types and values beyond one of each kind.

Temporary files and folders that are still there after the last test of a module are an error of that test: what is left
to the interpreter's end complains behind pytest's last line, where nobody looks. So is a name that a test has added to
the checkout, where the next commit would take it along.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

LIMIT_S = 300.0
"""For each of a test's setup, its body and its teardown; the option ``--time-limit`` and the marker change it."""
LONG_LIMIT_S = 3600.0
"""For tests that are marked ``long``."""
AGAIN_S = 2.0
"""The test is told again that its time is over after so long."""
MERCY_S = 20.0
"""Its process is ended when it still runs so long after its limit."""
LONG_TESTS = Path(__file__).with_name("long_tests.txt")
"""Tests that are ``long`` for their cost, one on a line: a function, with all its cases, or one case."""
TRIED = "memwal_tried"
"""Attribute of a test report: how many cases Hypothesis tried in the test."""
ROOT = Path(__file__).parent
OF_THE_PROCESS = "pymp-"
"""Beginning of the name of multiprocessing's folder: each process has one, and removes it at the end in silence."""
_STDERR = pytest.StashKey[int]()
_SCRATCH = pytest.StashKey[Path]()
_KNOWN = pytest.StashKey[set[str]]()
_CASES = pytest.StashKey[list[int]]()


class TimeLimitError(BaseException):
    """A test has taken longer than it may. No `Exception`: few swallow it, and Hypothesis does not try again."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--time-limit", type=float, default=LIMIT_S, metavar="SECONDS", help="that a test may take")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STDERR] = os.dup(2)  # as it is before any test captures it
    config.stash[_KNOWN] = {*os.listdir(ROOT), *_ignored()}
    if find_spec("hypothesis") is not None and not config.getoption("--hypothesis-profile", None):
        from memwal_sim import profiles

        profiles.load()


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_STDERR])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    costly = set(LONG_TESTS.read_text("utf-8").splitlines())
    for item in items:
        if not costly.isdisjoint((item.nodeid, item.nodeid.partition("[")[0])):
            item.add_marker("long")


# The time limit ---------------------------------------------------------------------------------------------------


@contextmanager
def limited(item: pytest.Item) -> Iterator[None]:
    """Raise `TimeLimitError` in what runs inside when the time of ``item`` is over; then end the process."""
    marker = item.get_closest_marker("time_limit")
    usual = LONG_LIMIT_S if item.get_closest_marker("long") else item.config.getoption("--time-limit")
    limit_s = float(marker.args[0]) if marker else usual

    def over(_signal: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=2)  # of the other threads, too; shown with what the test wrote
        raise TimeLimitError(f"{item.nodeid}: not done after {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, over)
    faulthandler.dump_traceback_later(limit_s + MERCY_S, exit=True, file=item.config.stash[_STDERR])
    signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    with limited(item):
        done = yield
    if nextitem is None or nextitem.path != item.path:
        nothing_added(item)
        nothing_left(item)
    return done


# Temporary files --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What this process makes temporarily goes to a folder of its own, so that what stays there is seen."""
    folder, before = tmp_path_factory.mktemp("temporary"), tempfile.tempdir
    request.config.stash[_SCRATCH], tempfile.tempdir = folder, str(folder)
    yield
    tempfile.tempdir = before


def nothing_left(item: pytest.Item) -> None:
    """Fail if there is a temporary file or folder, also when all that nobody holds any more is gone."""
    folder = item.config.stash.get(_SCRATCH, None)
    if folder is None or not _left(folder):
        return
    gc.collect()
    if left := _left(folder):
        for name in left:  # said once, and not again after each module
            (folder / name).rename(folder.with_name(f"left-{name}"))
        pytest.fail(f"{item.path.name} leaves temporary files: {', '.join(left)}", pytrace=False)


def nothing_added(item: pytest.Item) -> None:
    """Fail if the checkout has a new name that git does not ignore; a test of another worker may have written it."""
    new = {*os.listdir(ROOT)} - item.config.stash[_KNOWN]
    if new and (ROOT / ".gitignore").exists():  # a copy, in which a planted bug is tried, has none
        item.config.stash[_KNOWN] |= new  # said once, and not again after each module
        pytest.fail(
            f"{item.path.name}, or a module run beside it, adds to the checkout: {', '.join(sorted(new))}",
            pytrace=False,
        )


def _ignored() -> list[str]:
    """What `.gitignore` names."""
    file = ROOT / ".gitignore"
    return [line.rstrip("/") for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def _left(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith(OF_THE_PROCESS)) if folder.exists() else []


# What Hypothesis tried --------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Count the cases of a property, or of the machines that a test runs."""
    cases = pyfuncitem.stash.setdefault(_CASES, [])
    with counting(cases) if find_spec("hypothesis") is not None else nullcontext():
        return (yield)


@contextmanager
def counting(cases: list[int]) -> Iterator[None]:
    """Append to ``cases`` how many each run of Hypothesis tries."""
    from hypothesis.statistics import collector

    outer = collector.value

    def note(statistics: Any) -> None:
        phases = (phase for name, phase in statistics.items() if name.endswith("-phase"))
        cases.append(sum(len(phase["test-cases"]) for phase in phases))
        if outer is not None:
            outer(statistics)

    with collector.with_value(note):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    made = yield
    if made.when == "call" and (cases := item.stash.get(_CASES, None)):
        setattr(made, TRIED, sum(cases))
    return made


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, Any, Any]:
    done = yield
    reports = (one for reports in terminalreporter.stats.values() for one in reports)
    tried = [count for one in reports if (count := getattr(one, TRIED, None))]
    if tried:
        from hypothesis import settings

        how = "the same cases each time" if settings().derandomize else "other cases each time"
        profile = settings.get_current_profile_name()
        terminalreporter.line(f"Hypothesis, profile {profile}: {sum(tried):,} cases of {len(tried)} tests, {how}")
    return done
