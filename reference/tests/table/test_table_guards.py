"""Operations on the whole table where MemWAL is enabled: what regions forbid, and what continues."""

from __future__ import annotations

from dataclasses import replace

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.effects import Io
from memwal.errors import AlreadyMerged, Conflict, InvalidArgument
from memwal.ids import Generation, RegionId, TableVersion
from memwal.index import guards
from memwal.jobs import merger
from memwal.revisions import STRICT
from memwal.table import cloning, collected, columns, compaction, fragments, read, state, whole, write
from memwal.table.commit import commit
from memwal.table.transactions import Transaction

from ..kit.folder import Folder
from ..kit.table_scene import SCHEMA, T, latest, rows, seen, where
from ..kit.tables import by_id, flush
from .test_conflicts import race


@pytest.fixture
def table(folder: Folder) -> memwal.Table:
    return memwal.create("t", rows(1, 2), primary_key=["id"], revision="B", store=folder.store)


def flushed(table: memwal.Table, region: str, *ids: int, v: str = "w") -> None:
    flush(table, rows(*ids, v=v), region=region)


def merged_rows(table: memwal.Table) -> dict[int, object]:
    return by_id(table.scan())


@pytest.mark.clause("TXN-028", "FORMAT-002")
def test_an_overwrite_needs_drained_regions_and_keeps_configuration_and_progress(
    folder: Folder, table: memwal.Table
) -> None:
    region = table.register_region()
    flushed(table, region, 3)
    overwriting = lambda: whole.overwrite(T, rows(9), None, guards.may_replace(T))  # noqa: E731
    with pytest.raises(InvalidArgument, match=r"needs all regions drained.*AMB-87"):
        folder.run(overwriting())
    table.merge()
    before = latest(folder).mem_wal
    current = folder.run(overwriting())
    assert current.mem_wal == before
    assert before.progress(region) == 1
    assert merged_rows(table) == seen(folder) == {9: "x"}
    flushed(table, region, 9, 10)
    table.merge()
    assert seen(folder) == {9: "w", 10: "w"}
    with pytest.raises(InvalidArgument, match="the columns are not those of the table"):
        folder.run(whole.overwrite(T, pa.table({"id": [1]}), None, guards.may_replace(T)))


@pytest.mark.parametrize("operation", ["overwrite", "restore", "drop", "add"])
@pytest.mark.clause("AMB-50", "AMB-87")
def test_without_a_check_no_table_with_mem_wal_is_changed_as_a_whole(
    folder: Folder, table: memwal.Table, operation: str
) -> None:
    before = folder.files()
    running = {
        "overwrite": lambda: whole.overwrite(T, rows(9)),
        "restore": lambda: whole.restore(T, TableVersion(1)),
        "drop": lambda: columns.drop(T, ["v"]),
        "add": lambda: columns.add(T, pa.schema([("w", pa.int64())])),
    }[operation]
    with pytest.raises(InvalidArgument, match="its regions were not checked"):
        folder.run(running())
    assert folder.files() == before


@pytest.mark.clause("TXN-035", "MERGE-018")
def test_a_restore_undoes_edits_of_the_base_and_what_was_merged_is_merged_again(
    folder: Folder, table: memwal.Table
) -> None:
    region = table.register_region()
    flushed(table, region, 3)
    table.merge()
    earlier = latest(folder).version
    folder.run(write.append(T, rows(7)))
    flushed(table, region, 4)
    table.merge()
    assert seen(folder) == {1: "x", 2: "x", 3: "w", 4: "w", 7: "x"}
    current = folder.run(whole.restore(T, earlier, guards.may_revert(T)))
    assert current.mem_wal.progress(region) == 1
    assert seen(folder) == {1: "x", 2: "x", 3: "w"}
    assert merged_rows(table) == {1: "x", 2: "x", 3: "w", 4: "w"}
    table.merge()
    assert seen(folder) == {1: "x", 2: "x", 3: "w", 4: "w"}


@pytest.mark.clause("AMB-87")
def test_a_restore_below_a_generation_that_is_gone_is_refused(folder: Folder, table: memwal.Table) -> None:
    region = table.register_region()
    early = latest(folder).version
    flushed(table, region, 3)
    table.merge()
    (generation,) = [g for r in table.regions() for g in r.manifest.flushed]
    for path in (folder.root / "t" / "_mem_wal" / region / generation.path / "_versions").iterdir():
        path.unlink()
    before = latest(folder).version
    with pytest.raises(InvalidArgument, match=r"generation 1 is gone.*AMB-87"):
        folder.run(whole.restore(T, early, guards.may_revert(T)))
    assert latest(folder).version == before


