"""Each transaction type: what it does to a table, and that pylance sees the same."""

from __future__ import annotations

import re
import shutil
import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec import fragment_bitmap, table_manifest
from memwal.codec.pb.lance import table_pb2
from memwal.drive import drive
from memwal.effects import Io, List, Protocol
from memwal.errors import AlreadyExists, ArtifactError, EngineBug, InvalidArgument, NotFound
from memwal.ids import TableVersion
from memwal.revisions import STRICT
from memwal.table import (
    apply,
    cloning,
    columns,
    compaction,
    coverage,
    draft,
    read,
    reuse,
    state,
    tags,
    transactions,
    whole,
    write,
)
from memwal.table.commit import commit
from memwal.table.transactions import OPERATIONS, Transaction

from ..kit.folder import Folder
from ..kit.table_scene import SCHEMA, T, begun, fragment, latest, rows, seen, transaction, where
from ..kit.tables import by_id
from ..kit.wire import num
from .test_conflicts import race


def located(folder: Folder, name: str) -> Io:
    return Io(name, location=str(folder.root / name), interpretation=STRICT)


@pytest.mark.clause("TXN-022", "TXN-010", "FORMAT-012", "FORMAT-014", "FORMAT-049")
def test_a_commit_leaves_its_transaction_file_and_names_it_time_and_library(folder: Folder) -> None:
    begun(folder, (1,))
    current = folder.run(write.append(T, rows(2)))
    message = current.manifest.message
    assert re.fullmatch(r"1-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.txn", message.transaction_file)
    stored = transaction(folder, current)
    assert (stored.read_version, transactions.operation(stored)) == (1, "append")
    assert message.transaction_file == f"1-{stored.uuid}.txn"
    first = lance.dataset(str(folder.root / "t"), version=1).read_transaction(1)
    assert first.uuid != stored.uuid
    seconds = message.timestamp.seconds
    written = lance.dataset(str(folder.root / "t")).versions()[-1]["timestamp"]
    assert abs(written.timestamp() - seconds) < 1
    assert abs((folder.root / "t" / "_transactions" / message.transaction_file).stat().st_mtime - seconds) < 60
    assert message.writer_version.library == "memwal"
    assert re.fullmatch(r"\d+\.\d+\.\d+[0-9A-Za-z.+-]*", message.writer_version.version)


@pytest.mark.clause("FORMAT-048", "FORMAT-049")
def test_what_belongs_to_one_version_alone_is_not_carried_over(folder: Folder) -> None:
    base = begun(folder, (1,)).manifest
    base.message.version_aux_data = 17
    base.message.tag = "mine"
    base.message.writer_version.prerelease = "rc.1"
    name = "_versions/18446744073709551614.manifest"
    (folder.root / "t" / name).write_bytes(table_manifest.encode(base))
    message = folder.run(write.append(T, rows(2))).manifest.message
    assert (message.version_aux_data, message.tag, message.writer_version.HasField("prerelease")) == (0, "", False)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.clause("TXN-022")
def test_every_operation_keeps_its_fields_through_bytes(name: str) -> None:
    made = Transaction(read_version=7, uuid="u", transaction_properties={"k": "v"})
    getattr(made, name).SetInParent()
    decoded = transactions.decode(transactions.encode(made), "p")
    assert decoded == made
    assert transactions.operation(decoded) == name
    assert len(OPERATIONS) == 15


def test_a_transaction_that_cannot_be_parsed_names_its_path() -> None:
    with pytest.raises(ArtifactError, match=r"t/_transactions/x\.txn"):
        transactions.decode(b"\xff\xff\xff", "t/_transactions/x.txn")


@pytest.mark.clause("TXN-024", "TXN-025", "FORMAT-011", "FORMAT-033")
def test_an_append_takes_fragment_ids_that_were_never_used_and_leaves_the_rest(folder: Folder) -> None:
    begun(folder, (1,), (2,))
    before = folder.run(write.delete(T, where(2), "id = 2"))
    current = folder.run(write.append(T, rows(3)))
    assert [f.id for f in current.fragments] == [0, 2]
    assert current.fragments[0] == before.fragments[0]
    assert [f.id for f in transaction(folder, current).append.fragments] == [0]
    assert current.manifest.message.max_fragment_id == 2
    assert seen(folder) == {1: "x", 3: "x"}
    assert seen(folder, 2) == {1: "x", 2: "x"}


@pytest.mark.clause("TXN-030")
@pytest.mark.parametrize(("old", "new"), [([1, 2], [3]), ([1, 2], []), ([], [3])])
def test_a_rewrite_of_the_older_form_is_one_group_also_where_nothing_is_left(old: list[int], new: list[int]) -> None:
    made = Transaction(
        rewrite=Transaction.Rewrite(
            old_fragments=[table_pb2.DataFragment(id=number) for number in old],
            new_fragments=[table_pb2.DataFragment(id=number) for number in new],
        )
    )
    (group,) = transactions.rewrite_groups(made)
    assert [fragment.id for fragment in group.old_fragments] == old
    assert [fragment.id for fragment in group.new_fragments] == new
    assert transactions.touched(made) == set(old)


@pytest.mark.clause("FORMAT-011", "TXN-025")
def test_a_fragment_that_goes_takes_its_id_with_it_where_the_manifest_does_not_tell_the_highest(folder: Folder) -> None:
    old = begun(folder, (1,), (2,)).manifest
    old.message.ClearField("max_fragment_id")
    made = draft.begin(old, "t", None, STRICT)
    made.change_fragments([], [1])
    made.add_fragments([table_pb2.DataFragment()])
    assert [fragment.id for fragment in made.message.fragments] == [0, 2]


