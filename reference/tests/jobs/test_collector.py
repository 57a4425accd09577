"""The garbage collector on a table that stands still: generations and table versions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import pytest
from memwal import paths
from memwal.codec import table_manifest
from memwal.codec.index_details import IndexCatchup
from memwal.effects import Delete, Put, PutIfAbsent, StoreRequest
from memwal.errors import ArtifactError, InvalidArgument, NotFound
from memwal.ids import Generation, ManifestVersion, RegionId, TableVersion
from memwal.index import mem_wal
from memwal.jobs import collector
from memwal.jobs.collector import Policy
from memwal.revisions import LITERAL
from memwal.table import collected, write
from memwal.table.state import latest

from ..kit.catch_up_scenes import enabled
from ..kit.catch_up_scenes import rows as native_rows
from ..kit.collector_scene import (
    BUSY_ROWS,
    EVERY,
    Clock,
    at_version,
    busy,
    catch_up,
    changes,
    enabled_history,
    folders,
    generation,
    listed,
    newest_manifest,
    one_merged,
    reasons,
    run,
    strong,
    table,
    tag,
    wal_positions,
)
from ..kit.ground import SCHEMA, Actor, Ground, row
from ..kit.profiles import read_as
from ..kit.tables import IO, changed, flush, history, newest

# --- generations ------------------------------------------------------------------------------------------------------


@pytest.mark.clause("GC-001", "GC-013", "AMB-80")
@EVERY
def test_a_generation_that_is_not_merged_stays_and_a_region_without_an_entry_has_merged_none(revision: str) -> None:
    ground = Ground()
    made = table(ground, revision)
    region = RegionId(generation(made, None, (1, "a")))
    generation(made, region, (2, "b"))
    decisions = run(ground, retain_versions=1)
    assert reasons(decisions, "generation") == ["above merge progress 0 of the newest table version 3"] * 2
    assert listed(ground, region, revision) == folders(ground, region) == [1, 2]
    assert strong(ground) == {1: "a", 2: "b"}


@pytest.mark.clause("GC-001", "GC-013", "GC-010")
@EVERY
def test_merged_generations_go_and_every_row_stays(revision: str) -> None:
    ground, region = busy(revision)
    decisions = run(ground, retain_versions=1)
    assert (
        reasons(decisions, "generation", collected=True)
        == ["merged in every retained table version, and covered by every maintained index"] * 2
    )
    assert listed(ground, region, revision) == folders(ground, region) == [3]
    assert strong(ground) == BUSY_ROWS


@pytest.mark.clause("GC-013")
@EVERY
def test_after_each_single_deletion_readers_see_the_same_rows(revision: str) -> None:
    ground, _ = busy(revision)
    seen = []

    def look(request: StoreRequest[Any]) -> None:
        if isinstance(request, Delete | Put | PutIfAbsent):
            seen.append(strong(Ground(ground.objects)))

    ground.before = look  # type: ignore[assignment]
    run(ground, retain_versions=1, retain_manifests=2)
    assert len(seen) > 25
    assert all(rows == BUSY_ROWS for rows in seen)


@pytest.mark.clause("GC-002", "GC-011", "AMB-71", "AMB-72", "AMB-73")
@pytest.mark.parametrize(
    ("entries", "held_by"),
    [
        ({}, "index 'i' has caught up to generation 0 only"),
        ({"other": {"*": 1}}, "index 'i' has caught up to generation 0 only"),
        ({"i": {}}, "index 'i' has caught up to generation 0 only"),
        ({"i": {"00000000-0000-4000-8000-000000000001": 7}}, "index 'i' has caught up to generation 0 only"),
        ({"i": {"*": 0}}, "index 'i' has caught up to generation 0 only"),
        ({"i": {"*": 1}}, "index 'j' has caught up to generation 0 only"),
        ({"i": {"*": 1}, "j": {"*": 1}}, ""),
    ],
)
def test_a_generation_stays_until_the_record_of_each_maintained_index_reaches_it_in_its_region(
    entries: dict[str, dict[str, int]], held_by: str
) -> None:
    ground = Ground()
    region = one_merged(ground)
    named = {n: {region if r == "*" else r: g for r, g in by.items()} for n, by in entries.items()}
    catch_up(ground, named, ("i", "j"))
    decisions = run(ground, retain_versions=1)
    assert reasons(decisions, "generation") == ([held_by] if held_by else [])
    assert listed(ground, region, "B") == ([1] if held_by else [])


@pytest.mark.clause("AMB-71")
def test_under_the_literal_reading_a_missing_record_lets_a_generation_go(ground: Ground) -> None:
    region = one_merged(ground)
    catch_up(ground, {}, ("i",))
    ground.run(collector.collect(read_as(IO, LITERAL), Policy(retain_versions=1)))
    assert listed(ground, region, "B") == []


@pytest.mark.clause("AMB-73", "GC-011")
@pytest.mark.parametrize("maintain_all", [None, False, True])
def test_where_a_table_maintains_all_indexes_each_index_of_the_base_holds_generations_back(
    tmp_path: Path, maintain_all: bool | None
) -> None:
    made = enabled(tmp_path / "t", ["btree", "bitmap"], maintained=["btree"])
    ground = Ground({f"t/{p.relative_to(tmp_path / 't')}": p.read_bytes() for p in files_below(tmp_path / "t")})
    made = memwal.open("t", store=ground)
    region = RegionId(flush(made, native_rows(300, 310)))
    made.merge()
    made.catch_up("btree")
    changed(ground, lambda d: replace(d, maintain_all=maintain_all))
    run(ground, retain_versions=1)
    assert listed(ground, region, "R") == ([1] if maintain_all else [])


def files_below(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


@pytest.mark.clause("AMB-78", "GC-002")
def test_a_record_does_not_count_beyond_what_the_fragments_of_the_index_prove(tmp_path: Path) -> None:
    enabled(tmp_path / "t", ["btree"])
    ground = Ground({f"t/{p.relative_to(tmp_path / 't')}": p.read_bytes() for p in files_below(tmp_path / "t")})
    made = memwal.open("t", store=ground)
    region = RegionId(flush(made, native_rows(300, 310), native_rows(310, 320)))
    made.merge()
    catch_up(ground, {"btree": {region: 2}}, ("btree",))
    foretold = run(ground, retain_versions=1, dry_run=True)
    decisions = run(ground, retain_versions=1)
    assert reasons(decisions, "generation") == ["index 'btree' has caught up to generation 0 only"] * 2
    assert reasons(decisions, "generation") == reasons(foretold, "generation")
    made.catch_up("btree")
    run(ground, retain_versions=1)
    assert listed(ground, region, "R") == []


@pytest.mark.clause("GC-012")
@pytest.mark.parametrize("missing", ["merged", "caught up", "retained", "nothing"])
def test_each_of_the_three_conditions_alone_keeps_a_generation_and_its_wal_entries(missing: str) -> None:
    ground = Ground()
    made = table(ground, "B")
    region = RegionId(generation(made, None, (1, "a")))
    before = newest(ground).version
    if missing != "merged":
        made.merge()
    catch_up(ground, {"i": {region: 0 if missing == "caught up" else 1}}, ("i",))
    if missing == "retained":
        tag(ground, "old", before)
    run(ground, retain_versions=1)
    whole = ([1], [1], [0, 1])
    found = listed(ground, region, "B"), folders(ground, region), wal_positions(ground, region, "B")
    assert found == (whole if missing != "nothing" else ([], [], []))


@pytest.mark.clause("GC-003", "GC-004", "AMB-91")
def test_a_generation_stays_for_a_retained_version_that_has_not_merged_it_and_goes_when_that_is_dropped() -> None:
    ground = Ground()
    made = table(ground)
    region = RegionId(generation(made, None, (1, "a")))
    generation(made, region, (2, "b"))
    made.merge()
    first, second = history(ground)[-2:]
    assert [s.mem_wal.progress(region) for s in (first, second)] == [1, 2]
    decisions = run(ground, retain_versions=2)
    assert reasons(decisions, "generation") == [f"above merge progress 1 of retained table version {first.version}"]
    assert listed(ground, region, "B") == [2]
    run(ground, retain_versions=1)
    assert listed(ground, region, "B") == []


@pytest.mark.clause("GC-003", "AMB-115", "AMB-91")
@pytest.mark.parametrize("time_travel", ["progress", "snapshot"])
@EVERY
def test_every_retained_version_reads_as_it_was_after_each_collection(revision: str, time_travel: str) -> None:
    ground = Ground()
    made = table(ground, revision)
    region = None
    seen: dict[int, dict[int, str]] = {}
    for step in range(6):
        region = generation(made, region, (step, f"new {step}"), (step - 1, f"again {step}"))
        if step % 2:
            made.snapshot(inline_most=0)
        if step in (2, 4, 5):
            made.merge()
        seen.update({state.version: at_version(ground, state) for state in enabled_history(ground)})
    for keep in (9, 6, 4, 2, 1):
        retained = {state.version for state in history(ground)[-keep:]}
        run(ground, retain_versions=keep, retain_manifests=2, time_travel=time_travel)
        found = {state.version: at_version(ground, state) for state in enabled_history(ground)}
        assert found.keys() >= retained
        assert {v: rows for v, rows in found.items() if v in seen} == {v: seen[v] for v in found.keys() & seen.keys()}
    assert strong(ground) == {-1: "again 0", **{n: f"again {n + 1}" for n in range(5)}, 5: "new 5"}


@pytest.mark.clause("GC-004", "AMB-98", "AMB-87")
@pytest.mark.parametrize("keep", [1, 2, 3, 4, 5])
def test_what_is_left_after_a_collection_suffices_to_restore_any_retained_version_and_merge_anew(
    tmp_path: Path, keep: int
) -> None:
    made = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], wal_collection=True)
    region = None
    for step in range(3):
        region = generation(made, region, (step, f"new {step}"), (step - 1, f"again {step}"))
        made.merge()
    expected = {-1: "again 0", 0: "again 1", 1: "again 2", 2: "new 2"}
    made.gc(retain_versions=keep)
    for entry in lance.dataset(str(tmp_path / "t")).versions()[:-1]:
        lance.dataset(str(tmp_path / "t"), version=entry["version"]).restore()
        assert {r["id"]: r["v"] for r in made.scan().to_pylist()} == expected
        made.merge()
        found = lance.dataset(str(tmp_path / "t")).to_table().to_pylist()
        assert {r["id"]: r["v"] for r in found} == expected


@pytest.mark.clause("AMB-91", "AMB-98", "AMB-87")
def test_the_snapshot_rule_records_what_may_not_be_restored_before_it_deletes(ground: Ground) -> None:
    made = table(ground)
    region = RegionId(generation(made, None, (1, "a")))
    made.snapshot()
    bare = newest(ground)
    generation(made, region, (2, "b"))
    made.merge()
    since = len(ground.asked)
    decisions = run(ground, retain_versions=4, time_travel="snapshot")
    reason = f"above merge progress 0 of retained table version {bare.version}, whose region snapshot lists it"
    assert reasons(decisions, "generation") == [reason]
    assert listed(ground, region, "B") == [1]
    recorded = newest(ground)
    assert {k: v for k, v in recorded.config.items() if k.startswith("memwal.collected.")} == {
        f"memwal.collected.{region}": "2"
    }
    made_since = [r.path for r in changes(ground, since) if isinstance(r, PutIfAbsent) or "_gen_2/" in r.path]
    deleted = next(i for i, path in enumerate(made_since) if "_gen_2/" in path)
    assert made_since.index(recorded.path) < deleted
    with pytest.raises(InvalidArgument, match="AMB-91"):
        collected.check_restorable(recorded, bare)
    collected.check_restorable(recorded, recorded)
    assert at_version(ground, bare) == {1: "a"}
    again = run(ground, retain_versions=5, time_travel="snapshot")
    assert not any(decision.collected for decision in again)
    assert newest(ground).version == recorded.version


def points(ground: Ground) -> dict[str, str]:
    """What the newest version records of collected generations, by config key."""
    return {k: v for k, v in newest(ground).config.items() if k.startswith("memwal.collected.")}


@pytest.mark.clause("GC-003", "GC-004", "AMB-87", "AMB-91")
@pytest.mark.parametrize("time_travel", ["progress", "snapshot"])
def test_a_restored_version_that_has_merged_less_than_those_before_it_counts_too(time_travel: str) -> None:
    ground = Ground()
    made = table(ground)
    region = RegionId(generation(made, None, (1, "a")))
    generation(made, region, (2, "b"))
    made.merge()
    memwal.base_table("t", store=ground).restore(history(ground)[-2].version)
    restored = newest(ground)
    made.refresh().merge()
    assert [state.mem_wal.progress(region) for state in history(ground)[-3:]] == [2, 1, 2]
    run(ground, retain_versions=3, time_travel=time_travel)
    if time_travel == "progress":
        assert (listed(ground, region, "B"), points(ground)) == ([2], {})
        memwal.base_table("t", store=ground).restore(restored.version)
        made.refresh().merge()
        assert strong(ground) == {1: "a", 2: "b"}
    else:
        assert (listed(ground, region, "B"), points(ground)) == ([], {f"memwal.collected.{region}": "2"})
        with pytest.raises(InvalidArgument, match="AMB-91"):
            memwal.base_table("t", store=ground).restore(restored.version)


@pytest.mark.clause("AMB-91", "AMB-98")
def test_a_second_collection_raises_the_point_that_the_first_recorded(ground: Ground) -> None:
    made = table(ground)
    region = RegionId(generation(made, None, (1, "a")))
    for number, pair in ((1, (2, "b")), (2, (3, "c"))):
        made.merge()
        merged = newest(ground)
        run(ground, retain_versions=9, time_travel="snapshot")
        assert points(ground) == {f"memwal.collected.{region}": str(number)}
        generation(made, region, pair)
    assert merged.mem_wal.progress(region) == 2
    made.merge()
    run(ground, retain_versions=9, time_travel="snapshot")
    assert points(ground) == {f"memwal.collected.{region}": "3"}
    with pytest.raises(InvalidArgument, match="up to generation 2, and those up to 3 were collected"):
        memwal.base_table("t", store=ground).restore(merged.version)


def test_of_two_points_for_a_region_the_higher_is_kept_and_a_damaged_one_is_an_error(ground: Ground) -> None:
    region = one_merged(ground)
    for point in (5, 3):
        state = ground.run(collected.record(IO, {region: Generation(point)}))
        assert collected.collected_points(state) == {region: 5}
    for key, text in (("memwal.collected.x", "1"), (f"memwal.collected.{region}", "many")):
        damaged = ground.run(write.set_config(IO, {key: text}))
        with pytest.raises(ArtifactError, match="AMB-91"):
            collected.collected_points(damaged)
        ground.run(write.set_config(IO, {key: "1"}))


@pytest.mark.clause("GC-010", "AMB-93", "MANIFEST-037")
@EVERY
def test_the_entries_go_before_the_files_and_of_those_the_table_versions_first(revision: str) -> None:
    ground, region = busy(revision)
    before = newest_manifest(ground, region, revision)
    since = len(ground.asked)
    run(ground, retain_versions=1)
    made = changes(ground, since)
    unlisted = next(i for i, r in enumerate(made) if isinstance(r, PutIfAbsent) and "/manifest/" in r.path)
    for number in (1, 2):
        deleted = [i for i, r in enumerate(made) if f"_gen_{number}/" in r.path]
        assert min(deleted) > unlisted
        assert "/_versions/" in made[min(deleted)].path
    after = newest_manifest(ground, region, revision)
    assert after == replace(before, version=ManifestVersion(before.version + 1), flushed=before.flushed[2:])
    for found in after.flushed:
        ground.run(latest(IO.child(f"{paths.region(region)}/{found.path}")))


def test_a_version_from_before_mem_wal_was_enabled_keeps_no_generation(ground: Ground) -> None:
    region = one_merged(ground)
    tag(ground, "plain", 1)
    decisions = run(ground, retain_versions=1)
    assert [s.mem_wal_entry is None for s in history(ground)] == [True, False]
    assert reasons(decisions, "version") == ["tag 'plain' names it", "the newest version"]
    assert listed(ground, region, "B") == []


# --- table versions ---------------------------------------------------------------------------------------------------


@pytest.mark.clause("GC-003")
def test_versions_stay_by_number_by_age_and_by_name(ground: Ground, clock: Clock) -> None:
    made = table(ground)
    for key in range(3):
        made.base.append(row(key))
    clock.now_ms += 3_600_000
    for key in range(3, 5):
        made.base.append(row(key))
    tag(ground, "one", 1)
    tag(ground, "elsewhere", 2, branch="b")
    ground.objects["t/_refs/branches/b.json"] = json.dumps(
        {"parentBranch": None, "parentVersion": 3, "identifier": {"version_mapping": [[3, "0a"]]}}
    ).encode()

    def kept(**policy: int) -> dict[int, str]:
        found = made.gc(dry_run=True, **policy).decisions
        return {
            int(TableVersion(2**64 - 1 - int(d.name[10:30]))): d.reason
            for d in found
            if d.kind == "version" and not d.collected
        }

    names = {1: "tag 'one' names it", 3: "branch 'b' names it"}
    assert kept(retain_versions=1) == {**names, 7: "the newest version"}
    assert kept(retain_versions=2) == {**names, 6: "among the newest 2", 7: "the newest version"}
    assert kept(retain_age_ms=600_000) == {**names, 6: "younger than 10 min", 7: "the newest version"}
    assert kept(retain_versions=4, retain_age_ms=1) == {
        **names,
        4: "among the newest 4",
        5: "among the newest 4",
        6: "among the newest 4",
        7: "the newest version",
    }
    assert len(kept()) == 7
    made.gc(retain_versions=1)
    assert [state.version for state in history(ground)] == [1, 3, 7]


@pytest.mark.clause("GC-003")
@pytest.mark.parametrize("steps", [2, 3])
def test_the_version_from_which_the_first_branch_of_a_lineage_starts_stays(ground: Ground, steps: int) -> None:
    made = table(ground)
    for key in range(5):
        made.base.append(row(key))
    lineage = [[2, "0a"], [40, "0b"], [50, "0c"]][:steps]
    branch = {"parentBranch": "b", "parentVersion": lineage[-1][0], "identifier": {"version_mapping": lineage}}
    ground.objects["t/_refs/branches/c.json"] = json.dumps(branch).encode()
    kept = [d for d in made.gc(retain_versions=1).decisions if d.kind == "version" and d.rule == "reference"]
    assert [decision.reason for decision in kept] == ["branch 'c' names it"]
    assert [state.version for state in history(ground)] == [2, 7]


@pytest.mark.clause("GC-003")
@pytest.mark.parametrize("folder", ["tags", "branches"])
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"version": "x", "parentVersion": "x"}', b"\xff"])
def test_a_tag_or_branch_that_cannot_be_read_stops_the_collector(ground: Ground, folder: str, data: bytes) -> None:
    one_merged(ground)
    ground.objects[f"t/_refs/{folder}/x.json"] = data
    before = dict(ground.objects)
    with pytest.raises(ArtifactError) as caught:
        run(ground, retain_versions=1)
    assert (caught.value.clause, caught.value.path) == ("GC-003", f"t/_refs/{folder}/x.json")
    assert ground.objects == before


def test_a_version_without_a_time_stamp_is_never_too_old(ground: Ground, clock: Clock) -> None:
    made = table(ground)
    name = f"t/{paths.table_manifest(TableVersion(1))}"
    manifest = table_manifest.decode(ground.objects[name], name)
    manifest.message.ClearField("timestamp")
    ground.objects[name] = table_manifest.encode(manifest)
    clock.now_ms += 10**9
    assert reasons(made.gc(retain_age_ms=1, dry_run=True).decisions, "version")[0] == (
        "it has no time stamp that tells its age"
    )


@pytest.mark.parametrize(
    ("policy", "clause"),
    [
        ({"retain_versions": 0}, "GC-003"),
        ({"retain_manifests": 1}, "AMB-96"),
        ({"grace_ms": -1}, "AMB-92"),
        ({"retain_age_ms": -1}, "AMB-92"),
        ({"time_travel": "never"}, "AMB-91"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(policy: dict[str, Any], clause: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Policy(**policy)
    assert caught.value.clause == clause


def test_a_table_without_mem_wal_and_no_table_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        run(Ground(), retain_versions=1)
    ground = Ground()
    table(ground)
    first = Ground({name: data for name, data in ground.objects.items() if not name.endswith("13.manifest")})
    with pytest.raises(InvalidArgument, match="not enabled"):
        run(first, retain_versions=1)


# --- grace ------------------------------------------------------------------------------------------------------------


@pytest.mark.clause("AMB-92")
def test_with_a_grace_time_a_generation_waits_until_a_version_older_than_that_had_no_need_of_it(clock: Clock) -> None:
    ground = Ground()
    made = table(ground)
    region = RegionId(generation(made, None, (1, "a")))
    clock.now_ms += 3_600_000
    made.merge()
    merged = newest(ground).version
    kept = made.gc(retain_versions=1, grace_ms=600_000)
    assert reasons(kept.decisions, "generation") == [f"above merge progress 0 of retained table version {merged - 1}"]
    assert [s.version for s in history(ground)] == [merged - 1, merged]
    clock.now_ms += 599_000
    made.base.append(row(9))
    assert listed(ground, region, "B") == [1]
    clock.now_ms += 10_000
    made.gc(retain_versions=1, grace_ms=600_000)
    assert listed(ground, region, "B") == []
    assert [s.version for s in history(ground)] == [merged, merged + 1]


@pytest.mark.clause("AMB-92", "GC-002")
def test_with_a_grace_time_a_generation_waits_for_an_index_that_has_just_caught_up(clock: Clock) -> None:
    ground = Ground()
    region = one_merged(ground)
    made = memwal.open("t", store=ground)

    def caught_up(to: int) -> None:
        catch_up_by_api(made, {"i": {region: to}})

    caught_up(0)
    lagging = newest(ground).version
    clock.now_ms += 3_600_000
    caught_up(1)
    kept = made.gc(retain_versions=1, grace_ms=600_000, time_travel="snapshot")
    expected = (
        f"index 'i' has caught up to generation 0 only, and version {lagging} was the newest less than 10 min ago"
    )
    assert reasons(kept.decisions, "generation") == [expected]
    clock.now_ms += 600_000
    made.gc(retain_versions=1, grace_ms=600_000)
    assert listed(ground, region, "B") == []


def catch_up_by_api(made: memwal.Table, entries: dict[str, dict[RegionId, int]]) -> None:
    """As `catch_up`, in the time of the test's clock."""
    found = tuple(
        IndexCatchup(index_name=n, generations=tuple((r, Generation(g)) for r, g in by.items()))
        for n, by in entries.items()
    )

    async def derive(_: Any, details: Any) -> Any:
        return replace(details, maintained_indexes=tuple(entries), catchup=found)

    made._run(mem_wal.change(IO, derive))


@pytest.mark.clause("AMB-92")
def test_under_the_snapshot_rule_grace_still_covers_strong_readers_of_recent_versions(clock: Clock) -> None:
    ground = Ground()
    made = table(ground)
    region = RegionId(generation(made, None, (1, "a")))
    made.merge()
    assert reasons(made.gc(retain_versions=9, time_travel="snapshot", grace_ms=600_000).decisions, "generation")
    clock.now_ms += 600_000
    assert not reasons(made.gc(retain_versions=9, time_travel="snapshot", grace_ms=600_000).decisions, "generation")
    assert listed(ground, region, "B") == []


@pytest.mark.clause("AMB-92")
def test_with_a_grace_time_an_append_that_was_slow_is_not_lost_to_the_expiry_of_versions(clock: Clock) -> None:
    ground = Ground()
    made = table(ground)
    slow = write.append(IO, row(7, "slow"))
    stalled = Actor(ground, slow).until(PutIfAbsent, "_versions/")
    for key in range(3):
        made.base.append(row(key))
    made.gc(retain_versions=1, grace_ms=600_000)
    stalled.finish()
    assert strong(ground)[7] == "slow"
