"""What is kept of stored objects from read to read: it never changes an answer, and never grows beyond its bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.drive import drive
from memwal.effects import Get, GetRanges, Grew, Io, List, PutIfAbsent, Stamped, Stat, StoreRequest, remembered
from memwal.errors import ArtifactError, InvalidArgument, NotFound, Throttled
from memwal.remembered import ReadMemory
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.stores.memory import MemoryStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
IO = Io("", interpretation=STRICT, remembers=True)
MIB = 1 << 20


def rows(first: int, n: int, count: int = 4) -> pa.Table:
    return pa.table({"id": range(first, first + count), "n": [n] * count}, schema=SCHEMA)


def answers(table: memwal.Table) -> list[object]:
    """Of a scan, a filtered scan and a lookup."""
    found = [
        table.scan(),
        table.scan(filter="n >= 3"),
        table.get(pa.table({"id": [0, 5, 7]})),
    ]
    return [sorted(each.to_pylist(), key=lambda row: row["id"]) for each in found]


class Counting:
    """A store that remembers what it was asked for, and the paths that were read from it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.read: list[str] = []
        self.asked: list[StoreRequest[object]] = []

    def perform(self, request: StoreRequest[object]) -> object:
        self.asked.append(request)
        if isinstance(request, Get):
            self.read.append(request.path)
        return self.store.perform(request)

    def describe(self) -> str:
        return "counting"

    def close(self) -> None:
        """Nothing is held."""


class Scene:
    """One table, and two who read it: one keeps what it worked out, the other nothing."""

    def __init__(self) -> None:
        self.store, self.made = MemoryStore(), 0
        self.create(0)

    def create(self, seed: int) -> None:
        """At the same place as before, of which nothing is left."""
        for name in list(self.store.objects):
            del self.store.objects[name]
        spec = memwal.bucket("b", "id", 2)
        self.table = memwal.create("t", rows(0, seed), primary_key=["id"], revision="R", spec=spec, store=self.store)
        if not self.made:
            self.keeping = memwal.open("t", store=self.store, remember_bytes=MIB)
            self.plain = memwal.open("t", store=self.store)
        self.made += 1

    def put(self, seed: int) -> None:
        batch = rows(seed % 7, seed)
        buckets = self.table.region_values(batch).column("b").to_numpy()
        for bucket in range(2):
            part = batch.filter(pa.array(buckets == bucket))
            if part.num_rows:
                with self.table.writer(values={"b": bucket}, background=False) as writer:
                    writer.put(part)
                    if seed % 3:
                        writer.flush()

    def merge(self, _seed: int) -> None:
        self.table.merge()

    def compact(self, _seed: int) -> None:
        memwal.base_table("t", store=self.store).compact()

    def collect(self, _seed: int) -> None:
        self.table.gc(retain_versions=1)


STEPS: dict[str, Callable[[Scene, int], None]] = {
    "put": Scene.put, "merge": Scene.merge, "compact": Scene.compact, "collect": Scene.collect, "create": Scene.create,
}  # fmt: skip


@settings(max_examples=12)
@given(steps=st.lists(st.tuples(st.sampled_from([*STEPS, "put", "put"]), st.integers(0, 9)), min_size=3, max_size=7))
def test_what_is_kept_never_changes_an_answer(steps: list[tuple[str, int]]) -> None:
    scene = Scene()
    for step, seed in steps:
        STEPS[step](scene, seed)
        assert answers(scene.keeping) == answers(scene.plain)
        assert answers(scene.keeping) == answers(scene.plain)


def test_a_second_read_opens_only_what_may_have_changed() -> None:
    store = Counting()
    table = memwal.create("t", rows(0, 1), primary_key=["id"], revision="R", store=store)
    with table.writer(background=False) as writer:
        writer.put(rows(2, 5))
        writer.flush()
    kept = memwal.open("t", store=store, remember_bytes=MIB)
    first = kept.get(rows(3, 0, 1).select(["id"]))
    store.read.clear()
    assert kept.get(rows(3, 0, 1).select(["id"])) == first
    again = [name for name in store.read if name.endswith((".lance", ".bin")) or "/_versions/" in name]
    assert again == [], store.read


