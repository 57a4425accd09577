"""One commit for the next generations of several regions: what stays as it is for one, and what a group may not do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.effects import Io, Protocol, PutIfAbsent, StoreRequest
from memwal.errors import ArtifactError, OutcomeUnknown, Unmergeable
from memwal.ids import RegionId
from memwal.index.opening import region_of
from memwal.index.regions import known
from memwal.jobs import merge_group, merger
from memwal.jobs.merger import merge_region, merge_regions
from memwal.region.opening import open_writer
from memwal.table.marks import merged_marks
from memwal.table.owners import named_owner
from memwal.table.state import TableState, latest

from ..kit.ground import Actor, Ground
from ..kit.interleaving import orders
from ..kit.tables import IO, content, history, left_over, newest

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
REGIONS = 3


def rows(*keys: int, v: str) -> pa.Table:
    return pa.table([pa.array(keys, pa.int64()), [v] * len(keys)], schema=SCHEMA)


class Scene:
    """A base of two fragments, and two generations of each of three regions, none merged.

    The first generation of a region has two keys of the base, the second one of them and a new key.
    """

    def __init__(self, folder: Path, revision: str = "B") -> None:
        spec = memwal.bucket("b", ["id"], REGIONS)
        table = memwal.create(folder / "t", SCHEMA, primary_key=["id"], revision=revision, spec=spec)
        bucket = table.region_values(rows(*range(60), v=""))["b"].to_pylist()
        self.keys = [[key for key in range(60) if bucket[key] == value][:3] for value in range(REGIONS)]
        known = [key for own in self.keys for key in own[:2]]
        table.base.append(rows(*known[:3], v="base"))
        table.base.append(rows(*known[3:], v="base"))
        self.regions: list[RegionId] = []
        for value, own in enumerate(self.keys):
            with table.writer(values={"b": value}, background=False) as writer:
                self.regions.append(RegionId(writer.region_id))
                writer.put(rows(own[0], own[1], v=f"{value}.1"))
                writer.flush()
                writer.put(rows(own[1], own[2], v=f"{value}.2"))
                writer.flush()
        self.objects = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def fold(self, progress: Sequence[int]) -> dict[int, str]:
        """The base's content for a progress of each region."""
        found: dict[int, str] = {}
        for value, (own, done) in enumerate(zip(self.keys, progress, strict=True)):
            found |= dict.fromkeys(own[:2], "base")
            found |= {own[0]: f"{value}.1", own[1]: f"{value}.1"} if done > 0 else {}
            found |= {own[1]: f"{value}.2", own[2]: f"{value}.2"} if done > 1 else {}
        return found

    def together(self, *values: int, commit_every: int = 100) -> Protocol[Any]:
        """A merger of the regions of these buckets, of all if none are given."""
        wanted = [self.regions[value] for value in values or range(REGIONS)]
        return merge_regions(IO, wanted, commit_every=commit_every)

    def progress(self, state: TableState) -> list[int]:
        return [state.mem_wal.progress(region) for region in self.regions]

    def check(self, ground: Ground) -> list[list[int]]:
        """Every version is the fold of what it says it has merged, none skips a generation; returns what they say."""
        seen = []
        for state in history(ground):
            found = content(ground, state)
            if len(found) < 2 * REGIONS:
                continue  # the base was not there yet
            seen.append(self.progress(state))
            assert found == self.fold(seen[-1]), state.version
        for before, after in zip(seen, seen[1:], strict=False):
            assert all(0 <= b - a <= 1 for a, b in zip(before, after, strict=True)), (before, after)
        return [each for n, each in enumerate(seen) if not n or each != seen[n - 1]]