@pytest.mark.clause("TXN-026", "TXN-027", "FORMAT-017", "FORMAT-034", "FORMAT-036", "FORMAT-052")
def test_a_delete_masks_rows_drops_emptied_fragments_and_stores_its_predicate(folder: Folder) -> None:
    before = begun(folder, (1, 2, 3), (4, 5), (6, 7))
    current = folder.run(write.delete(T, where(2, 4, 5), "id in (2, 4, 5)"))
    assert [f.id for f in current.fragments] == [0, 2]
    changed = fragment(current, 0)
    assert changed.files == fragment(before, 0).files
    assert (changed.physical_rows, current.rows) == (3, 4)
    file = changed.deletion_file
    assert (file.file_type, file.read_version, file.num_deleted_rows) == (0, 3, 1)
    assert f"t/_deletions/0-3-{file.id}.arrow" in folder.files()
    assert not fragment(current, 2).HasField("deletion_file")
    stored = transaction(folder, current).delete
    assert (stored.predicate, list(stored.deleted_fragment_ids)) == ("id in (2, 4, 5)", [1])
    assert seen(folder) == {1: "x", 3: "x", 6: "x", 7: "x"}
    again = folder.run(write.delete(T, where(3), "id = 3"))
    assert fragment(again, 0).deletion_file.num_deleted_rows == 2
    assert seen(folder) == {1: "x", 6: "x", 7: "x"}


@pytest.mark.clause("FORMAT-006", "FORMAT-036", "FORMAT-052")
def test_deletion_files_of_one_version_lie_apart_and_are_found_by_what_their_messages_say(folder: Folder) -> None:
    base = folder.run(write.create(T, SCHEMA, rows(*range(5000))))
    made = {}
    for offsets, form, extension in (([0], b"", "arrow"), ([1], b"", "arrow"), (range(2, 4000), num(1, 1), "bin")):
        deleted = np.array(offsets, np.uint32)
        file = folder.run(write.write_deletions(T, base.fragments[0], deleted, 1)).deletion_file
        assert file.SerializeToString(deterministic=True) == form + num(2, 1) + num(3, file.id) + num(4, len(offsets))
        made[f"t/_deletions/0-1-{file.id}.{extension}"] = file.id
    others = ("t/data/", "t/_versions/", "t/_transactions/")
    assert {name for name in folder.files() if not name.startswith(others)} == set(made)
    assert len(set(made.values())) == 3


@pytest.mark.clause("TXN-028", "FORMAT-033", "TXN-003")
def test_an_overwrite_replaces_rows_schema_and_indexes_and_earlier_versions_stay(folder: Folder) -> None:
    begun(folder, (1, 2))
    lance.dataset(str(folder.root / "t")).create_scalar_index("id", "BTREE")
    folder.run(write.set_config(T, {"kept": "1", "set": "1"}))
    other = pa.table({"z": pa.array([1.5, 2.5])})
    current = folder.run(whole.overwrite(T, other, {"set": "2"}))
    native = lance.dataset(str(folder.root / "t"))
    assert native.to_table().equals(other)
    assert (native.config(), native.describe_indices()) == ({"kept": "1", "set": "2"}, [])
    assert [f.id for f in current.fragments] == [1]
    assert {f.id for f in current.fields}.isdisjoint({0, 1})
    assert seen(folder, 2) == {1: "x", 2: "x"}


@pytest.mark.clause("TXN-028")
def test_an_overwrite_brings_the_metadata_of_its_schema(folder: Folder) -> None:
    begun(folder, (1,))
    folder.run(whole.overwrite(T, pa.table({"z": [1.5]}).replace_schema_metadata({"made": "here"})))
    assert lance.dataset(str(folder.root / "t")).schema.metadata == {b"made": b"here"}


@pytest.mark.clause("TXN-029", "FORMAT-005")
def test_an_index_that_was_created_is_used_and_one_that_was_dropped_is_gone(folder: Folder) -> None:
    begun(folder, (1, 2), (3,))
    place = str(folder.root / "t")
    lance.dataset(place).create_scalar_index("id", "BTREE", name="by_id")
    entry = latest(folder).manifest.indices[0]
    held = f"t/_indices/{uuid.UUID(bytes=entry.uuid.uuid)}/"
    assert {name.rpartition("/")[0] + "/" for name in folder.files() if name.startswith("t/_indices/")} == {held}
    folder.run(write.append(T, rows(4)))
    assert latest(folder).manifest.indices[0] == entry
    native = lance.dataset(place)
    assert "ScalarIndexQuery" in native.scanner(filter="id = 2").explain_plan()
    assert native.to_table(filter="id >= 3").column("id").to_pylist() == [3, 4]
    folder.run(write.drop_index(T, "by_id"))
    native = lance.dataset(place)
    assert native.describe_indices() == []
    assert "ScalarIndexQuery" not in native.scanner(filter="id = 2").explain_plan()
    with pytest.raises(InvalidArgument, match="no index 'by_id'"):
        folder.run(write.drop_index(T, "by_id"))
    adding = Transaction(create_index=Transaction.CreateIndex(new_indices=[entry]))
    folder.run(commit(T, latest(folder), adding))
    native = lance.dataset(place)
    assert "ScalarIndexQuery" in native.scanner(filter="id = 2").explain_plan()
    assert native.to_table(filter="id >= 3").column("id").to_pylist() == [3, 4]
    lance.dataset(place).create_scalar_index("id", "BITMAP", name="other")
    (other,) = [index for index in latest(folder).manifest.indices if index.name == "other"]
    replacing = Transaction(create_index=Transaction.CreateIndex(new_indices=[entry], removed_indices=[entry, other]))
    assert folder.run(commit(T, latest(folder), replacing)).manifest.indices == (entry,)


