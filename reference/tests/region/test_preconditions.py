"""What protocol steps rely on is asserted where they begin or end: a broken engine stops before it does harm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.effects import Delete
from memwal.errors import EngineBug, WriterStopped
from memwal.ids import Epoch, Generation, ManifestVersion, WalPosition
from memwal.jobs import merger
from memwal.jobs.collector.decision import Decision, Eligibility
from memwal.jobs.collector.ledger import Ledger
from memwal.jobs.collector.wal import collect_wal
from memwal.read import generation as sources
from memwal.read import nodes
from memwal.region import claim, commit, flush, recovery
from memwal.region import manifest as manifests
from memwal.region import writer as writing
from memwal.region.memtable import MemTable
from memwal.region.writer import RegionWriter
from memwal.revisions import B
from memwal.table import apply

from ..kit.ground import SCHEMA, Ground, manifest, put_entry, region, row
from ..kit.writer_scene import Scene, rows, scene


@pytest.fixture
def there(tmp_path: Path) -> Scene:
    return scene(tmp_path, "B")


def memtable(*positions: int) -> MemTable:
    """One row in each of the entries at ``positions``."""
    found = MemTable(generation=Generation(1), schema=SCHEMA)
    for position in positions:
        found = found.with_replayed(WalPosition(position), row(position))
    return found


def test_no_entry_is_put_but_behind_the_last_one_that_is_known(there: Scene) -> None:
    writer = there.open()
    there.run(writer.put(rows((1, "x"))))
    before = there.puts()
    writer.position_next = WalPosition(writer.position_next + 1)
    with pytest.raises(EngineBug, match="the next entry is to be put at"):
        there.run(writer.put(rows((2, "x"))))
    assert there.puts() == before


def test_no_generation_is_flushed_but_the_oldest_that_is_not_listed(there: Scene) -> None:
    writer = there.open()
    for key in (1, 2):
        there.run(writer.put(rows((key, "x"))))
        there.run(writer.freeze())
    before = there.puts()
    writer.frozen = writer.frozen[1:]
    with pytest.raises(EngineBug, match=r"generation 2, .* is to be flushed, and the oldest that is not listed is 1"):
        there.run(writer.flush_oldest())
    assert there.puts() == before


def test_what_a_flush_has_committed_the_writer_knows_and_does_not_flush_again(
    there: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def of_another_epoch(*given: Any) -> RegionManifest:
        committed = await commit.commit_flush(*given)
        return replace(committed, epoch=Epoch(committed.epoch + 1))

    writer = there.open()
    there.run(writer.put(rows((1, "x"))))
    monkeypatch.setattr(writing, "commit_flush", of_another_epoch)
    with pytest.raises(EngineBug, match="generation 1 was committed, and the writer knows version 1 of epoch 1 still"):
        there.run(writer.flush())
    with pytest.raises(WriterStopped):
        there.run(writer.put(rows((2, "x"))))


def test_no_writer_is_closed_with_rows_that_are_in_no_entry(there: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        """In place of storing what waits."""

    writer = there.open()
    there.run(writer.put(rows((1, "x")), durable=False))
    monkeypatch.setattr(type(writer), "flush_wal", nothing)
    with pytest.raises(EngineBug, match="closed with 1 rows"):
        there.run(writer.close())


@pytest.mark.parametrize(
    ("sealed", "start", "said"),
    [
        (memtable(3, 4).with_write(row(9), 8), 3, "1 rows in no entry"),
        (MemTable(generation=Generation(1), schema=SCHEMA), 1, "0 rows in no entry"),
        (memtable(3, 4), 4, "rows of entries 3 to 4, and covers 4 to 4"),
        (replace(memtable(3, 4), position_covered=WalPosition(3)), 3, "rows of entries 3 to 4, and covers 3 to 3"),
    ],
)
def test_no_generation_is_written_of_rows_that_its_range_of_the_wal_does_not_have(
    sealed: MemTable, start: int, said: str
) -> None:
    ground = Ground()
    with pytest.raises(EngineBug, match=said):
        ground.run(flush.write_generation(region("B"), Epoch(1), sealed, WalPosition(start)))
    assert not ground.asked


def test_no_generation_is_written_with_fewer_rows_than_its_memtable_has(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(*_: object) -> list[Any]:
        return []

    monkeypatch.setattr(flush, "write_fragments", none)
    with pytest.raises(EngineBug, match="2 rows in memory and 0 in its files"):
        Ground().run(flush.write_generation(region("B"), Epoch(1), memtable(1, 2), WalPosition(1)))


def test_rows_are_masked_or_the_newest_of_their_key_each_of_them() -> None:
    with pytest.raises(EngineBug, match="of 0 rows 0 are masked and 1 are the newest"):
        Ground().run(flush._mask_older(region("R").io, [], row(1), ("id",)))


LISTED = FlushedGeneration(generation=Generation(1), path="0000000a_gen_1")


def test_no_flush_is_committed_that_covers_no_entry(ground: Ground) -> None:
    with pytest.raises(EngineBug, match="entries 5 to 4"):
        ground.run(commit.commit_flush(region("B"), Epoch(1), WalPosition(5), LISTED, WalPosition(4)))
    assert not ground.asked


def test_a_flush_that_is_committed_is_behind_the_current_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def advance(*_: object, **__: object) -> manifests.Advanced:
        return manifests.Advanced(manifest(2), committed=True)

    monkeypatch.setattr(manifests, "advance", advance)
    with pytest.raises(EngineBug, match="version 2 has epoch 1 and current generation 1"):
        Ground().run(commit.commit_flush(region("B"), Epoch(1), WalPosition(1), LISTED, WalPosition(4)))


def test_a_claim_ends_with_the_version_that_it_put(monkeypatch: pytest.MonkeyPatch) -> None:
    async def advance(*_: object, **__: object) -> manifests.Advanced:
        return manifests.Advanced(manifest(2, 2), committed=True)

    monkeypatch.setattr(manifests, "advance", advance)
    with pytest.raises(EngineBug, match="claimed with version 2, which another put"):
        Ground().run(claim.claim(region("B")))


@pytest.mark.parametrize(("generation", "position"), [(2, 4), (1, 5)])
def test_no_barrier_is_put_where_a_flush_covers_it(ground: Ground, generation: int, position: int) -> None:
    claimed = manifest(3, 2, after=4, generation=2)
    putting = recovery._put_barrier(region("B"), claimed, Generation(generation), WalPosition(position))
    with pytest.raises(EngineBug, match=f"barrier of generation {generation} at position {position}"):
        ground.run(putting)
    assert not ground.asked


def test_replayed_rows_are_in_a_memtable_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemTable, "with_replayed", lambda self, *_, **__: self)
    replayed = [recovery._Replayed(WalPosition(1), row(1))]
    with pytest.raises(EngineBug, match="1 rows were replayed, and the MemTables made of them have 0"):
        recovery._rebuilt(manifest(1), SCHEMA, replayed)


@pytest.mark.parametrize("replayed", [SCHEMA.empty_table(), row(1)], ids=["barrier", "rows"])
def test_entries_are_replayed_in_ascending_order(replayed: pa.Table) -> None:
    with pytest.raises(EngineBug, match="entry 4 after entry 4"):
        memtable(3, 4).with_replayed(WalPosition(4), replayed)


def test_manifest_versions_are_collected_in_the_order_in_which_they_were_made() -> None:
    listed = [ManifestVersion(each) for each in (1, 3, 2, 4)]
    with pytest.raises(EngineBug, match="ascending order"):
        manifests.collectable(listed, ManifestVersion(4), 2)


def test_entries_are_collected_from_the_bottom_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def second_only(_: object, __: object, name: str, ___: str) -> Decision:
        asked.append(name)
        return Decision(kind="wal", name=name, collected=len(asked) == 2, reason="it is the second")

    ground = Ground()
    for position in (1, 2, 3):
        put_entry(ground, B, position, 1)
    newest: Any = SimpleNamespace(revision=B, collects_wal=False)
    monkeypatch.setattr(Eligibility, "decide", second_only)
    collecting = collect_wal(region("B").io, manifest(1), (), newest, Ledger(dry_run=False, sizes=False))
    with pytest.raises(EngineBug, match="below it stays"):
        ground.run(collecting)
    assert not any(isinstance(request, Delete) for request in ground.asked)


def test_every_row_that_a_merge_judged_is_of_some_fragment() -> None:
    live = {0: np.array([True, False, True])}
    with pytest.raises(EngineBug, match="3 rows were judged, and the fragments have 2"):
        sources._scatter(live, np.array([True, True, True]))


def test_a_lookup_finds_no_more_rows_than_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    class Part:
        name = "part"

        async def fragments(self, _: object) -> dict[int, None]:
            return {0: None}

        async def is_small(self, _: object) -> bool:
            return True

        async def rows(self, *_: object) -> pa.Table:
            return pa.concat_tables([row(1), row(2)])

    node = nodes.TakeLast(part=Part(), key=("id",), columns=("id", "v"))  # type: ignore[arg-type]
    asked = pa.table({"id": [1]})
    assert Ground().run(node.find(asked)).num_rows == 1
    monkeypatch.setattr(nodes, "among", lambda rows, _: rows)
    with pytest.raises(EngineBug, match="part gave 2 rows for 1 keys"):
        Ground().run(node.find(asked))


@pytest.fixture
def table(tmp_path: Path) -> tuple[memwal.Table, str]:
    """A table with one row that is to be merged, and its region."""
    made = memwal.create(tmp_path / "t", pa.table({"id": [1], "v": ["x"]}), primary_key=["id"])
    name = made.register_region()
    with made.writer(name) as writer:
        writer.put(pa.table({"id": [2], "v": ["y"]}))
        writer.flush()
    return made, name


def test_a_merge_writes_as_many_rows_as_its_source_has(
    table: tuple[memwal.Table, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources.GenerationSource, "rows", property(lambda self: 2))
    with pytest.raises(EngineBug, match="has 2 rows to be merged, and 1 were written"):
        table[0].merge()


def test_a_merge_that_was_committed_is_recorded(
    table: tuple[memwal.Table, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: object, state: object, *__: object, **___: object) -> object:
        return state

    monkeypatch.setattr(merger, "upsert", nothing)
    with pytest.raises(EngineBug, match=r"which merged generation 1 of .*, records progress 0"):
        table[0].merge()


def test_a_commit_makes_the_next_version(table: tuple[memwal.Table, str], monkeypatch: pytest.MonkeyPatch) -> None:
    build = apply.build

    def skipping(*args: Any) -> Any:
        draft = build(*args)
        draft.message.version += 1
        return draft

    monkeypatch.setattr(apply, "build", skipping)
    before = table[0].version
    with pytest.raises(EngineBug, match=f"append makes version {before + 2} of version {before}"):
        table[0].base.append(pa.table({"id": [3], "v": ["z"]}))
    monkeypatch.undo()
    assert table[0].refresh().version == before


def test_columns_change_only_when_nothing_is_left_to_flush(
    table: tuple[memwal.Table, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: object) -> None:
        """In place of flushing."""

    made, name = table
    writer = made.writer(name, background=False)
    writer.put(pa.table({"id": [5], "v": ["w"]}))
    monkeypatch.setattr(RegionWriter, "flush", nothing)
    with pytest.raises(EngineBug, match="rows that were not flushed"):
        memwal.base_table(made._place.io.location).drop_columns(["v"])
