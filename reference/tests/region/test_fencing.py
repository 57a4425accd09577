"""Owning a region: claims, what a fenced writer can no longer do, and the worked example of both revisions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import memwal
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.codec import region_manifest
from memwal.codec.region_manifest import RegionManifest
from memwal.effects import READ_ATTEMPTS, Get, Head, Io, List, ListFolders, Protocol, Put, PutIfAbsent, StoreRequest
from memwal.errors import (
    ArtifactError,
    Fenced,
    InvalidArgument,
    NotFound,
    Outcome,
    OutcomeUnknown,
    StorageError,
    Throttled,
    WriterStopped,
)
from memwal.ids import UINT64_MAX, WalPosition
from memwal.index import regions
from memwal.jobs.collector import generations as collected_generations
from memwal.region import manifest as manifests
from memwal.region.claim import claim, verify_epoch
from memwal.region.opening import open_writer
from memwal.region.writer import RegionWriter
from memwal.revisions import STRICT, A, B, R, Revision
from memwal.table import write
from memwal.table.state import TableState

from ..kit.ground import (
    ROOT,
    SCHEMA,
    Actor,
    Ground,
    entries,
    entry_name,
    keys,
    manifest,
    manifest_name,
    put_entry,
    put_hint,
    put_manifests,
    region,
    row,
    versions,
)
from ..kit.wire import blob, num

REVISIONS = pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
COLLECTED = pytest.mark.parametrize("collected", [False, True], ids=["kept", "collected"])
READS = (Get, Head, List, ListFolders)


def opened(ground: Ground, revision: Revision, **options: Any) -> RegionWriter:
    return ground.run(open_writer(region(revision, **options)))


def epochs(ground: Ground) -> dict[int, int]:
    return {number: int(each.epoch) for number, each in versions(ground).items()}


def table_of(ground: Ground, revision: Revision, *, collected: bool = False) -> TableState:
    """A table around the region, for jobs that want one."""
    config = {"memwal.revision": revision.name, "memwal.manifest_collection": "on" if collected else "off"}
    return ground.run(write.create(Io("t", interpretation=STRICT), SCHEMA, None, config))


# Claims


@pytest.mark.clause("FENCE-003", "FENCE-004", "FENCE-005", "FENCE-006", "MANIFEST-034", "AMB-34")
@REVISIONS
@pytest.mark.parametrize("hint_at", [None, 1, 2])
def test_a_claim_reads_the_newest_manifest_and_creates_the_next_with_the_next_epoch_before_it_writes_anything(
    hint_at: int | None, revision: Revision
) -> None:
    ground = Ground()
    put_manifests(ground, revision, manifest(1, 5), manifest(2, 9, after=3, seen=4, generation=3), hint_at=hint_at)
    put_entry(ground, revision, 4, 9, row(4))
    before = dict(ground.objects)
    opening = Actor(ground, open_writer(region(revision))).until(PutIfAbsent, "")
    assert ground.objects == before
    assert all(isinstance(request, READS) for request in ground.asked)
    assert manifest_name(2) in {request.path for request in ground.asked if isinstance(request, Get)}
    assert opening.waiting is not None
    assert opening.waiting.path == manifest_name(3)
    opening.step()
    assert versions(ground)[3] == manifest(3, 10, after=3, seen=4, generation=3)
    assert list(entries(ground, revision)) == [4]


@pytest.mark.clause("FENCE-005", "AMB-35")
@REVISIONS
def test_the_first_claim_creates_version_1_with_epoch_1_and_generation_1(ground: Ground, revision: Revision) -> None:
    ground.run(claim(region(revision)))
    assert versions(ground) == {1: manifest(1, 1)}
    assert ground.objects[f"{ROOT}/manifest/version_hint.json"] == b'{"version": 1}'


@pytest.mark.clause("AMB-35")
@REVISIONS
def test_a_region_that_was_created_at_epoch_0_without_a_generation_is_claimed_as_epoch_1(revision: Revision) -> None:
    region_id = bytes.fromhex("7c9e6679742540de944be07fc1f90ae7")
    ground = Ground({manifest_name(1): num(1, 1) + blob(11, blob(1, region_id))})
    writer = opened(ground, revision)
    ground.run(writer.put(row(1)))
    assert ground.run(writer.flush()) == 1
    assert epochs(ground) == {1: 0, 2: 1, 3: 1}
    assert [g.generation for g in versions(ground)[3].flushed] == [1]
    assert versions(ground)[3].generation_current == 2


@pytest.mark.clause("FENCE-007", "FENCE-006", "MANIFEST-022")
@REVISIONS
def test_a_claim_that_loses_reloads_and_takes_a_higher_epoch(ground: Ground, revision: Revision) -> None:
    put_manifests(ground, revision, manifest(1, 5), hint_at=1)
    first = Actor(ground, claim(region(revision))).until(PutIfAbsent, "manifest/")
    second = Actor(ground, claim(region(revision))).until(PutIfAbsent, "manifest/")
    assert second.finish().epoch == 6
    assert first.finish().epoch == 7
    assert epochs(ground) == {1: 5, 2: 6, 3: 7}


@pytest.mark.clause("FENCE-008", "AMB-28")
@REVISIONS
@pytest.mark.parametrize("applied", [False, True])
def test_a_claim_that_is_not_answered_is_left_to_others_and_a_higher_one_is_made(
    applied: bool, revision: Revision
) -> None:
    ground = Ground()
    put_manifests(ground, revision, manifest(1, 5), hint_at=1)
    unsure = Actor(ground, claim(region(revision))).until(PutIfAbsent, "manifest/")
    unsure.answer(OutcomeUnknown("x"), applied=applied)
    assert unsure.finish().epoch == (7 if applied else 6)


@pytest.mark.clause("FENCE-008", "AMB-28")
def test_of_two_claims_with_equal_bytes_only_the_confirmed_one_counts_and_under_the_literal_reading_both_do() -> None:
    def race(**readings: Any) -> tuple[int, int]:
        ground = Ground()
        put_manifests(ground, B, manifest(1, 5), hint_at=1)
        held = region(B, interpretation=replace(STRICT, **readings))
        lost = Actor(ground, claim(held)).until(PutIfAbsent, "manifest/")
        won = Actor(ground, claim(held)).until(PutIfAbsent, "manifest/")
        assert lost.waiting == won.waiting
        first = won.finish().epoch
        lost.answer(OutcomeUnknown("x"), applied=False)
        return int(first), int(lost.finish().epoch)

    assert race() == (6, 7)
    assert race(own_claim_needs_confirmation=False) == (6, 6)


@pytest.mark.clause("FENCE-003")
def test_a_sealed_region_refuses_claims(ground: Ground) -> None:
    put_manifests(ground, R, replace(manifest(1, 5), sealed=True), hint_at=1)
    with pytest.raises(InvalidArgument, match="sealed"):
        ground.run(claim(region(R)))
    assert epochs(ground) == {1: 5}


def test_the_largest_epoch_cannot_be_followed(ground: Ground) -> None:
    put_manifests(ground, B, manifest(1, UINT64_MAX), hint_at=1)
    with pytest.raises(ArtifactError, match="no epoch follows"):
        ground.run(claim(region(B)))


@pytest.mark.clause("AMB-38", "MANIFEST-021")
def test_on_a_store_without_conditional_create_no_writer_opens_and_nothing_is_written(ground: Ground) -> None:
    ground.before = lambda r: StorageError(r.path, "no conditional put") if isinstance(r, PutIfAbsent) else None
    with pytest.raises(StorageError, match="no conditional put"):
        opened(ground, B)
    assert ground.objects == {}
    assert not any(isinstance(request, Put) for request in ground.asked)


CLAIMERS = 3
STEP, APPLIED, LOST, LATE, LAND, COLLECT = range(6)
"""What a turn may do: step a claimer, leave its claim unanswered in three ways, or something outside any turn."""


def collect(ground: Ground, retain: int) -> None:
    """What a collector does with manifest versions."""
    for number in sorted(versions(ground))[:-retain]:
        del ground.objects[manifest_name(number)]


def claims_in_turn(ground: Ground, turns: Iterable[tuple[int, int]], *, collected: bool) -> list[int]:
    """Epochs that claimers got that took these turns: which claimer, and what."""
    held = region(B, manifest_collection=collected)
    actors = [Actor(ground, claim(held)) for _ in range(CLAIMERS)]
    won: list[int] = []
    under_way: list[StoreRequest[Any]] = []
    for who, what in turns:
        waiting = actors[who].waiting
        if what == COLLECT and collected:
            collect(ground, retain=2)
        elif what == LAND and under_way:
            with suppress(Outcome):
                ground.apply(under_way.pop(0))
        elif waiting is None:
            won.append(int(actors[who].finish().epoch))
            actors[who] = Actor(ground, claim(held))
        elif isinstance(waiting, PutIfAbsent) and what in (APPLIED, LOST, LATE):
            under_way += [waiting] if what == LATE else []
            actors[who].answer(OutcomeUnknown(waiting.path), applied=what == APPLIED)
        else:
            actors[who].step()
    return won + [int(actor.finish().epoch) for actor in actors]


TURNS = st.tuples(st.integers(0, CLAIMERS - 1), st.sampled_from([STEP] * 8 + [APPLIED, LOST, LATE, LAND, COLLECT]))


@pytest.mark.clause("FENCE-002", "FENCE-008", "AMB-28", "AMB-30")
@COLLECTED
@settings(max_examples=150)
@given(turns=st.lists(TURNS, max_size=120))
def test_claimers_that_share_nothing_but_the_store_never_get_one_epoch_twice(
    turns: list[tuple[int, int]], collected: bool
) -> None:
    ground = Ground()
    won = claims_in_turn(ground, turns, collected=collected)
    assert len(set(won)) == len(won)
    newest = ground.run(manifests.newest_listed(Io(ROOT, interpretation=STRICT), B))
    assert newest is not None
    assert newest.epoch == max(epochs(ground).values()) >= max(won)


# What a claim takes from the predecessor


def appendix(revision: Revision) -> Ground:
    """The worked example's start: version 1 with epoch 5, pointer 10, last seen 12; entries 11 and 12 exist."""
    ground = Ground()
    put_manifests(ground, revision, manifest(1, 5, after=10, seen=12, generation=2), hint_at=1)
    for position in (11, 12):
        put_entry(ground, revision, position, 5, row(position))
    return ground


