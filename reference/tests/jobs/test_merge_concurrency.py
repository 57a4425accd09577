"""Any number of mergers at once, beside other commits, the collector, crashes and unanswered requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import lance
import memwal
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal.codec.data_file import Decoder
from memwal.effects import Delete, Get, Io, Protocol, PutIfAbsent, StoreRequest
from memwal.errors import AlreadyExists, ArtifactError, MemwalError, OutcomeUnknown, Throttled
from memwal.ids import RegionId
from memwal.index import mem_wal, regions
from memwal.jobs import collector
from memwal.jobs.collector import Policy
from memwal.jobs.merger import merge_region
from memwal.revisions import LITERAL, STRICT
from memwal.table import read, stored_file, write
from memwal.table.state import TableState, load, versions

from ..kit.ground import Actor, Ground
from ..kit.interleaving import orders, table_commit
from ..kit.profiles import Profile, read_as
from ..kit.tables import content, flush, left_over, newest

IO = Io("t", interpretation=STRICT)
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])

Content = dict[int, str]


class Remembered:
    """A decoder that decodes equal bytes once: the same few files are read in every order that is played."""

    _known: ClassVar[dict[Any, pa.Table]] = {}

    def __init__(self, parts: Any, size_bytes: int, path: str, **options: Any) -> None:
        self.columns, self.size_bytes = options["columns"], size_bytes
        key = (tuple(parts), tuple(self.columns))
        if key not in self._known:
            with Decoder(parts, size_bytes, path, **options) as decoder:
                self._known[key] = decoder.read()
        self._table = self._known[key]
        self.rows = self._table.num_rows

    def close(self) -> None:
        """Nothing is held."""

    def read(self, start: int, rows: int) -> pa.Table:
        return self._table.slice(start, rows)


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_file, "Decoder", Remembered)


FOLD: dict[int, Content] = {
    0: {1: "base", 2: "base", 3: "base", 4: "base"},
    1: {1: "one", 2: "base", 3: "base", 4: "base", 9: "one"},
    2: {1: "one", 2: "two", 3: "base", 4: "base", 9: "two", 10: "two"},
    3: {1: "one", 2: "two", 3: "three", 4: "three", 9: "two", 10: "two", 11: "three"},
}
"""Content of the base by merge progress."""
GENERATIONS: dict[int, Content] = {
    1: {1: "one", 9: "one"},
    2: {2: "two", 9: "two", 10: "two"},
    3: {3: "three", 4: "three", 11: "three"},
}


def rows(content: Content) -> pa.Table:
    return pa.table([list(content), list(content.values())], schema=SCHEMA)


class Scene:
    """A base of two fragments, and the generations of `GENERATIONS`, none merged."""

    def __init__(self, folder: Path, revision: str, merged: int = 0) -> None:
        table = memwal.create(folder / "t", SCHEMA, primary_key=["id"], revision=revision)
        table.base.append(rows({1: "base", 2: "base"}))
        table.base.append(rows({3: "base", 4: "base"}))
        with table.writer() as writer:
            self.region = writer.region_id
            for number, content in GENERATIONS.items():
                writer.put(rows(content))
                writer.flush()
                if number <= merged:
                    table.merge()
        self.objects = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def ground(self) -> Ground:
        return Ground(self.objects)

    def merge(self, profile: Profile = STRICT) -> Protocol[Any]:
        return merge_region(read_as(IO, profile), self.region)


@pytest.fixture(scope="module", params=[pytest.param("A", marks=pytest.mark.long), "B", "R"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"), request.param)


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Generation 3 only is not merged."""
    return Scene(tmp_path_factory.mktemp("lone"), "B", merged=2)


def check(ground: Ground, region: RegionId, progress: int = 3) -> None:
    """Every version holds the fold of the generations that it has merged; progress ascends without gaps to the end."""
    seen = []
    for version in ground.run(versions(IO)):
        state = ground.run(load(IO, version))
        if state.mem_wal_entry is None:
            continue
        seen.append(state.mem_wal.progress(region))
        if set(content(ground, state)) >= {1, 2, 3, 4}:
            assert content(ground, state) == FOLD[seen[-1]], version
    assert seen == sorted(seen)
    assert set(seen) == set(range(seen[0], progress + 1))
    assert content(ground, newest(ground)) == FOLD[progress]


