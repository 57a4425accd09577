"""Maintained indexes as users see them: what searches find, what plans say, what pylance opens and answers."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, Literal

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.ids import Generation

from ..kit.maintained_scene import CENTROIDS, VECTOR_COLUMNS, create_vectors, rows, vector
from ..kit.tables import flush

NEW = [9.0, 9.0, 9.0, 9.0]
"""A vector that no row has and that is far from all."""


@pytest.fixture(scope="module")
def indexed_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of pylance with rows -300 to -1 and six indexes; MemWAL is not enabled."""
    found = tmp_path_factory.mktemp("indexed") / "t"
    dataset = lance.write_dataset(rows(range(-300, 0)), str(found), data_storage_version="2.1")
    for column, kind, name in (
        ("price", "BTREE", "btree"),
        ("tag", "BITMAP", "bitmap"),
        ("text", "INVERTED", "inverted"),
    ):
        dataset.create_scalar_index(column, kind, name=name)
    for name, column in VECTOR_COLUMNS.items():
        create_vectors(dataset, column, f"IVF_{name.upper()}", name)
    return found


@pytest.fixture
def place(tmp_path: Path, indexed_table: Path) -> str:
    return str(shutil.copytree(indexed_table, tmp_path / "t"))


def generations(place: str) -> dict[int, str]:
    """Number -> folder of each generation."""
    found = (str(path) for path in Path(place, "_mem_wal").glob("*/*_gen_*"))
    return {int(path.rpartition("_")[2]): path for path in found}


def by_price(dataset: Any, key: int) -> list[int]:
    """Ids that pylance finds through the index over prices, which are half of the keys."""
    scanner = dataset.scanner(filter=f"price = {key / 2}", columns=["id"])
    assert "ScalarIndexQuery" in scanner.explain_plan()
    return list(scanner.to_table().column("id").to_pylist())


def nearest(dataset: Any, column: str, query: list[float]) -> dict[int, float]:
    """Id and distance of the row that pylance finds through the index over ``column``."""
    asked = {"column": column, "q": pa.array(query, pa.float32()), "k": 1, "nprobes": len(CENTROIDS)}
    scanner = dataset.scanner(nearest=asked, columns=["id", "_distance"])
    assert "ANNIvf" in scanner.explain_plan()
    found = scanner.to_table()
    return dict(zip(found.column("id").to_pylist(), found.column("_distance").to_pylist(), strict=True))


def by_word(dataset: Any, word: str) -> list[int]:
    return list(dataset.to_table(full_text_query=word, columns=["id"]).column("id").to_pylist())


def via(told: str) -> list[str]:
    """Source and way of each nearest search or text search of a plan, in its order."""
    found = re.findall(r"(?:KNN|FTS)Exec: (?:region [0-9a-f]{8}|(base_table))\[gen=(-?\d+)\].*?via=([^\[]*?)  \[", told)
    return [f"{source or 'region'} {generation}: {way}" for source, generation, way in found]


@pytest.mark.clause("FLUSH-007", "FLUSH-017", "FLUSH-022", "FLUSH-023", "GEN-018")
def test_pylance_finds_each_row_of_a_generation_through_the_indexes_that_the_memtable_kept(place: str) -> None:
    table = memwal.enable(place, revision="A", maintained_indexes=["btree", "flat", "inverted"])
    crashed = table.writer(background=False)
    crashed.put(rows([5]))
    crashed.put(rows([6, 7]), durable=False)
    crashed.put(rows([8]))  # its entry holds two writes
    with table.writer(crashed.region_id, background=False) as writer:
        writer.put(rows([1]), durable=False)
        writer.put(rows([2, 3]))
        writer.put(rows([4]))
        told = table.explain(vector=vector(8), column="vf", writers=[writer], analyse=True)
        assert via(told) == ["base_table -1: index", "region 1: memory index"]
        assert "[8 candidates" in told
        for key, answer in ((8, "positive"), (9, "negative")):  # replayed keys are in the filter, too
            told = table.explain(keys=pa.table({"id": [key]}), writers=[writer], analyse=True)
            assert re.search(rf"BloomFilterGuardExec: .*\[{answer}\]", told)
        writer.flush()
        writer.put(rows([10]))
        writer.put(rows([11, 12]))
        writer.flush()
    for number, entries in {1: [[5], [6, 7, 8], [1, 2, 3], [4]], 2: [[10], [11, 12]]}.items():
        dataset = lance.dataset(generations(place)[number])
        assert [part.to_table().column("id").to_pylist() for part in dataset.get_fragments()] == entries
        for key in (key for entry in entries for key in entry):
            assert by_price(dataset, key) == [key]
            assert nearest(dataset, "vf", vector(key)) == {key: 0.0}
            assert by_word(dataset, f"word{key}") == [key]
        kinds = {index.name: index.index_type for index in dataset.describe_indices()}
        assert kinds == {"btree": "BTree", "flat": "IVF_FLAT", "inverted": "Inverted"}
        assert len(os.listdir(Path(generations(place)[number], "_indices"))) == 3
        assert Path(generations(place)[number], "bloom_filter.bin").stat().st_size > 0


