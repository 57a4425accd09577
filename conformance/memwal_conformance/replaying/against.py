"""``memwal explore replay FILE --against ADAPTER``: recorded faults, scenarios, packed failures, run by an adapter."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from memwal.cli import endings
from memwal.errors import InvalidArgument
from memwal.words import reason
from memwal_sim.traces.trace import Trace
from memwal_sim.traces.trace import load as load_trace

from .. import vectors
from ..adapters.harness import Harness, command_of
from ..adapters.process import AdapterCrash, AdapterMissing, AdapterTimeout
from ..protocol import AdapterError, Hello, Json, ProtocolViolation
from ..registry.levels import levels_of
from ..running import runner, scenarios
from ..running.cases import CaseRunner, variants
from ..vectors import BadCase
from ..verdicts import CaseResult, Finding, Verdict, level_of
from .scripts import NotPortable
from .translating import TranslatedFault, translated

PASSED, FAILED, USAGE, OPEN = 0, 1, 2, 3
"""Exit codes: nothing is broken; something is; the file or the adapter cannot be used; nothing is shown."""
LIMIT_S = 60.0
_STATUS = {
    Verdict.PASS: PASSED,
    Verdict.OBSERVED: PASSED,
    Verdict.WARN: PASSED,
    Verdict.REFUSED: FAILED,
    Verdict.FAIL: FAILED,
    Verdict.CRASH: FAILED,
}
"""Of the others nothing is known: `OPEN`."""
_PACKED = "memwal failure 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one file."""

    file: str
    title: str
    revision: str
    verdict: Verdict
    clauses: tuple[str, ...]
    """Those that are broken."""
    stops: tuple[int, int] | None
    """How many stops of a recorded fault were made, of how many; None for other files."""
    text: str


def replay(file: Path, adapter: str, *, revision: str | None = None, as_json: bool = False) -> int:
    """Run ``file`` against an adapter, print what came of it, and return the exit code.

    ``adapter``: ``reference``, ``native``, or the command of one. ``revision``: that of the file if the implementation
    has it, else the first one that it has.
    """
    try:
        answers = replayed(file, command_of(adapter), revision)
    except NotPortable as error:
        typer.echo(json.dumps({"file": file.name, "not_portable": str(error)}) if as_json else f"not portable: {error}")
        return OPEN
    except (InvalidArgument, BadCase, OSError, AdapterMissing) as error:
        _, sentence = endings.ending(error) or (USAGE, f"error: {reason(error)}")
        typer.echo(sentence, err=True)
        return USAGE
    except (AdapterCrash, AdapterTimeout, ProtocolViolation, AdapterError) as error:
        typer.echo(f"error: the adapter breaks the protocol: {error}", err=True)
        return OPEN
    for answer in answers:
        _show(answer, as_json=as_json)
    return max(_STATUS.get(answer.verdict, OPEN) for answer in answers)


def replayed(file: Path, command: Sequence[str], revision: str | None = None) -> list[Answer]:
    """What comes of ``file``: one answer, or one for each part of it. Raises `NotPortable`, and for files `BadCase`."""
    harness = Harness(command=tuple(command), limit_s=LIMIT_S, settings={})
    try:
        with tempfile.TemporaryDirectory(prefix="memwal-replay-") as folder:
            return _replayed(file, harness, revision, Path(folder))
    finally:
        harness.close()


def _replayed(file: Path, harness: Harness, revision: str | None, folder: Path) -> list[Answer]:
    described = _described(file)
    if described is None:
        trace = load_trace(file)
        return [
            recorded(trace, file.stem, harness, _chosen(harness.hello(), revision, (trace.header.revision,)), folder)
        ]
    if described.get("format") == _PACKED and "vector" in described:
        return [_vector(described, harness, folder, file.name)]
    wanted = (described["revision"],) if described.get("format") == _PACKED else ()
    scenario = scenarios.made(described.get("scenario", described), file)
    chosen = _chosen(harness.hello(), revision, wanted or scenario.revisions)
    if chosen not in scenario.revisions:
        raise NotPortable(
            f"{file.name} is for revision {', '.join(scenario.revisions)}, and the adapter was asked for {chosen}"
        )
    cases = _case_runner(harness, chosen, folder, file.name)
    if missing := scenario.missing(chosen, harness.hello()):
        raise NotPortable(f"the adapter does not claim {', '.join(missing)}")
    results = [cases.run(scenario, variant) for variant in variants(scenario)]
    return [_answer(file.name, result, None) for result in results]


