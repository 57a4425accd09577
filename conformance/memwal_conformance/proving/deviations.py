"""What subjects are told to do otherwise, and what the suite has to say of it: ``conformance/deviations.toml``.

A *subject* is an adapter that can be told to deviate: the second subject, in another language, and the adapter of the
reference. A deviation that the texts permit must come to the verdict that the file names, a forbidden one to FAIL.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import vectors
from ..adapters.harness import Harness, players
from ..places import SUITE
from ..registry.levels import levels_of
from ..registry.texts import entries
from ..running import runner, scenarios
from ..verdicts import Finding, Verdict, level_of

FILE = SUITE / "deviations.toml"
NODE = shutil.which("node")
SUBJECTS = {
    "node": (NODE or "node", str(SUITE / "subjects" / "node" / "adapter.mjs"), "--deviation"),
    "reference": (sys.executable, "-m", "memwal_conformance.proving.broken"),
}
"""Subject -> the command that starts it, which the name of a deviation ends."""
LIMIT_S = 60
VERDICTS = frozenset({Verdict.PASS, Verdict.OBSERVED, Verdict.WARN, Verdict.FAIL})
"""What may be said of a deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One way to deviate."""

    name: str
    says: str
    """What is done otherwise, in one sentence."""
    of: tuple[str, ...]
    """Subjects that have it."""
    cases: tuple[str, ...]
    """Cases that tell, as pytest names them below ``conformance/``."""
    breaks: str | None = None
    """The clause that each of the cases must report as broken; None: the texts permit it."""
    verdict: Verdict = Verdict.PASS
    """What each of the cases comes to."""
    open: str | None = None
    """Why the suite does not judge it well yet; None: it does."""


def deviations(file: Path = FILE) -> dict[str, Deviation]:
    """All deviations by name. Raises `InvalidArgument` for an entry that cannot be read, and for two of one name."""
    found: dict[str, Deviation] = {}
    for entry in entries(file, "deviation", "name"):
        breaks = entry.maybe("breaks", str)
        said = entry.text("verdict", Verdict.PASS if breaks is None else Verdict.FAIL)
        deviation = Deviation(
            name=entry.text("name"),
            says=entry.text("says"),
            of=entry.names("of"),
            cases=entry.names("cases"),
            breaks=breaks,
            open=entry.maybe("open", str),
            verdict=next((verdict for verdict in VERDICTS if verdict == said), Verdict.HARNESS_ERROR),
        )
        entry.close()
        if deviation.name in found or not set(deviation.of) <= set(SUBJECTS) or deviation.verdict not in VERDICTS:
            raise entry.wrong("the name is used twice, or there is no such subject or verdict")
        if (deviation.verdict is Verdict.FAIL) is (breaks is None):
            raise entry.wrong("what fails names the clause that it breaks, and what is permitted names none")
        found[deviation.name] = deviation
    return found


def judged(
    case: str, command: Sequence[str], folder: Path, settings: dict[str, str]
) -> tuple[Verdict, tuple[Finding, ...]]:
    """Verdict and findings of one case for an adapter, in processes of its own.

    The suite plays the roles that it does not claim: a message that is not answered says nothing of a deviation.
    """
    file, _, what = case.partition("::")
    harness = Harness(command=tuple(command), limit_s=LIMIT_S, settings=settings, roles_by=players("suite"))
    harness.hello()
    try:
        if file.startswith("vectors/"):
            vector = vectors.load(SUITE / file)
            finding = vectors.run(vector, what, harness.shared(vector.revision).call)
            return level_of(finding, levels_of(vector.revision)), (finding,)
        result = runner.run(
            scenarios.load(SUITE / file),
            what,
            folder=folder,
            start=lambda actor: harness.actor(actor, what),
            finish=harness.finish,
            levels=levels_of(what),
            case=case,
        )
        return result.verdict, result.findings
    finally:
        harness.close()


def broken_clauses(findings: Sequence[Finding]) -> set[str]:
    """Clauses of the expectations that did not hold."""
    return {clause for finding in findings if finding.broken is not None for clause in finding.clauses}


def wrong(deviation: Deviation, case: str, verdict: Verdict, broken: Collection[str]) -> str | None:
    """What is wrong with the suite that says this of a deviation; None if it judges well."""
    said = f"{deviation.name} ({deviation.says}): {case} came to {verdict}"
    if verdict is not deviation.verdict:
        return f"{said}, not {deviation.verdict}; broken: {', '.join(sorted(broken)) or 'nothing'}"
    if deviation.breaks is not None and deviation.breaks not in broken:
        return f"{said} for {', '.join(sorted(broken)) or 'nothing'}, and not for {deviation.breaks}"
    return None
