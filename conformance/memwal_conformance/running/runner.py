"""Runs a scenario: one adapter process per actor, steps in order, findings as they come."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from memwal.words import counted
from memwal_sim.following import RowsTold
from memwal_sim.histories.history import History
from memwal_sim.store import Contents

from ..adapters.aided import HelperRefused
from ..adapters.process import AdapterCrash, AdapterProcess, AdapterTimeout
from ..protocol import AdapterError, Json, ProtocolViolation, tells
from ..vectors import BadCase
from ..verdicts import FAILING, CaseResult, Finding, Verdict, level_of, merged
from . import checks, ending, machine, remembering
from .calls import LAST, Killed, PendingCall, SentMessage
from .checks import CheckContext
from .claims import Claims
from .scenarios import Names, SuiteScenario
from .testbed import FOLDER, Testbed

STOPPED = frozenset({"fenced", "conflict", "cancelled", "storage"})
"""Kinds of errors by which a writer stops. Where one of them is allowed, ``internal`` is: what an adapter could not put
under a kind is listed in the report, and what is stored is judged all the same."""

REACHED_S = 30.0
"""Limit for a rule to act while messages are under way, and for a message to end whose process was killed."""

ENDED_ITSELF = (-signal.SIGKILL, 137)
"""Exit statuses of a process that ``sync.crash`` ended."""


class Stop(Exception):
    """A step went wrong and the ones behind it depend on it."""


@dataclass(slots=True)
class ScenarioRun:
    """One run of a scenario."""

    scenario: SuiteScenario
    revision: str
    context: CheckContext
    start: Callable[[str], AdapterProcess]
    """Gives a configured adapter process to an actor."""
    testbed: Testbed | None = None
    """The gate, if the table is behind one."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of `configure`."""
    actors: dict[str, AdapterProcess] = field(default_factory=dict)
    sent: list[SentMessage] = field(default_factory=list)
    """In this order; nothing has waited for them yet."""
    findings: list[Finding] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    note: Callable[[Json], None] = lambda step: None
    """Is given each check and kill, as `memwal_conformance.verdicts.CaseResult.steps` has them."""
    unmapped: list[str] = field(default_factory=list)
    sent_meanwhile: str = ""
    """How many requests to the store an actor sent whose message was never answered, for the text of the verdict."""
    claims: Claims = field(default_factory=Claims)
    acknowledged: list[RowsTold] = field(default_factory=list)
    """What actors behind the gate said is stored, in order."""

    def step(self, step: Json) -> None:
        """Do one step. Raises `Stop`, and what a broken adapter raises."""
        if "check" in step:
            self._check(step)
        elif "kill" in step:
            self._kill(step["kill"])
        elif "send" in step:
            self._send(step)
        elif "await" in step:
            for sent in self.sent_to(step["await"])[:1]:
                self.sent.remove(sent)
                self._answered(sent)
        else:
            self._rule(step)

    def at_end(self) -> None:
        """What is looked at in every case, whatever its steps ask for. Raises what a broken adapter raises."""
        gone = {*(sent.actor for sent in self.sent), *(self.testbed.killed if self.testbed is not None else ())}
        self.findings += ending.at_end(self.looked(), [each for name, each in self.actors.items() if name not in gone])

    def sent_to(self, actor: str) -> list[SentMessage]:
        """What an actor was sent and nothing has waited for yet, in this order."""
        return [sent for sent in self.sent if sent.actor == actor]

    def witness(self, broken: str | None) -> None:
        """Note whether the run shows what it is to show; ``broken``: why it does not."""
        self.findings.append(Finding(clauses=(), broken=broken, witness=True))

    def stored_epoch(self, region_id: str) -> int:
        """Epoch in the newest manifest of a region, as the table is now."""
        return self.looked().stored_epoch(region_id)

    def looked(self) -> CheckContext:
        """The context, with the table as it is now."""
        if self.testbed is not None:
            self.context.root = self.testbed.look()
        return self.context

    def _check(self, step: Json) -> None:
        if "given" in step and step["given"] not in self.context.names.answers:
            return
        found = checks.look(self.looked(), step)
        self.findings += found
        for finding in found:
            self.note({"check": step["check"], "broken": finding.broken, "clauses": list(finding.clauses)})
            if finding.broken is not None:
                self.log.append(f"check {step['check']}: {finding.broken}")

    def _kill(self, name: str) -> None:
        calls: list[PendingCall] = []
        for sent in self.sent_to(name):
            self.sent.remove(sent)
            assert sent.call is not None
            if sent.call.over:
                self._answered(sent)
            else:
                calls.append(sent.call)
                self._remember(name, sent.params, sent.step["send"], "storage")
        died = self.actors.pop(name).kill()
        for call in calls:
            call.abandon()
            call.ended(REACHED_S)
        self.log.append(f"kill {name}")
        self.note({"kill": name, "died": died})
        self.witness(None if died else f"{name} did not run any more")

    def _rule(self, step: Json) -> None:
        """Arm a rule, wait for it, or let go what it holds."""
        assert self.testbed is not None
        ((word, label),) = ((word, step[word]) for word in ("arm", "reached", "release") if word in step)
        labels = [label] if isinstance(label, str) else label
        self.log.append(f"{word} {' or '.join(map(repr, labels))}")
        self.note({"rule": label, "what": word})
        if word == "arm":
            self.testbed.gate.arm(self.testbed.rules[label])
        elif word == "release":
            self.testbed.release(label)
        elif not self.testbed.reached(labels, REACHED_S, background="background" in step):
            self.log.append("  it did not act")
            if not self.testbed.optional.issuperset(labels):
                broken = f"the rule {label!r} never acted: what it waits for was not asked for"
                self.witness(broken)
                raise Stop

    def _send(self, step: Json) -> None:
        name, message = step["actor"], step["send"]
        if self.testbed is not None and name in self.testbed.killed:
            self.log.append(f"{name} {message}: not sent to the dead")
            return
        if "given" in step and step["given"] not in self.context.names.answers:
            self.log.append(f"{name} {message}: not sent, since nothing is called {step['given']}")
            return
        logged = len(self.testbed.gate.log) if self.testbed is not None else 0
        with self._counting(name, logged):
            self.begin(name)
        params = self.context.names.resolve(step.get("with", {}))
        overtaken = message in LAST and self.claims.overtaken(f"{name} {params['writer']}", self.stored_epoch)
        if message == "writer.open":
            self.claims.sent()
        call = None
        if self.testbed is not None:
            call = PendingCall(self.actors[name], message, params, logged)
            self.testbed.sent(name, call)
        sent = SentMessage(step=step, params=params, call=call, overtaken=overtaken)
        if step.get("meanwhile"):
            self.log.append(f"{name} {message}: sent")
            self.sent.append(sent)
        else:
            self._answered(sent)

    def begin(self, name: str) -> None:
        """Have the process of an actor ready."""
        if name not in self.actors:
            self.actors[name] = self._process(name)

    def _process(self, name: str) -> AdapterProcess:
        process = self.start(name)
        if self.testbed is not None:
            self.testbed.processes[name] = process
            storage = self.testbed.storage(name)
            process.call("configure", {"revision": self.revision, "settings": dict(self.settings), "storage": storage})
        return process

    def _answered(self, sent: SentMessage) -> None:
        """Wait for the answer to a message, and hold it against the step that sent it."""
        step, name, message = sent.step, sent.actor, sent.step["send"]
        clauses = tuple(step.get("clauses", self.scenario.clauses if "fails" in step else ()))
        try:
            with self._counting(name, sent.call.logged if sent.call is not None else 0):
                answer = sent.call.result() if sent.call is not None else self.actors[name].call(message, sent.params)
        except AdapterError as error:
            self._refused(sent, error)
            return
        except (AdapterCrash, Killed) as ended:
            if "dies" in step and isinstance(ended, AdapterCrash) and ended.status in ENDED_ITSELF:
                self._remember(name, sent.params, message, "storage")
                self.log.append(f"{name} {message}: {name} ended")
                self.actors.pop(name)
                self.witness(None)
                return
            if self.testbed is None or name not in self.testbed.killed:
                raise
            self._remember(name, sent.params, message, "storage")
            self.log.append(f"{name} {message}: {name} was killed")
            return
        self._remember(name, sent.params, message, None)
        self.log.append(f"{name} {message}: done")
        if "dies" in step:
            self.witness(f"{name} answered {message}, and was to end in it")
        if "fails" in step:
            broken = f"{name}'s {message} succeeded, expected {' or '.join(step['fails'])}"
            self._found(step, clauses, broken, explained="succeeds" in step.get("ambiguity", ()))
        elif sent.learns and (sent.overtaken or self.claims.followed(f"{name} {sent.params['writer']}")):
            told = f"{name}'s {message} says OK, although another writer has claimed the region"
            self.findings.append(Finding(clauses=("FENCE-011",), broken=told, ambiguity="AMB-29"))
        elif clauses:
            self.findings.append(Finding(clauses=clauses, broken=None))
        if message == "writer.open":
            self.claims.answered(f"{name} {answer['writer']}", answer)
        elif message == "writer.flush_memtable" and not sent.overtaken:
            self.claims.flushed(f"{name} {sent.params['writer']}", self.stored_epoch)
        if "as" in step:
            self.context.names.answers[step["as"]] = answer

    @contextmanager
    def _counting(self, name: str, logged: int) -> Iterator[None]:
        """Where a message is never answered, note how many requests its actor has sent since so many were logged."""
        try:
            yield
        except AdapterTimeout:
            if self.testbed is not None:
                mine = [entry for entry in self.testbed.gate.log[logged:] if entry.actor == name]
                self.sent_meanwhile = f"\n{name} sent {counted(len(mine), 'request')} to the store meanwhile"
                self.sent_meanwhile += f", the last of them {mine[-1].operation} {mine[-1].name}" if mine else ""
            raise

    def hung(self, name: str, limit_s: float) -> NoReturn:
        """Raise what a process raises that never answers, for the first message of an actor that has no answer."""
        assert self.testbed is not None
        mine = [call for actor, call in self.testbed.under_way if actor == name]
        call = next((call for call in mine if not call.over), mine[-1])
        with self._counting(name, call.logged):
            raise AdapterTimeout(call.message, limit_s, self.actors[name].stderr_tail())

    def _refused(self, sent: SentMessage, error: AdapterError) -> None:
        step, name, message = sent.step, sent.actor, sent.step["send"]
        clauses = tuple(step.get("clauses", ()))
        self._remember(name, sent.params, message, error.kind)
        self.log.append(f"{name} {message}: {error}")
        self.unmapped += [error.native] if error.kind == "internal" else []
        allowed: list[str] = step.get("fails") or step.get("may_fail") or []
        if error.kind in allowed or (error.kind == "internal" and not STOPPED.isdisjoint(allowed)):
            self.findings.append(Finding(clauses=clauses, broken=None))
            return
        expected = f"expected {' or '.join(step['fails'])}" if "fails" in step else "expected success"
        if isinstance(error, HelperRefused):
            self.witness(f"{name}'s {message} ended in {error}")
            raise Stop from None
        explained = error.kind in step.get("ambiguity", {}).get("fails", ())
        told = clauses if explained or tells(message, error) else ()
        self._found(step, told, f"{name}'s {message} ended in {error}, {expected}", explained=explained)
        if not explained:
            raise Stop from None

    def _found(self, step: Json, clauses: tuple[str, ...], broken: str, *, explained: bool) -> None:
        note = step["ambiguity"]["note"] if explained else None  # the outcome that the note names, and no other
        self.findings.append(Finding(clauses=clauses, broken=broken, ambiguity=note))

    def _remember(self, actor: str, params: Json, message: str, error: str | None) -> None:
        remembering.remember(self.context, actor, message, params, error, self.claims)
        if self.testbed is not None and error is None:
            log = self.testbed.gate.log
            told = remembering.told_stored(self.context, actor, message, params, log[-1].order if log else 0)
            self.acknowledged += [] if told is None else [told]


