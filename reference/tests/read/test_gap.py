"""The indexed read plan while an index lags: appendix 4, and what is scanned because nothing else answers for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.drive import drive
from memwal.effects import Io
from memwal.errors import EngineBug
from memwal.ids import FragmentId, Generation, RegionId
from memwal.read.gap import GapGeneration, IndexedPlan, check, plan
from memwal.read.scan import View, eventual_view, strong_view
from memwal.revisions import LITERAL, STRICT, Interpretation
from memwal.stores.local import LocalStore
from memwal.table.coverage import fragment_ids
from memwal.table.origins import merge_origins
from memwal.table.state import load, versions

from ..kit.catch_up_scenes import CREATE, enabled, rows
from ..kit.profiles import read_as
from ..kit.tables import flush

IO = Io("t", interpretation=STRICT)


class Place:
    """A table ``t`` under a folder, and protocol code on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, LocalStore(folder)

    @property
    def table(self) -> memwal.Table:
        return memwal.open(self.folder / "t")

    def generation(self, region: str, number: int) -> Path:
        (info,) = (info for info in self.table.regions() if info.region_id == region)
        assert info.manifest is not None
        (path,) = (g.path for g in info.manifest.flushed if g.generation == number)
        return self.folder / "t" / "_mem_wal" / region / path

    def view(self, *, live: bool = True) -> View:
        if live:
            return drive(strong_view(IO), self.store)
        return drive(eventual_view(IO, self.table._state), self.store)

    def plan(self, name: str = "IVF_FLAT", view: View | None = None, profile: Interpretation = STRICT) -> IndexedPlan:
        return drive(plan(read_as(IO, profile), view or self.view(), name), self.store)


def index_generations(place: Place, region: str, kind: str, *numbers: int) -> None:
    """Give generations an index of the base's name, and for vectors with its centroids, where they have none."""
    for number in numbers:
        opened = lance.dataset(str(place.generation(region, number)))
        if kind in {i.name for i in opened.describe_indices()}:
            continue
        if kind != "IVF_FLAT":
            CREATE[kind](opened)
            continue
        base = lance.dataset(str(place.folder / "t")).stats.index_stats(kind)["indices"][0]["centroids"]
        centroids = pa.FixedSizeListArray.from_arrays(pa.array([x for c in base for x in c], pa.float32()), 4)
        opened.create_index("vector", "IVF_FLAT", name=kind, num_partitions=len(base), ivf_centroids=centroids)


def gens(*numbers: int) -> list[pa.Table]:
    """Rows of generations: generation g has new keys from ``1000 + 10 * g`` on and replaces the row of key g."""
    return [pa.concat_tables([rows(g, g + 1, f"gen{g}"), rows(1000 + 10 * g, 1005 + 10 * g)]) for g in numbers]


def lagging(folder: Path, kind: str, *, covered: int, merged: int, flushed: int = 0, revision: str = "B") -> str:
    """A table whose index covers the generations up to ``covered`` of those ``merged``; then ``flushed`` ones and a
    write in memory. Merged generation g is fragment g. Returns the region."""
    table = enabled(folder / "t", [kind], revision)
    place = Place(folder)
    region = flush(table, *gens(*range(1, covered + 1)))
    table.merge()
    table.catch_up()
    flush(table, *gens(*range(covered + 1, merged + 1)), region=region)
    table.merge()
    flush(table, *gens(*range(merged + 1, merged + flushed + 1)), region=region)
    index_generations(place, region, kind, *range(1, merged + flushed + 1))
    return region


@pytest.mark.clause("CATCHUP-004", "CATCHUP-010", "CATCHUP-011", "AMB-113")
@pytest.mark.parametrize("kind", ["IVF_FLAT", "btree"])
def test_appendix_4_serves_1_to_3_from_the_base_index_4_and_5_from_their_own_and_6_from_memory(
    tmp_path: Path, kind: str
) -> None:
    region = RegionId(lagging(tmp_path, kind, covered=3, merged=4, flushed=1))
    place = Place(tmp_path)
    writer = place.table.writer(region)
    writer.put(rows(2000, 2001))
    planned = place.plan(kind)
    (found,) = planned.regions
    assert (found.caught_up, found.merged) == (3, 4)
    assert planned.indexed == {0, 1, 2, 3}
    folder = place.generation(region, 4).name
    assert found.gap == (GapGeneration(generation=Generation(4), path=folder, fragments=frozenset({FragmentId(4)})),)
    assert [g.generation for g in found.flushed] == [5]
    assert found.memory == (6,)
    assert planned.scanned == frozenset()
    memory = drive(plan(IO, place.view(), kind, memory=[writer.memory()]), place.store)
    assert memory.region(region).memory == (6,)
    early = writer.memory()
    early = replace(early, tables=((Generation(5), rows(0, 1)), *early.tables))
    switched = drive(plan(IO, place.view(), kind, memory=[early]), place.store).region(region)
    assert [g.generation for g in switched.flushed] + list(switched.memory) == [5, 6]
    place.table.catch_up()
    caught_up = place.plan(kind)
    assert caught_up.indexed == {0, 1, 2, 3, 4}
    assert caught_up.region(region).gap == ()
    assert caught_up.region(region).caught_up == 4


