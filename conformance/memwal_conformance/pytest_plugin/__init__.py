"""The pytest plugin: options, vectors and scenarios as test items, verdicts, the summary.

``pytest conformance/`` needs no option. Cases are collected from ``vectors/**/case.json`` and ``scenarios/*.json``;
each is an item per revision that the adapter declares. The smoke scenarios of a revision run first.

With pytest-xdist each worker has adapter processes of its own; results travel with the test reports, and the process
that shows them writes the report.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from .. import reporting
from ..protocol import Hello
from ..registry.levels import levels_of
from ..reporting import Finished, hello_json, report
from ..vectors import REVISIONS
from ..verdicts import EXPLORATION, FAILING, CaseResult, Verdict
from .exploring import LIVES, LivesFile
from .items import NOT_CLAIMED, CaseItem, ScenarioFile, VectorFile
from .session import AMOUNTS, PLAYER, TIMEOUT_S, existing_session, suite_size

CARRIED = "memwal"
"""Attribute of a test report, and member of a worker's output, under which results travel."""
_NO_REPORT = pytest.StashKey[bool]()
"""The folder of the report did not take it."""
_NO_HELLO = pytest.StashKey[str]()
"""Why no worker got an answer to ``hello``."""


def pytest_configure(config: pytest.Config) -> None:
    """The marker of the cases, where no project declares it."""
    config.addinivalue_line("markers", "clause(*ids): clauses of the specification that the test is about")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the suite."""
    group = parser.getgroup("memwal", "MemWAL conformance")
    group.addoption(
        "--memwal-adapter", metavar="COMMAND", help="adapter to test: a command, or `native` (default: the reference)"
    )
    group.addoption("--native-version", metavar="X", help="with `native`: pylance==X in an environment of its own")
    group.addoption(
        "--memwal-revision",
        metavar="LETTERS",
        help="revisions to test, such as B or A,B (default: all that the adapter declares)",
    )
    group.addoption(
        "--memwal-report",
        metavar="DIR",
        type=Path,
        help="write report.html, summary.json, run.jsonl and failures/ here",
    )
    group.addoption("--memwal-timeout", metavar="SECONDS", type=float, default=TIMEOUT_S, help="limit for each answer")
    group.addoption(
        "--memwal-gate",
        action="store_true",
        help="serve every table from the gate, so that each case has a log of its requests",
    )
    group.addoption(
        "--roles-by",
        metavar="WHO",
        default=PLAYER,
        help="what runs the jobs (merger, index builder, collector) that the adapter does not claim: "
        "suite (the suite itself), reference, or none (default: %(default)s)",
    )
    group.addoption(
        "--memwal-crashes",
        metavar="N",
        default=AMOUNTS["--memwal-crashes"],
        help="kill at each N-th change of a life, or `all` (default: %(default)s)",
    )
    group.addoption(
        "--memwal-races",
        metavar="N",
        default=AMOUNTS["--memwal-races"],
        help="further orders of each race, or `all` (default: %(default)s)",
    )
    group.addoption(
        "--memwal-explore",
        metavar="SECONDS",
        type=float,
        help="explore the adapter for this many seconds under each revision, see docs/exploring.md (default: 0)",
    )
    group.addoption(
        "--memwal-seed",
        metavar="TEXT",
        default=AMOUNTS["--memwal-seed"],
        help="seed of random orders (default: %(default)s)",
    )
    group.addoption(
        "--memwal-setting",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="setting passed to the adapter in configure; may be repeated",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """``vectors/<revision>/<kind>/<case>/case.json`` and ``scenarios/<name>.json`` are files of cases.

    So is ``lives.toml`` if adapters are to be explored.
    """
    if file_path.name == LIVES and parent.config.getoption("--memwal-explore") is not None:
        return LivesFile.from_parent(parent, path=file_path)
    if file_path.name == "case.json" and file_path.parents[3].name == "vectors":
        return VectorFile.from_parent(parent, path=file_path)
    if file_path.suffix == ".json" and file_path.parent.name in ("scenarios", "gate"):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Smoke first, then vectors and scenarios by revision, so that the shared process is seldom configured anew."""

    def place(item: pytest.Item) -> tuple[int, str]:
        if not isinstance(item, CaseItem):
            return 2, ""
        return (0 if item.smoke else 1), item.revision

    items.sort(key=place)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove the run logs of an earlier run, before any worker begins its own."""
    folder: Path | None = session.config.getoption("--memwal-report")
    if folder is not None and not hasattr(session.config, "workerinput"):
        for old in folder.glob("run*.jsonl"):
            old.unlink()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the result of a case travel with the report of its test."""
    made = yield
    if made.when == "call" and isinstance(item, CaseItem) and item.result is not None:
        hello = item.hello
        assert hello is not None
        carried = {"result": report.to_text(item.result), "hello": hello_json(hello), "file": str(item.path)}
        setattr(made, CARRIED, carried)
    return made


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """End the adapter's processes."""
    config = session.config
    used = existing_session(config)
    if hasattr(config, "workerinput"):
        config.workeroutput[CARRIED] = {"no_hello": None if used is None else used.no_hello}  # type: ignore[attr-defined]
    yield
    if used is not None:
        used.close()
    if config.stash.get(_NO_REPORT, False):
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended: keep why it could not talk to the adapter."""
    no_hello = getattr(node, "workeroutput", {}).get(CARRIED, {}).get("no_hello")
    if no_hello is not None:
        node.config.stash[_NO_HELLO] = no_hello


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show verdicts that pytest has no word for."""
    carried = _carried(report)
    if carried is None:
        return None
    verdict = carried[0].verdict
    if verdict is Verdict.PASS:
        return None
    if verdict is Verdict.UNSUPPORTED:  # pytest's own word for it would show a line for each set of missing messages
        return "unsupported", "s", verdict
    return "failed" if verdict in FAILING else verdict.lower(), verdict[0], verdict


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """The table of verdicts; then the report, and the sentences as the last lines before pytest's own last one."""
    found = _finished(terminalreporter)
    if found is not None:
        _table(terminalreporter, found)
    yield
    config = terminalreporter.config
    if found is not None:
        folder: Path | None = config.getoption("--memwal-report")
        if folder is not None:
            _write(terminalreporter, found, folder)
        for tallied in found.tallies:
            terminalreporter.line(report.sentence(found.hello, tallied))
        return
    used = existing_session(config)
    no_hello = config.stash.get(_NO_HELLO, None) if used is None else used.no_hello
    if no_hello is not None:
        terminalreporter.line(f"no verdict: {no_hello}")


