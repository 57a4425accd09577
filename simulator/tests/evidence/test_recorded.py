from __future__ import annotations

from memwal_sim import places
from memwal_sim.evidence import recorded

FILES = {name: path.relative_to(places.faults()).as_posix() for name, path in recorded.wanted(places.faults()).items()}


def test_each_planted_bug_has_its_recorded_history() -> None:
    missing = [name for name, path in FILES.items() if not (places.faults() / path).is_file()]
    assert missing == []


def test_a_history_that_was_given_a_name_keeps_it() -> None:
    assert FILES["no_barrier"] == "recorded/fencing/zombie_append.jsonl"
    assert FILES["claim_by_equal_bytes"] == "recorded/fencing/claim_by_equal_bytes.jsonl"


def test_the_areas_are_those_of_the_gallery() -> None:
    assert FILES["spec_id_used_again"] == "recorded/region/spec_id_used_again.jsonl"
    assert FILES["superseded_in_memory"] == "recorded/read/superseded_in_memory.jsonl"
    assert {path.split("/")[1] for path in FILES.values()} == {
        "fencing", "wal", "manifest", "flush", "merge", "index", "collect", "read", "region", "table", "late",
    }  # fmt: skip


def test_nobody_needs_to_see_a_canary() -> None:
    assert not [name for name in FILES if name.startswith("canary")]