@pytest.mark.clause("FENCE-001", "FENCE-009", "FENCE-010", "FENCE-011", "FENCE-012", "FENCE-019", "AMB-08")
@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
def test_the_worked_example_step_by_step(revision: Revision) -> None:
    ground = appendix(revision)
    loading_a = Actor(ground, open_writer(region(revision))).until(PutIfAbsent, "manifest/")
    assert epochs(ground) == {1: 5}
    a = loading_a.finish()
    assert epochs(ground) == {1: 5, 2: 6}
    assert keys(a.memtable.table()) == [11, 12]
    for key in (13, 14, 15):
        ground.run(a.put(row(key)))
    loading_b = Actor(ground, open_writer(region(revision))).until(PutIfAbsent, "manifest/")
    assert epochs(ground) == {1: 5, 2: 6}
    b = loading_b.finish()
    assert epochs(ground) == {1: 5, 2: 6, 3: 7}
    for key in (16, 17):
        ground.run(b.put(row(key)))
    with pytest.raises(Fenced) as caught:
        ground.run(a.flush())
    assert (caught.value.local, caught.value.stored) == (6, 7)
    with pytest.raises(WriterStopped):
        ground.run(a.put(row(0)))
    assert epochs(ground) == {1: 5, 2: 6, 3: 7}
    assert keys(b.memtable.table()) == [11, 12, 13, 14, 15, 16, 17]
    ground.run(b.put(row(18)))
    assert ground.run(b.flush()) == 2
    assert epochs(ground) == {1: 5, 2: 6, 3: 7, 4: 7}
    assert [g.generation for g in versions(ground)[4].flushed] == [1, 2]


