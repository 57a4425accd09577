"""Scenarios of writers of one region: claim, put, flush, by two or more at once, and recovery after every crash."""

from __future__ import annotations

from ..world import World
from .clients import COLLECTED, place, world
from .scenario import Scenario, Setting
from .scripts import process

TIGHT = {"retain_versions": 1, "retain_manifests": 2}
"""A collector that keeps as little as it may."""


def _one_writer(setting: Setting) -> World:
    """One writer claims a new region, puts two rows in one write, and flushes; it may crash anywhere."""
    here = place(setting)
    return world(setting, process(here, "writer-1", {"rows": {"k1": "v1", "k2": "v1"}}, "flush"))


def _one_writer_twice(setting: Setting) -> World:
    """One writer puts, puts the same key again and flushes, whatever fails on the way."""
    here = place(setting)
    return world(
        setting, process(here, "writer-1", {"rows": {"k": "v1"}}, {"rows": {"k": "v2"}}, "flush", insists=True)
    )


def _two_writers(setting: Setting) -> World:
    """Two writers claim one new region, put one row each under the same key, and flush."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k": "v1"}}, "flush"),
        process(here, "writer-2", {"rows": {"k": "v2"}}, "flush"),
    )


def _two_writers_two_keys(setting: Setting) -> World:
    """As two_writers, with a key each: a lost row cannot hide behind the other's."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k1": "v1"}}, "flush"),
        process(here, "writer-2", {"rows": {"k2": "v2"}}, "flush"),
    )


def _two_writers_no_flush(setting: Setting) -> World:
    """As two_writers, without MemTable flushes: claims, barriers and WAL entries only."""
    here = place(setting)
    return world(
        setting, process(here, "writer-1", {"rows": {"k": "v1"}}), process(here, "writer-2", {"rows": {"k": "v2"}})
    )


def _one_writer_observed(setting: Setting) -> World:
    """One writer puts, whatever comes of it, and somebody reads through its memory; then it puts again."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k": "v1"}}, "read_with_memory", {"rows": {"k": "v2"}}, insists=True),
        before=(process(here, "writer-0", {"rows": {"k": "v0"}}, "flush"),),
    )


def _one_writer_frozen(setting: Setting) -> World:
    """One writer seals two MemTables and flushes them one after another, whatever fails on the way."""
    here = place(setting)
    steps = ({"rows": {"k1": "v1"}}, "freeze", {"rows": {"k2": "v2"}}, "freeze", "flush_frozen", "flush_frozen")
    return world(setting, process(here, "writer-1", *steps, insists=True))


def _sealed_memory(setting: Setting) -> World:
    """Somebody reads through the memory of a writer that has sealed a MemTable and not flushed it."""
    here = place(setting)
    return world(
        setting, process(here, "writer-1", {"rows": {"k1": "v1"}}, "freeze", {"rows": {"k2": "v2"}}, "read_with_memory")
    )


def _successor_of_sealed(setting: Setting) -> World:
    """A writer seals a MemTable that it never flushes, and puts once more; another one takes over, puts and flushes."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k1": "v1"}}, "freeze", {"rows": {"k1": "v2"}}),
        process(here, "writer-2", {"rows": {"k2": "v3"}}, "flush"),
    )


def _writer_deletes(setting: Setting) -> World:
    """One writer puts a key, flushes and merges it, deletes it, and does the same again; in R, which has deletes."""
    here = place(setting)
    steps = ({"rows": {"k": "v1", "l": "v1"}}, "flush", "merge", {"tombstone": ["k"]}, "flush", "merge")
    return world(setting, process(here, "writer-1", *steps))


def _one_writer_duplicates(setting: Setting) -> World:
    """One writer puts a key twice into one generation, flushes, puts it again, flushes, and merges both."""
    here = place(setting)
    steps = ({"rows": {"k": "v1"}}, {"rows": {"k": "v2", "l": "v2"}}, "flush", {"rows": {"k": "v3"}}, "flush", "merge")
    return world(setting, process(here, "writer-1", *steps))


def _fenced_memory(setting: Setting) -> World:
    """Somebody reads through the memory of a writer while another one claims the region and puts."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k1": "v1"}}, "read_with_memory"),
        process(here, "writer-2", {"rows": {"k2": "v2"}}),
    )


def _fenced_flush(setting: Setting) -> World:
    """Two writers put and flush; somebody reads through the memory of the second."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k1": "v1"}}, "flush"),
        process(here, "writer-2", {"rows": {"k2": "v2"}}, "flush", "read_with_memory"),
    )


