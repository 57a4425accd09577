"""A crash at each step of each workflow: what was stored by then, and whether fresh processes can continue from there.

A crashed process is one that is never scheduled again. Reads leave no trace in the store, so that a crash before or
after a read is one after the last change: for a workflow of n changes there are n + 1 places to crash, and one history
for each. After the crash others recover, finish the work, and read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import data, workloads
from ..actor import Actor
from ..data import DataTable
from ..names import operation, symbolic
from ..process import Ended
from ..scenarios import scenario as scenarios
from ..simulation import Simulation
from ..traces.gallery import DANGEROUS
from ..workloads.clients import actor_of
from .schedules import Advance, Example


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Work that may end in a crash anywhere."""

    area: str
    name: str
    """Of its folder."""
    workload: str
    """What is there when it begins."""
    what: str
    """What is done, as the subject of a sentence with its verb: ``a writer …``."""
    why: str
    """What a crash could break, and which clauses say that it does not."""
    worker: Actor
    start: str | None = None
    """The request with which the work begins; None: its first."""
    rescue: Sequence[Actor]
    """The processes that run after the crash, one after another."""
    state: Mapping[str, Any]
    """What has to be so at the end."""
    unless: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What has to be so instead after a crash at these places."""
    dangerous: int
    """The place to look at first, in revision B."""


@dataclass(frozen=True, slots=True)
class CrashPlace:
    """A place to crash."""

    number: int
    """Changes of the store that were made."""
    last: str | None
    """The last of them; None: there was none."""
    times: int
    """How often that request was made up to here, this time included."""
    following: str | None
    """The next request, which is never made; None: the work is done."""


def places(workflow: Workflow, revision: str = "B") -> Iterator[CrashPlace]:
    """All places to crash, in order."""
    simulation = begun(workflow, revision)
    yield CrashPlace(0, None, 0, _waiting(simulation, workflow))
    made: list[str] = []
    number = 0
    while (asked := _waiting(simulation, workflow)) is not None:
        before = simulation.contents
        simulation.step(workflow.worker.name)
        made.append(asked)
        if simulation.contents != before:
            number += 1
            yield CrashPlace(number, asked, made.count(asked), _waiting(simulation, workflow))
    pause = simulation.running[workflow.worker.name].pause
    assert isinstance(pause, Ended), pause
    assert pause.failure is None, pause.failure


def begun(workflow: Workflow, revision: str = "B") -> Simulation:
    """The workflow's world when its work begins."""
    scenario = workloads.scenario_of(workloads.find(workflow.workload), (workflow.worker, *workflow.rescue))
    simulation = Simulation(scenario.build(scenarios.setting(revision)))
    while workflow.start is not None and _waiting(simulation, workflow) != workflow.start:
        simulation.step(workflow.worker.name)
    return simulation


def _waiting(simulation: Simulation, workflow: Workflow) -> str | None:
    request = simulation.waiting(workflow.worker.name)
    return None if request is None else f"{operation(request)} {symbolic(request.path)}"


def examples(revision: str = "B") -> Iterator[Example]:
    """All crashes of all workflows."""
    for workflow in WORKFLOWS:
        for place in places(workflow, revision):
            yield example(workflow, place, revision)


def example(workflow: Workflow, place: CrashPlace, revision: str = "B") -> Example:
    """The history of a crash at ``place``."""
    worker = workflow.worker.name
    where = "before anything is stored" if place.last is None else f"after {_spoken(place.last)}"
    left = "nothing was left to do" if place.following is None else f"{_spoken(place.following)} would have been next"
    state = {**workflow.state, **workflow.unless.get(place.number, {})}
    title = DANGEROUS if (place.number, revision) == (workflow.dangerous, "B") else "A crash"
    steps = [] if workflow.start is None else [Advance(actor=worker, before=workflow.start)]
    steps += [Advance(actor=worker, after=place.last)] * place.times
    steps.append(
        Advance(
            actor=worker,
            before=place.following,
            says=f"{worker} crashes {where}: {left}",
            state={"ended": {worker: "done" if place.following is None else "has not ended"}},
        )
    )
    steps += [Advance(actor=actor.name) for actor in workflow.rescue[:-1]]
    steps.append(
        Advance(
            actor=workflow.rescue[-1].name, says="What was acknowledged is there, and the work is done", state=state
        )
    )
    return Example(
        path=f"{workflow.area}/crashes/{workflow.name}/{place.number:02d}_{_slug(place.last)}",
        workload=workflow.workload,
        revision=revision,
        title=f"{title} in {workflow.name.replace('_', ' ')}: {where}",
        description=(
            f"{workflow.what} It crashes {where}, and no acknowledgement is sent; {left}. {workflow.why}"
            f" {_list(each.name for each in workflow.rescue)} start from what is stored. The outcome must be that each"
            " acknowledged row is there, and that the work completes."
        ),
        actors=(workflow.worker, *workflow.rescue),
        steps=tuple(steps),
    )


_SPOKEN = {
    "put_if_absent": "creating",
    "put": "writing",
    "delete": "deleting",
    "copy": "copying",
    "rename_if_absent": "renaming",
    "get": "reading",
    "head": "looking for",
    "list": "listing",
    "list_folders": "listing",
}


def _spoken(request: str) -> str:
    verb, _, path = request.partition(" ")
    return f"{_SPOKEN[verb]} {_LONG.sub('*', path)}"


def _slug(request: str | None) -> str:
    """The object of ``request`` as part of a file name, without random parts; what is deleted or renamed says so."""
    if request is None:
        return "before_the_first"
    verb, _, path = request.partition(" ")
    known = _LONG.sub("", path.partition(".")[0])
    words = [] if verb.startswith("put") else [verb.partition("_")[0]]
    return "_".join([*words, *_WORD.findall(known)])


_LONG = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{20,}|[0-9a-f]{8,}(?=_gen_)")
"""What is random in a name, or too long for one."""
_WORD = re.compile(r"[a-z0-9]+")


def _list(names: Iterator[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _workflow(table: DataTable) -> Workflow:
    found = Workflow(
        area=table.text("area"),
        name=table.text("name"),
        workload=table.text("workload"),
        what=table.text("what"),
        why=table.text("why"),
        worker=actor_of(table.table("worker")),
        start=table.maybe("start", str),
        rescue=tuple(map(actor_of, table.tables("rescue"))),
        state=table.need("state", dict),
        unless={int(number): state for number, state in table.take("unless", dict, {}).items()},
        dangerous=table.need("dangerous", int),
    )
    table.close()
    with table.placed():
        for actor in (found.worker, *found.rescue):
            workloads.find(found.workload).check(actor)
    return found


WORKFLOWS = tuple(map(_workflow, data.read("workflows.toml").tables("workflows")))
