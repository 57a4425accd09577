"""Findings: what exploration found, grouped by what is wrong, each with what shows it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memwal.errors import InvalidArgument
from memwal.words import counted, reason

from ..gate import CrashState, LogEntry
from ..sentences import without_places
from .decoded import ORACLES, lines_of
from .judging import Symptom
from .lived import Lived
from .lives import ForeignLife
from .plans import NO_FAULT, Plan

FILE = "findings.json"
FORMAT = 2
ORDER = ("rows", "answer", "structure", "recovery", "machine", "crash", "error", "hang")
"""Oracles by how much a symptom of theirs says: where one run shows several, the first one heads the finding."""
SEVERITY = {
    "rows": "critical",
    "answer": "critical",
    "recovery": "critical",
    "structure": "major",
    "machine": "major",
    "crash": "major",
    "error": "minor",
    "hang": "minor",
}
"""critical: a user loses rows, sees wrong ones, or cannot open the region or the table; major: what is stored breaks a
clause, or the process ends; minor: a call never ends, or in an error that is not due there."""
OBSERVED = "observed"
"""In place of these where the texts leave it open: no finding counts."""
NO_FILE = "there is none"
"""Of a finding that no file without our code can show."""
LOG_LINES = 40
"""Of the log, around the request that was hit, in a finding."""


@dataclass(slots=True, kw_only=True)
class ForeignFinding:
    """One thing that is wrong, and all that shows it."""

    number: int
    oracle: str
    words: str
    """What is wrong, without names and numbers."""
    hit: str
    """What was hit: class and operation of the request with the fault, ``order``, or ``no fault``."""
    severity: str
    clauses: list[str]
    note: str | None
    sentence: str
    """What happened, in one sentence."""
    detail: str
    """What was seen."""
    where: str
    life: dict[str, Any]
    plan: dict[str, Any]
    crash: int
    """The state that was looked at: that after so many changes of the store; -1: the whole run."""
    other_limits: bool = False
    """Only a process that recovers under another limit than the writer's sees it."""
    told: list[str]
    """What was asked, and what came of it."""
    log: list[dict[str, Any]]
    """The requests around what was hit."""
    consequences: list[str] = field(default_factory=list)
    """What else the same run shows."""
    after_s: float = 0.0
    """When it was believed and made small: seconds since the exploration began, and runs up to then."""
    after_runs: int = 0
    seen: int = 1
    """Runs that show it."""
    also: list[str] = field(default_factory=list)
    """Other plans that show it, in words; the first few."""
    cut: bool = False
    """The time to make it small was over before every operation had been left out once."""
    versions: list[str] = field(default_factory=list)
    alone: str = ""
    """Whether the file that needs none of our code shows it."""
    fresh: dict[str, str] = field(default_factory=dict)
    """Version -> what that file did in a fresh environment that had only the package."""
    decoded: list[str] = field(default_factory=list)
    """What is stored where the symptom was seen, decoded, if bytes are what it is about."""

    @property
    def has_file(self) -> bool:
        """Whether there is a file that needs none of our code."""
        return self.alone not in ("", NO_FILE)

    @property
    def came(self) -> str:
        """When it was found."""
        return f"after {self.after_s:.0f} s and {counted(self.after_runs, 'run')}"

    @property
    def undisturbed(self) -> bool:
        """Whether it needs no fault and no order of requests."""
        return self.hit == NO_FAULT

    def heads(self, other: Symptom | ForeignFinding) -> bool:
        """Whether it is about the same, and not about less: the writer's own limits are more than others."""
        return self.words == other.words and (other.other_limits or not self.other_limits)

    def about(self, symptoms: Sequence[Symptom]) -> bool:
        """Whether one of them heads it, or is a consequence of it."""
        return any(self.heads(each) or each.words in self.consequences for each in symptoms)

    def absorb(self, other: ForeignFinding) -> None:
        """Take over what shows another one."""
        self.seen += other.seen
        self.after_s, self.after_runs = min((self.after_s, self.after_runs), (other.after_s, other.after_runs))
        self.also = [*self.also, f"{other.life['name']}: {other.plan['words']}", *other.also][:ALSO_MOST]
        words = {self.words, *self.consequences}
        self.consequences += [each for each in other.consequences if each not in words]


