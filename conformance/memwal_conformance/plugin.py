"""The pytest plugin: options, vectors and scenarios as test items, verdicts, the summary.

``pytest conformance/`` needs no option. Cases are collected from ``vectors/**/case.json`` and ``scenarios/*.json``;
each is an item per revision that the adapter declares. The smoke scenarios of a revision run first.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from . import report, runner, scenarios, vectors
from .adapters.process import AdapterCrash, AdapterMissing, AdapterTimeout, Exchange
from .clauses import clauses as registry
from .harness import REFERENCE, Harness
from .protocol import REVISIONS, AdapterError, Hello, ProtocolViolation
from .scenarios import Scenario
from .vectors import BadCase, Vector
from .verdicts import FAILING, CaseResult, Finding, Verdict, agreed, level_of

BROKEN = (AdapterCrash, AdapterTimeout, AdapterMissing, ProtocolViolation, AdapterError)
"""What a broken adapter raises."""
RESULT = "memwal.result"
HELLO = "memwal.hello"
TOTALS = "memwal.totals"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the suite."""
    group = parser.getgroup("memwal", "MemWAL conformance")
    group.addoption("--memwal-adapter", metavar="COMMAND", help="adapter to test (default: the reference)")
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


class Session:
    """What the items of one test run share."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        given: str | None = config.getoption("--memwal-adapter")
        wanted: str | None = config.getoption("--memwal-revision")
        self.wanted = [r.strip() for r in wanted.split(",")] if wanted else list(REVISIONS)
        if strange := [r for r in self.wanted if r not in REVISIONS]:
            raise pytest.UsageError(f"--memwal-revision: there is no revision {strange[0]!r}")
        settings: list[str] = config.getoption("--memwal-setting")
        if strange := [s for s in settings if "=" not in s]:
            raise pytest.UsageError(f"--memwal-setting: {strange[0]!r} is not NAME=VALUE")
        folder: Path | None = config.getoption("--memwal-report")
        self.log_file = None
        if folder is not None and not hasattr(config, "workerinput"):
            folder.mkdir(parents=True, exist_ok=True)
            self.log_file = (folder / "run.jsonl").open("w", encoding="utf-8")
        self.harness = Harness(
            command=tuple(shlex.split(given)) if given else REFERENCE,
            limit_s=config.getoption("--memwal-timeout"),
            settings=dict(s.split("=", 1) for s in settings),
            log=self._log if self.log_file is not None else None,
        )
        self.levels = {clause.id: clause.level for clause in registry()}
        self.no_hello: str | None = None
        self.smoke_failed: dict[str, str] = {}
        self.totals: dict[str, int] = {}

    def _log(self, exchange: Exchange) -> None:
        assert self.log_file is not None
        self.log_file.write(json.dumps(asdict(exchange)) + "\n")

    def hello(self) -> Hello | None:
        """What the adapter said; None (and a text in ``no_hello``) if it said nothing usable."""
        if self.no_hello is None:
            try:
                return self.harness.hello()
            except BROKEN as error:
                self.no_hello = str(error)
        return None

    def revisions(self, hello: Hello) -> list[str]:
        """Revisions to test."""
        return [revision for revision in hello.revisions if revision in self.wanted]

    def close(self) -> None:
        """End what the run has started."""
        self.harness.close()
        if self.log_file is not None:
            self.log_file.close()


_SESSION = pytest.StashKey[Session]()


def session_of(config: pytest.Config) -> Session:
    """The session of this process, made when the first case is collected."""
    if _SESSION not in config.stash:
        config.stash[_SESSION] = Session(config)
    return config.stash[_SESSION]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Vectors and scenarios are files of cases."""
    if file_path.name == "case.json":
        return VectorFile.from_parent(parent, path=file_path)
    if file_path.suffix == ".json" and file_path.parent.name == "scenarios":
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


class CaseFile(pytest.File):
    """A file of cases. If the adapter says nothing usable, the first file has one item that reports it."""

    def collect(self) -> Iterator[pytest.Item]:
        """Items for each revision under test."""
        session = session_of(self.config)
        known = session.no_hello is not None
        hello = session.hello()
        if hello is not None:
            yield from self.cases(session, hello)
        elif not known:
            yield HelloItem.from_parent(self, name="hello")

    def cases(self, session: Session, hello: Hello) -> Iterator[CaseItem]:
        """The cases in this file."""
        raise NotImplementedError