def _writer_and_builder(setting: Setting) -> World:
    """One writer puts and flushes while a snapshot builder looks at the region, and raises its last-seen hint."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k1": "v1"}}, {"rows": {"k2": "v2"}}, "flush"),
        process(here, "builder", "snapshot"),
    )


def _stalled_writer(setting: Setting) -> World:
    """A writer puts while its successor puts, flushes, merges, and collects WAL and region manifests."""
    here = place(setting, collected=True)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k1": "v1"}}),
        process(here, "others", {"rows": {"k2": "v2"}}, "flush", "merge", {"collect": TIGHT}),
        config=COLLECTED,
    )


def _stalled_claim(setting: Setting) -> World:
    """A writer claims and puts while the region is claimed again and again, and old region manifests are collected."""
    here = place(setting, collected=True)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k1": "v1"}}),
        process(here, "others", "open", "open", "open", "open", {"rows": {"k2": "v2"}}, {"collect": TIGHT}),
        before=(process(here, "writer-0", {"rows": {"k0": "v0"}}),),
        config=COLLECTED,
    )


def _lost_hint(setting: Setting) -> World:
    """A writer claims a region whose version hint is lost at some time, and whose first manifests were collected."""
    here = place(setting, collected=True)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k1": "v1"}}, "flush"),
        process(here, "operator", "lose_hint"),
        before=(process(here, "writer-0", {"rows": {"k0": "v0"}}, "flush", "open", "open", {"collect": TIGHT}),),
        config=COLLECTED,
    )


_RACES = ("AMB-13", "AMB-14", "AMB-24", "AMB-28", "AMB-29")

SCENARIOS = (
    Scenario(name="one_writer", title="one writer: claim, put two rows at once, flush", build=_one_writer),
    Scenario(
        name="one_writer_twice",
        title="one writer that goes on after failures: claim, put twice, flush",
        build=_one_writer_twice,
        hazards=("AMB-14", "AMB-21"),
    ),
    Scenario(
        name="two_writers",
        title="two writers on one region: claim, put the same key, flush",
        sometimes=("Fenced",),
        build=_two_writers,
        hazards=_RACES,
    ),
    Scenario(
        name="two_writers_two_keys",
        title="two writers on one region: claim, put a key each, flush",
        sometimes=("Fenced",),
        build=_two_writers_two_keys,
        hazards=_RACES,
    ),
    Scenario(
        name="two_writers_no_flush",
        title="two writers on one region: claim, put the same key",
        sometimes=("Fenced",),
        build=_two_writers_no_flush,
        hazards=("AMB-13", "AMB-14", "AMB-28"),
    ),
    Scenario(
        name="one_writer_observed",
        title="one writer that goes on after failures, read through its memory",
        build=_one_writer_observed,
        hazards=("AMB-21",),
    ),
    Scenario(
        name="one_writer_frozen",
        title="one writer that seals two MemTables and flushes them in turn",
        build=_one_writer_frozen,
        hazards=("AMB-41",),
    ),
    Scenario(
        name="sealed_memory",
        title="a reader in the process of a writer that has sealed a MemTable",
        build=_sealed_memory,
        hazards=("AMB-117",),
    ),
    Scenario(
        name="successor_of_sealed",
        title="a writer that takes over where another one has sealed a MemTable and not flushed it",
        sometimes=("Fenced", "frozen"),
        build=_successor_of_sealed,
        hazards=("AMB-17",),
    ),
    Scenario(
        name="writer_deletes",
        title="one writer that deletes a key which is merged (R)",
        build=_writer_deletes,
        hazards=("AMB-89",),
    ),
    Scenario(
        name="one_writer_duplicates",
        title="one writer that puts a key more than once, flushes and merges",
        build=_one_writer_duplicates,
        hazards=("AMB-46",),
    ),
    Scenario(
        name="fenced_memory",
        title="a reader in the process of a writer, beside another writer",
        sometimes=("Fenced",),
        build=_fenced_memory,
        hazards=("AMB-140",),
    ),
    Scenario(
        name="fenced_flush",
        title="two writers that flush, and a reader in the process of the second",
        sometimes=("Fenced",),
        build=_fenced_flush,
    ),
    Scenario(
        name="writer_and_builder",
        title="one writer beside a snapshot builder",
        sometimes=("manifest_lost",),
        build=_writer_and_builder,
        hazards=("AMB-09", "AMB-33"),
    ),
    Scenario(
        name="stalled_writer",
        title="a writer beside its successor, a merge and a collection of the WAL",
        sometimes=("Fenced", "collecting"),
        build=_stalled_writer,
        preemptions=2,
        hazards=("AMB-25",),
    ),
    Scenario(
        name="stalled_claim",
        title="a writer beside several claims and a collection of manifests",
        sometimes=("Fenced", "collecting", "manifest_void"),
        build=_stalled_claim,
        preemptions=2,
        hazards=("AMB-30",),
    ),
    Scenario(
        name="lost_hint",
        title="a writer on a region without a hint, whose first manifests were collected",
        build=_lost_hint,
        hazards=("AMB-31",),
    ),
)
