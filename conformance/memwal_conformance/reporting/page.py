"""The report as one self-contained page, which refers to nothing outside itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..protocol import Json
from ..registry.clauses import GROUPS, Clause, clauses
from ..registry.levels import levels_of, words
from ..sentences import without_names
from ..vectors import REVISIONS
from ..verdicts import MEANING, CaseResult, Finding, Verdict, level_of
from . import report
from .failures import kept, name
from .finished import Finished
from .picture import ROW, Picture, answered, draw

TEXT_MAX = 1_500
"""Characters of one message that the page shows; the rest is in ``run.jsonl``."""
CALM = {
    True: ("conforms", "ok"),
    False: ("does not conform", "bad"),
    None: ("not shown", "odd"),
}
"""What the page says about a revision, by `memwal_conformance.reporting.report.Tally.conforms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case as the page shows it."""

    anchor: str
    result: CaseResult
    picture: Picture | None
    why: str
    """Why the verdict is not PASS; without the list of steps where there is a picture."""
    steps: tuple[Shown, ...]
    packed: str
    """Path of the packed failure beside the page; empty if the case did not fail."""
    words: str
    """Text that the search looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One message in full."""

    number: int
    actor: str
    message: str
    answer: str
    seconds: float
    params: str
    outcome: str
    bad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFinding:
    """One thing that is wrong, and the cases that show it."""

    verdict: Verdict
    sentence: str
    clauses: tuple[str, ...]
    note: str | None
    cases: tuple[CaseResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseLine:
    """One clause of the matrix."""

    clause: Clause
    cells: tuple[tuple[tuple[Verdict, int], ...], ...]
    """For each revision that was run, how many cases came to which verdict, worst first."""
    worst: Verdict


def templates() -> Environment:
    """The templates of this folder; what a page names and does not get is an error."""
    return Environment(
        loader=PackageLoader(__package__ or ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(found: Finished) -> str:
    """The page."""
    environment = templates()
    environment.filters["px"] = lambda number: f"{number:g}"
    environment.filters["plain"] = lambda verdict: str(verdict).replace("_", " ").lower()
    environment.filters["once"] = lambda values: list(dict.fromkeys(values))
    statements = {clause.id: clause for clause in clauses()}
    environment.filters["said"] = lambda cited: statements[cited].statement if cited in statements else words(cited)
    revisions = [tally.revision for tally in found.tallies]
    lines = matrix(found.results, revisions, statements)
    verdicts = Counter(result.verdict for result in found.results)
    return environment.get_template("report.html.j2").render(
        hello=found.hello,
        sentences=[
            (t, report.sentence(found.hello, t).partition("; broken: ")[0], *CALM[t.conforms]) for t in found.tallies
        ],
        findings=findings(found.results),
        anchor=name,
        revisions=revisions,
        verdicts=[(v, verdicts[v], MEANING[v]) for v in reversed(Verdict) if verdicts[v]],
        areas=areas(found.results),
        lines=lines,
        groups=[(group, title, mine) for group, title in GROUPS.items() if (mine := _of(lines, group))],
        cases=[_case(result) for result in sorted(found.results, key=_place)],
        statements=statements,
        folded=(Verdict.PASS, Verdict.UNSUPPORTED),
        unsupported=Verdict.UNSUPPORTED,
        row=ROW,
        style=asset("report.css"),
        script=asset("report.js"),
    )


def findings(results: Iterable[CaseResult]) -> list[PageFinding]:
    """What is wrong, worst first and then by how many cases show it: one for all that is said in the same words."""
    seen: dict[tuple[Verdict, str, tuple[str, ...]], list[tuple[CaseResult, Finding]]] = {}
    for result in results:
        levels = levels_of(result.revision)
        for each in result.findings:
            if each.broken is not None and not each.witness:
                key = level_of(each, levels), without_names(each.broken), each.clauses
                seen.setdefault(key, []).append((result, each))
    found = []
    for (verdict, _, cited), shown in seen.items():
        first = shown[0][1]
        cases = tuple({result.case: result for result, _ in shown}.values())
        sentence = (first.broken or "").splitlines()[0]
        found.append(PageFinding(verdict=verdict, sentence=sentence, clauses=cited, note=first.ambiguity, cases=cases))
    return sorted(found, key=lambda each: (-list(Verdict).index(each.verdict), -len(each.cases)))


def matrix(results: Iterable[CaseResult], revisions: Iterable[str], known: dict[str, Clause]) -> list[ClauseLine]:
    """A line for each clause that some case looked at, in the registry's order."""
    counted: Counter[tuple[str, str, Verdict]] = Counter()
    for result in results:
        for clause, verdict in report.by_clause(result, levels_of(result.revision)).items():
            counted[clause, result.revision, verdict] += 1
    seen = {clause for clause, _, _ in counted}
    lines = []
    for id_, described in known.items():
        if id_ in seen:
            cells = tuple(
                tuple((v, n) for v in reversed(Verdict) if (n := counted[id_, revision, v])) for revision in revisions
            )
            worst = next(v for v in reversed(Verdict) if any(v is one for cell in cells for one, _ in cell))
            lines.append(ClauseLine(clause=described, cells=cells, worst=worst))
    return lines


def areas(results: Iterable[CaseResult]) -> tuple[list[Verdict], list[tuple[str, str, list[int]]]]:
    """Verdicts that occur, and for each revision and area how many cases came to each of them."""
    counted = Counter((result.revision, result.area, result.verdict) for result in results)
    shown = [verdict for verdict in Verdict if any(v is verdict for _, _, v in counted)]
    places = sorted({(revision, area) for revision, area, _ in counted})
    return shown, [(revision, area, [counted[revision, area, v] for v in shown]) for revision, area in places]


def _of(lines: Iterable[ClauseLine], group: str) -> list[ClauseLine]:
    return [line for line in lines if line.clause.group == group]


def _place(result: CaseResult) -> tuple[int, int, bool, str]:
    """Worst first; then by revision, scenarios before vectors, by name."""
    severity = list(Verdict).index(result.verdict)
    return -severity, REVISIONS.index(result.revision), result.area != "scenario", result.case


def _case(result: CaseResult) -> Case:
    anchor = name(result)
    picture = draw(result)
    texts = (result.case, result.title, result.area, result.revision, *result.clauses, result.text)
    return Case(
        anchor=anchor,
        result=result,
        picture=picture,
        why=result.text if picture is None else result.text.partition("\nsteps:\n")[0],
        steps=tuple(_shown(n, step) for n, step in enumerate(result.steps, 1) if "message" in step),
        packed=kept(result),
        words=" ".join(texts).lower()[:2_000],
    )


def _shown(number: int, step: Json) -> Shown:
    answer, bad = answered(step)
    return Shown(
        number=number,
        actor=step["actor"],
        message=step["message"],
        answer=_cut(answer, 100),
        seconds=step["seconds"],
        params=_cut(json.dumps(step["params"], ensure_ascii=False)),
        outcome=_cut(json.dumps(next(iter(step["outcome"].values())), ensure_ascii=False)),
        bad=bad,
    )


def _cut(text: str, most: int = TEXT_MAX) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} characters more in run.jsonl)"


def asset(file: str) -> Any:
    return (resources.files(__package__ or "") / "templates" / file).read_text("utf-8")
