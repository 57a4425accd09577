"""Scenarios of one writer that several coroutines of its process use at once: puts, WAL flushes, freezes, flushes."""

from __future__ import annotations

from ..world import World
from .clients import place, world
from .scenario import Scenario, Setting
from .scripts import process

TIMED = {"limits": {"wal_interval_ms": 2}, "background": True}
"""A simulated clock goes on by a millisecond with each look: what is buffered waits for one look more, or for none."""
SMALL = {
    "limits": {"memtable_rows": 1, "frozen_memtables": 1},
    "unlimited": ["wal_interval_ms"],
    "background": True,
}
"""Every write fills a MemTable, and the next one waits until that is flushed."""


def _two_putters(setting: Setting) -> World:
    """Two threads put the same key durably, through one writer."""
    here = place(setting)
    branches = (({"rows": {"k": "v1"}},), ({"rows": {"k": "v2"}},))
    return world(setting, process(here, "writer-1", "open", {"together": branches}))


def _timed_putters(setting: Setting) -> World:
    """A thread puts durably, another one does not, and the background stores what has waited long enough."""
    here = place(setting)
    branches = (({"rows": {"k1": "v1"}},), ({"buffered": {"k1": "v2", "k2": "v2"}}, "stored"))
    steps = ({"open": TIMED}, {"together": branches}, "close")
    return world(setting, process(here, "writer-1", *steps))


def _frozen_putters(setting: Setting) -> World:
    """A thread puts durably, one does not, and another one freezes the MemTable and flushes what is frozen."""
    here = place(setting)
    branches = (({"rows": {"k1": "v1"}},), ({"buffered": {"k2": "v2"}}, "stored"), ("freeze", "flush_frozen"))
    steps = ("open", {"rows": {"k1": "v0"}}, {"together": branches})
    return world(setting, process(here, "writer-1", *steps))


def _crowded_putters(setting: Setting) -> World:
    """Two threads put, every put fills a MemTable, and waits until the background has flushed the one before."""
    here = place(setting)
    branches = (({"rows": {"k": "v1"}},), ({"rows": {"k": "v2"}}, {"rows": {"k": "v3"}}))
    steps = ({"open": SMALL}, {"together": branches}, "close")
    return world(setting, process(here, "writer-1", *steps))


def _observed_flush(setting: Setting) -> World:
    """A thread reads through the writer's memory while another one freezes and flushes."""
    here = place(setting)
    branches = (("read_with_memory",), ("flush",))
    return world(setting, process(here, "writer-1", "open", {"rows": {"k1": "v1"}}, {"together": branches}))


def _fenced_putters(setting: Setting) -> World:
    """A thread puts and another one flushes, through one writer, while another process claims the region and puts."""
    here = place(setting)
    branches = (({"rows": {"k1": "v1"}},), ("flush",))
    return world(
        setting,
        process(here, "writer-1", "open", {"rows": {"k1": "v0"}}, {"together": branches}),
        process(here, "writer-2", {"rows": {"k2": "v2"}}),
    )


SCENARIOS = (
    Scenario(name="two_putters", title="two threads put the same key through one writer", build=_two_putters),
    Scenario(
        name="timed_putters",
        title="two threads put through one writer whose background stores what has waited",
        sometimes=("wal_flushed",),
        build=_timed_putters,
    ),
    Scenario(
        name="frozen_putters",
        title="two threads put through one writer that a third one freezes and flushes",
        sometimes=("frozen",),
        build=_frozen_putters,
        hazards=("AMB-17", "AMB-41"),
    ),
    Scenario(
        name="crowded_putters",
        title="two threads put through one writer, each waits for room until the background has flushed",
        sometimes=("frozen",),
        build=_crowded_putters,
        hazards=("AMB-41",),
    ),
    Scenario(
        name="observed_flush",
        title="a thread reads through a writer's memory while another one flushes it",
        sometimes=("frozen",),
        build=_observed_flush,
        hazards=("AMB-102", "AMB-117"),
    ),
    Scenario(
        name="fenced_putters",
        title="two threads put and flush through one writer beside another writer",
        sometimes=("Fenced",),
        build=_fenced_putters,
        hazards=("AMB-13", "AMB-21"),
    ),
)
