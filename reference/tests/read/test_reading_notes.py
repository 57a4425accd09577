"""Readings of the texts on reads: where filters stand (AMB-99), and whose memory counts, beside what (AMB-102, 140)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal.errors import Fenced

from ..kit.ground import SCHEMA, Ground, row
from ..kit.profiles import under
from ..kit.tables import opened


def keyed(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def put(table: memwal.Table, region: str, value: str, *, flush: bool = True) -> memwal.Writer:
    writer = table.writer(region, background=False)
    writer.put(row(1, value))
    if flush:
        writer.flush()
    return writer


@pytest.fixture(params=["A", "B", "R"])
def table(request: pytest.FixtureRequest, ground: Ground) -> memwal.Table:
    return memwal.create("t", SCHEMA, primary_key=["id"], revision=request.param, store=ground)


def read(table: memwal.Table, condition: str, **options: Any) -> list[object]:
    """Values that `scan` and `batches` find, which have to be the same."""
    found = table.scan(["v"], condition, **options).column("v").to_pylist()
    parts = table.batches(["v"], condition, **options)
    assert [value for part in parts for value in part.column("v").to_pylist()] == found
    return found


@pytest.mark.clause("AMB-99", "READ-006")
def test_a_filter_finds_the_newest_row_of_a_key_and_none_that_it_hides(table: memwal.Table) -> None:
    region = table.register_region()
    writers = []
    try:
        for level, value in enumerate(["base", "generation", "newer generation", "memory"]):
            writer = put(table, region, value, flush=value != "memory")
            writers.append(writer)
            if value == "base":
                assert table.merge().rows == 1
            for older in ("base", "generation", "newer generation", "memory")[:level]:
                assert read(table, f"v = '{older}'") == read(table, f"v = '{older}'", writers=[writer]) == []
                assert table.scan(["v"], f"id = 1 AND v = '{older}'").num_rows == 0
            assert read(table, f"v = '{value}'") == read(table, f"v = '{value}'", writers=[writer]) == [value]
            assert read(table, "id = 1") == [value]
        found = under(table, "literal").scan(["v"], "v = 'base'").column("v").to_pylist()
        assert found == ["base"], "the plan of the text, by which the hidden row is the answer"
    finally:
        for writer in writers:
            with suppress(Fenced):
                writer.close()


@pytest.mark.clause("AMB-140", "READ-008")
def test_a_strong_read_with_the_memory_of_a_fenced_writer_is_refused(table: memwal.Table, ground: Ground) -> None:
    region = table.register_region()
    old = put(table, region, "old", flush=False)
    assert read(table, "id = 1", writers=[old]) == ["old"]
    new = put(opened(ground), region, "new", flush=False)
    for attempt in (
        lambda: table.scan(writers=[old]),
        lambda: table.scan(["v"], "id = 1", writers=[old]),
        lambda: list(table.batches(writers=[old])),
        lambda: table.get(keyed(1), writers=[old]),
    ):
        with pytest.raises(Fenced) as caught:
            attempt()
        assert (caught.value.region, caught.value.local, caught.value.stored) == (region, 1, 2)
    assert read(table, "id = 1", writers=[new]) == read(table, "id = 1") == ["new"]
    new.close()
    with suppress(Fenced):
        old.close()


def value_of(table: memwal.Table, *, writers: list[memwal.Writer]) -> dict[object, object]:
    found = table.scan(consistency="eventual", writers=writers)
    return dict(zip(found.column("id").to_pylist(), found.column("v").to_pylist(), strict=True))


@pytest.mark.clause("AMB-102", "READ-013")
def test_memory_beside_a_stale_snapshot_leaves_no_generation_out(table: memwal.Table) -> None:
    with table.writer(table.register_region(), background=False) as writer:
        writer.put(row(1, "flushed"))
        table.snapshot()
        assert value_of(table, writers=[writer]) == {1: "flushed"}
        writer.flush()
        writer.put(row(2, "in memory"))
        assert value_of(table, writers=[]) == {}, "the snapshot is older than the flush"
        assert value_of(table, writers=[writer]) == {1: "flushed", 2: "in memory"}


@pytest.mark.clause("AMB-102", "AMB-88")
def test_memory_of_a_generation_that_was_merged_hides_nothing_of_the_base(table: memwal.Table, ground: Ground) -> None:
    region = table.register_region()
    old = put(table, region, "old", flush=False)
    new = put(opened(ground), region, "new")
    assert table.merge().rows == 1
    assert value_of(table, writers=[old]) == {1: "new"}
    new.close()