@pytest.fixture(scope="module", params=["A", "B", "R"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"), request.param)


@pytest.fixture(scope="module")
def of_b(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


@pytest.mark.clause("MERGE-001", "MERGE-006", "AMB-150")
@pytest.mark.parametrize(
    ("commit_every", "expected"),
    [
        (100, [[0, 0, 0], [1, 1, 1], [2, 2, 2]]),
        (2, [[0, 0, 0], [1, 1, 0], [2, 2, 0], [2, 2, 1], [2, 2, 2]]),
        (1, [[0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 1, 0], [2, 2, 0], [2, 2, 1], [2, 2, 2]]),
    ],
)
def test_a_commit_carries_the_next_generation_of_so_many_regions_and_one_fragment(
    scene: Scene, commit_every: int, expected: list[list[int]]
) -> None:
    ground = Ground(scene.objects)
    before = len(newest(ground).fragments)
    done, failed = ground.run(scene.together(commit_every=commit_every))
    assert not failed
    assert scene.check(ground) == expected
    assert {(merged.region_id, merged.generation) for merged in done} == {(r, g) for r in scene.regions for g in (1, 2)}
    made = len(newest(ground).fragments) - before
    assert made <= len(expected) - 1  # fragments of the base whose rows were all replaced are gone
    assert len({merged.commit for merged in done}) == len(expected) - 1


def table_commit_or_manifest(request: StoreRequest[Any]) -> bool:
    return isinstance(request, PutIfAbsent) and "/_versions/" in request.path


@pytest.mark.clause("MERGE-009", "MERGE-011", "MERGE-012", "MERGE-018", "AMB-82", "AMB-84", "AMB-150")
@pytest.mark.parametrize("other", ["a group of all", "a group of two", "one region"])
def test_in_every_order_of_commits_a_group_and_another_merger_merge_each_generation_once(
    of_b: Scene, other: str
) -> None:
    second = {
        "a group of all": lambda: of_b.together(),
        "a group of two": lambda: of_b.together(1, 2),
        "one region": lambda: merge_region(IO, of_b.regions[1]),
    }[other]
    count = 0
    for played in orders(of_b.objects, [of_b.together, second], point=table_commit_or_manifest):
        count += 1
        seen = of_b.check(played.ground)
        assert seen[-1] == [2, 2, 2]
        done = [*played.results[0][0], *(played.results[1] if other == "one region" else played.results[1][0])]
        assert sorted((merged.region_id, merged.generation) for merged in done) == sorted(
            (region, generation) for region in of_b.regions for generation in (1, 2)
        )
        assert left_over(played.ground) == set()
    assert count > 5


@pytest.mark.clause("MERGE-011", "AMB-150")
def test_a_generation_that_another_merged_first_leaves_the_group_and_the_rest_is_one_commit(of_b: Scene) -> None:
    ground = Ground(of_b.objects)
    group = Actor(ground, of_b.together()).until(PutIfAbsent, "t/_versions/")
    ground.run(merge_region(IO, of_b.regions[1], until=1))  # type: ignore[arg-type]
    done, failed = group.finish()
    assert not failed
    assert of_b.check(ground) == [[0, 0, 0], [0, 1, 0], [1, 2, 1], [2, 2, 2]]
    assert ground.events("merge_skipped") == [{"region": of_b.regions[1], "generation": 1}]
    assert len(done) == 5


@pytest.mark.clause("MERGE-006", "MERGE-015", "AMB-85", "AMB-150")
def test_a_group_merger_that_dies_at_any_request_leaves_all_or_nothing_and_another_finishes(of_b: Scene) -> None:
    ground = Ground(of_b.objects)
    ground.run(of_b.together())
    left = set()
    for at in range(len(ground.asked)):
        ground = Ground(of_b.objects)
        actor = Actor(ground, of_b.together())
        for _ in range(at):
            actor.step()
        actor._coroutine.close()
        left.add(tuple(of_b.progress(newest(ground))))
        ground.run(of_b.together())
        assert of_b.check(ground)[-1] == [2, 2, 2]
    assert left == {(0, 0, 0), (1, 1, 1), (2, 2, 2)}


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.clause("MERGE-018", "AMB-14", "AMB-150")
def test_an_unanswered_request_of_a_group_is_made_sure_of(of_b: Scene, applied: bool) -> None:
    ground = Ground(of_b.objects)
    ground.run(of_b.together())
    for at in [n for n, request in enumerate(ground.asked) if isinstance(request, PutIfAbsent)]:
        ground = Ground(of_b.objects)
        actor = Actor(ground, of_b.together())
        for _ in range(at):
            actor.step()
        assert actor.waiting is not None
        actor.answer(OutcomeUnknown(actor.waiting.path), applied=applied)
        done, failed = actor.finish()
        assert (len(done), failed) == (6, {})
        assert of_b.check(ground) == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]


@pytest.mark.clause("MERGE-001", "AMB-81", "AMB-92", "AMB-150")
def test_a_region_with_a_damaged_generation_stops_and_the_others_share_their_commits(of_b: Scene) -> None:
    damaged = next(name for name in of_b.objects if of_b.regions[1] in name and "_gen_1/data/" in name)
    ground = Ground({**of_b.objects, damaged: b"no lance file"})
    _, failed = ground.run(of_b.together())
    assert list(failed) == [of_b.regions[1]]
    assert isinstance(failed[of_b.regions[1]], ArtifactError)
    assert of_b.check(ground) == [[0, 0, 0], [1, 0, 1], [2, 0, 2]]


@pytest.mark.clause("AMB-50", "AMB-150")
def test_a_generation_that_does_not_fit_is_found_among_the_others(tmp_path: Path) -> None:
    """NULLs of a column that has none since are found when the rows are written, which all of a group are at once."""
    scene = Scene(tmp_path)
    table = memwal.open(tmp_path / "t")
    with table.writer(values={"b": 1}, background=False) as writer:
        writer.put(pa.table([[scene.keys[1][0]], pa.array([None], pa.string())], schema=SCHEMA))
        writer.flush()
    objects = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    ground = Ground(objects)

    async def without_nulls(io: Io) -> TableState:
        """The newest version, as if its column had no NULLs."""
        state = await latest(io)
        for each in state.manifest.message.fields:
            each.nullable = each.nullable and each.name != "v"
        return state

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merger, "latest", without_nulls)
        done, failed = ground.run(scene.together())
    assert list(failed) == [scene.regions[1]]
    assert isinstance(failed[scene.regions[1]], Unmergeable)
    assert scene.regions[1] in str(failed[scene.regions[1]])
    assert len(done) == 6
    assert scene.progress(newest(ground)) == [2, 2, 2]


@pytest.mark.clause("MERGE-002", "AMB-150")
def test_regions_with_a_key_in_common_are_merged_one_after_the_other(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for value in (0, 1):
        memwal.open(tmp_path / "t").merge(scene.regions[value])
    key, found = scene.keys[0][0], scene.regions[:2]

    async def put_anywhere(region: RegionId, value: str) -> None:
        """As an implementation does that takes another hash of the key."""
        state = await latest(IO)
        (row,) = (row for row in await known(IO, state) if row.region_id == region)
        writer = await open_writer(region_of(IO, state, row))
        await writer.put(rows(key, v=value))
        await writer.flush()

    misplacing = Ground({str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()})
    for region, value in zip(found, "ab", strict=True):
        misplacing.run(put_anywhere(region, value))
    for order in (found, found[::-1]):
        ground = Ground(misplacing.objects)
        done, failed = ground.run(merge_regions(IO, order))
        assert not failed
        assert [merged.region_id for merged in done] == order
        assert done[0].commit < done[1].commit
        assert content(ground, newest(ground))[key] == ("b" if order == found else "a")


@pytest.mark.clause("AMB-56", "AMB-150")
def test_manual_regions_share_no_commit(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    for key in range(3):
        with table.writer(str(table.register_region()), background=False) as writer:
            writer.put(rows(key, v="a"))
            writer.flush()
    report = table.merge()
    assert (len(report.merged), report.commits) == (3, 3)
    with table.writer(str(table.register_region()), background=False) as writer:
        writer.put(rows(1, v="b"))
        writer.flush()
    with pytest.raises(Unmergeable, match="two manual regions"):
        table.merge()


@pytest.mark.clause("AMB-150")
def test_a_group_is_no_larger_than_its_bytes(of_b: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_group, "GROUP_BYTES", 0)
    ground = Ground(of_b.objects)
    ground.run(of_b.together())
    assert len(of_b.check(ground)) == 7


@pytest.mark.clause("AMB-149", "AMB-150")
def test_the_marks_of_all_generations_of_a_group_are_recorded_in_one_commit(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], spec=memwal.bucket("b", ["id"], 2))
    bucket = table.region_values(rows(*range(20), v=""))["b"].to_pylist()
    found = []
    for value in (0, 1):
        with table.writer(values={"b": value}, background=False) as writer:
            found.append(RegionId(writer.region_id))
            writer.put(rows(bucket.index(value), v="a"))
            writer.finish("app", 7, 0)
            writer.flush()
    before = table.version
    assert table.merge().commits == 1
    assert table.version == before + 2
    assert [[mark.batch for mark in merged_marks(table._state, region)] for region in found] == [[7], [7]]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 11), st.booleans()), max_size=30), st.integers(1, 4))
