"""Rows of any region are written by one call: routed, cast, durable, through writers that stay open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import memwal
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.errors import Fenced, InvalidArgument, LateRow
from memwal.stores.memory import MemoryStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string()), ("seq", pa.int32())])
BUCKETS = memwal.bucket("b", ["id"], 4)


def made(folder: Path, revision: str = "R", **options: Any) -> memwal.Table:
    return memwal.create(folder / "t", SCHEMA, primary_key=["id"], revision=revision, spec=BUCKETS, **options)


def rows(*cells: tuple[int, str | None, int]) -> list[dict[str, object]]:
    return [{"id": key, "text": text, "seq": seq} for key, text, seq in cells]


def content(table: memwal.Table) -> dict[int, str | None]:
    return {row["id"]: row["text"] for row in table.scan().to_pylist()}


@pytest.mark.clause("REGION-003", "REGION-006")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_each_row_goes_to_the_region_that_the_spec_says_and_is_durable(tmp_path: Path, revision: str) -> None:
    table = made(tmp_path, revision)
    done = table.upsert(rows(*((key, f"v{key}", 0) for key in range(40))))
    assert (done.rows, done.late) == (40, 0)
    other = memwal.open(tmp_path / "t")
    assert content(other) == {key: f"v{key}" for key in range(40)}
    assert {info.values["b"] for info in other.regions()} == {0, 1, 2, 3}
    table.upsert(rows((7, "newer", 1)))
    assert [info.manifest.epoch for info in other.regions() if info.manifest] == [1, 1, 1, 1], (
        "no writer was opened anew"
    )
    report = table.drain()
    assert (report.rows, len(report.merged)) == (40, 4)
    assert other.verify().findings == ()
    expected = {key: f"v{key}" for key in range(40)} | {7: "newer"}
    assert content(table) == expected
    assert {row["id"]: row["text"] for row in lance.dataset(str(tmp_path / "t")).to_table().to_pylist()} == expected


class Streamed:
    """What has Arrow's stream interface and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def viewed(table: pa.Table) -> pa.Table:
    """With views for strings, as a frame of polars gives them."""
    fields = [field.with_type(pa.string_view()) if field.name == "text" else field for field in table.schema]
    return table.cast(pa.schema(fields))


def _dataset(table: pa.Table, folder: Path) -> object:
    return lance.write_dataset(table, str(folder / "given"))


FORMS = {
    "table": lambda table, folder: table,
    "batch": lambda table, folder: table.to_batches()[0],
    "reader": lambda table, folder: table.to_reader(),
    "stream": lambda table, folder: Streamed(table),
    "views": lambda table, folder: Streamed(viewed(table)),
    "pandas": lambda table, folder: pd.DataFrame(table.to_pydict()),
    "dataset": _dataset,
    "rows": lambda table, folder: table.to_pylist(),
    "columns": lambda table, folder: table.to_pydict(),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_in_every_form_of_arrow_data_in_any_order_and_in_types_that_fit(tmp_path: Path, form: str) -> None:
    given = pa.table({"seq": pa.array([1, 2], pa.int64()), "id": pa.array([1, 2], pa.int32()), "text": ["a", None]})
    table = made(tmp_path)
    table.upsert(FORMS[form](given, tmp_path))
    assert sorted(table.scan().to_pylist(), key=lambda row: int(row["id"])) == rows((1, "a", 1), (2, None, 2))


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_created_from_every_form_of_arrow_data(tmp_path: Path, form: str) -> None:
    given = pa.table({"id": pa.array([1, 2], pa.int64()), "text": ["a", None]})
    table = memwal.create(str(tmp_path / "t"), FORMS[form](given, tmp_path), primary_key="id")
    expected = [{"id": 1, "text": "a"}, {"id": 2, "text": None}]
    assert sorted(table.scan().to_pylist(), key=lambda row: int(row["id"])) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"id": 1, "text": "a", "seq": 2**40}], "seq"),
        ([{"id": 1.5, "text": "a", "seq": 0}], "id"),
        ([{"id": None, "text": "a", "seq": 0}], "id"),
        ([{"id": 1, "text": "a"}], "missing"),
        ([{"id": 1, "text": "a", "seq": 0, "more": 1}], "more"),
        ([{"id": "x", "text": "a", "seq": 0}], "id"),
        ("id,text", "str"),
        ([1, 2], "list"),
        (None, "NoneType"),
        ({"id": [1, 2], "text": ["a"], "seq": [0, 0]}, "Arrow"),
    ],
)
def test_what_would_change_or_does_not_fit_is_refused_and_nothing_is_claimed(
    tmp_path: Path, given: Any, said: str
) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidArgument, match=said):
        table.upsert(given)
    assert (table.regions(), content(table)) == ((), {})


