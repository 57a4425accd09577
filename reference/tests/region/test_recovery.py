"""Recovery: what is replayed, in which order, and what stops it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from memwal.codec import wal
from memwal.effects import Get, Head, Io, List, ListFolders, PutIfAbsent, StoreRequest
from memwal.errors import ArtifactError, Fenced
from memwal.ids import UINT64_MAX, WalPosition
from memwal.read.tail import wal_tail
from memwal.region import manifest as manifests
from memwal.region import wal_folder
from memwal.region.claim import claim
from memwal.region.opening import open_writer
from memwal.region.recovery import recover, replay_start
from memwal.revisions import STRICT, A, B, R, Revision

from ..kit.ground import (
    ROOT,
    SCHEMA,
    Actor,
    Ground,
    entries,
    entry_name,
    keys,
    manifest,
    put_entry,
    put_manifests,
    region,
    row,
    versions,
)

REVISIONS = pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)


def flushed_until(revision: Revision, after: int, *, epoch: int = 5, seen: int = 0, generation: int = 2) -> Ground:
    """A region whose entries up to ``after`` are in a generation; version 2, hinted."""
    ground = Ground()
    put_manifests(
        ground,
        revision,
        manifest(1, epoch),
        manifest(2, epoch, after=after, seen=seen, generation=generation),
        hint_at=2,
    )
    return ground


def opened_keys(ground: Ground, revision: Revision) -> list[int]:
    return keys(ground.run(open_writer(region(revision))).memtable.table())


def refusal(ground: Ground, revision: Revision) -> ArtifactError:
    """The error of an attempt to open the region, which may change the WAL in no way."""
    before = ground.below("wal/")
    with pytest.raises(ArtifactError) as caught:
        ground.run(open_writer(region(revision)))
    assert ground.below("wal/") == before
    return caught.value


# MemTables of the writer before


def unflushed(ground: Ground, revision: Revision) -> dict[int, list[int]]:
    """Generation -> keys of the MemTables of a writer that opens the region."""
    held = ground.run(open_writer(region(revision))).unflushed()
    return {memtable.generation: keys(memtable.table()) for memtable in held}


@pytest.mark.clause("WAL-018", "AMB-17")
def test_memtables_are_rebuilt_where_entries_say_of_which_generation_they_are() -> None:
    for revision, expected in ((R, {2: [1, 2], 3: [3], 4: [4, 5]}), (B, {2: [1, 2, 3, 4, 5]})):
        ground = flushed_until(revision, 10)
        for key, generation in enumerate((2, 2, 3, 4, 4), 1):
            put_entry(ground, revision, 10 + key, 5, row(key), generation)
        assert unflushed(ground, revision) == expected


@pytest.mark.clause("WAL-018", "AMB-17")
def test_what_is_written_after_a_recovery_is_of_no_earlier_generation_than_what_was_there() -> None:
    ground = flushed_until(R, 10)
    for position, generation in ((11, 2), (12, 3)):
        put_entry(ground, R, position, 5, row(position), generation)
    writer = ground.run(open_writer(region(R)))
    ground.run(writer.put(row(1)))
    stored = [wal.decode(ground.objects[entry_name(R, position)], R, "") for position in (11, 12, 13, 14)]
    assert [(entry.generation, entry.barrier) for entry in stored] == [(2, False), (3, False), (3, True), (3, False)]
    assert unflushed(ground, R) == {2: [11], 3: [12, 1]}


@pytest.mark.clause("WAL-018", "FLUSH-013", "FLUSH-015")
def test_recovered_memtables_are_flushed_in_order_each_with_its_own_entries() -> None:
    ground = flushed_until(R, 10)
    for position, generation in ((11, 2), (12, 3), (13, 3)):
        put_entry(ground, R, position, 5, row(position), generation)
    writer = ground.run(open_writer(region(R)))
    assert ground.run(writer.flush_oldest()) == 2
    assert (writer.manifest.generation_current, writer.manifest.position_replay_after) == (3, 11)
    assert unflushed(ground, R) == {3: [12, 13]}
    again = ground.run(open_writer(region(R)))
    assert ground.run(again.flush()) == 3
    assert (again.manifest.generation_current, again.manifest.position_replay_after) == (4, 16)


def test_generation_numbers_that_are_skipped_make_no_gap() -> None:
    ground = flushed_until(R, 10)
    for position, generation in enumerate((3, 5, 5), 11):
        put_entry(ground, R, position, 5, row(position), generation)
    assert unflushed(ground, R) == {2: [11], 3: [12, 13]}


@pytest.mark.clause("WAL-018", "WAL-001")
def test_where_generations_go_back_all_rows_are_flushed_as_one_so_that_none_counts_as_flushed_too_early() -> None:
    ground = flushed_until(R, 10)
    for position, generation in enumerate((2, 3, 2), 11):
        put_entry(ground, R, position, 5, row(position), generation)
    writer = ground.run(open_writer(region(R)))
    assert [keys(memtable.table()) for memtable in writer.unflushed()] == [[11, 12, 13]]
    ground.run(writer.flush())
    assert (writer.manifest.generation_current, writer.manifest.position_replay_after) == (3, 14)


# Where it starts and ends


@pytest.mark.clause("AMB-07", "AMB-09", "WAL-020")
@pytest.mark.parametrize(
    ("revision", "after", "generation", "start"),
    [(A, 0, 1, 1), (B, 0, 1, 0), (R, 0, 1, 1), (B, 0, 2, 1), (A, 10, 2, 11), (B, 10, 2, 11), (R, 10, 3, 11)],
)
def test_replay_starts_above_the_pointer_or_at_the_first_position_before_any_flush(
    revision: Revision, after: int, generation: int, start: int
) -> None:
    assert replay_start(manifest(2, after=after, generation=generation), revision) == start


@pytest.mark.clause("AMB-08")
@REVISIONS
def test_a_pointer_is_believed_in_a_region_whose_generations_say_nothing(revision: Revision) -> None:
    assert replay_start(manifest(1, after=10, seen=12), revision) == 11


@REVISIONS
def test_a_pointer_that_nothing_can_follow_is_refused(revision: Revision) -> None:
    with pytest.raises(ArtifactError, match="MANIFEST-008"):
        replay_start(manifest(2, after=UINT64_MAX, generation=2), revision)


@pytest.mark.clause("WAL-019", "WAL-020", "WAL-022", "AMB-09", "MANIFEST-011")
@REVISIONS
@pytest.mark.parametrize("seen", [0, 10, 11, 13, 15])
def test_all_entries_above_the_pointer_are_replayed_in_order_whatever_was_last_seen(
    seen: int, revision: Revision
) -> None:
    ground = flushed_until(revision, 10, seen=seen)
    for position in range(8, 16):
        put_entry(ground, revision, position, 5, row(100 - position))
    assert opened_keys(ground, revision) == [89, 88, 87, 86, 85]


@pytest.mark.clause("WAL-022", "WAL-023", "AMB-139")
@REVISIONS
def test_the_end_is_found_by_asking_for_one_name_after_another_and_cross_checked_by_one_listing(
    revision: Revision,
) -> None:
    ground = flushed_until(revision, 10)
    for position in (11, 12):
        put_entry(ground, revision, position, 5, row(position))
    claimed = ground.run(claim(region(revision)))
    ground.asked.clear()
    ground.run(recover(region(revision), claimed))
    found = [(type(request), request.path) for request in ground.asked]
    assert found == [
        (Get, entry_name(revision, 11)),
        (Get, entry_name(revision, 12)),
        (Get, entry_name(revision, 13)),
        (List, f"{ROOT}/wal"),
        (PutIfAbsent, entry_name(revision, 13)),
    ]
    literal = region(revision, interpretation=replace(STRICT, list_wal_tail=False))
    assert "List" not in ground.counted(recover(literal, ground.run(claim(literal))))


@pytest.mark.clause("AMB-20", "AMB-24")
@REVISIONS
def test_entries_without_rows_are_accepted_anywhere_and_only_take_a_position(revision: Revision) -> None:
    ground = flushed_until(revision, 10)
    for position, rows in enumerate([None, row(1), None, None, row(2), None], 11):
        put_entry(ground, revision, position, 5, rows)
    writer = ground.run(open_writer(region(revision)))
    assert keys(writer.memtable.table()) == [1, 2]
    assert [stored.position for stored in writer.memtable.stored] == [12, 15]
    assert (writer.memtable.position_covered, writer.position_next) == (17, 18)
    assert entries(ground, revision)[17] == (6, [])


@pytest.mark.clause("AMB-20")
def test_a_foreign_barrier_without_columns_is_accepted() -> None:
    ground = flushed_until(R, 10)
    sink = pa.BufferOutputStream()
    sentinel = {b"writer_epoch": b"5", b"generation": b"2", b"fence_sentinel": b"true"}
    pa.ipc.new_stream(sink, pa.schema([], sentinel)).close()
    ground.objects[entry_name(R, 11)] = sink.getvalue().to_pybytes()
    put_entry(ground, R, 12, 5, row(1))
    assert opened_keys(ground, R) == [1]


@pytest.mark.clause("AMB-11")
def test_an_entry_with_dictionary_encoded_columns_is_replayed_and_read() -> None:
    ground = flushed_until(B, 10)
    encoded = pa.array(["x", "y", "x"]).dictionary_encode()
    rows = pa.table([pa.array([1, 2, 3]), encoded], names=["id", "v"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema.with_metadata({b"writer_epoch": b"5"})) as writer:
        writer.write_table(rows)
    ground.objects[entry_name(B, 11)] = sink.getvalue().to_pybytes()
    tail = ground.run(wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[2], region(B).rows, B))
    assert tail is not None
    recovered = ground.run(open_writer(region(B))).memtable.table()
    for found in (tail.rows, recovered):
        assert found.schema.field("v").type == pa.string()
        assert found.column("v").to_pylist() == ["x", "y", "x"]


# What stops it


@pytest.mark.clause("WAL-007", "AMB-14", "AMB-139")
@REVISIONS
@pytest.mark.parametrize(("missing", "behind"), [((13,), 14), ((13, 14), 15), ((11,), 12)])
def test_a_hole_stops_recovery_and_no_barrier_is_put_into_it(
    missing: tuple[int, ...], behind: int, revision: Revision
) -> None:
    ground = flushed_until(revision, 10)
    for position in range(11, 17):
        if position not in missing:
            put_entry(ground, revision, position, 5, row(position))
    error = refusal(ground, revision)
    assert (error.clause, error.path) == ("WAL-007", entry_name(revision, missing[0]))
    assert error.reason == f"entry {missing[0]} is missing, and entry {behind} exists or was seen"


@pytest.mark.clause("AMB-09", "AMB-14")
@REVISIONS
@pytest.mark.parametrize("stored", [0, 2])
def test_an_entry_that_a_manifest_has_seen_and_that_is_gone_stops_recovery(stored: int, revision: Revision) -> None:
    ground = flushed_until(revision, 10, seen=13)
    for position in range(11, 11 + stored):
        put_entry(ground, revision, position, 5, row(position))
    error = refusal(ground, revision)
    assert (error.clause, error.path) == ("WAL-007", entry_name(revision, 11 + stored))
    assert error.reason == f"entry {11 + stored} is missing, and entry 13 exists or was seen"


@pytest.mark.clause("AMB-07", "AMB-09")
@REVISIONS
def test_a_last_seen_hint_of_0_says_nothing(ground: Ground, revision: Revision) -> None:
    put_manifests(ground, revision, manifest(1), hint_at=1)
    assert opened_keys(ground, revision) == []


@pytest.mark.clause("WAL-004", "WAL-005", "AMB-06")
@pytest.mark.parametrize(
    ("revision", "held"), [(A, (0,)), (A, (0, 1)), (R, (0,)), (R, (0, 1, 2)), (B, (1,)), (B, (1, 2))]
)
def test_a_wal_that_starts_where_the_revision_does_not_is_refused(revision: Revision, held: tuple[int, ...]) -> None:
    ground = Ground()
    put_manifests(ground, revision, manifest(1), hint_at=1)
    for position in held:
        put_entry(ground, revision, position, 1, row(position))
    error = refusal(ground, revision)
    assert (error.clause, error.path) == ("AMB-06", f"{ROOT}/wal")
    with pytest.raises(ArtifactError, match="AMB-06"):
        ground.run(wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[1], region(revision).rows, revision))


@pytest.mark.clause("AMB-06")
@pytest.mark.parametrize(("revision", "held"), [(A, ()), (A, (1,)), (R, (1, 2)), (B, ()), (B, (0,)), (B, (0, 1))])
def test_a_wal_that_starts_where_the_revision_does_is_accepted(revision: Revision, held: tuple[int, ...]) -> None:
    ground = Ground()
    put_manifests(ground, revision, manifest(1), hint_at=1)
    for position in held:
        put_entry(ground, revision, position, 1, row(position))
    tail = ground.run(wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[1], region(revision).rows, revision))
    assert tail is not None
    assert keys(tail.rows) == list(held) == opened_keys(ground, revision)


@pytest.mark.clause("AMB-06")
def test_a_reader_beside_the_first_claim_and_the_first_put_of_a_region_finds_no_damage(ground: Ground) -> None:
    put_manifests(ground, B, manifest(1), hint_at=1)

    def beside(request: object) -> None:
        if isinstance(request, Head) and request.path == entry_name(B, 1) and not ground.below("wal/"):
            for position in (0, 1):
                put_entry(ground, B, position, 1, row(position))

    ground.before = beside
    tail = ground.run(wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[1], region(B).rows, B))
    assert tail is not None
    assert keys(tail.rows) == [0, 1]


class PassedOver(Ground):
    """A store whose first listing lacks one name, as if it came where the listing had passed, and later ones after."""

    missing = ""

    def apply(self, request: StoreRequest[Any]) -> Any:
        reply = super().apply(request)
        if isinstance(request, List | ListFolders) and self.missing in reply:
            reply = tuple(name for name in reply if name != self.missing)
            self.missing = ""
        return reply


@pytest.mark.clause("WAL-007", "AMB-14", "AMB-139")
@REVISIONS
def test_an_entry_that_came_where_the_listing_had_passed_is_no_hole(revision: Revision) -> None:
    ground = PassedOver()
    put_manifests(ground, revision, manifest(1), hint_at=1)
    first = revision.first_position

    def beside(request: object) -> None:
        if isinstance(request, List) and request.path.endswith("/wal") and not ground.below("wal/"):
            for position in (first, first + 1):
                put_entry(ground, revision, position, 1, row(position))
            ground.missing = entry_name(revision, first)

    ground.before = beside
    assert opened_keys(ground, revision) == [first, first + 1]
    assert ground.missing == ""


@pytest.mark.clause("AMB-143")
def test_a_manifest_that_came_where_the_listing_had_passed_is_not_lost() -> None:
    ground = PassedOver()
    put_manifests(ground, B, manifest(1))
    put_entry(ground, B, 0, 1, row(0))
    ground.missing = "manifest"
    found = ground.run(manifests.newest_listed(Io(ROOT, interpretation=STRICT), B))
    assert found == manifest(1)
    assert ground.missing == ""


@pytest.mark.clause("AMB-06")
def test_once_a_generation_was_flushed_the_first_positions_say_nothing() -> None:
    ground = flushed_until(A, 10)
    put_entry(ground, A, 0, 1, row(0))
    assert opened_keys(ground, A) == []
    wal_folder.check_first_position(manifest(2, generation=2), B, "r", zero=False, one=True)


@pytest.mark.clause("AMB-10", "WAL-014", "WAL-015")
@pytest.mark.parametrize(("revision", "foreign"), [(A, "arrow"), (B, "lance"), (R, "lance")])
@pytest.mark.parametrize("position", [11, 12, 9])
def test_an_entry_under_another_suffix_stops_recovery(revision: Revision, foreign: str, position: int) -> None:
    ground = flushed_until(revision, 10)
    put_entry(ground, revision, 11, 5, row(1))
    name = entry_name(revision, position).rpartition(".")[0] + f".{foreign}"
    ground.objects[name] = b"whatever"
    error = refusal(ground, revision)
    assert (error.clause, error.path) == ("AMB-10", name)
    assert ("the position has one of those too" in error.reason) == (position == 11)


@pytest.mark.clause("WAL-007", "WAL-009", "WAL-027", "AMB-15")
@REVISIONS
@pytest.mark.parametrize("position", [11, 12, 13])
def test_an_entry_that_is_not_whole_stops_recovery_with_an_error_of_its_own(position: int, revision: Revision) -> None:
    ground = flushed_until(revision, 10)
    for at in (11, 12, 13):
        put_entry(ground, revision, at, 5, row(at))
    name = entry_name(revision, position)
    ground.objects[name] = ground.objects[name][:-8]
    error = refusal(ground, revision)
    container = "WAL-008" if revision is A else "WAL-009"
    assert (error.clause, error.path) == ("AMB-15", name)
    assert error.offset is not None
    assert f"entry {position} cannot be read, and nothing is replayed past it" in error.reason
    assert f"[{container}]" in error.reason
    with pytest.raises(ArtifactError, match="AMB-15"):
        ground.run(wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[2], region(revision).rows, revision))


@pytest.mark.clause("WAL-033", "AMB-12")
def test_an_entry_without_a_readable_epoch_stops_recovery_whatever_it_holds() -> None:
    ground = flushed_until(B, 10)
    put_entry(ground, B, 11, 5, row(1))
    put_entry(ground, B, 12, 5)
    name = entry_name(B, 12)
    ground.objects[name] = ground.objects[name].replace(b"writer_epoch", b"writer_apoch")
    error = refusal(ground, B)
    assert (error.clause, error.path) == ("WAL-010", name)


# Epochs


@pytest.mark.clause("FENCE-015", "AMB-27")
@REVISIONS
def test_an_entry_of_an_older_epoch_behind_a_newer_one_is_replayed_in_its_place_and_noted(revision: Revision) -> None:
    ground = flushed_until(revision, 10, epoch=7)
    for position, epoch in ((11, 6), (12, 7), (13, 6), (14, 7)):
        put_entry(ground, revision, position, epoch, row(position))
    assert opened_keys(ground, revision) == [11, 12, 13, 14]
    assert ground.events("epoch_went_back") == [{"position": 13, "epoch": 6, "before": 7}]


@pytest.mark.clause("FENCE-015", "AMB-26")
@REVISIONS
def test_an_entry_of_an_epoch_that_nobody_claimed_is_corruption(revision: Revision) -> None:
    ground = flushed_until(revision, 10, epoch=5)
    put_entry(ground, revision, 11, 5, row(1))
    put_entry(ground, revision, 12, 9, row(2))
    error = refusal(ground, revision)
    assert (error.clause, error.path) == ("FENCE-015", entry_name(revision, 12))
    assert error.reason == "written under epoch 9, and the region's newest epoch is 6"


@pytest.mark.clause("FENCE-015", "AMB-26")
@REVISIONS
def test_a_writer_that_meets_an_entry_of_its_successor_is_fenced(revision: Revision) -> None:
    ground = flushed_until(revision, 10, epoch=5)
    put_entry(ground, revision, 11, 5, row(1))
    first = Actor(ground, open_writer(region(revision))).until(Get, entry_name(revision, 12))
    second = ground.run(open_writer(region(revision)))
    ground.run(second.put(row(2)))
    with pytest.raises(Fenced) as caught:
        first.finish()
    assert (caught.value.local, caught.value.stored) == (6, 7)
    assert entries(ground, revision) == {11: (5, [1]), 12: (7, []), 13: (7, [2])}


@pytest.mark.clause("AMB-26")
def test_under_the_literal_reading_an_entry_of_a_newer_epoch_is_stepped_over() -> None:
    ground = flushed_until(B, 10, epoch=5)
    put_entry(ground, B, 11, 9, row(1))
    literal = region(B, interpretation=replace(STRICT, stop_on_newer_epoch=False))
    writer = ground.run(open_writer(literal))
    assert (keys(writer.memtable.table()), writer.position_next) == ([], 13)


@pytest.mark.clause("FENCE-016", "FENCE-017", "AMB-24")
@REVISIONS
def test_an_entry_that_the_predecessor_stores_at_the_last_moment_is_replayed_below_the_barrier(
    revision: Revision,
) -> None:
    ground = Ground()
    first = ground.run(open_writer(region(revision)))
    ground.run(first.put(row(1)))
    second = Actor(ground, open_writer(region(revision))).until(PutIfAbsent, "/wal/")
    ground.run(first.put(row(2)))
    opened = second.finish()
    assert keys(opened.memtable.table()) == [1, 2]
    barrier = max(entries(ground, revision))
    assert entries(ground, revision)[barrier] == (2, [])
    assert opened.position_next == barrier + 1
    with pytest.raises(Fenced):
        ground.run(first.put(row(3)))


@pytest.mark.clause("AMB-24", "AMB-139")
@REVISIONS
def test_an_entry_that_arrives_between_the_last_probe_and_the_listing_is_replayed(revision: Revision) -> None:
    ground = Ground()
    first = ground.run(open_writer(region(revision)))
    second = Actor(ground, open_writer(region(revision))).until(List, "/wal")
    for key in (1, 2):
        ground.run(first.put(row(key)))
    assert keys(second.finish().memtable.table()) == [1, 2]


@pytest.mark.clause("AMB-24", "AMB-35")
@pytest.mark.parametrize(("revision", "at_first"), [(A, []), (B, [(0, (1, []))]), (R, [])])
def test_the_first_claim_of_a_region_has_nobody_to_fence_but_in_b_keeps_rows_off_position_0(
    revision: Revision, at_first: list[object]
) -> None:
    ground = Ground()
    ground.run(open_writer(region(revision)))
    assert list(entries(ground, revision).items()) == at_first
    ground.run(open_writer(region(revision)))
    assert [epoch for epoch, _ in entries(ground, revision).values()][-1] == 2


@pytest.mark.clause("AMB-25", "AMB-26")
@REVISIONS
def test_a_recovery_that_misses_what_its_successor_flushed_and_collected_ends_as_fenced(revision: Revision) -> None:
    ground = Ground()
    held = region(revision, wal_collection=True)
    first = ground.run(open_writer(held))
    for key in (1, 2, 3):
        ground.run(first.put(row(key)))
    stalled = Actor(ground, open_writer(held)).until(Get, "/wal/")
    third = ground.run(open_writer(held))
    ground.run(third.flush())
    ground.run(third.put(row(4)))
    covered = max(versions(ground).values(), key=lambda m: m.version).position_replay_after
    for position in range(covered + 1):
        ground.objects.pop(entry_name(revision, position), None)
    with pytest.raises(Fenced):
        stalled.finish()
    assert min(entries(ground, revision)) > covered


# Readers of the tail


def seen_until(ground: Ground, revision: Revision, position: int) -> None:
    """What a snapshot builder does beside a writer: the next manifest version has another hint, and the same epoch."""
    newest = versions(ground)[max(versions(ground))]
    following = replace(manifests.following(newest), position_last_seen=WalPosition(position))
    put_manifests(ground, revision, following, hint_at=following.version)


@pytest.mark.clause("WAL-033", "FENCE-011", "AMB-15")
@REVISIONS
def test_damage_beside_a_hint_update_is_damage_and_no_newer_claim(revision: Revision) -> None:
    ground = flushed_until(revision, 10)
    put_entry(ground, revision, 11, 5, row(1))
    ground.objects[entry_name(revision, 11)] = b"damaged"
    opening = Actor(ground, open_writer(region(revision))).until(Get, entry_name(revision, 11))
    seen_until(ground, revision, 11)
    with pytest.raises(ArtifactError) as caught:
        opening.finish()
    assert caught.value.path == entry_name(revision, 11)


@pytest.mark.clause("WAL-006", "FENCE-011")
@REVISIONS
def test_a_taken_position_beside_a_hint_update_is_damage_and_no_newer_claim(revision: Revision) -> None:
    ground = flushed_until(revision, 10)
    writer = ground.run(open_writer(region(revision)))
    put_entry(ground, revision, writer.position_next, writer.epoch, row(9))
    seen_until(ground, revision, writer.position_next)
    with pytest.raises(ArtifactError) as caught:
        ground.run(writer.put(row(1)))
    assert (caught.value.clause, caught.value.path) == ("WAL-006", entry_name(revision, writer.position_next))


@pytest.mark.clause("AMB-141")
@REVISIONS
def test_a_reader_whose_region_was_flushed_and_collected_under_it_starts_again(revision: Revision) -> None:
    ground = flushed_until(revision, 10, seen=12)
    for position in (11, 12):
        put_entry(ground, revision, position, 5, row(position))
    held = region(revision).rows
    stalled = Actor(ground, wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[2], held, revision))
    put_manifests(ground, revision, manifest(3, 5, after=12, seen=12, generation=3), hint_at=3)
    for position in (11, 12):
        del ground.objects[entry_name(revision, position)]
    assert stalled.finish() is None
    put_entry(ground, revision, 13, 9, row(13))
    assert ground.run(wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[3], held, revision)) is None


@pytest.mark.clause("AMB-09", "AMB-141")
@REVISIONS
def test_a_reader_reports_an_entry_that_was_seen_and_is_gone(revision: Revision) -> None:
    ground = flushed_until(revision, 10, seen=12)
    put_entry(ground, revision, 11, 5, row(11))
    with pytest.raises(ArtifactError, match="entry 12 is missing") as caught:
        ground.run(wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[2], region(revision).rows, revision))
    assert caught.value.clause == "WAL-007"


def test_a_reader_of_the_tail_writes_nothing_and_lists_nothing_in_the_wal() -> None:
    ground = flushed_until(B, 10)
    put_entry(ground, B, 11, 5, row(11))
    before = dict(ground.objects)
    tail = ground.run(wal_tail(Io(ROOT, interpretation=STRICT), versions(ground)[2], region(B).rows, B))
    assert tail is not None
    assert keys(tail.rows) == [11]
    assert ground.objects == before
    assert {type(request) for request in ground.asked} <= {Get, Head}


@pytest.mark.clause("AMB-50")
def test_rows_that_do_not_fit_the_table_stop_recovery() -> None:
    ground = flushed_until(B, 10)
    sink = pa.BufferOutputStream()
    other = SCHEMA.set(1, pa.field("v", pa.int8())).with_metadata({b"writer_epoch": b"5"})
    with pa.ipc.new_stream(sink, other) as writer:
        writer.write_table(pa.table({"id": [1], "v": pa.array([1], pa.int8())}, schema=other))
    ground.objects[entry_name(B, 11)] = sink.getvalue().to_pybytes()
    assert refusal(ground, B).clause == "AMB-50"