@pytest.mark.clause("FENCE-015", "FENCE-016", "FENCE-020", "FENCE-021", "WAL-011", "AMB-08", "AMB-09")
@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
def test_the_worked_examples_wal_is_recovered_from_11_to_17(revision: Revision) -> None:
    ground = appendix(revision)
    put_manifests(ground, revision, manifest(2, 6, after=10, seen=12, generation=2))
    put_manifests(ground, revision, manifest(3, 7, after=10, seen=12, generation=2), hint_at=3)
    for position, epoch in ((13, 6), (14, 6), (15, 6), (16, 7), (17, 7)):
        put_entry(ground, revision, position, epoch, row(position))
    found = opened(ground, revision)
    assert keys(found.memtable.table()) == [11, 12, 13, 14, 15, 16, 17]
    asked = [request.path for request in ground.asked if isinstance(request, Get) and "/wal/" in request.path]
    assert asked == [entry_name(revision, position) for position in range(11, 19)]
    assert entries(ground, revision)[18] == (8, [])


@pytest.mark.clause("FENCE-016", "FENCE-017", "AMB-22", "AMB-24")
@REVISIONS
def test_every_acknowledged_put_of_a_writer_is_recovered_whenever_it_is_fenced(revision: Revision) -> None:
    steps = 0
    while True:
        ground = Ground()
        first = opened(ground, revision)
        ground.run(first.put(row(1)))
        second = Actor(ground, open_writer(region(revision)))
        for _ in range(steps):
            if second.waiting is not None:
                second.step()
        over = second.waiting is None
        acknowledged = [1]
        try:
            ground.run(first.put(row(2)))
            acknowledged.append(2)
        except Fenced:
            pass
        held = second.finish()
        assert keys(held.memtable.table()) == acknowledged
        with pytest.raises((Fenced, WriterStopped)):
            ground.run(first.put(row(3)))
        ground.run(held.put(row(4)))
        assert keys(opened(ground, revision).memtable.table()) == [*acknowledged, 4]
        if over:
            break
        steps += 1
    assert steps > 6