@pytest.mark.clause(
    "MERGE-001", "MERGE-006", "MERGE-007", "MERGE-009", "MERGE-011", "MERGE-012", "MERGE-018", "MERGE-019", "AMB-81",
    "AMB-82", "AMB-83", "AMB-84",
)  # fmt: skip
def test_in_every_order_of_commits_two_mergers_merge_each_generation_once_and_in_order(scene: Scene) -> None:
    assert winners_of_all_orders(scene, mergers=2, merged=0) == {
        (a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)
    }


@pytest.mark.long
@pytest.mark.parametrize(("merged", "switches"), [(2, 1_000), (1, 2)], ids=["one generation", "two generations"])
@pytest.mark.clause("MERGE-001", "MERGE-009", "MERGE-018", "AMB-81", "AMB-84")
def test_in_all_orders_of_commits_three_mergers_do_the_same(merged: int, switches: int, tmp_path: Path) -> None:
    winners = winners_of_all_orders(Scene(tmp_path, "B", merged), mergers=3, merged=merged, switches_most=switches)
    assert {single for winner in winners for single in winner} == {0, 1, 2}


def winners_of_all_orders(
    scene: Scene, *, mergers: int, merged: int, switches_most: int = 1_000
) -> set[tuple[int, ...]]:
    """Which merger committed each generation, in every order of their commits; checks each order."""
    winners = set()
    for played in orders(scene.objects, [scene.merge] * mergers, switches_most=switches_most):
        assert all(isinstance(result, tuple) for result in played.results), played.results
        check(played.ground, scene.region)
        assert left_over(played.ground) == set()
        by = {m.generation: number for number, result in enumerate(played.results) for m in result}
        assert sum(map(len, played.results)) == 3 - merged
        winners.add(tuple(by[generation] for generation in range(merged + 1, 4)))
    return winners


def table_metadata(request: StoreRequest[Any]) -> bool:
    """Whether the request is for a table version or a transaction, or changes anything."""
    about = "/_versions" in request.path or "/_transactions/" in request.path
    return (about and request.path.startswith("t/_")) or isinstance(request, PutIfAbsent | Delete)


@pytest.mark.clause("MERGE-001", "MERGE-009", "MERGE-018", "AMB-81", "AMB-82", "AMB-84")
def test_mergers_that_are_left_at_any_two_requests_of_their_commits_do_no_harm(lone: Scene) -> None:
    count = 0
    for played in orders(lone.objects, [lone.merge] * 2, point=table_metadata, switches_most=2):
        check(played.ground, lone.region)
        assert left_over(played.ground) == set()
        assert sum(map(len, played.results)) == 1
        count += 1
    assert count > 100


def watched(ground: Ground, region: RegionId) -> list[int]:
    """Progress of the newest version, noted at each commit."""
    seen: list[int] = []
    inner = ground.apply

    def apply(request: StoreRequest[Any]) -> Any:
        reply = inner(request)
        if table_commit(request):
            seen.append(newest(Ground(ground.objects)).mem_wal.progress(region))
        return reply

    ground.apply = apply  # type: ignore[method-assign]
    return seen


async def append_direct(key: int) -> None:
    await write.append(IO, rows({key: "direct"}))


async def delete_direct(key: int) -> None:
    await write.delete(IO, lambda table: pc.equal(table["id"], key).to_numpy(), f"id = {key}")


async def rebuild_snapshot() -> None:
    await regions.build_snapshot(IO)


async def collect_all() -> None:
    await collector.collect(IO, Policy(retain_versions=2))


async def collect_newest() -> None:
    await collector.collect(IO, Policy(retain_versions=1))


async def configure() -> None:
    await write.set_config(IO, {"unrelated": "value"})


OTHERS: dict[str, tuple[Callable[[], Protocol[Any]], Callable[[Content], Content]]] = {
    "append": (lambda: append_direct(50), lambda c: {**c, 50: "direct"}),
    "delete of a row that is updated": (lambda: delete_direct(3), lambda c: c),
    "delete beside a row that is updated": (
        lambda: delete_direct(1), lambda c: {k: v for k, v in c.items() if k != 1}
    ),
    "snapshot": (rebuild_snapshot, lambda c: c),
    "collector": (collect_all, lambda c: c),
    "config": (configure, lambda c: c),
}  # fmt: skip


