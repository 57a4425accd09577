"""The garbage collector in a region: WAL entries, manifest versions, and left-over folders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import memwal
import pytest
from memwal import paths
from memwal.codec import hint, table_manifest, wal
from memwal.effects import Delete, Put, StoreRequest
from memwal.errors import ArtifactError
from memwal.ids import Generation, ManifestVersion, RegionId, WalPosition
from memwal.region import manifest as manifests
from memwal.region.transitions import COLLECTOR
from memwal.revisions import CONFIG_WAL_COLLECTION, REVISIONS
from memwal.table import write
from memwal.table.state import latest

from ..kit.collector_scene import (
    BUSY_ROWS,
    EVERY,
    Clock,
    at_version,
    busy,
    changes,
    folders,
    generation,
    listed,
    manifest_versions,
    newest_manifest,
    orphan,
    reasons,
    run,
    strong,
    table,
    tag,
    wal_positions,
)
from ..kit.ground import Ground, row
from ..kit.tables import IO, newest, objects_below

# --- WAL --------------------------------------------------------------------------------------------------------------


@pytest.mark.clause("GC-005", "GC-006", "GC-007", "AMB-95")
@EVERY
def test_entries_go_from_the_bottom_up_to_the_first_that_a_listed_generation_needs(revision: str) -> None:
    ground, region = busy(revision)
    before = wal_positions(ground, region, revision)
    decisions = run(ground, retain_versions=1)
    first = {"A": 7, "B": 6, "R": 6}[revision]
    assert before == list(range({"A": 1, "B": 0, "R": 1}[revision], 10))
    assert wal_positions(ground, region, revision) == list(range(first, 10))
    verb = {"A": "names entry", "B": "covers entries from", "R": "covers entries from"}[revision]
    after = "" if revision == "A" else " on"
    kept = reasons(decisions, "wal")
    assert (
        kept
        == [f"generation 3 is listed and {verb} {first}{after}"] * (8 - first) + ["not flushed: replay starts at 8"] * 2
    )
    gone = reasons(decisions, "wal", collected=True)
    assert gone == [f"below {first}: its generation was collected"] * (first - before[0])
    assert strong(ground) == BUSY_ROWS


@pytest.mark.clause("AMB-25")
@EVERY
def test_without_consent_no_entry_goes(revision: str) -> None:
    ground, region = busy(revision)
    ground.run(write.set_config(IO, {CONFIG_WAL_COLLECTION: "off"}))
    before = wal_positions(ground, region, revision)
    decisions = run(ground, retain_versions=1)
    assert wal_positions(ground, region, revision) == before
    assert set(reasons(decisions, "wal")) == {
        "config memwal.wal_collection is not on: writers do not verify their puts",
        "not flushed: replay starts at 8",
    }


@pytest.mark.clause("FENCE-018", "GC-007")
@EVERY
def test_entries_of_a_fenced_writer_stay_until_they_are_flushed_and_merged(revision: str) -> None:
    ground, region = busy(revision)
    made = memwal.open("t", store=ground)
    made.writer(region, background=False).put(row(6, "left"))
    entry = wal_positions(ground, region, revision)[-1]
    successor = made.writer(region, background=False)
    start = newest_manifest(ground, region, revision).position_replay_after + 1
    unflushed = [position for position in wal_positions(ground, region, revision) if position >= start]
    run(ground, retain_versions=1)
    assert [position for position in wal_positions(ground, region, revision) if position >= start] == unflushed
    assert entry in unflushed
    assert strong(ground) == {**BUSY_ROWS, 6: "left"}
    successor.flush()
    run(ground, retain_versions=1)
    assert entry in wal_positions(ground, region, revision)
    made.merge()
    decisions = run(ground, retain_versions=1)
    assert wal_positions(ground, region, revision) == []
    start = newest_manifest(ground, region, revision).position_replay_after + 1
    assert set(reasons(decisions, "wal", collected=True)) == {f"below {start}: its generation was collected"}
    assert strong(ground) == {**BUSY_ROWS, 6: "left"}
    made.writer(region, background=False).put(row(7, "again"))
    made.writer(region, background=False)
    left = wal_positions(ground, region, revision)
    assert left
    run(ground, retain_versions=1)
    assert wal_positions(ground, region, revision) == left
    assert strong(ground) == {**BUSY_ROWS, 6: "left", 7: "again"}


@pytest.mark.clause("GC-005", "GC-006")
def test_a_wal_file_that_two_generations_name_stays_until_both_are_gone(ground: Ground) -> None:
    made = table(ground, "A")
    region = RegionId(generation(made, None, (1, "a")))
    generation(made, region, (2, "b"))
    first, second = newest_manifest(ground, region, "A").flushed
    shared = latest_of(ground, region, first.path)
    also = latest_of(ground, region, second.path)
    also.manifest.message.fragments.add().CopyFrom(shared.manifest.message.fragments[0])
    also.manifest.message.fragments[-1].id = 9
    ground.objects[also.path] = table_manifest.encode(also.manifest)
    made.merge()
    tag(ground, "half", newest(ground).version - 1)
    decisions = run(ground, retain_versions=1)
    assert listed(ground, region, "A") == [2]
    assert wal_positions(ground, region, "A") == [1, 2, 3]
    assert reasons(decisions, "wal") == ["generation 2 is listed and names entry 1"] * 3
    del ground.objects["t/_refs/tags/half.json"]
    run(ground, retain_versions=1)
    assert wal_positions(ground, region, "A") == []


def latest_of(ground: Ground, region: RegionId, folder: str) -> Any:
    return ground.run(latest(IO.child(f"{paths.region(region)}/{folder}")))


def without_range(ground: Ground, region: RegionId, revision: str) -> None:
    """Make every generation one that does not record which entries it covers."""
    for found in newest_manifest(ground, region, revision).flushed:
        state = latest_of(ground, region, found.path)
        state.manifest.message.config.clear()
        ground.objects[state.path] = table_manifest.encode(state.manifest)


@pytest.mark.clause("AMB-95", "GC-012")
def test_a_native_generation_without_a_range_is_known_by_the_number_in_its_entries() -> None:
    ground, region = busy("R")
    without_range(ground, region, "R")
    decisions = run(ground, retain_versions=1)
    assert wal_positions(ground, region, "R") == [6, 7, 8, 9]
    assert reasons(decisions, "wal")[0] == "generation 3 is listed, and entry 6 does not belong to one before it"


def renumbered(ground: Ground, region: RegionId, position: int, generation: int) -> None:
    """Let the WAL entry say that it is of ``generation``, as one that a native writer stored for a later MemTable."""
    name = f"t/{paths.region(region)}/{paths.wal(WalPosition(position), REVISIONS['R'].wal_suffix)}"
    entry = wal.decode(ground.objects[name], REVISIONS["R"], name)
    ground.objects[name] = wal.encode(replace(entry, generation=Generation(generation)), REVISIONS["R"])


@pytest.mark.clause("AMB-95", "GC-006")
@pytest.mark.parametrize("ranged", [True, False])
def test_an_entry_of_a_later_number_than_its_generation_stays_with_it_and_is_no_fault(ranged: bool) -> None:
    ground, region = busy("R")
    for position in (6, 7):
        renumbered(ground, region, position, 4)
    assert memwal.verify("t", store=ground).findings == ()
    if not ranged:
        without_range(ground, region, "R")
    run(ground, retain_versions=1)
    assert wal_positions(ground, region, "R") == [6, 7, 8, 9]
    assert strong(ground) == BUSY_ROWS


@pytest.mark.clause("AMB-95", "GC-007")
def test_in_b_a_listed_generation_without_a_range_keeps_all_entries() -> None:
    ground, region = busy("B")
    without_range(ground, region, "B")
    decisions = run(ground, retain_versions=1)
    assert wal_positions(ground, region, "B") == list(range(10))
    assert reasons(decisions, "wal")[0] == "generation 3 is listed and does not record which entries it covers"


@pytest.mark.clause("AMB-95", "GC-007")
def test_of_two_generations_that_need_the_same_entry_the_earlier_is_named(ground: Ground) -> None:
    made = table(ground, "B")
    region = RegionId(generation(made, None, (1, "a")))
    generation(made, region, (2, "b"))
    without_range(ground, region, "B")
    decisions = run(ground, retain_versions=1)
    assert reasons(decisions, "wal")[0] == "generation 1 is listed and does not record which entries it covers"


@pytest.mark.clause("GC-007")
@EVERY
def test_a_flushed_generation_that_is_neither_listed_nor_merged_keeps_all_entries_and_its_folder(
    revision: str,
) -> None:
    ground = Ground()
    made = table(ground, revision)
    region = RegionId(generation(made, None, (1, "a")))
    generation(made, region, (2, "b"))
    skipping(ground, region, revision)
    decisions = run(ground, retain_versions=1)
    assert folders(ground, region) == [1, 2]
    assert "generation 1 was flushed, and is neither listed nor merged" in reasons(decisions, "wal")
    assert not reasons(decisions, "wal", collected=True)
    assert reasons(decisions, "orphan") == ["generation 1 is neither listed nor merged: a flush may be out of order"]


@pytest.mark.clause("MERGE-001", "READ-008")
@EVERY
def test_a_strong_read_of_a_region_that_lost_a_generation_says_so_at_its_second_look(revision: str) -> None:
    ground = Ground()
    made = table(ground, revision)
    region = RegionId(generation(made, None, (1, "a")))
    generation(made, region, (2, "b"))
    skipping(ground, region, revision)
    notes: list[str] = []
    reader = memwal.open("t", store=ground, listener=lambda event, _: notes.append(event))
    with pytest.raises(ArtifactError, match="generation 1 is neither listed nor merged: progress is 0; ") as lost:
        reader.scan()
    assert lost.value.clause == "MERGE-001"
    assert lost.value.path == manifests.folder(IO, region).path(paths.manifest(ManifestVersion(5)))
    assert notes.count("read_again") == 1


def skipping(ground: Ground, region: RegionId, revision: str) -> None:
    """Commit a manifest without generation 1, as after a flush that was overtaken."""

    async def derive(current: Any) -> Any:
        return replace(manifests.following(current), flushed=current.flushed[1:])

    io = manifests.folder(IO, region)
    ground.run(manifests.advance(io, REVISIONS[revision], COLLECTOR, derive, collected=True))


@pytest.mark.clause("AMB-95")
def test_a_recorded_range_that_is_no_number_is_an_error() -> None:
    ground, region = busy("B")
    (found,) = newest_manifest(ground, region, "B").flushed[-1:]
    state = latest_of(ground, region, found.path)
    state.manifest.message.config["memwal.wal_first"] = "first"
    ground.objects[state.path] = table_manifest.encode(state.manifest)
    with pytest.raises(ArtifactError, match="is not a position: 'first'"):
        run(ground, retain_versions=1)


# --- region manifests -------------------------------------------------------------------------------------------------


@pytest.mark.clause("GC-008", "AMB-96")
@pytest.mark.parametrize(("keep", "left"), [(2, [7, 8]), (3, [6, 7, 8]), (8, [1, 2, 3, 4, 5, 6, 7, 8])])
@EVERY
def test_the_newest_manifest_versions_stay_by_number(revision: str, keep: int, left: list[int]) -> None:
    ground, region = busy(revision)
    decisions = run(ground, retain_versions=1, retain_manifests=keep)
    assert manifest_versions(ground, region) == left
    assert set(reasons(decisions, "manifest")) == {f"among the newest {keep}"}
    assert newest_manifest(ground, region, revision).version == 8


@pytest.mark.clause("GC-008", "AMB-30")
def test_without_consent_no_manifest_version_goes(ground: Ground) -> None:
    made = table(ground, manifest_collection=False)
    region = RegionId(generation(made, None, (1, "a")))
    generation(made, region, (2, "b"))
    decisions = run(ground, retain_versions=1, retain_manifests=2)
    assert manifest_versions(ground, region) == [1, 2, 3, 4]
    expected = "config memwal.manifest_collection is not on: commits are not confirmed"
    assert reasons(decisions, "manifest") == [expected] * 2 + ["among the newest 2"] * 2


@pytest.mark.clause("AMB-32", "AMB-31", "MANIFEST-001", "GC-008")
@pytest.mark.parametrize("damage", ["", "missing", "behind", "ahead", "damaged"])
def test_after_each_single_deletion_probing_and_listing_find_the_newest_manifest(damage: str) -> None:
    ground, region = busy("B")
    folder = manifests.folder(IO, region)
    name = folder.path(paths.VERSION_HINT)
    hints = {"behind": hint.encode(ManifestVersion(2)), "ahead": hint.encode(ManifestVersion(40)), "damaged": b"{"}
    if damage == "missing":
        del ground.objects[name]
    elif damage:
        ground.objects[name] = hints[damage]
    found: list[tuple[int, int, list[int]]] = []

    def look(request: StoreRequest[Any]) -> None:
        if isinstance(request, Delete) and "/manifest/" in request.path:
            then = Ground({n: d for n, d in ground.objects.items() if n != request.path})
            probed = then.run(manifests.require(folder, REVISIONS["B"]))
            by_list = then.run(manifests.newest_listed(folder, REVISIONS["B"]))
            assert by_list is not None
            found.append((probed.version, by_list.version, manifest_versions(then, region)))

    ground.before = look  # type: ignore[assignment]
    run(ground, retain_manifests=2)
    assert found == [(7, 7, list(range(first, 8))) for first in range(2, 7)]
    assert ground.objects[name] == hint.encode(ManifestVersion(7)) or damage in ("", "ahead")


@pytest.mark.clause("AMB-96", "AMB-31")
def test_the_hint_is_moved_before_the_version_goes_that_it_named_and_else_that_stays() -> None:
    ground, region = busy("B")
    name = f"t/{paths.region(region)}/{paths.VERSION_HINT}"
    ground.objects[name] = hint.encode(ManifestVersion(3))
    stuck = Ground(ground.objects)
    since = len(ground.asked)
    run(ground, retain_manifests=2)
    made = [r.path for r in changes(ground, since) if "/manifest/" in r.path]
    assert made[0] == name
    assert manifest_versions(ground, region) == [6, 7]
    stuck.before = lambda r: memwal.StorageError(r.path, "full") if r.path == name and isinstance(r, Put) else None
    decisions = run(stuck, retain_manifests=2)
    assert manifest_versions(stuck, region) == [3, 4, 5, 6, 7]
    assert reasons(decisions, "manifest")[:3] == ["the hint names version 3"] * 3


# --- orphans ----------------------------------------------------------------------------------------------------------


@pytest.mark.clause("GC-009", "AMB-94")
@EVERY
def test_left_overs_go_below_the_current_generation_and_stay_from_it_on(revision: str) -> None:
    ground, region = busy(revision)
    going = [orphan(ground, region, number) for number in (1, 2, 3)]
    staying = [orphan(ground, region, number) for number in (4, 5)]
    decisions = run(ground)
    assert [d.name for d in decisions if d.kind == "orphan" and d.collected] == going
    assert [(d.name, d.reason) for d in decisions if d.kind == "orphan" and not d.collected] == [
        (name, "a flush may still commit it: the current generation is 4") for name in staying
    ]
    assert sorted(n for n in objects_below(ground, paths.region(region)) if n.startswith("0badf00d")) == [
        "0badf00d_gen_4/bloom_filter.bin",
        "0badf00d_gen_5/bloom_filter.bin",
    ]
    assert strong(ground) == BUSY_ROWS


@pytest.mark.clause("AMB-94")
def test_an_age_delays_the_deletion_of_a_left_over_whose_table_says_when_it_was_made(clock: Clock) -> None:
    ground = Ground()
    made = table(ground)
    region = RegionId(generation(made, None, (1, "a")))
    young = orphan(ground, region, 1, "0000000a", made_ms=clock.now_ms)
    old = orphan(ground, region, 1, "0000000b", made_ms=clock.now_ms - 3_600_000)
    bare = orphan(ground, region, 1, "0000000c")
    decisions = made.gc(orphan_age_ms=600_000).decisions
    assert {d.name: d.reason for d in decisions if d.kind == "orphan" and not d.collected} == {
        young: "the table in it is younger than 10 min"
    }
    assert {d.name for d in decisions if d.kind == "orphan" and d.collected} == {old, bare}


@pytest.mark.clause("GC-003", "GC-009")
def test_an_unlisted_folder_that_a_retained_version_reads_stays(ground: Ground) -> None:
    made = table(ground)
    region = RegionId(generation(made, None, (1, "a")))
    made.snapshot()
    remembering = newest(ground)
    generation(made, region, (2, "b"))
    made.merge()
    skipping(ground, region, "B")
    decisions = run(ground)
    assert reasons(decisions, "orphan") == [
        "a retained table version lists it: above merge progress 0 of retained table version 2"
    ]
    assert at_version(ground, remembering) == {1: "a"}
    run(ground, retain_versions=1)
    assert folders(ground, region) == []


def test_folders_of_other_names_in_a_region_are_left_alone() -> None:
    ground, region = busy("B")
    ground.objects[f"t/{paths.region(region)}/notes/x"] = b"x"
    ground.objects[f"t/{paths.region(region)}/0badf00d_gen_x/x"] = b"x"
    ground.objects["t/_mem_wal/elsewhere/0badf00d_gen_1/x"] = b"x"
    run(ground, retain_versions=1, retain_manifests=2)
    assert {n for n, d in ground.objects.items() if d == b"x"} == {
        f"t/{paths.region(region)}/notes/x",
        f"t/{paths.region(region)}/0badf00d_gen_x/x",
        "t/_mem_wal/elsewhere/0badf00d_gen_1/x",
    }
