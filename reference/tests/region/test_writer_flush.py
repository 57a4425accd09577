"""The MemTable flush: what it writes, in which order, and what a crash or another claim in the middle leaves."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from memwal.effects import PutIfAbsent, run
from memwal.errors import Fenced
from memwal.region.limits import Limits
from memwal.region.opening import open_writer
from memwal.table import state as states
from memwal.table.state import TableState

from ..kit.writer_scene import REGION, SCHEMA, UNTIMED, Scene, pairs, rows, scene


def table_of(there: Scene, folder: str) -> TableState:
    """The newest version of a generation's table."""
    return run(states.latest(there.region.io.child(folder)), there._unnoted)


@pytest.mark.clause("FLUSH-002", "FLUSH-003", "MANIFEST-013", "AMB-44", "AMB-42")
def test_a_generation_goes_to_a_folder_of_eight_random_digits_and_its_number(there: Scene) -> None:
    writer = there.open()
    for number in (1, 2):
        there.run(writer.put(rows((number, "x"))))
        current = there.manifest().generation_current
        before, drawn = len(there.puts()), there.drawn
        assert there.run(writer.flush()) == current == number
        folders = {name.partition("/")[0] for name in there.puts()[before:]} - {"manifest"}
        assert folders == {f"{drawn + 1:08x}_gen_{number}"}
        assert there.manifest().flushed[-1].path in folders
    assert all(re.fullmatch(r"[0-9a-f]{8}_gen_[12]", listed.path) for listed in there.manifest().flushed)


@pytest.mark.clause("FLUSH-008", "FLUSH-013")
def test_the_generations_manifest_follows_its_data_and_the_regions_manifest_follows_all(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a"), (1, "b"))))
    before = len(there.puts())
    there.run(writer.flush())
    created = [name.partition("/")[2] for name in there.puts()[before:] if "_gen_1/" in name]
    version = created.index(f"_versions/{2**64 - 1 - 1}.manifest")
    data = [at for at, name in enumerate(created) if name.startswith(("data/", "_deletions/", "_indices/"))]
    assert bool(data) == (there.region.revision.name != "A")
    assert all(at < version for at in data)
    assert there.puts()[-1].startswith("manifest/")
    assert len([name for name in there.puts()[before:] if name.startswith("manifest/")]) == 1


@pytest.mark.clause("FLUSH-004", "AMB-43", "AMB-24")
def test_a_flush_covers_the_entries_from_behind_the_pointer_to_the_last_stored_one(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "a"))))
    there.run(writer.flush())
    pointer = there.manifest().position_replay_after
    writer = there.open()  # leaves a barrier behind the pointer
    there.run(writer.put(rows((2, "b"))))
    there.run(writer.put(rows((3, "c")), durable=False))
    there.run(writer.flush())
    assert there.positions()[-1] == pointer + 3
    config = table_of(there, there.manifest().flushed[-1].path).config
    assert (config["memwal.wal_first"], config["memwal.wal_last"]) == (str(pointer + 1), str(pointer + 3))
    assert config["memwal.writer_epoch"] == "2"
    assert pairs(there.generation(there.manifest().flushed[-1].path)) == [(2, "b"), (3, "c")]