@pytest.mark.parametrize("other", list(OTHERS))
@pytest.mark.clause("MERGE-007", "MERGE-012", "MERGE-018", "AMB-83", "AMB-86", "AMB-92")
def test_another_commit_or_the_collector_at_any_request_of_a_merge_loses_nothing(lone: Scene, other: str) -> None:
    make, change = OTHERS[other]
    steps = len(requests_of(lone))
    found = []
    for at in range(steps + 1):
        ground = lone.ground()
        seen = watched(ground, lone.region)
        actor = Actor(ground, lone.merge())
        for _ in range(at):
            if actor.waiting is not None:
                actor.step()
        ground.run(make())
        assert [m.generation for m in actor.finish()] == [3]
        assert seen == sorted(seen)
        assert newest(ground).mem_wal.progress(lone.region) == 3
        found.append(content(ground, newest(ground)))
    deleted_after = {k: v for k, v in FOLD[3].items() if k != 3}
    expected = [change(FOLD[3])]
    if other == "delete of a row that is updated":  # before the merge it is no delete of what the merge brings
        expected.append(deleted_after)
        assert found == sorted(found, key=lambda c: 3 not in c)
    assert [c for c in found if c not in expected] == []


def requests_of(scene: Scene) -> list[StoreRequest[Any]]:
    ground = scene.ground()
    ground.run(scene.merge())
    return ground.asked


@pytest.mark.clause("MERGE-006", "MERGE-015", "MERGE-018", "AMB-85")
def test_a_merger_that_dies_at_any_request_leaves_all_or_nothing_and_another_finishes(scene: Scene) -> None:
    steps = len(requests_of(scene))
    left = set()
    for at in range(steps):
        ground = scene.ground()
        actor = Actor(ground, scene.merge())
        for _ in range(at):
            actor.step()
        actor._coroutine.close()
        state = newest(ground)
        progress = state.mem_wal.progress(scene.region)
        assert content(ground, state) == FOLD[progress]
        left.add(progress)
        rest = ground.run(scene.merge())
        assert [m.generation for m in rest] == list(range(progress + 1, 4))
        check(ground, scene.region)
    assert left == {0, 1, 2, 3}


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.clause("MERGE-006", "MERGE-018", "AMB-14")
def test_an_unanswered_request_of_a_merge_is_made_sure_of_and_merges_once(lone: Scene, applied: bool) -> None:
    writes = [n for n, request in enumerate(requests_of(lone)) if isinstance(request, PutIfAbsent)]
    for at in writes:
        for meanwhile in (None, append_direct):
            ground = lone.ground()
            actor = Actor(ground, lone.merge())
            for _ in range(at):
                actor.step()
            assert actor.waiting is not None
            actor.answer(OutcomeUnknown(actor.waiting.path), applied=applied)
            if meanwhile is not None:
                ground.run(meanwhile(50))
            assert [m.generation for m in actor.finish()] == [3]
            extra = {} if meanwhile is None else {50: "direct"}
            assert content(ground, newest(ground)) == {**FOLD[3], **extra}
            assert left_over(ground) == set()


@pytest.mark.clause("MERGE-006", "AMB-14")
def test_a_merge_whose_commit_stays_unanswered_says_so_and_deletes_nothing_that_may_be_committed(lone: Scene) -> None:
    for applied in (True, False):
        ground = lone.ground()
        ground.before = unanswered(ground, applied=applied)
        with pytest.raises(OutcomeUnknown):
            ground.run(lone.merge())
        ground.before = lambda request: None
        assert content(ground, newest(ground)) == FOLD[3 if applied else 2]
        ground.run(lone.merge())
        assert content(ground, newest(ground)) == FOLD[3]


@pytest.mark.clause("MERGE-006", "MERGE-018", "AMB-84")
def test_a_commit_that_landed_and_was_answered_as_taken_keeps_its_files(lone: Scene) -> None:
    ground = lone.ground()
    merger = Actor(ground, lone.merge()).until(PutIfAbsent, "/_versions/")
    assert merger.waiting is not None
    merger.answer(AlreadyExists(merger.waiting.path), applied=True)  # as a client that repeats by itself is told
    merger.finish()
    check(ground, lone.region)
    assert left_over(ground) == set()


def unanswered(ground: Ground, *, applied: bool) -> Callable[[StoreRequest[Any]], Any]:
    """Every create of a table version is answered by nothing; the first may be applied."""
    tried = []

    def fault(request: StoreRequest[Any]) -> Any:
        if not table_commit(request):
            return None
        tried.append(request)
        if applied and len(tried) == 1:
            ground.apply(request)
        return OutcomeUnknown(request.path)

    return fault


BESIDE: dict[str, Callable[[], list[Protocol[Any]]]] = {
    "writes of the base": lambda: [append_direct(50), delete_direct(1), configure()],
    "the collector": lambda: [rebuild_snapshot(), collect_all()],
}


