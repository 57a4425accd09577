"""Soaks: sound ones come to their end, equal ones are equal, and every oracle finds what is planted for it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from kit.revisions import B_FIRST
from memwal.codec import bloom
from memwal.errors import InvalidArgument, Throttled
from memwal_sim.bugs import Bug, planted
from memwal_sim.soak.run import Result, soak
from memwal_sim.soak.settings import MINUTE, PRESETS, SECOND, SoakSettings, changed, from_dict, preset

BASE = SoakSettings(
    duration_ms=5 * MINUTE,
    regions=2,
    keys=24,
    put_every_ms=3 * SECOND,
    flush_entries=8,
    merge_every_ms=2 * MINUTE,
    collect_every_ms=2 * MINUTE,
    snapshot_every_ms=2 * MINUTE,
    strong_read_every_ms=20 * SECOND,
    eventual_read_every_ms=20 * SECOND,
    check_every_ms=2 * MINUTE,
    retain_versions=1,
    grace_ms=20 * SECOND,
)
FAULTY = replace(
    BASE,
    stall_every_ms=2 * MINUTE,
    stall_ms=MINUTE,
    crash_every_ms=3 * MINUTE,
    failover_ms=5 * SECOND,
    lost=0.01,
    applied=0.01,
    late=0.01,
    throttled=0.01,
)
ZOMBIES = replace(FAULTY, crash_every_ms=0, lost=0.0, applied=0.0, late=0.0, throttled=0.0, duration_ms=30 * MINUTE)
UNREAD = replace(BASE, strong_read_every_ms=0, eventual_read_every_ms=0, check_every_ms=0, duration_ms=3 * MINUTE)


def planting(**replaced: Any) -> Bug:
    """A bug of the test's own: ``module__function`` -> what stands there."""
    targets = {f"memwal.{name.replace('__', ':')}".replace("_DOT_", "."): new for name, new in replaced.items()}
    return Bug(name="own", clause="", what="", why="", scenario="", oracle="", violated="", replaced=targets)


def broken(result: Result) -> tuple[str, str]:
    assert result.violation is not None
    return result.violation.oracle, result.violation.clause


@pytest.mark.parametrize("revision", B_FIRST)
def test_a_sound_engine_holds_under_crashes_stalls_and_faults(revision: str) -> None:
    result = soak(replace(FAULTY, revision=revision, seed=1))
    assert result.violation is None
    ends, totals = result.totals["ends"], result.totals
    assert ends["writer: crashed"] + ends["writer: Fenced"] >= 2
    assert totals["notes"]["merged"] > 10
    assert totals["deletions_judged"] > 100
    assert totals["reads"]["strong reader"] > 5
    assert set(totals["faults"]) == {"applied", "late", "lost", "throttled"}


def test_a_stalled_writer_goes_on_as_a_zombie_and_is_fenced() -> None:
    result = soak(replace(ZOMBIES, duration_ms=10 * MINUTE))
    assert result.violation is None
    assert result.totals["ends"]["writer: Fenced"] >= 2
    assert result.totals["notes"]["claimed"] >= 2 + result.totals["ends"]["writer: Fenced"]


def test_equal_settings_give_equal_runs_and_another_seed_another_one() -> None:
    brief = replace(FAULTY, duration_ms=2 * MINUTE)
    one, two, other = soak(brief), soak(brief), soak(replace(brief, seed=1))
    without_speed = [{k: v for k, v in result.as_dict().items() if k != "speed"} for result in (one, two)]
    assert without_speed[0] == without_speed[1]
    assert other.digest != one.digest


