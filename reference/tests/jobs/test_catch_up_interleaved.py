"""The index builder beside merges, other builders, crashes and pylance: stepped request by request."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from memwal.codec import index_details
from memwal.codec.index_details import IndexDetails
from memwal.codec.pb.lance import transaction_pb2
from memwal.drive import drive
from memwal.effects import Io, PutIfAbsent, Request, run
from memwal.errors import AlreadyExists, Conflict, InvalidArgument, OutcomeUnknown, Throttled
from memwal.ids import RegionId
from memwal.index import mem_wal, regions, snapshot
from memwal.jobs import index_builder
from memwal.jobs.index_builder import catch_up
from memwal.jobs.merger import merge_region
from memwal.revisions import CONFIG_INLINE_REGIONS, LITERAL, STRICT, R
from memwal.stores.local import LocalStore
from memwal.table import read
from memwal.table.commit import commit
from memwal.table.coverage import segments, uncovered
from memwal.table.state import TableState, latest, load, versions
from memwal.table.write import append, set_config

from ..kit.catch_up_scenes import crashed, enabled, fragments_of, interrupted, native, recorded, requests, rows
from ..kit.ground import Ground
from ..kit.profiles import read_as
from ..kit.tables import flush

IO = Io("t", interpretation=STRICT)


class Scene:
    """A table with indexes ``btree`` and ``bitmap`` over fragment 0. Generation g is rows of the keys ``10 * g`` on;
    merged, it is fragment g. Generation 1 is merged, 2 and 3 are not."""

    def __init__(self, objects: dict[str, bytes], region: RegionId) -> None:
        self.objects, self.region = objects, region

    def store(self) -> Ground:
        return Ground(self.objects)

    def merge(self, store: Ground) -> list[int]:
        return [merged.generation for merged in store.run(merge_region(IO, self.region))]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("scene")
    table = enabled(folder / "t", ["btree", "bitmap"], revision="B")
    region = flush(table, rows(10, 20, "gen1"))
    table.merge()
    flush(table, rows(20, 30, "gen2"), rows(30, 40, "gen3"), region=region)
    return Scene(Ground.of(folder).objects, RegionId(region))


def newest(store: Ground) -> TableState:
    return store.run(latest(IO))


def values(store: Ground) -> dict[int, str]:
    found = store.run(read.scan(IO, newest(store), ["id", "cat"])).to_pylist()
    assert len(found) == 300
    return {row["id"]: row["cat"] for row in found}


def overstated(scene: Scene, state: TableState) -> list[int]:
    """Generations that the index counts as covering and whose fragment it lacks, or that are not merged."""
    credit = recorded(state, "btree", scene.region) or 0
    progress = state.mem_wal.progress(scene.region)
    return [g for g in range(1, credit + 1) if g > progress or g not in fragments_of(state, "btree")]


def orphans(store: Ground) -> set[str]:
    """Folders of index files that no version refers to."""
    states = [store.run(load(IO, version)) for version in store.run(versions(IO))]
    named = {str(uuid.UUID(bytes=entry.uuid.uuid)) for state in states for entry in state.manifest.indices}
    return {name.split("/")[2] for name in store.objects if name.startswith("t/_indices/")} - named


def check_one_mem_wal_index(state: TableState) -> None:
    assert [e.name for e in state.manifest.indices].count("__lance_mem_wal") == 1


@pytest.mark.clause("CATCHUP-003", "CATCHUP-006", "CATCHUP-007", "CATCHUP-009", "AMB-70", "AMB-86")
def test_a_merge_at_any_moment_is_never_credited_before_it_is_indexed(scene: Scene) -> None:
    steps = len(requests(scene.store(), catch_up(IO, "btree")))
    counted = []
    for at in range(steps):
        store = scene.store()
        merged: list[int] = []
        interrupted(store, catch_up(IO, "btree"), at, lambda s=store, m=merged: m.extend(scene.merge(s)))
        state = newest(store)
        assert merged == [2, 3]
        assert overstated(scene, state) == []
        check_one_mem_wal_index(state)
        counted.append(recorded(state, "btree", scene.region))
        assert store.run(catch_up(IO, "btree")).credited == ((scene.region, 3),)
        assert fragments_of(newest(store), "btree") == {0, 1, 2, 3}
        assert orphans(store) == set()
    assert set(counted) == {1, 3}
    assert counted == sorted(counted, key=lambda credit: -(credit or 0))


@pytest.mark.clause("AMB-70")
def test_reading_progress_after_building_credits_what_the_index_lacks(scene: Scene) -> None:
    faults: dict[str, list[int]] = {}
    for name, profile in {"strict": STRICT, "literal": LITERAL}.items():
        steps = len(requests(scene.store(), catch_up(read_as(IO, profile), "btree")))
        for at in range(steps):
            store = scene.store()
            interrupted(store, catch_up(read_as(IO, profile), "btree"), at, lambda s=store: scene.merge(s))
            faults.setdefault(name, []).extend(overstated(scene, newest(store)))
    assert faults["strict"] == []
    assert set(faults["literal"]) == {2, 3}


@pytest.mark.clause("CATCHUP-003")
def test_a_merge_neither_waits_for_a_builder_nor_starts_again(scene: Scene) -> None:
    steps = len(requests(scene.store(), merge_region(IO, scene.region)))
    for at in range(steps):
        store = scene.store()
        merge = merge_region(IO, scene.region)
        done = interrupted(store, merge, at, lambda s=store: s.run(catch_up(IO, "btree")))
        assert [merged.generation for merged in done] == [2, 3]
        assert "merge_conflict" not in [note.event for note in store.notes]
        assert overstated(scene, newest(store)) == []
        assert newest(store).mem_wal.progress(scene.region) == 3
        assert set(values(store).values()) == {"base", "gen1", "gen2", "gen3"}


@pytest.mark.clause("CATCHUP-005", "CATCHUP-008")
def test_a_builder_that_dies_at_any_request_leaves_a_good_table_and_a_later_one_finishes(scene: Scene) -> None:
    steps = len(requests(scene.store(), catch_up(IO, "btree")))
    before = values(scene.store())
    finished = []
    for after in range(steps + 1):
        store = scene.store()
        finished.append(crashed(store, catch_up(IO, "btree"), after))
        assert values(store) == before
        assert overstated(scene, newest(store)) == []
        credit, covered = recorded(newest(store), "btree", scene.region), fragments_of(newest(store), "btree")
        assert (credit, covered) in [(0, {0}), (1, {0, 1})]
        store.run(catch_up(IO, "btree"))
        assert (recorded(newest(store), "btree", scene.region), uncovered(newest(store), "btree")) == (1, frozenset())
    assert finished == [False] * steps + [True]


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("outcome", [OutcomeUnknown, Throttled])
def test_an_unanswered_write_at_any_point_is_repeated_until_it_is_known(
    scene: Scene, outcome: type[OutcomeUnknown], applied: bool
) -> None:
    if outcome is Throttled and applied:
        return
    writes = [r for r in requests(scene.store(), catch_up(IO, "btree")) if isinstance(r, PutIfAbsent)]
    for at in range(len(writes)):
        store, seen = scene.store(), 0

        def perform(request: Request[Any], store: Ground = store, at: int = at) -> Any:
            nonlocal seen
            if isinstance(request, PutIfAbsent):
                seen += 1
                if seen == at + 1:
                    if applied:
                        store.perform(request)
                    raise outcome(request.path)
            return store.perform(request)

        assert run(catch_up(IO, "btree"), perform).credited == ((scene.region, 1),)
        assert fragments_of(newest(store), "btree") == {0, 1}
        assert orphans(store) == set()


@pytest.mark.clause("CATCHUP-006", "CATCHUP-009")
def test_a_build_whose_commit_landed_and_was_answered_as_taken_keeps_its_files(scene: Scene) -> None:
    store, taken = scene.store(), False

    def perform(request: Request[Any]) -> Any:
        nonlocal taken
        if isinstance(request, PutIfAbsent) and "/_versions/" in request.path and not taken:
            taken = True
            store.perform(request)
            raise AlreadyExists(request.path)  # as a client that repeats by itself is told
        return store.perform(request)

    assert run(catch_up(IO, "btree"), perform).credited == ((scene.region, 1),)
    state = newest(store)
    assert fragments_of(state, "btree") == {0, 1}
    for entry in segments(state, "btree"):
        assert [name for name in store.objects if name.startswith(f"t/_indices/{uuid.UUID(bytes=entry.uuid.uuid)}/")]


@pytest.mark.clause("CATCHUP-005", "CATCHUP-009", "AMB-69")
def test_builders_of_two_indexes_never_lose_each_others_credit(scene: Scene) -> None:
    steps = len(requests(scene.store(), catch_up(IO, "btree")))
    for at in range(steps):
        store = scene.store()
        interrupted(store, catch_up(IO, "btree"), at, lambda s=store: s.run(catch_up(IO, "bitmap")))
        state = newest(store)
        assert [recorded(state, name, scene.region) for name in ("btree", "bitmap")] == [1, 1]
        assert fragments_of(state, "btree") == fragments_of(state, "bitmap") == {0, 1}
        check_one_mem_wal_index(state)
        assert [note.event for note in store.notes].count("indexing") == 2
        assert orphans(store) == set()


@pytest.mark.clause("CATCHUP-009", "AMB-69")
def test_two_builders_of_one_index_index_each_fragment_once(scene: Scene) -> None:
    steps = len(requests(scene.store(), catch_up(IO, "btree")))
    for at in range(steps):
        store = scene.store()
        interrupted(store, catch_up(IO, "btree"), at, lambda s=store: s.run(catch_up(IO, "btree")))
        state = newest(store)
        assert len(segments(state, "btree")) == 1
        assert (recorded(state, "btree", scene.region), fragments_of(state, "btree")) == (1, {0, 1})
        assert orphans(store) == set()


def drop(store: Ground, name: str) -> None:
    """What pylance commits when it drops an index; the catch-up entry stays, as older versions of it leave it."""
    state = newest(store)
    body = transaction_pb2.Transaction.CreateIndex(removed_indices=segments(state, name))
    store.run(commit(IO, state, transaction_pb2.Transaction(create_index=body)))


def test_an_index_that_is_dropped_meanwhile_does_not_come_back(scene: Scene) -> None:
    steps = len(requests(scene.store(), catch_up(IO, "btree")))
    outcomes = []
    for at in range(steps + 1):
        store = scene.store()
        try:
            interrupted(store, catch_up(IO, "btree"), at, lambda s=store: drop(s, "btree"))
            outcomes.append("caught up")
        except (InvalidArgument, Conflict) as refused:
            outcomes.append(re.sub(r".*(no index|dropped|retryable=True).*", r"\1", str(refused)))
        if at == steps:
            drop(store, "btree")
        assert segments(newest(store), "btree") == ()
        assert orphans(store) == set()
        check_one_mem_wal_index(newest(store))
    assert list(dict.fromkeys(outcomes)) == ["no index", "dropped", "caught up"]


def forget(store: Ground, name: str) -> None:
    """Take the credit of an index back to generation 0, as in a table whose index another tool extended."""

    async def derive(state: TableState, details: IndexDetails) -> IndexDetails:
        return replace(details, catchup=tuple(replace(c, generations=()) for c in details.catchup))

    store.run(mem_wal.change(IO, derive))


def test_an_index_that_covers_the_base_is_credited_unless_it_is_dropped_meanwhile(scene: Scene) -> None:
    covering = scene.store()
    covering.run(catch_up(IO, "btree"))
    forget(covering, "btree")
    entry = segments(newest(covering), "btree")
    steps = len(requests(covering, catch_up(IO, "btree")))
    counted = []
    for at in range(steps + 1):
        store = covering.copy()
        try:
            interrupted(store, catch_up(IO, "btree"), at, lambda s=store: drop(s, "btree"))
            assert at == steps
            assert segments(newest(store), "btree") == entry
        except (InvalidArgument, Conflict):
            assert segments(newest(store), "btree") == ()
        check_one_mem_wal_index(newest(store))
        assert "indexing" not in [note.event for note in store.notes]
        counted.append(recorded(newest(store), "btree", scene.region))
    assert counted == [0] * steps + [1]


def test_a_builder_that_always_loses_gives_up_with_the_conflict(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_builder, "REBUILDS", 3)
    store, losses = scene.store(), 0

    def perform(request: Request[Any]) -> Any:
        nonlocal losses
        if isinstance(request, PutIfAbsent) and "/_versions/" in request.path:
            losses += 1
            store.run(catch_up(IO, "btree"))
            store.run(append(IO, rows(1000 + losses, 1001 + losses)))
        return store.perform(request)

    with pytest.raises(Conflict) as lost:
        run(catch_up(IO, "btree"), perform)
    assert lost.value.retryable
    assert losses == 3
    assert orphans(store) == set()


def native_commits(
    place: Path, change: Callable[[Any], None], job: Callable[[], Any], events: list[str] | None = None
) -> Any:
    """Run ``job`` on the table; ``change`` is made by pylance just before the job creates a table version."""
    done = False
    heard = [] if events is None else events

    def meanwhile(request: Request[Any]) -> None:
        nonlocal done
        if isinstance(request, PutIfAbsent) and "_versions/" in request.path and not done:
            done = True
            change(lance.dataset(str(place)))

    class Watched(LocalStore):
        def perform(self, request: Any) -> Any:
            meanwhile(request)
            return super().perform(request)

    found = drive(job(), Watched(place.parent), lambda event, fields: heard.append(event))
    assert done
    return found


def rewrite_in_place(opened: Any) -> None:
    changed = pa.table({"id": pa.array([5, 302], pa.int64()), "cat": ["changed", "changed"]})
    opened.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").execute(changed)


MEANWHILE: dict[str, tuple[Callable[[Any], None], int]] = {
    "an append": (lambda opened: opened.insert(rows(900, 905)), 1),
    "a delete": (lambda opened: opened.delete("id < 3 OR id = 301"), 1),
    "a delete of a fragment": (lambda opened: opened.delete("id >= 300"), 1),
    "an index": (lambda opened: opened.create_scalar_index("id", "BTREE", name="another"), 1),
    "a compaction": (lambda opened: opened.optimize.compact_files(), 2),
    "values rewritten": (rewrite_in_place, 2),
    "the same index": (lambda opened: opened.optimize.optimize_indices(index_names=["bitmap"]), 1),
}
"""What pylance commits meanwhile, and how often the index is built then."""


@pytest.mark.parametrize("name", MEANWHILE)
def test_pylance_commits_meanwhile_and_the_index_is_right(tmp_path: Path, name: str) -> None:
    change, builds = MEANWHILE[name]
    place = tmp_path / "t"
    table = enabled(place, ["bitmap"])
    region = flush(table, rows(298, 306, "gen1"), rows(306, 310, "gen2"))
    table.merge()
    events: list[str] = []
    native_commits(place, change, lambda: catch_up(IO, "bitmap"), events)
    assert events.count("indexing") == builds
    state = table.refresh()._state
    check_one_mem_wal_index(state)
    assert recorded(state, "bitmap", region) == 2
    opened = lance.dataset(str(place))
    for cat in ("base", "gen1", "gen2", "changed"):
        by_index = opened.scanner(filter=f"cat = '{cat}'", columns=["id"]).to_table()
        by_scan = opened.scanner(filter=f"cat = '{cat}'", columns=["id"], use_scalar_index=False).to_table()
        assert sorted(by_index.column("id").to_pylist()) == sorted(by_scan.column("id").to_pylist())
    assert "ScalarIndexQuery" in opened.scanner(filter="cat = 'gen1'").explain_plan()


@pytest.mark.clause("INDEX-001", "AMB-69")
def test_an_index_commit_of_pylance_beside_a_registration_leaves_one_mem_wal_index(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree"])
    region = flush(table, rows(300, 310))
    table.merge()

    def optimise(opened: Any) -> None:
        opened.optimize.optimize_indices(index_names=["btree"], num_indices_to_merge=1)

    registered = native_commits(place, optimise, lambda: regions.register(IO, None))
    state = table.refresh()._state
    check_one_mem_wal_index(state)
    assert recorded(state, "btree", region) == 1
    assert {registered.region_id, region} == {info.region_id for info in table.regions()}


@pytest.mark.clause("AMB-76")
def test_a_snapshot_outside_the_index_stays_readable_after_a_catch_up(scene: Scene) -> None:
    store = scene.store()
    state = newest(store)
    before = store.run(snapshot.load(IO, state))
    assert [row.region_id for row in before] == [scene.region]
    entry = state.mem_wal_entry
    assert entry is not None
    assert state.mem_wal.inline_snapshots is not None
    external = index_details.decode(entry.index_details.value, R, "")
    store.objects[f"t/{snapshot.external(b'0' * 16)}"] = state.mem_wal.inline_snapshots
    added = type(entry)()
    added.CopyFrom(entry)
    added.uuid.uuid = b"0" * 16
    added.index_details.value = index_details.encode(replace(external, inline_snapshots=None), R)
    body = transaction_pb2.Transaction.CreateIndex(new_indices=[added], removed_indices=[entry])
    store.run(commit(IO, state, transaction_pb2.Transaction(create_index=body)))
    store.run(catch_up(IO, "btree"))
    after = newest(store)
    assert after.mem_wal_entry is not None
    assert after.mem_wal_entry.uuid.uuid != b"0" * 16
    assert store.run(snapshot.load(IO, after)) == before
    assert recorded(after, "btree", scene.region) == 1


@pytest.mark.clause("AMB-76", "AMB-69")
def test_a_builder_of_an_index_that_loses_to_a_registration_keeps_the_new_regions_file(scene: Scene) -> None:
    store = scene.store()
    store.run(set_config(IO, {CONFIG_INLINE_REGIONS: "0"}))
    store.run(regions.build_snapshot(IO))
    at = [isinstance(r, PutIfAbsent) and "/_versions/" in r.path for r in requests(store, catch_up(IO, "btree"))]
    rivals: list[str] = []

    def registers() -> None:
        rivals.append(store.run(regions.register(IO, None)).region_id)

    interrupted(store, catch_up(IO, "btree"), at.index(True), registers)
    state = newest(store)
    assert {row.region_id for row in store.run(snapshot.load(IO, state))} == {scene.region, *rivals}
    assert recorded(state, "btree", scene.region) == 1


def test_a_table_without_mem_wal_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    native(tmp_path / "t", ["btree"])
    lance.dataset(str(tmp_path / "t")).insert(rows(300, 310))
    store = Ground.of(tmp_path)
    before = dict(store.objects)
    with pytest.raises(InvalidArgument, match="not enabled"):
        store.run(catch_up(IO, "btree"))
    assert store.objects == before
    assert store.notes == []


def test_progress_is_told(scene: Scene) -> None:
    store = scene.store()
    store.run(catch_up(IO, "btree"))
    events = [note.event for note in store.notes]
    assert events == ["indexing", "caught_up"]
    assert store.events("indexing")[0] == {"index": "btree", "version": newest(store).version - 1, "fragments": 1}
