"""The WAL fragment mapping of revision A: every row's address in the generation, from where it is in memory."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.errors import EngineBug
from memwal.ids import FragmentId, WalPosition
from memwal.region.log import Log
from memwal.region.mapping import FragmentMapping, FragmentPlace

from ..kit.writer_scene import Pair, Scene, pairs, rows, scene

Step = tuple[str, int]
"""What a writer does: ``put`` or ``buffer`` so many rows, ``store`` what is buffered, or ``open`` the region again."""

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "buffer", "buffer", "store", "open"]), st.integers(1, 4)), min_size=1, max_size=12
)


def place(fragment: int, position: int, ordinal: int, row_start: int, count: int) -> FragmentPlace:
    return FragmentPlace(FragmentId(fragment), WalPosition(position), ordinal, row_start, count)


@pytest.mark.clause("FLUSH-017", "FLUSH-018", "FLUSH-020", "FLUSH-022", "AMB-19")
def test_the_mapping_gives_entry_ordinal_and_first_row_of_each_fragment(tmp_path: Path) -> None:
    there = scene(tmp_path, "A")
    writer = there.open()
    there.run(writer.put(rows(*((i, "first") for i in range(10))), durable=False))
    there.run(writer.put(rows(*((i, "second") for i in range(20))), durable=False))
    assert writer.memtable.mapping().places == ()
    there.run(writer.put(rows(*((i, "third") for i in range(30)))))
    assert writer.memtable.mapping().places == (
        place(0, 1, 0, 0, 10),
        place(1, 1, 1, 10, 20),
        place(2, 1, 2, 30, 30),
    )
    there.run(writer.put(rows((0, "fourth"))))
    assert writer.memtable.mapping().places[3:] == (place(3, 2, 0, 0, 1),)
    mapping = writer.memtable.mapping()
    assert mapping.address(FragmentId(1), 5) == 15
    assert mapping.address(FragmentId(3), 0) == 1 << 32
    with pytest.raises(EngineBug, match="has 10 rows"):
        mapping.address(FragmentId(0), 10)


@pytest.mark.clause("FLUSH-018", "FLUSH-019")
def test_fragments_count_from_0_in_each_generation_and_entries_from_1_behind_the_pointer(tmp_path: Path) -> None:
    there = scene(tmp_path, "A")
    writer = there.open()
    for number in range(3):
        there.run(writer.put(rows((number, "old"))))
    there.run(writer.flush())
    pointer = there.manifest().position_replay_after
    assert pointer == 3
    there.run(writer.put(rows((7, "new"))))
    there.run(writer.put(rows((8, "new"))))
    found = writer.memtable.mapping().places
    assert found == (place(0, 4, 0, 0, 1), place(1, 5, 0, 0, 1))
    assert [p.relative(pointer) for p in found] == [1, 2]


@pytest.mark.clause("FLUSH-021", "AMB-19", "AMB-20")
def test_replay_makes_one_fragment_of_each_entry_with_rows(tmp_path: Path) -> None:
    there = scene(tmp_path, "A")
    first = there.open()
    for number in range(3):
        there.run(first.put(rows((number, "a")), durable=False))
    there.run(first.flush_wal())
    there.run(first.put(rows((3, "b"), (4, "b"))))
    there.open()
    third = there.open()
    there.run(third.put(rows((5, "c"))))
    assert there.positions() == [1, 2, 3, 4, 5]
    assert third.memtable.mapping().places == (place(0, 1, 0, 0, 3), place(1, 2, 0, 0, 2), place(2, 5, 0, 0, 1))
    assert third.memtable.mapping().positions == (1, 2, 5)
    assert third.memtable.mapping().flushed_fragment(WalPosition(5)) == 2
    with pytest.raises(EngineBug, match="entry 3 holds no fragment"):
        third.memtable.mapping().flushed_fragment(WalPosition(3))


@pytest.mark.clause("AMB-19", "AMB-20", "FLUSH-006", "FLUSH-017", "FLUSH-021", "FLUSH-022")
@settings(max_examples=60)
@given(STEPS)
def test_every_row_of_the_memtable_is_found_at_its_mapped_address(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        there = scene(Path(folder), "A")
        played(there, steps)


def played(there: Scene, steps: list[Step]) -> None:
    writer = there.open()
    numbers = itertools.count()
    for what, count in steps:
        if what in ("put", "buffer"):
            written = rows(*((n, f"v{n}") for n in itertools.islice(numbers, count)))
            there.run(writer.put(written, durable=what == "put"))
        elif what == "store":
            there.run(writer.flush_wal())
        else:
            writer = there.open()
    if there.run(writer.freeze()) is None:
        return
    (sealed,) = writer.frozen
    there.run(writer.flush_oldest())
    flushed = there.generation(there.manifest().flushed[-1].path)
    by_address: dict[int, Pair] = dict(zip(flushed.column("_rowaddr").to_pylist(), pairs(flushed), strict=True))
    mapping, held = sealed.mapping(), pairs(sealed.table())
    offsets = np.arange(len(held), dtype=np.uint64)
    assert [by_address[address] for address in mapping.addresses(offsets).tolist()] == held
    assert mapping.addresses(offsets[::-1]).tolist() == mapping.addresses(offsets).tolist()[::-1]
    one_by_one = [mapping.address(p.fragment, row) for p in mapping.places for row in range(p.rows)]
    assert one_by_one == mapping.addresses(offsets).tolist()
    assert [pair for p in mapping.places for pair in pairs(sealed.fragments[p.fragment])] == held


def test_a_row_that_is_not_stored_has_no_address() -> None:
    mapping = FragmentMapping((place(0, 1, 0, 0, 2),))
    assert mapping.addresses(np.array([], np.uint64)).tolist() == []
    with pytest.raises(EngineBug, match="row 2 of a MemTable with 2 stored rows"):
        mapping.addresses(np.array([0, 2], np.uint64))
    with pytest.raises(EngineBug, match="with 0 stored rows"):
        FragmentMapping(()).addresses(np.array([0], np.uint64))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers()), max_size=30))
def test_a_log_is_a_value_like_a_tuple(appends: list[tuple[int, int]]) -> None:
    logs, tuples = [Log[int]()], [()]
    for which, item in appends:
        base = which % len(logs)
        logs.append(logs[base].appended(item))
        tuples.append((*tuples[base], item))  # type: ignore[arg-type]
    for log, expected in zip(logs, tuples, strict=True):
        assert log[:] == tuple(log) == expected
        assert len(log) == len(expected)
        assert log[1:3] == expected[1:3]
        assert [log[i] for i in range(-len(log), len(log))] == list(expected * 2)
    with pytest.raises(IndexError):
        logs[0][0]