@pytest.mark.clause("AMB-89")
def test_deletes_are_routed_and_hide_rows_wherever_they_are(tmp_path: Path) -> None:
    with made(tmp_path) as table:
        table.upsert(rows(*((key, "old", 0) for key in range(12))))
        table.drain()
        table.upsert(rows(*((key, "new", 0) for key in range(6))))
        assert table.delete([{"id": key} for key in (0, 1, 8, 9)]).rows == 4
        expected = dict.fromkeys((2, 3, 4, 5), "new") | dict.fromkeys((6, 7, 10, 11), "old")
        assert content(table) == expected
    table.drain()
    assert content(table) == expected
    assert table.base.scan().num_rows == 8


@pytest.mark.parametrize("revision", ["A", "B"])
def test_a_delete_where_there_is_none_is_refused_before_anything_is_claimed(tmp_path: Path, revision: str) -> None:
    table = made(tmp_path, revision)
    with pytest.raises(InvalidArgument, match="no deletes"):
        table.delete([{"id": 1}])
    assert table.regions() == ()


@pytest.mark.clause("FENCE-003")
def test_a_fenced_upsert_says_so_and_the_next_call_claims_anew(tmp_path: Path) -> None:
    table, other = made(tmp_path), memwal.open(tmp_path / "t")
    table.upsert(rows(*((key, "first", 0) for key in range(8))))
    other.upsert(rows((3, "other", 0)))
    with pytest.raises(Fenced):
        table.upsert(rows((3, "again", 0)))
    assert content(table)[3] == "other"
    table.upsert(rows((3, "again", 0)))
    assert content(other) == dict.fromkeys(range(8), "first") | {3: "again"}


def test_after_another_spec_came_a_call_fails_and_the_next_one_goes_by_it(tmp_path: Path) -> None:
    table, other = made(tmp_path), memwal.open(tmp_path / "t")
    buckets = table.region_values(pa.Table.from_pylist(rows(*((key, "", 0) for key in range(40))), schema=SCHEMA))["b"]
    first = [key for key, bucket in enumerate(buckets.to_pylist()) if bucket == 0]
    table.upsert(rows(*((key, "old", 0) for key in first)))
    other.add_spec(memwal.bucket("c", ["id"], 2), drain=True)
    everything = rows(*((key, "new", 0) for key in range(40) if key not in first))
    with pytest.raises(memwal.MemwalError):
        table.upsert(everything)
    table.upsert(everything)
    assert content(other) == {key: "old" if key in first else "new" for key in range(40)}


def test_a_failure_says_how_many_other_regions_have_their_rows(tmp_path: Path) -> None:
    table, other = made(tmp_path), memwal.open(tmp_path / "t")
    everything = rows(*((key, "first", 0) for key in range(40)))
    table.upsert(everything)
    other.upsert(rows((39, "other", 0)))
    with pytest.raises(Fenced) as caught:
        table.upsert(everything[:39] + rows((39, "again", 0)))
    before = [key for key, text in content(table).items() if key == 39]
    assert before == [39]
    assert caught.value.__notes__ == ["regions that have their rows: 3; writing these again does no harm"]


