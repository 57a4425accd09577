"""Indexes of generations and the native package: its planner uses ours, and we know what to make of its own."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from lance.mem_wal import LsmVectorSearchPlanner, ShardSnapshot
from memwal.drive import drive
from memwal.effects import Io
from memwal.maintained.base_index import inherited, matches
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table.state import latest

from ..kit.maintained_scene import NAMES, PARTITIONS, VECTOR_COLUMNS, Base, hits, rows, stored_statistics
from ..kit.tables import flush


@pytest.mark.clause("GEN-009", "WRITER-025")
@pytest.mark.parametrize("name", VECTOR_COLUMNS)
def test_the_native_planner_searches_the_vector_indexes_of_a_generation(base: Base, name: str) -> None:
    table = base.enable("R")
    with table.writer(background=False) as writer:
        writer.put(rows(range(100)))
        writer.put(rows([5, 6], vectors=[[9, 9, 9, 9]] * 2))
        writer.flush()
    (listed,) = table.regions()[0].manifest.flushed
    snapshot = ShardSnapshot(writer.region_id).with_current_generation(2).with_sstable(1, listed.path)
    planner = LsmVectorSearchPlanner(base.native(), [snapshot], VECTOR_COLUMNS[name])
    query = pa.array([9, 9, 9, 9], pa.float32())
    plan = planner.plan_search(query, k=2, nprobes=PARTITIONS, columns=["id"])
    assert f"ANNSubIndex: name={name}" in plan.explain().partition(listed.path)[2]
    assert sorted(plan.to_table().column("id").to_pylist()) == [5, 6]


def native_generation(base: Base, maintained: list[str], written: pa.Table) -> Path:
    """A generation that the native writer flushed."""
    base.native().initialize_mem_wal(maintained_indexes=maintained)
    shard = str(uuid.uuid4())
    with base.native().mem_wal_writer(shard) as writer:
        writer.put(written)
    (folder,) = (base.place / "_mem_wal" / shard).glob("*_gen_1")
    return folder


@pytest.mark.clause("AMB-51")
def test_a_vector_index_that_the_native_writer_trained_by_itself_answers_for_no_base_index(base: Base) -> None:
    folder = native_generation(base, ["pq", "btree"], rows(range(50)))
    generation = drive(latest(Io(interpretation=STRICT)), LocalStore(folder))
    assert inherited(generation) == {}
    kinds = {i.name: i.index_type for i in lance.dataset(str(folder)).describe_indices()}
    assert kinds == {"pq": "IVF_HNSW_SQ", "btree": "BTree"}
    assert not matches(base.index("pq"), generation)
    assert matches(base.index("btree"), generation)
    assert hits(lance.dataset(str(folder)), "price = 4.5") == [9]


@pytest.mark.clause("WRITER-027")
def test_corpus_statistics_of_a_native_generation_are_read(base: Base) -> None:
    folder = native_generation(base, ["inverted"], rows(range(3), texts=["fox fox dog", None, "dogs running"]))
    store = LocalStore(folder)
    generation = drive(latest(Io(interpretation=STRICT)), store)
    found = drive(stored_statistics(Io(interpretation=STRICT), generation, "inverted"), store)
    assert (found.documents, found.terms) == (2, 5)
    assert dict(found.frequencies) == {"fox": 1, "dog": 2, "run": 1}
    assert matches(base.index("inverted"), generation)


def test_a_table_that_the_native_package_enabled_takes_our_writer_with_its_maintained_indexes(base: Base) -> None:
    maintained = [name for name in NAMES if name != "bitmap"]  # which the native package does not maintain
    base.native().initialize_mem_wal(maintained_indexes=maintained)
    table = memwal.open(base.place)
    flush(table, rows(range(20)))
    names: list[Any] = [i.name for i in lance.dataset(str(base.generation(table))).describe_indices()]
    assert sorted(names) == sorted(maintained)
