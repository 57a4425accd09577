"""Tables that were compacted with the remapping of indexes put off: those are used, followed and extended."""

from __future__ import annotations

import struct
import uuid
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from memwal.codec import table_manifest
from memwal.codec.pb.lance import table_pb2
from memwal.codec.table_manifest import TableManifest
from memwal.drive import drive
from memwal.effects import Io, Protocol
from memwal.errors import ArtifactError
from memwal.jobs.index_builder import catch_up
from memwal.read import fragments as indexed_fragments
from memwal.revisions import STRICT
from memwal.stores import open_store
from memwal.table import compaction, coverage, reuse
from memwal.table.state import TableState, latest

from ..kit.catch_up_scenes import interrupted, requests
from ..kit.ground import Ground
from ..kit.tables import IO, flush
from .legacy.older import make
from .legacy.test_older_tables import IDS, added, in_order, row, unpacked

VERSIONS = make.DEFERRED
INDEXES = ("by_id", "by_n", "by_s", "by_v")
each_version = pytest.mark.parametrize("version", VERSIONS)


def newest(place: str) -> TableState:
    store, root = open_store(place)
    return drive(latest(Io(root, interpretation=STRICT)), store)


def edited(place: str, change: Any) -> None:
    """Change the newest manifest of a table in place: ``change`` gets the message and the index entries."""
    path = min(Path(place, "_versions").glob("*.manifest"))
    manifest = table_manifest.decode(path.read_bytes(), str(path))
    indices = list(manifest.indices)
    change(manifest.message, indices)
    path.write_bytes(table_manifest.encode(TableManifest(message=manifest.message, indices=tuple(indices))))


def entry_of(indices: Any) -> table_pb2.IndexMetadata:
    return next(filter(reuse.is_reuse, indices))


def put_aside(place: str) -> None:
    """Move the content of the reuse index into a file of its own, behind four other bytes."""

    def change(message: table_pb2.Manifest, indices: list[table_pb2.IndexMetadata]) -> None:
        entry = entry_of(indices)
        content = reuse.details(entry, "").inline.SerializeToString()
        folder = Path(place, "_indices", str(uuid.UUID(bytes=entry.uuid.uuid)))
        folder.mkdir(parents=True)
        (folder / "details.binpb").write_bytes(b"else" + content)
        file = table_pb2.ExternalFile(path="details.binpb", offset=4, size=len(content))
        entry.index_details.value = reuse.Details(external=file).SerializeToString()

    edited(place, change)


def by_index(place: str, i: int) -> set[int]:
    """Fragments in which the btree over the key has a key."""
    store, root = open_store(place)
    io = Io(root, interpretation=STRICT)
    return set(drive(indexed_fragments.holding(io, drive(latest(io), store), {"id": {i}}, {"id"}), store))


def nearest(place: str, i: int) -> int:
    vector = [float(i), i + 0.5, -float(i), 1.0]
    found: int = memwal.open(place).search(vector, "v", 1, index="by_v").column("id")[0].as_py()
    return found


def matching(place: str, word: str) -> list[int]:
    return sorted(memwal.open(place).search_text(word, "s", 100, index="by_s").column("id").to_pylist())


@each_version
@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.clause("TXN-054", "AMB-78")
def test_an_index_answers_for_the_rows_that_were_moved_after_it_was_built(
    tmp_path: Path, version: str, aside: bool
) -> None:
    place = unpacked(tmp_path, version, "deferred")
    if aside:
        put_aside(place)
    memwal.enable(place)
    state = newest(place)
    assert [fragment.id for fragment in state.fragments] == [5, 6]
    assert [coverage.covered(state, name) for name in INDEXES] == [{6}, {6}, {6}, {6}]
    assert [by_index(place, i) for i in (0, 44, 72, 80)] == [{5, 6}, {5, 6}, {5, 6}, {5, 6}]
    assert [by_index(place, i) for i in (3, 61, 200)] == [{5}, {5}, {5}]
    assert [nearest(place, i) for i in (0, 19, 30, 46, 67, 72, 83, 94)] == [0, 19, 30, 46, 67, 72, 83, 94]
    assert matching(place, "word1") == [i for i in sorted(IDS["deferred"]) if i % 3 == 1 and i % 5 != 2]