@pytest.mark.long
@pytest.mark.parametrize("beside", list(BESIDE))
@pytest.mark.clause("MERGE-009", "AMB-92")
def test_in_random_orders_of_every_request_three_mergers_and_others_agree(scene: Scene, beside: str) -> None:
    for seed in range(20):
        chance = random.Random(seed)
        ground = scene.ground()
        seen = watched(ground, scene.region)
        actors = [Actor(ground, scene.merge()) for _ in range(3)] + [Actor(ground, o) for o in BESIDE[beside]()]
        while actors:
            actor = chance.choice(actors)
            for _ in range(chance.choice([1, 1, 2, 5, 30])):
                if actor.waiting is not None:
                    step_or_fail(actor, chance)
            if actor.waiting is None:
                actors.remove(actor)
                actor.finish()
        assert seen == sorted(seen)
        assert all(later - earlier <= 1 for earlier, later in zip([0, *seen], seen, strict=False))
        state = newest(ground)
        assert state.mem_wal.progress(scene.region) == 3
        written = {k: v for k, v in FOLD[3].items() if k != 1} | {50: "direct"}
        expected = [{1: "one", **written}, written] if beside == "writes of the base" else [FOLD[3]]
        assert content(ground, state) in expected, seed


def step_or_fail(actor: Actor[Any], chance: random.Random) -> None:
    assert actor.waiting is not None
    if chance.random() < 0.02:
        actor.answer(Throttled(actor.waiting.path), applied=False)
    elif isinstance(actor.waiting, PutIfAbsent) and chance.random() < 0.1:
        actor.answer(OutcomeUnknown(actor.waiting.path), applied=chance.random() < 0.5)
    else:
        actor.step()


# The hazards that the literal readings have.


@pytest.mark.clause("AMB-84")
def test_two_merges_of_one_new_key_insert_it_once_and_by_the_literal_reading_twice(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="B")
    with table.writer() as writer:
        writer.put(rows({9: "one"}))
        writer.flush()
    objects = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    found: dict[str, set[int]] = {"strict": set(), "literal": set()}
    for name, profile in {"strict": STRICT, "literal": LITERAL}.items():
        merge = lambda p=profile: merge_region(read_as(IO, p), writer.region_id)  # noqa: E731
        for played in orders(objects, [merge, merge]):
            state = newest(played.ground)
            found[name].add(played.ground.run(read.scan(IO, state)).num_rows)
            assert state.mem_wal.progress(writer.region_id) == 1
    assert found == {"strict": {1}, "literal": {1, 2}}


@pytest.mark.clause("MERGE-001", "AMB-81")
def test_a_merger_that_goes_on_after_a_failed_open_loses_a_generation_by_the_literal_reading_only(scene: Scene) -> None:
    for profile in (STRICT, LITERAL):
        ground = scene.ground()
        gone = {n: d for n, d in ground.objects.items() if "_gen_2/" in n}
        for name in gone:
            del ground.objects[name]
        try:
            ground.run(scene.merge(profile))
        except MemwalError:
            assert profile is STRICT
        ground.objects.update(gone)  # it was only unreachable for a while
        ground.run(scene.merge(profile))
        state = newest(ground)
        assert state.mem_wal.progress(scene.region) == 3
        lost = {key: value for key, value in FOLD[3].items() if content(ground, state).get(key) != value}
        assert lost == ({} if profile is STRICT else {2: "two", 9: "two", 10: "two"})


@pytest.mark.clause("MERGE-010", "AMB-82")
def test_a_merge_in_the_middle_of_other_commits_is_seen_in_the_newest_version(lone: Scene) -> None:
    ground = lone.ground()
    slow = Actor(ground, lone.merge()).until(PutIfAbsent, "/_versions/")
    ground.run(append_direct(50))
    ground.run(lone.merge())
    ground.run(append_direct(51))
    assert slow.finish() == ()
    assert content(ground, newest(ground)) == {**FOLD[3], 50: "direct", 51: "direct"}


@pytest.mark.clause("MERGE-011", "MERGE-018", "AMB-83")
def test_progress_that_went_back_is_never_taken_for_an_assertion_of_ours(lone: Scene) -> None:
    ground = lone.ground()
    slow = Actor(ground, lone.merge()).until(PutIfAbsent, "/_versions/")

    async def lowered(_state: TableState, details: Any) -> Any:
        return replace(details, merged=((lone.region, 1),))

    ground.run(mem_wal.change(IO, lowered))
    assert [m.generation for m in slow.finish()] == [2, 3]
    assert newest(ground).mem_wal.progress(lone.region) == 3