@pytest.mark.clause("CATCHUP-012", "AMB-113")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
@pytest.mark.parametrize("lag", [1, 2, 5])
def test_nothing_is_scanned_however_far_the_index_lags(tmp_path: Path, lag: int, revision: str) -> None:
    region = RegionId(lagging(tmp_path, "btree", covered=1, merged=1 + lag, revision=revision))
    planned = Place(tmp_path).plan("btree")
    assert planned.scanned == frozenset()
    assert [g.generation for g in planned.region(region).gap] == list(range(2, 2 + lag))
    assert [sorted(g.fragments) for g in planned.region(region).gap] == [[g] for g in range(2, 2 + lag)]


def collected(place: Place, region: str) -> None:
    """The generation is gone, as after a collection, and is listed still, as in a view from before."""
    shutil.rmtree(place.generation(region, 3))


def without_index(place: Place, region: str) -> None:
    lance.dataset(str(place.generation(region, 3))).drop_index("btree")


def with_half_an_index(place: Place, region: str) -> None:
    """Rows that came into the generation's table after its index was built."""
    lance.dataset(str(place.generation(region, 3))).insert(rows(5000, 5001))


def transaction_gone(place: Place, region: str) -> None:
    """What merged generation 3 cannot be told any more: transactions of the versions are gone."""
    for path in (place.folder / "t" / "_transactions").iterdir():
        path.unlink()


def versions_expired(place: Place, region: str) -> None:
    place.table.base.append(rows(6000, 6001))
    found = drive(versions(IO), place.store)
    for version in found[:-1]:
        (place.folder / "t" / "_versions" / f"{2**64 - 1 - version:020d}.manifest").unlink()


def rewritten(place: Place, region: str) -> None:
    """Values of the merged rows are changed in place in the base; the generation still has the old ones."""
    changed = pa.table({"id": pa.array([1030], pa.int64()), "cat": ["changed"]})
    update = lance.dataset(str(place.folder / "t")).merge_insert("id").when_matched_update_all()
    update.write_mode("rewrite_columns").execute(changed)


def compacted(place: Place, region: str) -> None:
    lance.dataset(str(place.folder / "t")).optimize.compact_files()


@pytest.mark.clause("CATCHUP-010", "AMB-48", "AMB-113")
@pytest.mark.parametrize(
    ("damage", "scanned"),
    [
        (collected, {3}),
        (without_index, {3}),
        (with_half_an_index, {3}),
        (transaction_gone, {2, 3}),
        (versions_expired, {2, 3, 4}),
        (rewritten, {3}),
    ],
)
def test_what_no_index_of_a_generation_answers_for_is_scanned(
    tmp_path: Path, damage: Callable[[Place, str], None], scanned: set[int]
) -> None:
    region = RegionId(lagging(tmp_path, "btree", covered=1, merged=3))
    place = Place(tmp_path)
    assert place.plan("btree").scanned == frozenset()
    damage(place, region)
    planned = place.plan("btree")
    assert planned.scanned == scanned
    assert planned.indexed == {0, 1}
    assert {f for g in planned.region(region).gap for f in g.fragments} == {2, 3} - scanned


@pytest.mark.clause("AMB-113")
def test_direct_appends_and_compacted_fragments_are_scanned(tmp_path: Path) -> None:
    region = RegionId(lagging(tmp_path, "btree", covered=1, merged=2))
    place = Place(tmp_path)
    place.table.base.append(rows(7000, 7003))
    planned = place.plan("btree")
    assert planned.scanned == {3}
    assert [sorted(g.fragments) for g in planned.region(region).gap] == [[2]]
    compacted(place, region)
    after = place.plan("btree")
    assert after.region(region).gap == ()
    assert after.scanned | after.indexed == fragment_ids(place.table._state)
    assert after.scanned


def test_fragments_that_are_gone_are_in_no_part_of_the_plan(tmp_path: Path) -> None:
    region = RegionId(lagging(tmp_path, "btree", covered=2, merged=4))
    place = Place(tmp_path)
    place.table.base.delete("id = 1 OR (id >= 1010 AND id < 1020) OR id = 3 OR (id >= 1030 AND id < 1040)")
    planned = place.plan("btree")
    assert planned.indexed == {0, 2}
    assert planned.scanned == frozenset()
    assert [sorted(g.fragments) for g in planned.region(region).gap] == [[4]]


@pytest.mark.clause("AMB-51")
def test_vectors_are_compared_by_their_model_where_a_generation_does_not_record_its_origin(tmp_path: Path) -> None:
    region = RegionId(lagging(tmp_path, "IVF_FLAT", covered=1, merged=2))
    place = Place(tmp_path)
    lance.dataset(str(place.generation(region, 2))).delete_config_keys(["memwal.inherited.IVF_FLAT"])
    assert place.plan().scanned == frozenset()
    lance.dataset(str(place.generation(region, 2))).create_index(
        "vector", "IVF_FLAT", name="IVF_FLAT", num_partitions=1, replace=True
    )
    assert place.plan().scanned == {2}