@pytest.mark.clause("FENCE-012", "FENCE-013", "AMB-21", "AMB-22")
@REVISIONS
def test_a_fenced_writer_fails_every_write_that_waited_and_every_later_call(ground: Ground, revision: Revision) -> None:
    first = opened(ground, revision)
    for key in (1, 2):
        ground.run(first.put(row(key), durable=False))
    opened(ground, revision)
    before = dict(ground.objects)
    with pytest.raises(Fenced):
        ground.run(first.flush_wal())
    for call in (first.flush_wal, first.flush, lambda: first.put(row(3)), lambda: first.put(row(3), durable=False)):
        with pytest.raises(WriterStopped, match="claimed by another writer"):
            ground.run(call())
    with pytest.raises(WriterStopped):
        first.unflushed()
    assert ground.objects == before
    assert keys(opened(ground, revision).memtable.table()) == []


@pytest.mark.clause("FENCE-001", "FENCE-022", "WAL-012")
@REVISIONS
def test_a_writer_writes_the_wal_the_generations_and_the_manifest_of_its_region_and_nothing_else(
    revision: Revision,
) -> None:
    ground = Ground()
    writer = opened(ground, revision)
    ground.run(writer.put(row(1)))
    ground.run(writer.flush())
    ground.run(writer.put(row(2)))
    newest = versions(ground)[2]
    (listed,) = newest.flushed
    assert {name.partition("/")[0] for name in ground.below()} == {"manifest", "wal", listed.path}
    assert all(name.startswith(f"{ROOT}/") for name in ground.objects)
    assert (newest.epoch, newest.generation_current, newest.flushed[0].generation) == (1, 2, 1)


# Manifest updates


@pytest.mark.clause("FENCE-009", "FENCE-011", "MANIFEST-007", "AMB-29")
@REVISIONS
@COLLECTED
def test_a_flush_that_loses_its_version_to_a_claim_is_fenced_and_undoes_nothing(
    revision: Revision, collected: bool
) -> None:
    ground = Ground()
    first = opened(ground, revision, manifest_collection=collected)
    ground.run(first.put(row(1)))
    flush = Actor(ground, first.flush()).until(PutIfAbsent, "manifest/")
    second = opened(ground, revision, manifest_collection=collected)
    with pytest.raises(Fenced):
        flush.finish()
    assert epochs(ground) == {1: 1, 2: 2}
    assert versions(ground)[2].flushed == ()
    assert keys(second.memtable.table()) == [1]


@pytest.mark.clause("AMB-29", "MANIFEST-023")
def test_under_the_literal_reading_the_flush_takes_the_next_number_and_the_claim_is_undone(ground: Ground) -> None:
    literal = replace(STRICT, reverify_each_attempt=False)
    first = opened(ground, B, interpretation=literal)
    ground.run(first.put(row(1)))
    flush = Actor(ground, first.flush()).until(PutIfAbsent, "manifest/")
    opened(ground, B, interpretation=literal)
    flush.finish()
    assert epochs(ground) == {1: 1, 2: 2, 3: 1}


async def refreshed(state: TableState, known: RegionManifest) -> RegionManifest:
    """The index builder's update of the last-seen hint."""
    return await regions._refreshed(Io(ROOT, interpretation=STRICT), known, state)


@pytest.mark.clause("FENCE-010", "MANIFEST-010", "MANIFEST-012", "MANIFEST-022", "MANIFEST-036", "AMB-33", "AMB-34")
@REVISIONS
@COLLECTED
def test_a_flush_that_loses_its_version_to_a_hint_update_goes_on(revision: Revision, collected: bool) -> None:
    ground = Ground()
    state = table_of(ground, revision, collected=collected)
    writer = opened(ground, revision, manifest_collection=collected)
    for key in (1, 2):
        ground.run(writer.put(row(key)))
    flush = Actor(ground, writer.flush()).until(PutIfAbsent, "manifest/")
    ground.run(writer.put(row(3)))  # behind what the flush covers
    found = ground.run(refreshed(state, versions(ground)[1]))
    last = max(entries(ground, revision))
    assert (found.version, found.epoch, found.position_last_seen) == (2, 1, last)
    assert replace(found, version=manifest(1).version, position_last_seen=WalPosition(0)) == versions(ground)[1]
    assert flush.finish() == 1
    assert epochs(ground) == {1: 1, 2: 1, 3: 1}
    assert (versions(ground)[3].position_last_seen, versions(ground)[3].generation_current) == (last, 2)


