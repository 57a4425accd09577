"""Plans of vector and full-text searches, on base tables with indexes that pylance made."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.index import transforms

from ..kit.maintained_scene import DIMENSION, Base, rows, texts_found, vector
from ..kit.plan_scene import one, sources, unmeasured
from ..kit.tables import flush

QUERY = [9.0, 9.0, 9.0, 9.0]
NEAR, FAR = [9.0, 9.0, 9.0, 9.5], [-50.0, 0.0, 0.0, 0.0]


def ids(found: pa.Table) -> list[int]:
    return list(found.column("id").to_pylist())


def brute_force(table: pa.Table, column: str, query: Any, k: int, condition: Any = None) -> list[tuple[int, float]]:
    """Keys and squared distances of the nearest rows of a whole table, by numpy."""
    kept = [each for each in table.to_pylist() if each[column] is not None and (condition is None or condition(each))]
    distances = [(float(np.sum((np.float32(e[column]) - np.float32(query)) ** 2)), e["id"]) for e in kept]
    return [(key, distance) for distance, key in sorted(distances)[:k]]


def pairs(found: pa.Table) -> list[tuple[int, float]]:
    return list(zip(ids(found), found.column("_distance").to_pylist(), strict=True))


def check(found: pa.Table, expected: list[tuple[int, float]]) -> None:
    """Equal distances in equal order, of keys that have them."""
    assert [d for _, d in pairs(found)] == pytest.approx([d for _, d in expected], rel=1e-5, abs=1e-5)
    assert sorted(ids(found)[:-1]) == sorted(key for key, _ in expected[:-1]) or len({d for _, d in expected}) < len(
        expected
    )


# --- the plans -------------------------------------------------------------------------------------------------------


class Reference:
    """The reference state over the indexed base: A with generation 1 and memory, B with 1 and 2 and memory."""

    def __init__(self, base: Base) -> None:
        self.base = base
        spec = transforms.bucket("b", "id", 2)
        self.table = memwal.enable(base.place, revision="A", spec=spec, maintained_indexes=["flat", "inverted"])
        values = self.table.region_values(rows(range(100))).column("b").to_pylist()
        ordered = sorted(zip(self.table.register_regions([{"b": 0}, {"b": 1}]), (0, 1), strict=True))
        self.keys = [[key for key in range(100) if values[key] == value][:9] for _, value in ordered]
        self.a, self.b = (self.table.writer(region, background=False) for region, _ in ordered)
        for writer, own in zip(self.writers, self.keys, strict=True):
            writer.put(rows(own[:4]))
            writer.flush()
        self.b.put(rows(self.keys[1][3:6]))
        self.b.flush()
        self.a.put(rows(self.keys[0][3:6]))
        self.b.put(rows(self.keys[1][5:9]))

    @property
    def writers(self) -> tuple[memwal.Writer, memwal.Writer]:
        return self.a, self.b

    def explain(self, **asked: Any) -> str:
        plan = self.table.explain(writers=self.writers, **asked)
        for writer, name in ((self.a, "A"), (self.b, "B")):
            plan = plan.replace(f"region {writer.region_id[:8]}", name)
        return plan


@pytest.fixture
def reference(base: Base) -> Iterator[Reference]:
    made = Reference(base)
    yield made
    for writer in made.writers:
        writer.close()


FILTERS = "bloom_filters=[bf[A[gen=2]], bf[A[gen=1]], bf[B[gen=3]], bf[B[gen=2]], bf[B[gen=1]]]"


@pytest.mark.clause("PLAN-021", "PLAN-034", "PLAN-011")
def test_a_vector_search_has_a_nearest_search_in_each_of_the_six_sources_by_its_own_index(reference: Reference) -> None:
    assert reference.explain(vector=QUERY, column="vf", k=3).splitlines() == [
        "GlobalLimitExec: limit=3",
        "  SortExec: order_by=[_distance ASC]",
        f"    FilterStaleExec: {FILTERS}",
        "      UnionExec",
        "        KNNExec: base_table[gen=-1], k=3, via=index  [not read]",
        "        KNNExec: A[gen=2], k=3, via=memory index  [not read]",
        "        KNNExec: A[gen=1], k=3, via=index  [not read]",
        "        KNNExec: B[gen=3], k=3, via=memory index  [not read]",
        "        KNNExec: B[gen=2], k=3, via=index  [not read]",
        "        KNNExec: B[gen=1], k=3, via=index  [not read]",
    ]
    found = reference.table.search(QUERY, "vf", 20, writers=reference.writers)
    check(found, brute_force(reference.table.scan(writers=reference.writers), "vf", QUERY, 20))


@pytest.mark.clause("PLAN-023", "PLAN-024", "PLAN-034")
def test_a_text_search_gathers_statistics_of_all_six_sources_above_their_union(reference: Reference) -> None:
    plan = unmeasured(reference.explain(text="fox", column="text", k=3, analyse=True))
    lines = plan.splitlines()
    assert [line.strip() for line in lines[:5]] == [
        "GlobalLimitExec: limit=3  [3 rows]",
        "SortExec: order_by=[_score DESC]",
        f"FilterStaleExec: {FILTERS}",
        "GlobalBM25Exec  [315 documents]",
        "UnionExec",
    ]
    assert sources(plan, "FTSExec") == [
        "base_table[gen=-1]", "A[gen=2]", "A[gen=1]", "B[gen=3]", "B[gen=2]", "B[gen=1]",
    ]  # fmt: skip
    assert "[3 candidates, 0 stale]" in lines[7], "without the key that memory has too"


@pytest.mark.clause("PLAN-009")
def test_a_prefilter_of_a_search_leaves_out_the_regions_that_cannot_match(reference: Reference) -> None:
    key = reference.keys[0][0]
    for asked in ({"vector": QUERY, "column": "vf"}, {"text": "fox", "column": "text"}):
        plan = reference.explain(filter=f"id = {key}", **asked)
        node = "KNNExec" if "vector" in asked else "FTSExec"
        assert sources(plan, node) == ["base_table[gen=-1]", "A[gen=2]", "A[gen=1]"]
    found = reference.table.search(QUERY, "vf", 3, filter=f"id = {key}", writers=reference.writers)
    assert ids(found) == [key]
    assert ids(reference.table.search_text("fox", "text", filter=f"id = {key}", writers=reference.writers)) == [key]


@pytest.mark.clause("PLAN-010", "PLAN-011")
def test_each_generation_is_answered_by_the_index_that_catch_up_progress_says(base: Base) -> None:
    table = base.enable("B", maintained=["flat", "inverted"])
    with table.writer(background=False) as writer:
        writer.put(rows([1, 2], vectors=[NEAR, QUERY], texts=["cow", "cow dog"]))
        writer.flush()
        region = writer.region_id

        def via() -> tuple[str, list[int], list[int]]:
            plans = [table.explain(vector=QUERY, column="vf", k=2), table.explain(text="cow", column="text")]
            (said,) = {
                line.rpartition("via=")[2].partition(" ")[0] for p in plans for line in p.splitlines() if "base" in line
            }
            return said, ids(table.search(QUERY, "vf", 2)), sorted(ids(table.search_text("cow", "text")))

        assert via() == ("index", [2, 1], [1, 2])
        assert f"region {region[:8]}[gen=1], k=2, via=index" in table.explain(vector=QUERY, column="vf", k=2)
        table.merge()
        plan = table.explain(vector=QUERY, column="vf", k=2)
        assert "base_table[gen=-1], k=2, via=index+gen=1 index  " in plan
        assert "[gen=1], k=2" not in plan, "it is read as a bridge, not as a source"
        assert sorted(ids(table.search_text("cow", "text"))) == [1, 2]
        assert ids(table.search(QUERY, "vf", 2)) == [2, 1]
        table.base.append(rows([500], vectors=[NEAR], texts=["cow"]))
        assert "via=index+gen=1 index+scan of 1 fragment" in table.explain(vector=QUERY, column="vf", k=2)
        assert sorted(ids(table.search(QUERY, "vf", 3))) == [1, 2, 500]
        table.catch_up()
        assert via()[0] == "index"
        assert sorted(ids(table.search(QUERY, "vf", 3))) == [1, 2, 500]
        assert sorted(ids(table.search_text("cow", "text"))) == [1, 2, 500]


@pytest.mark.clause("PLAN-011")
def test_a_row_of_a_bridging_generation_counts_only_while_the_base_has_it(base: Base) -> None:
    table = base.enable("B", maintained=["flat", "inverted"])
    flush(table, rows([1, 2], vectors=[QUERY, NEAR], texts=["cow", "cow"]))
    table.merge()
    table.base.delete("id = 1")
    assert "gen=1 index" in table.explain(vector=QUERY, column="vf")
    assert ids(table.search(QUERY, "vf", 1)) == [2]
    assert ids(table.search_text("cow", "text")) == [2]


@pytest.mark.clause("FORMAT-035")
@pytest.mark.parametrize("exact", [False, True], ids=["by the index", "row by row"])
def test_a_row_that_a_deletion_file_lists_is_in_no_vector_search(base: Base, exact: bool) -> None:
    table = base.enable("B", maintained=["flat"])
    query = vector(-7)
    expected = brute_force(table.scan(), "vf", query, 4)
    assert expected[0] == (-7, 0)
    check(table.search(query, "vf", 4, exact=exact), expected)
    table.base.delete("id = -7")
    assert [path.suffix for path in (base.place / "_deletions").iterdir()] == [".arrow"]
    check(table.search(query, "vf", 3, exact=exact), expected[1:])


@pytest.mark.clause("PLAN-021", "WRITER-007", "AMB-116")
@pytest.mark.parametrize("indexed", [0, 1, 2], ids=["no write", "the first write", "two writes"])
def test_rows_that_the_index_of_a_memtable_lacks_are_found_under_their_own_keys(base: Base, indexed: int) -> None:
    table = base.enable("B", maintained=["flat"])
    writes = [
        rows([1, 2], vectors=[FAR, [8.0] * DIMENSION]),
        rows([5, 6], vectors=[None, [7.0] * DIMENSION]),
        rows([3, 4], vectors=[QUERY, NEAR]),
        rows([2, 7], vectors=[FAR, None]),
    ]
    with table.writer(background=False) as writer:
        for number, write in enumerate(writes):
            writer.put(write, indexed=number < indexed)
        assert "via=memory index" in table.explain(vector=QUERY, column="vf", k=3, writers=[writer])
        found = table.search(QUERY, "vf", 3, writers=[writer])
        check(found, [(3, 0.0), (4, 0.25), (6, 16.0)])
        assert ids(found) == [3, 4, 6]


# --- stale candidates ------------------------------------------------------------------------------------------------


@pytest.mark.clause("PLAN-021", "PLAN-022", "PLAN-030")
@pytest.mark.parametrize("approximate", [False, True])
def test_superseded_candidates_are_dropped_and_others_take_their_places(base: Base, approximate: bool) -> None:
    table = base.enable("B", maintained=["flat"])
    query = vector(-7)
    nearest = [key for key, _ in brute_force(table.scan(), "vf", query, 150)]
    with table.writer(background=False) as writer:
        writer.put(rows(nearest[:70], vectors=[FAR] * 70))
        writer.flush()
        writer.put(rows(nearest[70:80], vectors=[FAR] * 10))
        found = table.search(query, "vf", 5, approximate=approximate, writers=[writer])
        assert set(ids(found)) <= set(nearest[80:])
        assert len(found) == 5
        check(found, brute_force(table.scan(writers=[writer]), "vf", query, 5))


@pytest.mark.clause("PLAN-022", "PLAN-030")
@pytest.mark.parametrize("approximate", [False, True])
def test_a_candidate_of_a_generation_is_superseded_by_any_later_one_and_not_by_itself(
    base: Base, approximate: bool
) -> None:
    table = base.enable("B", maintained=["flat"])
    with table.writer(background=False) as writer:
        writer.put(rows([1, 2], vectors=[QUERY, NEAR]))
        writer.flush()
        writer.put(rows([1], vectors=[FAR]))
        for _ in ("in memory", "flushed", "flushed, and another generation after it"):
            found = table.search(QUERY, "vf", 400, approximate=approximate, writers=[writer])
            assert (ids(found)[0], ids(found).count(1), ids(found).count(2)) == (2, 1, 1)
            writer.flush()
            writer.put(rows([3]))


@pytest.mark.clause("PLAN-021", "PLAN-030")
def test_of_two_rows_of_a_key_in_one_generation_only_the_last_can_be_found(base: Base) -> None:
    table = base.enable("A", maintained=["flat", "inverted"])
    with table.writer(background=False) as writer:
        writer.put(rows([1, 2], vectors=[QUERY, NEAR], texts=["cow", "cow"]))
        writer.put(rows([1], vectors=[FAR], texts=["dog"]))
        for _ in ("in memory", "flushed"):
            assert ids(table.search(QUERY, "vf", 1, writers=[writer])) == [2]
            assert ids(table.search_text("cow", "text", writers=[writer])) == [2]
            writer.flush()


@pytest.mark.clause("PLAN-022")
def test_a_candidate_of_the_base_is_superseded_in_whichever_region_its_key_belongs_to(base: Base) -> None:
    spec = transforms.bucket("b", "id", 2)
    table = memwal.enable(base.place, revision="A", spec=spec, maintained_indexes=["flat"])
    query = vector(-7)
    nearest = [key for key, _ in brute_force(table.scan(), "vf", query, 12)]
    values = table.region_values(rows(nearest)).column("b").to_pylist()
    assert set(values) == {0, 1}
    for value in (0, 1):
        own = [key for key, bucket in zip(nearest, values, strict=True) if bucket == value]
        with table.writer(values={"b": value}, background=False) as writer:
            writer.put(rows(own, vectors=[FAR] * len(own)))
            writer.flush()
    found = table.search(query, "vf", 5)
    assert not set(ids(found)) & set(nearest)
    check(found, brute_force(table.scan(), "vf", query, 5))


def filter_files(table: memwal.Table, place: Path, region: str) -> list[Path]:
    return sorted((place / "_mem_wal" / region).glob("*_gen_*/bloom_filter.bin"))


@pytest.mark.clause("PLAN-003", "PLAN-022", "PLAN-030", "PLAN-031")
def test_a_filter_that_says_perhaps_drops_valid_rows_only_where_the_search_is_approximate(base: Base) -> None:
    spec = transforms.bucket("b", "id", 2)
    table = memwal.enable(base.place, revision="A", spec=spec, maintained_indexes=["flat"])
    values = table.region_values(rows(range(-300, 100))).column("b").to_pylist()
    a, b = ([key for key in range(-300, 100) if values[key + 300] == value] for value in (0, 1))
    for own, value in ((a, 0), (b, 1)):
        with table.writer(values={"b": value}, background=False) as writer:
            writer.put(rows(own[-3:], vectors=[QUERY] * 3))
            writer.flush()
            region = writer.region_id
    (file,) = filter_files(table, base.place, region)
    file.write_bytes(b"a filter of another engine: it may contain every key")
    exact = table.search(QUERY, "vf", 20)
    check(exact, brute_force(table.scan(), "vf", QUERY, 20))
    found = set(ids(table.search(QUERY, "vf", 400, approximate=True)))
    stay = {key for key in a if key < 0} | {*a[-3:], *b[-3:]}
    assert found == stay, "base rows of that region go; its own generation and the other region stay"


# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.clause("PLAN-023", "PLAN-024")
def test_scores_over_many_sources_are_those_of_one_native_index_over_all_rows(base: Base, tmp_path: Path) -> None:
    table = base.enable("B", maintained=["inverted"])
    words = ["fox", "dog", "cow", "red"]
    random_ = random.Random(5)
    texts = [" ".join(random_.choices(words, k=random_.randrange(1, 6))) for _ in range(60)]
    with table.writer(background=False) as writer:
        for start in (0, 20, 40):
            writer.put(rows(range(start, start + 20), texts=texts[start : start + 20]))
            if start < 40:
                writer.flush()
        whole = tmp_path / "whole"
        everything = table.scan(writers=[writer]).sort_by("id")
        native = lance.write_dataset(everything, str(whole))
        native.create_scalar_index("text", "INVERTED", name="inverted")
        for query in ("dog", "red cow", "fox"):
            by_address = texts_found(lance.dataset(str(whole)), query)
            expected = {everything.column("id")[at].as_py(): score for at, score in by_address.items()}
            found = table.search_text(query, "text", 500, writers=[writer])
            scores = dict(zip(ids(found), found.column("_score").to_pylist(), strict=True))
            assert scores == pytest.approx(expected, rel=1e-5)
            assert list(scores.values()) == sorted(scores.values(), reverse=True)
            best = table.search_text(query, "text", 3, writers=[writer]).column("_score").to_pylist()
            assert best == pytest.approx(sorted(expected.values(), reverse=True)[:3], rel=1e-5)


@pytest.mark.clause("PLAN-023")
@pytest.mark.parametrize("approximate", [False, True])
def test_a_superseded_text_is_in_no_search(base: Base, approximate: bool) -> None:
    table = base.enable("B", maintained=["inverted"])
    before = ids(table.search_text("fox", "text", 500, approximate=approximate))
    with table.writer(background=False) as writer:
        writer.put(rows(before[:2], texts=["cow", "fox"]))
        writer.flush()
    found = set(ids(table.search_text("fox", "text", 500, approximate=approximate)))
    assert found <= set(before[1:])
    assert approximate or found == set(before[1:]), "a filter's perhaps drops others only where that is asked for"


@pytest.mark.clause("PLAN-024")
def test_a_rare_term_of_one_source_weighs_what_it_weighs_over_all_sources(base: Base) -> None:
    table = base.enable("B", maintained=["inverted"])
    with table.writer(background=False) as writer:
        writer.put(rows([1], texts=["cow"]))
        writer.flush()
        writer.put(rows([2], texts=["cow"]))
        found = table.search_text("cow", "text", writers=[writer])
    # 302 documents: 300 of the base of three terms, as in "word-7 fox", and two of one; two have the term.
    weight = math.log(1 + (302 - 2 + 0.5) / (2 + 0.5))
    expected = weight * 2.2 / (1 + 1.2 * (1 - 0.75 + 0.75 * 1 / (902 / 302)))
    assert found.column("_score").to_pylist() == pytest.approx([expected, expected], rel=1e-5)


# --- against a model -------------------------------------------------------------------------------------------------


@pytest.mark.clause("PLAN-021", "PLAN-023")
@pytest.mark.parametrize("seed", range(4))
def test_searches_of_random_tables_are_those_of_a_comparison_of_all_rows(base: Base, seed: int) -> None:
    random_ = random.Random(seed)
    table = base.enable("ABR"[seed % 3], maintained=["flat", "inverted"] if seed % 2 else ["inverted"])
    writer = table.writer(background=False)
    keys = range(-300, -280)
    query = vector(random_.randrange(1000))
    for _ in range(14):
        what = random_.random()
        if what < 0.6:
            chosen = [random_.choice([*keys, *range(30)]) for _ in range(4)]
            near = [[number + random_.random() for number in query] for _ in chosen]
            vectors = [random_.choice([None, vector(random_.randrange(1000)), each]) for each in near]
            texts = [random_.choice(["cow", "red dog", None]) for _ in chosen]
            writer.put(rows(chosen, vectors=vectors, texts=texts), indexed=random_.random() < 0.5)
        elif what < 0.7 and table.revision.tombstones:
            writer.delete(one(random_.choice(keys), random_.choice(keys)))
        elif what < 0.85:
            writer.flush()
        elif what < 0.95:
            table.merge()
        else:
            table.catch_up()
    everything = table.scan(writers=[writer])
    check(table.search(query, "vf", 8, writers=[writer]), brute_force(everything, "vf", query, 8))
    check(table.search(query, "vp", 8, exact=True, writers=[writer]), brute_force(everything, "vp", query, 8))
    wanted = brute_force(everything, "vf", query, 6, lambda each: each["tag"] == "t1")
    check(table.search(query, "vf", 6, filter="tag = 't1'", writers=[writer]), wanted)
    for asked, held in (("cow", {"cow"}), ("dog cow", {"cow", "red dog"}), ("fox", None)):
        found = table.search_text(asked, "text", 400, columns=["id"], writers=[writer])
        texts = zip(everything.column("id").to_pylist(), everything.column("text").to_pylist(), strict=True)
        expected = {key for key, text in texts if text is not None and (text in held if held else text.endswith("fox"))}
        assert (set(ids(found)), len(found)) == (expected, len(expected))
    writer.close()
    check(table.search(query, "vf", 8), brute_force(everything, "vf", query, 8))  # memory is read from the WAL
    assert len(table.search_text("cow", "text", 400)) == everything.column("text").to_pylist().count("cow")


@pytest.mark.parametrize("name", ["pq", "sq"])
def test_quantised_distances_are_those_of_the_code_in_every_source(base: Base, name: str) -> None:
    column, table = f"v{name[0]}", base.enable("B", maintained=[name])
    code = base.index(name).code
    assert code is not None
    with table.writer(background=False) as writer:
        writer.put(rows(range(20)))
        writer.flush()
        table.merge()
        writer.put(rows(range(15, 40)))
        writer.flush()
        writer.put(rows(range(35, 50)))
        everything = table.scan(writers=[writer])
        encoded = code.encode(everything.column(column))
        distances = np.sort(code.distances(encoded, code.query_vector(vector(17))))[:12]
        found = table.search(vector(17), column, 12, writers=[writer])
        plan = table.explain(vector=vector(17), column=column, writers=[writer])
    assert found.column("_distance").to_pylist() == pytest.approx(distances.tolist(), rel=1e-5)
    assert "via=index+gen=1 index" in plan


def test_without_an_index_that_can_be_followed_all_rows_are_compared(base: Base) -> None:
    base.native().drop_index("flat")
    base.native().create_index("vf", "IVF_PQ", name="narrow", num_partitions=1, num_sub_vectors=2, num_bits=4)
    table = base.enable("B", maintained=[])
    with table.writer(background=False) as writer:
        writer.put(rows(range(20)))
        writer.flush()
        writer.put(rows(range(10, 30)))
        assert "base_table[gen=-1], k=3, via=scan " in table.explain(vector=QUERY, column="vf", k=3)
        everything = table.scan(writers=[writer])
        check(table.search(QUERY, "vf", 9, writers=[writer]), brute_force(everything, "vf", QUERY, 9))
        query = np.array(vector(500))
        vectors = np.array(everything.column("vf").to_pylist())
        cosines = 1 - vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
        for metric, distances in (("cosine", cosines), ("dot", 1 - vectors @ query)):
            found = table.search(query, "vf", 9, metric=metric, writers=[writer])
            assert found.column("_distance").to_pylist() == pytest.approx(np.sort(distances)[:9].tolist(), abs=1e-4)
        with pytest.raises(memwal.InvalidArgument, match="narrow"):
            table.search(QUERY, "vf", index="narrow")


# --- refusals --------------------------------------------------------------------------------------------------------


def test_one_row_may_be_asked_for(base: Base) -> None:
    table = base.enable("B")
    assert table.search(QUERY, "vf", 1).num_rows == 1
    assert table.search_text("fox", "text", 1).num_rows == 1


def test_a_search_that_cannot_be_is_refused(base: Base) -> None:
    table = base.enable("B")
    for asked, complaint in (
        (lambda: table.search(QUERY, "nothing"), "there are no columns"),
        (lambda: table.search(QUERY, "vf", 0), "must be at least 1"),
        (lambda: table.search([1.0], "vf"), f"{DIMENSION} finite"),
        (lambda: table.search(QUERY, "vf", metric="dot"), "measures l2"),
        (lambda: table.search(QUERY, "vf", metric="far", exact=True), "there is no metric"),
        (lambda: table.search(QUERY, "vf", index="pq"), "not a trained vector index over column 'vf'"),
        (lambda: table.search(QUERY, "vf", index="none"), "no index 'none'"),
        (lambda: table.search(QUERY, "tag"), "is not a column of vectors"),
        (lambda: table.search_text("a", "tag"), "no full-text index over column 'tag'"),
        (lambda: table.search_text("a", "text", 0), "must be at least 1"),
        (lambda: table.explain(text="a", vector=QUERY, column="vf"), "only one of keys, vector and text"),
        (lambda: table.explain(keys=pa.table({"id": ["a"]}), filter="id = 'a'"), "a lookup of keys has no filter"),
    ):
        with pytest.raises(memwal.InvalidArgument, match=complaint):
            asked()