def test_a_generation_whose_text_is_split_otherwise_is_not_used(tmp_path: Path) -> None:
    region = RegionId(lagging(tmp_path, "inverted", covered=1, merged=2))
    place = Place(tmp_path)
    assert place.plan("inverted").scanned == frozenset()
    opened = lance.dataset(str(place.generation(region, 2)))
    opened.create_scalar_index("text", "INVERTED", name="inverted", base_tokenizer="whitespace", replace=True)
    assert place.plan("inverted").scanned == {2}


@pytest.mark.clause("AMB-113")
def test_each_region_has_a_gap_of_its_own(tmp_path: Path) -> None:
    first = RegionId(lagging(tmp_path, "btree", covered=2, merged=3))
    place = Place(tmp_path)
    other = place.table.register_region()
    second = RegionId(flush(place.table, rows(3000, 3005), rows(3005, 3010), region=other))
    place.table.merge(second)
    index_generations(place, second, "btree", 1, 2)
    lance.dataset(str(place.generation(second, 2))).drop_index("btree")
    planned = place.plan("btree")
    assert [(r.region_id, r.caught_up, r.merged) for r in planned.regions] == sorted([(first, 2, 3), (second, 0, 2)])
    assert [sorted(g.fragments) for g in planned.region(first).gap] == [[3]]
    assert [sorted(g.fragments) for g in planned.region(second).gap] == [[4]]
    assert planned.scanned == {5}
    with pytest.raises(memwal.InvalidArgument, match="no region"):
        planned.region(RegionId("00000000-0000-4000-8000-000000000000"))


@pytest.mark.clause("AMB-71", "AMB-78")
def test_an_overstated_credit_makes_a_scan_and_never_a_hole(tmp_path: Path) -> None:
    region = RegionId(lagging(tmp_path, "btree", covered=1, merged=2))
    place = Place(tmp_path)
    literal = place.plan("btree", profile=LITERAL)
    assert (literal.region(region).caught_up, literal.scanned) == (1, frozenset())
    lance.dataset(str(tmp_path / "t")).drop_index("btree")
    lance.dataset(str(tmp_path / "t")).create_scalar_index("id", "BTREE", name="btree", train=False)
    absent = place.plan("btree")
    assert place.table._state.mem_wal.catchup == ()
    assert absent.region(region).caught_up == 0
    assert absent.scanned == {0}
    assert [sorted(g.fragments) for g in absent.region(region).gap] == [[1], [2]]
    believed = place.plan("btree", profile=LITERAL)
    assert believed.region(region).caught_up == 2
    assert believed.scanned == {0, 1, 2}


def test_a_pinned_view_has_no_memory_and_an_old_version_its_own_gap(tmp_path: Path) -> None:
    region = RegionId(lagging(tmp_path, "btree", covered=1, merged=2))
    place = Place(tmp_path)
    place.table.snapshot()
    pinned = place.view(live=False)
    place.table.catch_up()
    planned = place.plan("btree", pinned)
    assert planned.region(region).memory == ()
    assert [g.generation for g in planned.region(region).gap] == [2]
    assert planned.version == pinned.base.version
    assert place.plan("btree").region(region).gap == ()


def test_an_index_that_the_base_lacks_has_no_plan(tmp_path: Path) -> None:
    lagging(tmp_path, "btree", covered=1, merged=1)
    with pytest.raises(memwal.InvalidArgument, match=r"no index 'bitmap'; choose one of btree"):
        Place(tmp_path).plan("bitmap")


@pytest.mark.clause("AMB-113")
def test_the_origin_of_a_fragment_is_told_by_the_merge_that_made_it(tmp_path: Path) -> None:
    region = RegionId(lagging(tmp_path, "btree", covered=1, merged=3))
    place = Place(tmp_path)
    place.table.base.append(rows(7000, 7003))
    state = place.table._state
    found = drive(merge_origins(IO, state, fragment_ids(state)), place.store)
    assert found == {g: frozenset({(region, g)}) for g in (1, 2, 3)}
    early = drive(load(IO, state.version), place.store)
    assert drive(merge_origins(IO, early, [FragmentId(2)]), place.store) == {2: frozenset({(region, 2)})}


@pytest.mark.clause("CATCHUP-010")
def test_a_plan_that_misses_a_fragment_or_reads_one_twice_is_a_bug(tmp_path: Path) -> None:
    region = RegionId(lagging(tmp_path, "btree", covered=1, merged=2))
    place = Place(tmp_path)
    base = place.table._state
    good = place.plan("btree")
    check(good, base)
    (source,) = good.region(region).gap
    outside = replace(good.regions[0], gap=(replace(source, generation=Generation(1)),))
    for bad in (
        replace(good, indexed=good.indexed - {0}),
        replace(good, scanned=frozenset({FragmentId(0)})),
        replace(good, scanned=frozenset({FragmentId(2)})),
        replace(good, scanned=frozenset({FragmentId(77)})),
        replace(good, regions=(outside,)),
    ):
        with pytest.raises(EngineBug):
            check(bad, base)