def test_whatever_is_written_a_merge_in_groups_gives_the_same_table_as_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bool]], commit_every: int
) -> None:
    ground = Ground()
    table = memwal.create(
        "t", SCHEMA, primary_key=["id"], spec=memwal.bucket("b", ["id"], REGIONS), store=ground, revision="R"
    )
    bucket = table.region_values(rows(*range(12), v=""))["b"].to_pylist()
    writers: dict[int, Any] = {}
    expected: dict[int, str] = {}
    for number, (kind, key, full) in enumerate(steps):
        value = bucket[key]
        if value not in writers:
            writers[value] = table.writer(values={"b": value}, background=False)
        if kind == 0:
            writers[value].delete(rows(key, v="").select(["id"]))
            expected.pop(key, None)
        else:
            writers[value].put(rows(key, v=str(number)))
            expected[key] = str(number)
        if full:
            writers[value].flush()
    for writer in writers.values():
        writer.flush()
        writer.close()
    regions = [RegionId(writer.region_id) for writer in writers.values()]
    alone, grouped = Ground(ground.objects), Ground(ground.objects)
    one, _ = alone.run(merge_regions(IO, regions, commit_every=1))
    several, failed = grouped.run(merge_regions(IO, regions, commit_every=commit_every))
    assert not failed
    assert content(grouped, newest(grouped)) == content(alone, newest(alone)) == expected
    assert sorted((m.region_id, m.generation, m.rows, m.deleted) for m in one) == sorted(
        (m.region_id, m.generation, m.rows, m.deleted) for m in several
    )


