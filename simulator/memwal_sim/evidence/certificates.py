"""Certificates: what the exploration of each scenario covered and found to hold, as figures that any run gives again.

``faults/certificates.json`` holds one for every scenario and revision. They are compared in tests: a change of the
engine, of a scenario or of the explorer that changes what is covered shows there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from memwal.revisions import REVISIONS

from .. import parallel
from ..exploring.exploration import Bounds
from ..scenarios import scenario as scenarios
from ..scenarios.scenario import Scenario
from ..traces.study import Study, StudyResult, carry_out

FILE = "certificates.json"
"""Name of the file in the folder of faults."""
VOLATILE = ("engine", "seconds", "rate")
"""Fields that differ from run to run, or with every change of the engine."""
Key = tuple[str, str]
"""Scenario and revision."""


def study(scenario: Scenario, revision: str) -> Study:
    """The exploration that a certificate is about: no faults, the scenario's own bound, all oracles, liveness too."""
    bounds = Bounds(preemptions=scenario.preemptions, reduce=True, merge=True)
    return Study(scenario=scenario, revision=revision, bounds=bounds, liveness=True, refine=True)


def certificate(key: Key) -> dict[str, Any]:
    """The certificate of a scenario under a revision, without what differs from run to run."""
    name, revision = key
    return stable(carry_out(study(scenarios.find(name), revision)))


def stable(finding: StudyResult) -> dict[str, Any]:
    """What a certificate keeps of ``finding``."""
    return {field: value for field, value in finding.certificate().items() if field not in VOLATILE}


def keys() -> list[Key]:
    """Every scenario under every revision."""
    return [(name, revision) for name in sorted(scenarios.known()) for revision in REVISIONS]


def load(folder: Path) -> Mapping[Key, dict[str, Any]]:
    """The certificates in the folder of faults; none if there is no file."""
    path = folder / FILE
    known = json.loads(path.read_text("utf-8")) if path.exists() else []
    return {(each["scenario"], each["revision"]): each for each in known}


def renewed(jobs: int, done: Callable[[Key], None]) -> Iterator[dict[str, Any]]:
    """All certificates anew, ``jobs`` at a time; ``done`` is told of each."""
    for key, found in parallel.each(certificate, keys(), jobs):
        done(key)
        yield found


def dumps(certificates: Iterator[dict[str, Any]]) -> str:
    """The text of the file, ordered."""
    ordered = sorted(certificates, key=lambda each: (each["scenario"], each["revision"]))
    return json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"