@pytest.mark.clause("AMB-92")
def test_a_commit_under_a_number_that_was_collected_does_not_count(lone: Scene) -> None:
    ground = lone.ground()
    slow = Actor(ground, lone.merge()).until(PutIfAbsent, "/_versions/")
    ground.run(append_direct(50))
    ground.run(append_direct(51))
    ground.run(collect_newest())
    assert [m.generation for m in slow.finish()] == [3]
    assert [fields["generation"] for fields in ground.events("merge_void")] == [3]
    assert content(ground, newest(ground)) == {**FOLD[3], 50: "direct", 51: "direct"}


@pytest.mark.clause("MERGE-011", "MERGE-014", "AMB-92")
def test_a_generation_that_was_merged_and_collected_while_it_was_opened_is_skipped(lone: Scene) -> None:
    steps = 0
    for at in range(len(requests_of(lone))):
        ground = lone.ground()
        slow = Actor(ground, lone.merge())
        for _ in range(at):
            slow.step()
        if slow.waiting is None or "_gen_3" not in slow.waiting.path:
            continue
        steps += 1
        ground.run(lone.merge())
        ground.run(collect_newest())
        assert not [name for name in ground.objects if "_gen_3/" in name]
        assert slow.finish() == ()
        assert content(ground, newest(ground)) == FOLD[3]
    assert steps == 3


@pytest.mark.clause("AMB-92")
def test_a_base_file_that_was_replaced_while_it_was_read_makes_the_merge_begin_anew(lone: Scene) -> None:
    ground = lone.ground()
    slow = Actor(ground, lone.merge()).until(Get, "t/data/")
    before = {f.files[0].path for f in newest(ground).fragments}
    ground.run(delete_direct(1))
    (gone,) = before - {f.files[0].path for f in newest(ground).fragments}
    del ground.objects[f"t/data/{gone}"]
    assert [m.generation for m in slow.finish()] == [3]
    assert content(ground, newest(ground)) == {k: v for k, v in FOLD[3].items() if k != 1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda ds: ds.add_columns(pa.field("later", pa.int8())), {"id": 1, "v": "one", "later": None}),
        (lambda ds: ds.drop_columns(["v"]), {"id": 1}),
        (lambda ds: ds.update_schema_metadata({"note": "new"}), {"id": 1, "v": "one"}),
    ],
    ids=["added", "dropped", "metadata"],
)
@pytest.mark.clause("MERGE-012", "AMB-50")
def test_a_schema_that_changes_while_a_merge_is_under_way_is_planned_for_anew(
    tmp_path: Path, change: Callable[[Any], None], expected: dict[str, object]
) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="B")
    flush(table, rows({1: "one"}))
    changed: list[str] = []

    def listener(event: str, fields: dict[str, object]) -> None:
        if event == "merge_progress" and fields["stage"] == "keys" and not changed:
            change(lance.dataset(str(tmp_path / "t")))
            changed.append(event)

    assert memwal.open(tmp_path / "t", listener=listener).merge().rows == 1
    merged = lance.dataset(str(tmp_path / "t"))
    assert merged.to_table().to_pylist() == [expected]
    named = {file.path for fragment in merged.get_fragments() for file in fragment.data_files()}
    assert {path.name for path in (tmp_path / "t/data").iterdir()} == named, "what the first plan wrote is deleted"


@pytest.mark.clause("AMB-92")
def test_a_base_file_that_is_lost_stops_the_merge_and_leaves_nothing(lone: Scene) -> None:
    ground = lone.ground()
    named = {f"t/data/{f.files[0].path}" for f in newest(ground).fragments}
    for lost in sorted(named):
        damaged = Ground({n: d for n, d in ground.objects.items() if n != lost})
        held = dict(damaged.objects)
        with pytest.raises(ArtifactError, match="FORMAT-018"):
            damaged.run(lone.merge())
        assert damaged.objects == held


@pytest.mark.clause("MERGE-007", "MERGE-012")
def test_a_retry_writes_no_row_again_and_reads_only_fragments_that_changed(lone: Scene) -> None:
    ground = lone.ground()
    slow = Actor(ground, lone.merge()).until(PutIfAbsent, "/_versions/")
    ground.run(append_direct(50))
    before = len(ground.asked)
    assert [m.generation for m in slow.finish()] == [3]
    asked = ground.asked[before:]
    written = [r.path for r in asked if isinstance(r, PutIfAbsent) and "/data/" in r.path]
    assert written == []
    data = [r.path for r in asked if r.path.startswith("t/data/")]
    appended = {f.files[0].path for f in newest(ground).fragments if f.id == 4}
    assert {path.removeprefix("t/data/") for path in data} <= appended | {data[0].removeprefix("t/data/")}
    assert len(data) == 1
    assert left_over(ground) == set()


