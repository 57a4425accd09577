"""Concurrent transactions: the conflict table, rebasing, and what a committer does that lost a version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import deletion, table_manifest
from memwal.codec.pb.lance import table_pb2
from memwal.effects import Io, Protocol, PutIfAbsent
from memwal.errors import Conflict, InvalidArgument
from memwal.ids import FragmentId, RegionId, TableVersion, region_id_to_bytes
from memwal.revisions import STRICT
from memwal.table import (
    columns,
    compaction,
    conflict_table,
    fragments,
    read,
    reuse,
    schema,
    state,
    transactions,
    whole,
    write,
)
from memwal.table.commit import commit
from memwal.table.conflict_table import CELLS, Basis, ConflictVerdict
from memwal.table.conflicts import verdict
from memwal.table.state import TableState
from memwal.table.transactions import OPERATIONS, Transaction

from ..kit.folder import Folder
from ..kit.ground import Actor, Ground
from ..kit.table_scene import SCHEMA, T, begun, fragment, latest, rows, seen, transaction, where

REGIONS = [RegionId(f"0000000{n}-0000-4000-8000-000000000000") for n in range(3)]


def made(name: str, **fields: Any) -> Transaction:
    """A transaction of the operation ``name`` with some fields of its body."""
    found = Transaction(**{name: getattr(Transaction, body_of(name))(**fields)})
    found.SetInParent()
    getattr(found, name).SetInParent()
    return found


def body_of(name: str) -> str:
    field = Transaction.DESCRIPTOR.fields_by_name[name]
    return field.message_type.name


def touching(name: str, *ids: int) -> Transaction:
    fragments = [table_pb2.DataFragment(id=i, physical_rows=9) for i in ids]
    return made(name, updated_fragments=fragments)


def merging(region: RegionId, generation: int, name: str = "update") -> Transaction:
    found = made(name)
    one = getattr(found, name).merged_generations.add(generation=generation)
    one.region_id.uuid = region_id_to_bytes(region)
    return found


def indexing(name: str, *fields: int, mem_wal: bool = False) -> Transaction:
    index = table_pb2.IndexMetadata(name=name, fields=fields)
    if mem_wal:
        index.index_details.type_url = "/lance.index.MemWalIndexDetails"
    return made("create_index", new_indices=[index])


def rewriting(*ids: int) -> Transaction:
    group = Transaction.Rewrite.RewriteGroup(old_fragments=[table_pb2.DataFragment(id=i) for i in ids])
    return made("rewrite", groups=[group])


def replacing(fragment: int, *fields: int) -> Transaction:
    return made("data_replacement", replacements=[{"fragment_id": fragment, "new_file": {"fields": fields}}])


def test_every_pair_of_operations_has_a_cell_with_its_reason_and_its_source() -> None:
    assert set(CELLS) == {(ours, theirs) for ours in OPERATIONS for theirs in OPERATIONS}
    assert len(CELLS) == 225
    assert all(cell.reason for cell in CELLS.values())
    assert all(bool(cell.condition) == bool(cell.when) for cell in CELLS.values())
    stated = {pair: cell.verdict for pair, cell in CELLS.items() if cell.basis is Basis.STATED}
    assert stated == {
        ("delete", "delete"): ConflictVerdict.RETRY,
        ("update", "rewrite"): ConflictVerdict.RETRY,
        ("delete", "restore"): ConflictVerdict.FAIL,
    }


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("append", "append", "rebasable"),
        ("append", "overwrite", "incompatible"),
        ("append", "restore", "incompatible"),
        ("append", "rewrite", "rebasable"),
        ("update", "append", "retryable"),
        ("update_mem_wal_state", "append", "rebasable"),
        ("update_mem_wal_state", "delete", "rebasable"),
        ("update_mem_wal_state", "rewrite", "rebasable"),
        ("update_mem_wal_state", "data_replacement", "rebasable"),
        ("update_mem_wal_state", "reserve_fragments", "rebasable"),
        ("update_mem_wal_state", "update_config", "rebasable"),
        ("update_mem_wal_state", "update_bases", "rebasable"),
        ("update_mem_wal_state", "create_index", "rebasable"),
        ("update_mem_wal_state", "update", "rebasable"),
        ("update_mem_wal_state", "project", "retryable"),
        ("update_mem_wal_state", "merge", "retryable"),
        ("update_mem_wal_state", "overwrite", "incompatible"),
        ("update_mem_wal_state", "restore", "incompatible"),
        ("update_mem_wal_state", "clone", "incompatible"),
        ("merge", "append", "retryable"),
        ("project", "append", "rebasable"),
        ("restore", "append", "rebasable"),
        ("restore", "update_mem_wal_state", "retryable"),
        ("overwrite", "append", "rebasable"),
        ("overwrite", "overwrite", "retryable"),
    ],
)
@pytest.mark.clause("TXN-055")
def test_cells_without_a_condition_are_as_the_notes_decide(ours: str, theirs: str, expected: str) -> None:
    decided, reason = verdict(made(ours), made(theirs))
    assert decided.value == expected
    assert reason


PAIRS: list[tuple[Transaction, Transaction, ConflictVerdict]] = [
    (touching("delete", 1), touching("delete", 1), ConflictVerdict.REBASE),
    (touching("delete", 1), made("delete", deleted_fragment_ids=[1]), ConflictVerdict.RETRY),
    (made("delete", deleted_fragment_ids=[1]), touching("delete", 1), ConflictVerdict.RETRY),
    (touching("delete", 1), made("update", removed_fragment_ids=[1]), ConflictVerdict.RETRY),
    (touching("delete", 1), touching("update", 2), ConflictVerdict.REBASE),
    (touching("delete", 1), rewriting(1), ConflictVerdict.RETRY),
    (touching("delete", 1), rewriting(2), ConflictVerdict.REBASE),
    (rewriting(1, 2), touching("update", 2), ConflictVerdict.RETRY),
    (rewriting(1), made("delete", deleted_fragment_ids=[1]), ConflictVerdict.RETRY),
    (rewriting(1, 2), rewriting(2, 3), ConflictVerdict.RETRY),
    (rewriting(1), rewriting(2), ConflictVerdict.REBASE),
    (touching("delete", 1), replacing(1, 0), ConflictVerdict.RETRY),
    (touching("delete", 1), replacing(2, 0), ConflictVerdict.REBASE),
    (replacing(1, 0), rewriting(1), ConflictVerdict.RETRY),
    (replacing(1, 0), made("delete", deleted_fragment_ids=[1]), ConflictVerdict.RETRY),
    (replacing(1, 0), touching("delete", 1), ConflictVerdict.REBASE),
    (replacing(1, 0), replacing(1, 0), ConflictVerdict.RETRY),
    (replacing(1, 0), replacing(1, 1), ConflictVerdict.REBASE),
    (replacing(1, 0), replacing(2, 0), ConflictVerdict.REBASE),
    (touching("update", 1), touching("delete", 1), ConflictVerdict.REBASE),
    (touching("update", 1), made("update", new_fragments=[table_pb2.DataFragment()]), ConflictVerdict.RETRY),
    (merging(REGIONS[0], 1), merging(REGIONS[1], 1), ConflictVerdict.RETRY),
    (merging(REGIONS[0], 1), merging(REGIONS[1], 1, "update_mem_wal_state"), ConflictVerdict.REBASE),
    (merging(REGIONS[0], 1), merging(REGIONS[0], 1, "update_mem_wal_state"), ConflictVerdict.RETRY),
    (merging(REGIONS[0], 1, "update_mem_wal_state"), merging(REGIONS[0], 2), ConflictVerdict.RETRY),
    (merging(REGIONS[0], 1, "update_mem_wal_state"), merging(REGIONS[1], 2), ConflictVerdict.REBASE),
    (made("overwrite"), merging(REGIONS[0], 1), ConflictVerdict.RETRY),
    (made("overwrite"), touching("update", 1), ConflictVerdict.REBASE),
    (made("restore"), merging(REGIONS[0], 1), ConflictVerdict.RETRY),
    (made("restore"), indexing("m", mem_wal=True), ConflictVerdict.RETRY),
    (made("restore"), indexing("i", 1), ConflictVerdict.REBASE),
    (indexing("i", 1), indexing("i", 1), ConflictVerdict.RETRY),
    (indexing("i", 1), indexing("j", 1), ConflictVerdict.REBASE),
    (indexing("m", mem_wal=True), merging(REGIONS[0], 1), ConflictVerdict.RETRY),
    (indexing("i", 1), merging(REGIONS[0], 1), ConflictVerdict.REBASE),
    (indexing("i", 1), made("update", fields_modified=[1]), ConflictVerdict.RETRY),
    (indexing("i", 1), made("project", schema=[{"id": 2}]), ConflictVerdict.RETRY),
    (indexing("i", 1), made("project", schema=[{"id": 1}]), ConflictVerdict.REBASE),
    (indexing("m", mem_wal=True), made("project", schema=[{"id": 1}]), ConflictVerdict.RETRY),
    (made("project", schema=[{"id": 1}]), indexing("i", 2), ConflictVerdict.RETRY),
    (made("project", schema=[{"id": 1}]), indexing("m", mem_wal=True), ConflictVerdict.RETRY),
    (made("update_config", upsert_values={"a": "1"}), made("update_config", delete_keys=["a"]), ConflictVerdict.RETRY),
    (made("update_config", upsert_values={"a": "1"}), made("update_config", upsert_values={"b": "1"}),
     ConflictVerdict.REBASE),
    (made("update_config", upsert_values={"a": "1"}), made("update_config", config_updates={"replace": True}),
     ConflictVerdict.RETRY),
    (made("update_config", schema_metadata={"a": "1"}), made("merge"), ConflictVerdict.RETRY),
    (made("merge"), made("update_config", schema_metadata={"a": "1"}), ConflictVerdict.RETRY),
    (made("merge"), made("update_config", upsert_values={"a": "1"}), ConflictVerdict.REBASE),
    (made("restore"), made("update_config", upsert_values={"memwal.collected.x": "1"}), ConflictVerdict.RETRY),
    (made("restore"), made("update_config", upsert_values={"other": "1"}), ConflictVerdict.REBASE),
    (made("update_bases", new_bases=[{"name": "a"}]), made("update_bases", new_bases=[{"name": "a"}]),
     ConflictVerdict.RETRY),
    (made("update_bases", new_bases=[{"name": "a"}]), made("update_bases", new_bases=[{"name": "b"}]),
     ConflictVerdict.REBASE),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs", "expected"), PAIRS, ids=range(len(PAIRS)))
@pytest.mark.clause("TXN-051", "TXN-055")
def test_conditions_look_at_what_both_touch(ours: Transaction, theirs: Transaction, expected: ConflictVerdict) -> None:
    assert verdict(ours, theirs)[0] is expected


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.clause("TXN-016", "TXN-017")
def test_an_unknown_operation_and_a_missing_transaction_are_incompatible_with_everything(name: str) -> None:
    unknown = Transaction.FromString(b"\xfa\x3f\x02\x08\x01")
    assert not transactions.operation(unknown)
    assert verdict(made(name), unknown)[0] is ConflictVerdict.FAIL
    assert verdict(made(name), None)[0] is ConflictVerdict.FAIL


def race(folder: Folder, ours: Protocol[Any], theirs: Callable[[Folder], object]) -> Any:
    """Run ``ours`` up to the creation of its version, let ``theirs`` commit, and continue."""
    done = False

    class Racing:
        def perform(self, request: Any) -> Any:
            nonlocal done
            if not done and isinstance(request, PutIfAbsent) and "/_versions/" in request.path:
                done = True
                theirs(folder)
            return folder.store.perform(request)

    from memwal.drive import drive

    found = drive(ours, Racing())
    assert done
    return found


def deleting(*ids: int) -> Protocol[TableState]:
    return write.delete(T, where(*ids), f"id in {ids}")


def once(operation: Callable[[TableState], Protocol[TableState]]) -> Protocol[TableState]:
    """One attempt, without the retry of the application."""

    async def attempt() -> TableState:
        return await operation(await state.latest(T))

    return attempt()


async def delete_once(current: TableState, *ids: int) -> TableState:
    table = await read.scan(T, current, with_row_address=True)
    addresses = table.column("_rowaddr").to_numpy()[where(*ids)(table)]
    updated, removed = await write._masked(T, current, addresses)
    body = Transaction.Delete(updated_fragments=updated, deleted_fragment_ids=removed, predicate=f"{ids}")
    return await commit(T, current, Transaction(delete=body))


@pytest.mark.clause("TXN-047", "TXN-050", "TXN-052", "TXN-053", "TXN-056", "TXN-057", "TXN-061", "TXN-062")
def test_example_two_deletes_of_other_rows_of_one_fragment_become_versions_3_and_4(folder: Folder) -> None:
    folder.run(write.create(T, SCHEMA, rows(*range(1000))))
    folder.run(write.set_config(T, {"a": "1"}))
    ours = once(lambda current: delete_once(current, *range(500, 600)))
    final = race(folder, ours, lambda f: f.run(deleting(*range(100, 200))))
    third = folder.run(state.load(T, TableVersion(3)))
    assert (third.rows, final.version, final.rows) == (900, 4, 800)
    assert transaction(folder, third).read_version == 2
    carried = transaction(folder, final)
    assert carried.read_version == 3
    (changed,) = carried.delete.updated_fragments
    assert (changed.deletion_file.num_deleted_rows, changed.deletion_file.read_version) == (200, 3)
    data = folder.files()[f"t/{read.deletion_path(changed)}"]
    expected = [*range(100, 200), *range(500, 600)]
    assert deletion.decode(data, changed.deletion_file.file_type, 1000, "d").tolist() == expected
    assert fragment(final, 0).files == fragment(third, 0).files
    assert list(seen(folder)) == [i for i in range(1000) if i not in expected]
    assert list(seen(folder, 3)) == [i for i in range(1000) if not 100 <= i < 200]
    names = {name.rpartition("/")[2] for name in folder.files() if name.startswith("t/_transactions/")}
    named = {folder.run(state.load(T, TableVersion(n))).manifest.message.transaction_file for n in (1, 2, 3, 4)}
    (left,) = names - named
    assert left.startswith("2-")


@pytest.mark.clause("TXN-048", "TXN-050", "TXN-052", "TXN-055", "TXN-057")
def test_two_deletes_of_one_row_are_retryable_and_the_second_counts_what_was_left(folder: Folder) -> None:
    begun(folder, (1, 2, 3, 4))
    with pytest.raises(Conflict) as lost:
        race(folder, once(lambda current: delete_once(current, 2, 3)), lambda f: f.run(deleting(1, 2)))
    assert (lost.value.retryable, lost.value.ours, lost.value.theirs) == (True, "delete", "delete")
    assert seen(folder) == {3: "x", 4: "x"}
    final = race(folder, deleting(3), lambda f: f.run(write.append(T, rows(5))))
    assert fragment(final, 0).deletion_file.num_deleted_rows == 3
    assert seen(folder) == {4: "x", 5: "x"}


@pytest.mark.clause("TXN-034", "TXN-051", "TXN-055")
def test_a_replacement_of_values_is_not_carried_over_the_drop_of_its_column(folder: Folder) -> None:
    begun(folder, (1, 2))
    added = pa.schema([("z", pa.int32())])
    folder.run(columns.add(T, added, lambda t: pa.table({"z": pa.array([0] * t.num_rows, pa.int32())})))
    new = {FragmentId(0): pa.table({"z": pa.array([5, 6], pa.int32())})}
    with pytest.raises((Conflict, InvalidArgument)):
        race(folder, columns.replace_data(T, new), lambda f: f.run(columns.drop(T, ["z"])))
    current = latest(folder)
    assert (current.version, current.schema.names) == (3, ["id", "v"])
    assert seen(folder) == {1: "x", 2: "x"}


@pytest.mark.clause("TXN-050")
def test_rows_that_were_deleted_before_both_began_are_deleted_by_neither(folder: Folder) -> None:
    begun(folder, (1, 2, 3, 4, 5))
    folder.run(deleting(5))
    final = race(folder, once(lambda current: delete_once(current, 1)), lambda f: f.run(deleting(2)))
    assert fragment(final, 0).deletion_file.num_deleted_rows == 3
    assert seen(folder) == {3: "x", 4: "x"}


@pytest.mark.clause("TXN-057")
def test_deletions_are_not_merged_where_the_files_of_the_fragment_changed(folder: Folder) -> None:
    begun(folder, (1, 2))

    async def of_others() -> TableState:
        """An Update that gives ``v`` other values and does not say so."""
        current = await state.latest(T)
        changed = columns._tombstoned(current.fragments[0], [1])
        changed.files.append(await fragments.write_column_file(T, pa.table({"v": ["y", "y"]}), [1]))
        body = Transaction.Update(updated_fragments=[changed])
        return await commit(T, current, Transaction(update=body))

    with pytest.raises(Conflict) as lost:
        race(folder, once(lambda current: delete_once(current, 1)), lambda f: f.run(of_others()))
    assert (lost.value.retryable, lost.value.theirs) == (True, "update")
    assert seen(folder) == {1: "y", 2: "y"}


@pytest.mark.clause("TXN-053")
def test_two_deletes_that_leave_no_row_remove_the_fragment(folder: Folder) -> None:
    begun(folder, (1, 2), (3,))
    final = race(folder, once(lambda current: delete_once(current, 1)), lambda f: f.run(deleting(2)))
    assert [f.id for f in final.fragments] == [1]
    assert seen(folder) == {3: "x"}


@pytest.mark.clause("TXN-052", "TXN-053")
def test_a_delete_is_carried_over_an_update_of_other_rows_of_the_fragment_and_back(folder: Folder) -> None:
    begun(folder, (1, 2, 3, 4))

    def updating(*ids: int) -> Protocol[TableState]:
        return write.update(T, where(*ids), lambda t: rows(*ids, v="y"))

    race(folder, once(lambda current: delete_once(current, 1)), lambda f: f.run(updating(2)))
    assert seen(folder) == {2: "y", 3: "x", 4: "x"}
    race(folder, updating(3), lambda f: f.run(deleting(4)))
    assert seen(folder) == {2: "y", 3: "y"}
    third = transaction(folder, latest(folder))
    assert transactions.operation(third) == "update"


@pytest.mark.clause("TXN-023", "TXN-012", "TXN-013")
def test_a_commit_is_compared_with_every_version_since_the_one_that_it_read(folder: Folder) -> None:
    begun(folder, (1, 2, 3, 4))

    def three(f: Folder) -> None:
        f.run(write.append(T, rows(5)))
        f.run(deleting(2))
        f.run(write.append(T, rows(6)))

    final = race(folder, once(lambda current: delete_once(current, 3)), three)
    assert final.version == 5
    assert seen(folder) == {1: "x", 4: "x", 5: "x", 6: "x"}

    def replaced(f: Folder) -> None:
        f.run(write.append(T, rows(7)))
        f.run(whole.overwrite(T, rows(1, 4)))

    with pytest.raises(Conflict) as lost:
        race(folder, once(lambda current: delete_once(current, 1)), replaced)
    assert (lost.value.retryable, lost.value.theirs) == (False, "overwrite")
    assert seen(folder) == {1: "x", 4: "x"}


@pytest.mark.clause("TXN-058", "TXN-048", "TXN-015")
def test_example_an_update_of_a_fragment_that_was_compacted_is_executed_again(folder: Folder) -> None:
    begun(folder, *((i, i + 10) for i in range(1, 6)))
    before = latest(folder)

    async def update_once(current: TableState) -> TableState:
        part = fragment(current, 2)
        masked, _ = await write._masked(T, current, np.array([2 << 32], dtype=np.uint64))
        new = await write.write_fragments(T, rows(3, v="y"), [0, 1])
        assert [f.id for f in masked] == [part.id]
        body = Transaction.Update(updated_fragments=masked, new_fragments=new)
        return await commit(T, current, Transaction(update=body))

    with pytest.raises(Conflict) as lost:
        race(folder, once(update_once), lambda f: f.run(compaction.compact(T)))
    assert (lost.value.retryable, lost.value.theirs) == (True, "rewrite")
    assert lost.value.version == before.version + 2
    folder.run(write.append(T, rows(77)))
    again = race(
        folder,
        write.update(T, where(3), lambda t: rows(3, v="y")),
        lambda f: f.run(compaction.compact(T)),
    )
    assert seen(folder)[3] == "y"
    assert [v for k, v in seen(folder).items() if k != 3] == ["x"] * 10
    assert again.rows == 11


@pytest.mark.clause("TXN-015", "TXN-048")
def test_an_upsert_that_meets_an_append_of_its_key_is_executed_again(folder: Folder) -> None:
    folder.run(write.create(T, schema.with_primary_key(SCHEMA, ["id"]), rows(1)))
    ours = write.retried(T, lambda current: write.merge_insert(T, current, rows(2, v="y")))
    race(folder, ours, lambda f: f.run(write.append(T, rows(2, 3))))
    assert seen(folder) == {1: "x", 2: "y", 3: "x"}


@pytest.mark.clause("TXN-049", "TXN-059", "TXN-060")
def test_example_a_delete_of_rows_that_a_restore_took_back_is_not_retried(folder: Folder) -> None:
    begun(folder, (1,), (2,), (3,))
    with pytest.raises(Conflict) as lost:
        race(folder, deleting(2, 3), lambda f: f.run(whole.restore(T, TableVersion(1))))
    assert (lost.value.retryable, lost.value.theirs, lost.value.version) == (False, "restore", 4)
    assert seen(folder) == {1: "x"}
    assert latest(folder).version == 4
    assert latest(folder).version == folder.run(deleting(2, 3)).version - 1
    assert seen(folder) == {1: "x"}


@pytest.mark.parametrize("how", ["missing", "unnamed", "unknown"])
@pytest.mark.clause("TXN-016", "TXN-017", "TXN-011")
def test_a_concurrent_commit_whose_transaction_is_not_known_is_a_conflict(folder: Folder, how: str) -> None:
    begun(folder, (1,))

    def hiding(f: Folder) -> None:
        current = f.run(write.append(T, rows(2)))
        name = current.manifest.message.transaction_file
        path = f.root / "t" / "_transactions" / name
        if how == "missing":
            path.unlink()
        elif how == "unknown":
            path.write_bytes(Transaction(read_version=1, uuid="u").SerializeToString() + b"\xfa\x3f\x02\x08\x01")
        else:
            current.manifest.message.transaction_file = ""
            manifest = f.root / current.path
            manifest.write_bytes(table_manifest.encode(current.manifest))

    with pytest.raises(Conflict) as lost:
        race(folder, write.append(T, rows(3)), hiding)
    assert not lost.value.retryable
    assert seen(folder) == {1: "x", 2: "x"}


@pytest.mark.clause("TXN-061")
def test_a_lost_append_is_rebuilt_on_the_version_that_won(folder: Folder) -> None:
    begun(folder, (1,))
    folder.run(write.delete(T, where(99), ""))
    final = race(folder, write.append(T, rows(3)), lambda f: f.run(write.append(T, rows(2))))
    assert [f.id for f in final.fragments] == [0, 1, 2]
    assert final.manifest.message.max_fragment_id == 2
    assert seen(folder) == {1: "x", 2: "x", 3: "x"}


@pytest.mark.clause("TXN-028")
def test_of_two_that_create_one_table_one_wins_and_the_other_does_not_add_to_it(folder: Folder) -> None:
    from memwal.errors import AlreadyExists

    with pytest.raises(AlreadyExists):
        race(folder, write.create(T, SCHEMA, rows(1)), lambda f: f.run(write.create(T, SCHEMA, rows(2))))
    assert seen(folder) == {2: "x"}


def test_a_rebase_costs_two_reads_and_rows_of_one_fragment_three_more_and_two_files(ground: Ground) -> None:
    ground.run(write.create(T, SCHEMA, rows(1, 2, 3, 4)))

    def counted(ours: Protocol[Any], theirs: Protocol[Any]) -> list[str]:
        actor = Actor(ground, ours).until(PutIfAbsent, "/_versions/")
        ground.run(theirs)
        before = len(ground.asked)
        actor.finish()
        return [f"{type(r).__name__} {r.path.split('/')[1]}" for r in ground.asked[before:]]

    load = ["PutIfAbsent _versions", "Get _versions", "Get _transactions"]
    assert counted(write.append(T, rows(5)), write.append(T, rows(6))) == [*load, "PutIfAbsent _versions"]
    assert counted(deleting(1), deleting(2)) == [
        *load,
        "Get _deletions",
        "Get _deletions",
        "PutIfAbsent _deletions",
        "PutIfAbsent _transactions",
        "PutIfAbsent _versions",
    ]


@pytest.mark.clause("FORMAT-038", "FORMAT-039", "FORMAT-006")
def test_merged_deletions_take_the_dense_form_where_they_are_many(folder: Folder) -> None:
    folder.run(write.create(T, SCHEMA, rows(*range(20_000))))
    ours = once(lambda current: delete_once(current, *range(10_000, 13_000)))
    final = race(folder, ours, lambda f: f.run(deleting(*range(3_000))))
    assert fragment(final, 0).deletion_file.file_type == deletion.BITMAP
    assert final.rows == 14_000
    assert len(seen(folder)) == 14_000


@pytest.mark.clause("TXN-054")
def test_a_fragment_reuse_index_of_others_is_carried_over_also_by_a_compaction(folder: Folder) -> None:
    place = str(folder.root / "t")
    begun(folder, (1, 2), (3, 4))
    lance.dataset(place).create_scalar_index("id", "BTREE")
    lance.dataset(place).optimize.compact_files(defer_index_remap=True)
    entry = next(i for i in latest(folder).manifest.indices if "FragmentReuse" in i.index_details.type_url)
    folder.run(write.append(T, rows(5)))
    folder.run(deleting(1))
    assert entry in latest(folder).manifest.indices
    # The appended fragment, which the index does not cover, is not mixed with the one that it covers.
    assert [fragment.id for fragment in folder.run(compaction.compact(T, defer_index_remap=True)).fragments] == [3, 4]
    (added,) = [each for each in latest(folder).manifest.indices if reuse.is_reuse(each)]
    before, now = (reuse.details(each, "").inline.versions for each in (entry, added))
    assert [list(before), len(now), added.uuid != entry.uuid] == [list(now)[:1], 2, True]
    assert seen(folder) == {2: "x", 3: "x", 4: "x", 5: "x"}
    assert lance.dataset(place).to_table(filter="id = 3").num_rows == 1


@pytest.mark.parametrize("theirs", ["append", "delete", "config"])
def test_columns_are_added_to_the_fragments_that_are_there_in_the_end(folder: Folder, theirs: str) -> None:
    begun(folder, (1, 2))
    new = pa.schema([("w", pa.int64())])
    ours = columns.add(T, new, lambda t: pa.table({"w": t.column("id")}))
    other: dict[str, Callable[[], Protocol[Any]]] = {
        "append": lambda: write.append(T, rows(3)),
        "delete": lambda: deleting(1),
        "config": lambda: write.set_config(T, {"a": "1"}),
    }
    race(folder, ours, lambda f: f.run(other[theirs]()))
    left = {"append": [1, 2, 3], "delete": [2], "config": [1, 2]}[theirs]
    assert lance.dataset(str(folder.root / "t")).to_table(["id", "w"]).to_pydict() == {"id": left, "w": left}
    assert list(seen(folder)) == left
    assert latest(folder).config == ({"a": "1"} if theirs == "config" else {})


def test_the_document_prints_the_table() -> None:
    from memwal.table import conflict_document

    page = (Path(__file__).parents[3] / "docs" / "transactions.md").read_text()
    assert conflict_document.section() in page
    assert (
        json.dumps(sorted(c.value for c in conflict_table.ConflictVerdict))
        == '["incompatible", "rebasable", "retryable"]'
    )


def test_io_with_a_location_is_the_same_folder() -> None:
    assert Io("t", location="/x/t", interpretation=STRICT).path("a") == T.path("a")