def test_a_restore_below_a_collected_point_is_refused_and_points_outlive_restores(
    folder: Folder, table: memwal.Table
) -> None:
    region = table.register_region()
    early = latest(folder).version
    flushed(table, region, 3)
    table.merge()
    later = latest(folder).version
    folder.run(collected.record(T, {RegionId(region): Generation(1)}))
    with pytest.raises(InvalidArgument, match="AMB-91"):
        folder.run(whole.restore(T, early, guards.may_revert(T)))
    current = folder.run(whole.restore(T, later, guards.may_revert(T)))
    assert collected.collected_points(current) == {region: 1}
    with pytest.raises(InvalidArgument, match="AMB-91"):
        folder.run(whole.restore(T, early, guards.may_revert(T)))


def test_a_restore_to_a_version_before_mem_wal_needs_drained_regions(folder: Folder, table: memwal.Table) -> None:
    region = table.register_region()
    flushed(table, region, 3)
    first = TableVersion(1)
    assert folder.run(state.load(T, first)).mem_wal_entry is None
    with pytest.raises(InvalidArgument, match="needs all regions drained"):
        folder.run(whole.restore(T, first, guards.may_revert(T)))
    table.merge()
    folder.run(whole.restore(T, first, guards.may_revert(T)))
    assert seen(folder) == {1: "x", 2: "x"}


@pytest.mark.clause("TXN-034")
def test_a_source_of_a_region_spec_is_dropped_only_once_its_regions_are_drained(folder: Folder) -> None:
    wide = SCHEMA.append(pa.field("g", pa.string()))
    table = memwal.create("t", wide, primary_key=["id"], revision="B", store=folder.store)
    table.add_spec(memwal.identity("g", "g", immutable=True))
    region = table.register_region({"g": "a"})
    with table.writer(region, background=False) as writer:
        writer.put(rows(1).append_column("g", pa.array(["a"])))
    dropping = lambda name: columns.drop(T, [name], guards.may_drop(T))  # noqa: E731
    with pytest.raises(InvalidArgument, match=r"not all are drained.*AMB-66"):
        folder.run(dropping("g"))
    with pytest.raises(InvalidArgument, match="key columns"):
        folder.run(dropping("id"))
    with pytest.raises(InvalidArgument, match=r"'v'\] cannot come or go.*not flushed.*AMB-50"):
        folder.run(dropping("v"))
    with pytest.raises(InvalidArgument, match=r"'w'\] cannot come or go.*not flushed.*AMB-50"):
        folder.run(columns.add(T, pa.schema([("w", pa.int64())]), None, guards.may_add(T)))
    table.drain(region)
    assert folder.run(dropping("v")).schema.names == ["id", "g"]
    current = folder.run(dropping("g"))
    assert current.schema.names == ["id"]
    assert folder.run(read.scan(T, current)).to_pydict() == {"id": [1]}


@pytest.mark.clause("TXN-033", "FORMAT-016")
def test_columns_added_under_unmerged_rows_are_null_in_them_and_never_take_a_used_id(
    folder: Folder, table: memwal.Table
) -> None:
    region = table.register_region()
    folder.run(columns.add(T, pa.schema([("w", pa.int64())]), None, guards.may_add(T)))
    folder.run(columns.drop(T, ["w"], guards.may_drop(T)))
    flushed(table.refresh(), region, 3)
    current = folder.run(columns.add(T, pa.schema([("y", pa.int64())]), None, guards.may_add(T)))
    assert current.field_ids == {"id": 0, "v": 1, "y": 3}
    table.refresh().merge()
    expected = {"id": [1, 2, 3], "y": [None] * 3}
    assert lance.dataset(str(folder.root / "t")).to_table(["id", "y"]).to_pydict() == expected
    assert folder.run(read.scan(T, folder.run(state.latest(T)), ["id", "y"])).to_pydict() == expected
    strict = pa.schema([pa.field("s", pa.int64(), nullable=False)])
    with pytest.raises(InvalidArgument, match="AMB-50"):
        folder.run(columns.add(T, strict, lambda t: pa.table({"s": t.column("id")})))


@pytest.mark.parametrize("shallow", [True, False])
@pytest.mark.clause("TXN-037", "TXN-038")
def test_a_clone_has_no_mem_wal_and_no_unmerged_rows(folder: Folder, table: memwal.Table, shallow: bool) -> None:
    from memwal.effects import Io

    region = table.register_region()
    flushed(table, region, 3)
    source, target = (Io(name, location=str(folder.root / name), interpretation=STRICT) for name in ("t", "c"))
    current = folder.run(cloning.clone(target, source, shallow=shallow))
    assert current.mem_wal_entry is None
    assert not [key for key in current.config if key.startswith("memwal.")]
    assert seen(folder, name="c") == {1: "x", 2: "x"}
    assert not [name for name in folder.files() if name.startswith("c/_mem_wal")]
    assert merged_rows(table) == {1: "x", 2: "x", 3: "w"}