@pytest.mark.clause("WRITER-002", "WRITER-023", "INDEX-003")
def test_a_writer_goes_by_the_indexes_and_the_spec_that_the_mem_wal_index_names_when_it_opens(place: str) -> None:
    stale = memwal.enable(place, revision="B", maintained_indexes=["btree"])
    other = memwal.open(place)
    other.maintain(["flat"])
    made = other.add_spec(memwal.bucket("bucket", ["id"], 2))
    lance.dataset(place).update_config({"memwal.maintained_indexes": "pq", "maintained_indexes": "pq"})
    wanted = stale.refresh().region_values(rows([1])).column("bucket")[0].as_py()
    stale = memwal.open(place)
    other.maintain(["sq"])
    with stale.writer(values={"bucket": wanted}, background=False) as writer:
        with pytest.raises(memwal.InvalidArgument, match="region value"):
            writer.put(rows(range(1, 9)))
        writer.put(rows([1]))
        writer.flush()
    assert [index.name for index in lance.dataset(generations(place)[1]).describe_indices()] == ["sq"]
    assert len(lance.dataset(place).describe_indices()) == 7  # six over columns, and the MemWAL index
    details = memwal.open(place)
    assert (details.spec, details.specs) == (made, (made,))


@pytest.mark.clause("WRITER-025")
def test_distances_of_a_generation_are_those_that_the_base_index_gives_the_same_vector(place: str) -> None:
    table = memwal.enable(place, revision="B", maintained_indexes=["flat", "pq", "sq"])
    flush(table, rows([1], vectors=[vector(-5)]))
    flushed, merged_to = lance.dataset(generations(place)[1]), lance.dataset(place)
    near = [x + 0.01 for x in vector(-5)]
    for name, column in VECTOR_COLUMNS.items():
        ours, theirs = (dataset.stats.index_stats(name) for dataset in (flushed, merged_to))
        assert ours["index_type"] == theirs["index_type"]
        (mine,), (yours,) = ours["indices"], theirs["indices"]
        assert mine["centroids"] == yours["centroids"] == CENTROIDS.tolist()
        assert mine["sub_index"] == yours["sub_index"]
        ((key, here),), ((like, there),) = (
            nearest(flushed, column, near).items(),
            nearest(merged_to, column, near).items(),
        )
        assert (key, like) == (1, -5)
        assert here == pytest.approx(there, abs=1e-6)