@pytest.mark.clause("AMB-148")
def test_late_rows_of_any_region_are_left_out_and_the_order_may_change_between_calls(tmp_path: Path) -> None:
    with made(tmp_path) as table:
        table.upsert(rows(*((key, "ten", 10) for key in range(20))), sequence_by="seq")
        done = table.upsert(rows(*((key, "five", 5) for key in range(10)), (30, "new", 1)), sequence_by="seq")
        assert (done.rows, done.late) == (1, 10)
        with pytest.raises(LateRow):
            table.upsert(rows((1, "five", 5)), sequence_by="seq", late_rows="fail")
        assert table.delete([{"id": 2, "seq": 3}, {"id": 3, "seq": 30}], sequence_by="seq").late == 1
        assert table.upsert(rows((4, "last", 0))).rows == 1
    expected = dict.fromkeys(range(20), "ten") | {30: "new", 4: "last"}
    del expected[3]
    assert content(table) == expected


def test_a_table_without_a_spec_has_one_region_for_all_rows(tmp_path: Path) -> None:
    with memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"]) as table:
        table.upsert(rows((1, "a", 0)))
        table.upsert(rows((2, "b", 0)))
        table.upsert([])
    assert (content(table), len(table.regions())) == ({1: "a", 2: "b"}, 1)


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 9), st.text("ab", max_size=2)), max_size=6)),
        max_size=3,
    )
)
def test_any_upserts_deletes_and_drains_read_as_their_fold(calls: list[tuple[bool, list[tuple[int, str]]]]) -> None:
    table = memwal.create("t", SCHEMA, primary_key=["id"], revision="R", spec=BUCKETS, store=MemoryStore())
    expected: dict[int, str | None] = {}
    for number, (deletes, cells) in enumerate(calls):
        if deletes:
            table.delete(pa.table({"id": pa.array([key for key, _ in cells], pa.int64())}))
            expected = {key: text for key, text in expected.items() if key not in dict(cells)}
        else:
            table.upsert(pa.Table.from_pylist(rows(*((key, text, 0) for key, text in cells)), schema=SCHEMA))
            expected |= dict(cells)
        if number == 1:
            table.drain()
        assert content(table) == expected


def test_a_table_is_made_of_a_pylance_dataset_and_enabled_and_opened_by_one(tmp_path: Path) -> None:
    given = lance.write_dataset(pa.table({"id": [1, 2], "text": ["a", "b"]}), str(tmp_path / "given"))
    copy = memwal.create(tmp_path / "copy", given, primary_key="id")
    assert content(copy) == {1: "a", 2: "b"}
    with pytest.raises(InvalidArgument, match="primary_key"):
        memwal.enable(given)
    with memwal.enable(given, primary_key="id") as table:
        table.upsert([{"id": 2, "text": "c"}])
        table.drain()
    opened = memwal.open(given)
    assert (opened.primary_key, content(opened)) == (("id",), {1: "a", 2: "c"})
    native = opened.to_lance()
    assert native.version == opened.version
    assert native.to_table().sort_by("id").to_pydict() == {"id": [1, 2], "text": ["a", "c"]}
    with pytest.raises(InvalidArgument, match="dataset"):
        memwal.open(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="in memory"):
        memwal.create("t", SCHEMA, primary_key="id", store=MemoryStore()).to_lance()


def test_another_key_than_the_declared_one_is_refused(tmp_path: Path) -> None:
    made(tmp_path)
    given = memwal.base_table(tmp_path / "t").scan()
    lance.write_dataset(given, str(tmp_path / "u"))
    with pytest.raises(InvalidArgument, match=r"declares the primary key \['id'\], not \['text'\]"):
        memwal.enable(tmp_path / "u", primary_key="text")


def test_the_package_tells_its_names_and_its_version() -> None:
    assert {"create", "open", "Table", "bucket", "__version__"} <= set(dir(memwal))
    assert memwal.__version__.count(".") >= 1
