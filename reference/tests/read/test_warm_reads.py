"""What a read costs that finds everything kept which may be: requests to the store, and calls of pylance.

No clock is looked at. What is left in each read is what a strong read cannot know: the newest version, the newest
manifest of each region, and the end of its WAL. It is the same however many generations there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec.asked_keys import AskedKeys
from memwal.codec.data_file import Decoder
from memwal.effects import Get, Head, List, ListFolders, Stat, StoreRequest
from memwal.index import transforms
from memwal.keys import Mask
from memwal.maintained.bm25 import Corpus
from memwal.read.documents import Documents
from memwal.read.parts import TablePart
from memwal.stores.memory import MemoryStore
from memwal.table.reuse import Addresses

KEY = {"lance-schema:unenforced-primary-key": "true"}
ROWS, DIMENSION = 600, 8
GENERATIONS = (1, 3, 16)
OFTEN = 20
"""So many reads of small generations pay for putting their keys together."""


class Counting(MemoryStore):
    """A store that notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[StoreRequest[object]] = []

    def perform(self, request: StoreRequest[object]) -> object:
        self.asked.append(request)
        return super().perform(request)


def rows(keys: np.ndarray, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    vectors = pa.array(draw.normal(size=len(keys) * DIMENSION).astype(np.float32))
    columns = {
        "id": pa.array(keys),
        "n": pa.array(keys % 200),
        "v": pa.FixedSizeListArray.from_arrays(vectors, DIMENSION),
        "text": pa.array([f"w{key % 50} common" for key in keys]),
    }
    fields = [pa.field(name, column.type, name != "id") for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema([fields[0].with_metadata(KEY), *fields[1:]]))


class Warm:
    """A table in two regions with an index of each kind, and a reader of it."""

    def __init__(self, folder: Path) -> None:
        base = lance.write_dataset(rows(np.arange(ROWS), 0), str(folder / "t"), data_storage_version="2.1")
        base.create_scalar_index("id", "BTREE", name="by_id")
        base.create_scalar_index("n", "BTREE", name="by_n")
        base.create_scalar_index("text", "INVERTED", name="by_text")
        base.create_index("v", "IVF_FLAT", name="by_v", metric="l2", num_partitions=2)
        memwal.enable(
            str(folder / "t"),
            revision="R",
            spec=memwal.bucket("b", "id", 2),
            maintained_indexes=["by_n", "by_text", "by_v"],
        )
        self.store = Counting()
        for file in filter(Path.is_file, folder.rglob("*")):
            self.store.objects[file.relative_to(folder).as_posix()] = file.read_bytes()
        self.writer = memwal.open("t", store=self.store)
        self.reader = memwal.open("t", store=self.store, remember_bytes=64 << 20)
        self.generations = 0

    def flush(self, batch: pa.Table) -> None:
        """One more generation of each region that has some of the rows."""
        buckets = self.writer.region_values(batch).column("b").to_numpy()
        for bucket in sorted(set(buckets)):
            with self.writer.writer(values={"b": bucket}, background=False) as writer:
                writer.put(batch.filter(pa.array(buckets == bucket)))
                writer.flush()

    def grown(self, generations: int) -> Warm:
        """With so many generations in each region, none of which has a row that is asked for."""
        while self.generations < generations:
            self.generations += 1
            self.flush(rows(np.arange(8) + 100 + 10 * self.generations, self.generations))
        return self


ASK: dict[str, Callable[[memwal.Table], pa.Table]] = {
    "key": lambda table: table.get(pa.table({"id": [7]})),
    "filter": lambda table: table.scan(filter="n = 7"),
    "vector": lambda table: table.search([9.0] * DIMENSION, "v", 3, index="by_v", nprobes=2),
    "text": lambda table: table.search_text("w7", "text", 3, index="by_text"),
}

REQUESTS = {
    "key": (2, 1, 2, 4, 5),
    "filter": (2, 1, 4, 8, 5),
    "vector": (2, 1, 4, 8, 6),
    "text": (2, 1, 4, 8, 8),
}
"""Requests: List, ListFolders, Get, Head and Stat.

List: the newest version, before and after the regions. Of each region whose rows count: Get of the hint, HEAD of the
manifests above and below, these once more behind the WAL, whose end is a Get. Stat: the table's manifest, the regions',
and the files of the base that are used.
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Warm:
    return Warm(tmp_path_factory.mktemp("warm"))


def test_a_warm_read_makes_few_requests_and_one_call_of_pylance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, calls = Warm(tmp_path), Counter[str]()

    def counted(name: str) -> None:
        own = getattr(Decoder, name)

        def call(*arguments: object, **named: object) -> object:
            calls[name] += 1
            return own(*arguments, **named)

        monkeypatch.setattr(Decoder, name, call)

    for name in ("__init__", "read", "take"):
        counted(name)
    for generations in GENERATIONS:
        scene.grown(generations)
        for _ in range(OFTEN):
            ASK["filter"](scene.reader)
        for what, ask in ASK.items():
            first = ask(scene.reader)
            scene.store.asked.clear()
            calls.clear()
            assert ask(scene.reader) == first
            made = Counter(type(each) for each in scene.store.asked)
            asked = tuple(made[kind] for kind in (List, ListFolders, Get, Head, Stat))
            assert asked == REQUESTS[what], (what, generations)
            assert made.total() == sum(asked)
            assert calls == {"take": 1}, (what, generations)  # of the rows of the base


@pytest.mark.parametrize("columns", [["id", "n"], ["n", "id"], ["text"], None])
def test_rows_of_a_small_generation_are_read_once_for_all_columns_that_came_with_them(
    tmp_path: Path, columns: list[str] | None
) -> None:
    scene = Warm(tmp_path).grown(2)
    scene.reader.scan(filter="id >= 110")
    scene.store.asked.clear()
    told = scene.reader.scan(columns, filter="id >= 110")
    read = [each.path for each in scene.store.asked if isinstance(each, Get)]
    assert not [path for path in read if "_gen_" in path]
    assert sorted(told.to_pylist(), key=str) == sorted(
        scene.writer.scan(columns, filter="id >= 110").to_pylist(), key=str
    )


def newer(mark: str) -> pa.Table:
    """A row that each of `ASK` finds first, and that no other step writes."""
    found = rows(np.array([7]), 0)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([9.0] * DIMENSION, pa.float32()), DIMENSION)
    return found.set_column(2, found.schema.field(2), vectors).set_column(
        3, found.schema.field(3), pa.array([f"w7 w7 w7 {mark}"])
    )


def flushed(scene: Warm) -> None:
    scene.flush(newer("flushed"))


def claimed(scene: Warm) -> None:
    """Another process has the region now, and its row is in the WAL alone."""
    bucket = scene.writer.region_values(newer("")).column("b")[0].as_py()
    with scene.writer.writer(values={"b": bucket}, background=False) as writer:
        writer.put(newer("claimed"))


def merged(scene: Warm) -> None:
    """The row is in the base, and its generation is gone."""
    scene.flush(newer("merged"))
    scene.writer.merge()
    scene.writer.gc(retain_versions=1)


def rewritten(scene: Warm) -> None:
    """The newest version of the base has the row, and no generation or WAL hides it."""
    scene.flush(newer(""))
    scene.writer.merge()
    memwal.base_table("t", store=scene.store).delete("id = 7")
    scene.writer.base.append(newer("rewritten"))


@pytest.mark.parametrize("step", [flushed, claimed, merged, rewritten])
def test_what_changed_since_is_seen_by_a_warm_read(warm: Warm, step: Callable[[Warm], None]) -> None:
    for ask in ASK.values():
        for _ in range(OFTEN):
            ask(warm.reader)
    step(warm)
    for what, ask in ASK.items():
        assert f"w7 w7 w7 {step.__name__}" in ask(warm.reader).column("text").to_pylist(), what


def test_rows_whose_key_no_generation_has_are_given_without_asking_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Warm(tmp_path).grown(3)
    asked, may_contain = list[str](), TablePart.may_contain

    async def asking(part: TablePart, keys: AskedKeys) -> Mask:
        asked.append(part.name)
        return await may_contain(part, keys)

    monkeypatch.setattr(TablePart, "may_contain", asking)
    first, counts = ASK["filter"](scene.reader), list[int]()
    for _ in range(OFTEN):
        asked.clear()
        assert ASK["filter"](scene.reader) == first
        counts.append(len(asked))
    assert (counts[0], counts[-1]) == (3, 0)  # of the region of its keys


@pytest.mark.parametrize("seed", range(3))
def test_what_is_superseded_is_the_same_once_the_keys_of_all_generations_are_together(
    tmp_path: Path, seed: int
) -> None:
    """Rows of the base and of generations that later generations supersede, twice in one of them, and deleted."""
    scene, draw = Warm(tmp_path), np.random.default_rng(seed)
    forgetful = memwal.open("t", store=scene.store, remember_bytes=0)
    with scene.writer.writer(values={"b": 0}, background=False) as writer:
        for batch in range(4):
            drawn = rows(draw.choice(30, 12), 10 * seed + batch)
            mine = scene.writer.region_values(drawn).column("b").to_numpy() == 0
            writer.put(drawn.filter(pa.array(mine)))
            writer.delete(pa.table({"id": [int(drawn.filter(pa.array(mine)).column("id")[0].as_py())]}))
            if batch < 3 or seed:
                writer.flush()  # else the last one is in the WAL alone
    for each in range(OFTEN):
        for number in (each, 100 + each):
            filter_ = f"n = {number % 30} OR n = {number}"
            told, expected = (table.scan(filter=filter_).sort_by("id") for table in (scene.reader, forgetful))
            assert told == expected
    for ask in ASK.values():
        assert ask(scene.reader) == ask(forgetful)


@pytest.mark.parametrize(("what", "read"), [("vector", 7), ("text", 3)])
def test_a_search_reads_few_rows_that_it_does_not_give_and_at_once_where_few_are_superseded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, read: int
) -> None:
    scene, take, taken = Warm(tmp_path), Decoder.take, list[int]()

    def taking(decoder: Decoder, rows: np.ndarray) -> pa.Table:
        taken.append(len(rows))
        return take(decoder, rows)

    monkeypatch.setattr(Decoder, "take", taking)
    best = ASK[what](scene.reader).column("id").to_numpy()
    assert taken == [read]
    scene.flush(rows(best[:1], 5).set_column(3, "text", pa.array(["far"])))
    found = ASK[what](scene.reader).column("id").to_pylist()
    assert (taken, len(found), set(best[1:].tolist()) <= set(found)) == ([read, read], 3, True)


@pytest.mark.parametrize("query", ["w17", "common w17"])
def test_a_text_search_asks_its_generations_one_by_one_only_when_there_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    scene, of, asked = Warm(tmp_path).grown(3), Documents.of, Counter[bool]()

    async def asking(documents: Documents, terms: Sequence[str]) -> list[tuple[Addresses, Corpus]]:
        asked[documents.part.region_id is not None and isinstance(documents.part, TablePart)] += 1
        return await of(documents, terms)

    monkeypatch.setattr(Documents, "of", asking)

    def found(reader: memwal.Table = scene.reader) -> tuple[pa.Table, bool]:
        asked.clear()
        return reader.search_text(query, "text", ROWS, index="by_text"), asked[True] > 0

    (first, cold), (second, warm) = found(), found()
    assert (cold, warm, second) == (True, False, first)
    far = rows(np.array([117, *range(110, 117)]), 0).set_column(3, "text", pa.array(8 * ["far"]))
    buckets = scene.writer.region_values(far).column("b").to_pylist()
    far = far.filter(pa.array([bucket == buckets[0] for bucket in buckets]))
    with scene.writer.writer(values={"b": buckets[0]}, background=False) as writer:
        writer.put(far[1:])
        at_first, _ = found()
        writer.put(far[:1])
        in_wal, _ = found()
        assert in_wal == found(memwal.open("t", store=scene.store, remember_bytes=0))[0] != at_first
        writer.flush()
    (third, cold), (fourth, warm) = found(), found()
    assert (cold, warm, fourth, third) == (True, False, third, in_wal)


def test_a_filter_of_other_columns_asks_no_region_and_its_text_is_read_without_a_new_engine(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("asked")

    warm.reader.scan(filter="n = 7")
    monkeypatch.setattr(transforms, "may_match", asked)
    monkeypatch.setattr("datafusion.SessionContext", asked)
    assert warm.reader.scan(filter="n = 8").num_rows == 3
    with pytest.raises(AssertionError, match="asked"):
        warm.reader.scan(filter="id = 8")


def test_a_filter_without_an_index_reads_no_small_generation_again(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    warm.flush(newer("before"))
    first = warm.reader.scan(filter="text = 'w7 common'")
    read, opened = Decoder.read, list[str]()

    def reading(decoder: Decoder, start: int = 0, rows: int | None = None) -> pa.Table:
        opened.append(decoder._path)
        return read(decoder, start, rows)

    monkeypatch.setattr(Decoder, "read", reading)
    warm.flush(newer("later"))
    assert warm.reader.scan(filter="text = 'w7 common'").num_rows == first.num_rows
    assert sum("_gen_" in path for path in opened) == 1, "the generation that came since, and no other"