@pytest.mark.clause("TXN-045")
def test_merge_progress_alone_changes_no_row_and_is_recorded_once(folder: Folder, table: memwal.Table) -> None:
    table.add_spec(memwal.identity("v", "v", immutable=True))
    region = RegionId(table.register_region({"v": "x"}))
    before = latest(folder)
    assert len(before.mem_wal.specs) == 1
    current = folder.run(write.record_progress(T, [(region, Generation(1))]))
    assert current.fragments == before.fragments
    assert current.mem_wal == replace(before.mem_wal, merged=((region, Generation(1)),))
    assert seen(folder) == {1: "x", 2: "x"}
    with pytest.raises(AlreadyMerged):
        folder.run(write.record_progress(T, [(region, Generation(1))]))
    kept = [i for i in current.manifest.indices if i.name == "__lance_mem_wal"]
    assert len(kept) == 1


@pytest.mark.clause("TXN-045", "TXN-012")
def test_merge_progress_is_rebased_over_an_append_and_over_another_region_and_not_over_its_own(
    folder: Folder, table: memwal.Table
) -> None:
    one, two = RegionId(table.register_region()), RegionId(table.register_region())
    stale = latest(folder)

    def progress(region: RegionId) -> Transaction:
        message = write.merged_message(region, Generation(1))
        body = Transaction.UpdateMemWalState(merged_generations=[message])
        return Transaction(update_mem_wal_state=body)

    folder.run(write.append(T, rows(7)))
    folder.run(commit(T, stale, progress(one)))
    current = folder.run(commit(T, stale, progress(two)))
    assert (current.mem_wal.progress(one), current.mem_wal.progress(two)) == (1, 1)
    assert seen(folder) == {1: "x", 2: "x", 7: "x"}
    with pytest.raises(AlreadyMerged):
        folder.run(commit(T, stale, progress(one)))
    folder.run(whole.overwrite(T, rows(1), None, guards.may_replace(T)))
    with pytest.raises(Conflict) as lost:
        folder.run(commit(T, latest_before(folder), progress(RegionId(table.register_region()))))
    assert (lost.value.retryable, lost.value.theirs) == (False, "overwrite")


def latest_before(folder: Folder) -> state.TableState:
    """The version before the last overwrite."""
    versions = folder.run(state.versions(T))
    for version in reversed(versions):
        current = folder.run(state.load(T, version))
        if "overwrite" in str(lance.dataset(str(folder.root / "t")).read_transaction(version).operation).lower():
            return folder.run(state.load(T, TableVersion(current.version - 1)))
    raise AssertionError("no overwrite")


@pytest.mark.clause("TXN-030")
def test_a_compaction_leaves_mem_wal_and_its_unmerged_rows_alone(folder: Folder, table: memwal.Table) -> None:
    region = table.register_region()
    flushed(table, region, 2, 3)
    table.merge()
    flushed(table, region, 1)
    before = latest(folder)
    current = folder.run(compaction.compact(T))
    assert current.mem_wal == before.mem_wal
    assert len(current.fragments) == 1
    assert seen(folder) == {1: "x", 2: "w", 3: "w"}
    assert merged_rows(table) == {1: "w", 2: "w", 3: "w"}
    table.merge()
    assert seen(folder) == {1: "w", 2: "w", 3: "w"}


def test_a_compaction_takes_in_what_was_appended_while_it_reserved_numbers(
    folder: Folder, table: memwal.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [rows(3, 4, 5)]
    reserve = compaction.reserve

    async def late(io: Io, count: int) -> tuple[state.TableState, range]:
        if more:
            await write.append(T, more.pop())
        return await reserve(io, count)

    for module in (compaction, fragments):
        monkeypatch.setattr(module, "FRAGMENT_ROWS", 2)
    monkeypatch.setattr(compaction, "reserve", late)
    folder.run(write.append(T, rows(6)))
    folder.run(compaction.compact(T))
    assert sorted(seen(folder)) == [1, 2, 3, 4, 5, 6]
    assert [each.physical_rows for each in latest(folder).fragments] == [2, 2, 2]


@pytest.mark.parametrize(("deleted", "left"), [((1,), {2: "w", 3: "w"}), ((2,), {1: "x", 2: "w", 3: "w"})])
@pytest.mark.clause("TXN-052", "TXN-053", "MERGE-006")
def test_a_merge_goes_on_over_a_delete_in_the_same_fragment(
    folder: Folder, table: memwal.Table, deleted: tuple[int, ...], left: dict[int, str]
) -> None:
    region = table.register_region()
    flushed(table, region, 2, 3)
    before = len([name for name in folder.files() if name.startswith("t/data/")])
    merging = merger.merge_region(T, RegionId(region))
    (merged,) = race(folder, merging, lambda f: f.run(write.delete(T, where(*deleted), f"id in {deleted}")))
    assert merged.generation == 1
    assert seen(folder) == left
    current = latest(folder)
    assert current.mem_wal.progress(RegionId(region)) == 1
    assert len([name for name in folder.files() if name.startswith("t/data/")]) == before + 1
    (first,) = [f for f in current.fragments if f.id == 0] or [None]
    assert (first is None) == (deleted == (1,))
