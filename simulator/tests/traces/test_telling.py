"""Recorded histories are histories of the abstract machine, or break off no later than at what was recorded."""

from pathlib import Path

import pytest
from memwal_sim.traces.telling import tell

RECORDED = Path(__file__).parents[3] / "faults" / "recorded"
TRACES = sorted(path.relative_to(RECORDED).as_posix() for path in RECORDED.rglob("*.jsonl"))

WRITTEN_BY_HAND = ("fencing/appendix_1", "merge/appendix_2")
"""Examples of the texts that begin in the middle: somebody writes entries before there is a manifest."""
REPAIRED = "wal/crashes/repair/"
"""Repair puts a damaged entry anew, in place: the machine has no such step."""

NOTICED = {
    "collect/files_before_the_list.jsonl",
    "collect/flush_under_way.jsonl",
    "collect/unmerged_collected.jsonl",
    "collect/wal_above_the_pointer.jsonl",
    "fencing/barrier_over_an_entry.jsonl",
    "fencing/claim_by_equal_bytes.jsonl",
    "fencing/claim_keeps_epoch.jsonl",
    "fencing/entries_of_the_first_epoch.jsonl",
    "fencing/fenced_writer_flushes.jsonl",
    "fencing/no_check_after_put.jsonl",
    "fencing/two_winners_of_one_claim.jsonl",
    "fencing/zombie_append.jsonl",
    "flush/flush_listed_again.jsonl",
    "flush/listed_before_written.jsonl",
    "flush/out_of_order.jsonl",
    "flush/pointer_stays.jsonl",
    "flush/pointer_too_far.jsonl",
    "index/absent_is_caught_up.jsonl",
    "index/collected_without_indexes.jsonl",
    "index/credit_for_all_indexes.jsonl",
    "index/credit_replaces_others.jsonl",
    "index/credited_with_the_newest.jsonl",
    "index/credited_without_building.jsonl",
    "manifest/builder_undoes_a_claim.jsonl",
    "manifest/late_hint_update.jsonl",
    "manifest/plain_manifest_put.jsonl",
    "manifest/skipped_version.jsonl",
    "manifest/stale_commit.jsonl",
    "merge/builder_restores_progress.jsonl",
    "table/blind_index_commit.jsonl",
    "table/restored_past_collection.jsonl",
    "wal/buffered_put.jsonl",
    "wal/overwritten_entry.jsonl",
    "wal/plain_wal_put.jsonl",
    "wal/skip_newer_epoch.jsonl",
    "wal/start_behind_pointer.jsonl",
    "wal/stored_by_another.jsonl",
    "wal/torn_entry.jsonl",
    "wal/unresolved_put.jsonl",
}
"""Recorded violations that are no histories of the machine under the strict reading."""


def _judge(name: str) -> None:
    found = tell(RECORDED / name)
    off = next((each for each in found.told if each.stopped is not None or each.without), None)
    if name in NOTICED:
        assert off is not None
        assert off.change.order <= found.replayed.violation_at
    elif name.startswith((*WRITTEN_BY_HAND, REPAIRED)):
        assert off is not None
    else:
        assert off is None, str(off)


@pytest.mark.parametrize(
    "name",
    [
        "fencing/two_claims_of_one_version.jsonl",
        "fencing/zombie_append.jsonl",
        "fencing/claim_by_equal_bytes.jsonl",
        "wal/skip_newer_epoch.jsonl",
        "flush/pointer_too_far.jsonl",
        "index/credit_replaces_others.jsonl",
        "merge/merged_twice.jsonl",
    ],
)
def test_a_recorded_history_is_told_as_one_of_the_machine(name: str) -> None:
    _judge(name)


@pytest.mark.long
@pytest.mark.parametrize("name", TRACES)
def test_every_recorded_history_is_told(name: str) -> None:
    _judge(name)


def test_all_that_is_noticed_is_recorded() -> None:
    assert set(TRACES) >= NOTICED


def test_an_acknowledgement_that_only_another_reading_allows_names_it() -> None:
    found = tell(RECORDED / "fencing" / "no_check_after_put.jsonl")
    assert found.told[-1].without == "verify_after_put"
    assert found.told[-1].steps == (("acknowledge", ("w1",)),)
