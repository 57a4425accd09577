"""Each kind of change of a Lance table, as its users see it: through the public interface, pylance, and plain files."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pytest

from ..kit.tables import by_id

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


def rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table([pa.array(ids, pa.int64()), pa.array([v] * len(ids))], schema=SCHEMA)


def native(place: str, version: int | None = None) -> dict[int, object]:
    """What pylance reads, and finds sound."""
    dataset = lance.dataset(place, version=version)
    dataset.validate()
    return by_id(dataset.to_table())


def files(place: str, part: str = "data") -> dict[str, str]:
    """Name -> digest of each file below a folder of the table."""
    found = [path for path in Path(place, part).rglob("*") if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def fragments(place: str, version: int | None = None) -> dict[int, list[str]]:
    """Fragment id -> names of its data files."""
    listed = [fragment.metadata for fragment in lance.dataset(place, version=version).get_fragments()]
    return {fragment.id: [file.path for file in fragment.files] for fragment in listed}


def operation(place: str, version: int) -> str:
    """What the transaction of a version is called by pylance."""
    return type(lance.dataset(place).read_transaction(version).operation).__name__


def covered(place: str, name: str) -> int:
    """Fragments that an index of pylance covers."""
    return int(lance.dataset(place).stats.index_stats(name)["num_indexed_fragments"])


def max_fragment_id(place: str, version: int) -> object:
    """The highest fragment id that was given away up to a version."""
    (shown,) = [each for each in memwal.inspect(place, version=version).all() if each.kind == "table_version"]
    return dict(shown.fields)["max_fragment_id"]


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table of pylance with the fragments (1, 2, 3) and (4, 5)."""
    found = str(tmp_path / "lake" / "t")
    lance.write_dataset(rows(1, 2, 3), found)
    lance.write_dataset(rows(4, 5), found, mode="append")
    return found


@pytest.mark.clause("TXN-020", "TXN-024", "TXN-025", "FORMAT-033")
def test_an_append_adds_a_fragment_of_the_next_id_and_touches_no_other_file(place: str) -> None:
    lance.dataset(place).delete("id IN (4, 5)")  # its id is not given to another fragment
    before, listed = files(place), fragments(place)
    memwal.base_table(place).append(rows(6))
    after = fragments(place)
    assert files(place).items() >= before.items()
    assert {number: after[number] for number in listed} == listed == {0: listed[0]}
    (added,) = after.keys() - listed.keys()
    assert added == 2
    (stored,) = lance.dataset(place).read_transaction(4).operation.fragments
    assert stored.id == 0  # not decided yet
    assert native(place) == {1: "x", 2: "x", 3: "x", 6: "x"}
    names = sorted(name for name in os.listdir(Path(place, "_versions")) if name.endswith(".manifest"))
    assert [lance.dataset(place).version, 2**64 - 1 - int(names[0].removesuffix(".manifest"))] == [4, 4]


@pytest.mark.clause("TXN-026", "FORMAT-035", "FORMAT-022")
def test_deleted_rows_are_in_no_scan_and_no_search_and_a_fragment_without_rows_is_gone(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(x) for x in range(12)], pa.float32()), 2)
    many = pa.table({"id": pa.array(range(6), pa.int64()), "e": vectors})
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), many.schema.field("e")])
    table = memwal.create(place, many.slice(0, 4).cast(schema), primary_key=["id"])
    table.base.append(many.slice(4).cast(schema))
    memwal.base_table(place).delete("id IN (1, 4, 5)")
    (left,) = [fragment.metadata for fragment in lance.dataset(place).get_fragments()]
    assert (left.id, left.physical_rows, left.deletion_file.num_deleted_rows) == (0, 4, 1)
    assert table.scan().column("id").to_pylist() == [0, 2, 3]
    found = table.search([2.0, 3.0], "e", k=2)  # the deleted row's own vector
    assert set(found.column("id").to_pylist()) == {0, 2}
    assert lance.dataset(place).to_table().column("id").to_pylist() == [0, 2, 3]


@pytest.mark.clause("TXN-028", "FORMAT-033")
def test_an_overwrite_replaces_rows_and_schema_and_sets_configuration(place: str) -> None:
    table = memwal.base_table(place).update_metadata(config={"old": "1"})
    other = pa.table({"w": pa.array([1.5])})
    table.overwrite(other, {"new": "2"})
    dataset = lance.dataset(place)
    assert dataset.to_table().to_pydict() == {"w": [1.5]}
    assert dataset.schema.names == ["w"]
    assert dataset.config() == {"old": "1", "new": "2"}  # the message names keys to be set
    assert len(dataset.get_fragments()) == 1
    assert native(place, 2) == dict.fromkeys([1, 2, 3, 4, 5], "x")