@pytest.mark.clause("WRITER-026")
def test_a_generation_cuts_text_as_the_index_of_the_base_does(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    table = memwal.create(place, pa.table([[0], ["Old foxes-run"]], schema=schema), primary_key=["id"])
    options = {"base_tokenizer": "whitespace", "stem": False, "lower_case": False, "remove_stop_words": False}
    lance.dataset(place).create_scalar_index("text", "INVERTED", name="words", **options)
    table.refresh().maintain(["words"])
    with table.writer(background=False) as writer:
        writer.put(pa.table([[1], ["The foxes-run Far"]], schema=schema))

        def found(word: str) -> list[int]:
            return sorted(table.search_text(word, "text", columns=["id"], writers=[writer]).column("id").to_pylist())

        for _ in ("in memory", "flushed"):
            assert [found(word) for word in ("foxes-run", "foxes", "Far", "far", "The")] == [[0, 1], [], [1], [], [1]]
            writer.flush()
    flushed = lance.dataset(generations(place)[1])
    params = [dataset.stats.index_stats("words")["indices"][0]["params"] for dataset in (flushed, lance.dataset(place))]
    assert params[0] == params[1]
    assert by_word(flushed, "foxes-run") == [1]


@pytest.mark.clause(
    "WRITER-003", "WRITER-004", "WRITER-005", "WRITER-006", "WRITER-007", "WRITER-009", "WRITER-011", "WRITER-020"
)
@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_durable_and_indexed_say_independently_what_a_put_waits_for(place: str, durable: bool, indexed: bool) -> None:
    table = memwal.enable(place, maintained_indexes=["flat"])
    key = pa.table({"id": [1]})
    writer = table.writer(background=False)
    writer.put(rows([2]))
    before = entries(place)
    writer.put(rows([1], vectors=[NEW]), durable=durable, indexed=indexed)
    assert len(entries(place) - before) == int(durable)
    assert table.scan(["id"], "id = 1", writers=[writer]).num_rows == 1
    told = table.explain(keys=key, writers=[writer], analyse=True)
    assert re.search(r"BloomFilterGuardExec: .*\[positive\]", told)

    def rows_indexed() -> int:
        return writer.memory().indexes[Generation(1)].rows_indexed

    assert rows_indexed() == (2 if indexed else 1)
    assert table.search(NEW, "vf", 1, writers=[writer]).column("id").to_pylist() == [1]
    writer.refresh_indexes()
    assert rows_indexed() == 2
    with table.writer(writer.region_id, background=False):  # the first one has crashed
        assert table.scan(["id"], "id = 1").num_rows == int(durable)


def entries(place: str) -> set[str]:
    return {path.name for path in Path(place, "_mem_wal").glob("*/wal/*")}


@pytest.mark.clause("WRITER-024")
def test_no_key_of_a_memtable_is_denied_by_its_filter_in_memory_or_in_the_generation(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = memwal.create(tmp_path / "t", schema, primary_key=["id"])
    count, step = 20_000, 2_500
    with table.writer(background=False) as writer:
        for start in range(0, count, step):
            writer.put(pa.table([np.arange(start, start + step)], schema=schema), durable=False)
        asked = pa.table([np.arange(0, count, 7)], schema=schema)
        for writers in ([writer], []):
            assert sorted(table.get(asked, writers=writers).column("id").to_pylist()) == list(range(0, count, 7))
            writer.flush()


def ways(place: str, profile: Literal["strict", "literal"] = "strict") -> list[str]:
    """How each source but an empty WAL answers a search, which finds the row with the key 3."""
    opened = memwal.open(place, profile=profile)
    assert opened.search(vector(3), "vf", 1).column("id").to_pylist() == [3]
    told = opened.explain(vector=vector(3), column="vf", k=1, analyse=True)
    return [each for each in via(told) if each.startswith("base") or not each.endswith("scan")]


@pytest.mark.clause("CATCHUP-002")
def test_an_index_without_an_entry_counts_as_caught_up_as_the_texts_have_it(place: str) -> None:
    table = memwal.enable(place, maintained_indexes=["flat"])
    flush(table, rows([3]))
    table.maintain([])  # no merge makes an entry
    table.merge()
    assert ways(place, "literal")[0] == "base_table -1: index+scan of 1 fragment"
    assert ways(place) == ["base_table -1: index+gen=1 index"]  # AMB-71: what the index does not cover counts
    made = {"num_partitions": len(CENTROIDS), "ivf_centroids": CENTROIDS, "replace": True}
    lance.dataset(place).create_index("vf", "IVF_FLAT", name="flat", metric="l2", **made)
    assert ways(place) == ["base_table -1: index"]


@pytest.mark.clause("CATCHUP-010", "PLAN-011", "TXN-029")
def test_generations_answer_by_their_own_indexes_until_that_of_the_base_has_caught_up(place: str) -> None:
    table = memwal.enable(place, maintained_indexes=["flat"])
    with table.writer(background=False) as writer:
        for number in (3, 4, 5):
            writer.put(rows([number]))
            writer.flush()
        assert ways(place) == ["base_table -1: index", "region 3: index", "region 2: index", "region 1: index"]
        table.merge(writer.region_id, until=1)
        assert unindexed(place, "flat") == 1
        table.catch_up("flat")
        assert unindexed(place, "flat") == 0  # a segment was added
        assert ways(place) == ["base_table -1: index", "region 3: index", "region 2: index"]
    table.merge()
    assert ways(place) == ["base_table -1: index+gen=2 index+gen=3 index"]
    memwal.base_table(place).drop_index("flat")
    assert "flat" not in {index.name for index in lance.dataset(place).describe_indices()}


def unindexed(place: str, name: str) -> int:
    """Fragments of the base that an index does not cover."""
    return int(lance.dataset(place).stats.index_stats(name)["num_unindexed_fragments"])