def run(
    scenario: SuiteScenario,
    revision: str,
    *,
    folder: Path,
    start: Callable[[str], AdapterProcess],
    finish: Callable[[AdapterProcess], None],
    levels: dict[str, str],
    case: str,
    note: Callable[[Json], None] = lambda step: None,
    watch: Callable[[Callable[[], int]], None] = lambda seen: None,
    settings: Mapping[str, str] | None = None,
    contents: Contents | None = None,
    history: History | None = None,
    between: Callable[[ScenarioRun], None] | None = None,
) -> CaseResult:
    """Run a scenario in an empty folder and give its result; ``note`` is given each check and kill.

    ``watch`` is given, behind the gate, what counts the requests that have been logged so far.
    ``finish`` takes back the processes of a run in which every adapter kept to the protocol; others are killed.
    ``settings``: of `configure`, for scenarios behind the gate. ``contents`` and ``history``: what is in the bucket of
    the gate at the beginning, and the writes that made it. ``between``: is called after the steps, and then what the
    scenario has for afterwards is done.
    """
    testbed = Testbed(folder, scenario.rules or (), contents) if scenario.gated else None
    with testbed or nullcontext():
        root = folder / "table"
        names = Names(scenario, str(root) if testbed is None else testbed.table, {})
        context = CheckContext(root, revision, names, scenario.primary_key, history or History())
        if testbed is not None:
            context.storage = testbed.gate.storage_options("judge")
            watch(lambda: len(testbed.gate.log))
        running = ScenarioRun(scenario, revision, context, start, testbed, settings or {}, note=note)
        broken = _broken(running, lambda: _run_steps(running, between)) or _broken(running, running.at_end)
        requests = _witnessed(running, testbed) if testbed is not None else ()
        for name, actor in running.actors.items():
            _leave(running, name, finish) if broken is None else actor.kill()
        found = result(running, levels, case, broken)
        return replace(found, requests=requests, scenario=scenario.described if scenario.gated else None)