class VectorFile(CaseFile):
    """``case.json`` of a vector."""

    def cases(self, session: Session, hello: Hello) -> Iterator[CaseItem]:
        """One item per direction."""
        vector = vectors.load(self.path)
        if vector.revision in session.revisions(hello):
            for direction in vector.directions:
                yield VectorItem.make(self, direction, vector.revision, vector.clauses, vector=vector)


class ScenarioFile(CaseFile):
    """A scenario."""

    def cases(self, session: Session, hello: Hello) -> Iterator[CaseItem]:
        """One item per revision."""
        scenario = scenarios.load(self.path)
        for revision in scenario.revisions:
            if revision in session.revisions(hello):
                cited = scenario.cited(revision)
                yield ScenarioItem.make(self, revision, revision, cited, scenario=scenario)


class CaseFailed(Exception):
    """Carries the result of a case whose verdict fails the run."""

    def __init__(self, result: CaseResult) -> None:
        super().__init__(result.text)
        self.result = result


class HelloItem(pytest.Item):
    """Reports that the adapter did not say what it is."""

    def runtest(self) -> None:
        """Fails."""
        pytest.fail(f"HARNESS_ERROR: {session_of(self.config).no_hello}", pytrace=False)


class CaseItem(pytest.Item):
    """One case under one revision."""

    revision: str
    smoke = False

    @classmethod
    def make(cls, parent: CaseFile, name: str, revision: str, clauses: Iterable[str], **more: Any) -> CaseItem:
        """Make an item that carries the clauses as a marker."""
        item: CaseItem = cls.from_parent(parent, name=name)
        item.revision = revision
        for attribute, value in more.items():
            setattr(item, attribute, value)
        item.add_marker(pytest.mark.clause(*clauses))
        session = session_of(item.config)
        session.totals[revision] = session.totals.get(revision, 0) + 1
        return item

    @property
    def case(self) -> str:
        """Name of the case in reports."""
        return f"{self.path.relative_to(self.path.parents[_depth(self.path)]).as_posix()}::{self.name}"

    def judge(self, session: Session) -> CaseResult:
        """Run the case once."""
        raise NotImplementedError

    def about(self) -> tuple[str, str, tuple[str, ...]]:
        """Area, title and clauses."""
        raise NotImplementedError

    def missing(self, hello: Hello) -> list[str]:
        """Messages that the case needs and the implementation does not answer."""
        raise NotImplementedError

    def runtest(self) -> None:
        """Run the case, a second time if it fails, and turn its verdict into a test outcome."""
        session = session_of(self.config)
        hello = session.hello()
        assert hello is not None
        if (failed := session.smoke_failed.get(self.revision)) is not None:
            pytest.skip(f"not run: the smoke stage of revision {self.revision} failed ({failed})")
        missing = self.missing(hello)
        if missing:
            result = self.verdict(Verdict.UNSUPPORTED, f"not claimed: {', '.join(missing)}")
        else:
            result = self.judge(session)
            if result.verdict in FAILING:
                result = agreed(result, self.judge(session))
        self.user_properties += [(RESULT, report.to_text(result)), (HELLO, _hello_text(hello))]
        if self.smoke and result.verdict in FAILING:
            session.smoke_failed[self.revision] = self.name
        if result.verdict in FAILING:
            raise CaseFailed(result)
        if result.verdict is Verdict.UNSUPPORTED:
            pytest.skip(f"UNSUPPORTED: {result.text}")

    def verdict(self, verdict: Verdict, text: str, finding: Finding | None = None) -> CaseResult:
        """A result without the detail of a scenario."""
        area, title, clauses = self.about()
        return CaseResult(
            case=self.case,
            revision=self.revision,
            area=area,
            title=title,
            clauses=clauses,
            verdict=verdict,
            findings=(finding,) if finding is not None else (),
            text=text,
        )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The text of a failed case instead of a traceback."""
        if isinstance(excinfo.value, CaseFailed):
            result = excinfo.value.result
            cited = ", ".join(result.clauses)
            return f"{result.verdict}: {result.title} [{cited}]\n{result.text}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Place of the case."""
        return self.path, None, f"{self.case}"


