"""Reads over a store whose requests take long: what does not need each other is asked at once, and the answer is one.

No clock is looked at: requests of a kind wait for each other, and all of them have to come.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.api.place import find
from memwal.coroutines import MOST_CONCURRENT, Turn, concurrently, until
from memwal.drive import Threads, drive
from memwal.effects import Get, Head, Io, List, Put, Stamped, Stat, StoreRequest, remembered
from memwal.errors import ArtifactError, InvalidArgument, NotFound
from memwal.read import indexes_above, parts
from memwal.read.collection import Above
from memwal.read.conditions import Compare
from memwal.read.neighbours import Neighbours
from memwal.remembered import ReadMemory
from memwal.revisions import STRICT
from memwal.stores.base import Store
from memwal.stores.local import LocalStore
from memwal.stores.memory import MemoryStore
from memwal.table import late, stored_file
from memwal.table.legacy import reading

KEY = {"lance-schema:unenforced-primary-key": "true"}
ROWS, DIMENSION, GENERATIONS, REGIONS = 400, 4, 3, 2
PATIENCE_S = 120
OFTEN = 6
"""So many reads of small generations pay for asking them as one."""
FAR = Io(interpretation=STRICT, concurrent=True)


def rows(keys: np.ndarray, draw: np.random.Generator) -> pa.Table:
    count = len(keys)
    vectors = pa.array(draw.normal(size=count * DIMENSION).astype(np.float32))
    words = draw.integers(0, 12, (count, 3)).tolist()
    columns = {
        "id": pa.array(keys),
        "n": pa.array(draw.integers(0, 12, count), mask=draw.random(count) < 0.2),
        "m": pa.array(draw.integers(0, 5, count)),
        "v": pa.FixedSizeListArray.from_arrays(vectors, DIMENSION),
        "text": pa.array([" ".join(map("w{}".format, each)) for each in words]),
    }
    fields = [pa.field(name, column.type, name != "id") for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema([fields[0].with_metadata(KEY), *fields[1:]]))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with indexes of each kind, and generations and a WAL tail in each of two regions."""
    draw, folder = np.random.default_rng(4), tmp_path_factory.mktemp("built")
    place = str(folder / "t")
    base = lance.write_dataset(rows(np.arange(ROWS), draw), place, data_storage_version="2.1")
    base.create_scalar_index("n", "BTREE", name="by_n")
    base.create_scalar_index("text", "INVERTED", name="by_text", with_position=True)
    base.create_index("v", "IVF_PQ", name="by_v", metric="l2", num_partitions=3, num_sub_vectors=2)
    spec, indexes = memwal.bucket("b", "id", REGIONS), ["by_n", "by_text", "by_v"]
    table = memwal.enable(place, revision="R", spec=spec, maintained_indexes=indexes)
    for turn in range(GENERATIONS + 1):
        batch = rows(draw.choice(2 * ROWS, 60, replace=False), draw)
        buckets = table.region_values(batch).column("b").to_numpy()
        for bucket in range(REGIONS):
            own = batch.filter(pa.array(buckets == bucket))
            with table.writer(values={"b": bucket}, background=False) as writer:
                writer.put(own)
                writer.delete(own.slice(0, 1).select(["id"]))
                if turn < GENERATIONS:
                    writer.flush()
    return folder


def far(table: memwal.Table) -> memwal.Table:
    """``table`` as if each request to its store took long."""
    place = table._place
    table._place = replace(place, io=replace(place.io, concurrent=True, files=False))
    return table