def test_a_run_is_the_same_in_another_process_with_another_hash_seed_and_an_index() -> None:
    settings = replace(FAULTY, regions_by="bucket", index_every_ms=30 * SECOND, duration_ms=80 * SECOND)
    here = soak(settings)
    code = (
        "from memwal_sim.soak.run import soak; from memwal_sim.soak.settings import from_dict; "
        f"print(soak(from_dict({settings.as_dict()!r})).digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert here.totals["notes"]["caught_up"] >= 1
    assert there.stdout.strip() == here.digest


def test_strong_reads_find_an_entry_that_was_overwritten() -> None:
    result = soak(replace(ZOMBIES, bugs=("plain_wal_put",)))
    assert broken(result)[0] == "strong reads see acknowledged writes"
    assert result.last_requests


def test_strong_reads_find_a_put_that_was_never_stored() -> None:
    assert broken(soak(replace(BASE, bugs=("canary",)))) == ("strong reads see acknowledged writes", "WAL-001")


def test_eventual_reads_find_a_merged_generation_that_wins_over_the_base() -> None:
    lagging = replace(BASE, snapshot_every_ms=4 * MINUTE, collect_every_ms=0, duration_ms=30 * MINUTE)
    result = soak(replace(lagging, readings=("merged_out_of_resolution=false",)))
    assert broken(result) == ("eventual reads never go back", "AMB-88")


def test_looks_at_the_store_find_a_zombie_that_no_barrier_stops() -> None:
    result = soak(replace(ZOMBIES, strong_read_every_ms=0, check_every_ms=MINUTE, bugs=("no_barrier",)))
    assert broken(result) == ("wal_epochs_never_decrease", "FENCE-015")


def test_the_guard_finds_a_collector_that_deletes_a_flush_under_way() -> None:
    hurried = replace(UNREAD, latency_ms=1500.0, put_every_ms=500, collect_every_ms=30 * SECOND, grace_ms=0, seed=9)
    result = soak(replace(hurried, duration_ms=6 * MINUTE, readings=("orphans_by_generation=false",)))
    assert broken(result) == ("nothing that is needed is deleted", "AMB-94")


def test_the_drain_finds_rows_that_never_came_to_the_base_table() -> None:
    result = soak(replace(UNREAD, bugs=("canary",)))
    assert broken(result) == ("the drained base table is the fold of the writes", "WAL-001")


def test_the_drain_finds_a_table_that_cannot_be_flushed() -> None:
    async def refuse(*_args: object) -> None:
        raise Throttled("flush")

    with planted([planting(region_DOT_flush__write_generation=refuse)]):
        result = soak(UNREAD)
    assert broken(result) == ("the table can be drained", "WRITER-013")


def test_the_last_look_finds_a_generation_whose_bloom_filter_denies_its_keys() -> None:
    encode = bloom.encode
    with planted([planting(codec_DOT_bloom__encode=lambda keys, revision: encode(keys.slice(0, 1), revision))]):
        result = soak(replace(UNREAD, collect_every_ms=0))
    assert broken(result) == ("the store is sound", "GEN-010")


def test_a_crash_of_engine_code_is_a_finding_and_names_the_process() -> None:
    async def divide(*_args: object, **_named: object) -> None:
        raise ZeroDivisionError("planted")

    with planted([planting(index_DOT_regions__scan=divide)]):
        result = soak(BASE)
    assert broken(result) == ("no process breaks", "ENGINE")
    assert result.violation is not None
    assert result.violation.reason == "snapshot builder 1 broke: ZeroDivisionError: planted"


def test_a_run_that_failed_fails_in_the_same_way_from_its_own_settings() -> None:
    one = soak(replace(BASE, bugs=("canary",)))
    two = soak(from_dict(one.as_dict()["settings"]))
    assert (two.violation, two.digest) == (one.violation, one.digest)


def test_a_store_that_refuses_above_a_rate_slows_writers_down_and_loses_nothing() -> None:
    result = soak(replace(BASE, prefix_reads_per_s=8, prefix_writes_per_s=4, duration_ms=3 * MINUTE))
    assert result.violation is None
    assert result.totals["faults"]["throttled"] > 20


def test_samples_tell_the_lag_the_tail_and_the_amplification() -> None:
    result = soak(replace(BASE, sample_every_ms=30 * SECOND, duration_ms=3 * MINUTE))
    last, middle = result.samples[-1], result.samples[-3]
    assert middle["WAL tail entries"] > 0
    assert (last["generations unmerged"], last["rows unmerged"]) == (0, 0)
    assert last["write amplification"] > 1
    assert last["objects"] > 10
    assert last["bytes"] == sum(value for name, value in last.items() if name.startswith("bytes of "))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"nothing": 1}, "no setting 'nothing'; there are "),
        ({"regions": "many"}, "setting regions takes a value of type int, not 'many'"),
        ({"regions": 0}, "regions is 0, and must be above 0"),
        ({"lost": -0.1}, "lost is -0.1, and must not be negative"),
        ({"lost": 0.4, "throttled": 0.3}, "more than half of all requests"),
        ({"bugs": "none_such"}, "there is no planted bug 'none_such'"),
        ({"readings": "x=false"}, "there is no reading 'x'; "),
        ({"readings": "claim_barrier"}, "'claim_barrier' must be NAME=true or NAME=false"),
        ({"revision": "Z"}, "there is no revision 'Z'"),
        ({"regions": 9, "keys": 10}, "10 keys for 9 regions: some regions would have none"),
        ({"late": 0.1, "grace_ms": 1000}, "a grace time of 1000 ms is too short"),
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        changed(SoakSettings(), values)


def test_settings_survive_their_way_through_a_file() -> None:
    assert all(from_dict(one.as_dict()) == one for one in PRESETS.values())
    with pytest.raises(InvalidArgument, match="no preset 'year'"):
        preset("year")