@pytest.mark.clause("FORMAT-013")
def test_the_index_section_is_where_the_manifest_says(folder: Folder) -> None:
    def block(data: bytes) -> bytes:
        return struct.pack("<I", len(data)) + data

    begun(folder, (1,))
    lance.dataset(str(folder.root / "t")).create_scalar_index("id", "BTREE", name="by_id")
    stored = folder.run(write.append(T, rows(2))).manifest
    data = table_manifest.encode(stored)
    (position,) = struct.unpack("<Q", data[-16:-8])
    message = table_pb2.Manifest.FromString(data[position + 4 : -16])
    assert message.HasField("index_section")
    (length,) = struct.unpack_from("<I", data, message.index_section)
    section = data[message.index_section + 4 :][:length]
    assert [index.name for index in table_pb2.IndexSection.FromString(section).indices] == ["by_id"]
    message.index_section = len(front := block(b"something else"))
    behind = front + block(section)
    moved = behind + block(message.SerializeToString()) + struct.pack("<QHH4s", len(behind), 0, 2, b"LANC")
    assert table_manifest.decode(moved, "m").indices == stored.indices
    message.ClearField("index_section")
    bare = behind + block(message.SerializeToString()) + struct.pack("<QHH4s", len(behind), 0, 2, b"LANC")
    assert table_manifest.decode(bare, "m").indices == ()


@pytest.mark.parametrize(("defer", "told"), [(True, True), (True, False), (False, False)])
@pytest.mark.clause("TXN-030", "TXN-031", "TXN-032", "TXN-036", "TXN-054", "FORMAT-041", "FORMAT-017", "FORMAT-034")
def test_a_compaction_keeps_the_rows_and_moves_them_and_indexes_follow_or_lose_them(
    folder: Folder, defer: bool, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "MOST_BYTES", reuse.MOST_BYTES if told else 0)
    begun(folder, (1, 2), (3, 4), (5, 6))
    place = str(folder.root / "t")
    lance.dataset(place).create_scalar_index("id", "BTREE")
    before = folder.run(write.delete(T, where(4), "id = 4"))
    current = folder.run(compaction.compact(T, {0, 1}, defer_index_remap=defer))
    assert seen(folder) == {1: "x", 2: "x", 3: "x", 5: "x", 6: "x"}
    assert [(f.id, f.physical_rows, f.HasField("deletion_file")) for f in current.fragments] == [
        (2, 2, False),
        (3, 3, False),
    ]
    assert current.version == before.version + 2
    reserved = folder.run(state.load(T, TableVersion(before.version + 1)))
    assert transactions.operation(transaction(folder, reserved)) == "reserve_fragments"
    assert reserved.fragments == before.fragments
    assert reserved.manifest.message.max_fragment_id == 3
    assert coverage.covered(current, "id_idx") == ({2, 3} if told else {2})
    assert fragment_bitmap.decode(current.manifest.indices[0].fragment_bitmap, "") == ({0, 1, 2} if told else {2})
    assert [reuse.is_reuse(entry) for entry in current.manifest.indices] == ([False, True] if told else [False])
    native = lance.dataset(place)
    assert native.stats.index_stats("id_idx")["num_unindexed_rows"] == (0 if told else 3)
    assert native.to_table(filter="id >= 3").sort_by("id")["id"].to_pylist() == [3, 5, 6]
    assert [native.to_table(filter=f"id = {number}").num_rows for number in range(1, 7)] == [1, 1, 1, 0, 1, 1]
    addresses = folder.run(read.scan(T, current, ["id"], with_row_address=True)).column("_rowaddr").to_pylist()
    assert addresses == [2 << 32, (2 << 32) + 1, 3 << 32, (3 << 32) + 1, (3 << 32) + 2]
    assert folder.run(compaction.compact(T, {2})).version == current.version


@pytest.mark.clause("TXN-032")
def test_an_index_that_is_rewritten_with_its_fragments_covers_the_new_ones_under_its_new_identity(
    folder: Folder,
) -> None:
    begun(folder, (1,), (2,))
    lance.dataset(str(folder.root / "t")).create_scalar_index("id", "BTREE")
    current, (number,) = folder.run(compaction.reserve(T, 1))
    (before,) = current.manifest.indices
    group = Transaction.Rewrite.RewriteGroup(old_fragments=current.fragments)
    group.new_fragments.add(id=number, physical_rows=2)
    identity = uuid.uuid4().bytes
    moved = Transaction.Rewrite.RewrittenIndex(old_id={"uuid": before.uuid.uuid}, new_id={"uuid": identity})
    moved.new_index_details.type_url = "new details"
    rewrite = Transaction.Rewrite(groups=[group], rewritten_indices=[moved])
    built = apply.build(current.manifest, Transaction(rewrite=rewrite), "m", None, STRICT)
    (after,) = built.indices
    assert fragment_bitmap.decode(before.fragment_bitmap, "") == {0, 1}
    assert (fragment_bitmap.decode(after.fragment_bitmap, ""), after.uuid.uuid) == ({number}, identity)
    assert after.index_details.type_url == "new details" != before.index_details.type_url


@pytest.mark.clause("TXN-032")
def test_a_rewrite_with_ids_that_were_not_reserved_is_refused(folder: Folder) -> None:
    current = begun(folder, (1,), (2,))
    group = Transaction.Rewrite.RewriteGroup(old_fragments=current.fragments)
    group.new_fragments.add(id=2, physical_rows=2)
    with pytest.raises(InvalidArgument, match=r"\[2\] of a rewrite were not reserved"):
        apply.build(current.manifest, Transaction(rewrite=Transaction.Rewrite(groups=[group])), "m", None, STRICT)