@pytest.mark.clause("FLUSH-005", "FLUSH-006", "AMB-18", "AMB-20", "GEN-011")
def test_in_a_each_entry_with_rows_is_a_fragment_that_names_the_wal_file_through_a_base_path(tmp_path: Path) -> None:
    there = scene(tmp_path, "A")
    writer = there.open()
    there.run(writer.put(rows((1, "a"), (2, "a"))))
    writer = there.open()  # a barrier at 2
    there.run(writer.put(rows((3, "b")), durable=False))
    there.run(writer.put(rows((4, "b"), (5, "b")), durable=False))
    there.run(writer.put(rows((6, "b")), durable=True))
    before = len(there.seen)
    there.run(writer.flush())
    (listed,) = there.manifest().flushed
    message = table_of(there, listed.path).manifest.message
    (base,) = message.base_paths
    assert (base.id, base.path, base.is_dataset_root) == (1, "../wal", False)
    first, third = "1" + "0" * 63 + ".lance", "11" + "0" * 62 + ".lance"
    found = [(f.id, f.physical_rows, [(d.path, d.base_id) for d in f.files]) for f in message.fragments]
    assert found == [(0, 2, [(first, 1)]), (1, 4, [(third, 1)])]
    wal = tmp_path / "t" / "_mem_wal" / REGION / "wal"
    sizes = [d.file_size_bytes for f in message.fragments for d in f.files]
    assert sizes == [(wal / first).stat().st_size, (wal / third).stat().st_size]
    assert not [r for r in there.seen[before:] if isinstance(r, PutIfAbsent) and "/data/" in r.path]
    expected = [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b"), (6, "b")]
    assert pairs(there.generation(listed.path)) == expected


@pytest.mark.clause("FLUSH-009", "FLUSH-010", "FLUSH-011", "FLUSH-012", "FLUSH-014")
@pytest.mark.clause("MANIFEST-008", "MANIFEST-010", "MANIFEST-035")
def test_one_new_manifest_version_carries_pointer_hint_number_and_list_and_nothing_else(there: Scene) -> None:
    writer = there.open()
    for number in (1, 2):
        there.run(writer.put(rows((1, "a"))))
        there.run(writer.put(rows((2, "b"))))
        last, before, put = there.positions()[-1], there.manifest(), len(there.puts())
        there.run(writer.flush())
        after, folder = there.manifest(), there.puts()[put].partition("/")[0]
        listed = after.flushed[-1]
        assert (listed.generation, listed.path) == (number, folder)
        assert after == replace(
            before,
            version=before.version + 1,
            position_replay_after=last,
            position_last_seen=last,
            generation_current=number + 1,
            flushed=(*before.flushed, listed),
        )


@pytest.mark.clause("FLUSH-013", "FLUSH-014", "FLUSH-015", "FLUSH-025", "AMB-42")
def test_a_flush_that_stops_anywhere_leaves_all_of_it_or_nothing_and_the_successor_flushes_anew(
    tmp_path: Path, revision: str
) -> None:
    expected = [(1, "a"), (2, "b"), (1, "c")]
    committed = 0
    for stop in range(100):
        there = scene(tmp_path / str(stop), revision)
        writer = there.open()
        there.run(writer.put(rows(*expected[:2])))
        there.run(writer.put(rows(*expected[2:])))
        flushing = there.pause(writer.flush())
        if not all(flushing.step() is not None for _ in range(stop)):
            break
        flushing.abandon()
        listed = there.manifest().flushed
        committed += len(listed)
        for generation in listed:
            assert there.generation(generation.path).num_rows == (2 if revision == "R" else 3)
        successor = scene(tmp_path / str(stop), revision)
        successor.drawn = 1000
        second = successor.open()
        assert pairs(second.memtable.table()) == ([] if listed else expected)
        assert second.memtable.generation == (2 if listed else 1)
        assert successor.run(second.flush()) == (None if listed else 1)
        (final,) = successor.manifest().flushed
        assert final.generation == 1
        assert final.path.startswith("00000001" if listed else "000003e9")
        assert pairs(successor.generation(final.path)) == (expected[1:] if revision == "R" else expected)
    assert stop > 5
    assert committed > 0


@pytest.mark.clause("FLUSH-016", "FENCE-009", "FENCE-011")
def test_a_flush_of_a_fenced_writer_never_reaches_the_manifest(there: Scene) -> None:
    first = there.open()
    there.run(first.put(rows((1, "a"))))
    flushing = there.pause(first.flush())
    flushing.until(PutIfAbsent, "_versions/")
    claimed = there.changed().open().manifest
    with pytest.raises(Fenced):
        flushing.end()
    assert there.manifest() == claimed
    assert first.stopped.endswith("open a new writer to continue")


@pytest.mark.clause("FLUSH-016", "AMB-29", "FLUSH-014")
def test_a_flush_that_loses_its_manifest_version_to_a_claim_reads_and_checks_again(there: Scene) -> None:
    first = there.open()
    there.run(first.put(rows((1, "a"))))
    flushing = there.pause(first.flush())
    flushing.until(PutIfAbsent, "manifest/")
    claimed = there.changed().open().manifest
    with pytest.raises(Fenced):
        flushing.end()
    assert there.manifest() == claimed


@pytest.mark.clause("FLUSH-026", "GEN-003", "AMB-102")
def test_after_a_flush_the_memtable_is_gone_and_writes_go_to_the_next_one(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "old"))))
    there.run(writer.flush())
    assert writer.frozen == ()
    assert (writer.memtable.generation, writer.memtable.rows) == (2, 0)
    there.run(writer.put(rows((1, "new"))))
    there.run(writer.flush())
    found = [pairs(there.generation(listed.path)) for listed in there.manifest().flushed]
    assert found == [[(1, "old")], [(1, "new")]]