@pytest.mark.clause("TXN-030", "TXN-031", "TXN-032", "TXN-036", "FORMAT-041")
def test_a_compaction_moves_rows_to_reserved_fragments_and_the_index_follows(place: str) -> None:
    table = memwal.base_table(place).append(rows(6, 7)).delete("id = 2")
    lance.dataset(place).create_scalar_index("id", "BTREE", name="by_id")
    before, listed, newest = native(place), fragments(place), lance.dataset(place).version
    assert covered(place, "by_id") == 3
    table.refresh().compact([0, 1], defer_index_remap=True)
    assert native(place) == before == dict.fromkeys([1, 3, 4, 5, 6, 7], "x")
    assert fragments(place, newest + 1) == listed  # the version that reserves ids changes nothing
    assert native(place, newest + 1) == before
    assert operation(place, newest + 2) == "Rewrite"
    (group,) = lance.dataset(place).read_transaction(newest + 2).operation.groups
    assert [fragment.id for fragment in group.new_fragments] == [3]
    assert [max_fragment_id(place, newest + n) for n in (0, 1, 2)] == [2, 3, 3]
    assert sorted(fragments(place)) == [2, 3]
    moved = lance.dataset(place).get_fragment(3).metadata
    assert (moved.physical_rows, moved.deletion_file) == (4, None)
    assert covered(place, "by_id") == 2
    assert lance.dataset(place).stats.index_stats("by_id")["num_unindexed_rows"] == 0
    assert lance.dataset(place).to_table(filter="id >= 3").sort_by("id").column("id").to_pylist() == [3, 4, 5, 6, 7]


@pytest.mark.clause("TXN-033", "FORMAT-016", "FORMAT-023", "FORMAT-033")
def test_an_added_column_is_a_further_file_of_every_fragment_or_null(place: str) -> None:
    table = memwal.base_table(place).delete("id = 2")
    before, listed = files(place), fragments(place)
    table.add_columns(pa.schema([("w", pa.int64())]), lambda old: pa.table({"w": old.column("id")}))
    assert files(place).items() >= before.items()
    after = fragments(place)
    assert {number: names[:1] for number, names in after.items()} == listed
    assert [len(names) for names in after.values()] == [2, 2]
    assert lance.dataset(place).to_table(columns=["w"]).column("w").to_pylist() == [1, 3, 4, 5]
    lance.dataset(place).add_columns(pa.schema([("late", pa.int32())]))
    assert fragments(place) == after
    assert table.refresh().scan(["id", "late"]).to_pydict() == {"id": [1, 3, 4, 5], "late": [None] * 4}


@pytest.mark.clause("TXN-034")
def test_a_dropped_column_is_gone_and_its_data_are_where_they_were(place: str) -> None:
    table = memwal.base_table(place)
    table.add_columns(pa.schema([("w", pa.int64())]), lambda old: pa.table({"w": old.column("id")}))
    before = files(place)
    table.drop_columns(["w"])
    assert lance.dataset(place).schema.names == ["id", "v"]
    assert native(place) == dict.fromkeys([1, 2, 3, 4, 5], "x")
    assert files(place) == before
    assert lance.dataset(place, version=3).to_table().column("w").to_pylist() == [1, 2, 3, 4, 5]


@pytest.mark.clause("TXN-035")
def test_a_restore_gives_rows_columns_and_configuration_of_the_earlier_version_back(place: str) -> None:
    table = memwal.base_table(place).update_metadata(config={"a": "1"})
    table.update_metadata(config={"a": "2"}).delete("id < 5").drop_columns(["v"])
    assert table.restore(3).version == 7
    assert native(place) == native(place, 3) == dict.fromkeys([1, 2, 3, 4, 5], "x")
    assert lance.dataset(place).config() == {"a": "1"}
    assert lance.dataset(place).schema == lance.dataset(place, version=3).schema


@pytest.mark.clause("TXN-037")
def test_a_shallow_clone_is_one_manifest_that_reads_the_files_of_its_source(place: str, tmp_path: Path) -> None:
    target = str(tmp_path / "lake" / "c")
    memwal.clone(place, target, shallow=True)
    assert (files(target), native(target)) == ({}, dict.fromkeys([1, 2, 3, 4, 5], "x"))
    (version,) = [each for each in memwal.inspect(target).all() if each.kind == "table_version"]
    assert place in str(dict(version.fields)["base_paths"])
    memwal.base_table(target, within=tmp_path / "lake").delete("id = 1")
    assert native(target) == dict.fromkeys([2, 3, 4, 5], "x")
    assert native(place) == dict.fromkeys([1, 2, 3, 4, 5], "x")