@each_version
@pytest.mark.clause("CATCHUP-006", "GC-002", "TXN-054")
def test_indexes_catch_up_after_merges_and_generations_are_collected(tmp_path: Path, version: str) -> None:
    place = unpacked(tmp_path, version, "deferred")
    put_aside(place)
    (content,) = Path(place, "_indices").glob("*/details.binpb")
    table = memwal.enable(place, maintained_indexes=INDEXES)
    region = table.register_region()
    expected = {i: row(version, "deferred", i) for i in IDS["deferred"]}
    for ids in [(0, 44, 1000), (67, 1001)]:
        flush(table, added("deferred", *ids), region=region)
        memwal.open(place).merge()
        expected |= {each["id"]: each for each in added("deferred", *ids).to_pylist()}
    done = memwal.open(place).catch_up().indexes
    assert {each.index_name: each.credited for each in done} == dict.fromkeys(INDEXES, ((region, 2),))
    state = newest(place)
    assert [coverage.uncovered(state, name) for name in INDEXES] == [set(), set(), set(), set()]
    native = lance.dataset(place)
    for i in expected:
        assert native.to_table(filter=f"id = {i}").to_pylist() == [expected[i]]
        assert nearest(place, i) == i
    assert matching(place, "word1") == [i for i in sorted(expected) if i % 3 == 1 and i % 5 != 2]
    generations = "_mem_wal/*/*_gen_*/data/*"
    assert len(list(Path(place).glob(generations))) == 2
    memwal.open(place).gc(retain_versions=1, orphan_age_ms=0)
    assert not list(Path(place).glob(generations))
    assert content.exists()
    memwal.base_table(place).compact()
    assert in_order(memwal.open(place).scan()) == [expected[i] for i in sorted(expected)]
    memwal.open(place).catch_up()
    assert [nearest(place, i) for i in expected] == list(expected)
    assert memwal.verify(place).findings == ()


@each_version
@pytest.mark.clause("TXN-041", "TXN-054")
def test_values_that_are_replaced_under_a_moved_index_are_not_answered_by_it(tmp_path: Path, version: str) -> None:
    place = unpacked(tmp_path, version, "deferred")
    memwal.enable(place)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([7.0] * 4 * 49, pa.float32()), 4)
    memwal.base_table(place).recompute(["v"], lambda t: pa.table({"v": vectors.slice(0, t.num_rows)}))
    state = newest(place)
    assert (coverage.covered(state, "by_v"), coverage.covered(state, "by_n")) == (set(), {6})
    found = memwal.open(place).search([7.0, 7.0, 7.0, 7.0], "v", 49, index="by_v")
    assert found.column("_distance").to_pylist() == [0.0] * 49


def address(fragment: int, *offsets: int) -> list[int]:
    return [(fragment << 32) + offset for offset in offsets]


def entry(*groups: tuple[list[int], list[int], list[tuple[int, int]]]) -> table_pb2.IndexMetadata:
    """A reuse index with a version for each group: kept addresses, old fragments, new ones with their rows."""
    versions = [
        {
            "dataset_version": 9 - number,
            "groups": [
                {
                    "changed_row_addrs": pyroaring.BitMap64(kept).serialize(),
                    "old_fragments": [{"id": i} for i in old],
                    "new_fragments": [{"id": i, "physical_rows": rows} for i, rows in new],
                }
            ],
        }
        for number, (kept, old, new) in enumerate(groups)
    ]
    found = table_pb2.IndexMetadata(name="__lance_frag_reuse")
    found.index_details.type_url = "/lance.table.FragmentReuseIndexDetails"
    found.index_details.value = reuse.Details(inline={"versions": versions}).SerializeToString()
    return found


@pytest.mark.clause("TXN-054")
def test_addresses_follow_every_rewrite_in_the_order_of_versions() -> None:
    second = (address(4, 0, 2), [4], [(9, 2)])
    first = (address(0, 1, 3) + address(2, 0), [0, 2], [(3, 1), (4, 2)])
    third_without_rows: tuple[list[int], list[int], list[tuple[int, int]]] = ([], [7], [])
    moves = reuse.of([entry(third_without_rows, ([], [11], [])), entry((first[0], [0, 2], [(3, 1), (4, 2)]))], "p")
    found = reuse.addresses(np.array(address(0, 0, 1, 3) + address(2, 0, 1) + address(1, 5), np.uint64), moves)
    gone = 2**64 - 1
    assert found.tolist() == [gone, *address(3, 0), *address(4, 0, 1), gone, *address(1, 5)]
    with pytest.raises(ArtifactError, match=r"rewritten fragments keep 2 rows, and .* have 3.*\[TXN-054\]"):
        reuse.of([entry((second[0], [4], [(9, 3)]))], "p")