@pytest.mark.clause("AMB-45")
def test_a_memtable_without_rows_is_not_flushed_whatever_barriers_there_are(there: Scene) -> None:
    there.open()
    writer = there.open()
    before, manifest = len(there.seen), there.manifest()
    assert there.run(writer.freeze()) is None
    assert there.run(writer.flush()) is None
    assert there.seen[before:] == []
    assert there.manifest() == manifest


@pytest.mark.clause("FLUSH-001", "WRITER-012", "AMB-117")
def test_writes_go_on_while_a_generation_is_written(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "frozen"))))
    there.run(writer.freeze())
    flushing = there.pause(writer.flush_oldest())
    number = 2
    while flushing.step() is not None:
        there.run(writer.put(rows((number, "meanwhile"))))
        number += 1
    assert number > 6
    (listed,) = there.manifest().flushed
    assert pairs(there.generation(listed.path)) == [(1, "frozen")]
    assert there.recovered() == [(n, "meanwhile") for n in range(2, number)]


@pytest.mark.clause("FLUSH-025")
def test_what_a_failed_attempt_left_is_never_listed(there: Scene) -> None:
    first = there.open()
    there.run(first.put(rows((1, "a"))))
    flushing = there.pause(first.flush())
    flushing.until(PutIfAbsent, "manifest/")
    flushing.abandon()
    left = next(name.partition("/")[0] for name in there.puts() if "_gen_1" in name)
    assert pairs(there.generation(left)) == [(1, "a")]
    second = there.open()
    there.run(second.flush())
    assert [listed.path == left for listed in there.manifest().flushed] == [False]


@pytest.mark.clause("AMB-41", "AMB-22", "FLUSH-015")
def test_no_acknowledged_row_is_lost_wherever_a_writer_with_two_frozen_memtables_dies(
    tmp_path: Path, revision: str
) -> None:
    acknowledged: list[int] = []

    async def busy(there: Scene) -> None:
        writer = await open_writer(there.region, limits=UNTIMED)
        for number in range(6):
            await writer.put(rows((number, "x")), durable=True)
            acknowledged.append(number)
            if number % 2:
                await writer.freeze()
        while await writer.flush_oldest() is not None:
            writer.release()

    for stop in range(200):
        acknowledged.clear()
        there = scene(tmp_path / str(stop), revision)
        dying = there.pause(busy(there))
        if not all(dying.step() is not None for _ in range(stop)):
            break
        dying.abandon()
        if not there.claimed():
            continue
        survived = [i for listed in there.manifest().flushed for i, _ in pairs(there.generation(listed.path))]
        survived += [i for i, _ in there.recovered()]
        assert survived == list(range(len(survived)))
        assert len(acknowledged) <= len(survived) <= len(acknowledged) + 1
    assert stop > 30
    assert acknowledged == list(range(6))


@pytest.mark.clause("FLUSH-008", "AMB-46")
def test_older_rows_are_hidden_in_each_of_several_fragments(tmp_path: Path) -> None:
    there = scene(tmp_path, "R")
    full = 1 << 20
    keys = np.concatenate([np.arange(full), [5, full - 1, full, full + 1, full]])
    written = pa.table({"id": keys, "v": pa.nulls(len(keys), pa.string())}, schema=SCHEMA)
    writer = there.open(Limits(memtable_rows=2 * full, wal_interval_ms=None))
    there.run(writer.put(written))
    there.run(writer.flush())
    found = there.generation(there.manifest().flushed[0].path)
    first, second = 0, 1 << 32
    live = {*range(first, first + full), *range(second, second + 5)} - {first + 5, first + full - 1, second + 2}
    assert set(found.column("_rowaddr").to_pylist()) == live
    assert found.num_rows == full + 2
    assert found.column("id").to_pylist()[-4:] == [5, full - 1, full + 1, full]


@pytest.mark.clause("MANIFEST-016", "FORMAT-017")
def test_the_rows_that_a_manifest_counts_are_all_that_are_stored_hidden_ones_included(tmp_path: Path) -> None:
    there = scene(tmp_path, "R")
    writer = there.open()
    for pair in ((1, "a"), (2, "b"), (1, "c")):
        there.run(writer.put(rows(pair)))
    there.run(writer.delete(rows((2, None)).select(["id"])))
    there.run(writer.flush())
    (listed,) = there.manifest().flushed
    fragments = table_of(there, listed.path).fragments
    assert listed.physical_rows == sum(fragment.physical_rows for fragment in fragments) == 4
    assert sum(fragment.deletion_file.num_deleted_rows for fragment in fragments) == 2
