"""Runs a scenario: one adapter process per actor, steps in order, findings as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import checks
from .adapters.process import AdapterCrash, AdapterProcess, AdapterTimeout
from .checks import Scene
from .oracle import Fate, History
from .protocol import AdapterError, Json, ProtocolViolation
from .scenarios import Names, Scenario, plain_rows
from .vectors import BadCase
from .verdicts import FAILING, CaseResult, Finding, Verdict, level_of, merged

WRITES = ("writer.put", "writer.delete")
SYNCS = ("writer.flush_wal", "writer.flush_memtable", "writer.close")
"""Messages whose success makes durable what the writer had buffered."""


class _Stop(Exception):
    """A step went wrong and the ones behind it depend on it."""


@dataclass(slots=True)
class Run:
    """One run of a scenario."""

    scenario: Scenario
    revision: str
    scene: Scene
    start: Callable[[str], AdapterProcess]
    """Gives a configured adapter process to an actor."""
    actors: dict[str, AdapterProcess] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    unmapped: list[str] = field(default_factory=list)

    def step(self, step: Json) -> None:
        """Do one step. Raises `_Stop`, and what a broken adapter raises."""
        if "check" in step:
            found = checks.look(self.scene, step)
            self.findings += found
            for finding in found:
                if finding.broken is not None:
                    self.log.append(f"check {step['check']}: {finding.broken}")
        elif "kill" in step:
            died = self.actors.pop(step["kill"]).kill()
            self.log.append(f"kill {step['kill']}")
            broken = None if died else f"{step['kill']} did not run any more"
            self.findings.append(Finding(clauses=(), broken=broken, witness=True))
        else:
            self._send(step)

    def _send(self, step: Json) -> None:
        name, message = step["actor"], step["send"]
        if name not in self.actors:
            self.actors[name] = self.start(name)
        params = self.scene.names.resolve(step.get("with", {}))
        clauses = tuple(step.get("clauses", ()))
        try:
            answer = self.actors[name].call(message, params)
        except AdapterError as error:
            self._note(name, params, message, error)
            self.log.append(f"{name} {message}: {error}")
            if error.kind == "internal":
                self.unmapped.append(error.native)
            if error.kind in step.get("fails", ()):
                self.findings.append(Finding(clauses=clauses or self.scenario.clauses, broken=None))
                return
            expected = f"expected {' or '.join(step['fails'])}" if "fails" in step else "expected success"
            self._found(step, clauses, f"{name}'s {message} ended in {error}, {expected}")
            raise _Stop from None
        self._note(name, params, message, None)
        self.log.append(f"{name} {message}: done")
        if "fails" in step:
            self._found(step, clauses, f"{name}'s {message} succeeded, expected {' or '.join(step['fails'])}")
        elif clauses:
            self.findings.append(Finding(clauses=clauses, broken=None))
        if "as" in step:
            self.scene.names.answers[step["as"]] = answer

    def _found(self, step: Json, clauses: tuple[str, ...], broken: str) -> None:
        finding = Finding(
            clauses=clauses or self.scenario.clauses,
            broken=broken,
            ambiguity=step.get("ambiguity"),
        )
        self.findings.append(finding)

    def _note(self, actor: str, params: Json, message: str, error: AdapterError | None) -> None:
        """Keep the history of writes. An invalid argument means that nothing was written."""
        history = self.scene.history
        writer = f"{actor} {params.get('writer', '')}"
        if message == "table.create" and error is None:
            history.put("", plain_rows(params["rows"]), "acknowledged")
        elif message in SYNCS and error is None:
            history.made_durable(writer)
        elif message in WRITES and (error is None or error.kind != "invalid_argument"):
            sent = "rows" if message == "writer.put" else "keys"
            plain = plain_rows({**params[sent], "columns": self._named(params[sent]["columns"])})
            fate: Fate = "failed" if error is not None else "acknowledged" if params["durable"] else "buffered"
            if fate == "acknowledged":
                history.made_durable(writer)
            record = history.put if message == "writer.put" else history.delete
            record(writer, plain, fate)

    def _named(self, columns: list[Json]) -> list[Json]:
        """Columns of a write that was accepted: if they have the table's types, they count by place, not by name."""
        known = self.scenario.schema
        same = [column["type"] for column in columns] == [column["type"] for column in known]
        return known if same else columns


def run(
    scenario: Scenario,
    revision: str,
    *,
    folder: Path,
    start: Callable[[str], AdapterProcess],
    finish: Callable[[AdapterProcess], None],
    levels: dict[str, str],
    case: str,
) -> CaseResult:
    """Run a scenario in an empty folder and give its result.

    ``finish`` takes back the processes of a run in which every adapter kept to the protocol; others are killed.
    """
    root = folder / "table"
    names = Names(scenario, str(root), {})
    scene = Scene(root, revision, names, History(scenario.primary_key))
    running = Run(scenario, revision, scene, start)
    broken: tuple[Verdict, str] | None = None
    try:
        for step in scenario.steps_of(revision):
            running.step(step)
    except _Stop:
        running.findings.append(Finding(clauses=(), broken="the steps behind it were not run", witness=True))
    except AdapterCrash as crash:
        broken = Verdict.CRASH, str(crash)
    except (AdapterTimeout, ProtocolViolation, BadCase) as error:
        broken = Verdict.HARNESS_ERROR, str(error)
    finally:
        for actor in running.actors.values():
            finish(actor) if broken is None else actor.kill()
    return result(running, levels, case, broken)


def result(running: Run, levels: dict[str, str], case: str, broken: tuple[Verdict, str] | None) -> CaseResult:
    """Add up the findings of a run. What the scenario is about holds if nothing went wrong."""
    verdicts = [level_of(finding, levels) for finding in running.findings]
    if broken is None and not FAILING & set(verdicts):
        running.findings.append(Finding(clauses=running.scenario.clauses, broken=None))
        verdicts.append(Verdict.PASS)
    lines: list[str] = [broken[1]] if broken is not None else []
    for finding, verdict in zip(running.findings, verdicts, strict=True):
        if verdict is not Verdict.PASS:
            cited = ", ".join(finding.clauses) or "witness"
            lines.append(f"{verdict} [{cited}] {finding.broken}")
    if lines:
        lines += ["steps:", *(f"  {line}" for line in running.log)]
    scenario = running.scenario
    return CaseResult(
        case=case,
        revision=running.revision,
        area="scenario",
        title=scenario.title,
        clauses=scenario.cited(running.revision),
        verdict=merged([*verdicts, *([broken[0]] if broken is not None else [])]),
        findings=tuple(running.findings),
        text="\n".join(lines),
        unmapped=tuple(running.unmapped),
    )