def _described(file: Path) -> Json | None:
    """The JSON object in the file; None for what may be a trace, which is several."""
    try:
        found: Any = json.loads(file.read_text("utf-8"))
    except ValueError:
        return None
    return found if isinstance(found, dict) and "engine" not in found else None


def _chosen(hello: Hello, revision: str | None, wanted: Sequence[str]) -> str:
    if revision is not None and revision not in hello.revisions:
        raise InvalidArgument(f"the adapter does not speak revision {revision!r}")
    return revision or next((r for r in wanted if r in hello.revisions), hello.revisions[0])


def recorded(trace: Trace, name: str, harness: Harness, revision: str, folder: Path) -> Answer:
    """What becomes of a recorded fault. Raises `NotPortable`."""
    fault = translated(trace, name, revision)
    if missing := _unmet(fault, revision, harness.hello()):
        raise NotPortable(f"the adapter does not claim {', '.join(missing)}")
    place = folder / name
    place.mkdir()
    result = runner.run(
        fault.scenario,
        revision,
        folder=place,
        start=lambda actor: harness.actor(actor, revision),
        finish=harness.finish,
        levels=levels_of(revision),
        case=name,
        contents=fault.contents,
        history=fault.history,
    )
    return _answer(name, *witnessed(fault, result))


def _unmet(fault: TranslatedFault, revision: str, hello: Hello) -> list[str]:
    return fault.scenario.missing(revision, hello)


def witnessed(fault: TranslatedFault, result: CaseResult) -> tuple[CaseResult, tuple[int, int]]:
    """The result and how many stops were made of how many. If there were some and none was made, nothing is shown."""
    acted = {request["rule"] for request in result.requests}
    made = sum(any(label in acted for label in labels) for labels in fault.stops)
    if fault.stops and not made and result.verdict is Verdict.PASS:
        text = "no stop was made as recorded: the implementation asks for other things"
        witness = Finding(clauses=(), broken=text, witness=True)
        result = replace(result, verdict=Verdict.INCONCLUSIVE, text=text, findings=(*result.findings, witness))
    return result, (made, len(fault.stops))


def _case_runner(harness: Harness, revision: str, folder: Path, case: str) -> CaseRunner:
    return CaseRunner(
        revision=revision,
        folder=folder,
        start=lambda name: harness.actor(name, revision),
        finish=harness.finish,
        levels=levels_of(revision),
        settings={},
        case=case,
    )


def _vector(packed: Json, harness: Harness, folder: Path, name: str) -> Answer:
    """Write a packed vector down as the suite has it, and ask the adapter."""
    described = packed["vector"]
    place = folder.joinpath(*Path(packed["case"].partition("::")[0]).parts[-4:-1])
    for path, data in described["input"].items():
        target = place / "input" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base64.b64decode(data))
    place.mkdir(parents=True, exist_ok=True)
    (place / "case.json").write_text(json.dumps(described["case"]), "utf-8")
    (place / "expected.json").write_text(json.dumps(described["expected"]), "utf-8")
    vector, direction = vectors.load(place / "case.json"), described["direction"]
    if missing := vectors.missing(vector, direction, harness.hello()):
        raise NotPortable(f"the adapter does not claim {', '.join(missing)}")
    configured = vectors.configured(vector, harness.hello())
    finding = vectors.run(vector, direction, harness.shared(configured).call)
    verdict = level_of(finding, levels_of(vector.revision))
    broken = vector.clauses if finding.broken is not None else ()
    return Answer(
        file=name,
        title=vector.title,
        revision=vector.revision,
        verdict=verdict,
        clauses=tuple(broken),
        stops=None,
        text=finding.broken or "",
    )


def _answer(name: str, result: CaseResult, stops: tuple[int, int] | None) -> Answer:
    broken = [clause for found in result.findings if found.broken is not None for clause in found.clauses]
    return Answer(
        file=name,
        title=result.title,
        revision=result.revision,
        verdict=result.verdict,
        clauses=tuple(dict.fromkeys(broken)),
        stops=stops,
        text=result.text,
    )


def _show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        shown = {"file": answer.file, "title": answer.title, "revision": answer.revision, "verdict": answer.verdict}
        typer.echo(json.dumps({**shown, "clauses": answer.clauses, "stops": answer.stops, "text": answer.text}))
        return
    typer.echo(answer.title)
    if answer.stops is not None:
        typer.echo(f"{answer.stops[0]} of {answer.stops[1]} stops were made as recorded")
    broken = f" [{', '.join(answer.clauses)}]" if answer.clauses else ""
    typer.echo(f"{answer.verdict} under revision {answer.revision}{broken}")
    if answer.text:
        typer.echo(answer.text)
