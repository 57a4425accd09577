"""Scenarios of the whole tree: writers of one region beside mergers, collectors, snapshot builders and readers."""

from __future__ import annotations

from ..outcomes import Fate
from ..store import Contents, Traits
from ..world import World
from . import ground
from .clients import COLLECTED, place, world
from .questions import filters_pick_from_merged_rows, retained_versions_are_readable
from .scenario import Scenario, Setting
from .scripts import process


def _two_writers_merger_collector(setting: Setting) -> World:
    """Two writers claim one region, put twice each and flush, beside a merger and a collector."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k": "1a"}}, {"rows": {"k": "1b"}}, "flush"),
        process(here, "writer-2", {"rows": {"k": "2a"}}, {"rows": {"k": "2b"}}, "flush"),
        process(here, "merger", "merge"),
        process(here, "collector", "collect"),
    )


def _two_mergers(setting: Setting) -> World:
    """Two mergers merge the same two generations, which have a key in common and a new key each."""
    here = place(setting)
    return world(
        setting,
        process(here, "merger-1", "merge"),
        process(here, "merger-2", "merge"),
        before=(
            process(here, "writer-0", {"rows": {"k": "a", "l": "a"}}, "flush", {"rows": {"k": "b", "m": "b"}}, "flush"),
        ),
    )


def _merger_and_collector(setting: Setting) -> World:
    """A merger merges two generations while they are merged and collected by others."""
    here = place(setting)
    return world(
        setting,
        process(here, "merger", "merge"),
        process(here, "others", "merge", "collect"),
        before=(process(here, "writer-0", {"rows": {"k": "a", "l": "a"}}, "flush", {"rows": {"k": "b"}}, "flush"),),
    )


def _merger_and_builder(setting: Setting) -> World:
    """A merger merges two generations while a snapshot builder rewrites the MemWAL index."""
    here = place(setting)
    return world(
        setting,
        process(here, "merger", "merge"),
        process(here, "builder", "snapshot"),
        before=(process(here, "writer-0", {"rows": {"k": "a"}}, "flush", {"rows": {"k": "b"}}, "flush"),),
    )


def _flush_and_collector(setting: Setting) -> World:
    """A writer flushes while a collector looks for what nobody lists."""
    here = place(setting, collected=True)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k": "b"}}, "flush"),
        process(here, "collector", "collect"),
        before=(process(here, "writer-0", {"rows": {"k": "a"}}, "flush"),),
        config=COLLECTED,
    )


def _unanswered_flush(setting: Setting) -> World:
    """A writer flushes while the generation is merged and collected as soon as it is listed."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k": "a"}}, "flush"),
        process(here, "others", "merge", "merge", "collect"),
    )


def _strong_reader(setting: Setting) -> World:
    """A strong reader reads while a generation is merged and collected."""
    here = place(setting)
    return world(
        setting,
        process(here, "reader", "read"),
        process(here, "others", "merge", "collect"),
        before=(process(here, "writer-0", {"rows": {"k": "a", "l": "a"}}, "flush", {"rows": {"k": "b"}}, "flush"),),
    )


def _wal_reader(setting: Setting) -> World:
    """A strong reader reads the WAL while its rows are flushed, merged, overwritten and collected."""
    here = place(setting, collected=True)
    return world(
        setting,
        process(here, "reader", "read"),
        process(here, "others", {"rows": {"k": "c"}}, "flush", "merge", "collect"),
        before=(process(here, "writer-0", {"rows": {"k": "a"}}, {"rows": {"k": "b"}}),),
        config=COLLECTED,
    )


def _eventual_reader(setting: Setting) -> World:
    """A reader reads table versions with their snapshots, which are files, while new ones are built and collected."""
    here = place(setting)
    return world(
        setting,
        process(here, "reader", "read_eventually", "read_again"),
        process(
            here,
            "others",
            {"rows": {"k": "b"}},
            "flush",
            "snapshot",
            "merge",
            {"collect": {"retain_versions": 2, "retain_manifests": 10}},
        ),
        before=(process(here, "writer-0", {"rows": {"k": "a"}}, "flush", "snapshot"),),
        config={"inline_regions": "0"},
        settled=True,
        oracles=(retained_versions_are_readable(here),),
    )


def _base_delete(setting: Setting) -> World:
    """A merged row is deleted from the base table; its generation is still listed."""
    here = place(setting)
    return world(
        setting,
        process(here, "deleter", {"delete_from_base": "k"}, "read"),
        before=(process(here, "writer-0", {"rows": {"k": "a", "l": "a"}}, "flush", "merge"),),
    )


def _written_and_deleted(setting: Setting) -> World:
    """A row is written, flushed, merged, and deleted from the base table, by one process."""
    here = place(setting)
    return world(
        setting, process(here, "writer-1", {"rows": {"k": "a", "l": "a"}}, "flush", "merge", {"delete_from_base": "k"})
    )