@pytest.mark.clause("AMB-33", "MANIFEST-011")
@REVISIONS
def test_a_hint_update_carries_what_others_changed_meanwhile_and_gives_up_when_it_loses(revision: Revision) -> None:
    ground = Ground()
    state = table_of(ground, revision)
    writer = opened(ground, revision)
    ground.run(writer.put(row(1)))
    slow = Actor(ground, refreshed(state, versions(ground)[1])).until(Get, "version_hint")
    second = opened(ground, revision)
    found = slow.finish()
    assert found.epoch == 2
    ground.run(second.put(row(2)))
    losing = Actor(ground, refreshed(state, found)).until(PutIfAbsent, "manifest/")
    third = opened(ground, revision)
    losing.finish()
    assert list(epochs(ground).values())[-1] == third.epoch == 3
    assert len(ground.events("manifest_lost")) == 1


@pytest.mark.clause("AMB-33", "MANIFEST-011", "MANIFEST-036")
@REVISIONS
def test_a_hint_update_that_comes_late_never_lowers_the_hint(ground: Ground, revision: Revision) -> None:
    state = table_of(ground, revision)
    writer = opened(ground, revision)
    ground.run(writer.put(row(1)))
    slow = Actor(ground, refreshed(state, versions(ground)[1])).until(Get, "version_hint")
    ground.run(writer.put(row(2)))
    ground.run(writer.flush())
    flushed = versions(ground)
    assert flushed[2].position_last_seen == max(entries(ground, revision))
    assert slow.finish() == flushed[2]
    assert versions(ground) == flushed


@pytest.mark.clause("AMB-33", "AMB-34", "MANIFEST-037")
@COLLECTED
def test_the_collector_keeps_the_epoch_and_tries_again_when_it_loses(ground: Ground, collected: bool) -> None:
    state = table_of(ground, B, collected=collected)
    put_manifests(ground, B, manifest(1, 4), manifest(2, 5, after=9, seen=9, generation=3), hint_at=2)
    unlist = Actor(ground, collected_generations.unlist(Io(ROOT, interpretation=STRICT), {"00000001_gen_1"}, state))
    unlist.until(PutIfAbsent, "manifest/")
    ground.run(claim(region(B, manifest_collection=collected)))
    unlist.finish()
    expected = manifest(4, 6, after=9, seen=9, generation=3)
    assert versions(ground)[4] == replace(expected, flushed=expected.flushed[1:])


@pytest.mark.clause("AMB-28", "AMB-14")
@REVISIONS
@COLLECTED
@pytest.mark.parametrize("applied", [False, True])
def test_a_flush_whose_commit_was_not_answered_recognises_it_by_its_generation(
    applied: bool, revision: Revision, collected: bool
) -> None:
    ground = Ground()
    writer = opened(ground, revision, manifest_collection=collected)
    ground.run(writer.put(row(1)))
    flush = Actor(ground, writer.flush()).until(PutIfAbsent, "manifest/")
    flush.answer(OutcomeUnknown("x"), applied=applied)
    assert flush.finish() == 1
    assert epochs(ground) == {1: 1, 2: 1}
    assert len(versions(ground)[2].flushed) == 1


@pytest.mark.clause("AMB-37")
@REVISIONS
def test_a_writer_whose_region_was_restored_from_a_backup_stops_with_an_error_of_its_own(revision: Revision) -> None:
    ground = Ground()
    opened(ground, revision)
    backup = {name: data for name, data in ground.objects.items() if "/manifest/" in name}
    writer = opened(ground, revision)
    ground.run(writer.put(row(1)))
    for name in [name for name in ground.objects if "/manifest/" in name]:
        del ground.objects[name]
    ground.objects.update(backup)
    with pytest.raises(ArtifactError, match="the stored epoch 1 is below this writer's epoch 2") as caught:
        ground.run(writer.flush())
    assert (caught.value.clause, caught.value.path) == ("AMB-37", manifest_name(1))
    assert any(isinstance(request, List) and request.path == f"{ROOT}/manifest" for request in ground.asked)
    assert epochs(ground) == {1: 1}
    with pytest.raises(ArtifactError, match="AMB-37"):
        ground.run(verify_epoch(region(revision), manifest(0, 2)))


