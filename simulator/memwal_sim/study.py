"""One exploration from beginning to end: scenario, setting, planted bugs and bounds in, verdict and trace out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import Any

from . import bugs as planting
from . import scenario as scenarios
from .bugs import Bug
from .exploration import Bounds, Exploration, Progress
from .explorer import explore
from .recording import engine_digest, record
from .scenario import Scenario, Setting
from .trace import Found, Header, Trace
from .world import Violation


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
    """Name of the one oracle whose violations count."""

    def setting(self) -> Setting:
        """Revision and interpretation, planted readings included; raises `InvalidArgument` for unknown names."""
        return scenarios.setting(self.revision, self.profile, {**self.readings, **planting.readings(self.bugs)})


@dataclass(frozen=True, slots=True)
class Finding:
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
            "violation": self._violation(),
            "seconds": round(run.seconds, 3),
            "rate": round(run.rate),
        }

    def _violation(self) -> dict[str, Any] | None:
        found = self.run.violation
        return None if found is None else {**as_dict(found), "steps": len(self.run.trace)}


def as_dict(violation: Violation) -> dict[str, Any]:
    """JSON-ready form of ``violation``."""
    return {**asdict(violation), "counterexample": dict(violation.counterexample)}


def recorded_in(header: Header) -> Study:
    """The study that recorded a trace with ``header``; raises `InvalidArgument` for names that there are not."""
    return Study(
        scenario=scenarios.find(header.scenario),
        revision=header.revision,
        profile=header.profile,
        readings=header.readings,
        bugs=planting.choose(header.bugs),
        bounds=Bounds(faults=header.faults, preemptions=header.preemptions),
        only=None if header.violation is None else header.violation.oracle,
    )


def carry_out(
    study: Study,
    *,
    check: bool = False,
    progress: Callable[[Progress], None] | None = None,
    title: str = "",
    description: str = "",
) -> Finding:
    """Explore, with the planted bugs in place; a violation is played again into a trace with ``title``."""
    setting = study.setting()
    with planting.planted(study.bugs):
        run = explore(study.scenario.build(setting), study.bounds, only=study.only, check=check, progress=progress)
        if run.violation is None:
            return Finding(study, run, None)
        steps, violation = record(study.scenario.build(setting), run.trace, study.only)
    header = Header(
        scenario=study.scenario.name,
        revision=study.revision,
        profile=study.profile,
        readings=dict(study.readings),
        bugs=tuple(bug.name for bug in study.bugs),
        faults=study.bounds.faults,
        preemptions=study.bounds.preemptions,
        engine=engine_digest(),
        title=title or run.violation.reason,
        description=description,
        violation=None
        if violation is None
        else Found(clause=violation.clause, oracle=violation.oracle, reason=violation.reason),
    )
    return Finding(study, run, Trace(header, steps))


def kill(bug: Bug) -> Finding:
    """Explore the scenario in which ``bug`` is to be found, with the oracle that is to find it alone."""
    return carry_out(
        Study(
            scenario=scenarios.find(bug.scenario),
            revision=bug.revision,
            bugs=(bug,),
            bounds=Bounds(faults=bug.faults),
            only=bug.oracle,
        )
    )


def killed(bug: Bug, run: Exploration) -> bool:
    """The run found a violation of the clause that ``bug`` names."""
    return run.violation is not None and run.violation.clause == bug.violated


def canary(study: Study) -> Finding:
    """``study`` without faults and with the canary in place: it has to be found, else ``study`` is void."""
    (bird,) = planting.choose([study.scenario.canary])
    return carry_out(replace(study, bugs=(bird,), bounds=replace(study.bounds, faults=0), only=bird.oracle))


def _digest(stores: frozenset[str]) -> str:
    return blake2b("".join(sorted(stores)).encode(), digest_size=8).hexdigest()
