"""What a writer does when something fails: it finds out, or it stops; it never guesses and never continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import memwal
import pytest
from memwal import confirm, paths
from memwal.codec import wal
from memwal.codec.region_manifest import FlushedGeneration
from memwal.codec.wal import WalEntry
from memwal.effects import PutIfAbsent
from memwal.errors import ArtifactError, CloseFailed, Fenced, OutcomeUnknown, StorageError, Throttled, WriterStopped
from memwal.ids import Epoch, Generation
from memwal.region.commit import commit_flush
from memwal.region.recovery import replay_start
from memwal.region.writer import RegionWriter
from memwal.stores.local import LocalStore

from ..kit.writer_scene import Scene, pairs, rows

REFUSED = StorageError("wal", "disk full")


def calls(there: Scene, writer: RegionWriter) -> list[Any]:
    """One of each call that a writer takes."""
    return [
        lambda: there.run(writer.put(rows((9, "later")))),
        lambda: there.run(writer.put(rows((9, "later")), durable=False)),
        lambda: there.run(writer.flush_wal()),
        lambda: there.run(writer.freeze()),
        lambda: there.run(writer.flush_oldest()),
        lambda: there.run(writer.flush()),
        writer.refresh_indexes,
        writer.unflushed,
    ]


@pytest.mark.clause("AMB-14", "WRITER-019")
@pytest.mark.parametrize("applied", [False, True])
def test_an_unanswered_put_is_repeated_with_the_same_bytes_at_the_same_position(there: Scene, applied: bool) -> None:
    writer = there.open()
    there.fail("wal/", OutcomeUnknown("wal"), times=1 if applied else 3, applied=applied)
    before = len(there.seen)
    there.run(writer.put(rows((1, "a"))))
    tried = [request for request in there.seen[before:] if isinstance(request, PutIfAbsent)]
    assert len(tried) == (2 if applied else 4)
    assert len(set(tried)) == 1
    there.run(writer.put(rows((2, "b"))))
    assert there.entries() == [[(1, "a")], [(2, "b")]]
    assert there.positions() == list(range(there.positions()[0], there.positions()[0] + len(there.positions())))


@pytest.mark.clause("AMB-14", "AMB-21", "AMB-138")
@pytest.mark.parametrize("failure", [OutcomeUnknown("wal"), Throttled("wal")])
def test_the_repetition_is_bounded_and_then_the_writer_stops(there: Scene, failure: Exception) -> None:
    writer = there.open()
    there.fail("wal/", failure, times=confirm.ATTEMPTS)
    before = len(there.puts())
    with pytest.raises(type(failure)):
        there.run(writer.put(rows((1, "a"))))
    assert len(there.puts()) - before == confirm.ATTEMPTS
    assert not there.faults


@pytest.mark.clause("AMB-21", "FENCE-012", "FENCE-013")
@pytest.mark.parametrize("cause", ["wal", "flush"])
def test_after_a_failure_every_call_is_refused_and_names_the_first_cause(there: Scene, cause: str) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a"))))
    if cause == "wal":
        there.fail("wal/", REFUSED)
        with pytest.raises(StorageError, match="disk full"):
            there.run(writer.put(rows((2, "b"))))
    else:
        there.fail("_versions/", REFUSED)
        with pytest.raises(StorageError, match="disk full"):
            there.run(writer.flush())
    before, held = len(there.seen), writer.memtable
    for call in calls(there, writer):
        with pytest.raises(WriterStopped, match=r"disk full") as stopped:
            call()
        assert stopped.value.__cause__ is writer.failures[0]
    assert there.seen[before:] == []
    assert writer.memtable is held
    assert len(writer.failures) == 1


@pytest.mark.clause("AMB-21", "AMB-22")
@pytest.mark.parametrize("applied", [False, True])
def test_a_write_that_failed_surfaces_whole_or_not_at_all_when_the_region_is_opened_again(
    there: Scene, applied: bool
) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "acknowledged"))))
    there.run(writer.put(rows((2, "buffered"), (3, "buffered")), durable=False))
    there.fail("wal/", OutcomeUnknown("wal"), times=1, applied=applied)
    there.fail("wal/", OutcomeUnknown("wal"), times=confirm.ATTEMPTS - 1)
    with pytest.raises(OutcomeUnknown):
        there.run(writer.put(rows((4, "failed"), (5, "failed"))))
    unsure = [(2, "buffered"), (3, "buffered"), (4, "failed"), (5, "failed")]
    assert there.recovered() == [(1, "acknowledged"), *(unsure if applied else [])]


@pytest.mark.clause("AMB-13", "WAL-006")
def test_a_taken_position_under_the_own_epoch_stops_the_writer_and_nothing_is_stored_behind_it(there: Scene) -> None:
    writer = there.open()
    name = paths.wal(writer.position_next, there.region.revision.wal_suffix)
    foreign = wal.encode(
        WalEntry(epoch=Epoch(1), rows=there.region.rows.upserts(rows((7, "?")))), there.region.revision
    )
    there.store.perform(PutIfAbsent(there.region.io.path(name), foreign))
    with pytest.raises(ArtifactError, match=r"the position is taken, and epoch 1 still owns the region \[WAL-006\]"):
        there.run(writer.put(rows((1, "a"))))
    with pytest.raises(WriterStopped):
        there.run(writer.put(rows((2, "b"))))
    assert there.entries() == [[(7, "?")]]


@pytest.mark.clause("AMB-13", "FENCE-012", "FENCE-013")
def test_a_fenced_writer_stops_at_once_and_its_pending_writes_are_reported_as_failed(there: Scene) -> None:
    first = there.open()
    there.run(first.put(rows((1, "acknowledged"))))
    there.run(first.put(rows((2, "pending")), durable=False))
    second = there.open()
    with pytest.raises(Fenced) as fenced:
        there.run(first.put(rows((3, "failed"))))
    assert (fenced.value.local, fenced.value.stored) == (1, 2)
    before = len(there.seen)
    for call in calls(there, first):
        with pytest.raises(WriterStopped, match="claimed by another writer: its epoch is 2") as stopped:
            call()
        assert str(stopped.value).count(" new ") == 1, "what to do is said once"
    assert there.seen[before:] == []
    assert pairs(second.memtable.table()) == [(1, "acknowledged")]
    assert there.recovered() == [(1, "acknowledged")]


@pytest.mark.clause("AMB-21")
def test_an_abandoned_put_stops_the_writer_since_nobody_knows_its_outcome(there: Scene) -> None:
    writer = there.open()
    put = there.pause(writer.put(rows((1, "a"))))
    put.until(PutIfAbsent, "wal/")
    put.abandon()
    with pytest.raises(WriterStopped, match="a step was begun and abandoned"):
        there.run(writer.put(rows((2, "b"))))


@pytest.mark.clause("AMB-41", "FLUSH-009", "FLUSH-011")
def test_a_failed_flush_is_never_overtaken_by_a_later_one(there: Scene) -> None:
    writer = there.open()
    for number in (1, 2):
        there.run(writer.put(rows((number, f"generation {number}"))))
        there.run(writer.freeze())
    there.run(writer.put(rows((3, "active"))))
    there.fail("_gen_1/_versions", REFUSED)
    with pytest.raises(StorageError):
        there.run(writer.flush_oldest())
    with pytest.raises(WriterStopped):
        there.run(writer.flush_oldest())
    assert there.manifest().generation_current == 1
    assert there.manifest().flushed == ()
    assert not [name for name in there.puts() if "_gen_2" in name]
    assert there.recovered() == [(1, "generation 1"), (2, "generation 2"), (3, "active")]


@pytest.mark.clause("AMB-41", "FLUSH-009")
def test_a_generation_that_would_not_follow_the_one_before_is_not_committed(there: Scene) -> None:
    writer = there.open()
    for number in (1, 2):
        there.run(writer.put(rows((number, "x"))))
        there.run(writer.freeze())
    before, covered = there.manifest(), writer.frozen[1].position_covered
    assert covered is not None
    second = FlushedGeneration(generation=Generation(2), path="0000000a_gen_2")
    start = replay_start(before, there.region.revision)
    with pytest.raises(ArtifactError, match=r"generation 2 would not follow 0 \[FLUSH-009\]"):
        there.run(commit_flush(there.region, writer.epoch, start, second, covered))
    assert there.manifest() == before


@pytest.mark.clause("AMB-41", "FLUSH-009", "FLUSH-011")
def test_frozen_memtables_are_flushed_in_order_each_behind_the_one_before(there: Scene) -> None:
    writer = there.open()
    ends = []
    for number in (1, 2, 3):
        there.run(writer.put(rows((number, "x")), durable=False))
        there.run(writer.freeze())
        ends.append(writer.position_next - 1)
    for number, end in zip((1, 2, 3), ends, strict=True):
        assert there.run(writer.flush_oldest()) == number
        manifest = there.manifest()
        assert (manifest.generation_current, manifest.position_replay_after) == (number + 1, end)
        assert [g.generation for g in manifest.flushed] == list(range(1, number + 1))
    assert there.run(writer.flush_oldest()) is None
    assert there.recovered() == []


@pytest.mark.clause("FLUSH-025", "AMB-44")
@pytest.mark.parametrize("failure", [OutcomeUnknown("gen"), Throttled("gen")])
def test_a_folder_whose_first_object_is_in_doubt_is_left_for_another_one(there: Scene, failure: Exception) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a"))))
    there.fail("_gen_1/", failure, applied=isinstance(failure, OutcomeUnknown))
    there.run(writer.flush())
    folders = list(dict.fromkeys(name.partition("/")[0] for name in there.puts() if "_gen_1" in name))
    assert len(folders) == 2
    assert [g.path for g in there.manifest().flushed] == folders[1:]
    assert pairs(there.generation(folders[1])) == [(1, "a")]
    assert [name for name in there.puts() if name.startswith(folders[0])] == [f"{folders[0]}/bloom_filter.bin"]


@pytest.mark.clause("AMB-44", "FLUSH-002")
def test_a_prefix_that_is_taken_is_drawn_again_and_the_older_attempt_is_left_as_it_is(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a"))))
    taken = f"{there.drawn + 1:08x}_gen_1/bloom_filter.bin"
    there.store.perform(PutIfAbsent(there.region.io.path(taken), b"another attempt"))
    there.run(writer.flush())
    (listed,) = there.manifest().flushed
    assert not taken.startswith(listed.path)
    folder = taken.partition("/")[0]
    found = [name for name in there.puts() if name.startswith(folder)]
    assert found == [taken]
    assert pairs(there.generation(listed.path)) == [(1, "a")]


@pytest.mark.clause("FLUSH-025")
def test_no_free_folder_is_looked_for_without_end(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a"))))
    there.fail("_gen_1/", Throttled("gen"), times=confirm.ATTEMPTS)
    with pytest.raises(Throttled):
        there.run(writer.flush())
    assert writer.stopped


class TestClose:
    """`Writer.close` of the public interface; what fails is chosen by a store in between."""

    @pytest.mark.parametrize("flush", [False, True])
    def test_closing_stores_buffered_rows_and_flushes_them_if_asked(self, broken: Broken, flush: bool) -> None:
        writer = broken.table.writer(background=False)
        writer.put(rows((1, "a")), durable=False)
        writer.close(flush=flush)
        writer.close()
        manifest = broken.table.regions()[0].manifest
        assert manifest is not None
        assert len(manifest.flushed) == (1 if flush else 0)
        assert pairs(broken.table.scan()) == [(1, "a")]
        with pytest.raises(WriterStopped, match=": closed"):
            writer.put(rows((2, "b")))

    @pytest.mark.clause("AMB-21", "WRITER-006")
    def test_one_failure_is_raised_as_it_is_and_only_once(self, broken: Broken) -> None:
        writer = broken.table.writer(background=False)
        writer.put(rows((1, "a")), durable=False)
        broken.refuse("/wal/")
        with pytest.raises(StorageError, match="disk full"):
            writer.close()
        writer.close()

    @pytest.mark.clause("AMB-21")
    def test_closing_after_a_failure_says_again_what_failed(self, broken: Broken) -> None:
        writer = broken.table.writer(background=False)
        writer.put(rows((1, "lost")), durable=False)
        broken.refuse("/wal/")
        with pytest.raises(StorageError):
            writer.put(rows((2, "b")))
        with pytest.raises(StorageError, match="disk full"):
            writer.close()

    @pytest.mark.clause("FENCE-013")
    def test_closing_a_fenced_writer_reports_its_buffered_rows_as_failed(self, broken: Broken) -> None:
        first = broken.table.writer(background=False)
        first.put(rows((1, "buffered")), durable=False)
        with broken.table.writer(first.region_id), pytest.raises(Fenced):
            first.close()

    def test_several_failures_are_all_named(self, broken: Broken) -> None:
        writer = broken.table.writer(background=False)
        writer._writer.failures += [REFUSED, OutcomeUnknown("gen")]
        with pytest.raises(CloseFailed, match=r"StorageError: .*disk full.*; OutcomeUnknown: .*gen") as closed:
            writer.close()
        assert closed.value.failures == (writer._writer.failures[0], writer._writer.failures[1])
        assert isinstance(closed.value, memwal.MemwalError)

    def test_a_block_that_ends_in_an_error_ends_in_that_error(self, broken: Broken) -> None:
        def block() -> None:
            with broken.table.writer(background=False) as writer:
                writer.put(rows((1, "a")), durable=False)
                broken.refuse("/wal/")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as original:
            block()
        (note,) = original.value.__notes__
        assert "closing the writer of region" in note
        assert "disk full" in note

    def test_a_block_that_ends_in_an_error_of_its_own_stores_what_was_buffered(self, broken: Broken) -> None:
        def block() -> None:
            with broken.table.writer(background=False) as writer:
                writer.put(rows((1, "a")), durable=False)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as original:
            block()
        assert not hasattr(original.value, "__notes__")
        assert pairs(broken.table.scan()) == [(1, "a")]

    def test_a_block_that_ends_in_the_writers_own_failure_is_not_told_twice(self, broken: Broken) -> None:
        def block() -> None:
            with broken.table.writer(background=False) as writer:
                broken.refuse("/wal/")
                writer.put(rows((1, "a")))

        with pytest.raises(StorageError) as original:
            block()
        assert not hasattr(original.value, "__notes__")

    @pytest.mark.clause("AMB-21")
    def test_an_interrupted_put_stops_the_writer_since_nobody_knows_its_outcome(self, broken: Broken) -> None:
        writer = broken.table.writer(background=False)
        broken.refuse("/wal/", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            writer.put(rows((1, "a")))
        broken.refuse("")
        with pytest.raises(WriterStopped, match=": KeyboardInterrupt"):
            writer.put(rows((2, "b")))
        with pytest.raises(KeyboardInterrupt):
            writer.close()
        assert pairs(broken.table.scan()) == []

    @pytest.mark.clause("AMB-21")
    def test_the_memory_of_a_writer_that_failed_is_not_read(self, broken: Broken) -> None:
        writer = broken.table.writer(background=False)
        broken.refuse("/wal/")
        with pytest.raises(StorageError):
            writer.put(rows((1, "never acknowledged")))
        with pytest.raises(WriterStopped):
            broken.table.scan(writers=[writer])
        assert broken.table.scan().num_rows == 0


class Broken:
    """A table on a store that refuses creates of certain names."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.refused = ""
        self.failure: BaseException | None = None

    def refuse(self, part: str, failure: BaseException | None = None) -> None:
        """From now on, creating anything with ``part`` in its path fails: the disk is full, or ``failure``."""
        self.refused, self.failure = part, failure

    def perform(self, request: Any) -> Any:
        if isinstance(request, PutIfAbsent) and self.refused and self.refused in request.path:
            raise self.failure or StorageError(request.path, "disk full")
        return self.inner.perform(request)

    def describe(self) -> str:
        return "broken"

    def close(self) -> None:
        self.inner.close()

    table: memwal.Table


@pytest.fixture
def broken(tmp_path: Path, revision: str) -> Broken:
    store = Broken(LocalStore(tmp_path))
    store.table = memwal.create("t", rows().schema, primary_key=["id"], revision=revision, store=store)
    return store


def test_pauses_between_attempts_double_and_are_requests_of_their_own(there: Scene) -> None:
    writer = there.open()
    there.fail("wal/", Throttled("wal"), times=3)
    there.run(writer.put(rows((1, "a"))))
    assert there.slept == [10, 20, 40]