@pytest.mark.clause("AMB-30", "FENCE-001", "MANIFEST-009")
@REVISIONS
def test_a_flush_that_stalls_until_its_version_was_collected_is_fenced(ground: Ground, revision: Revision) -> None:
    first = opened(ground, revision, manifest_collection=True)
    ground.run(first.put(row(1)))
    flush = Actor(ground, first.flush()).until(PutIfAbsent, "manifest/")
    for key in (2, 3, 4):
        last = opened(ground, revision, manifest_collection=True)
        ground.run(last.put(row(key)))
        ground.run(last.flush())
    collect(ground, retain=2)
    before = versions(ground)
    assert 2 not in before
    with pytest.raises(Fenced):
        flush.finish()
    assert versions(ground) == before
    assert ground.run(manifests.require(Io(ROOT, interpretation=STRICT), revision)) == before[max(before)]


# Verification of WAL puts


@pytest.mark.clause("FENCE-014", "AMB-25")
@pytest.mark.parametrize(("collected", "kind"), [(False, "Head"), (True, "List")])
def test_where_wal_files_are_collected_a_put_is_verified_by_one_request(collected: bool, kind: str) -> None:
    ground = Ground()
    writer = opened(ground, B, wal_collection=True, manifest_collection=collected)
    assert ground.counted(writer.put(row(1))) == {"PutIfAbsent": 1, kind: 1}


def let_others_pass(ground: Ground, revision: Revision, **options: Any) -> None:
    """Others claim, store, flush, and all WAL entries that are flushed are collected."""
    for key in (7, 8):
        writer = opened(ground, revision, **options)
        ground.run(writer.put(row(key)))
        ground.run(writer.flush())
        covered = max(versions(ground).items())[1].position_replay_after
        for position in range(covered + 1):
            ground.objects.pop(entry_name(revision, position), None)


@pytest.mark.clause("FENCE-017", "AMB-25")
@REVISIONS
@COLLECTED
def test_a_put_that_stalls_until_its_position_was_collected_is_not_acknowledged(
    revision: Revision, collected: bool
) -> None:
    ground = Ground()
    options = {"wal_collection": True, "manifest_collection": collected}
    first = opened(ground, revision, **options)
    ground.run(first.put(row(1)))
    stalled = Actor(ground, first.put(row(2))).until(PutIfAbsent, "/wal/")
    let_others_pass(ground, revision, **options)
    if collected:
        collect(ground, retain=2)
    name = stalled.waiting.path if stalled.waiting else ""
    assert name not in ground.objects
    with pytest.raises(Fenced):
        stalled.finish()
    assert name in ground.objects


@pytest.mark.clause("AMB-25", "AMB-30")
def test_a_stale_copy_of_the_manifest_that_a_writer_knows_does_not_verify_its_put(ground: Ground) -> None:
    options = {"wal_collection": True, "manifest_collection": True}
    opened(ground, B, **options)
    other = Actor(ground, claim(region(B, **options))).until(PutIfAbsent, "manifest/")  # about to create version 2
    first = opened(ground, B, **options)  # version 2 is this one's
    stalled = Actor(ground, first.put(row(2))).until(PutIfAbsent, "/wal/")
    let_others_pass(ground, B, **options)
    collect(ground, retain=2)
    other.step()
    assert epochs(ground)[2] == 2
    assert 3 not in epochs(ground)
    with pytest.raises(Fenced):
        stalled.finish()
    other.finish()
    assert 2 not in epochs(ground)


@pytest.mark.clause("FENCE-017", "AMB-24", "AMB-25")
@REVISIONS
@COLLECTED
def test_a_barrier_that_stalls_until_its_position_was_collected_opens_no_writer(
    revision: Revision, collected: bool
) -> None:
    ground = Ground()
    options = {"wal_collection": True, "manifest_collection": collected}
    first = opened(ground, revision, **options)
    ground.run(first.put(row(1)))
    stalled = Actor(ground, open_writer(region(revision, **options))).until(PutIfAbsent, "/wal/")
    let_others_pass(ground, revision, **options)
    with pytest.raises(Fenced):
        stalled.finish()