def _restored_table(setting: Setting) -> World:
    """A version from before a merge is restored after a collection that keeps what snapshots list, and no more."""
    here = place(setting)
    policy = {"retain_versions": 2, "retain_manifests": 10, "time_travel": "snapshot"}
    return world(
        setting,
        process(here, "operator", {"collect": policy}, {"restore": 2}, "merge", insists=True),
        before=(process(here, "writer-0", {"rows": {"k": "a"}}, "flush", "merge"),),
    )


def _lagging_store(setting: Setting) -> World:
    """Two writers claim a region on a store whose lists and hints may be answered from before the last change."""
    here = place(setting)
    begun = ground.table(setting.revision)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k": "v1"}}, "flush"),
        process(here, "writer-2", {"rows": {"k": "v2"}}),
        contents=Contents(begun.objects, Traits(lags=True)),
    )


def _filtered_reader(setting: Setting) -> World:
    """A writer overwrites a row that is merged, and one that is flushed; somebody asks for the old values."""
    here = place(setting)
    return world(
        setting,
        process(here, "writer-1", {"rows": {"k": "b"}}, "flush", {"rows": {"k": "c"}}, "flush"),
        before=(process(here, "writer-0", {"rows": {"k": "a", "l": "a"}}, "flush", "merge"),),
        oracles=filters_pick_from_merged_rows(here, ("a", "b")),
    )


SCENARIOS = (
    Scenario(
        name="two_writers_merger_collector",
        title="two writers claim, put twice and flush, beside a merger and a collector",
        sometimes=("Fenced", "collecting", "merged"),
        build=_two_writers_merger_collector,
        preemptions=1,
    ),
    Scenario(
        name="two_mergers",
        title="two mergers of the same two generations",
        sometimes=("merge_skipped",),
        canary="canary_reads",
        build=_two_mergers,
        hazards=("AMB-81", "AMB-84"),
    ),
    Scenario(
        name="merger_and_collector",
        title="a merger beside another merge and a collection",
        sometimes=("merge_skipped", "collecting"),
        canary="canary_reads",
        build=_merger_and_collector,
        hazards=("AMB-92",),
    ),
    Scenario(
        name="merger_and_builder",
        title="a merger beside a snapshot builder",
        sometimes=("executed_again",),
        canary="canary_reads",
        build=_merger_and_builder,
        hazards=("AMB-69", "AMB-86"),
    ),
    Scenario(
        name="flush_and_collector",
        title="a writer that flushes beside a collector of what nobody lists",
        sometimes=("collecting",),
        build=_flush_and_collector,
        hazards=("AMB-94",),
    ),
    Scenario(
        name="unanswered_flush",
        title="a writer that flushes beside a merge and a collection of the same generation",
        sometimes=("collecting",),
        build=_unanswered_flush,
        preemptions=3,
        hazards=("AMB-14", "AMB-28"),
    ),
    Scenario(
        name="strong_reader",
        title="a strong reader beside a merge and a collection",
        sometimes=("read_again", "collecting"),
        canary="canary_reads",
        build=_strong_reader,
        hazards=("AMB-92", "AMB-100", "AMB-101"),
    ),
    Scenario(
        name="wal_reader",
        title="a strong reader of the WAL beside a flush, a merge and a collection",
        sometimes=("read_again", "collecting"),
        build=_wal_reader,
        hazards=("AMB-100",),
    ),
    Scenario(
        name="eventual_reader",
        title="an eventual reader beside a snapshot builder, a merge and a collection",
        sometimes=("NotFound", "collecting"),
        build=_eventual_reader,
        hazards=("AMB-76", "AMB-91"),
    ),
    Scenario(
        name="restored_table",
        title="a table version that is restored after generations above it were collected",
        canary="canary_reads",
        build=_restored_table,
        hazards=("AMB-87",),
    ),
    Scenario(
        name="lagging_store",
        title="two writers on a store whose reads may be stale by one change",
        sometimes=("Fenced",),
        build=_lagging_store,
        kinds=frozenset({Fate.STALE}),
        hazards=("AMB-31",),
    ),
    Scenario(
        name="written_and_deleted",
        title="a row that is written, flushed, merged, and deleted from the base table",
        build=_written_and_deleted,
    ),
    Scenario(
        name="filtered_reader",
        title="reads with a filter on values, beside a writer that overwrites",
        build=_filtered_reader,
        hazards=("AMB-99",),
    ),
    Scenario(
        name="base_delete",
        title="a delete from the base table of a row that a listed generation has",
        canary="canary_reads",
        build=_base_delete,
        hazards=("AMB-88",),
    ),
)
