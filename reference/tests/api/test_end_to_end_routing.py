"""Which region a row goes to and which regions a query reads, as users see it: specs, region values, plans, results."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import memwal
import mmh3
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument


def key(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def table_of(place: Path, schema: pa.Schema, *requests: Any, keys: list[str]) -> memwal.Table:
    return memwal.create(place, schema, primary_key=keys, spec=memwal.region_spec(requests))


def of_integers(place: Path, request: Any, kind: pa.DataType, *numbers: int) -> list[Any]:
    """The region values of keys of one integer type."""
    table = table_of(place, pa.schema([key("id", kind)]), request, keys=["id"])
    return table.region_values(pa.table({"id": pa.array(numbers, kind)})).column(0).to_pylist()


@pytest.mark.clause("REGION-026", "REGION-027", "REGION-028", "REGION-029", "REGION-030", "REGION-033", "REGION-034")
def test_each_transform_gives_the_part_of_the_value_that_it_is_named_after(tmp_path: Path) -> None:
    schema = pa.schema([key("at", pa.timestamp("us")), key("name", pa.string()), key("n", pa.int16())])
    table = table_of(
        tmp_path / "t",
        schema,
        *(make(make.__name__, "at") for make in (memwal.year, memwal.month, memwal.day, memwal.hour)),
        memwal.identity("same", "n"),
        memwal.truncate("left", "name", 2),
        memwal.truncate("tens", "n", 10),
        keys=schema.names,
    )
    moments = [datetime(2024, 2, 29, 23, 59), datetime(1969, 12, 31, 1)]
    found = table.region_values(pa.table([moments, ["héllo", "x"], pa.array([19, -15], pa.int16())], schema=schema))
    assert found.column("year").to_pylist() == [2024, 1969]
    assert found.column("month").to_pylist() == [2, 12]
    assert found.column("day").to_pylist() == [29, 31]
    assert found.column("hour").to_pylist() == [23, 1]
    assert {found.schema.field(part).type for part in ("year", "month", "day", "hour")} == {pa.int32()}
    assert (found.column("same").to_pylist(), found.schema.field("same").type) == ([19, -15], pa.int16())
    assert (found.column("left").to_pylist(), found.schema.field("left").type) == (["hé", "x"], pa.string())
    assert (found.column("tens").to_pylist(), found.schema.field("tens").type) == ([10, -10], pa.int16())


@pytest.mark.clause(
    "REGION-025", "REGION-031", "REGION-032", "REGION-035", "REGION-036", "REGION-037", "REGION-038", "REGION-023"
)
def test_buckets_are_absolute_murmur3_hashes_modulo_their_number_and_null_has_its_own(tmp_path: Path) -> None:
    schema = pa.schema([key("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    table = table_of(
        tmp_path / "t",
        schema,
        memwal.bucket("whole", "id", 2**31 - 1),
        memwal.bucket("ten", "id", 10),
        memwal.bucket("text", "a", 1000, immutable=True),
        memwal.bucket("both", ["a", "b"], 1000, immutable=True),
        keys=["id"],
    )
    ids, a, b = [34, 2841062569], ["iceberg", None], [None, None]  # the hash of the second id is -2^31
    found = table.region_values(pa.table([ids, a, pa.array(b, pa.string())], schema=schema))
    assert found.column("whole").to_pylist() == [2017239379, 1]  # the first is published by Iceberg
    assert found.column("ten").to_pylist() == [9, 8]
    assert found.column("text").to_pylist() == [89, None]  # 1210000089, published, too
    assert found.column("both").to_pylist() == [89, None]
    assert {field.type for field in found.schema} == {pa.int32()}
    found = table.region_values(pa.table([[1, 2], ["x", None], ["y", "y"]], schema=schema))
    chained = abs(mmh3.hash(b"y", mmh3.hash(b"x") & 0xFFFFFFFF)) % 1000
    assert found.column("both").to_pylist() == [chained, abs(mmh3.hash(b"y")) % 1000]
    same = memwal.expression("same", "abs(murmur3(col0) % 10)", "id")
    other = table_of(tmp_path / "u", schema, same, memwal.bucket("ten", "id", 10), keys=["id"])
    found = other.region_values(pa.table([list(range(50)), [None] * 50, [None] * 50], schema=schema))
    assert found.column("same").to_pylist() == found.column("ten").to_pylist()
    assert all(0 <= number < 10 for number in found.column("ten").to_pylist())


@pytest.mark.clause("REGION-018", "REGION-023", "REGION-024", "REGION-039")
def test_an_expression_is_datafusions_over_its_columns_in_their_order_and_of_its_result_type(tmp_path: Path) -> None:
    schema = pa.schema([key("a", pa.int64()), key("b", pa.int64()), ("n", pa.int64())])
    table = table_of(
        tmp_path / "t",
        schema,
        memwal.expression("order", "col0 * 10 + col1", ["b", "a"]),
        memwal.expression("sign", "col0 % 10", "a"),
        memwal.expression("null", "col0 % 10", "n", immutable=True),
        memwal.expression("text", "cast(col0 as varchar)", "a", "string"),
        keys=["a", "b"],
    )
    rows = pa.table([[-15, 3], [7, 8], [None, 12]], schema=schema)
    found = table.region_values(rows)
    assert found.column("order").to_pylist() == [55, 83]
    assert found.column("sign").to_pylist() == [-5, 3]
    assert found.column("null").to_pylist() == [None, 2]
    assert (found.schema.field("text").type, found.column("text").to_pylist()) == (pa.string(), ["-15", "3"])
    with table.writer(values={"order": 55, "sign": -5, "null": None, "text": "-15"}) as writer:
        writer.put(rows.slice(0, 1))
    assert table.scan().num_rows == 1
    with pytest.raises(InvalidArgument, match="yields int64 and declares") as caught:
        table_of(tmp_path / "u", schema, memwal.expression("f", "col0 % 10", "a", "int32"), keys=["a", "b"])
    assert (caught.value.clause, (tmp_path / "u").exists()) == ("REGION-024", False)


@pytest.mark.clause("REGION-022", "REGION-039")
def test_a_source_column_that_was_dropped_counts_as_null(tmp_path: Path) -> None:
    schema = pa.schema([key("id", pa.int64()), ("g", pa.string())])
    other = memwal.expression("given", "coalesce(col0, 'Not Known')", "g", immutable=True)
    table = table_of(tmp_path / "t", schema, memwal.identity("g", "g", immutable=True), other, keys=["id"])
    assert table.region_values(pa.table([[1], ["x"]], schema=schema)).to_pylist() == [{"g": "x", "given": "x"}]
    memwal.base_table(tmp_path / "t").drop_columns(["g"])
    found = memwal.open(tmp_path / "t").region_values(pa.table({"id": [1]}))
    assert found.to_pylist() == [{"g": None, "given": "Not Known"}]


@pytest.mark.clause("REGION-019", "REGION-020", "REGION-021")
def test_an_expression_that_is_not_a_function_of_the_value_alone_is_refused_and_no_table_is_made(
    tmp_path: Path,
) -> None:
    def clause(text: str, kind: pa.DataType) -> str | None:
        with pytest.raises(InvalidArgument) as caught:
            of_integers(tmp_path / "no", memwal.expression("f", text, "id"), kind)
        assert not (tmp_path / "no").exists()
        return caught.value.clause

    assert clause("col0 + random()", pa.int64()) == "REGION-019"
    assert clause("10 % col0", pa.int64()) == "REGION-019"  # no value for 0
    assert clause("date_part('year', now())", pa.int64()) == "REGION-020"
    assert clause("-col0", pa.int8()) == "REGION-021"  # -(-128) is not an int8
    for name, request in {
        "bucket": memwal.bucket("f", "id", 97),
        "truncate": memwal.truncate("f", "id", 7),
        "expression": memwal.expression("f", "murmur3(col0) % 1000", "id"),
    }.items():
        wide = of_integers(tmp_path / name, request, pa.int64(), 0, 5, 123, 5)
        assert of_integers(tmp_path / f"{name}8", request, pa.int8(), 0, 5, 123, 5) == wide
        assert wide[1] == wide[3]


# Pruning ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def users(tmp_path: Path) -> memwal.Table:
    """Ten regions by bucket of the user, with a row of a user in those of buckets 6, 8 and 9."""
    vectors = pa.list_(pa.float32(), 2)
    schema = pa.schema([key("user_id", pa.int64()), ("e", vectors)])
    table = table_of(tmp_path / "t", schema, memwal.bucket("bucket", "user_id", 10), keys=["user_id"])
    table.register_regions([{"bucket": number} for number in range(10)])
    for user in (34, 123, 2841062569):
        rows = pa.table([[user], pa.array([[1.0, float(user % 7)]], vectors)], schema=schema)
        with table.writer(values={"bucket": bucket(user)}, background=False) as writer:
            writer.put(rows)
            writer.flush()
    return table


def bucket(user: int) -> int:
    return abs(mmh3.hash(user.to_bytes(8, "little"))) % 10


def read(table: memwal.Table, **query: Any) -> set[int]:
    """Buckets of the regions that a plan reads."""
    names = {each.region_id[:8]: int(str(each.values["bucket"])) for each in table.regions()}
    return {names[found] for found in re.findall(r"region ([0-9a-f]{8})\[", table.explain(**query))}


@pytest.mark.clause("PLAN-005", "PLAN-006", "PLAN-008", "PLAN-009")
def test_a_filter_on_the_spec_column_leaves_the_other_regions_out_of_scans_and_searches(users: memwal.Table) -> None:
    assert [bucket(user) for user in (34, 123, 2841062569)] == [9, bucket(123), 8]
    all_ = {9, bucket(123), 8}
    assert len(all_) == 3
    assert read(users) == all_
    assert read(users, filter="user_id = 123") == {bucket(123)}
    assert read(users, filter="user_id IN (123, 34)") == {bucket(123), 9}
    assert read(users, filter="user_id = 123 AND user_id = 34") == set()
    assert read(users, filter="user_id > 122") == all_
    assert read(users, filter="user_id = 123 OR e IS NULL") == all_
    assert read(users, vector=[1.0, 0.0], column="e", filter="user_id = 34") == {9}
    assert users.scan(["user_id"], "user_id = 123").to_pylist() == [{"user_id": 123}]
    found = users.search([1.0, 0.0], "e", filter="user_id IN (34, 123)", columns=["user_id"])
    assert sorted(found.column("user_id").to_pylist()) == [34, 123]