@pytest.mark.clause("FENCE-010", "AMB-25", "AMB-33")
@COLLECTED
def test_a_put_is_acknowledged_when_the_newer_manifest_has_its_own_epoch(ground: Ground, collected: bool) -> None:
    options = {"wal_collection": True, "manifest_collection": collected}
    state = table_of(ground, B, collected=collected)
    writer = opened(ground, B, **options)
    ground.run(writer.put(row(1)))
    ground.run(refreshed(state, versions(ground)[1]))
    ground.run(writer.put(row(2)))
    assert epochs(ground) == {1: 1, 2: 1}
    assert keys(writer.memtable.table()) == [1, 2]


@pytest.mark.clause("FENCE-014", "AMB-25", "AMB-33")
@pytest.mark.parametrize(("collected", "kind"), [(False, "Head"), (True, "List")])
def test_a_newer_manifest_of_the_same_epoch_is_read_once_and_known_then(collected: bool, kind: str) -> None:
    ground = Ground()
    options = {"wal_collection": True, "manifest_collection": collected}
    state = table_of(ground, B, collected=collected)
    writer = opened(ground, B, **options)
    ground.run(writer.put(row(1)))
    ground.run(refreshed(state, versions(ground)[1]))
    assert sum(ground.counted(writer.put(row(2))).values()) == 5
    assert writer.manifest == versions(ground)[2]
    assert ground.counted(writer.put(row(3))) == {"PutIfAbsent": 1, kind: 1}
    assert ground.run(writer.flush()) == 1
    assert epochs(ground) == {1: 1, 2: 1, 3: 1}
    opened(ground, B, **options)
    with pytest.raises(Fenced):
        ground.run(writer.put(row(4)))


@pytest.mark.clause("FENCE-014", "AMB-25", "AMB-41", "AMB-102")
@COLLECTED
def test_a_manifest_that_a_put_read_before_a_flush_committed_does_not_undo_the_flush(collected: bool) -> None:
    ground = Ground()
    options = {"wal_collection": True, "manifest_collection": collected}
    state = table_of(ground, B, collected=collected)
    writer = opened(ground, B, **options)
    ground.run(writer.put(row(1)))
    ground.run(writer.freeze())
    ground.run(refreshed(state, versions(ground)[1]))
    put = Actor(ground, writer.put(row(2)))
    put.until(Get, manifest_name(2)) if collected else put.until(Head, manifest_name(3))
    assert ground.run(writer.flush_oldest()) == 1
    if not collected:
        put.answer(NotFound(manifest_name(3)), applied=False)
    put.finish()
    assert (writer.manifest.version, writer.manifest.generation_current) == (3, 2)
    assert ground.run(writer.flush_oldest()) is None
    writer.release()
    assert writer.frozen == ()


# Busy and silent stores


async def life(revision: Revision, **options: Any) -> RegionWriter:
    """Open a region, put a row, flush it, put another."""
    writer = await open_writer(region(revision, **options))
    await writer.put(row(1))
    await writer.flush()
    await writer.put(row(2))
    return writer


async def life_twice(revision: Revision) -> None:
    """As `life`, and again by a second writer, which reads more."""
    await life(revision)
    await life(revision)


def requests_of(coroutine: Protocol[Any]) -> list[StoreRequest[Any]]:
    ground = Ground()
    ground.run(coroutine)
    return ground.asked


@REVISIONS
@COLLECTED
def test_a_step_goes_on_when_any_of_its_requests_is_throttled_as_often_as_is_borne(
    revision: Revision, collected: bool
) -> None:
    options = {"wal_collection": collected, "manifest_collection": collected}
    undisturbed = requests_of(life(revision, **options))
    for number in range(len(undisturbed) - READ_ATTEMPTS):
        ground = Ground()
        left = READ_ATTEMPTS - 1

        def busy(asked: StoreRequest[Any], number: int = number, ground: Ground = ground) -> Outcome | None:
            nonlocal left
            if len(ground.asked) <= number or left == 0:
                return None
            left -= 1
            return Throttled(asked.path)

        ground.before = busy
        writer = ground.run(life(revision, **options))
        assert left == 0
        assert keys(writer.memtable.table()) == [2]
        assert [g.generation for g in max(versions(ground).items())[1].flushed] == [1]


@REVISIONS
@pytest.mark.parametrize("kind", [Get, Head, List, ListFolders])
def test_a_read_that_is_throttled_for_ever_ends_the_step_as_throttled(
    kind: type[StoreRequest[Any]], revision: Revision
) -> None:
    ground = Ground()
    ground.before = lambda r: Throttled(r.path) if isinstance(r, kind) else None
    with pytest.raises(Throttled):
        ground.run(life_twice(revision))
    refused = [request for request in ground.asked if isinstance(request, kind)]
    assert len(refused) == READ_ATTEMPTS == 6