ALSO_MOST = 12


@dataclass(slots=True)
class Notebook:
    """All findings of an exploration."""

    implementation: str
    version: str
    revision: str
    findings: list[ForeignFinding] = field(default_factory=list)

    @property
    def errors(self) -> list[ForeignFinding]:
        """The findings without those that the texts leave open."""
        return [each for each in self.findings if each.severity != OBSERVED]

    def known(self, symptoms: Sequence[Symptom], plan: Plan) -> ForeignFinding | None:
        """The finding that these symptoms of one run belong to; None if they are new.

        A finding without any fault is about what its symptom shows under faults, too. Otherwise the same kind of object
        has to be hit.
        """
        head = heading(symptoms)
        for found in self.findings:
            near = _class(found.hit) == _class(plan.hit)
            if (near and found.about(symptoms)) or (found.undisturbed and found.heads(head)):
                return found
        return None

    def again(self, found: ForeignFinding, symptoms: Sequence[Symptom], plan: Plan, life: ForeignLife) -> None:
        """Another run shows a finding."""
        found.seen += 1
        told = f"{life.name}: {plan.words}"
        if len(found.also) < ALSO_MOST and told not in found.also:
            found.also.append(told)
        heads = {found.words, *found.consequences}
        found.consequences += [words for words in dict.fromkeys(s.words for s in symptoms) if words not in heads]

    def add(
        self, symptoms: Sequence[Symptom], plan: Plan, lived: Lived, *, cut: bool, after: tuple[float, int] = (0.0, 0)
    ) -> ForeignFinding:
        """A new finding, from all symptoms of a run that showed it again. The most severe heads it.

        One without any fault takes the place of those that are about the same under faults. ``after``: the seconds and
        the runs that it took.
        """
        head = heading(symptoms)
        life = lived.life
        state = next((each for each in lived.states if head.order and each.order == head.order), None)
        found = ForeignFinding(
            number=0,
            oracle=head.oracle,
            words=head.words,
            hit=plan.hit,
            severity=SEVERITY[head.oracle] if head.note is None else OBSERVED,
            clauses=list(head.clauses) or _cause(symptoms),
            note=head.note,
            sentence=sentence(head, plan, lived),
            detail=head.detail,
            where=head.where,
            life=life.to_json(),
            plan=plan.to_json(),
            crash=-1 if state is None else state.index,
            other_limits=head.other_limits,
            told=list(lived.told),
            log=[entry.to_json() for entry in around(lived.log, plan, head.order)],
            consequences=[w for w in dict.fromkeys(s.words for s in symptoms) if w != head.words],
            after_s=round(after[0], 1),
            after_runs=after[1],
            cut=cut,
            versions=[self.version],
            decoded=_decoded(head, lived, state or lived.states[-1], self.revision),
        )
        self._take(found)
        return found

    def join(self, other: Notebook) -> None:
        """Take over the findings of another exploration of the same implementation, of which some are known here."""
        for each in other.findings:
            same = [
                one
                for one in self.findings
                if one.heads(each) and (one.undisturbed or _class(one.hit) == _class(each.hit))
            ]
            if same:
                same[0].absorb(each)
            else:
                self._take(each)

    def _take(self, found: ForeignFinding) -> None:
        """A new finding, under a number of its own, in the place of those that it says more than."""
        found.number = 1 + max((each.number for each in self.findings), default=0)
        absorbed = [each for each in self.findings if found.undisturbed and found.heads(each)]
        for each in absorbed:
            found.absorb(each)
        self.findings = [each for each in self.findings if each not in absorbed] + [found]

    def save(self, folder: Path, covered: dict[str, Any]) -> None:
        """Write ``findings.json``. The folder is made."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {"implementation": self.implementation, "version": self.version, "revision": self.revision}
        keep({"format": FORMAT, **about, "covered": covered, "findings": self.findings}, folder)


def _decoded(head: Symptom, lived: Lived, state: CrashState, revision: str) -> list[str]:
    if head.oracle not in ORACLES or not lived.region_ids:
        return []
    regions = [f"/{each}/" for each in lived.region_ids if each in head.detail] or [f"/{lived.region_ids[0]}/"]
    mine = {name: data for name, data in state.contents.objects.items() if regions[0] in name}
    return list(lines_of(mine, revision))


def _class(hit: str) -> str:
    """The class of the object that was hit; an order of requests is one by itself."""
    return hit.partition(" ")[0]


def heading(symptoms: Sequence[Symptom]) -> Symptom:
    """The symptom that says most; of equals the first one. An observation by a note comes last."""
    return min(symptoms, key=lambda each: (each.note is not None, ORDER.index(each.oracle), each.order))


def _cause(symptoms: Sequence[Symptom]) -> list[str]:
    """The clause that a run breaks where none speaks of what heads it: of what is stored rather than of recovery."""
    causes = sorted(symptoms, key=lambda each: each.oracle == "recovery")
    return [clause for each in causes if each.note is None for clause in each.clauses][:1]


def sentence(head: Symptom, plan: Plan, lived: Lived) -> str:
    """What happened, for people."""
    after = ""
    if head.order:
        made = next((entry for entry in lived.log if entry.order == head.order), None)
        after = f", and a crash behind {made.operation} {made.name}" if made is not None else ", and a crash"
    what = "No request fails" if plan.hit == NO_FAULT else plan.words[:1].upper() + plan.words[1:]
    seen = {"recovered": " for the process that recovers", "flushed": " after recovery and flush"}.get(head.where, "")
    return f"{what}{after}: {without_places(head.detail.splitlines()[0])}{seen}."


def around(log: Sequence[LogEntry], plan: Plan, order: int) -> list[LogEntry]:
    """The requests around those that a rule met, or around one of an order."""
    labels = {rule.label for rule in plan.rules}
    met = [number for number, entry in enumerate(log) if entry.rule in labels or (order and entry.order == order)]
    if not met:
        return list(log[-LOG_LINES:])
    first = max(0, min(met) - LOG_LINES // 4)
    last = max(max(met) + LOG_LINES // 4, first + LOG_LINES)
    return list(log[first : min(last, first + 3 * LOG_LINES)])


def keep(whole: dict[str, Any], folder: Path) -> None:
    """Write what `load` reads."""
    whole = {**whole, "findings": [asdict(each) for each in whole["findings"]]}
    (folder / FILE).write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(folder: Path) -> dict[str, Any]:
    """What `Notebook.save` wrote. Raises `InvalidArgument`."""
    file = folder / FILE if folder.is_dir() else folder
    try:
        whole = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        what = f"there are no findings at {file}"
        raise InvalidArgument(f"{what}: `memwal conformance explore --out FOLDER` writes them") from None
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{file} has no findings: {reason(error)}") from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise InvalidArgument(f"{file} is not a findings.json of format {FORMAT}")
    whole["findings"] = [ForeignFinding(**each) for each in whole["findings"]]
    return whole


def matters(findings: Iterable[ForeignFinding]) -> list[list[ForeignFinding]]:
    """Findings that are most likely one matter, the most severe first: what one shows is what another is about.

    They join where the same symptom heads both, or where a run of one shows what heads the other, whatever was hit.
    """
    rank = [*dict.fromkeys(SEVERITY.values()), OBSERVED]
    found: list[list[ForeignFinding]] = []
    for each in findings:
        near = [matter for matter in found if any(_one(each, other) for other in matter)]
        found = [matter for matter in found if matter not in near]
        found.append([*(other for matter in near for other in matter), each])
    whole = [sorted(matter, key=lambda each: (rank.index(each.severity), each.number)) for matter in found]
    return sorted(whole, key=lambda matter: (rank.index(matter[0].severity), matter[0].number))


def _one(one: ForeignFinding, other: ForeignFinding) -> bool:
    return one.words == other.words or one.words in other.consequences or other.words in one.consequences