@pytest.mark.parametrize(("most", "shared", "own_files"), [(32, 3, [0, 2]), (3, 6, [0]), (2, 10, [])])
def test_a_large_generation_of_a_group_has_a_file_of_its_own_that_names_its_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, shared: int, own_files: list[int]
) -> None:
    monkeypatch.setattr(merge_group, "OWN_FILE_ROWS", 3)
    monkeypatch.setattr(merge_group, "OWN_FILES", most)
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], spec=memwal.bucket("b", ["id"], 4))
    bucket = table.region_values(rows(*range(60), v=""))["b"].to_pylist()
    regions, expected = [], {}
    for value, count in enumerate([4, 2, 3, 1]):
        own = [key for key in range(60) if bucket[key] == value][:count]
        expected |= dict.fromkeys(own, f"of {value}")
        with table.writer(values={"b": value}, background=False) as writer:
            regions.append(writer.region_id)
            writer.put(rows(*own, v=f"of {value}"))
            writer.flush()
    assert table.merge().commits == 1
    found = [(named_owner(fragment), fragment.physical_rows) for fragment in table._state.fragments]
    own_rows = [(regions[number], [4, 2, 3, 1][number]) for number in own_files]
    assert sorted(found, key=str) == sorted([(None, shared), *own_rows], key=str)
    assert {row["id"]: row["v"] for row in table.scan().to_pylist()} == expected