@pytest.mark.clause("MERGE-013", "AMB-46", "AMB-83")
def test_mergers_of_one_generation_on_one_base_prepare_the_same_rows_and_deletions(scene: Scene) -> None:
    prepared = []
    for rolls in range(2):
        ground = scene.ground()
        for _ in range(rolls):
            ground.run(IO.random_hex(32))
        before = set(ground.objects)
        Actor(ground, scene.merge()).until(PutIfAbsent, "t/_versions/")
        made = {n: d for n, d in ground.objects.items() if n not in before}
        prepared.append(sorted(d for n, d in made.items() if n.startswith(("t/data/", "t/_deletions/"))))
        assert len(prepared[-1]) == 2
    assert prepared[0] == prepared[1]


# The examples of appendix 2, with the numbers of the text.


@pytest.fixture(scope="module")
def appendix(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], RegionId]:
    """Progress 5, generations 6 and 7 listed."""
    folder = tmp_path_factory.mktemp("appendix")
    table = memwal.create(folder / "t", SCHEMA, primary_key=["id"], revision="B")
    with table.writer() as writer:
        for number in range(1, 6):
            writer.put(rows({number: f"gen{number}"}))
            writer.flush()
        table.merge()
        writer.put(rows({5: "gen6", 6: "gen6"}))
        writer.flush()
        writer.put(rows({6: "gen7", 7: "gen7"}))
        writer.flush()
    objects = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return objects, writer.region_id


SEVEN = {1: "gen1", 2: "gen2", 3: "gen3", 4: "gen4", 5: "gen6", 6: "gen7", 7: "gen7"}


@pytest.mark.clause("MERGE-010", "MERGE-011", "MERGE-014", "MERGE-016")
def test_example_1_the_second_merger_of_6_conflicts_aborts_reloads_and_continues_with_7(
    appendix: tuple[dict[str, bytes], RegionId],
) -> None:
    objects, region = appendix
    ground = Ground(objects)
    assert newest(ground).mem_wal.progress(region) == 5
    b = Actor(ground, merge_region(IO, region)).until(PutIfAbsent, "t/_versions/")
    a = Actor(ground, merge_region(IO, region)).until(PutIfAbsent, "t/_versions/")
    version = newest(ground).version
    a.step()  # A commits 6 and is slow from here on
    assert newest(ground).mem_wal.progress(region) == 6
    before = len(ground.asked)
    merged_by_b = b.finish()
    assert [m.generation for m in merged_by_b] == [7]
    asked = [(type(r).__name__, r.path) for r in ground.asked[before:]]
    taken = f"t/_versions/{2**64 - 1 - (version + 1):020d}.manifest"
    assert asked[:2] == [("PutIfAbsent", taken), ("Get", taken)]
    assert ground.events("merge_skipped") == [{"region": region, "generation": 6}]
    reloaded = [path for kind, path in asked[2:] if kind in ("List", "Get", "Head")]
    assert reloaded.index("t/_versions") < next(n for n, path in enumerate(reloaded) if "/manifest" in path)
    assert not [path for _, path in asked if "_gen_6/" in path]
    assert [m.generation for m in a.finish()] == [6]
    assert newest(ground).mem_wal.progress(region) == 7
    assert content(ground, newest(ground)) == SEVEN


@pytest.mark.clause("MERGE-015", "MERGE-017")
def test_example_2_after_a_crash_behind_the_commit_of_6_the_next_merger_skips_6_and_commits_7(
    appendix: tuple[dict[str, bytes], RegionId],
) -> None:
    objects, region = appendix
    ground = Ground(objects)
    a = Actor(ground, merge_region(IO, region)).until(PutIfAbsent, "t/_versions/")
    a.step()
    a._coroutine.close()
    before = len(ground.asked)
    assert [m.generation for m in ground.run(merge_region(IO, region))] == [7]
    assert not [r.path for r in ground.asked[before:] if "_gen_6/" in r.path]
    assert newest(ground).mem_wal.progress(region) == 7
    assert content(ground, newest(ground)) == SEVEN
