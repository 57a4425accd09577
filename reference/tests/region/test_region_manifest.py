"""Region manifest versions: finding the newest, and the one cycle in which every new one is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Delete, Get, Head, Io, List, ListFolders, Put, PutIfAbsent, StoreRequest
from memwal.errors import (
    AlreadyExists,
    ArtifactError,
    InvalidArgument,
    NotFound,
    Outcome,
    OutcomeUnknown,
    StorageError,
    Throttled,
)
from memwal.ids import UINT64_MAX, Epoch, ManifestVersion, WalPosition
from memwal.region import manifest as manifests
from memwal.region.claim import claim
from memwal.region.transitions import CLAIM, INDEX_BUILDER
from memwal.revisions import STRICT, A, B, R, Revision

from ..kit.ground import ROOT, Actor, Ground, hinted, manifest, manifest_name, put_hint, put_manifests, region, versions
from ..kit.profiles import read_as
from ..kit.wire import blob, num

IO = Io(ROOT, interpretation=STRICT)
UNGUARDED = read_as(IO, replace(STRICT, guard_collected_versions=False))


def newest(ground: Ground, *, collected: bool = True) -> int | None:
    found = ground.run(manifests.latest(IO, B, collected=collected))
    return None if found is None else found.version


async def claims(current: RegionManifest | None) -> RegionManifest | None:
    """Raise the epoch by one; version 1 has epoch 1."""
    if current is None:
        return manifest(1)
    return replace(manifests.following(current), epoch=Epoch(current.epoch + 1))


def advance(*, io: Io = IO, collected: bool = False, **options: object) -> object:
    return manifests.advance(io, B, CLAIM, claims, collected=collected, **options)  # type: ignore[arg-type]


def with_versions(*numbers: int, hint_at: int | None = None) -> Ground:
    """Versions whose epochs are their numbers."""
    ground = Ground()
    put_manifests(ground, B, *(manifest(n, n) for n in numbers), hint_at=hint_at)
    return ground


@pytest.mark.clause("MANIFEST-029", "MANIFEST-030", "AMB-31")
@pytest.mark.parametrize(
    ("hint_at", "asked"), [(None, [1, 2, 3, 4, 5]), (1, [1, 2, 3, 4, 5]), (3, [3, 4, 5]), (4, [4, 5])]
)
def test_probing_begins_at_the_hinted_version_or_at_version_1_and_ends_at_the_first_that_is_missing(
    hint_at: int | None, asked: list[int]
) -> None:
    ground = with_versions(1, 2, 3, 4, hint_at=hint_at)
    assert newest(ground, collected=False) == 4
    probed = [request.path for request in ground.asked if request.path.endswith(".binpb")]
    assert list(dict.fromkeys(probed)) == [manifest_name(number) for number in asked]


@pytest.mark.clause("MANIFEST-001", "MANIFEST-030", "MANIFEST-031", "AMB-31")
@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("hint_at", [None, 1, 3, 5, 6, 9, 2**64 - 1])
def test_the_newest_of_a_full_series_is_found_whatever_the_hint_says(hint_at: int | None, collected: bool) -> None:
    ground = with_versions(1, 2, 3, 4, 5, hint_at=hint_at)
    assert newest(ground, collected=collected) == 5


@pytest.mark.clause("MANIFEST-031", "AMB-30", "AMB-31", "AMB-32")
@pytest.mark.parametrize("hint_at", [None, 1, 7, 8, 9, 10, 11, 40])
def test_the_newest_of_a_collected_series_is_found_whatever_the_hint_says(hint_at: int | None) -> None:
    ground = with_versions(8, 9, 10, hint_at=hint_at)
    assert newest(ground) == 10
    assert newest(ground, collected=False) == 10


@pytest.mark.clause("MANIFEST-028", "AMB-31")
@pytest.mark.parametrize("data", [b"", b"{", b'{"version": "3"}', b"\xff\xfe", b'{"version": 0}'])
def test_a_damaged_hint_is_noted_and_the_versions_are_listed(data: bytes) -> None:
    ground = with_versions(1, 2, 3)
    put_hint(ground, data)
    assert newest(ground) == 3
    assert [event["path"] for event in ground.events("hint_damaged")] == [f"{ROOT}/manifest/version_hint.json"]
    assert any(isinstance(request, List) for request in ground.asked)


@pytest.mark.clause("AMB-31")
def test_only_an_empty_listing_means_that_there_is_no_region() -> None:
    assert newest(Ground()) is None
    ground = Ground()
    put_hint(ground, b'{"version": 4}')
    assert newest(ground) is None
    literal = with_versions(8, 9, hint_at=4)
    assert newest(literal) == 9
    assert literal.run(manifests.latest(read_as(IO, replace(STRICT, list_when_hint_fails=False)), B)) is None


@pytest.mark.clause("AMB-143", "AMB-31")
@pytest.mark.parametrize("left", ["wal/" + "1" + "0" * 63 + ".arrow", "a1b2c3d4_gen_1/_versions/x"])
def test_a_region_with_data_and_no_manifest_is_corrupt_and_is_not_created_anew(left: str) -> None:
    ground = Ground({f"{ROOT}/{left}": b"x"})
    put_hint(ground, b'{"version": 4}')
    before = dict(ground.objects)
    with pytest.raises(ArtifactError, match="a WAL or generations, and no manifest") as caught:
        newest(ground)
    assert (caught.value.clause, caught.value.path) == ("AMB-143", ROOT)
    with pytest.raises(ArtifactError, match="AMB-143"):
        ground.run(advance())
    assert ground.objects == before


@pytest.mark.clause("AMB-143")
def test_a_creator_that_is_overtaken_while_it_looks_is_not_told_of_corruption(ground: Ground) -> None:
    late = Actor(ground, advance()).until(ListFolders, ROOT)
    ground.run(advance())
    ground.objects[f"{ROOT}/wal/{'0' * 64}.arrow"] = b"x"
    late.finish()
    assert {number: each.epoch for number, each in versions(ground).items()} == {1: 1, 2: 2}


@pytest.mark.clause("AMB-32")
def test_a_listing_takes_the_largest_version_and_notes_a_gap() -> None:
    ground = with_versions(1, 2, 8, 9, hint_at=5)
    assert newest(ground) == 9
    assert [event["versions"] for event in ground.events("manifest_gap")] == [(1, 2, 8, 9)]


@pytest.mark.clause("MANIFEST-001")
def test_a_damaged_newest_version_is_an_error_and_no_reason_to_use_an_older_one() -> None:
    ground = with_versions(1, 2, 3, hint_at=3)
    ground.objects[manifest_name(3)] = ground.objects[manifest_name(3)][:9]
    with pytest.raises(ArtifactError) as caught:
        newest(ground)
    assert caught.value.path == manifest_name(3)


def test_an_older_version_that_is_damaged_does_no_harm() -> None:
    ground = with_versions(1, 2, 3, hint_at=2)
    ground.objects[manifest_name(2)] = b"\xff"
    assert newest(ground) == 3


def test_the_largest_version_number_is_found_and_nothing_can_follow_it() -> None:
    ground = with_versions(hint_at=UINT64_MAX)
    put_manifests(ground, B, manifest(UINT64_MAX, 4))
    assert newest(ground) == UINT64_MAX
    with pytest.raises(ArtifactError, match="no version follows"):
        ground.run(advance())


@pytest.mark.clause("MANIFEST-032")
def test_finding_the_newest_costs_three_requests_without_collection_and_four_with() -> None:
    ground = with_versions(1, 2, 3, 4, hint_at=4)
    assert ground.counted(manifests.latest(IO, B, collected=False)) == {"Get": 2, "Head": 1}
    assert ground.counted(manifests.latest(IO, B)) == {"Get": 2, "Head": 2}
    behind = with_versions(1, 2, 3, 4, hint_at=2)
    assert behind.counted(manifests.latest(IO, B, collected=False)) == {"Get": 3, "Head": 3}


def test_a_region_with_one_version_is_confirmed_by_a_listing_where_versions_may_be_collected() -> None:
    ground = with_versions(1, hint_at=1)
    assert ground.counted(manifests.latest(IO, B)) == {"Get": 2, "Head": 1, "List": 1}
    assert ground.counted(manifests.latest(IO, B, collected=False)) == {"Get": 2, "Head": 1}


@pytest.mark.clause("MANIFEST-020", "MANIFEST-021", "MANIFEST-023", "MANIFEST-024", "MANIFEST-025", "MANIFEST-026")
@pytest.mark.clause("MANIFEST-027", "MANIFEST-039")
def test_a_new_version_is_one_above_its_basis_created_conditionally_and_hinted_afterwards() -> None:
    ground = with_versions(1, 2, hint_at=2)
    before = dict(ground.objects)
    assert ground.counted(advance()) == {"Get": 2, "Head": 1, "PutIfAbsent": 1, "Put": 1}
    created, hint = ground.asked[-2:]
    assert isinstance(created, PutIfAbsent)
    assert created.path == f"{ROOT}/manifest/11{'0' * 62}.binpb"
    assert isinstance(hint, Put)
    assert hint.data == b'{"version": 3}'
    assert {name for name in ground.objects if ground.objects[name] != before.get(name)} == {created.path, hint.path}


@pytest.mark.clause("AMB-30")
def test_on_a_collected_table_a_commit_costs_one_listing_and_one_head_more() -> None:
    ground = with_versions(4, 5, hint_at=5)
    expected = {"Get": 2, "Head": 2, "PutIfAbsent": 1, "List": 1, "Put": 1}
    assert ground.counted(advance(collected=True)) == expected


@pytest.mark.clause("MANIFEST-019", "MANIFEST-022", "MANIFEST-023", "AMB-29")
def test_of_two_that_compete_for_a_version_the_loser_starts_again_from_what_won() -> None:
    async def sees(current: RegionManifest | None) -> RegionManifest | None:
        assert current is not None
        return replace(manifests.following(current), position_last_seen=WalPosition(9))

    ground = with_versions(1, 2, hint_at=2)
    first = Actor(ground, advance()).until(PutIfAbsent, "manifest/")
    second = Actor(ground, manifests.advance(IO, B, INDEX_BUILDER, sees, collected=False)).until(
        PutIfAbsent, "manifest/"
    )
    second.finish()
    won = ground.objects[manifest_name(3)]
    assert first.finish().manifest.version == 4  # type: ignore[attr-defined]
    assert ground.objects[manifest_name(3)] == won
    found = {number: (each.epoch, each.position_last_seen) for number, each in versions(ground).items()}
    assert found == {1: (1, 0), 2: (2, 0), 3: (2, 9), 4: (3, 9)}


@pytest.mark.clause("MANIFEST-027", "MANIFEST-028")
@pytest.mark.parametrize("kind", [OutcomeUnknown, Throttled, StorageError])
def test_a_hint_that_cannot_be_written_changes_no_outcome(kind: type[Exception]) -> None:
    ground = with_versions(1, hint_at=1)
    ground.before = lambda r: (
        (kind(r.path, "no") if kind is StorageError else kind(r.path)) if isinstance(r, Put) else None  # type: ignore[call-arg, return-value]
    )
    done = ground.run(advance())
    assert (done.committed, done.manifest.version) == (True, 2)  # type: ignore[attr-defined]
    assert hinted(ground) == b'{"version": 1}'
    assert len(ground.events("hint_failed")) == 1
    assert newest(ground) == 2


@pytest.mark.clause("AMB-31", "MANIFEST-027")
def test_no_hint_is_written_for_a_version_that_was_not_created() -> None:
    ground = with_versions(1, 2, hint_at=2)
    losing = Actor(ground, advance(insist=False)).until(PutIfAbsent, "manifest/")
    ground.objects[manifest_name(3)] = b"another's"
    losing.finish()
    assert hinted(ground) == b'{"version": 2}'
    assert not any(isinstance(request, Put) for request in ground.asked)


@pytest.mark.clause("AMB-31")
@pytest.mark.parametrize("hint_at", [1, 4, 5, 9])
def test_a_commit_points_the_hint_at_its_version_and_so_mends_one_that_names_nothing(hint_at: int) -> None:
    ground = with_versions(4, 5, hint_at=hint_at)
    ground.run(advance(collected=True))
    assert hinted(ground) == b'{"version": 6}'


@pytest.mark.clause("MANIFEST-022", "AMB-33", "AMB-138")
def test_losing_to_others_is_not_counted() -> None:
    ground = with_versions(1, 2, hint_at=2)
    rivals = iter(range(3, 53))

    def overtaken(request: object) -> None:
        if isinstance(request, PutIfAbsent) and (version := next(rivals, None)) is not None:
            put_manifests(ground, B, manifest(version, version), hint_at=version)

    ground.before = overtaken  # type: ignore[assignment]
    assert ground.run(advance()).manifest.version == 53  # type: ignore[attr-defined]


@pytest.mark.clause("AMB-138")
@pytest.mark.parametrize("failure", [OutcomeUnknown, Throttled, AlreadyExists])
def test_attempts_that_lead_nowhere_end(failure: type[Exception]) -> None:
    ground = with_versions(1, 2, hint_at=2)
    ground.before = lambda r: failure(r.path) if isinstance(r, PutIfAbsent) else None  # type: ignore[return-value]
    with pytest.raises(failure):
        ground.run(advance())
    puts = [request for request in ground.asked if isinstance(request, PutIfAbsent)]
    assert 12 <= len(puts) <= 13
    assert versions(ground).keys() == {1, 2}


def test_after_an_unanswered_attempt_a_throttled_end_is_reported_as_unknown() -> None:
    ground = with_versions(1, 2, hint_at=2)
    outcomes = iter([OutcomeUnknown("first"), *(Throttled("later") for _ in range(11))])
    ground.before = lambda r: next(outcomes) if isinstance(r, PutIfAbsent) else None
    with pytest.raises(OutcomeUnknown, match="first"):
        ground.run(advance())


@pytest.mark.clause("AMB-37")
def test_an_impossible_state_is_believed_only_of_a_version_that_a_listing_shows() -> None:
    ground = with_versions(1, 2, 5, 6, hint_at=2)

    async def derive(current: RegionManifest | None) -> RegionManifest | None:
        assert current is not None
        if current.epoch < 6:
            raise ArtifactError("AMB-37", "x", "below")
        return await claims(current)

    done = ground.run(manifests.advance(IO, B, CLAIM, derive, collected=False))
    assert done.manifest is not None
    assert done.manifest.version == 7
    del ground.objects[manifest_name(5)], ground.objects[manifest_name(6)], ground.objects[manifest_name(7)]
    with pytest.raises(ArtifactError, match="AMB-37"):
        ground.run(manifests.advance(IO, B, CLAIM, derive, collected=False))


def collect_below(ground: Ground, version: int) -> None:
    for number in sorted(versions(ground)):
        if number < version:
            del ground.objects[manifest_name(number)]


def history(ground: Ground, upto: int) -> None:
    """Others commit until version ``upto`` is there."""
    while max(versions(ground), default=0) < upto:
        ground.run(advance(collected=True))


@pytest.mark.clause("MANIFEST-007", "MANIFEST-020", "AMB-30")
@pytest.mark.parametrize("kept_from", [15, 8, 7, 6])
def test_a_commit_whose_basis_was_collected_is_void_and_done_anew(kept_from: int) -> None:
    ground = with_versions(1, 2, 3, 4, 5, hint_at=5)
    stalled = Actor(ground, advance(collected=True)).until(PutIfAbsent, "manifest/")
    history(ground, 20)
    collect_below(ground, kept_from)
    since = len(ground.asked)
    done = stalled.finish()
    pointed = [r.data for r in ground.asked[since:] if isinstance(r, Put)]
    assert pointed == [b'{"version": 21}']  # the hint never names what is not confirmed
    assert (done.committed, done.manifest.version, done.manifest.epoch) == (True, 21, 21)  # type: ignore[attr-defined]
    assert versions(ground)[21].epoch == 21
    assert hinted(ground) == b'{"version": 21}'
    assert min(versions(ground)) == (kept_from if kept_from != 7 else 6)
    assert newest(ground) == 21


@pytest.mark.clause("MANIFEST-020", "AMB-28")
@pytest.mark.parametrize("refusal", [Throttled("x"), StorageError("x", "permission denied")], ids=["later", "never"])
def test_a_commit_that_was_not_answered_once_and_then_refused_has_no_known_outcome(refusal: Outcome) -> None:
    for first, expected in ((OutcomeUnknown("x"), OutcomeUnknown), (refusal, type(refusal))):
        ground = with_versions(1, hint_at=1)
        answers = [first]

        def fault(request: StoreRequest[Any], answers: list[Outcome] = answers) -> Outcome | None:
            if not isinstance(request, PutIfAbsent):
                return None
            return answers.pop() if answers else refusal

        ground.before = fault
        with pytest.raises(Outcome) as caught:
            ground.run(advance())
        assert type(caught.value) is expected


@pytest.mark.clause("MANIFEST-020", "AMB-28", "AMB-30")
@pytest.mark.parametrize("refusal", [Throttled("x"), StorageError("x", "permission denied")], ids=["later", "never"])
def test_a_commit_that_was_created_has_no_known_outcome_where_the_listing_that_confirms_it_is_refused(
    refusal: Outcome,
) -> None:
    ground = with_versions(4, 5, hint_at=5)
    stalled = Actor(ground, advance(collected=True)).until(List, "manifest")
    ground.before = lambda r: refusal
    with pytest.raises(OutcomeUnknown, match="and then"):
        stalled.finish()
    assert versions(ground)[6].epoch == 6


@pytest.mark.clause("MANIFEST-020", "AMB-28")
@pytest.mark.parametrize("refusal", [Throttled("x"), StorageError("x", "permission denied")], ids=["later", "never"])
def test_a_commit_that_was_not_answered_has_no_known_outcome_where_the_next_look_is_refused(refusal: Outcome) -> None:
    ground = with_versions(1, hint_at=1)
    unanswered = Actor(ground, advance()).until(PutIfAbsent, "manifest/")
    ground.before = lambda r: refusal
    unanswered.answer(OutcomeUnknown("x"), applied=True)
    with pytest.raises(OutcomeUnknown, match="no answer, and then"):
        unanswered.finish()
    assert versions(ground)[2].epoch == 2


@pytest.mark.clause("AMB-30")
def test_a_commit_that_others_overtook_has_no_known_outcome_where_the_next_look_is_refused() -> None:
    ground = with_versions(4, 5, hint_at=5)
    overtaken = Actor(ground, advance(collected=True)).until(List, "manifest")
    history(ground, 8)
    overtaken.step()
    ground.before = lambda r: StorageError(r.path, "permission denied")
    with pytest.raises(OutcomeUnknown, match="created, and not confirmed, and then"):
        overtaken.finish()
    assert versions(ground)[8].epoch == 8  # which stands on ours


@pytest.mark.clause("AMB-30", "FENCE-008")
@pytest.mark.parametrize("removable", [False, True])
def test_two_stalled_commits_whose_numbers_are_neighbours_are_both_void(removable: bool) -> None:
    ground = with_versions(1, 2, 3, 4, hint_at=4)
    lower = Actor(ground, advance(collected=True)).until(PutIfAbsent, "manifest/")
    history(ground, 5)
    upper = Actor(ground, advance(collected=True)).until(PutIfAbsent, "manifest/")
    history(ground, 20)
    collect_below(ground, 16)
    ground.before = lambda r: Throttled(r.path) if isinstance(r, Delete) and not removable else None
    lower.step()
    upper.step()  # version 5 is there again below version 6, so that its presence proves nothing
    put_hint(ground, b'{"version": 6}')
    assert upper.finish().manifest.version == 21  # type: ignore[attr-defined]
    assert lower.finish().manifest.version == 22  # type: ignore[attr-defined]
    epochs = [each.epoch for number, each in versions(ground).items() if number > 6]
    assert epochs == [16, 17, 18, 19, 20, 21, 22]


@pytest.mark.clause("AMB-30", "AMB-31", "AMB-35")
def test_a_stalled_creation_is_void_once_version_1_was_collected(ground: Ground) -> None:
    stalled = Actor(ground, advance(collected=True)).until(PutIfAbsent, "manifest/")
    history(ground, 6)
    collect_below(ground, 4)
    done = stalled.finish()
    assert done.manifest.version == 7  # type: ignore[attr-defined]
    assert versions(ground).keys() == {4, 5, 6, 7}


@pytest.mark.clause("AMB-30")
def test_under_the_literal_reading_a_stale_commit_counts_and_the_region_goes_back() -> None:
    ground = with_versions(1, 2, 3, 4, 5, hint_at=5)
    stalled = Actor(ground, advance(io=UNGUARDED, collected=True)).until(PutIfAbsent, "manifest/")
    history(ground, 20)
    collect_below(ground, 16)
    assert stalled.finish().manifest.epoch == 6  # type: ignore[attr-defined]
    found = ground.run(manifests.latest(UNGUARDED, B))
    assert found is not None
    assert (found.version, found.epoch) == (6, 6)
    assert newest(ground) == 20


@pytest.mark.clause("AMB-30")
def test_a_commit_that_was_overtaken_before_it_could_be_confirmed_is_left_in_place() -> None:
    ground = with_versions(4, 5, hint_at=5)
    overtaken = Actor(ground, advance(collected=True)).until(List, "manifest")
    assert 6 in versions(ground)
    history(ground, 8)
    collect_below(ground, 6)
    assert overtaken.finish().manifest.version == 9  # type: ignore[attr-defined]
    assert versions(ground).keys() == {6, 7, 8, 9}


@pytest.mark.clause("AMB-30")
@pytest.mark.parametrize("failure", [OutcomeUnknown, Throttled])
def test_a_stale_version_that_cannot_be_deleted_does_no_harm(failure: type[Exception]) -> None:
    ground = with_versions(1, 2, 3, 4, 5, hint_at=5)
    stalled = Actor(ground, advance(collected=True)).until(PutIfAbsent, "manifest/")
    history(ground, 20)
    collect_below(ground, 16)
    ground.before = lambda r: failure(r.path) if isinstance(r, Delete) else None  # type: ignore[return-value]
    assert stalled.finish().manifest.version == 21  # type: ignore[attr-defined]
    assert 6 in versions(ground)
    put_hint(ground, b'{"version": 6}')
    assert newest(ground) == 21


@pytest.mark.clause("AMB-30", "AMB-31")
def test_a_reader_that_stalls_while_versions_are_collected_under_it_finds_the_newest_all_the_same() -> None:
    ground = with_versions(1, 2, 3, hint_at=3)
    stalled = Actor(ground, manifests.latest(IO, B)).until(Head, manifest_name(4))
    history(ground, 9)
    collect_below(ground, 7)
    found = stalled.finish()
    assert found is not None
    assert found.version == 9


@pytest.mark.clause("AMB-31")
def test_a_listed_version_that_is_collected_before_it_is_read_is_looked_for_again() -> None:
    ground = with_versions(4, 5, hint_at=1)
    stalled = Actor(ground, manifests.latest(IO, B)).until(Get, manifest_name(5))
    history(ground, 9)
    collect_below(ground, 7)
    found = stalled.finish()
    assert found is not None
    assert found.version == 9


def test_a_store_that_lists_what_it_does_not_have_is_no_endless_loop() -> None:
    ground = with_versions(4, hint_at=1)
    ground.before = lambda r: NotFound(r.path) if isinstance(r, Get) else None
    with pytest.raises(NotFound):
        newest(ground)


@pytest.mark.clause("AMB-32", "AMB-96")
@pytest.mark.parametrize(
    ("listed", "hinted_at", "retain", "expected"),
    [
        ((1, 2, 3, 4, 5), 5, 2, (1, 2, 3)),
        ((1, 2, 3, 4, 5), 5, 5, ()),
        ((1, 2, 3, 4, 5), 5, 9, ()),
        ((1, 2, 3, 4, 5), 2, 2, (1,)),
        ((1, 2, 3, 4, 5), 1, 2, ()),
        ((4, 5, 6), 2, 2, (4,)),
        ((4, 5, 6), None, 2, (4,)),
        ((6, 16, 17, 18), 18, 2, (6, 16)),
        ((), 1, 2, ()),
    ],
)
def test_a_collector_may_delete_ascending_what_is_below_the_retained_and_the_hinted_version(
    listed: tuple[int, ...], hinted_at: int | None, retain: int, expected: tuple[int, ...]
) -> None:
    numbers = tuple(ManifestVersion(n) for n in listed)
    hint_at = None if hinted_at is None else ManifestVersion(hinted_at)
    assert manifests.collectable(numbers, hint_at, retain) == expected


@pytest.mark.clause("AMB-96")
def test_fewer_than_two_retained_versions_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least 2 manifest versions"):
        manifests.collectable((ManifestVersion(1),), None, 1)


@pytest.mark.clause("AMB-03", "MANIFEST-034")
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_a_step_changes_its_own_field_and_keeps_fields_of_later_revisions_at_every_depth(revision: Revision) -> None:
    region_id = bytes.fromhex("7c9e6679742540de944be07fc1f90ae7")
    data = (
        num(1, 5)
        + num(2, 3)
        + num(3, 7)
        + num(4, 9)
        + num(6, 2)
        + blob(8, num(1, 1), blob(2, b"a1b2c3d4_gen_1"), blob(900, b"in the generation"))
        + blob(11, blob(1, region_id), num(901, 7))
        + blob(14, blob(1, b"bucket"), blob(2, b"\x03"), num(902, 1))
        + blob(903, b"in the manifest")
    )
    ground = Ground({manifest_name(5): data})
    put_hint(ground, b'{"version": 5}')
    ground.run(claim(region(revision)))
    expected = data.replace(num(1, 5) + num(2, 3), num(1, 6) + num(2, 4))
    assert ground.objects[manifest_name(6)] == expected


@pytest.mark.clause("MANIFEST-011", "MANIFEST-012")
def test_a_hint_of_the_wal_end_is_raised_by_anyone_and_given_up_after_one_lost_attempt() -> None:
    ground = with_versions(1, 2, hint_at=2)

    async def raises(current: RegionManifest | None) -> RegionManifest | None:
        assert current is not None
        return replace(manifests.following(current), position_last_seen=WalPosition(9))

    refresh = Actor(ground, manifests.advance(IO, B, INDEX_BUILDER, raises, collected=False, insist=False))
    refresh.until(PutIfAbsent, "manifest/")
    ground.run(advance())
    assert not refresh.finish().committed
    assert {n: each.position_last_seen for n, each in versions(ground).items()} == {1: 0, 2: 0, 3: 0}
    ground.run(manifests.advance(IO, B, INDEX_BUILDER, raises, collected=False, insist=False))
    assert (versions(ground)[4].position_last_seen, versions(ground)[4].epoch) == (9, 3)