@pytest.mark.clause("TXN-030")
def test_a_fully_deleted_table_compacts_to_no_fragment(folder: Folder) -> None:
    before = begun(folder, (1, 2), (3, 4))
    every = np.arange(2, dtype=np.uint32)
    emptied = [folder.run(write.write_deletions(T, f, every, before.version)) for f in before.fragments]
    deleting = Transaction(delete=Transaction.Delete(updated_fragments=emptied))
    assert len(folder.run(commit(T, before, deleting)).fragments) == 2
    assert folder.run(compaction.compact(T)).fragments == []
    assert seen(folder) == {}
    folder.run(write.append(T, rows(9)))
    assert seen(folder) == {9: "x"}


@pytest.mark.clause("TXN-033", "FORMAT-016", "FORMAT-023", "FORMAT-033", "FORMAT-019")
def test_added_columns_are_further_files_of_every_fragment_or_null(folder: Folder) -> None:
    begun(folder, (1, 2), (3,))
    folder.run(write.delete(T, where(1), "id = 1"))
    new = pa.schema([("double", pa.int64()), ("text", pa.string())])

    def compute(table: pa.Table) -> pa.Table:
        ids = table.column("id").to_numpy()
        return pa.table([pa.array(ids * 2), pa.array([f"t{i}" for i in ids])], schema=new)

    before = latest(folder)
    current = folder.run(columns.add(T, new, compute))
    assert [len(f.files) for f in current.fragments] == [2, 2]
    assert [f.files[0] for f in current.fragments] == [f.files[0] for f in before.fragments]
    file = current.fragments[0].files[1]
    assert (list(file.fields), list(file.column_indices)) == ([2, 3], [0, 1])
    folder.run(columns.add(T, pa.schema([("later", pa.float64())])))
    native = lance.dataset(str(folder.root / "t")).to_table()
    expected = {"id": [2, 3], "v": ["x", "x"], "double": [4, 6], "text": ["t2", "t3"], "later": [None, None]}
    assert native.to_pydict() == expected
    assert folder.run(read.scan(T, latest(folder))).to_pydict() == expected
    assert folder.run(read.scan(T, folder.run(state.load(T, before.version)))).schema.names == ["id", "v"]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (pa.schema([("v", pa.int64())]), "exist already"),
        (pa.schema([("a", pa.int64()), ("a", pa.int64())]), "each column needs a name of its own"),
        (pa.schema([pa.field("n", pa.int64(), nullable=False)]), "may not be NULL"),
    ],
)
def test_columns_that_cannot_be_added_are_refused_by_name(folder: Folder, new: pa.Schema, message: str) -> None:
    before = begun(folder, (1,))
    with pytest.raises(InvalidArgument, match=message):
        folder.run(columns.add(T, new))
    assert latest(folder).version == before.version


@pytest.mark.parametrize(
    "values_of",
    [
        lambda table: pa.table({"w": pa.array([1], pa.int64())}),
        lambda table: pa.table({"other": pa.array([1, 2], pa.int64())}),
        lambda table: pa.table({"w": ["a", "b"]}),
    ],
    ids=["rows", "names", "types"],
)
def test_computed_values_that_do_not_fit_are_refused(folder: Folder, values_of: columns.Compute) -> None:
    begun(folder, (1, 2))
    with pytest.raises(InvalidArgument):
        folder.run(columns.add(T, pa.schema([("w", pa.int64())]), values_of))
    assert seen(folder) == {1: "x", 2: "x"}


@pytest.mark.clause("TXN-034")
def test_dropping_a_column_touches_no_data_file(folder: Folder) -> None:
    begun(folder, (1, 2))
    wide = pa.schema([("s", pa.struct([("a", pa.int64()), ("b", pa.string())]))])
    folder.run(columns.add(T, wide, lambda t: pa.table({"s": [{"a": 1, "b": "x"}] * t.num_rows}, schema=wide)))
    place = str(folder.root / "t")
    lance.dataset(place).create_scalar_index("v", "BTREE")
    data = {name: content for name, content in folder.files().items() if name.startswith("t/data/")}
    current = folder.run(columns.drop(T, ["v", "s"]))
    assert {name: content for name, content in folder.files().items() if name.startswith("t/data/")} == data
    assert [list(file.fields) for file in current.fragments[0].files] == [[0, 1]]
    native = lance.dataset(place)
    assert native.to_table().to_pydict() == {"id": [1, 2]}
    assert native.describe_indices() == []
    assert folder.run(read.scan(T, current)).to_pydict() == {"id": [1, 2]}
    folder.run(columns.add(T, pa.schema([("v", pa.int64())])))
    assert lance.dataset(place).to_table().to_pydict() == {"id": [1, 2], "v": [None, None]}


@pytest.mark.clause("TXN-035", "FORMAT-011")
def test_a_restore_gives_the_earlier_content_under_a_new_number_and_no_id_back(folder: Folder) -> None:
    first = begun(folder, (1, 2))
    folder.run(write.delete(T, where(1), "id = 1"))
    folder.run(write.append(T, rows(3, 4)))
    folder.run(columns.drop(T, ["v"]))
    folder.run(write.set_config(T, {"a": "1"}))
    lance.dataset(str(folder.root / "t")).create_scalar_index("id", "BTREE")
    current = folder.run(whole.restore(T, TableVersion(1)))
    assert current.version == 7
    assert (current.config, current.manifest.indices) == (first.config, ()) == ({}, ())
    assert seen(folder) == seen(folder, 1) == {1: "x", 2: "x"}
    assert current.manifest.message.max_fragment_id == 1
    after = folder.run(write.append(T, rows(5)))
    assert [f.id for f in after.fragments] == [0, 2]
    with pytest.raises(InvalidArgument, match="not earlier"):
        folder.run(whole.restore(T, after.version))
    with pytest.raises(NotFound):
        folder.run(whole.restore(T, TableVersion(77)))


