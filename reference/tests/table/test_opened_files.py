"""Large files that the store opens: the native reader reads them where they lie, and gives what their parts give."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import data_file, scratch
from memwal.drive import drive
from memwal.effects import Get, Io, Open, StoreRequest
from memwal.errors import ArtifactError, NotFound, StorageError
from memwal.keys import Mask
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.stores.memory import MemoryStore
from memwal.table import late, read, stored_file, stored_index
from memwal.table.late import RowChoice, Stage
from memwal.table.state import TableState, latest

from ..kit.maintained_scene import Base
from ..kit.maintained_scene import rows as indexed_rows
from .test_taken_rows import ROWS, columns

pytestmark = pytest.mark.skipif(not scratch.READS_OPENED, reason="this system has no names for open files")

PATIENCE_S = 60
PARTS = Io(interpretation=STRICT)
WHOLE = replace(PARTS, files=True)


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is small enough to be read as a whole."""
    monkeypatch.setattr(stored_file, "OPENED_BYTES", 0)
    for module in (stored_file, stored_index):
        monkeypatch.setattr(module, "WHOLE_BYTES", 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[StoreRequest[Any]]:
    """What any local store is asked for."""
    found: list[StoreRequest[Any]] = []
    perform = LocalStore.perform

    def performing(store: LocalStore, request: StoreRequest[Any]) -> Any:
        found.append(request)
        return perform(store, request)

    monkeypatch.setattr(LocalStore, "perform", performing)
    return found


def stays_open(folder: Path) -> list[str]:
    """The files below ``folder`` that this process holds open, once the native reader's threads have closed theirs."""
    ends = time.monotonic() + PATIENCE_S
    while (found := open_in(folder)) and time.monotonic() < ends:
        time.sleep(0.01)
    return found


def open_in(folder: Path) -> list[str]:
    """The files below ``folder`` that this process holds open now."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue  # the one by which the folder was listed
    return [name for name in found if name.startswith(f"{folder.resolve()}/")]


@pytest.mark.usefixtures("all_large")
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.clause("FORMAT-016", "FORMAT-022", "FORMAT-035")
def test_rows_of_a_file_that_the_store_opens_are_those_of_its_parts(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch, asked: list[StoreRequest[Any]]
) -> None:
    monkeypatch.setattr(read, "FETCH_BYTES", 8 << 20)
    monkeypatch.setattr(late, "APART_ROWS", 0)
    monkeypatch.setattr(late, "GATHERED_ROWS", 8)
    for rows in ("FIRST_ROWS", "BATCH_ROWS"):
        monkeypatch.setattr(read, rows, 4_000)
    every = pa.table({name: values for name, values in columns().items() if version != "2.0" or name != "structs"})
    lance.write_dataset(every, str(tmp_path), data_storage_version=version).delete("ascending IN (0, 17, 20000)")
    picked = np.unique(np.random.default_rng(5).integers(0, ROWS, 60)).astype(np.uint64)

    async def chosen(io: Io, state: TableState, *, backwards: bool) -> pa.Table:
        # Some lie apart, and some close together.
        stage = Stage(columns=("ascending",), mask=lambda rows: _wanted(rows.column("ascending").to_numpy()))
        choice, (fragment,), names = RowChoice(stages=(stage,), few=True), state.fragments, every.schema.names
        batches = late.chosen_batches(io, state, fragment, names, choice, backwards=backwards)
        return pa.concat_tables([batch async for batch in batches])

    def _wanted(numbers: np.ndarray[Any, Any]) -> Mask:
        found: Mask = (numbers % 997 == 3) | ((numbers > 5_000) & (numbers < 5_100) & (numbers % 3 == 0))
        return found

    found: list[list[pa.Table]] = []
    for io in (PARTS, WHOLE):
        store = LocalStore(tmp_path)
        asked.clear()
        state = drive(latest(io), store)
        (fragment,) = state.fragments
        found.append(
            [
                drive(read.scan(io, state), store),
                drive(read.scan(io, state, ["texts", "lists"]), store),
                drive(read.take(io, state, fragment, every.schema.names, picked), store),
                drive(chosen(io, state, backwards=False), store),
                drive(chosen(io, state, backwards=True), store),
            ]
        )
        opens = [each for each in asked if isinstance(each, Open)]
        bytes_given = sum(len(store.perform(each)) for each in [*asked] if isinstance(each, Get))
        assert bool(opens) is io.files
        assert (bytes_given < every.nbytes / 4) is io.files
        assert stays_open(tmp_path) == []
    assert found[0] == found[1]


def ground(place: Path) -> memwal.Table:
    """A table with rows in its base, in generations and in a WAL."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("n", pa.int64())])

    def rows(first: int, count: int, name: str) -> pa.Table:
        numbers = range(first, first + count)
        return pa.table({"id": numbers, "v": [name * (n % 40) for n in numbers], "n": numbers}, schema=schema)

    table = memwal.create(str(place), schema, primary_key=["id"], revision="B")
    table.base.append(rows(0, 20_000, "b"))
    with table.writer() as writer:
        for generation in range(2):
            writer.put(rows(generation * 500, 1_000, f"g{generation}"))
            writer.flush()
        writer.put(rows(30_000, 5, "w"))
    return table


READS: dict[str, Callable[[memwal.Table], Any]] = {
    "scan": lambda table: table.scan().sort_by("id"),
    "filter": lambda table: table.scan(filter="n % 101 = 7").sort_by("id"),
    "batches": lambda table: pa.concat_tables(table.batches()).sort_by("id"),
    "get": lambda table: table.get(pa.table({"id": [3, 700, 19_999, 30_001]})).sort_by("id"),
    "one after another": lambda table: [table.get(pa.table({"id": [key]})) for key in range(0, 20_000, 1_500)],
    "splits": lambda table: pa.concat_tables(
        [batch for split in table.plan_read(splits=3) for batch in table.batches_of(split)]
    ).sort_by("id"),
}


@pytest.mark.usefixtures("all_large")
@pytest.mark.parametrize("remember_bytes", [0, None])
@pytest.mark.parametrize("name", READS)
def test_a_read_opens_files_gives_the_same_as_one_through_requests_and_holds_none_open(
    tmp_path: Path, name: str, remember_bytes: int | None, asked: list[StoreRequest[Any]]
) -> None:
    ground(tmp_path / "t")
    wanted = READS[name](memwal.open("t", store=LocalStore(tmp_path)))
    assert not [each for each in asked if isinstance(each, Open)]
    table = memwal.open(str(tmp_path / "t"), remember_bytes=remember_bytes)
    for _ in range(3):
        assert READS[name](table) == wanted
        assert stays_open(tmp_path) == []
    if name != "one after another" or remember_bytes == 0:
        of_generations = ["_gen_" in each.path for each in asked if isinstance(each, Open)]
        assert {True, False} <= {*of_generations} or name == "filter"


@pytest.mark.parametrize("whole_bytes", [0, stored_file.WHOLE_BYTES])
def test_threads_may_share_a_table_and_each_read_gives_what_it_gives_alone(
    tmp_path: Path, whole_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_file, "WHOLE_BYTES", whole_bytes)
    ground(tmp_path / "t")
    wanted = {name: read(memwal.open(tmp_path / "t")) for name, read in READS.items()}
    shared, ready = memwal.open(tmp_path / "t"), threading.Barrier(len(READS))

    def reading(name: str) -> None:
        ready.wait()
        for _ in range(5):
            assert READS[name](shared) == wanted[name], name

    with ThreadPoolExecutor(len(READS)) as threads:
        list(threads.map(reading, READS))


@pytest.mark.usefixtures("all_large")
def test_index_files_are_opened_too_and_their_answers_are_those_of_their_parts(
    base: Base, asked: list[StoreRequest[Any]]
) -> None:
    memwal.enable(base.place, revision="A", maintained_indexes=["flat", "pq", "inverted", "btree"])
    asked.clear()

    def answers(table: memwal.Table) -> list[pa.Table]:
        return [
            table.search([9.0] * 4, "vf", 5),
            table.search([9.0] * 4, "vp", 5),
            table.search_text("fox", "text", 5),
            table.scan(filter="price < 20").sort_by("id"),
            table.merge() and table.get(indexed_rows([3, 7]).select(["id"])).sort_by("id"),
        ]

    wanted = answers(memwal.open(base.place.name, store=LocalStore(base.place.parent)))
    assert not [each for each in asked if isinstance(each, Open)]
    assert answers(memwal.open(base.place, remember_bytes=0)) == wanted
    opened = [each.path for each in asked if isinstance(each, Open)]
    for kind in ("data/", "/auxiliary.idx", "_invert.lance", "/page_data.lance"):
        assert [path for path in opened if kind in path], kind
    assert stays_open(base.place) == []


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def damaged() -> Iterator[tuple[str, Callable[[Path], object]]]:
    """What may happen to a file after its table manifest was written."""
    yield "gone", lambda path: path.unlink()
    yield "cut", lambda path: path.write_bytes(path.read_bytes()[:-100])
    yield "longer", lambda path: path.write_bytes(path.read_bytes() + b"more")
    yield "a folder", _a_folder
    yield "other bytes", lambda path: path.write_bytes(os.urandom(path.stat().st_size))


@pytest.mark.usefixtures("all_large")
@pytest.mark.clause("FORMAT-018", "FORMAT-024")
def test_what_is_wrong_with_a_file_is_the_same_error_whoever_reads_its_bytes(tmp_path: Path) -> None:
    place = tmp_path / "t"
    ground(place)
    (path,) = (place / "data").iterdir()
    whole, wanted = path.read_bytes(), memwal.open(place).scan().sort_by("id")
    for name, damage in damaged():
        damage(path)
        said: list[object] = []
        for table in (memwal.open("t", store=LocalStore(tmp_path)), memwal.open(place)):
            for _ in range(2):
                try:
                    said.append(table.scan().sort_by("id"))
                except ArtifactError as error:
                    said.append((error.clause, error.path.removeprefix("t/"), error.offset))
        assert said == said[:1] * 4, name
        if name == "longer":
            assert said[0] == wanted  # the table manifest says where it ends
        else:
            assert isinstance(said[0], tuple)
            assert said[0][1] == f"data/{path.name}", name
        if path.is_dir():
            path.rmdir()
        path.write_bytes(whole)


@pytest.mark.usefixtures("all_large")
@pytest.mark.clause("FORMAT-018")
def test_a_file_that_goes_between_its_layout_and_its_rows_is_missed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground(tmp_path / "t")
    (path,) = (tmp_path / "t" / "data").iterdir()
    table = memwal.open(tmp_path / "t")
    table.scan()  # its layout is kept from now on

    perform = LocalStore.perform

    def performing(store: LocalStore, request: StoreRequest[Any]) -> Any:
        if isinstance(request, Open):
            path.unlink(missing_ok=True)
        return perform(store, request)

    monkeypatch.setattr(LocalStore, "perform", performing)
    with pytest.raises(ArtifactError, match=f"{path.name}: the table manifest names this file, and it is not there"):
        table.scan()


@pytest.mark.usefixtures("all_large")
def test_an_open_file_is_read_to_its_end_though_it_is_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "FIRST_ROWS", 1_000)
    monkeypatch.setattr(read, "BATCH_ROWS", 1_000)
    ground(tmp_path / "t")
    (path,) = (tmp_path / "t" / "data").iterdir()
    wanted = memwal.open(tmp_path / "t").scan().sort_by("id")
    assert stays_open(tmp_path) == [], "pylance closes files a little later: one that is open now is of the next read"
    found = []
    for batch in memwal.open(tmp_path / "t").batches():
        found.append(batch)
        if len(open_in(tmp_path / "t" / "data")) and path.exists():
            path.unlink()
    assert not path.exists()
    assert pa.concat_tables(found).sort_by("id") == wanted
    assert stays_open(tmp_path) == []


