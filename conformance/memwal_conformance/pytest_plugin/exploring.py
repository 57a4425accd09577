"""The exploration of an adapter as a case of the suite, behind a budget (``--memwal-explore SECONDS``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..adapters.process import BROKEN
from ..exploring import lives, reproducing, showing
from ..exploring.adapters import LIMIT_S, explored
from ..exploring.explorer import ForeignExploration
from ..exploring.findings import ForeignFinding
from ..protocol import Hello
from ..verdicts import EXPLORATION, CaseResult, Finding, Verdict, level_of, merged
from .items import CaseFile, CaseItem
from .session import Session

LIVES = "lives.toml"
TITLE = "Short lives under every fault, crash and order of requests that the time allows"
UNCITED = {"crash": Verdict.CRASH, "hang": Verdict.HANG, "error": Verdict.REFUSED}
"""Verdict for a finding that no clause is about, by its oracle."""


class LivesFile(CaseFile):
    """``lives.toml``."""

    def cases(self, session: Session, hello: Hello) -> Iterator[CaseItem]:
        """One exploration for each revision, of all lives in turn."""
        for revision in session.revisions(hello):
            if revision in hello.revisions:
                yield ExplorationItem.make(self, revision, revision, ())


class ExplorationItem(CaseItem):
    """An exploration under one revision. It repeats what it finds by itself, and is not run a second time."""

    again = False

    def about(self) -> tuple[str, str, tuple[str, ...]]:
        """Area, title and clauses; which clauses it is about is known when it has found something."""
        return EXPLORATION, TITLE, ()

    def missing(self, hello: Hello) -> list[str]:
        """What the life lacks that lacks least; nothing if one can be run."""
        return min((life.missing(hello) for life in lives.load(self.path).values()), key=len)

    def judge(self, session: Session) -> CaseResult:
        """Explore for as long as the option says; the findings go beside the report."""
        own = session.harness
        limit_s = min(own.limit_s, LIMIT_S)
        harness = explored(own.command, own.settings, own.roles_by, limit_s=limit_s)
        try:
            made = ForeignExploration(
                harnesses=[harness],
                revision=self.revision,
                lives=list(lives.load(self.path).values()),
                seconds=self.config.getoption("--memwal-explore"),
            )
            folder: Path | None = self.config.getoption("--memwal-report")
            if folder is None:
                made.run()
            else:
                version = self.config.getoption("--native-version")
                place = folder / f"{EXPLORATION}-{self.revision}"
                files = reproducing.Reproductions(made.notebook, place, harness.settings, version)
                made.found = files.shown
                made.run()
                files.keep(made.covered)
        except BROKEN as error:
            return self.verdict(Verdict.HARNESS_ERROR, str(error))
        finally:
            harness.close()
        return self._result(made, session.levels[self.revision])

    def _result(self, made: ForeignExploration, levels: dict[str, str]) -> CaseResult:
        noted = made.notebook.findings
        cited = [finding_of(each) for each in noted if each.clauses]
        covered = [f"{name}: {words}" for name, words in made.covered.items()]
        lines = showing.listed(noted, made.notebook.implementation) + covered if noted else covered
        verdict = merged(verdict_of(each, levels) for each in noted) if made.runs else Verdict.INCONCLUSIVE
        return CaseResult(
            case=self.case,
            revision=self.revision,
            area=EXPLORATION,
            title=TITLE,
            clauses=tuple(sorted({clause for each in cited for clause in each.clauses})),
            verdict=verdict,
            findings=tuple(cited),
            text="" if verdict is Verdict.PASS else "\n".join(lines),
        )


def verdict_of(found: ForeignFinding, levels: Mapping[str, str]) -> Verdict:
    """What one finding comes to: by its clauses, or by its oracle if no clause is about it."""
    return level_of(finding_of(found), levels) if found.clauses else UNCITED.get(found.oracle, Verdict.FAIL)


def finding_of(found: ForeignFinding) -> Finding:
    """What was found, as a case has it."""
    return Finding(clauses=tuple(found.clauses), broken=found.sentence, ambiguity=found.note)