@pytest.mark.clause("TXN-036")
def test_reserving_fragments_changes_nothing_but_the_counter(folder: Folder) -> None:
    before = begun(folder, (1,))
    current, ids = folder.run(compaction.reserve(T, 3))
    assert list(ids) == [1, 2, 3]
    assert current.fragments == before.fragments
    assert [f.id for f in folder.run(write.append(T, rows(2))).fragments] == [0, 4]
    assert seen(folder) == {1: "x", 2: "x"}
    with pytest.raises(InvalidArgument):
        folder.run(compaction.reserve(T, 0))


@pytest.mark.clause("TXN-037", "FORMAT-018")
def test_a_shallow_clone_has_no_file_of_its_own_and_finds_those_of_the_source(folder: Folder) -> None:
    begun(folder, (1, 2, 3))
    folder.run(write.delete(T, where(2), "id = 2"))
    lance.dataset(str(folder.root / "t")).create_scalar_index("id", "BTREE")
    folder.run(cloning.clone(located(folder, "c"), located(folder, "t"), shallow=True))
    assert {name.split("/")[1] for name in folder.files() if name.startswith("c/")} == {"_versions", "_transactions"}
    assert seen(folder, name="c") == {1: "x", 3: "x"}
    native = lance.dataset(str(folder.root / "c"))
    assert native.to_table(filter="id = 3").column("id").to_pylist() == [3]
    folder.run(write.append(T, rows(9)))
    own = located(folder, "c")
    folder.run(write.append(own, rows(4)))
    folder.run(write.delete(own, where(1), "id = 1"))
    assert seen(folder, name="c") == {3: "x", 4: "x"}
    assert seen(folder) == {1: "x", 3: "x", 9: "x"}


@pytest.mark.clause("TXN-037")
def test_the_places_that_a_clone_of_a_clone_refers_to_are_numbered_from_1_up(folder: Folder) -> None:
    begun(folder, (1,))
    folder.run(cloning.clone(located(folder, "c"), located(folder, "t"), shallow=True))
    copy = folder.run(cloning.clone(located(folder, "d"), located(folder, "c"), shallow=True))
    assert [(base.id, Path(base.path).name) for base in copy.manifest.message.base_paths] == [(1, "t"), (2, "c")]
    assert seen(folder, name="d") == {1: "x"}


@pytest.mark.clause("TXN-037", "TXN-038")
def test_a_clone_is_of_the_version_that_was_asked_for_and_replaces_nothing(folder: Folder) -> None:
    begun(folder, (1,), (2,))
    folder.run(cloning.clone(located(folder, "c"), located(folder, "t"), TableVersion(1), shallow=False))
    assert seen(folder, name="c") == {1: "x"}
    for shallow in (True, False):
        with pytest.raises(AlreadyExists):
            folder.run(cloning.clone(located(folder, "c"), located(folder, "t"), shallow=shallow))
    with pytest.raises(InvalidArgument, match="absolute name"):
        folder.run(cloning.clone(located(folder, "d"), T, shallow=True))


@pytest.mark.clause("TXN-037", "TXN-038", "FORMAT-036")
@pytest.mark.parametrize("shallow", [True, False])
def test_a_clone_has_the_number_of_the_version_that_it_copies_as_those_of_pylance_do(
    folder: Folder, shallow: bool
) -> None:
    begun(folder, (1, 2), (3,))
    folder.run(write.delete(T, where(1), "id = 1"))
    copy = folder.run(cloning.clone(located(folder, "c"), located(folder, "t"), TableVersion(3), shallow=shallow))
    source, theirs = lance.dataset(str(folder.root / "t")), folder.root / "theirs"
    (source.shallow_clone if shallow else source.deep_clone)(str(theirs), reference=3)
    assert (copy.version, lance.dataset(str(theirs)).version) == (3, 3)
    ours = lance.dataset(str(folder.root / "c"))
    assert [one["version"] for one in ours.versions()] == [3]
    assert ours.read_transaction(3).read_version == lance.dataset(str(theirs)).read_transaction(3).read_version == 3
    assert copy.fragments[0].deletion_file.read_version == 2
    own = located(folder, "c")
    assert folder.run(write.append(own, rows(4))).version == 4
    folder.run(whole.restore(own, TableVersion(3)))
    assert seen(folder, name="c") == {2: "x", 3: "x"}


@pytest.mark.clause("TXN-037")
@pytest.mark.parametrize("theirs", [1, 2, 3])
def test_of_two_clones_that_are_made_at_one_place_the_later_one_is_taken_back(folder: Folder, theirs: int) -> None:
    begun(folder, (1,), (2,), (3,))
    own, source = located(folder, "c"), located(folder, "t")
    ours = cloning.clone(own, source, TableVersion(2), shallow=True)
    with pytest.raises(AlreadyExists):
        race(folder, ours, lambda f: f.run(cloning.clone(own, source, TableVersion(theirs), shallow=True)))
    assert list(seen(folder, name="c")) == [1, 2, 3][:theirs]
    assert folder.run(state.versions(own)) == (theirs,)


@pytest.mark.clause("TXN-037")
def test_a_clone_that_finds_a_table_made_meanwhile_is_taken_back(folder: Folder) -> None:
    begun(folder, (1,), (2,))
    own = located(folder, "c")
    with pytest.raises(AlreadyExists):
        race(
            folder,
            cloning.clone(own, located(folder, "t"), shallow=True),
            lambda f: f.run(write.create(own, SCHEMA, rows(9))),
        )
    assert list(seen(folder, name="c")) == [9]


