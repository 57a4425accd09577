"""What the validation job found: one value, written as JSON, as a page, and on the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memwal.invariants.report import looked
from memwal.words import counted

from .beside import BesideReport
from .oracle import OracleComparison
from .proofs import Proof
from .timeline import Timeline
from .watching import HistoryReport

WRITE = "write through Spark"
BEFORE = "merged read, before the last merge"
AFTER = "merged read through Spark"
BASE = "base table by pylance"
ITS_OWN = "merged read by the writer's own reader"
"""Names of the phases whose rates the short forms of the report show."""

WRONG, UNPROVED = 1, 4
"""Exit codes of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One step of the job."""

    name: str
    seconds: float
    rows: int | None = None
    """Rows that the step handled, where a rate means something."""

    @property
    def rows_per_second(self) -> float | None:
        """``rows`` over ``seconds``."""
        return None if self.rows is None or not self.seconds else self.rows / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionResult:
    """One region after the job."""

    region_id: str
    values: dict[str, str | None]
    rows: int
    """Upserts that the successful attempt of its task wrote."""
    puts: int
    epoch: int
    """Claims of the region so far: each attempt of its task and the final flush made one."""
    generations: int
    """Generations ever flushed."""
    merged: int
    """Generations merged into the base table."""
    attempts: int
    """Attempts of its task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergerReport:
    """What the merger did while Spark wrote."""

    passes: int
    generations: int
    rows: int
    conflicts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What the invariants of `memwal.invariants` said."""

    when: str
    findings: tuple[str, ...]
    looked_at: tuple[tuple[str, int], ...] = ()
    """How many things of each kind."""

    @property
    def looked(self) -> str:
        """The same in words: ``1 table version, 5 files``."""
        return looked((kind, count) for kind, count in self.looked_at if count)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPhase:
    """What was said of another implementation after a phase: by the suite's judge, which reads bytes, or by the job."""

    when: str
    findings: tuple[str, ...]
    """Each begins with the clauses that are broken, where any is known."""
    choices: tuple[str, ...] = ()
    """What the texts leave open, each with the number of its note."""
    looked_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterReport:
    """Another implementation that wrote."""

    name: str
    version: str
    command: str
    helped: tuple[str, ...]
    """What its adapter, and this job, did for it."""
    phases: tuple[JudgedPhase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """Everything that the job found."""

    revision: str
    seed: int
    log: str
    """What the change log is."""
    sequence: str
    """Column of the log that says which row of a key is the last one."""
    keys: int
    """Keys that have a row in the end, by Spark's answer."""
    events: int
    """Rows of the log."""
    comparisons: tuple[OracleComparison, ...]
    phases: tuple[Phase, ...]
    faults: tuple[Proof, ...] = ()
    regions: tuple[RegionResult, ...] = ()
    meanwhile: MergerReport | None = None
    """None if the job only compared a table that was there already."""
    beside: BesideReport | None = None
    verified: tuple[VerifyResult, ...] = ()
    history: HistoryReport | None = None
    writer: WriterReport | None = None
    """None if the engine itself wrote."""
    timeline: Timeline | None = None
    unmerged_scanned: int | None = None
    """Generations that the first scan merged in memory."""
    collected: int | None = None
    """Merged generations that the collector deleted before the last reads."""
    peak_memory_bytes: int = 0
    """Largest resident memory of driver, JVM and Python workers together."""
    versions: dict[str, str] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    """What was asked for, as `memwal_spark.replaying` reads it; empty if the job only compared."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps the verdict from being "ok"."""
        return (*self.wrong, *self.unproved)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What is not as it has to be."""
        found = [comparison.summary for comparison in self.comparisons if not comparison.ok]
        found += [
            f"{v.when}: {counted(len(v.findings), 'finding')}, {v.findings[0]}" for v in self.verified if v.findings
        ]
        judged = self.writer.phases if self.writer is not None else ()
        found += [finding for phase in judged for finding in phase.findings]
        if self.history is not None and self.history.conflicts:
            found.append(f"impossible history: {self.history.conflicts[0]}")
        found += [proof.summary for proof in self.faults if proof.violated]
        return tuple(found) if self.comparisons else (*found, "nothing was compared")

    @property
    def unproved(self) -> tuple[str, ...]:
        """What the run was to show and did not: then rows that are right prove little."""
        found = [proof.summary for proof in self.faults if not proof.happened]
        if self.meanwhile is not None and not self.meanwhile.generations:
            found.append("no generation was merged while Spark wrote")
        if self.history is not None and not self.history.overlapping:
            found.append("no watched key was read before its last row was durable")
        if self.beside is not None and not (self.beside.collections and self.beside.looks):
            found.append("no collector or no invariant ran while Spark wrote")
        if self.unmerged_scanned == 0:
            found.append("the first scan met no unmerged generation")
        return tuple(found)

    @property
    def exit_code(self) -> int:
        """0: ok; `WRONG`, or `UNPROVED` where nothing else is to be said."""
        return WRONG if self.wrong else UNPROVED if self.unproved else 0

    @property
    def verdict(self) -> str:
        """``ok``, or what differs."""
        return "; ".join(self.problems) or "ok"

    @property
    def seconds(self) -> float:
        """Sum of all phases."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def generations(self) -> int:
        """Generations ever flushed, over all regions."""
        return sum(region.generations for region in self.regions)

    @property
    def rates(self) -> tuple[tuple[str, float], ...]:
        """Rows per second of the phases that write and read the table."""
        shown = (WRITE, BEFORE, AFTER, BASE)
        return tuple((p.name, p.rows_per_second) for p in self.phases if p.name in shown and p.rows_per_second)


def to_json(report: JobReport) -> dict[str, Any]:
    """The report as plain data, with the derived figures; the verdict comes first."""
    phases = [asdict(p) | {"rows_per_second": p.rows_per_second} for p in report.phases]
    comparisons = [asdict(c) | {"ok": c.ok} for c in report.comparisons]
    derived = {"seconds": report.seconds, "generations": report.generations, "problems": list(report.problems)}
    plain = asdict(report) | {"phases": phases, "comparisons": comparisons}
    return {"verdict": report.verdict, **derived, **plain}


def write_json(report: JobReport, path: Path) -> None:
    """Store `to_json` at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(to_json(report), indent=2) + "\n")


def region_label(values: Mapping[str, str | None]) -> str:
    """``bucket=3``, or ``manual`` for a region without values."""
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items()) or "manual"
