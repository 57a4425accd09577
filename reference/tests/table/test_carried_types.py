"""What cannot be carried is refused by name where it comes in, and what pyarrow gets wrong is right here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from memwal import cellwise
from memwal.codec import protobuf
from memwal.codec.pb.lance import file_pb2
from memwal.errors import InvalidArgument

from ..kit.cells import array, cells
from ..kit.tables import flush

PLAIN = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
UUID = {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""}

REFUSED = {
    "no fields": (pa.field("c", pa.struct([])), "'c'", "without fields"),
    "no fields below": (pa.field("c", pa.list_(pa.struct([("a", pa.struct([]))]))), "'a' in 'item' in 'c'", "without"),
    "no items": (pa.field("c", pa.list_(pa.int8(), 0)), "'c'", "no width"),
    "no bytes": (pa.field("c", pa.struct([("b", pa.binary(0))])), "'b' in 'c'", "no width"),
    "texts of fixed number": (pa.field("c", pa.list_(pa.string(), 2)), "'c'", "fixed width"),
    "NULLs of fixed number": (pa.field("c", pa.list_(pa.null(), 2)), "'c'", "fixed width"),
    "strict items": (pa.field("c", pa.list_(pa.field("item", pa.int8(), False), 2)), "'c'", "would give"),
    "a zone called -": (pa.field("c", pa.timestamp("us", "-")), "'c'", "would give"),
    "map": (pa.field("c", pa.list_(pa.map_(pa.string(), pa.int8()))), "'item' in 'c'", "map"),
    "dictionary": (pa.field("c", pa.dictionary(pa.int8(), pa.string())), "'c'", "dictionary"),
    "extension": (pa.field("c", pa.uuid()), "'c'", "arrow.uuid"),
    "extension by its mark": (pa.field("c", pa.binary(16), metadata=UUID), "'c'", "arrow.uuid"),
    "packed": (pa.field("c", pa.struct([("a", pa.int8())]), metadata={"packed": "true"}), "'c'", "packed"),
    "unknown encoding": (pa.field("c", pa.int8(), metadata={"lance-encoding:compression": "best"}), "'c'", "best"),
    "metadata that are no text": (pa.field("c", pa.int8(), metadata={b"k": b"\xff"}), "'c'", "UTF-8"),
    "twice": (pa.field("c", pa.struct([pa.field("a", pa.int8()), pa.field("a", pa.int8())])), "'c'", "not unique"),
    "key below": (
        pa.field("c", pa.struct([pa.field("a", pa.int8(), metadata={"lance-schema:unenforced-primary-key": "true"})])),
        "'a' in 'c'",
        "primary key",
    ),
}  # fmt: skip


def _create(place: Path, field: pa.Field) -> None:
    memwal.create(place / "new", PLAIN.append(field), primary_key=["id"])


def _add(place: Path, field: pa.Field) -> None:
    memwal.base_table(place / "t").add_columns(pa.schema([field]))


def _overwrite(place: Path, field: pa.Field) -> None:
    memwal.base_table(place / "bare").overwrite(PLAIN.append(field).empty_table())


@pytest.mark.clause("AMB-136", "FORMAT-028")
@pytest.mark.parametrize("come_in", [_create, _add, _overwrite])
@pytest.mark.parametrize("case", REFUSED)
def test_a_column_that_cannot_be_carried_is_refused_by_name(
    case: str, come_in: Callable[[Path, pa.Field], None], tmp_path: Path
) -> None:
    field, where, why = REFUSED[case]
    memwal.create(tmp_path / "t", PLAIN, primary_key=["id"])
    lance.write_dataset(PLAIN.empty_table(), str(tmp_path / "bare"))
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(InvalidArgument) as refused:
        come_in(tmp_path, field)

    assert where in str(refused.value)
    assert why in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.clause("AMB-136")
def test_a_table_with_a_column_that_cannot_be_carried_is_not_enabled(tmp_path: Path) -> None:
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    rows = pa.table([pa.array([1]), pa.array([b"0" * 16], pa.uuid())], schema=pa.schema([key, ("u", pa.uuid())]))
    lance.write_dataset(rows, str(tmp_path / "t"))

    with pytest.raises(InvalidArgument, match=r"'u'.*arrow\.uuid"):
        memwal.enable(tmp_path / "t")


@pytest.mark.clause("AMB-136", "WRITER-015")
def test_only_the_key_that_is_asked_for_is_marked_though_another_column_was_one_elsewhere(tmp_path: Path) -> None:
    elsewhere = memwal.create(tmp_path / "elsewhere", PLAIN, primary_key=["v"]).schema
    table = memwal.create(tmp_path / "t", elsewhere, primary_key=["id"])
    assert table.primary_key == ("id",)


@pytest.mark.parametrize("revision", ["A", "B", "R"])
@pytest.mark.clause("FORMAT-024")
def test_a_column_with_an_empty_value_in_its_metadata_is_flushed(revision: str, tmp_path: Path) -> None:
    schema = PLAIN.set(1, pa.field("v", pa.string(), metadata={"unit": "", "about": "z"}))
    table = memwal.create(tmp_path / "t", schema, primary_key=["id"], revision=revision)
    flush(table, pa.table([pa.array([1]), pa.array(["x"])], schema=schema))
    table.merge()
    assert lance.dataset(str(tmp_path / "t")).to_table().column("v").to_pylist() == ["x"]
    assert table.schema.field("v").metadata == {b"unit": b"", b"about": b"z"}


def test_maps_of_a_message_are_sorted_and_nothing_else_changes() -> None:
    message = file_pb2.FileDescriptor(length=7)
    message.schema.metadata.update({"b": b"1", "a": b"2"})
    message.schema.fields.add(name="x", id=300).metadata.update({"zz": b"", "y": b"3", "z": b"4"})
    message.schema.fields.add(name="y", logical_type="int8")
    expected = message.SerializeToString(deterministic=True)
    shuffled = expected.replace(b"\x0a\x01y\x12\x013", b"\x0a\x01{\x12\x013")
    assert protobuf.with_sorted_maps(expected, {1: {1: {10: None}, 5: None}}) == expected
    sorted_anew = protobuf.with_sorted_maps(shuffled, {1: {1: {10: None}, 5: None}})
    assert file_pb2.FileDescriptor.FromString(sorted_anew) == file_pb2.FileDescriptor.FromString(shuffled)
    assert sorted_anew == file_pb2.FileDescriptor.FromString(shuffled).SerializeToString(deterministic=True)


SQUARE = pa.list_(pa.list_(pa.int32(), 3), 2)
"""The type of which pyarrow takes the wrong values from slices."""


def _squares(*numbers: int) -> list[list[list[int]]]:
    return [[[n, n + 1, n + 2], [n + 3, n + 4, n + 5]] for n in numbers]


@pytest.mark.parametrize("arrow", [SQUARE, pa.list_(SQUARE), pa.struct([("a", SQUARE)])], ids=str)
def test_rows_of_a_slice_are_chosen_rightly_at_every_depth(arrow: pa.DataType) -> None:
    plain = _squares(10, 20, 30, 40, 50)
    values = plain if arrow == SQUARE else [[v] for v in plain] if pa.types.is_list(arrow) else [(v,) for v in plain]
    for seed in range(20):
        column = array(values, arrow, Random(seed).randrange)
        rows = pa.table({"c": pa.chunked_array([column[1:], column[2:4]])})
        assert cells(cellwise.at(rows, np.array([5, 0, 3])).column("c")) == [values[3], values[1], values[4]]
        mask = np.array([True, False, False, True, True, False])
        assert cells(cellwise.where(rows, mask).column("c")) == [values[1], values[4], values[2]]


def test_slices_of_lists_of_nulls_come_under_a_schema_as_they_are() -> None:
    values = [None, [None, None], []]
    column = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 3], pa.int32()), pa.nulls(3), mask=pa.array([True, False, False])
    )
    schema = pa.schema([pa.field("c", pa.list_(pa.null()), metadata={"a": "b"})])
    assert cells(cellwise.under(pa.table({"c": column[1:]}), schema).column("c")) == values[1:]


@pytest.mark.clause("TXN-039", "TXN-041", "TXN-044", "TXN-033")
def test_every_operation_on_the_base_table_keeps_cells_of_slices(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("c", SQUARE)])

    def rows(*ids: int, shift: int = 0) -> pa.Table:
        column = pa.array([*_squares(0, 1), *_squares(*(10 * n + shift for n in ids))], SQUARE)[2:]
        return pa.table([pa.array(ids, pa.int64()), column], schema=schema)

    def held() -> dict[int, object]:
        found = lance.dataset(str(tmp_path / "t")).to_table()
        assert memwal.base_table(tmp_path / "t").scan().select(found.schema.names).equals(found)
        return dict(zip(found.column("id").to_pylist(), cells(found.column("c")), strict=True))

    memwal.create(tmp_path / "t", rows(1, 2, 3, 4), primary_key=["id"])
    base = memwal.base_table(tmp_path / "t").append(rows(5, 6, 7))
    expected = dict(enumerate(_squares(10, 20, 30, 40, 50, 60, 70), start=1))
    assert held() == expected
    base.delete("id = 2")
    del expected[2]
    assert held() == expected
    base.update(
        "id > 2 AND id < 6", lambda old: pa.table([old.column("id"), rows(3, 4, 5, shift=1).column("c")], schema=schema)
    )
    expected |= dict(enumerate(_squares(31, 41, 51), start=3))
    assert held() == expected
    base.compact()
    assert held() == expected
    number = base.scan().num_rows
    (fragment,) = lance.dataset(str(tmp_path / "t")).get_fragments()
    order = base.scan().column("id").to_pylist()
    base.recompute(["c"], lambda old: rows(*old.column("id").to_pylist(), shift=2).select(["c"]))
    assert held() == {n: _squares(10 * n + 2)[0] for n in order}
    base.replace_data({fragment.fragment_id: rows(*order, shift=3).select(["c"])})
    assert held() == {n: _squares(10 * n + 3)[0] for n in order}
    base.add_columns(
        pa.schema([("d", SQUARE)]),
        lambda old: rows(*old.column("id").to_pylist(), shift=4).select(["c"]).rename_columns(["d"]),
    )
    added = lance.dataset(str(tmp_path / "t")).to_table()
    assert cells(added.column("d")) == [_squares(10 * n + 4)[0] for n in added.column("id").to_pylist()]
    assert number == len(order)


@pytest.mark.clause("WRITER-015")
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.array([1, None, 200], pa.int64()), pa.uint8()),
        (pa.array([0.5, float("nan"), None], pa.float64()), pa.float16()),
        (pa.array([[1], None, []], pa.list_(pa.int64())), pa.large_list(pa.int8())),
        (pa.array([1, 2, None], pa.timestamp("s")), pa.timestamp("ns")),
        (pa.array([None, None]), pa.list_(pa.int8())),
        (pa.array([[0.5, float("nan")], None], pa.list_(pa.float32())), pa.list_(pa.float16(), 2)),
        (pa.array([{"a": float("nan")}]), pa.struct([("a", pa.float32())])),
        # What lies under a NULL would not fit.
        (pa.ListArray.from_arrays([0, 1, 2], [1, 256], mask=pa.array([False, True])), pa.large_list(pa.int8())),
        (pa.ListArray.from_arrays([0, 1, 2], [1, 256], mask=pa.array([False, True])), pa.list_(pa.int8(), 1)),
        (
            pa.StructArray.from_arrays([pa.array([1, 256])], names=["a"], mask=pa.array([False, True])),
            pa.struct([("a", pa.int8())]),
        ),
    ],
    ids=str,
)
def test_values_are_converted_where_they_stay_what_they_are(given: pa.Array, wanted: pa.DataType) -> None:
    column = cellwise.converted(pa.table({"c": given}), pa.schema([("c", wanted)])).column("c")
    assert column.type == wanted
    expected = [str(value) for value in given.to_pylist()]
    assert [str(value) for value in column.to_pylist()] == expected


@pytest.mark.clause("WRITER-015")
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.array([0.1], pa.float64()), pa.float32()),
        (pa.array([[0.1]], pa.list_(pa.float64())), pa.list_(pa.float32())),
        (pa.array([256], pa.int64()), pa.uint8()),
        (pa.array([[1, 2, 3]]), pa.list_(pa.int64(), 2)),
        (pa.array([{"a": [0.1]}]), pa.struct([("a", pa.list_(pa.float16()))])),
        (pa.array([1], pa.timestamp("ms")), pa.timestamp("s")),
        (pa.array(["012"]), pa.int64()),
        (pa.array([{"a": 1}]), pa.int64()),
    ],
    ids=str,
)
def test_a_value_that_would_change_is_refused(given: pa.Array, wanted: pa.DataType) -> None:
    with pytest.raises(InvalidArgument, match="column 'c'"):
        cellwise.converted(pa.table({"c": given}), pa.schema([("c", wanted)]))