@pytest.mark.clause("TXN-038")
def test_a_deep_clone_has_all_files_and_outlives_its_source(place: str, tmp_path: Path) -> None:
    lance.dataset(place).create_scalar_index("id", "BTREE", name="by_id")
    memwal.base_table(place).delete("id = 1")
    target = str(tmp_path / "lake" / "c")
    memwal.clone(place, target, shallow=False)
    assert [files(target, part) for part in ("data", "_deletions", "_indices")] == [
        files(place, part) for part in ("data", "_deletions", "_indices")
    ]
    shutil.rmtree(place)
    assert native(target) == dict.fromkeys([2, 3, 4, 5], "x")
    assert lance.dataset(target).to_table(filter="id = 4").column("id").to_pylist() == [4]


@pytest.mark.clause("TXN-039", "TXN-040")
def test_updated_rows_are_deleted_in_their_fragments_and_stand_in_a_new_one(place: str) -> None:
    before, listed = files(place), fragments(place)
    memwal.base_table(place).update("id IN (2, 4)", lambda old: rows(*old.column("id").to_pylist(), v="y"))
    assert native(place) == {1: "x", 2: "y", 3: "x", 4: "y", 5: "x"}
    after = fragments(place)
    assert {number: after.pop(number) for number in listed} == listed
    (new,) = after
    kept = [lance.dataset(place).get_fragment(number).count_rows() for number in (0, 1, new)]
    assert kept == [2, 1, 2]
    assert files(place).items() >= before.items()
    with pytest.raises(memwal.InvalidArgument, match="3 rows for the 1"):
        memwal.base_table(place).update("id = 1", lambda _: rows(1, 6, 7))
    assert lance.dataset(place).count_rows() == 5


@pytest.mark.clause("TXN-039", "TXN-041")
def test_a_recomputed_column_is_a_further_file_and_the_old_one_no_longer_says_that_it_holds_it(place: str) -> None:
    memwal.base_table(place).recompute(
        ["v"], lambda old: pa.table({"v": [f"v{i}" for i in old.column("id").to_pylist()]})
    )
    assert native(place) == {1: "v1", 2: "v2", 3: "v3", 4: "v4", 5: "v5"}
    listed = [fragment.metadata.files for fragment in lance.dataset(place).get_fragments()]
    assert [[file.fields for file in held] for held in listed] == [[[0, -2], [1]]] * 2


@pytest.mark.clause("TXN-043")
def test_metadata_change_and_rows_fragments_and_indexes_do_not(place: str) -> None:
    lance.dataset(place).create_scalar_index("id", "BTREE", name="by_id")
    before, listed = files(place), fragments(place)
    table = memwal.base_table(place)
    table.update_metadata(config={"c": "1"}, table={"t": "2"}, schema={"s": "3"}, fields={1: {"f": "4"}})
    dataset = lance.dataset(place)
    assert (dataset.config(), dataset.metadata) == ({"c": "1"}, {"t": "2"})
    assert (dataset.schema.metadata, dataset.schema.field("v").metadata) == ({b"s": b"3"}, {b"f": b"4"})
    assert (files(place), fragments(place), covered(place, "by_id")) == (before, listed, 2)
    assert native(place) == dict.fromkeys([1, 2, 3, 4, 5], "x")


@pytest.mark.clause("TXN-044")
def test_replaced_data_take_the_place_of_the_file_of_their_column_in_their_fragment(place: str) -> None:
    table = memwal.base_table(place)
    table.add_columns(pa.schema([("w", pa.int64())]), lambda old: pa.table({"w": old.column("id")}))
    before = fragments(place)
    table.replace_data({1: pa.table({"w": pa.array([40, 50], pa.int64())})})
    after = fragments(place)
    assert (after[0], after[1][0]) == (before[0], before[1][0])
    assert after[1][1] != before[1][1]
    assert lance.dataset(place).to_table(["id", "w"]).to_pydict() == {"id": [1, 2, 3, 4, 5], "w": [1, 2, 3, 40, 50]}