@pytest.mark.clause("TXN-054")
@pytest.mark.parametrize(
    ("named", "covered"),
    [({0, 2}, {3, 9}), ({0, 2, 5}, {3, 9, 5}), ({0}, set()), ({0, 5}, {5}), ({5}, {5}), ({4}, {9}), (set(), set())],
)
def test_an_index_covers_what_became_of_groups_that_it_covered_whole(named: set[int], covered: set[int]) -> None:
    later = (address(4, 0), [4], [(9, 1)])
    earlier = (address(0, 1) + address(2, 0), [0, 2], [(3, 1), (4, 1)])
    moves = reuse.of([entry(later, earlier)], "p")
    assert reuse.fragments(frozenset(named), moves) == covered


@pytest.mark.parametrize("content", [b"", b"\x01", struct.pack("<QI", 1, 0)])
def test_a_damaged_reuse_index_is_named(content: bytes) -> None:
    damaged = entry((address(0, 1), [0], [(1, 1)]))
    details = reuse.details(damaged, "p")
    details.inline.versions[0].groups[0].changed_row_addrs = content
    damaged.index_details.value = details.SerializeToString()
    with pytest.raises(ArtifactError, match="TXN-054"):
        reuse.of([damaged], "p")


def compacted(tmp_path: Path, names: tuple[str, ...]) -> tuple[str, dict[int, dict[str, Any]]]:
    """A table of small fragments with deleted rows and indexes, which this engine compacted twice; its rows."""
    place = str(tmp_path / "t")
    for first in range(0, 80, 10):
        lance.write_dataset(make.rows(range(first, first + 10)), place, mode="append")
    table = lance.dataset(place)
    for name, kind in (("by_id", "BTREE"), ("by_n", "BITMAP"), ("by_s", "INVERTED")):
        if name in names:
            table.create_scalar_index(name.removeprefix("by_"), kind, name=name)
    if "by_v" in names:
        table.create_index("v", "IVF_FLAT", name="by_v", num_partitions=2)
    memwal.base_table(place).delete("id IN (3, 4, 31)")
    numbers = [fragment.id for fragment in newest(place).fragments]
    memwal.base_table(place).compact(numbers[:3], defer_index_remap=True)
    memwal.base_table(place).delete("id BETWEEN 60 AND 66")
    memwal.base_table(place).compact(defer_index_remap=True)
    gone = {3, 4, 31, *range(60, 67)}
    return place, {i: make.row(i) for i in range(80) if i not in gone}


def answers(place: str, expected: dict[int, dict[str, Any]], names: tuple[str, ...]) -> None:
    """Every row is found by every index, here and by the native reader, and no other."""
    native = lance.dataset(place)
    assert in_order(memwal.open(place).get({"id": range(85)})) == [expected[i] for i in sorted(expected)]
    for i in range(85):
        assert native.to_table(filter=f"id = {i}").to_pylist() == ([expected[i]] if i in expected else [])
        if "by_v" in names:
            assert nearest(place, i) == min(expected, key=lambda key: abs(key - i))
    for word in ("word0", "word1", "word2"):
        assert matching(place, word) == sorted(i for i in expected if (expected[i]["s"] or "").startswith(word))


@pytest.mark.clause("TXN-030", "TXN-031", "TXN-054")
def test_indexes_cover_what_this_engine_compacts_and_pylance_agrees(tmp_path: Path) -> None:
    place, expected = compacted(tmp_path, INDEXES)
    state = newest(place)
    (fragment,) = state.fragments
    assert fragment.physical_rows == len(expected)
    assert [coverage.uncovered(state, name) for name in INDEXES] == [set()] * 4
    assert [lance.dataset(place).stats.index_stats(name)["num_unindexed_rows"] for name in INDEXES] == [0] * 4
    assert by_index(place, 5) == {fragment.id}
    memwal.enable(place)
    answers(place, expected, INDEXES)
    lance.dataset(place).optimize.optimize_indices()
    lance.write_dataset(make.rows([83]), place, mode="append")
    lance.dataset(place).optimize.optimize_indices()
    answers(place, expected | {83: make.row(83)}, INDEXES)
    assert memwal.verify(place).findings == ()


