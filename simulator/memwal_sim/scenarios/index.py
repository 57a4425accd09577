"""Scenarios of indexes: what MemTables and generations carry, how base indexes catch up, and what searches find."""

from __future__ import annotations

from functools import partial

from ..world import World
from . import scripts
from .indexed import BY_ID, BY_VALUE, WORDS, place, table, world
from .scenario import Scenario, Setting

process = partial(scripts.process, words=WORDS)
BY_SNAPSHOT = {"retain_manifests": 10, "time_travel": "snapshot"}
"""A collector that keeps all table versions, and of generations only what their snapshots list."""


def _two_indexed_writers(setting: Setting) -> World:
    """Two writers of one region batch writes into WAL entries and flush; a barrier is between the entries."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, BY_VALUE),
        process(here, "writer-1", "open", {"put_together": {"a": "v1", "b": "v1"}}, {"rows": {"c": "v1"}}, "flush"),
        process(here, "writer-2", "open", {"put_together": {"b": "v2", "d": "v2"}}, "flush"),
    )


def _updated_key(setting: Setting) -> World:
    """One writer puts a key of the base table and of an earlier generation twice, in one MemTable, and flushes."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, BY_VALUE),
        process(
            here,
            "writer",
            "open",
            {"rows": {"k": "v2", "base": "v2"}},
            {"rows": {"k": "v3", "l": "v3"}},
            "flush",
            "merge",
        ),
        process(here, "merger", "merge"),
        before=(process(here, "writer-0", "open", {"rows": {"k": "v1"}}, "flush"),),
    )


def _deleted_key(setting: Setting) -> World:
    """One writer deletes a key of a generation, and flushes, beside a merger. Revision R: in A and B it only puts."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, BY_VALUE),
        process(here, "writer", "open", {"delete": {"k": "v2"}}, "flush"),
        process(here, "merger", "merge"),
        before=(process(here, "writer-0", "open", {"rows": {"k": "v1", "l": "v1"}}, "flush"),),
    )


def _indexer_and_merger(setting: Setting) -> World:
    """An index is extended over one generation while the next one is merged."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, BY_VALUE),
        process(here, "indexer", {"index": BY_VALUE}),
        process(here, "merger", "merge"),
        before=(
            process(
                here,
                "writer-0",
                "open",
                {"rows": {"k": "v1"}},
                "flush",
                "merge",
                {"rows": {"k": "v2", "l": "v2"}},
                "flush",
            ),
        ),
    )


def _two_indexers(setting: Setting) -> World:
    """Two indexes are extended over one generation at once."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, BY_VALUE, BY_ID),
        process(here, "indexer-1", {"index": BY_VALUE}),
        process(here, "indexer-2", {"index": BY_ID}),
        before=(process(here, "writer-0", "open", {"rows": {"k": "v1"}}, "flush", "merge"),),
    )


def _collector_and_indexer(setting: Setting) -> World:
    """An index of which nothing is recorded is extended over a merged generation, beside a collector."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision),
        process(here, "indexer", {"index": BY_VALUE}),
        process(here, "collector", {"collect": BY_SNAPSHOT}),
        before=(
            process(here, "writer-0", "open", {"rows": {"k": "v1"}}, "flush", "merge"),
            process(here, "administrator", {"maintain_unrecorded": [BY_VALUE]}),
        ),
    )


def _lagging_index(setting: Setting) -> World:
    """Rows are appended to the base table past all regions, and a merged one is deleted, while an index lags."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, BY_VALUE),
        process(here, "client", {"append": {"x": "v1"}}, {"delete_from_base": "k"}),
        process(here, "merger", "merge"),
        before=(
            process(
                here,
                "writer-0",
                "open",
                {"rows": {"k": "v1", "l": "v1"}},
                "flush",
                "merge",
                {"rows": {"m": "v1"}},
                "flush",
            ),
        ),
    )


SCENARIOS = (
    Scenario(
        name="two_indexed_writers",
        title="two writers that batch writes and flush generations with an index",
        build=_two_indexed_writers,
        preemptions=1,
        sometimes=("Fenced", "flushed"),
        hazards=("AMB-19",),
    ),
    Scenario(
        name="updated_key",
        title="a key that is written again, in memory, in generations and in the base table",
        build=_updated_key,
        preemptions=1,
        sometimes=("flushed", "merge_skipped"),
        hazards=("AMB-109",),
    ),
    Scenario(
        name="deleted_key",
        title="a key that is deleted while an older row of it is merged",
        build=_deleted_key,
        preemptions=2,
        sometimes=("flushed", "merged"),
    ),
    Scenario(
        name="indexer_and_merger",
        title="an index builder beside a merger",
        build=_indexer_and_merger,
        canary="canary_index",
        preemptions=2,
        sometimes=("credit_conflict", "merged"),
        hazards=("AMB-69", "AMB-70"),
    ),
    Scenario(
        name="two_indexers",
        title="two index builders, of an index each",
        build=_two_indexers,
        canary="canary_index",
        preemptions=2,
        sometimes=("credit_conflict",),
        hazards=("AMB-69",),
    ),
    Scenario(
        name="collector_and_indexer",
        title="an index builder beside a collector of generations, where no catch-up is recorded",
        build=_collector_and_indexer,
        canary="canary_index",
        preemptions=2,
        sometimes=("caught_up", "collecting"),
        hazards=("AMB-71",),
    ),
    Scenario(
        name="lagging_index",
        title="a direct append and a direct delete beside a merger, while an index lags",
        build=_lagging_index,
        canary="canary_index",
        preemptions=2,
        sometimes=("merge_conflict", "merged"),
        hazards=("AMB-88", "AMB-113"),
    ),
)