@pytest.mark.clause("TXN-046")
def test_rows_are_found_in_a_base_path_that_was_added(place: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "lake" / "elsewhere"
    table = memwal.base_table(place, within=tmp_path / "lake").add_bases({"other": str(elsewhere)})
    lance.write_dataset(rows(6), lance.dataset(place), mode="append", target_bases=["other"])
    assert [path.suffix for path in elsewhere.iterdir()] == [".lance"]
    assert by_id(table.refresh().scan()) == native(place) == dict.fromkeys([1, 2, 3, 4, 5, 6], "x")


@pytest.mark.clause("FORMAT-008", "FORMAT-009", "FORMAT-027")
def test_an_unknown_flag_keeps_readers_or_writers_away_and_says_so(place: str) -> None:
    newest = min(path for path in Path(place, "_versions").iterdir() if path.suffix == ".manifest")
    plain = newest.read_bytes()
    newest.write_bytes(with_field(plain, 10, 1 << 20))  # writer_feature_flags
    table, before = memwal.base_table(place), files(place, ".")
    assert by_id(table.scan()) == dict.fromkeys([1, 2, 3, 4, 5], "x")
    changes: list[Callable[[], object]] = [lambda: table.append(rows(6)), lambda: table.delete("id = 1"), table.compact]
    for change in changes:
        with pytest.raises(memwal.InvalidArgument, match="unsupported writer feature flags 0x100000"):
            change()
    assert files(place, ".") == before
    newest.write_bytes(with_field(plain, 9, 1 << 20))  # reader_feature_flags
    with pytest.raises(memwal.InvalidArgument, match="unsupported reader feature flags 0x100000"):
        memwal.base_table(place)
    with pytest.raises(memwal.InvalidArgument, match="unsupported reader feature flags 0x100000"):
        table.refresh()


def with_field(manifest: bytes, number: int, value: int) -> bytes:
    """A table manifest whose message has one more varint at its end, which counts."""
    at = int.from_bytes(manifest[-16:-8], "little")
    length = int.from_bytes(manifest[at : at + 4], "little")
    sevens = [value >> shift & 0x7F for shift in range(0, value.bit_length(), 7)]
    field = bytes([number << 3, *(each | 0x80 for each in sevens[:-1]), sevens[-1]])
    message = manifest[at + 4 : at + 4 + length] + field
    return manifest[:at] + len(message).to_bytes(4, "little") + message + manifest[at + 4 + length :]


# Two at once ------------------------------------------------------------------------------------------------------


def updated_while(place: str, rival: Callable[[], object]) -> list[list[int]]:
    """Set v to y in row 1, and let ``rival`` commit after the rows were read the first time; the ids read each time."""
    read: list[list[int]] = []

    def compute(old: pa.Table) -> pa.Table:
        read.append(old.column("id").to_pylist())
        if len(read) == 1:
            rival()
        return rows(*read[-1], v="y")

    memwal.base_table(place).update("id IN (1, 2)", compute)
    return read


@pytest.mark.clause("TXN-047")
def test_an_update_is_carried_over_a_delete_of_another_row_of_its_fragment(place: str) -> None:
    assert updated_while(place, lambda: lance.dataset(place).delete("id = 3")) == [[1, 2]]
    assert native(place) == {1: "y", 2: "y", 4: "x", 5: "x"}
    assert [operation(place, version) for version in (3, 4)] == ["Delete", "Update"]


@pytest.mark.clause("TXN-048")
def test_an_update_that_meets_a_delete_of_its_row_is_made_again_from_what_is_left(place: str) -> None:
    assert updated_while(place, lambda: lance.dataset(place).delete("id = 1")) == [[1, 2], [2]]
    assert native(place) == {2: "y", 3: "x", 4: "x", 5: "x"}


@pytest.mark.clause("TXN-015")
def test_a_column_that_is_added_while_rows_are_is_added_to_them_too(place: str) -> None:
    read: list[int] = []

    def compute(old: pa.Table) -> pa.Table:
        read.extend(old.column("id").to_pylist())
        if len(read) == 3:
            lance.write_dataset(rows(6), place, mode="append")
        return pa.table({"w": old.column("id")})

    memwal.base_table(place).add_columns(pa.schema([("w", pa.int64())]), compute)
    assert lance.dataset(place).to_table(columns=["w"]).column("w").to_pylist() == [1, 2, 3, 4, 5, 6]
    assert read == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6]


@pytest.mark.clause("TXN-049")
def test_an_update_that_meets_a_restore_is_given_up_with_a_conflict(place: str) -> None:
    def restored() -> None:
        lance.dataset(place, version=1).restore()

    with pytest.raises(memwal.Conflict):
        updated_while(place, restored)
    assert native(place) == {1: "x", 2: "x", 3: "x"}


@pytest.mark.clause("TXN-011")
def test_pylance_carries_its_commit_over_ours_by_the_transaction_that_we_left(place: str) -> None:
    theirs = lance.dataset(place)
    memwal.base_table(place).delete("id = 1")
    theirs.delete("id = 3")
    assert native(place) == {2: "x", 4: "x", 5: "x"}
    assert len(os.listdir(Path(place, "_transactions"))) == lance.dataset(place).version == 4
