"""Full-text searches give the rows and scores that one merged table would give, computed here from its texts."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memwal.effects import StoreRequest
from memwal.index import transforms
from memwal.read.parts import TablePart
from memwal.stores.memory import MemoryStore
from memwal.table.reuse import Addresses

from ..kit.tables import keys_of

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), ("text", pa.string())])
PLAIN = {"base_tokenizer": "whitespace", "stem": False, "remove_stop_words": False, "with_position": True}
WORDS = ("fox", "dog", "cow", "red", "ox")
QUERIES = ("fox", "red fox fox", "absent cow")
BASE_ROWS = 300
"""So many that a common word has more than two full blocks of documents."""


def base_text(number: int) -> str | None:
    return None if number % 17 == 3 else " ".join(WORDS[(number * k) % 7 % 5] for k in range(1, 2 + number % 6))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base table in three fragments whose index is in two segments, and has not seen the last fragment."""
    place = tmp_path_factory.mktemp("text") / "t"
    parts = [range(160), range(160, 240), range(240, BASE_ROWS)]
    for number, keys in enumerate(parts):
        made = pa.table([[-1 - key for key in keys], [base_text(key) for key in keys]], schema=SCHEMA)
        dataset = lance.write_dataset(made, str(place), mode="append" if number else "create")
        if number == 0:
            dataset.create_scalar_index("text", "INVERTED", name="i", **PLAIN)
        elif number == 1:
            dataset.optimize.optimize_indices(num_indices_to_merge=0)
    return place


def merged_scores(table: pa.Table, query: str, how: str) -> dict[int, float]:
    """BM25 of one table, from its texts alone: what a word is, how often, and where."""
    texts = {k: t.split() for k, t in zip(*(table.column(n).to_pylist() for n in ("id", "text")), strict=True) if t}
    average = sum(map(len, texts.values())) / max(1, len(texts))
    asked = query.split()
    found = {}
    for key, words in texts.items():
        times = Counter(words)
        held = {
            "any": any(times[word] for word in asked),
            "every": all(times[word] for word in asked),
            "phrase": any(words[at : at + len(asked)] == asked for at in range(len(words))),
        }
        if not held[how]:
            continue
        score = 0.0
        for word in asked:
            having = sum(word in own for own in texts.values())
            weight = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            score += weight * times[word] * 2.2 / (times[word] + 1.2 * (0.25 + 0.75 * len(words) / average))
        found[key] = score
    return found


def check(table: memwal.Table, writers: Sequence[memwal.Writer]) -> None:
    everything = table.scan(writers=writers)
    for query in QUERIES:
        for how, options in (("any", {}), ("every", {"every_term": True}), ("phrase", {"phrase": True})):
            expected = merged_scores(everything, query, how)
            rows = table.search_text(query, "text", 1_000, columns=["id"], writers=writers, **options)
            scores = rows.column("_score").to_pylist()
            found = dict(zip(rows.column("id").to_pylist(), scores, strict=True))
            assert found == pytest.approx(expected, rel=1e-5), (query, how)
            assert scores == sorted(scores, reverse=True)
    best = table.search_text("fox", "text", 3, columns=["id"], writers=writers).column("_score").to_pylist()
    assert best == pytest.approx(sorted(merged_scores(everything, "fox", "any").values(), reverse=True)[:3], rel=1e-5)


KEYS = st.sampled_from([*range(-BASE_ROWS, -BASE_ROWS + 4), *range(-160, -156), *range(-4, 4)])
TEXTS = st.none() | st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
WRITES = st.dictionaries(KEYS, TEXTS, min_size=1, max_size=6)
STEPS = st.lists(
    st.tuples(st.just("put"), WRITES, st.booleans())
    | st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=3, unique=True))
    | st.tuples(st.sampled_from(["flush", "merge", "catch_up", "append", "delete_base"])),
    min_size=3,
    max_size=9,
)


def run(table: memwal.Table, writers: Sequence[memwal.Writer], steps: Sequence[tuple[Any, ...]]) -> None:
    """``steps`` on a table of two regions, each key to its own."""

    def routed(rows: pa.Table) -> list[tuple[memwal.Writer, pa.Table]]:
        values = table.region_values(rows).column("b").to_pylist()
        parts = [rows.filter(pa.array([value == number for value in values])) for number in (0, 1)]
        return [(writer, part) for writer, part in zip(writers, parts, strict=True) if part.num_rows]

    for number, (what, *given_) in enumerate(steps):
        if what == "put":
            rows, indexed = given_
            for writer, own in routed(pa.table([list(rows), list(rows.values())], schema=SCHEMA)):
                writer.put(own, indexed=indexed)
        elif what == "delete" and table.revision.tombstones:
            for writer, own in routed(pa.table({"id": pa.array(given_[0], pa.int64())})):
                writer.delete(own)
        elif what == "flush":
            writers[number % 2].flush()
        elif what == "merge":
            table.merge()
        elif what == "catch_up":
            table.catch_up()
        elif what == "append":
            table.base.append(pa.table([[1_000 + number], ["fox red fox"]], schema=SCHEMA))
        elif what == "delete_base":
            table.base.delete(f"id = {-5 - number}")