class VectorItem(CaseItem):
    """One direction of a vector."""

    vector: Vector

    def about(self) -> tuple[str, str, tuple[str, ...]]:
        """Area, title and clauses."""
        return self.vector.area, self.vector.title, self.vector.clauses

    def missing(self, hello: Hello) -> list[str]:
        """The message of the direction, if it is not answered."""
        needed = vectors.message(self.vector, self.name)
        return [] if hello.answers(needed) else [needed]

    def judge(self, session: Session) -> CaseResult:
        """Ask the shared process."""
        try:
            finding = vectors.run(self.vector, self.name, session.harness.shared(self.revision).call)
        except AdapterCrash as crash:
            return self.verdict(Verdict.CRASH, str(crash))
        except BROKEN as error:
            return self.verdict(Verdict.HARNESS_ERROR, str(error))
        return self.verdict(level_of(finding, session.levels), finding.broken or "", finding)


class ScenarioItem(CaseItem):
    """A scenario under one revision."""

    scenario: Scenario

    @property
    def smoke(self) -> bool:  # type: ignore[override]
        """Whether the case is of the smoke stage."""
        return self.scenario.smoke

    def about(self) -> tuple[str, str, tuple[str, ...]]:
        """Area, title and clauses."""
        return "scenario", self.scenario.title, self.scenario.cited(self.revision)

    def missing(self, hello: Hello) -> list[str]:
        """Messages that are not answered."""
        return self.scenario.missing(self.revision, hello)

    def judge(self, session: Session) -> CaseResult:
        """Run the scenario in a folder of its own."""
        factory: pytest.TempPathFactory = self.config._tmp_path_factory  # type: ignore[attr-defined]
        try:
            return runner.run(
                self.scenario,
                self.revision,
                folder=factory.mktemp(self.path.stem[:40]),
                start=lambda name: session.harness.actor(name, self.revision),
                levels=session.levels,
                case=self.case,
            )
        except BROKEN as error:
            return self.verdict(Verdict.HARNESS_ERROR, str(error))


def _depth(path: Path) -> int:
    """How far above a case the folder of the suite is."""
    return 1 if path.parent.name == "scenarios" else 4


def _hello_text(hello: Hello) -> str:
    return json.dumps({**asdict(hello), "capabilities": sorted(hello.capabilities)})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Smoke first, then vectors and scenarios by revision, so that the shared process is seldom configured anew."""

    def place(item: pytest.Item) -> tuple[int, str]:
        if not isinstance(item, CaseItem):
            return 2, ""
        return (0 if item.smoke else 1), item.revision

    items.sort(key=place)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the adapter's processes."""
    if _SESSION in session.config.stash:
        session.config.stash[_SESSION].close()


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table, what the text leaves open, and the sentence for each revision."""
    results, hello = _gathered(terminalreporter)
    if hello is None:
        if _SESSION in config.stash and config.stash[_SESSION].no_hello is not None:
            terminalreporter.section("MemWAL conformance")
            terminalreporter.line(f"no verdict: {config.stash[_SESSION].no_hello}")
        return
    levels = {clause.id: clause.level for clause in registry()}
    totals = config.stash[_SESSION].totals if _SESSION in config.stash else {}
    tallies = [
        report.tally(revision, mine, levels, max(totals.get(revision, 0), len(mine)))
        for revision in REVISIONS
        if (mine := [r for r in results if r.revision == revision])
    ]
    terminalreporter.section("MemWAL conformance")
    for line in report.table(results):
        terminalreporter.line(line)
    for result in results:
        if result.verdict in (Verdict.OBSERVED, Verdict.WARN):
            terminalreporter.line(f"{result.verdict} {result.case} [{result.revision}]: {result.text.splitlines()[0]}")
        for native in result.unmapped:
            terminalreporter.line(f"unmapped native error in {result.case} [{result.revision}]: {native}")
    for tallied in tallies:
        terminalreporter.line(report.sentence(hello, tallied))
    folder: Path | None = config.getoption("--memwal-report")
    if folder is not None:
        text = json.dumps(report.summary(hello, tallies, results), indent=1)
        (folder / "summary.json").write_text(text + "\n", encoding="utf-8")


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
