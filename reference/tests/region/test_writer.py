"""What a writer promises: options, order of its steps, limits, recovery, and what it leaves in the store."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal import invariants, paths
from memwal.effects import Get, PutIfAbsent, StoreRequest, Until
from memwal.errors import InvalidArgument
from memwal.ids import Milliseconds
from memwal.index.opening import _first_other
from memwal.region.limits import Limits, has_room, memtable_due, wal_due
from memwal.region.memtable import size_of
from memwal.region.opening import open_writer
from memwal.region.sequences import PutResult

from ..kit.writer_scene import SCHEMA, UNTIMED, Scene, pairs, rows


@dataclass
class Watched:
    """Indexes of a MemTable that only note what they are given."""

    maintained: tuple[str, ...] = ("by_v",)
    rows: int = 0
    rows_indexed: int = 0
    given: list[pa.Table] = field(default_factory=list)

    def insert(self, added: pa.Table, *, indexed: bool = True) -> None:
        self.given.append(added)
        self.rows += added.num_rows
        if indexed:
            self.refresh()

    def refresh(self) -> None:
        self.rows_indexed = self.rows

    def successor(self, _maintained: Any = None) -> Watched:
        return Watched(self.maintained)


def watched(there: Scene, **options: Any) -> Any:
    """A writer whose MemTable keeps `Watched` indexes."""
    writer = there.open(**options)
    writer.memtable = replace(writer.memtable, indexes=Watched())  # type: ignore[arg-type]
    return writer


@pytest.mark.clause("WRITER-003", "WRITER-004", "WRITER-005", "WRITER-006", "WRITER-007", "WRITER-011", "AMB-116")
@pytest.mark.parametrize(("durable", "indexed"), [(True, True), (True, False), (False, True), (False, False)])
def test_durable_and_indexed_are_independent_of_each_other(there: Scene, durable: bool, indexed: bool) -> None:
    writer = watched(there)
    there.run(writer.put(rows((1, "a"), (2, "b")), durable=durable, indexed=indexed))
    assert there.entries() == ([[(1, "a"), (2, "b")]] if durable else [])
    assert writer.memtable.indexes.rows_indexed == (2 if indexed else 0)
    assert pairs(writer.memtable.table()) == [(1, "a"), (2, "b")]
    writer.refresh_indexes()
    assert writer.memtable.indexes.rows_indexed == 2


@pytest.mark.clause("WRITER-007", "WRITER-011", "AMB-116")
def test_deferred_index_updates_come_with_the_next_refresh_once_each_and_in_order(there: Scene) -> None:
    writer = watched(there)
    for number in range(3):
        there.run(writer.put(rows((number, "deferred")), indexed=False))
    assert writer.memtable.indexes.rows == 0
    there.run(writer.put(rows((3, "indexed")), indexed=True))
    given = writer.memtable.indexes.given
    assert [pair for table in given for pair in pairs(table)] == [(i, "deferred") for i in range(3)] + [(3, "indexed")]
    writer.refresh_indexes()
    assert writer.memtable.indexes.rows_indexed == writer.memtable.indexes.rows == 4


@pytest.mark.clause("WRITER-007", "FLUSH-026")
def test_freezing_brings_the_indexes_of_the_frozen_rows_up_to_date_and_starts_new_ones(there: Scene) -> None:
    writer = watched(there)
    there.run(writer.put(rows((1, "a")), durable=False, indexed=False))
    there.run(writer.freeze())
    assert writer.frozen[0].indexes.rows_indexed == 1
    assert writer.memtable.indexes.rows == 0
    assert writer.memtable.indexes is not writer.frozen[0].indexes


@pytest.mark.clause("AMB-116")
def test_the_key_filter_knows_every_visible_row_whatever_was_deferred(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a")), durable=False, indexed=False))
    there.run(writer.put(rows((2, "b")), indexed=True))
    keys = pa.table({"id": pa.array([1, 2, 3])}, schema=pa.schema([SCHEMA.field("id")]))
    indexes = writer.memtable.index_up_to_date(maintained=False)
    assert indexes is not None
    assert indexes.may_contain(keys).tolist() == [True, True, False]


@pytest.mark.clause("WRITER-003", "WRITER-010", "WRITER-019", "WAL-024")
def test_a_durable_put_ends_only_after_its_entry_was_created(there: Scene) -> None:
    writer = there.open()
    put = there.pause(writer.put(rows((1, "a")), durable=True))
    put.until(PutIfAbsent, "wal/")
    assert there.entries() == []
    assert there.run(writer.put(rows((2, "b")), durable=False)) == PutResult(1)  # nobody waits for this one
    assert put.step() is None
    assert there.entries() == [[(1, "a")]]


@pytest.mark.clause("WRITER-009", "WRITER-016", "GEN-017", "AMB-23")
def test_rows_are_visible_before_their_entry_is_stored(there: Scene) -> None:
    writer = there.open()
    put = there.pause(writer.put(rows((1, "a"))))
    put.until(PutIfAbsent, "wal/")
    assert pairs(writer.memtable.table()) == [(1, "a")]
    assert there.entries() == []
    put.end()


@pytest.mark.clause("WRITER-006", "WRITER-010", "AMB-23")
def test_rows_that_are_not_durable_are_visible_and_a_crash_loses_them(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "durable")), durable=True))
    before = len(there.seen)
    there.run(writer.put(rows((2, "buffered")), durable=False))
    assert there.seen[before:] == []
    assert pairs(writer.memtable.table()) == [(1, "durable"), (2, "buffered")]
    assert there.recovered() == [(1, "durable")]


@pytest.mark.clause("WRITER-017", "WAL-024", "WAL-028", "AMB-14")
def test_a_wal_flush_stores_exactly_the_writes_that_none_stored_before(there: Scene) -> None:
    writer = there.open()
    for number in range(2):
        there.run(writer.put(rows((number, "first")), durable=False))
    flush = there.pause(writer.flush_wal())
    flush.until(PutIfAbsent, "wal/")
    there.run(writer.put(rows((2, "meanwhile")), durable=False))
    flush.end()
    assert writer.memtable.pending_rows == 1
    there.run(writer.put(rows((3, "last")), durable=True))
    assert there.entries() == [[(0, "first"), (1, "first")], [(2, "meanwhile"), (3, "last")]]
    assert [(entry.fragment_start, entry.fragments, entry.rows) for entry in writer.memtable.stored] == [
        (0, 2, 2),
        (2, 2, 2),
    ]
    before = len(there.seen)
    there.run(writer.flush_wal())
    assert there.seen[before:] == []


@pytest.mark.parametrize("flush", [False, True])
def test_closing_stores_buffered_rows_and_flushes_the_memtable_if_asked(there: Scene, flush: bool) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a")), durable=False))
    there.run(writer.close(flush=flush))
    there.run(writer.close(flush=flush))
    assert there.entries() == [[(1, "a")]]
    assert len(there.manifest().flushed) == (1 if flush else 0)
    with pytest.raises(memwal.WriterStopped, match=": closed"):
        there.run(writer.put(rows((2, "b"))))


def test_two_wal_flushes_are_never_under_way_at_once(there: Scene) -> None:
    writer = there.open()
    first = there.pause(writer.put(rows((1, "a"))))
    first.until(PutIfAbsent, "wal/")
    second = there.pause(writer.put(rows((2, "b"))))
    waits = second.until(Until, "")
    assert isinstance(waits, Until)
    assert not waits.holds()
    first.end()
    assert waits.holds()
    second.end()
    assert there.entries() == [[(1, "a")], [(2, "b")]]


@pytest.mark.clause("WAL-021", "WRITER-003")
def test_a_durable_put_is_one_request_however_large_the_memtable_is(there: Scene) -> None:
    writer = there.open()
    for number in range(50):
        before = len(there.seen)
        there.run(writer.put(rows((number, "x"))))
        assert [type(r) for r in there.seen[before:]] == [PutIfAbsent]
    assert there.looks == 0


class TestLimits:
    def test_a_slice_of_something_large_counts_by_its_own_rows(self) -> None:
        large = rows(*((n, "x" * 10) for n in range(10_000)))
        assert size_of(large) == 10_000 * (8 + 4 + 10)
        assert size_of(large.slice(5, 3)) == 3 * (8 + 4 + 10)
        assert size_of(rows((1, "four"))) == 8 + 2 * 4 + 4

    @pytest.mark.clause("WRITER-018")
    @pytest.mark.parametrize(
        ("rows_", "size_bytes", "waited_ms", "trigger"),
        [
            (9, 99, 0, None),
            (10, 99, 0, "rows"),
            (9, 100, 0, "bytes"),
            (9, 99, 999, None),
            (9, 99, 1000, "time"),
            (9, 99, -1, "time"),
            (9, 99, None, None),
            (0, 0, 5000, None),
        ],
    )
    def test_a_wal_flush_is_due_by_rows_bytes_or_time(
        self, rows_: int, size_bytes: int, waited_ms: int | None, trigger: str | None
    ) -> None:
        limits = Limits(wal_rows=10, wal_bytes=100, wal_interval_ms=Milliseconds(1000))
        waited = None if waited_ms is None else Milliseconds(waited_ms)
        assert wal_due(limits, rows=rows_, size_bytes=size_bytes, waited_ms=waited) == trigger

    @pytest.mark.clause("FLUSH-001")
    @pytest.mark.parametrize(
        ("rows_", "size_bytes", "entries", "age_ms", "trigger"),
        [
            (9, 99, 4, 0, None),
            (10, 99, 4, 0, "rows"),
            (9, 100, 4, 0, "bytes"),
            (9, 99, 5, 0, "entries"),
            (9, 99, 4, 1000, "time"),
            (0, 0, 5, 5000, None),
        ],
    )
    def test_a_memtable_flush_is_due_by_rows_bytes_entries_or_age(
        self, rows_: int, size_bytes: int, entries: int, age_ms: int, trigger: str | None
    ) -> None:
        limits = Limits(memtable_rows=10, memtable_bytes=100, memtable_entries=5, memtable_age_ms=Milliseconds(1000))
        found = memtable_due(limits, rows=rows_, size_bytes=size_bytes, entries=entries, age_ms=Milliseconds(age_ms))
        assert found == trigger

    @pytest.mark.parametrize(
        ("frozen", "size_bytes", "room"), [(0, 999, True), (1, 99, True), (1, 100, False), (2, 0, False)]
    )
    def test_puts_wait_for_frozen_memtables_by_number_and_bytes(self, frozen: int, size_bytes: int, room: bool) -> None:
        limits = Limits(memtable_bytes=50, frozen_memtables=2, unflushed_bytes=100)
        assert has_room(limits, frozen=frozen, size_bytes=size_bytes) is room

    @pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None, "10"])
    def test_a_limit_that_is_no_positive_whole_number_is_refused(self, wrong: Any) -> None:
        with pytest.raises(InvalidArgument, match="wal_rows"):
            Limits(wal_rows=wrong)

    def test_a_memtable_that_could_never_be_filled_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="unflushed_bytes is 10, below memtable_bytes 11"):
            Limits(memtable_bytes=11, unflushed_bytes=10)
        assert Limits(wal_interval_ms=None, memtable_age_ms=None).wal_interval_ms is None


@pytest.mark.clause("WRITER-018", "WRITER-006")
def test_buffered_rows_are_stored_when_the_time_limit_is_reached_and_not_before(there: Scene) -> None:
    writer = there.open(Limits(wal_interval_ms=Milliseconds(100)))
    there.run(writer.put(rows((1, "a")), durable=False))
    assert writer.deadline_ms() == there.now_ms + 100
    there.now_ms += 60
    there.run(writer.put(rows((2, "b")), durable=False))
    there.now_ms += 39
    there.run(writer.keep_limits())
    assert there.entries() == []
    there.now_ms += 1
    there.run(writer.keep_limits())
    assert there.entries() == [[(1, "a"), (2, "b")]]
    assert writer.deadline_ms() is None
    (stored,) = [dict(note.fields) for note in there.notes if note.event == "wal_flushed"]
    assert (stored["position"], stored["rows"], stored["trigger"]) == (there.positions()[-1], 2, "time")


@pytest.mark.clause("WRITER-018", "WRITER-012")
@pytest.mark.parametrize(("wal_ms", "age_ms"), [(100, 300), (300, 100)])
def test_of_two_time_limits_the_deadline_is_the_one_that_is_reached_first(
    there: Scene, wal_ms: int, age_ms: int
) -> None:
    writer = there.open(Limits(wal_interval_ms=Milliseconds(wal_ms), memtable_age_ms=Milliseconds(age_ms)))
    opened_ms = there.now_ms
    there.run(writer.put(rows((1, "a")), durable=False))
    assert writer.deadline_ms() == opened_ms + 100
    there.now_ms += 100
    there.run(writer.keep_limits())
    assert [len(there.entries()), len(there.manifest().flushed)] == ([1, 0] if wal_ms == 100 else [1, 1])
    assert writer.deadline_ms() == (opened_ms + 300 if wal_ms == 100 else None)


@pytest.mark.clause("FLUSH-001", "WRITER-012")
def test_the_age_of_a_recovered_memtable_is_counted_from_its_recovery(there: Scene) -> None:
    limits = Limits(memtable_age_ms=Milliseconds(100), wal_interval_ms=None)
    there.run(there.open(limits).put(rows((1, "a"))))
    there.now_ms += 60
    again = there.open(limits)
    assert again.deadline_ms() == there.now_ms + 100


@pytest.mark.clause("FLUSH-001", "WRITER-012")
def test_the_age_of_a_memtable_is_that_of_its_own_first_row_and_not_of_the_one_before(there: Scene) -> None:
    writer = there.open(Limits(memtable_age_ms=Milliseconds(100), wal_interval_ms=None))
    there.run(writer.put(rows((1, "a"))))
    there.now_ms += 60
    there.run(writer.flush())
    there.now_ms += 60
    there.run(writer.put(rows((2, "b"))))
    assert [g.generation for g in there.manifest().flushed] == [1]
    assert writer.deadline_ms() == there.now_ms + 100
    there.now_ms += 99
    there.run(writer.put(rows((3, "c"))))
    assert [g.generation for g in there.manifest().flushed] == [1]
    there.now_ms += 1
    there.run(writer.keep_limits())
    assert [g.generation for g in there.manifest().flushed] == [1, 2]


@pytest.mark.clause("AMB-41")
def test_the_bytes_of_the_active_memtable_count_where_puts_wait_for_a_flush(there: Scene) -> None:
    writer = there.open(Limits(memtable_bytes=200, unflushed_bytes=200, wal_interval_ms=None))
    there.run(writer.put(rows((1, "x" * 100))))
    there.run(writer.freeze())
    there.run(writer.put(rows((2, "y" * 100))))
    assert [memtable.generation for memtable in writer.frozen] == [1]
    assert 200 <= sum(memtable.written.size_bytes for memtable in writer.unflushed()) < 400
    there.run(writer.put(rows((3, "z"))))
    assert [g.generation for g in there.manifest().flushed] == [1]
    assert pairs(writer.memtable.table()) == [(2, "y" * 100), (3, "z")]


@pytest.mark.clause("WRITER-018", "AMB-16")
def test_rows_that_come_while_several_entries_are_stored_keep_their_time_limit(there: Scene) -> None:
    writer = there.open(Limits(wal_interval_ms=Milliseconds(100), entry_bytes=40))
    for number in range(3):
        there.run(writer.put(rows((number, "x" * 8)), durable=False))
    flush = there.pause(writer.flush_wal())
    flush.until(PutIfAbsent, "wal/")
    there.now_ms += 50
    there.run(writer.put(rows((3, "meanwhile")), durable=False))
    flush.end()
    stored = [pair for entry in there.entries() for pair in entry]
    assert stored[:3] == [(number, "x" * 8) for number in range(3)]
    there.now_ms += 100
    there.run(writer.keep_limits())
    assert [pair for entry in there.entries() for pair in entry] == [*stored[:3], (3, "meanwhile")]
    assert len(there.entries()) > 2


@pytest.mark.clause("WRITER-018")
@pytest.mark.parametrize(
    "limits", [Limits(wal_rows=3, wal_interval_ms=None), Limits(wal_bytes=50, wal_interval_ms=None)]
)
def test_buffered_rows_are_stored_when_a_size_limit_is_reached(there: Scene, limits: Limits) -> None:
    writer = there.open(limits)
    for number in range(3):
        assert there.entries() == []
        there.run(writer.put(rows((number, "four")), durable=False))
        there.run(writer.keep_limits())
    assert there.entries() == [[(0, "four"), (1, "four"), (2, "four")]]


@pytest.mark.clause("FLUSH-001", "WRITER-012")
@pytest.mark.parametrize(
    ("limits", "waited_ms", "trigger"),
    [
        (Limits(memtable_rows=2), 0, "rows"),
        (Limits(memtable_bytes=25), 0, "bytes"),
        (Limits(memtable_entries=2), 0, "entries"),
        (Limits(memtable_age_ms=Milliseconds(50)), 50, "time"),
    ],
)
def test_a_memtable_is_flushed_when_a_limit_is_reached(
    there: Scene, limits: Limits, waited_ms: int, trigger: str
) -> None:
    writer = there.open(limits)
    there.run(writer.put(rows((1, "four"))))
    there.run(writer.keep_limits())
    assert there.manifest().flushed == ()
    there.now_ms += waited_ms
    there.run(writer.put(rows((2, "four"))))
    there.run(writer.keep_limits())
    assert [g.generation for g in there.manifest().flushed] == [1]
    (frozen,) = [dict(note.fields) for note in there.notes if note.event == "frozen"]
    assert (frozen["generation"], frozen["rows"], frozen["trigger"]) == (1, 2, trigger)
    assert writer.memtable.rows == 0


@pytest.mark.clause("AMB-16")
def test_a_write_larger_than_an_entry_is_refused_and_nothing_of_it_is_kept(there: Scene) -> None:
    writer = there.open(Limits(entry_bytes=60, wal_interval_ms=None))
    there.run(writer.put(rows((1, "a")), durable=False))
    too_large = rows(*((n, "x" * 8) for n in range(4)))
    with pytest.raises(InvalidArgument, match=r"larger than an entry may be \(60 bytes\).*AMB-16"):
        there.run(writer.put(too_large))
    assert pairs(writer.memtable.table()) == [(1, "a")]
    there.run(writer.put(rows((2, "b"))))
    assert there.entries() == [[(1, "a"), (2, "b")]]


@pytest.mark.clause("AMB-16")
def test_writes_are_batched_whole_up_to_the_size_of_an_entry(there: Scene) -> None:
    writer = there.open(Limits(entry_bytes=100, wal_interval_ms=None))  # a write below has 44 bytes, in R 45
    for number in range(5):
        there.run(writer.put(rows((number, "x" * 8), (number, "y" * 8)), durable=False))
    there.run(writer.flush_wal())
    assert [[i for i, _ in entry] for entry in there.entries()] == [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4]]
    assert there.recovered() == pairs(writer.memtable.table())


@pytest.mark.clause("WRITER-015", "AMB-136", "AMB-16")
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (pa.table({"id": [1]}), r"missing \['v'\]"),
        (pa.table({"id": [1], "v": ["a"], "w": [1]}), r"unknown \['w'\]"),
        (pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}), "'id' is int32"),
        (pa.table({"id": [1, None], "v": ["a", "b"]}), "NULL in column 'id' at row 1"),
        (pa.table([pa.array([1]), pa.array(["a"]), pa.array(["b"])], names=["id", "v", "v"]), "a name of its own"),
    ],
)
def test_bad_rows_are_refused_before_anything_happens(there: Scene, wrong: pa.Table, reason: str) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a")), durable=False))
    before, memtable = len(there.seen), writer.memtable
    with pytest.raises(InvalidArgument, match=reason):
        there.run(writer.put(wrong))
    assert there.seen[before:] == []
    assert writer.memtable is memtable
    there.run(writer.put(rows((2, "b"))))
    assert there.entries() == [[(1, "a"), (2, "b")]]


def test_a_put_without_rows_does_nothing(there: Scene) -> None:
    writer = there.open()
    before = len(there.seen)
    there.run(writer.put(rows()))
    assert there.seen[before:] == []
    assert there.run(writer.flush()) is None


@pytest.mark.clause("AMB-89", "WRITER-015")
def test_deletes_are_rows_in_r_and_refused_in_a_and_b_before_anything_happens(there: Scene, revision: str) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a"), (2, "b"))))
    before = len(there.seen)
    keys = pa.table({"id": [1]}, schema=pa.schema([SCHEMA.field("id")]))
    if revision != "R":
        with pytest.raises(InvalidArgument, match=r"revision . has no deletes; .*\[AMB-89\]"):
            there.run(writer.delete(keys))
        assert there.seen[before:] == []
        return
    there.run(writer.delete(keys, durable=False))
    assert there.seen[before:] == []
    there.run(writer.flush_wal())
    assert writer.memtable.table().column("_tombstone").to_pylist() == [False, False, True]
    assert there.entry(there.positions()[-1]).rows.column("v").to_pylist() == [None]


@pytest.mark.clause("WRITER-008", "WRITER-013", "WRITER-014", "WRITER-034")
def test_a_writer_opens_only_after_replaying_every_entry_up_to_the_first_missing_one(there: Scene) -> None:
    first = there.open()
    there.run(first.put(rows((0, "flushed"))))
    there.run(first.flush())
    there.run(first.put(rows((1, "a"))))
    there.run(first.put(rows((1, "b"), (2, "b")), durable=False))
    there.run(first.put(rows((3, "c"))))
    pointer, last = there.manifest().position_replay_after, there.positions()[-1]
    assert last == pointer + 2

    again = Scene(there.store, there.region)
    opening = again.pause(open_writer(there.region, limits=UNTIMED))
    read = []
    while (request := opening.step()) is not None:
        if isinstance(request, Get) and "/wal/" in request.path:
            read.append(paths.wal_position(request.path, there.region.revision.wal_suffix))
        assert isinstance(request, StoreRequest)
        if isinstance(request, PutIfAbsent) and "/wal/" in request.path:
            assert read == [pointer + 1, pointer + 2, pointer + 3]
    second = opening.result
    assert read == [pointer + 1, pointer + 2, pointer + 3]
    assert pairs(second.memtable.table()) == [(1, "a"), (1, "b"), (2, "b"), (3, "c")]
    assert again.entry(last + 1).barrier
    assert second.position_next == last + 2
    again.run(second.put(rows((4, "d"))))
    assert pairs(again.entry(last + 2).rows) == [(4, "d")]


@pytest.mark.clause("WRITER-014")
def test_replay_takes_the_entries_of_fenced_writers_too(there: Scene) -> None:
    for number in range(3):
        writer = there.open()
        there.run(writer.put(rows((number, f"epoch {writer.epoch}"))))
    assert there.recovered() == [(0, "epoch 1"), (1, "epoch 2"), (2, "epoch 3")]


@pytest.mark.clause("WRITER-001")
def test_a_writer_touches_its_own_region_only(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a"))))
    there.run(writer.flush())
    there.run(writer.close())
    root = there.region.io.root
    assert {f"{request.path}/".startswith(f"{root}/") for request in there.seen} == {True}


@pytest.mark.clause("AMB-17", "AMB-43")
def test_freezing_stores_pending_rows_as_an_entry_of_the_old_generation_alone(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "old"))))
    there.run(writer.put(rows((2, "old")), durable=False))
    freezing = there.pause(writer.freeze())
    freezing.until(PutIfAbsent, "wal/")
    writer.insert(there.region.rows.upserts(rows((3, "came meanwhile"))))
    assert freezing.end() == 1
    there.run(writer.put(rows((4, "new"))))
    assert there.entries() == [[(1, "old")], [(2, "old")], [(3, "came meanwhile")], [(4, "new")]]
    assert pairs(writer.frozen[0].table()) == [(1, "old"), (2, "old"), (3, "came meanwhile")]
    assert writer.frozen[0].pending_rows == 0
    there.run(writer.flush_oldest())
    assert there.manifest().position_replay_after == there.positions()[-2]
    if there.region.revision.entry_generation:
        assert [there.entry(p).generation for p in there.positions() if not there.entry(p).barrier] == [1, 1, 1, 2]


@pytest.mark.clause("AMB-117", "AMB-102", "AMB-42")
def test_memory_has_one_source_per_unflushed_memtable_until_its_manifest_is_committed(there: Scene) -> None:
    writer = there.open()
    for number in range(1, 4):
        there.run(writer.put(rows((number, "x"))))
        if number < 3:
            there.run(writer.freeze())
    assert [(m.generation, pairs(m.table())) for m in writer.unflushed()] == [
        (1, [(1, "x")]),
        (2, [(2, "x")]),
        (3, [(3, "x")]),
    ]
    flushing = there.pause(writer.flush_oldest())
    flushing.until(PutIfAbsent, "manifest/")
    writer.release()
    assert [m.generation for m in writer.unflushed()] == [1, 2, 3]
    flushing.end()
    assert [m.generation for m in writer.unflushed()] == [1, 2, 3]
    writer.release()
    assert [m.generation for m in writer.unflushed()] == [2, 3]
    assert [g.generation for g in there.manifest().flushed] == [1]


@pytest.mark.clause("WRITER-032", "WRITER-033")
def test_whatever_the_strategy_the_stored_bytes_follow_the_layout_and_hold_the_rows(
    tmp_path: Path, revision: str
) -> None:
    expected = {(i % 30, f"v{i}") for i in range(70, 100)}
    layout = re.compile(
        r"manifest/([01]{64}\.binpb|version_hint\.json)"
        r"|wal/[01]{64}\.(arrow|lance)"
        r"|[0-9a-f]{8}_gen_[0-9]+/(bloom_filter\.bin|_versions/[0-9]{20}\.manifest|_transactions/[^/]+\.txn"
        r"|data/[^/]+\.lance|_deletions/[^/]+\.(arrow|bin)|_pk_index/[^/]+\.lance)"
    )
    strategies: list[dict[str, Any]] = [
        {"durable": True},
        {"durable": False, "limits": Limits(wal_rows=7, wal_interval_ms=None), "background": False},
        {"durable": False, "limits": Limits(memtable_rows=20, wal_interval_ms=None)},
        {"durable": True, "limits": Limits(memtable_entries=9), "background": False},
    ]
    for number, strategy in enumerate(strategies):
        table = memwal.create(tmp_path / f"t{number}", SCHEMA, primary_key=["id"], revision=revision)
        with table.writer(**strategy) as writer:
            for i in range(100):
                writer.put(rows((i % 30, f"v{i}")))
        assert set(pairs(table.scan())) == expected
        folder = tmp_path / f"t{number}" / "_mem_wal" / table.regions()[0].region_id
        names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
        assert [name for name in names if not layout.fullmatch(name)] == []
        assert table._run(invariants.check(table._io)) == []
        for listed in table.regions()[0].manifest.flushed:
            assert lance.dataset(str(folder / listed.path)).count_rows() > 0
        table.merge()
        with table.writer(table.regions()[0].region_id) as writer:
            writer.flush()
        table.merge()
        assert set(pairs(lance.dataset(str(tmp_path / f"t{number}")).to_table())) == expected


@pytest.mark.clause("WRITER-002")
def test_opening_a_writer_reads_the_newest_mem_wal_index(tmp_path: Path, revision: str) -> None:
    spec = memwal.region_spec([memwal.identity("part", "part")])
    schema = pa.schema([pa.field("part", pa.int32(), nullable=False), SCHEMA.field("id")])
    table = memwal.create(tmp_path / "t", schema, primary_key=["part", "id"], revision=revision, spec=spec)
    stale = memwal.open(tmp_path / "t")
    region = table.register_region({"part": 7})
    before = stale.version
    with stale.writer(region) as writer:
        assert stale.version > before
        writer.put(pa.table({"part": pa.array([7], pa.int32()), "id": [1]}, schema=stale.schema))
        with pytest.raises(InvalidArgument, match=r"row 1 has region value part=8; this region's is 7"):
            writer.put(pa.table({"part": pa.array([7, 8], pa.int32()), "id": [1, 2]}, schema=stale.schema))


@pytest.mark.clause("WRITER-015", "AMB-136")
@pytest.mark.parametrize(
    ("kind", "wanted", "others"),
    [
        (pa.int32(), 5, [4, None]),
        (pa.int32(), None, [4]),
        (pa.uint64(), 2**64 - 1, [0, None]),
        (pa.bool_(), False, [True, None]),
        (pa.string(), "x", ["", "X", None]),
        (pa.large_binary(), b"x", [b"", None]),
        (pa.binary(2), b"xy", [b"yx", None]),
        (pa.date32(), date(2024, 2, 29), [date(2024, 3, 1), None]),
        (pa.timestamp("us", "UTC"), datetime(2024, 2, 29, tzinfo=UTC), [datetime(2024, 3, 1, tzinfo=UTC), None]),
        (pa.decimal128(5, 2), Decimal("1.25"), [Decimal("1.26"), None]),
        (pa.float64(), math.nan, [1.0, None]),
        (pa.float64(), 0.0, [1.0, math.nan, None]),
        (pa.float16(), 1.5, [1.0, math.nan, None]),
    ],
)
def test_a_region_value_is_equal_to_itself_and_to_nothing_else_whatever_its_type(
    kind: pa.DataType, wanted: object, others: list[object]
) -> None:
    same = pa.chunked_array([pa.array([wanted], kind), pa.array([wanted, wanted], kind)])
    assert _first_other(same, wanted) is None
    for other in others:
        mixed = pa.chunked_array([*same.chunks, pa.array([other, wanted, other], kind)])
        assert _first_other(mixed, wanted) == 3
    assert _first_other(pa.chunked_array([], kind), wanted) is None


@pytest.mark.clause("WRITER-015", "AMB-136")
def test_the_first_row_of_another_region_is_named(tmp_path: Path) -> None:
    spec = memwal.region_spec([memwal.identity("one", "one"), memwal.identity("two", "two")])
    schema = pa.schema([pa.field("one", pa.int32(), nullable=False), pa.field("two", pa.string(), nullable=False)])
    table = memwal.create(tmp_path / "t", schema, primary_key=["one", "two"], revision="B", spec=spec)
    with table.writer(values={"one": 1, "two": "x"}) as writer:
        writer.put(pa.table({"one": pa.array([1, 1], pa.int32()), "two": ["x", "x"]}, schema=schema))
        with pytest.raises(InvalidArgument, match="row 1 has region value two='y'; this region's is 'x'"):
            writer.put(pa.table({"one": pa.array([1, 1, 2], pa.int32()), "two": ["x", "y", "x"]}, schema=schema))
