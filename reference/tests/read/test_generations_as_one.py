"""What is asked of all generations at once, since they are kept, is what asking one after another gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.read import together
from memwal.read.indexes_above import OfGenerations
from memwal.read.keys_above import KeysAbove
from memwal.read.merging import Deduplicate
from memwal.read.neighbours import Neighbours
from memwal.table import read
from memwal.table.late import APART_ROWS

KEY = {"lance-schema:unenforced-primary-key": "true"}
ROWS, DIMENSION, PARTITIONS = 400, 8, 6
REGION = "0b5b9b0c-6c1b-4d09-8a2e-1f6f3c6a0001"
OFTEN = 8
"""So many reads of small generations pay for asking them as one."""

FILTERS = (
    "n = 7", "n IN (3, 9, 200)", "n > 3 AND n <= 6", "n < -1", "n BETWEEN 8 AND 2", "n IS NULL", "n IS NULL OR n = 4",
    "s = 's5'", "s >= 's37' AND s < 's4'", "f = 2.5", "f > 3.0", "f = 0.0", "n = 7 AND s = 's7'", "n = 1 OR f < 0.5",
)  # fmt: skip


def rows(keys: np.ndarray, draw: np.random.Generator) -> pa.Table:
    count = len(keys)
    numbers = draw.integers(0, 12, count)
    fractions = draw.choice([-0.0, 0.0, 0.5, 2.5, 7.0, np.nan], count)
    vectors = pa.array(draw.normal(size=count * DIMENSION).astype(np.float32))
    columns = {
        "id": pa.array(keys),
        "n": pa.array(numbers, mask=draw.random(count) < 0.2),
        "s": pa.array([f"s{number}" for number in draw.integers(0, 50, count)]),
        "f": pa.array(fractions),
        "v": pa.FixedSizeListArray.from_arrays(vectors, DIMENSION),
    }
    fields = [pa.field(name, column.type, name != "id") for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema([fields[0].with_metadata(KEY), *fields[1:]]))


@pytest.fixture(scope="module", params=["IVF_PQ"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with an index over each column, and generations in two regions: with few, all and superseded rows."""
    draw, place = np.random.default_rng(4), str(tmp_path_factory.mktemp("built") / "t")
    base = lance.write_dataset(rows(np.arange(ROWS), draw), place, data_storage_version="2.1")
    for column in "nsf":
        base.create_scalar_index(column, "BTREE", name=f"by_{column}")
    more = {"num_sub_vectors": 2} if request.param == "IVF_PQ" else {}
    base.create_index("v", request.param, name="by_v", metric="l2", num_partitions=PARTITIONS, **more)
    indexes = ["by_n", "by_s", "by_f", "by_v"]
    table = memwal.enable(place, revision="R", spec=memwal.bucket("b", "id", 2), maintained_indexes=indexes)
    for turn in range(5):
        batch = rows(draw.choice(2 * ROWS, 30 if turn else 1, replace=False), draw)
        buckets = table.region_values(batch).column("b").to_numpy()
        for bucket in sorted(set(buckets)):
            with table.writer(values={"b": bucket}, background=False) as writer:
                own = batch.filter(pa.array(buckets == bucket))
                writer.put(own)
                writer.put(own.slice(0, 3))
                writer.delete(own.slice(0, 1).select(["id"]))
                writer.flush()
    return place


