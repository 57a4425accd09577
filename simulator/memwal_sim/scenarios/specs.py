"""Scenarios of region specs: who creates regions, which rows go where, and what happens when the specs change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from memwal.codec.index_details import RegionSpec
from memwal.table.state import TableState

from ..world import World
from . import scripts, sharded
from .ground import KEY, VALUE
from .one_region import world
from .scenario import Scenario, Setting
from .scripts import Words
from .sharded import GROUP, NO_GROUP, PART, by_engine, place, row, spec, table

FEW = {"name": "few", "buckets": 1}
"""One region for all rows."""
MANY = {"name": "many", "buckets": 16}
OTHERS = {"name": "others", "buckets": 3}


def by_other_engine(spec: RegionSpec, rows: pa.Table, state: TableState) -> Mapping[str, object]:
    """The region value that a second engine computes: the same, unless a planted bug stands here."""
    return by_engine(spec, rows, state)


def _by_other_engine(spec: RegionSpec, rows: pa.Table, state: TableState) -> Mapping[str, object]:
    return by_other_engine(spec, rows, state)


WORDS: Words = {**sharded.WORDS, "rows_by_other_engine": row(_by_other_engine)}
process = partial(scripts.process, words=WORDS)


def _two_creators(setting: Setting) -> World:
    """Two clients see no region for a value, create one, and put the same key."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, spec(FEW)),
        process(here, "creator-1", {"rows": {"k": "v1"}}),
        process(here, "creator-2", {"rows": {"k": "v2"}}),
    )


def _creator_and_builder(setting: Setting) -> World:
    """A client registers a region and puts, while a snapshot builder looks at the regions, and puts the same key."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, spec(FEW)),
        process(here, "creator", {"rows": {"k": "v1"}}),
        process(here, "others", "snapshot", {"rows": {"k": "v2"}}),
    )


def _two_engines(request: Mapping[str, Any], key: str, setting: Setting) -> World:
    """Two engines write one key to one table, and each finds the region of it by code of its own."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, spec(request if setting.revision.expressions else MANY)),
        process(here, "engine-1", {"rows": {key: "v1"}}),
        process(here, "engine-2", {"rows_by_other_engine": {key: "v2"}}),
    )


def _new_spec(setting: Setting) -> World:
    """A new spec is added, and a key put under it, while the key's older row is not merged, or is just being merged."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, spec(FEW)),
        process(here, "administrator", {"add_spec": MANY}, {"rows": {"k": "v1"}}, insists=True),
        process(here, "drainer", "drain"),
        before=(process(here, "writer-0", {"rows": {"k": "v0"}}),),
    )


def _running_writer(setting: Setting) -> World:
    """A writer opens a region and puts while a new spec is added, under which the same key is put; all is merged."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, spec(FEW)),
        process(here, "writer", {"rows": {"k": "v1"}}),
        process(here, "administrator", {"add_spec": MANY}, {"rows": {"k": "v2"}}, insists=True),
        before=(process(here, "writer-0", {"rows": {"k": "v0"}}, "flush", "merge"),),
    )


def _spec_over_value(setting: Setting) -> World:
    """Somebody asks for a spec over a column that an update changes; then a key is put, and updated."""
    here = place(setting)
    steps = ({"add_spec": {"name": "value", "of": VALUE}}, {"rows": {"k": "v1"}}, "close", {"rows": {"k": "v2"}})
    return world(setting, table(setting.revision, spec(FEW)), process(here, "administrator", *steps, insists=True))


def _dropped_source(setting: Setting) -> World:
    """The column that decides on regions is dropped, and a key put again whose older row may not be merged."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, spec({"name": GROUP, "of": GROUP, "immutable": True})),
        process(here, "administrator", {"drop_column": GROUP}, {"rows": {"k": "v1"}}),
        process(here, "merger", "merge"),
        before=(process(here, "writer-0", {"rows": {"k": "v0"}}, "flush"),),
    )


def _specs_come_and_go(setting: Setting) -> World:
    """A spec without regions is removed and another one added, while a client writes."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, spec(FEW), spec(MANY)),
        process(here, "administrator", {"remove_spec": 1}, {"add_spec": OTHERS}, insists=True),
        process(here, "writer", {"rows": {"k": "v1"}}),
    )


def _spec_in_use(setting: Setting) -> World:
    """Somebody removes a spec that a region is of, while a client writes under the one after it."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, spec(FEW)),
        process(here, "administrator", {"remove_spec": 1}),
        process(here, "writer", {"rows": {"k": "v1"}}),
        before=(
            process(here, "writer-0", {"rows": {"k": "v0"}}, "flush", "merge"),
            process(here, "administrator-0", {"add_spec": MANY}),
        ),
    )


SCENARIOS = (
    Scenario(
        name="two_creators",
        title="two clients that create the region of one value",
        build=_two_creators,
        preemptions=2,
        sometimes=("Fenced",),
        hazards=("AMB-52",),
    ),
    Scenario(
        name="creator_and_builder",
        title="a client that creates a region beside a snapshot builder",
        build=_creator_and_builder,
        preemptions=2,
        sometimes=("Fenced",),
        hazards=("AMB-52", "AMB-69"),
    ),
    *(
        Scenario(
            name=name,
            title=f"two engines that find a region by {words}",
            build=partial(_two_engines, request, key),
            preemptions=1,
            sometimes=("Fenced",),
            hazards=hazards,
        )
        for name, request, key, words, hazards in (
            ("two_engines", MANY, "k", "the hash of one column", ("AMB-59",)),
            (
                "two_engines_columns",
                {"name": "both", "of": [KEY, PART], "buckets": 16},
                "a",
                "the hash of two columns",
                ("AMB-60",),
            ),
            (
                "two_engines_null",
                {"name": GROUP, "of": GROUP, "buckets": 16, "immutable": True},
                NO_GROUP,
                "the hash of a NULL",
                ("AMB-57",),
            ),
        )
    ),
    Scenario(
        name="new_spec",
        title="a new spec while rows of an older one are not merged",
        build=_new_spec,
        preemptions=2,
        sometimes=("Fenced", "merged"),
        hazards=("AMB-54",),
    ),
    Scenario(
        name="running_writer",
        title="a new spec while a writer opens a region of an older one",
        build=_running_writer,
        preemptions=2,
        sometimes=("Fenced", "InvalidArgument", "spec_change_stopped"),
        hazards=("AMB-142",),
    ),
    Scenario(
        name="spec_over_value",
        title="a spec over a column that an update changes",
        build=_spec_over_value,
        sometimes=("refused",),
        hazards=("AMB-55",),
    ),
    Scenario(
        name="dropped_source",
        title="a source column of a spec is dropped beside a merger",
        build=_dropped_source,
        preemptions=2,
        sometimes=("refused", "merged"),
        hazards=("AMB-66",),
    ),
    Scenario(
        name="specs_come_and_go",
        title="a spec is removed and another one added",
        build=_specs_come_and_go,
        preemptions=1,
        sometimes=("InvalidArgument", "spec_change_stopped"),
    ),
    Scenario(
        name="spec_in_use",
        title="a spec is removed that a region is of",
        build=_spec_in_use,
        preemptions=2,
        sometimes=("refused",),
        hazards=("AMB-54",),
    ),
)