def opened(built: Path, place: Path, revision: str, stack: ExitStack) -> tuple[memwal.Table, list[memwal.Writer]]:
    shutil.copytree(built, place)
    spec = transforms.bucket("b", "id", 2)
    table = memwal.enable(place, revision=revision, spec=spec, maintained_indexes=["i"])
    return table, [stack.enter_context(table.writer(values={"b": b}, background=False)) for b in (0, 1)]


@pytest.mark.clause("PLAN-023", "PLAN-024", "WRITER-027", "AMB-110")
@given(revision=st.sampled_from("ABR"), steps=STEPS)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_and_scores_are_those_of_the_merged_table(
    built: Path, tmp_path_factory: pytest.TempPathFactory, revision: str, steps: list[tuple[Any, ...]]
) -> None:
    with ExitStack() as stack:
        table, writers = opened(built, tmp_path_factory.mktemp("x") / "t", revision, stack)
        run(table, writers, steps)
        check(table, writers)


@pytest.mark.clause("PLAN-023", "PLAN-024", "WRITER-027", "AMB-110")
def test_superseded_rows_of_every_source_are_neither_found_nor_counted(built: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        table, writers = opened(built, tmp_path / "t", "R", stack)
        mine = keys_of(table, 0, 3)
        steps = [
            ("put", {-300: "cow", -160: "cow ox", -1: "cow", **dict.fromkeys(mine, "fox red fox")}, True),
            ("flush",), ("flush",), ("merge",),
            ("put", {mine[0]: "ox", -299: "red red", -2: None}, True),
            ("put", {mine[1]: "fox red", -159: "dog"}, False),
            ("flush",), ("append",), ("delete_base",),
            ("put", {mine[0]: "dog fox", -298: "ox red fox fox"}, True),
            ("put", {mine[0]: "cow fox", mine[2]: ""}, True),
            ("delete", [-297, mine[1]]),
        ]  # fmt: skip
        run(table, writers, steps)
        check(table, writers)
        plan = table.explain(text="fox", column="text", writers=writers)
        via = [line.rpartition("via=")[2].partition("  ")[0] for line in plan.splitlines() if "FTSExec" in line]
        assert via[0] == "index+gen=1 index+gen=1 index+scan of 2 fragments"
        assert sorted(set(via[1:])) == ["index", "memory index"]


@pytest.mark.clause("PLAN-024", "AMB-110")
def test_a_reader_that_keeps_lists_counts_what_was_written_since(built: Path, tmp_path: Path) -> None:
    place = tmp_path / "t"
    with ExitStack() as stack:
        table, writers = opened(built, place, "R", stack)
        mine = keys_of(table, 0, 3)
        kept = memwal.open(place)
        check(kept, ())
        for steps in (
            [("flush",), ("put", dict.fromkeys(mine, "fox red fox"), True), ("flush",), ("flush",)],
            [("put", {mine[0]: "ox", mine[1]: "fox"}, True), ("flush",), ("flush",)],
            [("put", {mine[2]: "cow"}, True)],
            [("delete_base",)],
            [("delete", [mine[0]]), ("flush",), ("flush",)],
            [("merge",)],
            [("catch_up",)],
        ):
            run(table, writers, steps)
            check(kept, ())
            check(kept, writers)
            forgetful = memwal.open(place, remember_bytes=0)
            assert kept.search_text("fox", "text", 9) == forgetful.search_text("fox", "text", 9)


def test_generations_without_a_text_are_searched_as_others_are(built: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        table, writers = opened(built, tmp_path / "t", "R", stack)
        run(table, writers, [("put", {-300: None}, True), ("flush",), ("flush",)])
    forgetful = memwal.open(str(tmp_path / "t"), remember_bytes=0)
    for _ in range(2):
        assert table.search_text("fox", "text", 9) == forgetful.search_text("fox", "text", 9)


def test_generations_are_not_looked_at_in_a_second_search(built: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        table, writers = opened(built, tmp_path / "t", "R", stack)
        run(table, writers, [("put", {-300: "cow fox"}, True), ("flush",), ("flush",)])
    asked: list[StoreRequest[Any]] = []

    class Noting(MemoryStore):
        def perform(self, request: StoreRequest[Any]) -> Any:
            asked.append(request)
            return super().perform(request)

    files = {each.relative_to(tmp_path).as_posix(): each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    kept = memwal.open("t", store=Noting(files), remember_bytes=1 << 24)
    first = kept.search_text("fox", "text", 9)
    asked.clear()
    assert kept.search_text("fox", "text", 9) == first
    assert [each.path for each in asked if "_gen_" in each.path] == []


def test_a_search_without_a_filter_reads_no_more_rows_than_it_gives(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        table, _ = opened(built, tmp_path / "t", "R", stack)
    read, at = list[int](), TablePart.at

    async def reading(part: TablePart, names: Sequence[str], addresses: Addresses) -> pa.Table:
        read.append(len(addresses))
        return await at(part, names, addresses)

    monkeypatch.setattr(TablePart, "at", reading)
    assert table.search_text("fox", "text", 9).num_rows == 9
    assert read == [9]


@pytest.mark.clause("PLAN-024", "AMB-110")
def test_a_key_written_twice_in_a_merged_generation_and_once_since_is_one_document(built: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        table, writers = opened(built, tmp_path / "t", "R", stack)
        mine = keys_of(table, 0, 3)
        first, second, last = (dict.fromkeys(mine, text) for text in ("fox", "fox red", "dog fox ox"))
        run(table, writers, [("put", first, True), ("put", second, True), ("flush",), ("merge",), ("put", last, True)])
        check(table, writers)


@pytest.mark.clause("PLAN-023")
def test_a_phrase_needs_an_index_with_positions(tmp_path: Path) -> None:
    place = tmp_path / "t"
    dataset = lance.write_dataset(pa.table([[1], ["red fox"]], schema=SCHEMA), str(place))
    dataset.create_scalar_index("text", "INVERTED", name="i")
    table = memwal.enable(place, revision="B", maintained_indexes=["i"])
    with pytest.raises(memwal.InvalidArgument, match="index 'i' keeps no positions of terms, which a phrase needs"):
        table.search_text("red fox", "text", phrase=True)
    assert table.search_text("red fox", "text").num_rows == 1


@pytest.mark.parametrize("block_size", [128, 256])
def test_lists_in_blocks_of_either_size_give_the_scores_of_the_texts(tmp_path: Path, block_size: int) -> None:
    # Some words are so frequent in a text that their count needs more bits than those of the other texts.
    words = [" ".join(WORDS[(number * k) % 7 % 5] for k in range(1, 2 + number % 40)) for number in range(700)]
    words = [f"{text}{' fox' * 90}" if number % 150 == 7 else text for number, text in enumerate(words)]
    rows = pa.table([range(700), words], schema=SCHEMA)
    dataset = lance.write_dataset(rows, str(tmp_path / "t"))
    dataset.create_scalar_index("text", "INVERTED", name="i", block_size=block_size, **PLAIN)
    check(memwal.enable(str(tmp_path / "t"), revision="R"), [])


@pytest.mark.clause("PLAN-021", "PLAN-023")
@pytest.mark.parametrize("flushed", [False, True], ids=["memory", "generations"])
def test_a_filter_finds_rows_of_a_source_that_has_thousands_of_better_ones(tmp_path: Path, flushed: bool) -> None:
    """Only the best of them are scored at first: those that the filter keeps are not among these, and best of all."""

    def rows(start: int, texts: list[str], kept: bool) -> pa.Table:
        keys = pa.array(range(start, start + len(texts)))
        return pa.table([keys, pa.array(texts), pa.array([kept] * len(texts))], schema=SCHEMA.append(kept_field))

    kept_field = pa.field("kept", pa.bool_())
    place = tmp_path / "t"
    dataset = lance.write_dataset(rows(0, ["fox" + " ox" * 30] * 9, True), str(place))
    dataset.create_scalar_index("text", "INVERTED", name="i", **PLAIN)
    table = memwal.enable(place, revision="R", spec=transforms.bucket("b", "id", 1), maintained_indexes=["i"])
    with table.writer(values={"b": 0}, background=False) as writer:
        for start, better in ((1_000, 5_000), (10_000, 5_000), (20_000, 0)):
            writer.put(rows(start, ["fox"] * better, False))
            writer.put(rows(start + better, ["fox ox ox"] * 2, True))
            if flushed:
                writer.flush()
        expected = [6_000, 6_001, 15_000, 15_001, 20_000, 20_001]
        for _ in range(12):  # from some search on the generations are asked as one
            found = table.search_text("fox", "text", 7, filter="kept", columns=["id"], writers=[writer])
            assert sorted(found.column("id").to_pylist()[:6]) == expected
            assert found.column("id").to_pylist()[6] in range(9)
        best = table.search_text("fox", "text", 3, columns=["id"], writers=[writer])
        assert all(1_000 <= key < 6_000 or 10_000 <= key < 15_000 for key in best.column("id").to_pylist())
