"""Certificates: what the exploration of each scenario covered and found to hold, as figures that any run gives again.

``faults/certificates.json`` holds one for every scenario and revision. They are compared in tests: a change of the
engine, of a scenario or of the explorer that changes what is covered shows there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memwal.revisions import REVISIONS

from .. import parallel
from ..exploring.exploration import Bounds
from ..parallel import Workers
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


def keys(names: Iterable[str] | None = None) -> list[Key]:
    """The scenarios of these names, or all, under every revision. Raises as `memwal_sim.scenarios.scenario.find`."""
    wanted = sorted(scenarios.known() if names is None else {scenarios.find(name).name for name in names})
    return [(name, revision) for name in wanted for revision in REVISIONS]


def load(folder: Path) -> Mapping[Key, dict[str, Any]]:
    """The certificates in the folder of faults; none if there is no file."""
    path = folder / FILE
    known = json.loads(path.read_text("utf-8")) if path.exists() else []
    return {(each["scenario"], each["revision"]): each for each in known}


def renewed(wanted: Sequence[Key], workers: Workers) -> Iterator[tuple[Key, dict[str, Any]]]:
    """The certificates of ``wanted`` anew, by ``workers``, each as soon as it is there."""
    return parallel.each(certificate, wanted, workers)


def dumps(certificates: Mapping[Key, dict[str, Any]]) -> str:
    """The text of the file, ordered."""
    ordered = [certificates[key] for key in sorted(certificates)]
    return json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"
