"""One exploration from beginning to end: scenario, setting, planted bugs and bounds in, verdict and trace out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from memwal.errors import check_name
from memwal.revisions import REVISIONS
from memwal.violations import Violation

from .. import bugs as planting
from .. import workloads
from ..bugs import Bug
from ..exploring.exploration import Bounds, Exploration, ExplorationProgress
from ..exploring.explorer import explore
from ..following import Refinement
from ..outcomes import FATES, FAULTS
from ..scenarios import scenario as scenarios
from ..scenarios.scenario import Scenario, ScenarioSetting
from ..world import REFINEMENT, World
from .recording import engine_digest, record
from .shrinking import shrink
from .trace import Found, Header, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is to be explored, and how far."""

    scenario: Scenario
    revision: str = "B"
    profile: str = "strict"
    readings: Mapping[str, bool | int | str] = field(default_factory=dict)
    """Fields of the interpretation on top of the profile's."""
    bugs: tuple[Bug, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    only: str | None = None
    """Count only violations that this oracle finds."""
    liveness: bool = False
    """Whether it is asked in every state too that everything can come to its end."""
    refine: bool = False
    """Whether every change of the store has to be a step of the abstract machine; always so where that is asked for."""

    def world(self) -> World:
        """The world to explore, anew. Raises `InvalidArgument` if no oracle of it is called `only`."""
        world = self.scenario.build(self.setting())
        if self.liveness:
            world = replace(world, oracles=(*world.oracles, *world.liveness))
        if self.refine or REFINEMENT in (self.only, *(bug.oracle for bug in self.bugs)):
            world = replace(world, step=Refinement(REVISIONS[self.revision]))
        names = world.names()
        if self.only is not None and names is not None:
            check_name(f"oracle in {self.scenario.name}", self.only, sorted(names))
        return world

    def setting(self) -> ScenarioSetting:
        """Revision and interpretation, planted readings included; raises `InvalidArgument` for unknown names."""
        return scenarios.setting(self.revision, self.profile, {**self.readings, **planting.readings(self.bugs)})


@dataclass(frozen=True, slots=True)
class StudyResult:
    """What a study found."""

    study: Study
    run: Exploration
    trace: Trace | None
    """The shortest history that ends in the violation, if there is one."""

    def certificate(self) -> dict[str, Any]:
        """JSON-ready summary. All but ``seconds`` and ``rate`` are equal in every run with the same engine."""
        run, bounds = self.run, self.study.bounds
        return {
            "scenario": self.study.scenario.name,
            "revision": self.study.revision,
            "profile": self.study.profile,
            "readings": dict(self.study.readings),
            "bugs": [bug.name for bug in self.study.bugs],
            "faults": bounds.faults,
            "kinds": sorted(kind.label for kind in bounds.kinds) if bounds.faults else [],
            "preemptions": bounds.preemptions,
            "reduced": bounds.reduce and bounds.preemptions is None,
            "merged": bounds.merge,
            "liveness": self.study.liveness,
            "oracle": self.study.only,
            "engine": engine_digest(),
            "complete": run.complete,
            "limit": run.limit,
            "states": run.states,
            "transitions": run.transitions,
            "depth": run.depth,
            "stores": run.stores,
            "histories": run.histories,
            "ends": run.ends,
            "terminal_states": run.terminal_states,
            "terminal_stores": len(run.terminal_stores),
            "terminal_digest": _digest(run.terminal_stores),
            "interleavings": run.interleavings,
            "unseen": self.unseen,
            "violation": self._violation(),
            "seconds": round(run.seconds, 3),
            "rate": round(run.rate),
        }

    @property
    def unseen(self) -> list[str]:
        """Events that some history of the scenario has to have, and none had."""
        return [event for event in self.study.scenario.sometimes if event not in self.run.events]

    def _violation(self) -> dict[str, Any] | None:
        found = self.run.violation
        return None if found is None else {**found.as_json(), "steps": len(self.run.trace)}


def recorded_in(header: Header) -> Study:
    """The study that recorded a trace with ``header``; raises `InvalidArgument` for names that there are not."""
    return Study(
        scenario=workloads.scenario_of(workloads.find(header.scenario), header.actors)
        if header.actors
        else scenarios.find(header.scenario),
        revision=header.revision,
        profile=header.profile,
        readings=header.readings,
        bugs=planting.choose(header.bugs),
        bounds=Bounds(
            faults=header.faults,
            kinds=frozenset(FATES[label] for label in header.kinds) or FAULTS,
            preemptions=header.preemptions,
            reduce=False,
            merge=True,
        ),
        only=None if header.violation is None else header.violation.oracle,
    )


def carry_out(
    study: Study,
    *,
    check: bool = False,
    progress: Callable[[ExplorationProgress], None] | None = None,
    title: str = "",
    description: str = "",
) -> StudyResult:
    """Explore, with the planted bugs in place; a violation is replayed again into a trace with ``title``."""
    with planting.planted(study.bugs):
        run = explore(study.world(), study.bounds, only=study.only, check=check, progress=progress)
        if run.violation is None:
            return StudyResult(study, run, None)
        if study.bounds.reduce and study.bounds.preemptions is None:
            run = _shortest(study, run, run.violation)
        steps, violation = record(study.world(), run.trace, run.violation.oracle if run.violation else study.only)
    return StudyResult(study, run, Trace(header(study, violation, title, description), steps))


def _shortest(study: Study, found: Exploration, violation: Violation) -> Exploration:
    """What the same oracle finds where no step is left out, and so after a shortest history.

    If that is too much within the bounds, ``found`` with its history made small.
    """
    bounds = replace(study.bounds, reduce=False, merge=True)
    run = explore(study.world(), bounds, only=violation.oracle)
    if run.violation is not None:
        return run
    small = shrink(study.world(), found.trace, clause=violation.clause, oracle=violation.oracle)
    return replace(found, trace=small.moves, violation=small.violation)


def header(study: Study, violation: Violation | None, title: str, description: str) -> Header:
    """The header of a trace of ``study`` that ends in ``violation``; without a ``title`` its reason is the title."""
    found = None
    if violation is not None:
        found = Found(clause=violation.clause, oracle=violation.oracle, reason=violation.reason)
        title = title or violation.reason
    return Header(
        scenario=study.scenario.name,
        revision=study.revision,
        profile=study.profile,
        readings=dict(study.readings),
        bugs=tuple(bug.name for bug in study.bugs),
        faults=study.bounds.faults,
        preemptions=study.bounds.preemptions,
        engine=engine_digest(),
        title=title,
        description=description,
        violation=found,
        kinds=() if study.bounds.kinds == FAULTS else tuple(kind.label for kind in sorted(study.bounds.kinds)),
    )


def killing(bug: Bug) -> Study:
    """The scenario of ``bug``, for its oracle alone. No step is left out, so that the trace is a shortest."""
    scenario = scenarios.find(bug.scenario)
    bounds = Bounds(
        faults=bug.faults,
        kinds=bug.kinds or scenario.kinds,
        preemptions=scenario.preemptions,
        reduce=False,
        merge=True,
    )
    return Study(scenario=scenario, revision=bug.revision, bugs=(bug,), bounds=bounds, only=bug.oracle)


def classes(finding: StudyResult) -> Iterator[Trace]:
    """A trace for each class of histories that the exploration returned, in order."""
    study = finding.study
    with planting.planted(study.bugs):
        for number, moves in enumerate(finding.run.classes, 1):
            steps, violation = record(study.world(), moves, study.only)
            yield Trace(header(study, violation, f"class {number} of {study.scenario.name}", ""), steps)


def kill(bug: Bug, *, title: str = "", description: str = "") -> StudyResult:
    """Carry out `killing`."""
    return carry_out(killing(bug), title=title, description=description)


def surviving(bug: Bug) -> Study:
    """The same without ``bug`` and with all oracles: it has to be complete and without a violation."""
    study = killing(bug)
    return replace(study, bugs=(), bounds=replace(study.bounds, reduce=True), only=None)


def killed(bug: Bug, run: Exploration) -> bool:
    """The run found a violation of the clause that ``bug`` names."""
    return run.violation is not None and run.violation.clause == bug.violated


def canary(study: Study) -> StudyResult:
    """``study`` without faults and with the canary in place: it has to be found, else ``study`` is void."""
    (bird,) = planting.choose([study.scenario.canary])
    bounds = replace(study.bounds, faults=0, reduce=False, merge=True)
    return carry_out(replace(study, bugs=(bird,), bounds=bounds, only=bird.oracle))


def _digest(stores: frozenset[str]) -> str:
    return blake2b("".join(sorted(stores)).encode(), digest_size=8).hexdigest()