def keys(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def in_order(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


def _in_parts(table: memwal.Table) -> list[str]:
    parts = [part for split in table.plan_read(splits=3) for part in table.batches_of(split)]
    return in_order(pa.concat_tables(parts))


READS: dict[str, Callable[[memwal.Table], object]] = {
    "scan": lambda table: in_order(table.scan()),
    "batches": lambda table: in_order(pa.concat_tables(table.batches())),
    "splits": _in_parts,
    "filter without an index": lambda table: in_order(table.scan(filter="m = 3")),
    "filter by an index": lambda table: in_order(table.scan(filter="n = 7")),
    "filter by an index twice": lambda table: in_order(table.scan(filter="n = 7 OR n IS NULL OR n = 2 AND m = 1")),
    "a key": lambda table: in_order(table.get(keys(3))),
    "keys": lambda table: in_order(table.get(keys(*range(0, 2 * ROWS, 3)))),
    "vectors": lambda table: table.search(np.ones(DIMENSION), "v", 9).column("id").to_pylist(),
    "vectors ranked anew": lambda table: table.search(np.ones(DIMENSION), "v", 9, refine_factor=3).to_pylist(),
    "vectors without an index": lambda table: table.search(np.ones(DIMENSION), "v", 9, exact=True).to_pylist(),
    "texts": lambda table: table.search_text("w3 w5", "text", 9, columns=["id"]).to_pylist(),
    "a phrase": lambda table: table.search_text("w3 w5", "text", 9, columns=["id"], phrase=True).to_pylist(),
    "texts, approximately": lambda table: len(table.search_text("w3", "text", 9, approximate=True)),
    "ends of logs": lambda table: sorted(table.log_ends().items()),
    "starts of logs": lambda table: sorted(table.log_starts().items()),
    "backlog": lambda table: list(table.backlog()),
    "what a plan spends": lambda table: "requests" in table.explain(filter="n = 7", analyse=True),
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as large ones, of which parts are asked for."""
    for module in (parts, stored_file):
        monkeypatch.setattr(module, "WHOLE_BYTES", 0)
    monkeypatch.setattr(late, "APART_ROWS", 0)


@pytest.mark.parametrize("remember_bytes", [0, 64 << 20])
@pytest.mark.parametrize("what", READS)
def test_an_answer_is_the_same_whether_requests_are_made_at_once(built: Path, what: str, remember_bytes: int) -> None:
    check_same(built, what, remember_bytes)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("what", READS)
def test_nor_does_the_size_of_files_matter(built: Path, what: str) -> None:
    # Where nothing is kept, pylance opens a file before what is taken of it is there, and has all of a tiny one then.
    check_same(built, what, 64 << 20)


def check_same(built: Path, what: str, remember_bytes: int) -> None:
    """`READS` answer the same whether requests are made at once."""
    read = READS[what]
    near = memwal.open(built / "t", remember_bytes=remember_bytes)
    table = far(memwal.open(built / "t", remember_bytes=remember_bytes))
    for _ in range(OFTEN if remember_bytes else 1):
        assert read(table) == read(near)
    assert not [each for each in threading.enumerate() if each.name == "memwal"], "all coroutines have ended"


class Meeting:
    """A store in which the first request of each of ``count`` objects that ``fits`` waits for those of the others."""

    def __init__(self, store: Store, fits: Callable[[StoreRequest[Any]], bool], count: int) -> None:
        self.store, self.fits, self.count = store, fits, count
        self.met = threading.Barrier(count, timeout=PATIENCE_S)
        self.came = set[str]()
        self.asked = list[str]()
        """Of each request that fits, in order, the object."""
        self.lock = threading.Lock()

    def perform(self, request: StoreRequest[Any]) -> Any:
        with self.lock:
            fits = self.fits(request)
            is_first = fits and request.path not in self.came and len(self.came) < self.count
            self.asked += [request.path] if fits else []
            if is_first:
                self.came.add(request.path)
        if is_first:
            self.met.wait()
        return self.store.perform(request)

    def describe(self) -> str:
        return "meeting"

    def close(self) -> None:
        self.store.close()


def _of(kind: type[StoreRequest[Any]] | tuple[type[StoreRequest[Any]], ...], *parts: str) -> Any:
    return lambda request: isinstance(request, kind) and all(part in f"{request.path}/" for part in parts)


EVERY = REGIONS * GENERATIONS
MANIFESTS = "manifests of regions", _of(Get, "version_hint"), REGIONS
TABLES = "tables of generations", _of(List, "_gen_", "_versions/"), EVERY
TAILS = "ends of WALs", _of(Get, "/wal/"), REGIONS
DATA = "rows of generations", _of(Get, "_gen_", "/data/"), EVERY
MEETINGS = (
    ("scan", *MANIFESTS), ("scan", *TABLES), ("filter without an index", *TABLES), ("filter by an index", *TABLES),
    ("vectors", *TABLES), ("texts", *TABLES), ("scan", *TAILS), ("scan", *DATA), ("batches", *DATA),
    ("filter without an index", *DATA), ("splits", *DATA[:2], GENERATIONS),
    ("filter by an index", "btrees", _of((Get, Head), "_gen_", "page_data"), EVERY),
    ("filter by an index twice", "btrees", _of((Get, Head), "_gen_", "page_data"), EVERY),
    ("filter by an index twice", *DATA),
    ("filter by an index", "filters", _of(Get, "bloom_filter"), EVERY),
    ("vectors", "codes", _of((Get, Head), "_gen_", "auxiliary"), EVERY),
    ("texts", "documents", _of((Get, Head), "_gen_", "part_0_docs"), EVERY),
    ("texts", *DATA),
    ("keys", "filters", _of(Get, "bloom_filter"), EVERY),
    ("a key", "filters", _of(Get, "bloom_filter"), GENERATIONS),
    ("ends of logs", "entries", _of(Head, "/wal/"), REGIONS),
    ("starts of logs", "entries", _of(List, "/wal"), REGIONS),
    ("backlog", "entries", _of(Head, "/wal/"), REGIONS),
    ("backlog", *TABLES),
    ("splits", "entries", _of(Head, "/wal/"), REGIONS),
)  # fmt: skip


@pytest.mark.parametrize(("what", "of", "fits", "count"), MEETINGS, ids=[f"{each[0]}-{each[1]}" for each in MEETINGS])
def test_what_does_not_need_each_other_is_asked_at_once(
    built: Path, what: str, of: str, fits: Callable[[StoreRequest[Any]], bool], count: int
) -> None:
    store = Meeting(LocalStore(built), fits, count)
    READS[what](far(memwal.open("t", store=store, remember_bytes=64 << 20)))
    assert len(store.came) == count, of


LARGE = ("filter without an index", "filter by an index twice", "keys")


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("what", LARGE)
def test_also_of_large_generations(built: Path, what: str) -> None:
    """That is, of those of which some rows are taken."""
    _, fits, count = DATA
    store = Meeting(LocalStore(built), fits, count)
    READS[what](far(memwal.open("t", store=store, remember_bytes=64 << 20)))
    assert len(store.came) == count


@pytest.mark.usefixtures("large")
def test_a_full_scan_reads_large_generations_once_each_time(built: Path) -> None:
    """Where requests are made at once as where they are not: their rows are not kept."""
    asked = list[list[str]]()
    for change in (far, lambda table: table):
        store = Meeting(LocalStore(built), DATA[1], 1)
        table = change(memwal.open("t", store=store, remember_bytes=64 << 20))
        for _ in range(2):
            store.asked.clear()
            table.scan()
            asked.append(sorted(store.asked))
    assert asked[:2] == asked[2:]
    assert len(set(asked[1])) == EVERY


def copied(built: Path) -> MemoryStore:
    found = MemoryStore()
    for file in filter(Path.is_file, built.rglob("*")):
        found.objects[file.relative_to(built).as_posix()] = file.read_bytes()
    return found


@pytest.mark.parametrize("of", [MANIFESTS, ("tables of generations", TABLES[1], REGIONS)], ids=lambda of: of[0])
@pytest.mark.clause("AMB-150")
def test_a_merge_reads_all_regions_of_a_commit_at_once(built: Path, of: Any) -> None:
    _, fits, count = of
    one, several = copied(built), copied(built)
    memwal.open("t", store=one).merge()
    store = Meeting(several, fits, count)
    done = far(memwal.open("t", store=store)).merge()
    assert len(store.came) == count
    assert (len(done.merged), done.commits) == (EVERY, GENERATIONS)
    assert in_order(memwal.open("t", store=one).scan()) == in_order(memwal.open("t", store=several).scan())


def test_a_generation_that_is_lost_is_told_as_by_a_read_of_one_after_another(built: Path) -> None:
    store = copied(built)
    lost = next(name for name in sorted(store.objects) if "_gen_" in name).rpartition("_gen_")[0]
    for name in [name for name in store.objects if name.startswith(lost)]:
        del store.objects[name]
    for table in (memwal.open("t", store=store), far(memwal.open("t", store=store))):
        with pytest.raises(ArtifactError, match="it is gone"):
            table.scan()
    assert not [each for each in threading.enumerate() if each.name == "memwal"]


@pytest.mark.parametrize("remember_bytes", [0, 64 << 20])
def test_a_generation_that_is_not_needed_may_be_lost(built: Path, remember_bytes: int) -> None:
    """What is read ahead of it fails, and is told to those only who want its rows."""
    store = copied(built)
    for name in [name for name in store.objects if "_gen_1/data/" in name]:
        del store.objects[name]
    near, away = (memwal.open("t", store=store, remember_bytes=remember_bytes) for _ in range(2))
    for table in (near, far(away)):
        assert table.scan(limit=5).num_rows == 5
        with pytest.raises(ArtifactError, match="not there"):
            table.scan()


@pytest.mark.parametrize("waiting", [False, True])
def test_calls_inside_of_calls_are_together_as_busy_as_one(waiting: bool) -> None:
    """Also where those outside wait for the one that makes them."""
    turn, begun, most, before = Turn(), 0, 0, threading.active_count()

    class Threaded(Meeting):
        def perform(self, request: StoreRequest[Any]) -> Any:
            nonlocal most
            most = max(most, threading.active_count() - before)
            return super().perform(request)

    async def several(first: int) -> list[tuple[str, ...]]:
        nonlocal begun
        begun += 1
        reads = [partial(FAR.list, f"{first}/{number}") for number in range(MOST_CONCURRENT)]
        if not waiting:
            return await concurrently(FAR, reads)
        await until(lambda: begun >= MOST_CONCURRENT)
        async with turn:
            return await concurrently(FAR, reads)

    async def every() -> int:
        return len(await concurrently(FAR, [partial(several, number) for number in range(2 * MOST_CONCURRENT)]))

    # Requests wait for each other, so that half as many as may be are made at once.
    store = Threaded(MemoryStore(), _of(List), MOST_CONCURRENT // 2)
    assert Threads(store).run(every()) == 2 * MOST_CONCURRENT
    assert len(store.came) == MOST_CONCURRENT // 2
    assert most <= 2 * MOST_CONCURRENT


def test_of_several_failures_the_first_is_raised_and_nothing_more_begins() -> None:
    begun = list[int]()

    async def read(number: int) -> int:
        begun.append(number)
        await FAR.list("")
        if number in (3, 7):
            raise InvalidArgument(f"number {number}")
        return number

    async def numbers(count: int) -> list[int]:
        return await concurrently(FAR, [partial(read, number) for number in range(count)])

    threads = Threads(MemoryStore())
    assert threads.run(numbers(3)) == [0, 1, 2]
    assert threads.run(numbers(0)) == []
    begun.clear()
    with pytest.raises(InvalidArgument, match=r"number [37]"):
        threads.run(numbers(5 * MOST_CONCURRENT))
    assert len(begun) <= 2 * MOST_CONCURRENT
    with pytest.raises(InvalidArgument, match="number 3"):
        drive(numbers(9), MemoryStore(), concurrent=True)


@pytest.mark.parametrize("changed", ["a", "b", "c", "stamps"])
def test_what_coroutines_read_belongs_to_what_is_being_worked_out(changed: str) -> None:
    """Also what one of them has from a reader before, what is not there, and that the store does not tell."""
    io, memory, objects = replace(FAR, remembers=True), ReadMemory(1 << 20), MemoryStore({"a": b"1", "b": b"2"})
    # None of them waits for the store before all of them do.
    store = Meeting(Untold(objects) if changed == "stamps" else objects, lambda request: True, 3)

    async def read(name: str) -> bytes:
        try:
            return await remembered(io, name, partial(io.get, name), len)
        except NotFound:
            return b"none"

    async def joined() -> bytes:
        made.append(1)
        return b" ".join(await concurrently(io, [partial(read, name) for name in "abc"]))

    async def asked() -> bytes:
        return await remembered(io, "joined", joined, len)

    def ask() -> bytes:
        return drive(asked(), store, memory=memory, concurrent=True)

    made = list[int]()
    drive(read("b"), objects, memory=memory)
    assert [ask(), ask()] == [b"1 2 none"] * 2
    assert len(made) == 1 + (changed == "stamps")
    objects.perform(Put("b" if changed == "stamps" else changed, b"9"))
    assert ask() == {"a": b"9 2 none", "c": b"1 2 9"}.get(changed, b"1 9 none")


class Untold(MemoryStore):
    """A store that does not tell which objects are the same."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.objects = store.objects

    def perform(self, request: StoreRequest[Any]) -> Any:
        if isinstance(request, Stat | Stamped):
            raise InvalidArgument("this is not told")
        return super().perform(request)


class Noting:
    """A store that notes what is read of it, and in which threads."""

    def __init__(self, store: Store) -> None:
        self.store, self.read, self.threads = store, Counter[str](), set[threading.Thread]()

    def perform(self, request: StoreRequest[Any]) -> Any:
        self.threads.add(threading.current_thread())
        if isinstance(request, Get):
            self.read[request.path] += 1
        return self.store.perform(request)

    def describe(self) -> str:
        return "noting"

    def close(self) -> None:
        self.store.close()


@pytest.mark.parametrize("what", READS)
def test_nothing_is_read_by_several_coroutines(built: Path, what: str) -> None:
    one, several = Noting(LocalStore(built)), Noting(LocalStore(built))
    READS[what](memwal.open("t", store=one, remember_bytes=64 << 20))
    READS[what](far(memwal.open("t", store=several, remember_bytes=64 << 20)))
    twice = {path: count for path, count in several.read.items() if count > max(1, one.read[path])}
    assert not twice
    if what == "what a plan spends":
        assert several.threads == {threading.current_thread()}, "one request after another is measured"


@pytest.mark.parametrize("asked", [{}, {"filter": "m = 3"}, {"filter": "n = 7"}, {"keys": keys(3)}], ids=str)
def test_a_plan_that_is_not_run_asks_for_no_more(built: Path, asked: dict[str, Any]) -> None:
    one, several = Noting(LocalStore(built)), Noting(LocalStore(built))
    tables = memwal.open("t", store=one), far(memwal.open("t", store=several))
    near, plan = (table.explain(**asked) for table in tables)
    assert plan == near
    assert several.read == one.read


def test_what_is_asked_of_all_generations_as_one_is_made_once(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, made, looked = far(memwal.open(built / "t", remember_bytes=64 << 20)), list[str](), list[int]()
    join, open_own = indexes_above._joined, Neighbours._open

    async def joining(io: Io, above: Above, leaf: Compare) -> Any:
        made.append(leaf.column)
        return await join(io, above, leaf)

    async def opening(source: Neighbours) -> None:
        looked.append(1)
        await open_own(source)

    monkeypatch.setattr(indexes_above, "_joined", joining)
    monkeypatch.setattr(Neighbours, "_open", opening)
    for _ in range(2 * OFTEN):
        READS["filter by an index twice"](table)
        looked.clear()
        READS["vectors"](table)
    assert sorted(made) == ["m", "n"], "of each column, however many comparisons there are"
    assert len(looked) <= 1 + REGIONS, "of the base, and of what is in no index"


@pytest.mark.parametrize("size", [90, 41, 40])
def test_a_large_part_of_a_file_comes_in_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """With the same bytes, or the same end of a file that is cut."""
    monkeypatch.setattr(reading, "_LARGE_BYTES", 1)
    monkeypatch.setattr(reading, "_PIECE_BYTES", 4)
    wanted, store = [(0, 10), (20, 25), (60, 0), (61, 8)], Noting(MemoryStore({"f": bytes(range(size))}))
    whole = [(at, bytes(range(at, at + length))) for at, length in wanted]
    for io, requests in [(replace(FAR, concurrent=False), 3), (FAR, 3 + 7 + 2)]:
        store.read.clear()

        def read(io: Io = io) -> list[tuple[int, bytes]]:
            pieces = drive(reading.parts(io, "f", wanted, 90), store, concurrent=io.concurrent)
            return [(at, bytes(data)) for at, data in pieces]

        if size == 90:
            assert read() == whole
            assert store.read["f"] == requests
        else:
            with pytest.raises(ArtifactError, match=f"ends at byte {size},"):
                read()


@pytest.mark.parametrize(("url", "is_far"), [("s3://b/t", True), ("gs://b/t", True), ("memory://m/t", False)])
def test_requests_are_made_at_once_to_buckets(url: str, is_far: bool) -> None:
    options = {"aws_region": "x"} if url.startswith("s3") else {"google_skip_signature": "true"}
    place = find(url, options if is_far else None, None, None, "strict")
    assert place.io.concurrent == is_far
    assert find("t", None, None, None, "strict").io.concurrent is False
