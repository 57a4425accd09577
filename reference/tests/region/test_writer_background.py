"""A writer's background: a generation is written while puts continue, in order, within limits; nothing fails unheard.

No test waits for time to pass: a store holds chosen requests until the test lets them go, and says when one arrives.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import memwal
import pytest
from memwal.coroutines import Turn
from memwal.effects import PutIfAbsent
from memwal.errors import CloseFailed, Fenced, StorageError, WriterStopped
from memwal.ids import Milliseconds
from memwal.region.limits import Limits
from memwal.stores.local import LocalStore

from ..kit.writer_scene import SCHEMA, pairs, rows

PATIENCE_S = 60
"""Longest wait for what has to happen; only a failing test waits that long."""


class Gate:
    """Holds creates of objects whose names contain a text, once each is asked for, until it is opened."""

    def __init__(self, part: str, failure: Exception | None = None) -> None:
        self.part, self.failure = part, failure
        self.reached = threading.Event()
        self.opened = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE_S), f"nobody opened the gate before {self.part}"
        if self.failure is not None:
            raise self.failure

    def arrive(self) -> None:
        """Wait until a request stands before the gate."""
        assert self.reached.wait(PATIENCE_S), f"no request for {self.part} came"


class Gated:
    """A local directory whose creates have to pass gates."""

    def __init__(self, root: Path) -> None:
        self.inner = LocalStore(root)
        self.gates: list[Gate] = []
        self.created: list[str] = []

    def gate(self, part: str, failure: Exception | None = None) -> Gate:
        self.gates.append(Gate(part, failure))
        return self.gates[-1]

    def perform(self, request: Any) -> Any:
        if isinstance(request, PutIfAbsent):
            for gate in self.gates:
                if gate.part in request.path:
                    gate.pass_through()
        result = self.inner.perform(request)
        if isinstance(request, PutIfAbsent):
            self.created.append(request.path)
        return result

    def describe(self) -> str:
        return "gated"

    def close(self) -> None:
        for gate in self.gates:
            gate.opened.set()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Gated]:
    gated = Gated(tmp_path)
    yield gated
    gated.close()
    for thread in ours():
        thread.join(PATIENCE_S)
    assert ours() == []


@pytest.fixture
def table(store: Gated, revision: str) -> memwal.Table:
    return memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, store=store)


def ours() -> list[threading.Thread]:
    """Threads of writers."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("memwal")]


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[BaseException | None]]:
    """Run ``call`` in a thread; the list gets its failure, or None, at its end."""
    ended: list[BaseException | None] = []

    def body() -> None:
        try:
            call()
            ended.append(None)
        except memwal.MemwalError as failure:
            ended.append(failure)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread, ended


class Queue(Turn):
    """Takes the place of a turn of the writer; ``complete`` is set when so many asked for it."""

    def __init__(self, writer: memwal.Writer, turn: str, wanted: int) -> None:
        super().__init__()
        self.wanted, self.arrivals = wanted, itertools.count(1)
        self.complete = threading.Event()
        setattr(writer._writer, turn, self)

    async def __aenter__(self) -> None:
        if next(self.arrivals) == self.wanted:
            self.complete.set()
        await super().__aenter__()


def waiting(writer: memwal.Writer) -> threading.Event:
    """An event that is set when a call begins to wait for the writer to change."""
    event, wait = threading.Event(), writer._threads.changed.wait

    def noted(timeout: float | None = None) -> bool:
        if timeout is None:
            event.set()
        return wait(timeout)

    writer._threads.changed.wait = noted  # type: ignore[method-assign]
    return event


def flushed(table: memwal.Table) -> list[int]:
    manifest = table.regions()[0].manifest
    assert manifest is not None
    return [g.generation for g in manifest.flushed]