def _run_steps(running: ScenarioRun, between: Callable[[ScenarioRun], None] | None) -> None:
    """Do all steps, up to one on which those behind it depend."""
    try:
        for step in running.scenario.steps_of(running.revision):
            running.step(step)
        if between is not None:
            between(running)
            for step in running.scenario.afterwards:
                running.step(step)
        for sent in running.sent:
            raise BadCase(f"{running.scenario.file.name}: no later step awaits {sent.actor}")
    except Stop:
        running.witness("the steps behind it were not run")


def _broken(running: ScenarioRun, does: Callable[[], None]) -> tuple[Verdict, str] | None:
    """A verdict and a text if an adapter, or the case, is broken."""
    try:
        does()
    except AdapterCrash as crash:
        return Verdict.CRASH, str(crash)
    except AdapterTimeout as hung:
        return Verdict.HANG, f"{hung}{running.sent_meanwhile}"
    except (ProtocolViolation, BadCase) as error:
        return Verdict.HARNESS_ERROR, str(error)
    return None


def _witnessed(running: ScenarioRun, testbed: Testbed) -> tuple[Json, ...]:
    """The log of the gate. A rule that never acted, and whatever else makes the run void, is a broken witness."""
    if void := testbed.gate.inconclusive_without(testbed.optional):
        running.witness(void)
    running.findings += machine.looked(testbed.gate, running.revision, FOLDER, running.acknowledged)
    return tuple(entry.to_json() for entry in testbed.gate.log)


def _leave(running: ScenarioRun, name: str, finish: Callable[[AdapterProcess], None]) -> None:
    """Take an actor back, while the gate still answers what it has to say when everything that is open is dropped."""
    process = running.actors[name]
    if running.testbed is None:
        finish(process)
    elif name in running.testbed.killed or running.sent_to(name):
        process.kill()
    else:
        ending.take_back(process, {"revision": running.revision, "settings": dict(running.settings)}, finish)


def result(running: ScenarioRun, levels: dict[str, str], case: str, broken: tuple[Verdict, str] | None) -> CaseResult:
    """Add up the findings of a run. What the scenario is about holds if nothing went wrong."""
    verdicts = [level_of(finding, levels) for finding in running.findings]
    if broken is None and not FAILING & set(verdicts):
        running.findings.append(Finding(clauses=running.scenario.clauses, broken=None))
        verdicts.append(Verdict.PASS)
    lines: list[str] = [broken[1]] if broken is not None else []
    for finding, verdict in zip(running.findings, verdicts, strict=True):
        if verdict is not Verdict.PASS:
            cited = "witness" if finding.witness else ", ".join(finding.clauses)
            lines.append(f"{verdict}{f' [{cited}]' if cited else ''} {finding.broken}")
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