def _write(terminalreporter: pytest.TerminalReporter, found: Finished, folder: Path) -> None:
    """Write the report and say where it is. A folder that does not take it fails the run, and loses no verdict."""
    try:
        terminalreporter.line(f"report: {reporting.write(found, folder)}")
    except OSError as error:
        terminalreporter.config.stash[_NO_REPORT] = True
        terminalreporter.line(f"report: not written: {error.strerror}: {error.filename}", red=True)


def _table(terminalreporter: pytest.TerminalReporter, found: Finished) -> None:
    """The table of verdicts, what the text leaves open, errors that no kind was found for, and what is not claimed."""
    terminalreporter.section("MemWAL conformance")
    for line in report.table(found.results):
        terminalreporter.line(line)
    for result in found.results:
        if result.verdict in (Verdict.OBSERVED, Verdict.WARN):
            terminalreporter.line(f"{result.verdict} {result.case} [{result.revision}]: {result.text.splitlines()[0]}")
        for native in result.unmapped:
            terminalreporter.line(f"unmapped native error in {result.case} [{result.revision}]: {native}")
    missing = [r.text.removeprefix(NOT_CLAIMED).split(", ") for r in found.results if r.verdict is Verdict.UNSUPPORTED]
    if missing:
        terminalreporter.line(NOT_CLAIMED + report.lacking(missing))
    if found.hello.unknown:
        terminalreporter.line(f"unknown in hello: {', '.join(found.hello.unknown)}")
    for told in found.hello.helped:
        terminalreporter.line(f"helped: {told}")


def _carried(one: object) -> tuple[CaseResult, dict[str, Any]] | None:
    """The result that a test report carries, and all that comes with it."""
    carried: dict[str, Any] | None = getattr(one, CARRIED, None)
    return None if carried is None else (report.from_text(carried["result"]), carried)


def _finished(terminalreporter: pytest.TerminalReporter) -> Finished | None:
    """All cases, run in this process or in others; None if there was none."""
    found = [each for reports in terminalreporter.stats.values() for one in reports if (each := _carried(one))]
    if not found:
        return None
    found.sort(key=lambda each: (each[0].revision, each[0].case))
    totals = suite_size()
    tallies = []
    for revision in REVISIONS:
        mine = [result for result, _ in found if result.revision == revision]
        if mine:
            explored = sum(result.area == EXPLORATION for result in mine)
            total = max(totals[revision] + explored, len(mine))
            tallies.append(report.tally(revision, mine, levels_of(revision), total))
    return Finished(
        hello=Hello.of(found[0][1]["hello"]),
        tallies=tuple(tallies),
        results=tuple(result for result, _ in found),
        files={result.case: Path(carried["file"]) for result, carried in found},
    )
