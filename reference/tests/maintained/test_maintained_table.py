"""Choosing the maintained indexes of a table, and what open writers make of a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pytest
from memwal.drive import drive
from memwal.effects import Io, Request, run
from memwal.index import maintaining
from memwal.maintained.base_index import inherited
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table.state import TableState, latest

from ..kit.maintained_scene import CENTROIDS, CODEBOOK, Base, create_vectors, neighbours, rows
from ..kit.tables import flush


def carried(base: Base, table: memwal.Table, number: int) -> list[str]:
    """Names of the indexes of one generation, sorted."""
    opened = lance.dataset(str(base.generation(table, number)))
    return sorted(index.name for index in opened.describe_indices())


def catch_up_of(state: TableState) -> dict[str, dict[str, int]]:
    return {entry.index_name: dict(entry.generations) for entry in state.mem_wal.catchup}


@pytest.mark.clause("AMB-48", "WRITER-028")
def test_a_new_table_has_no_index_to_maintain_and_none_is_created(tmp_path: Path) -> None:
    with pytest.raises(memwal.InvalidArgument, match="a new table has none to maintain, and is to maintain"):
        memwal.create(tmp_path / "t", rows([1]), primary_key=["id"], maintained_indexes=["flat"])
    assert not (tmp_path / "t").exists()


@pytest.mark.clause("AMB-48", "WRITER-028")
def test_indexes_that_exist_before_memwal_is_enabled_are_in_the_first_generation(base: Base) -> None:
    table = base.enable(maintained=["pq", "btree"])
    flush(table, rows(range(3)))
    assert carried(base, table, 1) == ["btree", "pq"]


@pytest.mark.clause("INDEX-016")
def test_an_index_that_is_not_there_is_refused_before_anything_is_written(base: Base) -> None:
    with pytest.raises(memwal.InvalidArgument, match="no index 'made up'"):
        base.enable(maintained=["btree", "made up"])
    assert base.state().mem_wal_entry is None
    table = base.enable(maintained=["btree"])
    version = table.version
    with pytest.raises(memwal.InvalidArgument, match="no index 'made up'"):
        table.maintain(["made up"])
    with pytest.raises(memwal.InvalidArgument, match="bookkeeping"):
        table.maintain(["__lance_mem_wal"])
    assert table.refresh().version == version


@pytest.mark.clause("AMB-142", "WRITER-002")
def test_a_change_fences_nobody_and_counts_from_the_next_memtable_on(base: Base) -> None:
    table = base.enable(maintained=["btree"])
    with table.writer(background=False) as writer:
        writer.put(rows([1]))
        memwal.open(base.place).maintain(["bitmap", "pq"])
        writer.put(rows([2]))
        writer.flush()
        writer.put(rows([3]))
        assert writer.epoch == 1
        writer.flush()
    assert carried(base, table, 1) == ["btree"]
    assert carried(base, table, 2) == ["bitmap", "pq"]
    assert table.scan(["id"], filter="id > 0").num_rows == 3


@pytest.mark.clause("INDEX-003")
def test_an_index_may_become_maintained_while_none_was(base: Base) -> None:
    table = base.enable(maintained=[])
    with table.writer(background=False) as writer:
        writer.put(rows([1]))
        table.maintain(["flat"])
        writer.flush()
        writer.put(rows([2]))
        writer.flush()
    assert carried(base, table, 1) == []
    assert carried(base, table, 2) == ["flat"]


@pytest.mark.clause("AMB-142")
def test_a_maintained_index_that_is_dropped_does_not_stop_an_open_writer(base: Base) -> None:
    table = base.enable(maintained=["btree"])
    with table.writer(background=False) as writer:
        base.native().drop_index("btree")
        for key in (1, 2):
            writer.put(rows([key]))
            writer.flush()
    assert carried(base, table, 2) == ["btree"]


@pytest.mark.clause("AMB-71", "INDEX-016", "INDEX-021")
def test_an_index_added_later_gets_explicit_catch_up_entries(base: Base) -> None:
    table = base.enable(maintained=["btree"])
    with table.writer(background=False) as writer:
        region = writer.region_id
        for key in (1, 2):
            writer.put(rows([key]))
            writer.flush()
    table.merge()
    before = base.state().mem_wal
    assert catch_up_of(base.state()) == {"btree": {region: 0}}
    create_vectors(base.native(), "vf", "IVF_FLAT", "whole")  # covers the merged rows too
    table.maintain(["btree", "pq", "whole"])
    after = base.state().mem_wal
    assert after.maintained_indexes == ("btree", "pq", "whole")
    assert catch_up_of(base.state()) == {"btree": {region: 0}, "pq": {region: 0}, "whole": {region: 2}}
    assert (after.merged, after.specs, after.num_regions) == (before.merged, before.specs, before.num_regions)
    table.maintain(["whole"])
    assert catch_up_of(base.state()) == {"btree": {region: 0}, "pq": {region: 0}, "whole": {region: 2}}


def test_a_choice_that_changes_nothing_commits_nothing(base: Base) -> None:
    table = base.enable(maintained=["btree", "pq"])
    version = table.version
    table.maintain(["btree", "pq", "btree"])
    assert table.refresh().version == version


@pytest.mark.clause("INDEX-021", "AMB-69")
def test_a_merge_that_commits_meanwhile_keeps_its_progress(base: Base) -> None:
    table = base.enable(maintained=["btree"])
    with table.writer(background=False) as writer:
        region = writer.region_id
        writer.put(rows([1]))
        writer.flush()
    merged = False

    def perform(request: Request[Any]) -> Any:
        nonlocal merged
        if not merged and type(request).__name__ == "PutIfAbsent" and request.path.startswith("_versions/"):
            merged = True
            memwal.open(base.place).merge(region)
        return drive(_once(request), base.store)

    run(maintaining.maintain(Io(interpretation=STRICT), ["btree", "pq"]), perform)
    details = base.state().mem_wal
    assert merged
    assert details.progress(region) == 1
    assert details.maintained_indexes == ("btree", "pq")
    assert catch_up_of(base.state()) == {"btree": {region: 0}, "pq": {region: 0}}


async def _once(request: Request[Any]) -> Any:
    return await request


@pytest.mark.clause("WRITER-030", "AMB-51")
def test_codebooks_are_changed_by_maintaining_a_second_index_and_dropping_the_first_later(base: Base) -> None:
    table = base.enable(maintained=["pq"])
    with table.writer(background=False) as writer:
        writer.put(rows(range(20)))
        writer.flush()
        create_vectors(
            base.native(), "vp", "IVF_PQ", "pq2", CENTROIDS + np.float32(0.5), pq_codebook=CODEBOOK * np.float32(2)
        )
        table.maintain(["pq", "pq2"])
        writer.put(rows(range(20, 40)))
        writer.flush()  # the MemTable was opened before the change
        writer.put(rows(range(40, 60)))
        writer.flush()
        table.maintain(["pq2"])
        writer.put(rows(range(60, 80)))
        writer.flush()
        writer.put(rows(range(80, 100)))
        writer.flush()
    assert [carried(base, table, number) for number in range(1, 6)] == [
        ["pq"],
        ["pq"],
        ["pq", "pq2"],
        ["pq", "pq2"],
        ["pq2"],
    ]
    both = drive(latest(Io(interpretation=STRICT)), LocalStore(base.generation(table, 3)))
    assert inherited(both) == {"pq": base.index("pq").uuid, "pq2": base.index("pq2").uuid}
    query = rows([90]).column("vp")[0].as_py()
    code = base.index("pq2").code
    assert code is not None
    encoded = code.encode(rows(range(80, 100)).column("vp"))
    expected = code.distances(encoded, code.query_vector(query)).tolist()
    last = lance.dataset(str(base.generation(table, 5)))
    assert list(neighbours(last, "vp", query, 100).values()) == pytest.approx(sorted(expected), abs=1e-4)
