"""The WALs of a table as a log of changes: each acknowledged row once, in order, or an error that says what is gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal import paths
from memwal.codec import wal
from memwal.errors import ArtifactError, InvalidArgument
from memwal.ids import Epoch, WalPosition
from memwal.read.changes import ChangeEntry, LogGone
from memwal.read.cut import CutGone
from memwal.stores.memory import MemoryStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
FIRST = {"A": 1, "B": 0, "R": 1}
"""Position of the first entry, by revision."""


def rows(values: Mapping[int, str]) -> pa.Table:
    return pa.table([list(values), list(values.values())], schema=SCHEMA)


def create(revision: str, **options: Any) -> memwal.Table:
    return memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, store=MemoryStore(), **options)


def told(entries: Any) -> list[tuple[int, list[tuple[int, str | None, bool]]]]:
    """Of each entry its epoch and rows, the third value of which says whether it deletes."""

    def of(entry: ChangeEntry) -> list[tuple[int, str | None, bool]]:
        columns = (*(column.to_pylist() for column in entry.rows.columns), entry.deleted.to_pylist())
        return list(zip(*columns, strict=True))

    return [(int(entry.epoch), of(entry)) for entry in entries]


def whole(table: memwal.Table) -> dict[str, list[tuple[int, list[tuple[int, str | None, bool]]]]]:
    starts, ends = table.log_starts(), table.log_ends()
    return {region: told(table.log_entries(region, starts[region], end)) for region, end in ends.items()}


def test_every_row_is_in_the_log_under_its_claim_whether_flushed_merged_or_neither(revision: str) -> None:
    table = create(revision)
    with table.writer() as writer:
        writer.put(rows({1: "a", 2: "b"}))
        writer.flush()
        writer.put(rows({1: "c"}))
        region = writer.region_id
    table.merge()
    with table.writer() as writer:
        writer.finish("app", 1, 0)
        writer.put(rows({3: "d"}))
    expected = [(1, [(1, "a", False), (2, "b", False)]), (1, [(1, "c", False)]), (2, [(3, "d", False)])]
    assert whole(table) == {region: expected}
    assert table.log_starts() == {region: FIRST[revision]}


def test_the_log_of_r_says_which_rows_delete_their_key() -> None:
    table = create("R")
    with table.writer() as writer:
        writer.put(rows({1: "a"}))
        writer.delete(pa.table({"id": pa.array([1], pa.int64())}))
        region = writer.region_id
    assert whole(table) == {region: [(1, [(1, "a", False)]), (1, [(1, None, True)])]}


def test_a_reader_goes_on_where_it_was_and_sees_regions_that_are_new() -> None:
    table = create("B")
    one, two = (table.register_region() for _ in range(2))
    with table.writer(one) as writer:
        writer.put(rows({1: "a"}))
    before = table.log_ends()
    assert list(before) == [one]
    with table.writer(one) as writer:
        writer.put(rows({1: "b"}))
    with table.writer(two) as writer:
        writer.put(rows({7: "c"}))
    after = table.log_ends()
    assert told(table.log_entries(one, before[one], after[one])) == [(2, [(1, "b", False)])]
    assert told(table.log_entries(two, 0, after[two])) == [(1, [(7, "c", False)])]


def test_what_was_collected_is_an_error_that_says_from_where_the_log_can_be_read(revision: str) -> None:
    table = create(revision, wal_collection=True)
    with table.writer() as writer:
        writer.put(rows({1: "a"}))
        writer.put(rows({2: "b"}))
        writer.flush()
        region, first = writer.region_id, writer.position_next
        writer.put(rows({3: "c"}))
        table.merge()
        table.gc(retain_versions=1)
        assert table.log_starts() == {region: first}
        with pytest.raises(LogGone) as gone:
            list(table.log_entries(region, FIRST[revision], table.log_ends()[region]))
        assert (gone.value.region, gone.value.position, gone.value.first) == (region, FIRST[revision], first)
        assert told(table.log_entries(region, first, table.log_ends()[region])) == [(1, [(3, "c", False)])]


def in_folder(path: Path, entries: int) -> tuple[memwal.Table, str, list[Path]]:
    """A table of revision B with a region of so many entries of one row each, the first two of which are flushed."""
    table = memwal.create(path, SCHEMA, primary_key=["id"])
    with table.writer() as writer:
        for number in range(entries):
            writer.put(rows({number: "x"}))
            if number == 1:
                writer.flush()
        region = writer.region_id
    names = [path / "_mem_wal" / region / paths.wal(WalPosition(at), "arrow") for at in range(entries + 1)]
    return table, region, [name for name in names if name.exists()]


def test_a_region_that_has_no_wal_is_said_to_have_none_and_not_to_be_damaged(tmp_path: Path) -> None:
    table, _, _ = in_folder(tmp_path / "t", 2)
    for unknown in ("22222222-2222-4222-8222-222222222222", table.register_region()):
        with pytest.raises(InvalidArgument, match=rf"no region {unknown} with a WAL: table.log_ends\(\) lists"):
            list(table.log_entries(unknown, 0, 5))


def test_an_entry_that_is_lost_above_the_flushed_ones_is_damage(tmp_path: Path) -> None:
    table, region, names = in_folder(tmp_path / "t", 5)
    end = table.log_ends()[region]
    names[-2].unlink()
    with pytest.raises(ArtifactError, match=r"entry 4 is missing.*WAL-007"):
        list(table.log_entries(region, 0, end))


def test_a_late_put_of_a_fenced_writer_below_the_collected_entries_is_no_change(tmp_path: Path) -> None:
    table, region, names = in_folder(tmp_path / "t", 5)
    names[1].unlink()
    with pytest.raises(LogGone) as gone:
        list(table.log_entries(region, 0, table.log_ends()[region]))
    assert (gone.value.position, gone.value.first) == (0, 2)


def test_an_entry_of_an_epoch_that_nobody_claimed_is_damage(tmp_path: Path) -> None:
    table, region, names = in_folder(tmp_path / "t", 3)
    end = table.log_ends()[region]
    entry = wal.WalEntry(epoch=Epoch(7), rows=rows({9: "x"}))
    names[-1].write_bytes(wal.encode(entry, table.revision))
    with pytest.raises(ArtifactError, match=r"epoch 7, and the region's newest epoch is 1.*FENCE-015"):
        list(table.log_entries(region, 0, end))


def test_a_planned_read_is_planned_again_from_its_name_and_shows_the_same_state(revision: str) -> None:
    table = create(revision)
    with table.writer() as writer:
        writer.put(rows({1: "a", 2: "a"}))
        writer.flush()
        table.merge()
        writer.put(rows({1: "b"}))
        named = json.loads(json.dumps(table.plan_read()[0].cut.named()))
        assert named["ends"] == table.log_ends()
        writer.put(rows({1: "c", 3: "c"}))
    found = [
        row for split in table.plan_read_again(named) for part in table.batches_of(split) for row in part.to_pylist()
    ]
    assert sorted(tuple(row.values()) for row in found) == [(1, "b"), (2, "a")]
    table.gc(retain_versions=1)
    with pytest.raises(CutGone):
        table.plan_read_again({**named, "version": 1})


def test_the_name_of_a_plan_has_the_ends_of_regions_without_rows_too() -> None:
    table = create("B")
    with table.writer() as writer:
        writer.put(rows({1: "a"}))
        writer.flush()
    table.merge()
    assert table.plan_read()[0].cut.named()["ends"] == table.log_ends() != {}