@pytest.mark.usefixtures("all_large")
def test_a_plan_that_is_measured_makes_each_read_a_request_that_is_counted(
    tmp_path: Path, asked: list[StoreRequest[Any]]
) -> None:
    ground(tmp_path / "t")
    table = memwal.open(tmp_path / "t")
    size = sum(path.stat().st_size for path in (tmp_path / "t" / "data").iterdir())
    asked.clear()
    tree = table.explain(columns=["v"], analyse=True, form="json")
    assert not [each for each in asked if isinstance(each, Open)]
    assert sum(map(int, re.findall(r'"bytes_read": (\d+)', tree))) > size / 4
    assert "Open" not in tree


def test_a_file_that_the_store_opened_is_a_file_of_its_bytes_for_a_decoder(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    data = data_file.encode(rows)
    store = LocalStore(tmp_path)
    (tmp_path / "a").write_bytes(data)
    file = store.perform(Open("a", len(data)))
    with data_file.Decoder(scratch.OpenFile(file), len(data), "a") as decoder:
        assert (decoder.opened, decoder.read()) == (True, rows)
        with pytest.raises(AssertionError):
            decoder.add([(0, b"x")])
    assert file.closed
    assert (tmp_path / "a").read_bytes() == data
    (tmp_path / "b").write_bytes(b"none of that" * 50)
    with pytest.raises(ArtifactError):
        data_file.Decoder(scratch.OpenFile(store.perform(Open("b", 600))), 600, "b")
    assert stays_open(tmp_path) == []


def test_only_who_hands_over_no_store_has_files_opened(tmp_path: Path) -> None:
    ground(tmp_path / "t")
    assert memwal.open(tmp_path / "t")._io.files
    assert memwal.open(f"file://{tmp_path}/t")._io.files
    assert not memwal.open("t", store=LocalStore(tmp_path))._io.files
    # A store that stands before another one may not know the request.
    assert drive(WHOLE.open("t/x", 1), MemoryStore({"t/x": b"x"})) is None


def test_what_a_store_does_not_open_it_does_not_hold_open(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "a").write_bytes(b"four")
    (tmp_path / "folder").mkdir()
    assert store.perform(Open("a", 3)) is None
    for name in ("folder", "b"):
        with pytest.raises(NotFound):
            store.perform(Open(name, 3))
    assert open_in(tmp_path) == []


def test_a_file_that_the_system_does_not_open_is_an_error_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"four")

    def refused(*_: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StorageError, match="EMFILE"):
        LocalStore(tmp_path).perform(Open("a", 4))