@pytest.mark.clause("CATCHUP-006", "TXN-054")
@pytest.mark.parametrize("names", [INDEXES[:3], INDEXES])
def test_the_reuse_index_goes_when_every_index_was_built_on_a_later_version(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    place, expected = compacted(tmp_path, names)
    assert len(reuse.details(entry_of(newest(place).manifest.indices), "").inline.versions) == 2
    table = memwal.enable(place, maintained_indexes=names)
    flush(table, make.rows([5, 83]))
    memwal.open(place).merge()
    memwal.open(place).catch_up()
    state = newest(place)
    # The first part of an index over vectors stays as it was built, so that what it has to follow stays too.
    assert [reuse.is_reuse(entry) for entry in state.manifest.indices].count(True) == (names == INDEXES)
    assert [coverage.uncovered(state, name) for name in names] == [set()] * len(names)
    answers(place, expected | {83: make.row(83)}, names)


@pytest.mark.clause("CATCHUP-009", "TXN-031", "TXN-054")
@pytest.mark.parametrize("rewrite_first", [False, True])
def test_a_rewrite_at_any_moment_of_a_catch_up_and_a_catch_up_at_any_moment_of_a_rewrite_lose_no_row_of_the_index(
    tmp_path: Path, rewrite_first: bool
) -> None:
    place = tmp_path / "made" / "t"
    table = memwal.create(place, make.rows(range(20)), primary_key=["id"])
    lance.dataset(str(place)).create_scalar_index("id", "BTREE", name="by_id")
    region = flush(table, make.rows([5, 30]))
    memwal.open(place).merge(compact_over=0)
    memwal.open(place).catch_up("by_id")
    memwal.base_table(place).compact(defer_index_remap=True)
    flush(table, make.rows([6, 31]), region=region)
    memwal.open(place).merge(compact_over=0)
    memwal.base_table(place).delete("id = 7")
    first, expected = Ground.of(tmp_path / "made"), [*range(7), *range(8, 20), 30, 31]

    def building(_: Ground) -> Protocol[Any]:
        return catch_up(IO, "by_id")

    def rewriting(_: Ground) -> Protocol[Any]:
        return compaction.compact(IO, defer_index_remap=True)

    one, other = (rewriting, building) if rewrite_first else (building, rewriting)
    count = len(requests(first, one(first)))
    assert count > 5
    for at in range(count):
        ground = first.copy()
        interrupted(ground, one(ground), at, lambda ground=ground: ground.run(other(ground)))  # type: ignore[misc]
        copied = tmp_path / str(at)
        for name, data in ground.objects.items():
            (copied / name).parent.mkdir(parents=True, exist_ok=True)
            (copied / name).write_bytes(data)
        native = lance.dataset(str(copied / "t"))
        assert native.stats.index_stats("by_id")["num_unindexed_rows"] == 0, at
        assert sorted(native.to_table(filter="id >= 0").column("id").to_pylist()) == expected, at
        found = [[i for i in range(40) if by_index(str(copied / "t"), i)]]
        assert found == [expected], at


@pytest.mark.clause("TXN-031", "TXN-054")
def test_what_different_parts_of_indexes_cover_is_not_mixed(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    for first in (0, 10):
        lance.write_dataset(make.rows(range(first, first + 10)), place, mode="append")
    lance.dataset(place).create_scalar_index("id", "BTREE", name="by_id")
    for first in (20, 30):
        lance.write_dataset(make.rows(range(first, first + 10)), place, mode="append")
    done = memwal.base_table(place).compact(defer_index_remap=True)
    state = newest(place)
    assert ([fragment.id for fragment in state.fragments], done.version) == ([4, 5], state.version)
    assert coverage.covered(state, "by_id") == {4}
    lance.dataset(place).optimize.optimize_indices()
    memwal.base_table(place).compact(defer_index_remap=True)
    (fragment,) = newest(place).fragments
    assert (fragment.physical_rows, coverage.covered(newest(place), "by_id")) == (40, {fragment.id})
    assert [lance.dataset(place).to_table(filter=f"id = {i}").num_rows for i in range(41)] == [*[1] * 40, 0]


@pytest.mark.clause("TXN-031")
def test_after_a_compaction_of_this_engine_one_of_pylance_loses_no_row_of_an_index(tmp_path: Path) -> None:
    """Where it is told nothing else: pylance 14.0 loses them after a compaction whose remapping was put off."""
    place = str(tmp_path / "t")
    for first in range(0, 40, 10):
        lance.write_dataset(make.rows(range(first, first + 10)), place, mode="append")
    lance.dataset(place).create_scalar_index("id", "BTREE", name="by_id")
    memwal.base_table(place).compact([0, 1])
    lance.dataset(place).optimize.compact_files()
    assert [lance.dataset(place).to_table(filter=f"id = {i}").num_rows for i in range(41)] == [*[1] * 40, 0]