def test_generations_are_not_looked_at_in_a_second_read_while_their_region_is_the_same(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    lance.write_dataset(rows(0, 1), place, data_storage_version="2.1").create_scalar_index("n", "BTREE", name="by_n")
    memwal.enable(place, revision="R", maintained_indexes=["by_n"], primary_key=["id"])
    with memwal.open(place).writer(background=False) as writer:
        writer.put(rows(2, 5))
        writer.flush()
    store = Counting()
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        store.store.objects[file.relative_to(tmp_path).as_posix()] = file.read_bytes()
    kept = memwal.open("t", store=store, remember_bytes=MIB)
    first = kept.scan(filter="n = 5")
    assert first.num_rows == 4
    store.asked.clear()
    assert kept.scan(filter="n = 5") == first
    assert [each.path for each in store.asked if "_gen_" in each.path] == []
    with memwal.open("t", store=store).writer(background=False) as writer:
        store.asked.clear()
        assert kept.scan(filter="n = 5") == first, "another manifest, which lists the same generation"
        asked = [(type(each), each.path.rpartition("_gen_")[2]) for each in store.asked if "_gen_" in each.path]
        assert asked == [(Stat, f"1/_versions/{2**64 - 3}.manifest")], "its version 2, with the index"


@pytest.mark.parametrize("remember_bytes", [0, MIB])
def test_a_file_that_is_gone_is_the_same_error_for_who_read_it_before(remember_bytes: int) -> None:
    store = MemoryStore()
    memwal.create("t", rows(0, 1), primary_key=["id"], revision="R", store=store)
    table = memwal.open("t", store=store, remember_bytes=remember_bytes)
    assert table.scan().num_rows == 4
    (name,) = (name for name in store.objects if name.startswith("t/data/"))
    del store.objects[name]
    with pytest.raises(ArtifactError) as raised:
        table.scan()
    assert (raised.value.clause, raised.value.path) == ("FORMAT-018", name)


def counted(name: str, io: Io = IO) -> tuple[Callable[[MemoryStore | LocalStore, ReadMemory], bytes], list[str]]:
    """A protocol step that reads an object through `remembered`; and how often it was made."""
    made: list[str] = []

    async def make() -> bytes:
        made.append(name)
        return await io.get(name)

    def ask(store: MemoryStore | LocalStore, memory: ReadMemory) -> bytes:
        return drive(remembered(io, name, make, len), store, memory=memory)

    return ask, made


def test_what_is_made_of_an_object_is_made_again_when_another_has_its_name() -> None:
    store, memory = MemoryStore({"a": b"one"}), ReadMemory(MIB)
    ask, made = counted("a")
    assert [ask(store, memory), ask(store, memory)] == [b"one", b"one"]
    assert len(made) == 1
    store.objects["a"] = b"two"
    assert ask(store, memory) == b"two"
    del store.objects["a"]
    with pytest.raises(NotFound):
        ask(store, memory)


def test_what_is_made_of_an_open_file_is_made_again_when_another_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memwal.stores.local._TICK_NS", 0)  # files are old enough at once
    store, memory, made = LocalStore(tmp_path), ReadMemory(MIB), list[bytes]()

    async def make() -> bytes:
        file = await IO.open("a", 3)
        assert file is not None
        with file:
            made.append(file.read())
        return made[-1]

    def ask() -> bytes:
        return drive(remembered(IO, "a", make, len), store, memory=memory)

    store.perform(PutIfAbsent("a", b"one"))
    assert [ask(), ask()] == [b"one", b"one"]
    assert len(made) == 1
    (tmp_path / "a").unlink()
    store.perform(PutIfAbsent("a", b"two"))
    assert ask() == b"two"


def test_a_file_that_was_changed_a_moment_ago_is_not_kept(tmp_path: Path) -> None:
    store, memory = LocalStore(tmp_path), ReadMemory(MIB)
    ask, _ = counted("a")
    for number in range(20):
        store.perform(PutIfAbsent("a", b"%d" % (number % 10)))
        assert ask(store, memory) == b"%d" % (number % 10)
        (tmp_path / "a").unlink()


def test_a_driver_that_keeps_nothing_makes_it_each_time() -> None:
    store = MemoryStore({"a": b"one"})
    for io in (IO, Io("", interpretation=STRICT)):
        ask, made = counted("a", io)
        memory = ReadMemory(0 if io.remembers else MIB)
        assert [ask(store, memory), ask(store, memory)] == [b"one", b"one"]
        assert (len(made), len(memory)) == (2, 0)


def test_what_listings_say_is_not_kept() -> None:
    store, memory = MemoryStore({"a/1": b""}), ReadMemory(MIB)

    async def make() -> int:
        return len(await IO.list("a"))

    def ask() -> int:
        return drive(remembered(IO, "listed", make, lambda _: 1), store, memory=memory)

    assert ask() == 1
    store.objects["a/2"] = b""
    assert (ask(), len(memory)) == (2, 0)


def test_what_is_made_of_what_is_kept_depends_on_its_objects_too() -> None:
    store, memory = MemoryStore({"a": b"1", "b": b"2"}), ReadMemory(MIB)

    async def inner() -> bytes:
        return await remembered(IO, "a", lambda: IO.get("a"), len)

    async def outer() -> bytes:
        return await inner() + await IO.get("b")

    def ask() -> bytes:
        return drive(remembered(IO, "both", outer, len), store, memory=memory)

    assert drive(inner(), store, memory=memory) == b"1"
    assert [ask(), ask()] == [b"12", b"12"]
    store.objects["a"] = b"3"
    assert ask() == b"32"


def test_an_object_that_this_run_did_not_look_at_cannot_be_named_as_a_source() -> None:
    store, memory = MemoryStore({"a": b"1"}), ReadMemory(MIB)

    async def made() -> bytes:
        return b"of an older a"

    assert drive(remembered(IO, "x", made, len, of=["a"]), store, memory=memory) == b"of an older a"
    assert len(memory) == 0


def test_what_grows_while_it_is_kept_counts_as_what_it_has_become() -> None:
    store, memory = MemoryStore(dict.fromkeys("abc", b"")), ReadMemory(2500)
    for name in "abc":
        counted(name)[0](store, memory)

    async def grown() -> None:
        await Grew("a", 700)
        await Grew("not kept", 700)

    before = memory.size_bytes
    drive(grown(), store, memory=memory)
    assert (memory.size_bytes, len(memory)) == (before + 700, 3)
    drive(grown(), store, memory=memory)
    assert (memory.size_bytes <= 2500, len(memory)) == (True, 2)


def test_what_refers_to_something_else_that_is_kept_is_asked_for_and_goes_with_it() -> None:
    store, memory = MemoryStore(dict.fromkeys("abcd", b"")), ReadMemory(1700)
    asks = {name: counted(name) for name in "abcd"}
    for name in "abc":
        asks[name][0](store, memory)

    async def referring() -> None:
        await Grew("b", 0, of="a")

    drive(referring(), store, memory=memory)
    for name in "bd":  # with b, a is asked for: c is the longest unused
        asks[name][0](store, memory)
    assert [memory.find(name) is not None for name in "abcd"] == [True, True, False, True]
    store.objects["a"] = b"another"
    asks["a"][0](store, memory)
    assert [memory.find(name) is not None for name in "abcd"] == [True, False, False, True]
    drive(referring(), store, memory=memory)
    asks["b"][0](store, memory)

    async def to_nothing() -> None:
        await Grew("b", 0, of="not kept")

    drive(to_nothing(), store, memory=memory)
    assert (memory.find("b"), memory.size_bytes) == (None, memory.find("a").size_bytes + memory.find("d").size_bytes)


def test_what_is_told_by_one_object_alone_is_kept_though_others_were_listed_and_read() -> None:
    store, memory = MemoryStore({"a": b"1", "b": b"2"}), ReadMemory(MIB)

    async def made() -> tuple[int, bytes]:
        return len(await IO.list()), await IO.get("a") + await IO.get("b")

    def ask() -> tuple[int, bytes]:
        return drive(remembered(IO, "x", made, len, by=lambda _: ["a"]), store, memory=memory)

    assert ask() == (2, b"12")
    store.objects["b"] = b"3"
    assert ask() == (2, b"12")
    store.objects["a"] = b"4"
    assert ask() == (2, b"43")


def test_no_more_is_kept_than_the_bound_and_the_longest_unused_goes_first() -> None:
    store, memory = MemoryStore({name: name.encode() * 100 for name in "abc"}), ReadMemory(1300)
    asks = {name: counted(name) for name in "abc"}
    for name in "abac":
        asks[name][0](store, memory)
        assert memory.size_bytes <= 1300
    assert [len(asks[name][1]) for name in "abc"] == [1, 1, 1]
    for name in "ab":
        asks[name][0](store, memory)
    assert [len(asks[name][1]) for name in "abc"] == [1, 2, 1]
    with pytest.raises(InvalidArgument):
        ReadMemory(-1)


@pytest.mark.parametrize("store", [MemoryStore({"a": b"1"})])
def test_the_stamp_of_an_object_that_is_not_there_is_an_error(store: MemoryStore) -> None:
    assert store.perform(Stat("a")) == store.perform(Stat("a"))
    with pytest.raises(NotFound):
        store.perform(Stat("b"))
    assert store.perform(List("")) == ("a",)


class WithoutStamps(MemoryStore):
    """A store that was written before there were stamps and ranges."""

    def perform(self, request: StoreRequest[Any]) -> Any:
        if isinstance(request, Stamped | Stat | GetRanges):
            raise InvalidArgument(f"stores cannot perform the request {type(request).__name__}")
        return super().perform(request)


def test_of_a_store_that_tells_no_stamps_nothing_is_kept() -> None:
    store, memory = WithoutStamps({"a": b"1"}), ReadMemory(MIB)
    ask, made = counted("a")
    assert [ask(store, memory) for _ in range(2)] == [b"1", b"1"]
    assert (len(made), len(memory)) == (2, 0)


@pytest.mark.parametrize("io", [IO, replace(IO, remembers=False)])
def test_a_store_that_does_not_know_ranges_is_asked_for_one_after_another(io: Io) -> None:
    store, memory = WithoutStamps({"a": b"0123456789"}), ReadMemory(MIB)
    ranges = [(7, 9), (1, 2), (4, 0)]

    def ask(name: str) -> bytes:
        return drive(io.get_ranges(name, ranges), store, memory=memory if io.remembers else None)

    assert ask("a") == b"78912"
    with pytest.raises(NotFound):
        ask("b")
    with pytest.raises(InvalidArgument, match="not an object name"):
        ask("a\0b")


class Throttling(MemoryStore):
    """A store that answers each other read only."""

    reads = 0

    def perform(self, request: StoreRequest[Any]) -> Any:
        self.reads += isinstance(request, Get)
        if isinstance(request, Get) and self.reads % 2:
            raise Throttled(request.path)
        return super().perform(request)


def test_a_read_that_is_throttled_is_repeated_where_things_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    store, memory = Throttling({"a": b"1"}), ReadMemory(MIB)
    ask, made = counted("a")
    assert [ask(store, memory) for _ in range(2)] == [b"1", b"1"]
    store.objects["a"] = b"2"
    assert ask(store, memory) == b"2"
    assert len(made) == 3


def test_what_is_made_of_an_absence_is_kept_until_there_is_an_object() -> None:
    store, memory, made = MemoryStore({}), ReadMemory(MIB), list[bytes]()

    async def make() -> bytes:
        try:
            made.append(await IO.get("a"))
        except NotFound:
            made.append(b"nothing")
        return made[-1]

    def ask() -> bytes:
        return drive(remembered(IO, "a", make, len), store, memory=memory)

    assert [ask(), ask(), made] == [b"nothing", b"nothing", [b"nothing"]]
    store.objects["a"] = b"1"
    assert [ask(), ask(), made] == [b"1", b"1", [b"nothing", b"1"]]