@pytest.mark.clause("AMB-14", "AMB-28", "MANIFEST-028")
@REVISIONS
@COLLECTED
@pytest.mark.parametrize("applied", [False, True])
def test_a_step_goes_on_when_any_of_its_changes_is_not_answered(
    applied: bool, revision: Revision, collected: bool
) -> None:
    options = {"wal_collection": collected, "manifest_collection": collected}
    changes = [r for r in requests_of(life(revision, **options)) if not isinstance(r, READS)]
    for number in range(len(changes)):
        ground = Ground()
        seen = 0

        def silent(asked: StoreRequest[Any], number: int = number, ground: Ground = ground) -> Outcome | None:
            nonlocal seen
            if isinstance(asked, READS):
                return None
            seen += 1
            if seen != number + 1:
                return None
            if applied:
                ground.apply(asked)
            return OutcomeUnknown(asked.path)

        ground.before = silent
        writer = ground.run(life(revision, **options))
        assert seen > number
        assert keys(writer.memtable.table()) == [2]
        assert [g.generation for g in max(versions(ground).items())[1].flushed] == [1]
        assert keys(opened(ground, revision, **options).memtable.table()) == [2]


# Through the public interface


@pytest.mark.clause("MANIFEST-009")
@pytest.mark.parametrize("revision", ["B", "R"])
def test_rows_below_the_replay_pointer_need_no_wal(tmp_path: Path, revision: str) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision)
    with table.writer() as writer:
        for key in (1, 2):
            writer.put(row(key))
        writer.flush()
        writer.put(row(3))
    folder = tmp_path / "t" / "_mem_wal" / writer.region_id
    after = table.regions()[0].manifest.position_replay_after
    for position in range(after + 1):
        name = f"{position:064b}"[::-1] + ".arrow"
        (folder / "wal" / name).unlink(missing_ok=True)
    assert sorted(keys(table.scan())) == [1, 2, 3]
    table.merge()
    assert sorted(keys(table.scan())) == [1, 2, 3]


@pytest.mark.clause("MANIFEST-033", "MANIFEST-032", "MANIFEST-040")
def test_finding_the_newest_manifest_costs_the_same_after_any_number_of_writes(ground: Ground) -> None:
    writer = opened(ground, B)
    ground.run(writer.put(row(1)))
    ground.run(writer.flush())
    before, known = ground.counted(manifests.latest(Io(ROOT, interpretation=STRICT), B)), versions(ground)
    for key in range(40):
        ground.run(writer.put(row(key)))
    assert versions(ground) == known
    assert ground.counted(manifests.latest(Io(ROOT, interpretation=STRICT), B)) == before == {"Get": 2, "Head": 2}


@pytest.mark.clause("AMB-30")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_tables_config_says_whether_manifest_versions_may_be_collected(tmp_path: Path, allowed: bool) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], manifest_collection=allowed)
    assert table._state.config["memwal.manifest_collection"] == ("on" if allowed else "off")
    with table.writer() as writer:
        assert writer._writer.region.manifest_collection is allowed


@pytest.mark.clause("AMB-143", "AMB-31")
def test_a_region_whose_manifests_are_lost_is_refused_by_writers_and_readers(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    with table.writer() as writer:
        writer.put(row(1))
    folder = tmp_path / "t" / "_mem_wal" / writer.region_id
    for file in (folder / "manifest").iterdir():
        file.unlink()
    for attempt in (table.scan, table.merge, lambda: table.writer(writer.region_id)):
        with pytest.raises(memwal.ArtifactError, match="AMB-143"):
            attempt()
    assert not any((folder / "manifest").iterdir())


def test_a_region_folder_with_nothing_but_a_hint_is_no_region(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    folder = tmp_path / "t" / "_mem_wal" / "00000000-0000-4000-8000-000000000009" / "manifest"
    folder.mkdir(parents=True)
    (folder / "version_hint.json").write_text('{"version": 3}')
    assert table.regions() == ()
    with table.writer("00000000-0000-4000-8000-000000000009") as writer:
        assert writer.epoch == 1


def test_manifests_made_by_this_module_are_those_of_the_codec() -> None:
    assert region_manifest.decode(region_manifest.encode(manifest(3, 4), B), B, manifest_name(3)) == manifest(3, 4)
    ground = Ground()
    put_hint(ground, b"{}")
    assert ground.below() == ["manifest/version_hint.json"]