@pytest.mark.clause("TXN-038")
def test_a_clone_that_is_written_to_at_once_stays(folder: Folder) -> None:
    begun(folder, (1,), (2,))
    own, appended = located(folder, "c"), []

    class Hasty:
        def perform(self, request: Any) -> Any:
            if isinstance(request, List) and folder.run(state.versions(own)) == (2,):
                appended.append(folder.run(write.append(own, rows(3))).version)
            return folder.store.perform(request)

    assert drive(cloning.clone(own, located(folder, "t"), shallow=False), Hasty()).version == 2
    assert appended == [3]
    assert list(seen(folder, name="c")) == [1, 2, 3]


@pytest.mark.clause("TXN-038")
def test_a_deep_clone_outlives_its_source(folder: Folder) -> None:
    begun(folder, (1, 2), (3,))
    lance.dataset(str(folder.root / "t")).create_scalar_index("id", "BTREE")
    folder.run(write.delete(T, where(1), "id = 1"))
    folder.run(cloning.clone(located(folder, "c"), located(folder, "t"), shallow=False))
    shutil.rmtree(folder.root / "t")
    assert seen(folder, name="c") == {2: "x", 3: "x"}
    native = lance.dataset(str(folder.root / "c"))
    assert native.to_table(filter="id = 3").column("id").to_pylist() == [3]
    assert "ScalarIndexQuery" in native.scanner(filter="id = 3").explain_plan()


@pytest.mark.clause("TXN-038")
def test_a_deep_clone_of_a_shallow_one_is_refused(folder: Folder) -> None:
    begun(folder, (1,))
    folder.run(cloning.clone(located(folder, "c"), located(folder, "t"), shallow=True))
    with pytest.raises(InvalidArgument, match="independent"):
        folder.run(cloning.clone(located(folder, "d"), located(folder, "c"), shallow=False))
    folder.run(cloning.clone(located(folder, "e"), located(folder, "c"), shallow=True))
    assert seen(folder, name="e") == {1: "x"}


@pytest.mark.clause("TXN-039", "TXN-040")
def test_an_update_of_rows_masks_them_and_writes_them_anew_and_their_number_stays(folder: Folder) -> None:
    before = begun(folder, (1, 2, 3), (4, 5))
    lance.dataset(str(folder.root / "t")).create_scalar_index("v", "BTREE")
    changed = folder.run(
        write.update(T, where(2, 4), lambda t: t.set_column(1, SCHEMA.field("v"), pa.array(["y"] * 2)))
    )
    assert seen(folder) == {1: "x", 2: "y", 3: "x", 4: "y", 5: "x"}
    assert changed.rows == before.rows == 5
    assert [f.files for f in changed.fragments[:2]] == [f.files for f in before.fragments]
    assert [f.deletion_file.num_deleted_rows for f in changed.fragments] == [1, 1, 0]
    assert lance.dataset(str(folder.root / "t")).to_table(filter="v = 'y'").column("id").to_pylist() == [2, 4]
    assert folder.run(write.update(T, where(77), lambda t: t)).version == changed.version
    whole = folder.run(write.update(T, where(5), lambda t: t.set_column(1, SCHEMA.field("v"), pa.array(["z"]))))
    assert [f.id for f in whole.fragments] == [0, 2, 3]  # no row of fragment 1 is left
    assert (whole.rows, seen(folder)) == (5, {1: "x", 2: "y", 3: "x", 4: "y", 5: "z"})


@pytest.mark.clause("TXN-039")
def test_an_update_may_not_add_rows_or_move_keys(folder: Folder) -> None:
    begun(folder, (1, 2))
    with pytest.raises(InvalidArgument, match="3 rows for the 1"):
        folder.run(write.update(T, where(1), lambda t: rows(1, 2, 3)))
    folder.run(write.update_metadata(T, fields={0: {"lance-schema:unenforced-primary-key": "true"}}))
    with pytest.raises(InvalidArgument, match=r"key columns \['id'\] cannot be updated"):
        folder.run(write.update(T, where(1), lambda t: rows(3)))
    assert seen(folder) == {1: "x", 2: "x"}


@pytest.mark.clause("TXN-039", "TXN-041")
def test_an_update_of_columns_adds_a_file_and_tombstones_the_old_column(folder: Folder) -> None:
    begun(folder, (1, 2, 3), (4,))
    place = str(folder.root / "t")
    lance.dataset(place).create_scalar_index("v", "BTREE")
    lance.dataset(place).create_scalar_index("id", "BTREE")
    folder.run(write.delete(T, where(2), "id = 2"))
    before = latest(folder)

    def shout(table: pa.Table) -> pa.Table:
        return pa.table({"v": [f"{v}{i}" for i, v in zip(*table.to_pydict().values(), strict=True)]})

    current = folder.run(columns.recompute(T, ["v"], shout))
    assert [[list(file.fields) for file in f.files] for f in current.fragments] == [[[0, -2], [1]]] * 2
    assert [f.deletion_file for f in current.fragments] == [f.deletion_file for f in before.fragments]
    assert seen(folder) == {1: "x1", 3: "x3", 4: "x4"}
    assert current.rows == before.rows
    bitmaps = {tuple(i.fields): fragment_bitmap.decode(i.fragment_bitmap, "") for i in current.manifest.indices}
    assert bitmaps == {(1,): set(), (0,): {0, 1}}
    assert lance.dataset(place).to_table(filter="v = 'x3'").column("id").to_pylist() == [3]
    folder.run(columns.recompute(T, ["v"], lambda t: pa.table({"v": ["z"] * t.num_rows})))
    assert seen(folder) == {1: "z", 3: "z", 4: "z"}
    assert [len(f.files) for f in latest(folder).fragments] == [2, 2]


