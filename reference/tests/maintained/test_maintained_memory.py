"""The key filter of a MemTable, late index updates, and what a MemTable keeps besides its rows."""

from __future__ import annotations

from collections.abc import Sequence

import memwal
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.maintained.base_index import MaintainedIndex
from memwal.maintained.memory import MemTableIndexes

from ..kit.maintained_scene import NAMES, SCHEMA, Base, rows

BTREE = MaintainedIndex(name="i", kind="btree", column="v", parts=("u",))
COMPOSITE = pa.schema([pa.field("a", pa.string()), pa.field("b", pa.int64()), pa.field("v", pa.string())])
KEYS = st.tuples(st.text(max_size=3), st.integers(-3, 3))


def composite(keys: Sequence[tuple[str, int]], value: str = "v") -> pa.Table:
    return pa.table([[a for a, _ in keys], [b for _, b in keys], [value] * len(keys)], schema=COMPOSITE)


def indexes() -> MemTableIndexes:
    return MemTableIndexes.empty([BTREE], ["b", "a"], COMPOSITE)


@pytest.mark.clause("WRITER-020", "WRITER-024", "AMB-47")
@given(writes=st.lists(st.lists(KEYS, max_size=8), max_size=8))
@settings(max_examples=60)
def test_the_filter_never_denies_a_key_that_was_written(writes: list[list[tuple[str, int]]]) -> None:
    held = indexes()
    written: list[tuple[str, int]] = []
    for keys in writes:
        held.insert(composite(keys), indexed=False)
        written += keys
        assert held.may_contain(composite(written).select(["b", "a"])).all()
    assert held.rows == len(written)
    assert held.rows_indexed == 0


@pytest.mark.clause("WRITER-024")
def test_the_filter_grows_with_the_memtable_and_still_tells_keys_apart() -> None:
    held = indexes()
    for start in range(0, 20_000, 2_500):
        held.insert(composite([("k", number) for number in range(start, start + 2_500)]))
    present = composite([("k", number) for number in range(20_000)]).select(["b", "a"])
    absent = composite([("k", number) for number in range(100_000, 120_000)]).select(["b", "a"])
    assert held.may_contain(present).all()
    assert held.may_contain(absent).mean() < 0.1
    assert not held.successor().may_contain(present).any()


@pytest.mark.clause("AMB-116", "WRITER-007")
def test_a_row_that_is_not_indexed_yet_is_not_found_and_hides_the_row_that_it_supersedes() -> None:
    held = indexes()
    held.insert(composite([("x", 1), ("y", 2)], "old"))
    held.insert(composite([("x", 1)], "new"), indexed=False)
    assert (held.rows, held.rows_indexed) == (3, 2)
    assert held.equal("i", "old").tolist() == [1]
    assert held.equal("i", "new").tolist() == []
    assert held.may_contain(composite([("x", 1)]).select(["b", "a"])).all()
    held.refresh()
    assert held.rows_indexed == 3
    assert held.equal("i", "old").tolist() == [1]
    assert held.equal("i", "new").tolist() == [2]


@pytest.mark.clause("AMB-109")
@given(writes=st.lists(st.lists(KEYS, max_size=6), max_size=6))
@settings(max_examples=60)
def test_the_rows_that_count_are_the_last_of_each_key(writes: list[list[tuple[str, int]]]) -> None:
    held = indexes()
    written: list[tuple[str, int]] = []
    for keys in writes:
        held.insert(composite(keys))
        written += keys
        last = {key: offset for offset, key in enumerate(written)}
        assert held.live().tolist() == [last[key] == offset for offset, key in enumerate(written)]
        assert held.equal("i", "v").tolist() == sorted(last.values())


@pytest.mark.clause("WRITER-004", "WRITER-020", "WRITER-021", "WRITER-022")
def test_an_indexed_write_is_in_the_filter_and_in_every_maintained_index_when_it_returns(base: Base) -> None:
    table = base.enable()
    with table.writer(background=False, durable=False) as writer:
        writer.put(rows([5], prices=[99.0], tags=["new"], texts=["heron"], vectors=[[9, 9, 9, 9]]), indexed=True)
        held = writer._writer.memtable.indexes
        assert held is not None
        assert held.may_contain(pa.table({"id": [5]})).tolist() == [True]
        assert held.equal("btree", 99.0).tolist() == [0]
        assert held.equal("bitmap", "new").tolist() == [0]
        assert held.matching("inverted", "heron").offsets.tolist() == [0]
        for name in ("flat", "pq", "sq"):
            assert held.nearest(name, [9, 9, 9, 9], 1).offsets.tolist() == [0]


@pytest.mark.clause("WRITER-023", "AMB-48")
def test_only_the_indexes_that_the_mem_wal_index_names_are_kept_up(base: Base) -> None:
    table = base.enable(maintained=["bitmap", "pq"])
    with table.writer(background=False) as writer:
        writer.put(rows([1, 2]))
        held = writer._writer.memtable.indexes
        assert held is not None
        assert [index.name for index in held.maintained] == ["bitmap", "pq"]
        assert (set(held.scalars), set(held.vectors), set(held.texts)) == ({"bitmap"}, {"pq"}, set())
        with pytest.raises(memwal.InvalidArgument, match="the MemTable has no index 'btree'"):
            held.equal("btree", 1.0)


@pytest.mark.clause("GEN-018")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_memtable_keeps_a_key_filter_index_builders_and_a_map_to_wal_entries(base: Base, revision: str) -> None:
    table = base.enable(revision)
    with table.writer(background=False) as writer:
        writer.put(rows([1]), durable=False)
        writer.put(rows([2, 3]), durable=True)
        memtable = writer._writer.memtable
        held = memtable.indexes
        assert held is not None
        assert held.may_contain(pa.table({"id": [1, 2, 3]})).all()
        assert {index.name for index in held.maintained} == set(NAMES)
        assert held.equal("bitmap", "t0", "t1", "t2").tolist() == [0, 1, 2]
        first, second = memtable.mapping().places
        assert (first.fragment, first.ordinal, first.row_start, first.rows) == (0, 0, 0, 1)
        assert (second.fragment, second.ordinal, second.row_start, second.rows) == (1, 1, 1, 2)
        assert first.position == second.position == memtable.position_covered


@pytest.mark.clause("GEN-018", "FLUSH-015")
def test_replay_rebuilds_the_indexes_of_the_memtable(base: Base) -> None:
    table = base.enable()
    crashed = table.writer(background=False)
    crashed.put(rows([1, 2], tags=["a", "b"]))
    crashed.put(rows([1], tags=["c"]))
    with table.writer(crashed.region_id, background=False) as writer:
        held = writer._writer.memtable.indexes
        assert held is not None
        assert (held.rows, held.rows_indexed) == (3, 3)
        assert held.equal("bitmap", "a", "b", "c").tolist() == [1, 2]
        assert held.nearest("flat", [0, 0, 0, 0], 9).offsets.tolist() != []
        assert held.schema.names[: len(SCHEMA)] == SCHEMA.names
