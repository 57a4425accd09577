"""Examples that the texts give: worked ones with their numbers, and faults of which the texts speak, from files.

``data/examples`` has them, by area. Most faults come to nothing, say the texts. Then nothing happens, and the facts
after the last step say so. Where a text describes damage, the history ends in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from memwal.errors import check_name
from memwal.revisions import REVISIONS

from .. import data, workloads
from ..data import DataTable
from ..outcomes import FATES, Fate
from ..workloads.clients import actor_of
from .schedules import Advance, Example


def worked_examples() -> tuple[Example, ...]:
    """All of them."""
    return _read()


@cache
def _read() -> tuple[Example, ...]:
    return tuple(example for file in data.read_all("examples") for example in examples(file))


def examples(file: DataTable) -> Iterator[Example]:
    """The examples of one file, each under all its revisions; raises `InvalidArgument` for what it cannot say."""
    for table in file.tables("examples", "path"):
        for revision in table.texts("revisions") or ("B",):
            yield _example(table, revision)
        table.close()
    file.close()


def _example(table: DataTable, revision: str) -> Example:
    """``{revision}``, and what ``by_revision`` names, stand for the values under ``revision``."""
    with table.placed():
        check_name("revision", revision, REVISIONS)
    told = table.table("by_revision")
    values = {name: told.table(name).text(revision) for name in told.fields}
    found = Example(
        path=table.text("path").replace("{revision}", revision.lower()),
        workload=table.text("workload"),
        revision=revision,
        readings=table.take("readings", dict, {}),
        title=_filled(table.text("title"), {"revision": revision}),
        description=_filled(table.text("description"), {"revision": revision, **values}),
        actors=tuple(map(actor_of, table.tables("actors"))),
        steps=tuple(map(_advance, table.tables("steps", "says"))),
        oracle=table.maybe("oracle", str),
    )
    with table.placed():
        for actor in found.actors:
            workloads.find(found.workload).check(actor)
        for step in found.steps:
            check_name("actor", step.actor, [actor.name for actor in found.actors])
    return found


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _advance(table: DataTable) -> Advance:
    state = {**table.take("state", dict, {}), **dict.fromkeys(table.texts("absent"))}
    label = table.text("fate", Fate.NORMAL.label)
    with table.placed():
        check_name("fate", label, sorted(FATES))
    step = Advance(
        actor=table.text("actor"),
        before=table.maybe("before", str),
        after=table.maybe("after", str),
        fate=FATES[label],
        says=table.text("says", ""),
        state=state,
    )
    table.close()
    return step