@pytest.mark.clause("TXN-042")
def test_rewriting_rows_is_cheaper_for_few_rows_and_rewriting_columns_for_few_columns(folder: Folder) -> None:
    texts = {f"c{n}": [f"{n}-{i}" for i in range(2000)] for n in range(8)}
    wide = pa.table({"id": pa.array(range(2000), pa.int64()), **texts})
    folder.run(write.create(T, wide.schema, wide))

    def written(act: Callable[[], Protocol[Any]]) -> int:
        before = folder.files()
        folder.run(act())
        new = {name: data for name, data in folder.files().items() if name not in before}
        return sum(len(data) for name, data in new.items() if "/data/" in name or "/_deletions/" in name)

    def changed(table: pa.Table) -> pa.Table:
        texts = [f"{i * 2654435761 % 2**32:x}{i * 40503 % 2**16:x}" for i in table.column("id").to_pylist()]
        return table.set_column(1, "c0", pa.array(texts))

    def column(table: pa.Table) -> pa.Table:
        return changed(table).select(["c0"])

    few = written(lambda: write.update(T, where(7), changed)), written(lambda: columns.recompute(T, ["c0"], column))
    assert few[0] < few[1]
    every = where(*range(2000))
    many = written(lambda: write.update(T, every, changed)), written(lambda: columns.recompute(T, ["c0"], column))
    assert many[1] < many[0]


@pytest.mark.clause("TXN-043")
def test_an_update_of_the_configuration_changes_metadata_only(folder: Folder) -> None:
    begun(folder, (1, 2))
    lance.dataset(str(folder.root / "t")).create_scalar_index("id", "BTREE")
    before = folder.run(write.delete(T, where(2), "id = 2"))
    folder.run(
        write.update_metadata(
            T, config={"a": "1", "b": "2"}, table={"t": "3"}, schema={"s": "4"}, fields={1: {"f": "5"}}
        )
    )
    current = folder.run(write.update_metadata(T, config={"a": None, "b": "9"}))
    native = lance.dataset(str(folder.root / "t"))
    assert native.config() == current.config == {"b": "9"}
    assert native.metadata == {"t": "3"}
    assert native.schema.metadata == {b"s": b"4"}
    assert native.schema.field("v").metadata == {b"f": b"5"}
    assert current.fragments == before.fragments
    assert current.manifest.indices == before.manifest.indices
    with pytest.raises(InvalidArgument, match=r"no fields \[7\]"):
        folder.run(write.update_metadata(T, fields={7: {"f": "5"}}))
    assert seen(folder) == {1: "x"}


@pytest.mark.clause("TXN-043")
def test_the_older_form_of_the_configuration_message_and_replaced_maps_are_applied(folder: Folder) -> None:
    base = folder.run(write.create(T, SCHEMA, None, {"a": "1", "b": "2"})).manifest
    body = Transaction.UpdateConfig(upsert_values={"c": "3"}, delete_keys=["a"], schema_metadata={"s": "4"})
    body.field_metadata[1].metadata["f"] = "5"
    older = apply.build(base, Transaction(update_config=body), "m", None, STRICT).message
    assert dict(older.config) == {"b": "2", "c": "3"}
    assert dict(older.schema_metadata) == {"s": b"4"}
    assert dict(older.fields[1].metadata) == {"f": b"5"}
    newer = Transaction.UpdateConfig()
    newer.config_updates.replace = True
    newer.config_updates.update_entries.add(key="z", value="26")
    assert dict(apply.build(base, Transaction(update_config=newer), "m", None, STRICT).message.config) == {"z": "26"}


@pytest.mark.clause("TXN-044")
def test_replaced_data_take_the_place_of_the_file_with_the_same_columns(folder: Folder) -> None:
    begun(folder, (1, 2), (3, 4))
    new = pa.schema([("w", pa.int64())])
    folder.run(columns.add(T, new, lambda t: pa.table({"w": t.column("id")})))
    place = str(folder.root / "t")
    lance.dataset(place).create_scalar_index("w", "BTREE")
    before = latest(folder)
    current = folder.run(columns.replace_data(T, {1: pa.table({"w": pa.array([30, 40], pa.int64())})}))
    assert fragment(current, 0) == fragment(before, 0)
    assert fragment(current, 1).files[0] == fragment(before, 1).files[0]
    assert fragment(current, 1).files[1].path != fragment(before, 1).files[1].path
    native = lance.dataset(place)
    assert native.to_table().column("w").to_pylist() == [1, 2, 30, 40]
    assert native.to_table(filter="w = 40").column("id").to_pylist() == [4]
    assert folder.run(read.scan(T, current, ["w"])).column("w").to_pylist() == [1, 2, 30, 40]
    assert fragment_bitmap.decode(current.manifest.indices[0].fragment_bitmap, "") == {0}
    folder.run(columns.add(T, pa.schema([("late", pa.int64())])))
    folder.run(columns.replace_data(T, {0: pa.table({"late": pa.array([7, 8], pa.int64())})}))
    assert lance.dataset(place).to_table().column("late").to_pylist() == [7, 8, None, None]
    with pytest.raises(InvalidArgument, match="exactly the fields"):
        folder.run(columns.replace_data(T, {0: pa.table({"v": ["a", "b"]})}))
    with pytest.raises(InvalidArgument, match="no fragment 9"):
        folder.run(columns.replace_data(T, {9: pa.table({"w": [1]})}))


