"""The pytest plugin: options, vectors and scenarios as test items, verdicts, the summary.

``pytest conformance/`` needs no option. Cases are collected from ``vectors/**/case.json`` and ``scenarios/*.json``;
each is an item per revision that the adapter declares. The smoke scenarios of a revision run first.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from . import report
from .items import HELLO, RESULT, CaseItem, ScenarioFile, VectorFile
from .protocol import REVISIONS, Hello
from .session import existing_session, levels_of, suite_size
from .verdicts import FAILING, CaseResult, Verdict


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the suite."""
    group = parser.getgroup("memwal", "MemWAL conformance")
    group.addoption("--memwal-adapter", metavar="COMMAND", help="adapter to test, or `native` (default: the reference)")
    group.addoption("--native-version", metavar="X", help="with `native`: pylance==X in an environment of its own")
    group.addoption(
        "--memwal-revision",
        metavar="LETTERS",
        help="revisions to test, such as B or A,B (default: all that the adapter declares)",
    )
    group.addoption("--memwal-report", metavar="DIR", type=Path, help="write summary.json and run.jsonl here")
    group.addoption("--memwal-timeout", metavar="SECONDS", type=float, default=60.0, help="limit for each answer")
    group.addoption(
        "--memwal-setting",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="setting passed to the adapter in configure; may be repeated",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """``vectors/<revision>/<kind>/<case>/case.json`` and ``scenarios/<name>.json`` are files of cases."""
    if file_path.name == "case.json" and file_path.parents[3].name == "vectors":
        return VectorFile.from_parent(parent, path=file_path)
    if file_path.suffix == ".json" and file_path.parent.name == "scenarios":
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Smoke first, then vectors and scenarios by revision, so that the shared process is seldom configured anew."""

    def place(item: pytest.Item) -> tuple[int, str]:
        if not isinstance(item, CaseItem):
            return 2, ""
        return (0 if item.smoke else 1), item.revision

    items.sort(key=place)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """End the adapter's processes, and let the sentences be the last lines of the run."""
    yield
    config = session.config
    session_used = existing_session(config)
    if session_used is not None:
        session_used.close()
    terminalreporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    if terminalreporter is None or hasattr(config, "workerinput"):
        return
    results, hello = _gathered(terminalreporter)
    if hello is not None:
        tallies = _tallies(results)
        for tallied in tallies:
            terminalreporter.line(report.sentence(hello, tallied))
        folder: Path | None = config.getoption("--memwal-report")
        if folder is not None:
            text = json.dumps(report.summary(hello, tallies, results), indent=1)
            (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    elif session_used is not None and session_used.no_hello is not None:
        terminalreporter.line(f"no verdict: {session_used.no_hello}")


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show verdicts that pytest has no word for."""
    if report.when != "call":
        return None
    for name, text in report.user_properties:
        if name == RESULT and isinstance(text, str):
            verdict = Verdict(json.loads(text)["verdict"])
            if verdict not in (Verdict.PASS, Verdict.UNSUPPORTED):
                category = "failed" if verdict in FAILING else verdict.lower()
                return category, verdict[0], verdict
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of verdicts, what the text leaves open, and errors that no kind was found for."""
    results, hello = _gathered(terminalreporter)
    if hello is None:
        return
    terminalreporter.section("MemWAL conformance")
    for line in report.table(results):
        terminalreporter.line(line)
    for result in results:
        if result.verdict in (Verdict.OBSERVED, Verdict.WARN):
            terminalreporter.line(f"{result.verdict} {result.case} [{result.revision}]: {result.text.splitlines()[0]}")
        for native in result.unmapped:
            terminalreporter.line(f"unmapped native error in {result.case} [{result.revision}]: {native}")


def _tallies(results: list[CaseResult]) -> list[report.Tally]:
    totals = suite_size()
    return [
        report.tally(revision, mine, levels_of(revision), max(totals[revision], len(mine)))
        for revision in REVISIONS
        if (mine := [r for r in results if r.revision == revision])
    ]


def _gathered(terminalreporter: pytest.TerminalReporter) -> tuple[list[CaseResult], Hello | None]:
    """Results of all cases, in this process or in others, and what the adapter said."""
    results: list[CaseResult] = []
    hello: Hello | None = None
    for reports in terminalreporter.stats.values():
        for one in reports:
            properties = dict(getattr(one, "user_properties", ()))
            if getattr(one, "when", "") == "call" and RESULT in properties:
                results.append(report.from_text(properties[RESULT]))
                hello = hello or Hello.of(json.loads(properties[HELLO]))
    return sorted(results, key=lambda r: (r.revision, r.case)), hello
