"""Scenarios that are scripts, from ``data/scenarios``: a table to begin with, actors, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from memwal.errors import check_name

from .. import data
from ..data import DataTable
from ..outcomes import FATES, FAULTS, Fate
from ..process import Process
from ..store import Contents, Traits
from ..world import World
from . import asking, clients, columns, first_seconds, ground, indexed, late, one_region, scripts, sharded, specs
from .actors import Workplace
from .questions import QUESTIONS
from .scenario import Scenario, ScenarioSetting
from .scripts import Following, ScriptStep, Words
from .writes import reads_are_explained

Build = Callable[[ScenarioSetting, Sequence[Process], Sequence[Process]], World]
"""Setting, processes, those that run alone before them -> world."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a scenario stands on."""

    place: Callable[[ScenarioSetting], Workplace]
    words: Words
    build: Build


def _region(table: DataTable) -> Ground:
    """One region: ``collected`` WAL and manifests, other ``config``, ``settled``, ``stale_reads``, ``questions``."""
    collected, settled = table.take("collected", bool, False), table.take("settled", bool, False)
    config = {**(clients.COLLECTED if collected else {}), **table.take("config", dict, {})}
    stale, asked = table.take("stale_reads", bool, False), table.take("questions", dict, {})
    with table.placed():
        for name in asked:
            check_name("question", name, sorted(QUESTIONS))
    place = partial(clients.place, collected=collected)

    def build(setting: ScenarioSetting, processes: Sequence[Process], before: Sequence[Process]) -> World:
        oracles = [oracle for name, told in asked.items() for oracle in QUESTIONS[name](place(setting), told)]
        stored = Contents(ground.table(setting.revision, **config).objects, Traits(lags=True)) if stale else None
        return clients.world(
            setting, *processes, before=before, config=config, contents=stored, oracles=oracles, settled=settled
        )

    return Ground(place, scripts.WORDS, build)


def _indexed(table: DataTable) -> Ground:
    """A table with two indexes: those that MemTables carry are ``maintained``."""
    maintained = table.texts("maintained")

    def build(setting: ScenarioSetting, processes: Sequence[Process], before: Sequence[Process]) -> World:
        return indexed.world(setting, indexed.table(setting.revision, *maintained), *processes, before=before)

    return Ground(indexed.place, indexed.WORDS, build)


def _specs(table: DataTable, words: Words) -> Ground:
    """A table with ``specs``, the last one active, or ``plain_specs`` in a revision without SQL expressions (R).

    ``reads_are_explained``: strong reads are judged, too.
    """
    asked: Sequence[Any] = table.need("specs", list)
    plain: Sequence[Any] = table.take("plain_specs", list, list(asked))
    oracles = (reads_are_explained,) if table.take("reads_are_explained", bool, False) else ()

    def build(setting: ScenarioSetting, processes: Sequence[Process], before: Sequence[Process]) -> World:
        wanted = asked if setting.revision.expressions else plain
        contents = sharded.table(setting.revision, *map(sharded.spec, wanted))
        return one_region.world(setting, contents, *processes, before=before, oracles=oracles)

    return Ground(sharded.place, words, build)


GROUNDS: Mapping[str, Callable[[DataTable], Ground]] = {
    "region": _region,
    "indexed": _indexed,
    "specs": partial(_specs, words=specs.WORDS),
    "columns": partial(_specs, words=columns.WORDS),
    "vectors": lambda _: Ground(sharded.place, first_seconds.WORDS, first_seconds.with_vectors),
    "asked": lambda _: Ground(sharded.place, asking.WORDS, asking.world),
    "late": lambda _: Ground(partial(clients.place, collected=True), late.WORDS, late.world),
    "indexed without specs": lambda _: Ground(sharded.place, first_seconds.INDEXED, first_seconds.with_an_index),
}
"""What ``on`` may say."""


@dataclass(frozen=True, slots=True)
class _FileActor:
    name: str
    script: tuple[ScriptStep, ...]
    insists: bool

    def process(self, on: Ground, setting: ScenarioSetting) -> Process:
        place = on.place(setting)
        start = Following(place=place, name=self.name, words=on.words, script=self.script, insists=self.insists)
        return Process(self.name, start)


def _actor(words: Words, table: DataTable) -> _FileActor:
    with table.placed():
        script = scripts.steps(table.need("script", list), words)
    found = _FileActor(table.text("name"), script, table.take("insists", bool, False))
    table.close()
    return found


def read(file: DataTable) -> tuple[Scenario, ...]:
    """The scenarios of a file; raises `InvalidArgument` for what it cannot say."""
    found = tuple(map(_scenario, file.tables("scenarios")))
    file.close()
    return found


def of(area: str) -> tuple[Scenario, ...]:
    """The scenarios of the file ``area``."""
    return read(data.read(f"scenarios/{area}.toml"))


def _scenario(table: DataTable) -> Scenario:
    with table.placed():
        check_name("ground", on := table.text("on", "region"), sorted(GROUNDS))
        for label in table.texts("kinds"):
            check_name("fate", label, sorted(FATES))
    standing = GROUNDS[on](table)
    actors, before = (tuple(map(partial(_actor, standing.words), table.tables(name))) for name in ("actors", "before"))
    kinds: frozenset[Fate] = frozenset(FATES[label] for label in table.texts("kinds"))
    found = Scenario(
        name=table.text("name"),
        title=table.text("title"),
        about=table.text("about"),
        build=lambda setting: standing.build(
            setting,
            [each.process(standing, setting) for each in actors],
            [each.process(standing, setting) for each in before],
        ),
        canary=table.text("canary", "canary"),
        preemptions=table.maybe("preemptions", int),
        kinds=kinds or FAULTS,
        sometimes=table.texts("sometimes"),
        hazards=table.texts("hazards"),
    )
    table.close()
    return found
