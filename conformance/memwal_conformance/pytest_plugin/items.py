"""Vectors and scenarios as pytest items: what they run, and how a verdict becomes a test outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .. import vectors
from ..adapters.process import BROKEN, verdict_of
from ..protocol import Hello, roles_of
from ..reporting.report import with_notes
from ..running import scenarios
from ..running.cases import CaseRunner, variants
from ..running.scenarios import SuiteScenario
from ..running.testbed import VECTOR, Served
from ..vectors import BadCase, Vector
from ..verdicts import FAILING, CaseResult, Finding, Verdict, agreed, level_of
from .session import Session, session_of, told

NOT_CLAIMED = "not claimed: "
"""How the text of an unsupported case begins; messages and parameters follow."""


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
        if session.gated:
            scenario = scenario.behind_gate()
        for revision in scenario.revisions:
            if revision in session.revisions(hello):
                cited = scenario.cited(revision)
                for variant in variants(scenario):
                    name = f"{revision}-{variant}" if variant else revision
                    yield ScenarioItem.make(self, name, revision, cited, scenario=scenario, variant=variant)


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
    again = True
    """Whether it is run a second time if it fails."""
    result: CaseResult | None = None
    hello: Hello | None = None
    """Both set when the case has been run."""

    @classmethod
    def make(cls, parent: CaseFile, name: str, revision: str, clauses: Iterable[str], **more: Any) -> CaseItem:
        """Make an item that carries the clauses as a marker."""
        item: CaseItem = cls.from_parent(parent, name=name)
        item.revision = revision
        for attribute, value in more.items():
            setattr(item, attribute, value)
        item.add_marker(pytest.mark.clause(*clauses))
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
        self._smoke_of_this_process(session, hello)
        if (failed := session.smoke_failed.get(self.revision)) is not None:
            pytest.skip(f"not run: the smoke stage of revision {self.revision} failed ({failed})")
        self.hello, self.result = hello, self.settled(session, hello)
        result = self.result
        told = {"verdict": result.verdict.value, "revision": result.revision, "clauses": ", ".join(result.clauses)}
        self.user_properties += [(f"memwal.{name}", text) for name, text in told.items()]
        if result.text:
            self.user_properties.append(("memwal.why", result.text))
        if result.verdict in FAILING:
            raise CaseFailed(result)
        if result.verdict is Verdict.UNSUPPORTED:
            pytest.skip(f"UNSUPPORTED: {result.text}")

    def settled(self, session: Session, hello: Hello) -> CaseResult:
        """The result of the case, after a second run if the first one fails."""
        session.begin(f"{self.case} [{self.revision}]")
        missing = self.missing(hello)
        if missing:
            result = self.verdict(Verdict.UNSUPPORTED, NOT_CLAIMED + ", ".join(missing))
        else:
            result = self._judged(session)
            if result.verdict in FAILING and self.again:
                result = agreed(result, self._judged(session))
        session.begin("")
        if self.smoke:
            session.smoke_ran.add(self.nodeid)
            if result.verdict in FAILING:
                session.smoke_failed[self.revision] = self.name
        return replace(with_notes(result), command=session.reproduce(self.nodeid))

    def _judged(self, session: Session) -> CaseResult:
        session.taken()
        session.watch(None)
        result = self.judge(session)
        steps = result.steps or session.taken()
        sent = [step["message"] for step in steps if "message" in step] if result.area == "scenario" else []
        borrowed = session.harness.hello().lent
        roles = tuple(role for role in roles_of(sent) if role not in borrowed)
        if result.requests:
            return replace(result, steps=steps, roles=roles)
        kept, requests = told(steps)
        return replace(result, steps=kept, requests=requests, roles=roles)

    def _smoke_of_this_process(self, session: Session, hello: Hello) -> None:
        """In a worker of pytest-xdist the smoke cases may run elsewhere: run them here before the first other case."""
        if self.smoke or not hasattr(self.config, "workerinput"):
            return
        cases = [item for item in self.session.items if isinstance(item, CaseItem)]
        for case in cases:
            if case.smoke and case.revision == self.revision and case.nodeid not in session.smoke_ran:
                case.settled(session, hello)

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
        return vectors.missing(self.vector, self.name, hello)

    def judge(self, session: Session) -> CaseResult:
        """Ask the shared process, or, behind the gate, one of its own."""
        try:
            under = vectors.configured(self.vector, session.harness.hello())
            if session.gated and self.name in vectors.WHOLE_TABLES:
                return self._behind_gate(session, under)
            finding = vectors.run(self.vector, self.name, session.harness.shared(under).call)
        except (*BROKEN, BadCase) as error:
            return self.verdict(verdict_of(error), str(error))
        return self._found(session, finding)

    def _behind_gate(self, session: Session, under: str) -> CaseResult:
        process = session.harness.actor(VECTOR, under)
        served = Served(process, {"revision": under, "settings": dict(session.harness.settings)}, _folder(self))
        try:
            found = self._found(session, vectors.run(self.vector, self.name, process.call, served))
        except BaseException:
            process.kill()
            raise
        session.harness.finish(process)
        assert served.testbed is not None
        if void := served.testbed.gate.inconclusive_without(()):
            found = self.verdict(Verdict.INCONCLUSIVE, void)
        return replace(found, requests=tuple(entry.to_json() for entry in served.testbed.gate.log))

    def _found(self, session: Session, finding: Finding) -> CaseResult:
        return self.verdict(
            level_of(finding, session.levels[self.revision]), finding.broken or finding.chosen or "", finding
        )


class ScenarioItem(CaseItem):
    """A scenario under one revision."""

    scenario: SuiteScenario
    variant: str
    """One of `running.cases.variants`."""

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
        """Run the scenario, in a folder of its own or behind the gate."""
        try:
            runner = CaseRunner(
                revision=self.revision,
                folder=_folder(self),
                start=lambda name: session.harness.actor(name, self.revision),
                finish=session.harness.finish,
                levels=session.levels[self.revision],
                settings=session.harness.settings,
                case=self.case,
                note=session.note,
                watch=session.watch,
                taken=session.taken,
                keep=session.kept(self.case),
            )
            return runner.run(self.scenario, self.variant, session.amount)
        except BROKEN as error:
            return self.verdict(Verdict.HARNESS_ERROR, str(error))


def _folder(item: CaseItem) -> Path:
    """A new folder for one run of an item."""
    factory: pytest.TempPathFactory = item.config._tmp_path_factory  # type: ignore[attr-defined]
    return factory.mktemp(item.path.stem[:40])


def _depth(path: Path) -> int:
    """How far above a case the folder of the suite is."""
    return {"scenarios": 1, "gate": 2, "conformance": 0, "suite": 0}.get(path.parent.name, 4)