def in_order(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.clause("PLAN-011", "PLAN-033")
def test_a_filter_finds_what_each_generation_by_itself_has(built: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, forgetful, told = memwal.open(built), memwal.open(built, remember_bytes=0), OfGenerations.told
    asked = list[int]()

    async def telling(generations: OfGenerations, leaf: object) -> object:
        found = await told(generations, leaf)
        asked.append(len(found))
        return found

    monkeypatch.setattr(OfGenerations, "told", telling)
    for filter_ in FILTERS:
        expected = in_order(forgetful.scan(filter=filter_))
        for _ in range(OFTEN):
            assert in_order(kept.scan(filter=filter_)) == expected, filter_
        assert asked[-1] >= 9, "all generations that have rows"


@pytest.mark.clause("PLAN-021", "PLAN-011")
@pytest.mark.parametrize("built", ["IVF_PQ", "IVF_SQ"], indirect=True)
@pytest.mark.parametrize("refine_factor", [None, 3])
def test_a_vector_search_finds_what_each_generation_by_itself_has(
    built: str, monkeypatch: pytest.MonkeyPatch, refine_factor: int | None
) -> None:
    kept, forgetful, glance = memwal.open(built), memwal.open(built, remember_bytes=0), Neighbours.glance
    draw, known = np.random.default_rng(8), list[bool]()

    def glancing(source: Neighbours) -> tuple[int, float] | None:
        known.append((found := glance(source)) is not None)
        return found

    monkeypatch.setattr(Neighbours, "glance", glancing)
    for nprobes in (1, 2, PARTITIONS):
        for k in (1, 5, 60):
            for _ in range(3):
                vector = draw.normal(size=DIMENSION)
                told, expected = (
                    table.search(vector, "v", k, nprobes=nprobes, refine_factor=refine_factor)
                    for table in (kept, forgetful)
                )
                assert told.column("id").to_pylist() == expected.column("id").to_pylist(), (nprobes, k)
                assert np.allclose(told.column("_distance"), expected.column("_distance"))
    assert any(known) == (refine_factor is None)


@pytest.mark.clause("PLAN-033")
def test_a_key_in_two_regions_is_the_newest_of_each(tmp_path: Path) -> None:
    draw, place = np.random.default_rng(6), str(tmp_path / "t")
    base = lance.write_dataset(rows(np.arange(ROWS), draw), place, data_storage_version="2.1")
    base.create_scalar_index("n", "BTREE", name="by_n")
    table = memwal.enable(place, revision="R", maintained_indexes=["by_n"])
    regions = [REGION, "f7b1a6de-3a52-4d0e-9d0b-6b7f5d8a0002"]
    for _ in range(3):
        for region in regions:
            with table.writer(region, background=False) as writer:
                writer.put(rows(np.arange(20), draw))  # in the base and in both regions
                writer.flush()
    kept, forgetful = memwal.open(place), memwal.open(place, remember_bytes=0)
    for number in range(12):
        expected = in_order(forgetful.scan(filter=f"n = {number}"))
        for _ in range(OFTEN):
            assert in_order(kept.scan(filter=f"n = {number}")) == expected


@pytest.mark.clause("PLAN-033")
def test_rows_that_are_taken_often_of_a_larger_generation_stay_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, place = np.random.default_rng(7), str(tmp_path / "t")
    count = 2 * APART_ROWS
    base = lance.write_dataset(rows(np.arange(ROWS), draw), place, data_storage_version="2.1")
    base.create_scalar_index("n", "BTREE", name="by_n")
    table = memwal.enable(place, revision="R", maintained_indexes=["by_n"])
    with table.writer(REGION, background=False) as writer:
        written = rows(np.arange(count), draw)
        writer.put(written.set_column(1, written.schema.field("n"), pa.array(np.arange(count) // 4)))
        writer.delete(pa.table({"id": [9, 4_000]}, schema=pa.schema([written.schema.field("id")])))
        writer.flush()
    kept, forgetful, taken = memwal.open(place), memwal.open(place, remember_bytes=0), list[int]()
    take = read.take

    async def taking(*arguments: Any) -> pa.Table:
        taken.append(1)
        return await take(*arguments)

    monkeypatch.setattr(read, "take", taking)
    for number in (2, 1_000, 3_000, 2, 1_000, 3_000, 2, 1_000, 3_000, 2, 1_000, 3_000):
        taken.clear()
        told = in_order(kept.scan(filter=f"n = {number}"))
        last = len(taken)
        assert told == in_order(forgetful.scan(filter=f"n = {number}"))
        assert len(told) >= 3
    assert last == 0, "its rows are decoded by now"


UNINDEXED = (
    "n = 7",
    "n = 7 OR f > 3.0",
    "n IS NULL",
    "n + 1 = 8",
    "s LIKE 's3%' AND n < 4",
    "id = 5",
    "id > 9000 AND n = 7",
)


@pytest.mark.clause("PLAN-012", "PLAN-014", "PLAN-015", "AMB-99", "AMB-105")
@pytest.mark.parametrize("revision", ["A", "R"])
@pytest.mark.parametrize("generation_rows", [40, APART_ROWS + 500], ids=["small", "large"])
def test_a_filter_without_an_index_finds_what_comparing_all_keys_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generation_rows: int, revision: str
) -> None:
    """Also of keys that the base has twice, and of keys that two regions have."""
    draw, place, count = np.random.default_rng(8), str(tmp_path / "t"), 2 * APART_ROWS
    lance.write_dataset(rows(np.arange(count), draw), place, data_storage_version="2.1")
    table = memwal.enable(place, revision=revision)
    lance.write_dataset(rows(np.arange(0, count, 50), draw), place, mode="append")
    known, by_known = list[bool](), Deduplicate._by_known

    def noting(plan: Deduplicate, keys: KeysAbove) -> Any:
        known.append(True)
        return by_known(plan, keys)

    monkeypatch.setattr(Deduplicate, "_by_known", noting)
    for turn in range(2):
        for region in (REGION, "f7b1a6de-3a52-4d0e-9d0b-6b7f5d8a0002"):
            with table.writer(region, background=False) as writer:
                writer.put(rows(draw.choice(count + 900, generation_rows), draw))
                if revision == "R":
                    writer.delete(pa.table({"id": draw.choice(count, 9)}, schema=pa.schema([table.schema.field("id")])))
                writer.put(rows(draw.choice(count + 900, 30), draw))
                writer.flush()
        kept, forgetful = memwal.open(place), memwal.open(place, remember_bytes=0)
        known.clear()
        for each in UNINDEXED * 2:
            for columns in (["id", "n", "s"], ["s"]):
                told = [one.scan(columns=columns, filter=each) for one in (kept, forgetful)]
                assert told[0].num_rows or each != "n = 7"
                by = [(name, "ascending") for name in columns]
                assert told[0].sort_by(by).equals(told[1].sort_by(by)), (each, turn, columns)
        assert len(known) >= 2 * len(UNINDEXED), "most reads know which rows are superseded"
        with kept.writer(REGION, background=False) as writer:  # what is in memory is compared by its keys
            writer.put(rows(draw.choice(count, 40), draw))
            told = [in_order(each.scan(filter="n = 7", writers=[writer])) for each in (kept, forgetful)]
            assert told[0] == told[1]
            writer.flush()


@pytest.mark.clause("PLAN-026")
def test_keys_that_are_too_many_to_keep_are_compared_anew_by_each_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, place = np.random.default_rng(9), str(tmp_path / "t")
    lance.write_dataset(rows(np.arange(ROWS), draw), place, data_storage_version="2.1")
    table = memwal.enable(place, revision="R")
    with table.writer(REGION, background=False) as writer:
        writer.put(rows(np.arange(50), draw))
        writer.flush()
    made, keys_of = list[int](), KeysAbove.__init__

    def making(made_of: KeysAbove, **parts: Any) -> None:
        made.append(1)
        keys_of(made_of, **parts)

    monkeypatch.setattr(KeysAbove, "__init__", making)
    found = list[list[str]]()
    for most in (49, 50):
        monkeypatch.setattr(together, "_ROWS_MOST", most)
        kept = memwal.open(place)
        found += [in_order(kept.scan(filter="n = 7")) for _ in range(4)]
        assert len(made) == (most == 50)
    assert found == found[:1] * 8
