"""What a run came to: a table of area and verdict, one sentence per revision, and ``summary.json``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..protocol import ROLES, Hello
from ..registry.levels import notes_of, words
from ..verdicts import BY_LEVEL, FAILING, CaseResult, Finding, Verdict, level_of, merged

UNSETTLED = (Verdict.UNSUPPORTED, *sorted(FAILING - {Verdict.FAIL}, key=list(Verdict).index))
"""Verdicts that a case gives to all of its clauses, whatever single findings say."""
NOT_IN_SUMMARY = ("steps", "requests", "scenario")
"""Parts of a result that are in ``run.jsonl`` and the page, not in ``summary.json``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The clauses and verdicts of one revision."""

    revision: str
    must: tuple[str, ...]
    """MUST clauses that some case looked at, or should have."""
    held: tuple[str, ...]
    """Those of them that held wherever they were looked at."""
    broken: tuple[str, ...]
    verdicts: Mapping[Verdict, int]
    ran: int
    total: int
    """Cases of the revision in the suite that was collected, before any selection."""
    roles: tuple[str, ...]
    """Roles that some case tested. Vectors ask for names, values and bytes only."""

    @property
    def acts(self) -> bool:
        """Whether some role was tested. Revision 0 has none."""
        return bool(self.roles) or self.revision == "0"

    @property
    def conforms(self) -> bool | None:
        """True: shown. False: refuted. None: neither, as where no role was tested."""
        if self.broken or any(self.verdicts[v] for v in (Verdict.FAIL, Verdict.REFUSED, Verdict.CRASH)):
            return False
        unsettled = sum(self.verdicts[v] for v in (Verdict.INCONCLUSIVE, Verdict.HANG, Verdict.HARNESS_ERROR))
        shown = self.acts and len(self.held) == len(self.must) > 0 and not unsettled and self.ran == self.total
        return True if shown else None


def tally(revision: str, results: Sequence[CaseResult], levels: Mapping[str, str], total: int) -> Tally:
    """Add up the cases of one revision.

    A clause holds if some finding showed it and none broke it. Clauses of an unsettled case count as not held unless
    another case settled them; unsupported cases count for nothing.
    """
    held: set[str] = set()
    lost: set[str] = set()
    looked_at: set[str] = set()
    for result in results:
        if result.verdict is Verdict.UNSUPPORTED:
            continue
        looked_at |= set(result.clauses)
        settled = result.verdict not in UNSETTLED
        for finding in result.findings:
            looked_at |= set(finding.clauses)
            verdict = level_of(finding, levels)
            if verdict is Verdict.FAIL:
                lost |= {c for c in finding.clauses if levels[c] == "MUST"}
            elif settled and verdict in (Verdict.PASS, Verdict.OBSERVED):
                held |= set(finding.clauses)
    must = {clause for clause in looked_at if levels[clause] == "MUST"}
    return Tally(
        revision=revision,
        must=tuple(sorted(must)),
        held=tuple(sorted((held & must) - lost)),
        broken=tuple(sorted(lost & must)),
        verdicts=Counter(result.verdict for result in results),
        ran=len(results),
        total=total,
        roles=tuple(role for role in ROLES if any(role in result.roles for result in results)),
    )


def with_notes(result: CaseResult) -> CaseResult:
    """The result, whose text says what the notes have to say that each broken finding may be about.

    They are those under which the finding is open, or else those that limit its clauses: where the texts are silent or
    contradict each other, an implementer may have read them in another way.
    """
    broken = [finding for finding in result.findings if finding.broken is not None and not finding.witness]
    found = dict.fromkeys(note for f in broken for note in ((f.ambiguity,) if f.ambiguity else notes_of(f.clauses)))
    if not found:
        return result
    why, steps, log = result.text.partition("\nsteps:\n")
    return replace(result, text="\n".join([why, "notes:", *(f"  {words(note)}" for note in found)]) + steps + log)


def by_clause(result: CaseResult, levels: Mapping[str, str]) -> dict[str, Verdict]:
    """What one case says about each clause that it looked at: the most severe of its findings."""
    found: dict[str, list[Verdict]] = {}
    if result.verdict in UNSETTLED:
        found = {clause: [result.verdict] for clause in result.clauses}
    for finding in result.findings:
        for clause in finding.clauses:
            verdict = Verdict.PASS if finding.chosen is None else Verdict.OBSERVED
            if finding.broken is not None:
                verdict = Verdict.OBSERVED if finding.ambiguity is not None else BY_LEVEL[levels[clause]]
            found.setdefault(clause, []).append(verdict)
    return {clause: merged(verdicts) for clause, verdicts in found.items()}


ASKED = {
    False: "no role claimed, so that only names, values and bytes were asked for",
    True: "no role tested, so that only names, values and bytes were asked for",
}
"""What stands for the roles where none was tested, whether some are claimed or not."""


COUNTED = {
    Verdict.OBSERVED: "observed",
    Verdict.UNSUPPORTED: "unsupported",
    Verdict.REFUSED: "refused",
    Verdict.HANG: "never answered",
    Verdict.CRASH: "crashed",
}
"""Verdicts that the sentence counts where there are any, and in which words."""


def sentence(hello: Hello, tallied: Tally) -> str:
    """The one sentence about a revision."""
    words = {True: "conforms", False: "does not conform", None: "was not shown to conform"}[tallied.conforms]
    tested = [how for role, how in hello.claimed.items() if role in tallied.roles]
    roles = f"roles {', '.join(tested)}" if tested else ASKED[bool(hello.claimed)]
    if tallied.revision == "0":
        roles = "which has no roles"
    counts = tallied.verdicts
    text = (
        f"{hello.implementation} {words} to revision {tallied.revision}, {roles}: "
        f"{len(tallied.held)} of {len(tallied.must)} MUST, {counts[Verdict.WARN]} warnings, "
        f"{counts[Verdict.INCONCLUSIVE]} inconclusive"
    )
    for verdict, name in COUNTED.items():
        if counts[verdict]:
            text += f", {counts[verdict]} {name}"
    if counts[Verdict.HARNESS_ERROR]:
        text += f", {counts[Verdict.HARNESS_ERROR]} harness errors"
    if tallied.ran < tallied.total:
        text += f"; a selection: {tallied.ran} of {tallied.total} cases ran"
    untested = [how for role, how in hello.claimed.items() if role not in tallied.roles]
    if untested and tallied.revision != "0":
        text += f"; claimed and not tested: {', '.join(untested)}"
    if tallied.revision in ("A", "B") and "writer" in tallied.roles and not hello.answers("eval.bloom"):
        text += "; not looked into: what its bloom filters say, for want of eval.bloom"
    if tallied.conforms is None:
        text += f"; neither shown nor refuted: {', '.join(_open(tallied))}"
    lent = [role for role in hello.lent if role in ROLES and tallied.roles]  # tiers 0 and 1 need none
    if lent and tallied.revision != "0":
        text += f"; played by another: {', '.join(lent)}"
    if tallied.broken:
        text += f"; broken: {', '.join(tallied.broken)}"
    return text


def _open(tallied: Tally) -> Iterator[str]:
    """Why conformance was neither shown nor refuted."""
    counts = tallied.verdicts
    if tallied.ran < tallied.total:
        yield "not all cases ran"
    if not tallied.acts:
        yield "no role was tested"
    if counts[Verdict.INCONCLUSIVE]:
        yield "what inconclusive cases are about was not seen"
    if counts[Verdict.HANG]:
        yield "some messages were never answered"
    if counts[Verdict.HARNESS_ERROR]:
        yield "the adapter broke the protocol, or the suite failed"
    if not tallied.must:
        yield "no MUST was looked at"
    elif len(tallied.held) < len(tallied.must):
        yield f"{len(tallied.must) - len(tallied.held)} MUST were looked at and not settled"


def lacking(missing: Iterable[Iterable[str]]) -> str:
    """Messages and parameters that cases need and that are not claimed, each with the number of its cases."""
    counted = Counter(name for names in missing for name in names)
    return ", ".join(f"{name} ({count})" for name, count in counted.most_common())


def table(results: Iterable[CaseResult]) -> list[str]:
    """Area x verdict, per revision, as lines of text; only verdicts that occur get a column."""
    cells: Counter[tuple[str, str, Verdict]] = Counter((r.revision, r.area, r.verdict) for r in results)
    shown = [verdict for verdict in Verdict if any(v is verdict for _, _, v in cells)]
    head = ["", *(v.replace("_", " ").lower() for v in shown)]
    places = sorted({(revision, area) for revision, area, _ in cells})
    body = [[f"{r} {a}", *(str(cells[r, a, v] or "·") for v in shown)] for r, a in places]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    return [_line(row, widths) for row in [head, *body]]


def _line(row: list[str], widths: list[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)])


def summary(hello: Hello, tallies: Iterable[Tally], results: Iterable[CaseResult]) -> dict[str, Any]:
    """Content of ``summary.json``: numbers, sentences, and every case with its findings."""
    return {
        "implementation": hello.implementation,
        "version": hello.version,
        "roles": list(hello.roles),
        "partial": list(hello.partial),
        "without": list(hello.without),
        "helped": list(hello.helped),
        "lent": list(hello.lent),
        "capabilities": sorted(hello.capabilities),
        "revisions": {
            t.revision: {
                "conforms": t.conforms,
                "sentence": sentence(hello, t),
                "must": list(t.must),
                "held": list(t.held),
                "broken": list(t.broken),
                "verdicts": {verdict: t.verdicts[verdict] for verdict in Verdict if t.verdicts[verdict]},
                "ran": t.ran,
                "total": t.total,
            }
            for t in tallies
        },
        "cases": [_short(result) for result in results],
    }


def _short(result: CaseResult) -> dict[str, Any]:
    return {name: value for name, value in asdict(result).items() if name not in NOT_IN_SUMMARY}


def to_text(result: CaseResult) -> str:
    """A result as one JSON line, to travel with a test report."""
    return json.dumps(asdict(result))


def from_text(text: str) -> CaseResult:
    """Inverse of `to_text`."""
    read = json.loads(text)
    read["verdict"] = Verdict(read["verdict"])
    read["findings"] = tuple(Finding(**{**f, "clauses": tuple(f["clauses"])}) for f in read["findings"])
    for name in ("clauses", "unmapped", "steps", "roles", "requests"):
        read[name] = tuple(read[name])
    return CaseResult(**read)