@pytest.mark.clause("WRITER-001", "WRITER-012", "FLUSH-001", "AMB-41", "AMB-117")
def test_puts_go_on_while_a_generation_is_written_and_readers_see_every_row(store: Gated, table: memwal.Table) -> None:
    gate = store.gate("_gen_1/_versions")
    writer = table.writer(limits=Limits(memtable_rows=2))
    writer.put(rows((1, "a"), (2, "a")))
    gate.arrive()
    for number in (3, 4, 5):
        writer.put(rows((number, "b")))
    assert writer.frozen == (1, 2)
    assert flushed(table) == []
    assert [(generation, pairs(held.select(["id", "v"]))) for generation, held in writer.memory().tables] == [
        (1, [(1, "a"), (2, "a")]),
        (2, [(3, "b"), (4, "b")]),
        (3, [(5, "b")]),
    ]
    expected = [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b")]
    assert sorted(pairs(table.scan(writers=[writer]))) == expected
    assert sorted(pairs(table.scan())) == expected
    gate.opened.set()
    assert writer.flush() == 3
    assert flushed(table) == [1, 2, 3]
    assert sorted(pairs(table.scan(writers=[writer]))) == expected
    writer.close()


@pytest.mark.clause("WRITER-010")
def test_a_put_that_is_not_durable_does_not_wait_for_the_wal_and_a_durable_one_does(
    store: Gated, table: memwal.Table
) -> None:
    writer = table.writer(limits=Limits(wal_rows=2, wal_interval_ms=None))
    gate = store.gate("/wal/")
    writer.put(rows((1, "a"), (2, "a")), durable=False)
    gate.arrive()  # the background stores the first two rows
    writer.put(rows((3, "b")), durable=False)
    assert writer.buffered_rows == 3
    durable, ended = in_thread(lambda: writer.put(rows((4, "c")), durable=True))
    assert ended == []
    gate.opened.set()
    durable.join(PATIENCE_S)
    assert ended == [None]
    assert writer.buffered_rows == 0
    writer.close()
    assert sorted(pairs(table.scan())) == [(1, "a"), (2, "a"), (3, "b"), (4, "c")]


@pytest.mark.clause("WRITER-018", "WRITER-006")
def test_buffered_rows_are_stored_in_the_background_when_they_are_old_enough(store: Gated, table: memwal.Table) -> None:
    writer = table.writer(limits=Limits(wal_interval_ms=Milliseconds(1)))
    gate = store.gate("/wal/")
    writer.put(rows((1, "a")), durable=False)
    gate.arrive()
    gate.opened.set()
    (thread,) = ours() or (None,)
    if thread is not None:
        thread.join(PATIENCE_S)
    assert writer.buffered_rows == 0
    assert pairs(table.scan()) == [(1, "a")]
    writer.close()


@pytest.mark.clause("WRITER-018")
def test_a_put_stores_the_buffer_itself_when_the_background_is_late(store: Gated, table: memwal.Table) -> None:
    gate = store.gate("_gen_1/")
    writer = table.writer(durable=False, limits=Limits(memtable_rows=3, wal_rows=1, wal_interval_ms=None))
    writer.put(rows((1, "a"), (2, "a"), (3, "a")))
    gate.arrive()
    writer.put(rows((4, "b")))
    assert writer.buffered_rows == 1
    writer.put(rows((5, "b")))
    assert writer.buffered_rows == 0
    gate.opened.set()
    writer.close()


@pytest.mark.clause("AMB-41", "FLUSH-001")
@pytest.mark.parametrize(
    "limits",
    [
        Limits(memtable_rows=1, frozen_memtables=2),
        Limits(memtable_rows=1, memtable_bytes=20, unflushed_bytes=40, frozen_memtables=9),
    ],
)
def test_a_put_waits_while_too_much_is_frozen_and_goes_on_when_it_is_flushed(
    store: Gated, table: memwal.Table, limits: Limits
) -> None:
    gate = store.gate("_gen_1/_versions")
    writer = table.writer(limits=limits)
    writer.put(rows((1, "four")))
    gate.arrive()
    writer.put(rows((2, "four")))
    waits = waiting(writer)
    third, ended = in_thread(lambda: writer.put(rows((3, "four"))))
    assert waits.wait(PATIENCE_S)
    assert ended == []
    assert writer.frozen == (1, 2)
    gate.opened.set()
    third.join(PATIENCE_S)
    assert ended == [None]
    writer.close()
    assert sorted(pairs(table.scan())) == [(1, "four"), (2, "four"), (3, "four")]


@pytest.mark.clause("AMB-41")
def test_without_a_background_the_put_that_reaches_the_limit_flushes(table: memwal.Table) -> None:
    writer = table.writer(background=False, limits=Limits(memtable_rows=2))
    writer.put(rows((1, "a")))
    assert flushed(table) == []
    writer.put(rows((2, "b")))
    assert flushed(table) == [1]
    assert (writer.frozen, writer.rows) == ((), 0)
    assert ours() == []
    writer.close()


@pytest.mark.clause("AMB-41")
def test_without_a_background_the_puts_of_other_threads_wait_for_the_one_that_flushes(
    store: Gated, table: memwal.Table
) -> None:
    gate = store.gate("_gen_1/_versions")
    writer = table.writer(background=False, limits=Limits(memtable_rows=1, frozen_memtables=1))
    first, first_ended = in_thread(lambda: writer.put(rows((1, "a"))))
    gate.arrive()
    waits = waiting(writer)
    second, second_ended = in_thread(lambda: writer.put(rows((2, "b"))))
    assert waits.wait(PATIENCE_S)
    assert second_ended == []
    gate.opened.set()
    for thread in (first, second):
        thread.join(PATIENCE_S)
    assert (first_ended, second_ended) == ([None], [None])
    assert flushed(table) == [1, 2]
    writer.close()


def test_a_memtable_that_another_thread_froze_meanwhile_is_not_frozen_again(table: memwal.Table) -> None:
    writer = table.writer(limits=Limits(memtable_rows=2))
    writer.put(rows((1, "a")))
    writer._threads.run(writer._writer.freeze_if_due())
    assert (writer.generation, writer.rows, writer.frozen) == (1, 1, ())
    writer.close()


def left_unflushed(store: Gated) -> tuple[memwal.Table, str]:
    """A table of revision R and a region of it, whose writer ended with two MemTables that were never flushed."""
    table = memwal.create("t", SCHEMA, primary_key=["id"], revision="R", store=store)
    gate = store.gate("_gen_1/_versions", StorageError("gen", "disk full"))
    writer = table.writer(limits=Limits(memtable_rows=1))
    writer.put(rows((1, "a")))
    gate.arrive()
    writer.put(rows((2, "b")))
    gate.opened.set()
    with pytest.raises(StorageError):
        writer.close()
    store.gates.clear()
    return table, writer.region_id


@pytest.mark.clause("AMB-17", "AMB-41")
def test_without_a_background_a_put_makes_room_where_recovery_found_more_than_may_wait(store: Gated) -> None:
    table, region = left_unflushed(store)
    writer = table.writer(region, background=False, limits=Limits(frozen_memtables=1))
    assert (writer.frozen, writer.rows) == ((1,), 1)
    put, ended = in_thread(lambda: writer.put(rows((3, "c"))))
    put.join(PATIENCE_S)
    assert ended == [None]
    assert flushed(table) == [1]
    assert sorted(pairs(table.scan(writers=[writer]))) == [(1, "a"), (2, "b"), (3, "c")]
    writer.close()


@pytest.mark.clause("AMB-17", "AMB-41")
def test_the_background_flushes_what_recovery_found_frozen(store: Gated) -> None:
    table, region = left_unflushed(store)
    gate = store.gate("_gen_1/_versions")
    writer = table.writer(region)
    gate.arrive()
    gate.opened.set()
    writer.close()
    assert flushed(table) == [1]


@pytest.mark.clause("AMB-21", "AMB-41")
def test_a_failure_in_the_background_reaches_the_next_call_and_close(store: Gated, table: memwal.Table) -> None:
    gate = store.gate("_gen_1/_versions", StorageError("gen", "disk full"))
    writer = table.writer(limits=Limits(memtable_rows=1))
    writer.put(rows((1, "a")))
    gate.opened.set()
    for thread in ours():
        thread.join(PATIENCE_S)
    with pytest.raises(WriterStopped, match="disk full") as stopped:
        writer.put(rows((2, "b")))
    assert isinstance(stopped.value.__cause__, StorageError)
    with pytest.raises(WriterStopped, match="disk full"):
        writer.memory()
    with pytest.raises(StorageError, match="disk full"):
        writer.close()
    assert flushed(table) == []
    assert pairs(table.scan()) == [(1, "a")]


@pytest.mark.clause("AMB-21", "FENCE-013")
@pytest.mark.parametrize("durable", [True, False])
def test_a_put_that_waits_for_room_is_told_when_the_background_finds_the_writer_fenced(
    store: Gated, table: memwal.Table, durable: bool
) -> None:
    gate = store.gate("_gen_1/_versions")
    writer = table.writer(limits=Limits(memtable_rows=2, frozen_memtables=1))
    writer.put(rows((1, "a"), (4, "d")))
    gate.arrive()
    waits = waiting(writer)
    second, ended = in_thread(lambda: writer.put(rows((2, "b")), durable=durable))
    assert waits.wait(PATIENCE_S)
    successor = table.writer(writer.region_id)
    gate.opened.set()
    second.join(PATIENCE_S)
    (failure,) = ended
    assert isinstance(failure, WriterStopped)
    assert "its epoch is 2" in str(failure)
    with pytest.raises(Fenced):
        writer.close()
    successor.close()
    assert pairs(table.scan()) == [(1, "a"), (4, "d")]


@pytest.mark.clause("AMB-21", "WRITER-006")
@pytest.mark.parametrize("durable", [True, False])
def test_a_put_that_waits_for_room_is_refused_when_the_writer_is_closed_meanwhile(
    store: Gated, table: memwal.Table, durable: bool
) -> None:
    gate = store.gate("_gen_1/_versions")
    writer = table.writer(limits=Limits(memtable_rows=1, frozen_memtables=1, wal_interval_ms=None))
    writer.put(rows((1, "a")))
    gate.arrive()
    waits = waiting(writer)
    second, ended = in_thread(lambda: writer.put(rows((2, "b")), durable=durable))
    assert waits.wait(PATIENCE_S)
    waits.clear()
    closer, closed = in_thread(writer.close)
    assert waits.wait(PATIENCE_S)
    gate.opened.set()
    for thread in (second, closer):
        thread.join(PATIENCE_S)
    (failure,) = ended
    assert isinstance(failure, WriterStopped)
    assert "closed" in str(failure)
    assert closed == [None]
    assert pairs(table.scan()) == [(1, "a")]


@pytest.mark.clause("AMB-21", "AMB-14")
def test_a_put_that_waits_for_the_entry_of_another_is_told_when_that_fails_and_stores_nothing(
    store: Gated, table: memwal.Table
) -> None:
    writer = table.writer(limits=Limits(wal_interval_ms=None))
    gate = store.gate("/wal/", StorageError("wal", "disk full"))
    queue = Queue(writer, "storing", 2)
    first, first_ended = in_thread(lambda: writer.put(rows((1, "a"))))
    gate.arrive()
    second, second_ended = in_thread(lambda: writer.put(rows((2, "b"))))
    assert queue.complete.wait(PATIENCE_S)
    store.gates.clear()
    before = list(store.created)
    gate.opened.set()
    for thread in (first, second):
        thread.join(PATIENCE_S)
    assert [type(failure) for failure in (*first_ended, *second_ended)] == [StorageError, WriterStopped]
    assert "disk full" in str(second_ended[0])
    assert store.created == before
    with pytest.raises(StorageError, match="disk full"):
        writer.close()
    assert table.scan().num_rows == 0


@pytest.mark.clause("AMB-21")
def test_failures_of_both_sides_are_all_named_when_the_writer_is_closed(store: Gated, table: memwal.Table) -> None:
    generation = store.gate("_gen_1/_versions", StorageError("gen", "disk full"))
    writer = table.writer(limits=Limits(memtable_rows=1, wal_interval_ms=None))
    writer.put(rows((1, "a")))
    generation.arrive()
    entry = store.gate("/wal/", StorageError("wal", "permission"))
    put, ended = in_thread(lambda: writer.put(rows((2, "b"))))
    entry.arrive()
    generation.opened.set()
    for thread in ours():
        thread.join(PATIENCE_S)
    entry.opened.set()
    put.join(PATIENCE_S)
    assert isinstance(ended[0], StorageError)
    with pytest.raises(CloseFailed, match=r"disk full.*permission") as closed:
        writer.close()
    assert [str(failure).split(": ")[-1] for failure in closed.value.failures] == ["disk full", "permission"]


def test_a_bug_in_the_background_is_raised_and_not_printed(
    table: memwal.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = table.writer(limits=Limits(memtable_rows=1))

    async def broken(_writer: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(type(writer._writer), "flush_oldest", broken)
    writer.put(rows((1, "a")))
    for thread in ours():
        thread.join(PATIENCE_S)
    with pytest.raises(WriterStopped, match="a bug"):
        writer.put(rows((2, "b")))
    with pytest.raises(ZeroDivisionError):
        writer.close()


@pytest.mark.clause("WRITER-001")
def test_closing_flushes_what_is_frozen_and_ends_the_thread(store: Gated, table: memwal.Table) -> None:
    gate = store.gate("_gen_1/_versions")
    writer = table.writer(limits=Limits(memtable_rows=1))
    writer.put(rows((1, "a")))
    gate.arrive()
    writer.put(rows((2, "b")))
    assert len(ours()) == 1
    assert not ours()[0].daemon
    closing, ended = in_thread(writer.close)
    gate.opened.set()
    closing.join(PATIENCE_S)
    assert ended == [None]
    assert ours() == []
    assert flushed(table) == [1, 2]


@pytest.mark.clause("WRITER-001")
def test_there_is_no_thread_where_there_is_nothing_to_do(table: memwal.Table) -> None:
    writer = table.writer(limits=Limits(wal_interval_ms=None))
    for number in range(3):
        writer.put(rows((number, "durable")))
        writer.put(rows((number, "buffered")), durable=False)
    assert ours() == []
    writer.flush()
    for thread in ours():
        thread.join(PATIENCE_S)
    assert ours() == []
    writer.close()


def test_nothing_is_held_of_backgrounds_that_have_ended_but_of_the_last(table: memwal.Table) -> None:
    writer = table.writer(limits=Limits(memtable_rows=1, wal_interval_ms=None))
    for number in range(3):
        writer.put(rows((number, "a")))
        for thread in ours():
            thread.join(PATIENCE_S)
    assert flushed(table) == [1, 2, 3]
    assert len(writer._threads._spawned) == 1
    writer.close()
    assert not writer._threads._spawned


@pytest.mark.clause("AMB-41")
def test_a_memtable_that_the_background_is_flushing_is_not_flushed_by_anybody_else(
    store: Gated, table: memwal.Table
) -> None:
    gate = store.gate("_gen_1/_versions")
    writer = table.writer(limits=Limits(memtable_rows=1))
    queue = Queue(writer, "flushing", 2)
    writer.put(rows((1, "a")))
    gate.arrive()
    flushing, ended = in_thread(writer.flush)
    assert queue.complete.wait(PATIENCE_S)
    gate.opened.set()
    flushing.join(PATIENCE_S)
    assert ended == [None]
    writer.close()
    assert len([path for path in store.created if path.endswith("_gen_1/bloom_filter.bin")]) == 1


def test_writes_of_many_threads_are_all_stored_each_thread_in_its_order(table: memwal.Table) -> None:
    writer = table.writer(limits=Limits(memtable_rows=20, frozen_memtables=1))

    def write(thread: int) -> None:
        for number in range(15):
            writer.put(rows((thread, str(number)), (100 + thread * 100 + number, "x")), durable=number % 3 > 0)

    threads = [in_thread(lambda thread=thread: write(thread)) for thread in range(4)]  # type: ignore[misc]
    for thread, _ in threads:
        thread.join(PATIENCE_S)
    assert [ended for _, ended in threads] == [[None]] * 4
    writer.close()
    found = dict(pairs(table.scan()))
    assert len(found) == 4 + 4 * 15
    assert [found[thread] for thread in range(4)] == ["14"] * 4


@pytest.mark.clause("AMB-14")
def test_durable_puts_that_wait_for_each_other_share_an_entry(store: Gated, table: memwal.Table) -> None:
    writer = table.writer(limits=Limits(wal_interval_ms=None))
    gate = store.gate("/wal/")
    queue = Queue(writer, "storing", 4)
    first, first_ended = in_thread(lambda: writer.put(rows((1, "a"))))
    gate.arrive()
    others = [in_thread(lambda n=n: writer.put(rows((n, "b")))) for n in (2, 3, 4)]  # type: ignore[misc]
    assert queue.complete.wait(PATIENCE_S)
    assert [ended for _, ended in others] == [[], [], []]
    before = writer.position_next
    gate.opened.set()
    for thread, _ in [(first, first_ended), *others]:
        thread.join(PATIENCE_S)
    assert [ended for _, ended in [(first, first_ended), *others]] == [[None]] * 4
    assert writer.position_next == before + 2
    writer.close()


@pytest.mark.clause("AMB-17", "AMB-43")
def test_writes_wait_while_the_memtable_is_sealed_so_that_sealing_ends(store: Gated, table: memwal.Table) -> None:
    writer = table.writer(durable=False, limits=Limits(wal_interval_ms=None))
    writer.put(rows((1, "old")))
    gate = store.gate("/wal/")
    flushing, _ = in_thread(writer.flush)
    gate.arrive()
    waits = waiting(writer)
    second, ended = in_thread(lambda: writer.put(rows((2, "new"))))
    assert waits.wait(PATIENCE_S)
    assert ended == []
    gate.opened.set()
    flushing.join(PATIENCE_S)
    second.join(PATIENCE_S)
    assert ended == [None]
    assert (writer.generation, writer.rows) == (2, 1)
    writer.close()


def test_a_program_that_never_closes_its_writer_ends_and_loses_nothing_that_was_due(tmp_path: Path) -> None:
    program = f"""
import memwal, pyarrow as pa
schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
table = memwal.create({str(tmp_path / "t")!r}, schema, primary_key=["id"], revision="B")
writer = table.writer(durable=False, limits=memwal.Limits(wal_interval_ms=3_600_000))
writer.put(pa.table([pa.array([1, 2])], schema=schema))
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S, check=False, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert memwal.open(tmp_path / "t").scan().column("id").to_pylist() == [1, 2]