@pytest.mark.clause("TXN-046", "FORMAT-018")
def test_base_paths_are_added_and_data_files_found_in_them(folder: Folder) -> None:
    before = begun(folder, (1,))
    elsewhere = folder.root / "elsewhere"
    current = folder.run(cloning.add_bases(located(folder, "t"), {"other": str(elsewhere)}))
    (base,) = current.manifest.message.base_paths
    assert (base.id, base.name, base.is_dataset_root, base.path) == (1, "other", False, str(elsewhere))
    assert current.fragments == before.fragments
    assert current.manifest.message.reader_feature_flags & 16
    native = lance.dataset(str(folder.root / "t"))
    lance.write_dataset(rows(2), native, mode="append", target_bases=["other"])
    assert [path.suffix for path in elsewhere.iterdir()] == [".lance"]
    assert seen(folder) == {1: "x", 2: "x"}
    with pytest.raises(InvalidArgument, match="'other'"):
        folder.run(cloning.add_bases(located(folder, "t"), {"other": "/x"}))


def test_files_outside_of_the_store_are_reported_as_such(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    begun(folder, (1,))
    far = tmp_path_factory.mktemp("far") / "c"
    lance.dataset(str(folder.root / "t")).shallow_clone(str(far), reference=1)
    other = Folder(far.parent)
    io = Io("c", location=str(far), interpretation=STRICT)
    current = other.run(state.latest(io))
    with pytest.raises(ArtifactError, match="outside the table's store"):
        other.run(read.scan(io, current))


@pytest.mark.clause("TXN-003", "GC-003")
def test_tags_are_those_of_pylance(folder: Folder) -> None:
    begun(folder, (1,), (2,))
    place = str(folder.root / "t")
    lance.dataset(place).tags.create("theirs", 1)
    folder.run(tags.create(T, "ours", TableVersion(2)))
    assert folder.run(tags.versions(T)) == {"theirs": 1, "ours": 2}
    native = lance.dataset(place)
    assert {name: tag["version"] for name, tag in native.tags.list().items()} == {"theirs": 1, "ours": 2}
    assert lance.dataset(place, version="ours").count_rows() == 2
    assert seen(folder, folder.run(tags.versions(T))["theirs"]) == {1: "x"}
    with pytest.raises(AlreadyExists):
        folder.run(tags.create(T, "ours", TableVersion(1)))
    with pytest.raises(NotFound):
        folder.run(tags.create(T, "none", TableVersion(9)))
    folder.run(tags.delete(T, "ours"))
    assert set(lance.dataset(place).tags.list()) == {"theirs"}
    for wrong in ("", "a/b", "..", ".x", "a.lock"):
        with pytest.raises(InvalidArgument):
            folder.run(tags.create(T, wrong, TableVersion(1)))


@pytest.mark.parametrize("file", [b"", b"{}", b'{"version": "x"}', b"[1]"])
def test_a_tag_that_cannot_be_read_names_its_object(folder: Folder, file: bytes) -> None:
    begun(folder, (1,))
    target = folder.root / "t" / "_refs" / "tags" / "bad.json"
    target.parent.mkdir(parents=True)
    target.write_bytes(file)
    with pytest.raises(ArtifactError, match=r"bad\.json"):
        folder.run(tags.versions(T))


@pytest.mark.parametrize("name", ["delete", "update"])
def test_a_change_of_a_fragment_that_is_not_there_is_a_bug_and_never_a_silent_loss(folder: Folder, name: str) -> None:
    base = begun(folder, (1,)).manifest
    made = Transaction()
    getattr(made, name).updated_fragments.add(id=5, physical_rows=1)
    with pytest.raises(EngineBug, match=r"\[5\]"):
        apply.build(base, made, "m", None, STRICT)


@pytest.mark.parametrize("flag", [1 << 6, 1 << 20, 1 << 63], ids=hex)
@pytest.mark.clause("FORMAT-008", "FORMAT-027")
def test_a_table_with_an_unknown_reader_flag_is_not_read(folder: Folder, flag: int) -> None:
    _with_flags(folder, reader=flag)
    for load in (state.latest(T), state.load(T, TableVersion(1)), write.append(T, rows(2))):
        with pytest.raises(InvalidArgument, match=f"unsupported reader feature flags {flag:#x}$|{flag:#x} "):
            folder.run(load)


@pytest.mark.parametrize("flag", [1 << 6, 1 << 20, 1 << 63], ids=hex)
@pytest.mark.clause("FORMAT-009", "FORMAT-027")
def test_a_table_with_an_unknown_writer_flag_is_read_and_not_written(folder: Folder, flag: int) -> None:
    _with_flags(folder, writer=flag)
    assert by_id(folder.run(read.scan(T, latest(folder)))) == {1: "x"}
    before = folder.files()
    for change in (write.append(T, rows(2)), write.delete(T, where(1), "id = 1"), whole.overwrite(T, rows(2))):
        with pytest.raises(InvalidArgument, match=f"unsupported writer feature flags {flag:#x}$|{flag:#x} "):
            folder.run(change)
    assert folder.files() == before


def _with_flags(folder: Folder, reader: int = 0, writer: int = 0) -> None:
    manifest = begun(folder, (1,)).manifest
    manifest.message.reader_feature_flags |= reader
    manifest.message.writer_feature_flags |= writer
    (path,) = Path(folder.root / "t" / "_versions").glob("*.manifest")
    path.write_bytes(table_manifest.encode(manifest))


@pytest.mark.clause("TXN-034")
def test_no_fragment_loses_its_last_data_file(folder: Folder) -> None:
    begun(folder, (1, 2))
    folder.run(columns.add(T, pa.schema([("w", pa.int64())])))
    with pytest.raises(InvalidArgument, match=r"\[0\] would have no data file left"):
        folder.run(columns.drop(T, ["id", "v"]))
    with pytest.raises(InvalidArgument, match="there are no columns"):
        folder.run(columns.drop(T, ["z"]))
    assert seen(folder) == {1: "x", 2: "x"}
