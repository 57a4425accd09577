"""Region transforms, expressions, specs, and pruning by region values."""

from __future__ import annotations

import builtins
import itertools
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.codec.index_details import RegionField, RegionSpec
from memwal.errors import InvalidArgument
from memwal.ids import FieldId, SpecId
from memwal.index import result_types, transforms
from memwal.revisions import A, B, R, Revision

ONE = SpecId(1)


def spec_of(request: transforms.SpecRequest, schema: pa.Schema, revision: Revision = B) -> RegionSpec:
    return transforms.resolve(request, ONE, schema, ids_of(schema), revision)


def ids_of(schema: pa.Schema) -> dict[str, FieldId]:
    return {name: FieldId(i) for i, name in enumerate(schema.names)}


def names_of(schema: pa.Schema) -> dict[FieldId, str]:
    return {FieldId(i): name for i, name in enumerate(schema.names)}


def values(request: transforms.SpecRequest, rows: pa.Table, revision: Revision = B) -> list[Any]:
    """Values of the first region field."""
    spec = spec_of(request, rows.schema, revision)
    found = transforms.evaluate(spec, rows, names_of(rows.schema), revision=revision)
    return list(found.column(0).to_pylist())


def one(column: pa.Array) -> pa.Table:
    return pa.table({"k": column})


def sql(expression: str, column: pa.Array) -> list[Any]:
    """An independent evaluation by DataFusion."""
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    frame = context.from_arrow(pa.table({"col0": column}))
    result = frame.select(frame.parse_sql_expr(expression).alias("v")).to_arrow_table()
    return list(result.column(0).to_pylist())


def field(**changes: Any) -> RegionField:
    base = RegionField(field_id="f", source_ids=(FieldId(0),), transform="identity", result_type="int64")
    return replace(base, **changes)


def spec(*fields: RegionField) -> RegionSpec:
    return RegionSpec(spec_id=ONE, fields=fields)


KEY = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("ts", pa.timestamp("us"))])


def check(
    checked: RegionSpec, revision: Revision = B, schema: pa.Schema = KEY, key: tuple[str, ...] | None = None
) -> None:
    transforms.check_spec(checked, schema, names_of(schema), schema.names if key is None else key, revision)


# --- transforms ------------------------------------------------------------------------------------------------------


@pytest.mark.clause("REGION-026")
@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, -5], pa.int16()),
        pa.array(["x", None, "", "X y"]),
        pa.array(["x", None, "X"], pa.large_string()),
        pa.array([b"\x00", None], pa.binary()),
        pa.array([True, None]),
        pa.array([date(2024, 1, 1), None]),
        pa.array([5, None], pa.timestamp("ns", "Asia/Tokyo")),
        pa.array([Decimal("1.20"), None], pa.decimal128(9, 2)),
    ],
    ids=lambda c: str(c.type),
)
def test_identity_gives_the_value_in_its_own_type(column: pa.Array) -> None:
    made = spec_of(transforms.identity("f", "k"), one(column).schema)
    found = transforms.evaluate(made, one(column), {FieldId(0): "k"}, revision=B)
    assert found.column("f").combine_chunks() == column
    assert found.schema.field("f").type == column.type


MOMENTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1),
    datetime(2023, 5, 1),
    datetime(2024, 2, 29, 23, 59, 59),
    datetime(2024, 3, 1, 0, 30),
    datetime(1899, 12, 31, 12),
    None,
]


@pytest.mark.clause("REGION-027", "REGION-028", "REGION-029", "REGION-030", "REGION-039", "AMB-63")
@pytest.mark.parametrize("part", ["year", "month", "day", "hour"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo", "America/New_York", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_date_parts_are_those_of_datafusion_in_the_zone_of_the_column(part: str, zone: str | None, unit: str) -> None:
    column = pa.array(MOMENTS, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False).cast(pa.int64())
    column = column.cast(pa.timestamp(unit, zone))
    request = getattr(transforms, part)("f", "k")
    assert values(request, one(column)) == sql(f"date_part('{part}', col0)", column)


def test_date_parts_of_known_moments() -> None:
    tokyo = one(pa.array([datetime(2023, 12, 31, 20, tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo")))
    assert values(transforms.year("f", "k"), tokyo) == [2024]
    assert values(transforms.hour("f", "k"), tokyo) == [5]
    dates = one(pa.array([date(2024, 2, 29), None]))
    assert values(transforms.month("f", "k"), dates) == [2, None]
    assert values(transforms.day("f", "k"), dates) == [29, None]
    assert values(transforms.hour("f", "k"), dates) == [0, None]


@pytest.mark.clause("REGION-031", "REGION-032", "AMB-59")
def test_buckets_are_absolute_hashes_modulo_their_number() -> None:
    rows = pa.table({"id": pa.array([123, None, 7], pa.int32()), "name": ["x", "y", None]})
    single = mmh3.hash((123).to_bytes(8, "little"))
    seven = mmh3.hash((7).to_bytes(8, "little"))
    assert values(transforms.bucket("f", "id", 10), rows) == [abs(single) % 10, None, abs(seven) % 10]
    both = abs(mmh3.hash(b"x", single & 0xFFFFFFFF)) % 16
    found = values(transforms.bucket("f", ["id", "name"], 16), rows)
    assert found[:2] == [both, abs(mmh3.hash(b"y")) % 16]


@pytest.mark.clause("REGION-033", "AMB-62")
@given(st.lists(st.text(max_size=6) | st.none(), max_size=8), st.integers(1, 7))
@settings(max_examples=25)
def test_truncated_text_is_its_first_code_points(texts: list[str | None], width: int) -> None:
    column = pa.array(texts, pa.string())
    found = values(transforms.truncate("f", "k", width), one(column))
    assert found == [None if t is None else t[:width] for t in texts]
    assert found == sql(f"left(col0, {width})", column)


@pytest.mark.clause("REGION-034", "AMB-62")
@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()], ids=str)
@given(st.data())
@settings(max_examples=20)
def test_a_truncated_number_is_the_number_without_its_sql_remainder(kind: pa.DataType, data: st.DataObject) -> None:
    low, high = (0, 2**kind.bit_width - 1)
    if pa.types.is_signed_integer(kind):
        low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    numbers = data.draw(st.lists(st.integers(low, high) | st.none(), max_size=8))
    width = data.draw(st.integers(1, 1000))
    expected = [None if n is None else n - abs(n) % width * (1 if n >= 0 else -1) for n in numbers]
    assert values(transforms.truncate("f", "k", width), one(pa.array(numbers, kind))) == expected


def test_truncation_goes_toward_zero_and_has_the_source_type() -> None:
    rows = one(pa.array([-15, -5, 5, 19, None, -128], pa.int8()))
    made = spec_of(transforms.truncate("f", "k", 10), rows.schema)
    assert made.fields[0].result_type == "int8"
    found = transforms.evaluate(made, rows, {FieldId(0): "k"}, revision=B).column("f")
    assert (found.type, found.to_pylist()) == (pa.int8(), [-10, 0, 0, 10, None, -120])
    assert values(transforms.truncate("f", "k", 128), rows)[-1] == -128
    huge = one(pa.array([2**64 - 1, 2**63], pa.uint64()))
    assert values(transforms.truncate("f", "k", 1000), huge) == [18446744073709551000, 9223372036854775000]


@pytest.mark.clause("REGION-025", "REGION-034", "AMB-62")
def test_a_truncated_decimal_is_what_its_documented_expression_says() -> None:
    amounts = [Decimal("10.65"), Decimal("-110.65"), Decimal("0.49"), None]
    rows = one(pa.array(amounts, pa.decimal128(9, 2)))
    expected = [Decimal("10.00"), Decimal("-110.00"), Decimal("0.00"), None]
    assert values(transforms.truncate("f", "k", 10), rows) == expected
    assert result_of("col0 - (col0 % 10)", rows.column("k").combine_chunks()) == expected


@pytest.mark.clause("REGION-021", "AMB-59")
@pytest.mark.parametrize(
    "request_",
    [
        transforms.identity("f", "k"),
        transforms.bucket("f", "k", 97),
        transforms.bucket("f", ["k", "k"], 97),
        transforms.truncate("f", "k", 7),
        transforms.expression("f", "col0 % 10", "k"),
        transforms.expression("f", "murmur3(col0) % 1000", "k"),
    ],
    ids=lambda r: f"{r.fields[0].transform or r.fields[0].expression}",
)
def test_equal_integers_have_one_region_value_in_every_width(request_: transforms.SpecRequest) -> None:
    kinds = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    found = [values(request_, one(pa.array([0, 5, 123], kind))) for kind in kinds]
    assert all(other == found[0] for other in found)


@pytest.mark.clause("REGION-025")
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=10), st.integers(1, 100))
@settings(max_examples=25)
def test_transforms_called_monotone_never_fall_while_the_source_rises(numbers: list[int], width: int) -> None:
    ordered = sorted(numbers)
    columns = {
        "identity": (pa.array(ordered), transforms.identity("f", "k")),
        "truncate": (pa.array(ordered), transforms.truncate("f", "k", width)),
        "year": (pa.array(ordered, pa.timestamp("s")), transforms.year("f", "k")),
    }
    assert set(columns) == {t.name for t in transforms.TRANSFORMS.values() if t.monotone} - {"unsharded"}
    for column, request in columns.values():
        found = values(request, one(column))
        assert found == sorted(found)


@pytest.mark.clause("REGION-022", "REGION-023", "AMB-57")
@pytest.mark.parametrize(
    ("made", "revision", "expected"),
    [
        (field(), B, None),
        (field(transform="year", result_type="int32"), B, None),
        (field(transform="hour", result_type="int32"), B, None),
        (field(transform="truncate", result_type="string", parameters=(("width", "2"),)), B, None),
        (field(transform="bucket", result_type="int32", parameters=(("num_buckets", "8"),)), B, None),
        (field(transform="multi_bucket", result_type="int32", parameters=(("num_buckets", "8"),)), B, None),
        (field(transform="bucket", result_type="int32", parameters=(("num_buckets", "8"),)), R, 0),
        (field(transform=None, expression="col0 % 10"), B, None),
        (field(transform=None, expression="coalesce(col0, 7)"), B, 7),
        (field(transform=None, expression="date_part('year', col0)", result_type="int32"), B, None),
        (field(transform=None, expression="left(col0, 2)", result_type="string"), B, None),
        (field(transform=None, expression="murmur3(col0)", result_type="int32"), B, None),
    ],
    ids=lambda x: getattr(x, "transform", None) or getattr(x, "expression", None) or str(x)[:6],
)
def test_a_source_that_the_schema_no_longer_has_is_null(made: RegionField, revision: Revision, expected: Any) -> None:
    rows = pa.table({"other": [1, 2]})
    found = transforms.evaluate(spec(made), rows, {FieldId(9): "other"}, revision=revision)
    assert found.column("f").to_pylist() == [expected, expected]
    assert found.schema.field("f").type == result_types.parse(made.result_type)


def test_rows_that_lack_a_column_of_the_schema_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="REGION-014"):
        transforms.evaluate(spec(field()), pa.table({"name": ["x"]}), {FieldId(0): "id"}, revision=B)


@pytest.mark.clause("REGION-010")
def test_each_region_field_is_a_column_named_by_its_id_in_the_order_of_the_spec() -> None:
    rows = pa.table({"id": [1, 2], "name": ["ab", "cd"]})
    request = transforms.region_spec([transforms.truncate("n", "name", 1), transforms.identity("i", "id")])
    made = spec_of(request, rows.schema)
    for batch in (rows, rows.to_batches()[0]):
        found = transforms.evaluate(made, batch, names_of(rows.schema), revision=A)
        assert list(found.to_pydict().items()) == [("n", ["a", "c"]), ("i", [1, 2])]


@pytest.mark.clause("REGION-024")
def test_a_value_that_the_result_type_cannot_hold_is_refused() -> None:
    made = spec(field(transform=None, expression="col0 * 1000", result_type="int8"))
    with pytest.raises(InvalidArgument, match="REGION-024"):
        transforms.evaluate(made, pa.table({"id": [5]}), {FieldId(0): "id"}, revision=B)


def test_rows_are_not_routed_with_a_hash_profile_that_is_not_known() -> None:
    made = spec(field(transform="bucket", result_type="int32", parameters=(("hash", "spark"), ("num_buckets", "8"))))
    with pytest.raises(InvalidArgument, match="AMB-59"):
        transforms.evaluate(made, pa.table({"id": [5]}), {FieldId(0): "id"}, revision=B)


# --- expressions -----------------------------------------------------------------------------------------------------


def result_of(text: str, *columns: pa.Array) -> list[Any]:
    names = [f"c{i}" for i in range(len(columns))]
    return values(transforms.expression("f", text, names), pa.table(dict(zip(names, columns, strict=True))))


@pytest.mark.clause("REGION-018")
def test_the_ith_source_is_col_i() -> None:
    a, b = pa.array([10, 20]), pa.array([1, 2])
    assert result_of("col1", a, b) == [1, 2]
    assert result_of("COL0 - Col1 * 2", a, b) == [8, 16]


@pytest.mark.clause("REGION-039", "AMB-62", "AMB-65")
@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("col0 % 10", pa.array([-15, 5, None]), [-5, 5, None]),
        ("cast(col0 - (col0 % 10) as int)", pa.array([-15, 19]), [-10, 10]),
        ("abs(col0) % 4", pa.array([-7, 6]), [3, 2]),
        ("left(col0, 2)", pa.array(["héllo", None]), ["hé", None]),
        ("coalesce(col0, 'it''s (none)')", pa.array([None, "x"]), ["it's (none)", "x"]),
        ("COALESCE(Col0, 'Not Known')", pa.array([None, "x"]), ["Not Known", "x"]),
        ("date_part('week', col0)", pa.array([date(2021, 1, 1)]), [53]),
        ("cast(col0 as varchar)", pa.array([5]), ["5"]),
        ("col0 + -1", pa.array([5]), [4]),
    ],
)
def test_expressions_mean_what_datafusion_computes(text: str, column: pa.Array, expected: list[Any]) -> None:
    assert result_of(text, column) == expected


@pytest.mark.clause("REGION-025", "REGION-031", "REGION-032", "REGION-034")
def test_transforms_equal_their_documented_expressions() -> None:
    ids, names = pa.array([1, -7, 123, None]), pa.array(["x", None, "yy", None])
    rows = pa.table({"id": ids, "name": names})
    assert values(transforms.bucket("f", "id", 10), rows) == result_of("abs(murmur3(col0)) % 10", ids)
    expected = result_of("abs(murmur3_multi(col0, col1)) % 10", ids, names)
    assert values(transforms.bucket("f", ["id", "name"], 10), rows) == expected
    assert values(transforms.truncate("f", "id", 10), rows) == result_of("col0 - (col0 % 10)", ids)
    assert values(transforms.truncate("f", "name", 1), rows) == result_of("left(col0, 1)", names)


def test_hash_functions_take_any_type_and_expression() -> None:
    ids, names = pa.array([1, None], pa.int16()), pa.array(["x", "yy"])
    hashed = [mmh3.hash((2).to_bytes(8, "little")), None]
    assert result_of("murmur3(col0 + 1)", ids) == hashed
    assert result_of("murmur3(murmur3(left(col0, 1)))", names)[0] == mmh3.hash(
        mmh3.hash(b"x").to_bytes(8, "little", signed=True)
    )
    chained = mmh3.hash(b"s", mmh3.hash(b"x") & 0xFFFFFFFF)
    assert result_of("murmur3_multi(col0, 's', col1)", names, pa.nulls(2, pa.int8()))[0] == chained
    assert result_of("murmur3('x')", ids) == [mmh3.hash(b"x")] * 2


def test_an_expression_keeps_the_order_of_many_rows() -> None:
    chunks = pa.chunked_array([np.arange(start, start + 9_000) for start in range(0, 90_000, 9_000)])
    assert values(transforms.expression("f", "col0 + 1", "k"), pa.table({"k": chunks})) == list(range(1, 90_001))


@pytest.mark.clause("REGION-019", "REGION-020", "AMB-65")
@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("random()", "REGION-019"),
        ("col0 + UUID()", "REGION-019"),
        ("now()", "REGION-020"),
        ("current_date", "REGION-020"),
        ("date_part('year', Current_Timestamp)", "REGION-020"),
        ("(select 1)", "AMB-65"),
        ("col0 / 2", "AMB-65"),
        ("sqrt(col0)", "AMB-65"),
        ('"now"', "AMB-65"),
        ("@@version", "AMB-65"),
        ("col0 -- + 1", "AMB-65"),
        ("col0; 1", "AMB-65"),
        ("1e5", "AMB-65"),
        ("col0 'open", "AMB-65"),
        ("col1", "REGION-018"),
        ("", "REGION-015"),
        ("murmur3(col0, col0)", "REGION-035"),
        ("murmur3", "AMB-65"),
        ("murmur3(col0", "AMB-65"),
        ("col0 % 0", "REGION-039"),
        ("left(col0)", "REGION-039"),
        ("abs(cast('-9223372036854775808' as bigint))", "REGION-039"),
    ],
)
def test_an_expression_outside_of_the_grammar_is_refused(text: str, clause: str) -> None:
    with pytest.raises(InvalidArgument, match=clause):
        result_of(text, pa.array([1]))


@given(st.text(alphabet="col01 abs()+-*%'\",;/leftnow\n", max_size=20))
@settings(max_examples=60)
def test_any_text_is_computed_or_refused(text: str) -> None:
    try:
        found = result_of(text, pa.array([1, 2]))
    except InvalidArgument as error:
        found = [error.clause, "refused"]
    assert len(found) == 2
    assert found[0] != ""


def test_without_datafusion_an_expression_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "datafusion":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidArgument, match="package datafusion"):
        result_of("col0", pa.array([1]))


# --- specs -----------------------------------------------------------------------------------------------------------


@pytest.mark.clause("REGION-014", "REGION-016")
def test_a_request_resolves_to_field_ids_result_types_and_the_hash_profile() -> None:
    request = transforms.region_spec([transforms.bucket("b", ["name", "id"], 8), transforms.truncate("t", "name", 3)])
    made = transforms.resolve(request, ONE, KEY, {"id": FieldId(4), "name": FieldId(7)}, B)
    assert made == spec(
        RegionField(
            field_id="b",
            source_ids=(FieldId(7), FieldId(4)),
            transform="multi_bucket",
            result_type="int32",
            parameters=(("hash", "textbook"), ("num_buckets", "8")),
        ),
        RegionField(
            field_id="t",
            source_ids=(FieldId(7),),
            transform="truncate",
            result_type="string",
            parameters=(("width", "3"),),
        ),
    )
    check(spec_of(request, KEY))


def test_an_expression_records_the_hash_profile_only_if_it_hashes() -> None:
    assert spec_of(transforms.expression("f", "col0 % 2", "id"), KEY).fields[0].parameters == ()
    hashed = spec_of(transforms.expression("f", "murmur3(col0)", "id"), KEY).fields[0]
    assert (hashed.parameters, hashed.result_type) == ((("hash", "textbook"),), "int32")


def test_every_constructor_gives_a_spec_that_may_be_created() -> None:
    requests = [
        transforms.identity("a", "name"),
        transforms.bucket("b", ["id"], 2**31 - 1),
        transforms.bucket("c", ["id", "name", "ts"], 1),
        *(make(f"d{i}", "ts") for i, make in enumerate((transforms.year, transforms.month, transforms.day))),
        transforms.hour("h", "ts"),
        transforms.truncate("t", "id", 100),
        transforms.expression("e", "coalesce(col1, 0) + murmur3(col0)", ["name", "id"], pa.int64()),
    ]
    check(spec_of(transforms.region_spec(requests), KEY))


@pytest.mark.clause(
    "REGION-008", "REGION-010", "REGION-013", "REGION-014", "REGION-015", "REGION-016", "REGION-024", "AMB-55",
    "AMB-61", "AMB-62", "AMB-63", "AMB-64", "AMB-67", "AMB-68",
)  # fmt: skip
@pytest.mark.parametrize(
    ("made", "clause"),
    [
        (spec(), "REGION-010"),
        (replace(spec(field()), spec_id=SpecId(0)), "REGION-008"),
        (spec(field(), field()), "REGION-013"),
        (spec(field(field_id="a.b")), "AMB-67"),
        (spec(field(field_id="")), "AMB-67"),
        (spec(field(expression="col0")), "REGION-015"),
        (spec(field(transform=None)), "REGION-015"),
        (spec(field(transform="week")), "REGION-025"),
        (spec(field(transform="unsharded", source_ids=(), result_type="int32")), "REGION-025"),
        (spec(field(source_ids=(FieldId(8),))), "REGION-014"),
        (spec(field(source_ids=(FieldId(0), FieldId(1)))), "REGION-014"),
        (spec(field(source_ids=())), "REGION-014"),
        (spec(field(result_type="int32")), "REGION-016"),
        (spec(field(result_type="integer number")), "AMB-68"),
        (spec(field(transform="year", result_type="int32")), "AMB-63"),
        (spec(field(transform="truncate", source_ids=(FieldId(2),), result_type="timestamp:us:-",
                    parameters=(("width", "1"),))), "AMB-62"),
        (spec(field(transform="truncate", parameters=(("width", "0"),))), "AMB-62"),
        (spec(field(transform="truncate")), "AMB-62"),
        (spec(field(transform="bucket", result_type="int32")), "AMB-61"),
        (spec(field(transform="bucket", result_type="int32", parameters=(("num_buckets", "0"),))), "AMB-61"),
        (spec(field(transform="bucket", result_type="int32", parameters=(("num_buckets", "-3"),))), "AMB-61"),
        (spec(field(transform="bucket", result_type="int32", parameters=(("num_buckets", "2147483648"),))), "AMB-61"),
        (spec(field(transform="bucket", result_type="int32", parameters=(("num_buckets", "0x8"),))), "AMB-61"),
        (spec(field(transform=None, expression="col0 % 10", result_type="int32")), "REGION-024"),
        (spec(field(transform=None, expression="now()")), "REGION-020"),
        (spec(field(transform=None, expression="col0 * 0.5", result_type="double")), "AMB-64"),
    ],
)  # fmt: skip
def test_an_unsound_spec_is_refused_with_its_clause(made: RegionSpec, clause: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check(made)
    assert refused.value.clause == clause


@pytest.mark.clause("AMB-64")
@pytest.mark.parametrize("make", [transforms.identity, lambda f, c: transforms.bucket(f, c, 8)])
def test_a_floating_source_is_refused(make: Any) -> None:
    schema = pa.schema([("x", pa.float64())])
    with pytest.raises(InvalidArgument, match="AMB-64"):
        check(spec_of(make("f", "x"), schema), schema=schema)


@pytest.mark.parametrize("request_", [transforms.identity("f", "x"), transforms.truncate("f", "x", 7)])
def test_a_decimal_of_a_negative_scale_is_refused_where_its_value_is_the_region_value(request_: Any) -> None:
    schema = pa.schema([("x", pa.decimal128(9, -2))])
    with pytest.raises(InvalidArgument, match="does not take columns of type decimal128"):
        check(spec_of(request_, schema), schema=schema)
    check(spec_of(transforms.bucket("f", "x", 8), schema), schema=schema)


@pytest.mark.clause("AMB-55")
def test_a_source_outside_of_the_key_needs_a_waiver() -> None:
    with pytest.raises(InvalidArgument, match="AMB-55"):
        check(spec_of(transforms.day("f", "ts"), KEY), key=("id",))
    check(spec_of(transforms.day("f", "ts", immutable=True), KEY), key=("id",))
    check(spec_of(transforms.bucket("f", "name", 4), KEY, R), R, key=())


def test_unknown_columns_and_transforms_are_refused_when_a_request_is_resolved() -> None:
    with pytest.raises(InvalidArgument, match="REGION-014"):
        spec_of(transforms.identity("f", "nope"), KEY)
    with pytest.raises(InvalidArgument, match="REGION-025"):
        spec_of(transforms.year("f", "ts"), KEY, R)


@pytest.mark.parametrize(
    ("request_", "clause"),
    [
        (transforms.bucket("f", ["id", "name"], 8), "REGION-025"),
        (transforms.truncate("f", "name", 2), "REGION-025"),
        (transforms.expression("f", "col0", "id"), "AMB-65"),
        (transforms.bucket("f", "id", 1025), "AMB-61"),
        (transforms.identity("f", "ts"), "REGION-026"),
    ],
    ids=lambda x: str(x)[:60],
)
def test_revision_r_refuses_what_the_native_implementation_does_not_have(
    request_: transforms.SpecRequest, clause: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check(spec_of(request_, KEY, R), R)
    assert refused.value.clause == clause


@pytest.mark.clause("AMB-68")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("int32", pa.int32()), ("Int32", pa.int32()), ("bool", pa.bool_()), ("Boolean", pa.bool_()),
        ("string", pa.string()), ("utf8", pa.string()), ("Utf8", pa.string()), ("LargeUtf8", pa.large_string()),
        ("large_utf8", pa.large_string()), ("date32:day", pa.date32()), ("Date32", pa.date32()),
        ("timestamp:us:-", pa.timestamp("us")), ("timestamp[us]", pa.timestamp("us")),
        ("timestamp:ns:Asia/Tokyo", pa.timestamp("ns", "Asia/Tokyo")),
        ("timestamp[ms, tz=America/New_York]", pa.timestamp("ms", "America/New_York")),
        ("time64[us]", pa.time64("us")), ("time32:s", pa.time32("s")),
        ("decimal:128:10:2", pa.decimal128(10, 2)), ("decimal128(10, 2)", pa.decimal128(10, 2)),
    ],
)  # fmt: skip
def test_result_types_are_read_in_lance_and_arrow_spelling(name: str, kind: pa.DataType) -> None:
    assert result_types.parse(name) == kind


@pytest.mark.parametrize("name", ["", "same as source", "i5", "u8", "timestamp[h]", "decimal:128:99:2", "struct"])
def test_a_result_type_that_names_no_type_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="AMB-68"):
        result_types.parse(name)


# --- the native implementation ---------------------------------------------------------------------------------------

NATIVE_TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.bool_(), pa.string(), pa.large_string()]


@pytest.mark.parametrize("kind", NATIVE_TYPES, ids=str)
@pytest.mark.parametrize("mode", ["bucket", "identity", "unsharded"])
def test_a_spec_of_revision_r_is_the_one_that_the_native_implementation_writes(
    mode: str, kind: pa.DataType, tmp_path: Path
) -> None:
    import lance
    from lance import mem_wal

    rows = one(pa.array([True, False] if kind == pa.bool_() else ["a", "é"] if "string" in str(kind) else [1, 2], kind))
    dataset = lance.write_dataset(rows, tmp_path / "t")
    options: dict[str, dict[str, Any]] = {
        "bucket": {"bucket_column": "k", "num_buckets": 8},
        "identity": {"identity_column": "k"},
        "unsharded": {"unsharded": True},
    }
    dataset.initialize_mem_wal(**options[mode])
    (native,) = dataset.mem_wal_index_details()["sharding_specs"]
    request = {
        "bucket": transforms.bucket("bucket", "k", 8),
        "identity": transforms.identity("bucket", "k"),
        "unsharded": transforms.unsharded(),
    }[mode]
    made = spec_of(request, rows.schema, R)
    transforms.check_spec(made, rows.schema, {FieldId(0): "k"}, (), R)
    (ours,) = made.fields
    assert {
        "field_id": ours.field_id,
        "source_ids": list(ours.source_ids),
        "transform": ours.transform,
        "expression": ours.expression,
        "result_type": ours.result_type,
        "parameters": dict(ours.parameters),
    } == native["fields"][0]
    batch = rows.to_batches()[0]
    expected = mem_wal.evaluate_sharding_spec(batch, native, dataset.lance_schema)
    found = transforms.evaluate(made, rows, {FieldId(0): "k"}, revision=R)
    assert found.to_pydict() == expected.to_pydict()
    assert found.schema.types == expected.schema.types


# --- region values and pruning ---------------------------------------------------------------------------------------


@pytest.mark.clause("AMB-57", "AMB-64")
def test_region_values_are_one_region_exactly_if_they_are_equal_with_null_nan_and_zeros() -> None:
    key = transforms.values_key
    assert key({"a": None}) == key({"a": None})
    assert key({"a": None}) != key({"a": 0})
    assert key({"a": float("nan")}) == key({"a": -float("nan")})
    assert str(key({"a": -0.0})) == str(key({"a": 0.0}))
    assert key({"a": 1, "b": "x"}) == key({"b": "x", "a": 1})
    assert len({key({"a": 1}), key({"a": 1}), key({"a": 2})}) == 2


@pytest.mark.parametrize(
    ("value", "kind", "data"),
    [
        (-2, pa.int32(), b"\xfe\xff\xff\xff"),
        (3, pa.uint8(), b"\x03"),
        (2**63, pa.uint64(), bytes(7) + b"\x80"),
        (True, pa.bool_(), b"\x01"),
        (False, pa.bool_(), b"\x00"),
        ("né", pa.string(), b"n\xc3\xa9"),
        ("", pa.large_string(), b""),
        (b"\x00\x01", pa.binary(), b"\x00\x01"),
        (date(1970, 1, 3), pa.date32(), b"\x02\x00\x00\x00"),
        (datetime(1970, 1, 1, 0, 0, 1), pa.timestamp("ms"), b"\xe8\x03" + bytes(6)),
        (time(0, 0, 2), pa.time32("s"), b"\x02\x00\x00\x00"),
        (Decimal("-0.02"), pa.decimal128(9, 2), b"\xfe" + b"\xff" * 15),
        (1.0, pa.float64(), bytes(6) + b"\xf0\x3f"),
    ],
)
def test_a_region_value_of_revision_r_is_little_endian(value: Any, kind: pa.DataType, data: bytes) -> None:
    scalar = pa.scalar(value, kind)
    assert transforms.encode_scalar_r(scalar) == data
    assert transforms.decode_scalar_r(data, kind) == scalar


def test_revision_r_has_no_bytes_for_a_nested_region_value() -> None:
    with pytest.raises(InvalidArgument, match=r"a region value of type struct<a: int64> has no bytes .*REGION-016"):
        transforms.encode_scalar_r(pa.scalar({"a": 1}))


def test_revision_r_has_no_bytes_for_a_null_region_value() -> None:
    with pytest.raises(InvalidArgument, match="AMB-57"):
        transforms.encode_scalar_r(pa.scalar(None, pa.int32()))
    with pytest.raises(ValueError, match="3 bytes"):
        transforms.decode_scalar_r(b"abc", pa.int32())


ROWS = pa.table(
    {
        "id": pa.array([*range(-6, 7), None], pa.int64()),
        "name": ["", "a", "ab", "b", "B", "é", "ab", None, "c", "cc", "ccc", "d", "dd", None],
        "ts": pa.array([datetime(2020 + i % 3, 1 + i % 12, 1 + i, i) for i in range(13)] + [None], pa.timestamp("us")),
    }
)
REQUESTS = {
    "bucket": transforms.bucket("f", "id", 4),
    "multi_bucket": transforms.bucket("f", ["id", "name"], 4),
    "identity": transforms.identity("f", "name"),
    "truncate": transforms.truncate("f", "id", 5),
    "month": transforms.month("f", "ts"),
    "expression": transforms.expression("f", "abs(coalesce(col0, 1)) % 3", "id"),
    "two fields": transforms.region_spec([transforms.identity("f", "name"), transforms.bucket("g", "id", 3)]),
}


@pytest.mark.clause("PLAN-006", "PLAN-007", "AMB-114")
@pytest.mark.parametrize("name", REQUESTS)
@given(
    ids=st.none() | st.sets(st.none() | st.integers(-7, 7) | st.just(2.0) | st.just(2.5), max_size=3),
    names=st.none() | st.sets(st.none() | st.sampled_from(["", "a", "ab", "B", "é", "zz"]) | st.just(3), max_size=3),
    stamps=st.none() | st.sets(st.sampled_from(ROWS.column("ts").to_pylist()), max_size=2),
)
@settings(max_examples=30)
def test_pruning_never_drops_a_region_that_holds_a_matching_row(name: str, ids: Any, names: Any, stamps: Any) -> None:
    made = spec_of(REQUESTS[name], ROWS.schema)
    regions = transforms.evaluate(made, ROWS, names_of(ROWS.schema), revision=B).to_pylist()
    predicate = {"id": ids, "name": names, "ts": stamps}
    for row, region in zip(ROWS.to_pylist(), regions, strict=True):
        if all(allowed is None or row[column] in allowed for column, allowed in predicate.items()):
            assert may_match(made, region, predicate)


def may_match(made: RegionSpec, region: dict[str, Any], predicate: Any, revision: Revision = B) -> bool:
    fields = names_of(ROWS.schema)
    return transforms.may_match(made, predicate, schema=ROWS.schema, fields=fields, revision=revision)(region)


def test_a_key_selects_its_bucket_and_excludes_the_others() -> None:
    made = spec_of(transforms.bucket("f", "id", 8), ROWS.schema)
    own = abs(mmh3.hash((123).to_bytes(8, "little"))) % 8
    assert [b for b in range(8) if may_match(made, {"f": b}, {"id": {123}})] == [own]
    assert may_match(made, {"f": own}, {"id": {123}, "name": {"other column"}})


@pytest.mark.clause("PLAN-006")
def test_each_value_of_one_column_may_come_with_each_of_another() -> None:
    made = spec_of(transforms.bucket("f", ["id", "name"], 1 << 20), ROWS.schema)
    predicate = {"id": {1, 2}, "name": {"a", "b"}}
    for number, name in itertools.product((1, 2), ("a", "b")):
        own = abs(mmh3.hash(name, mmh3.hash(number.to_bytes(8, "little"), signed=False))) % (1 << 20)
        assert may_match(made, {"f": own}, predicate)
        assert not may_match(made, {"f": own + 1}, predicate)


@pytest.mark.clause("AMB-57")
def test_equality_excludes_the_null_region_and_is_null_selects_it() -> None:
    made = spec_of(transforms.identity("f", "name"), ROWS.schema)
    assert not may_match(made, {"f": None}, {"name": {"a"}})
    assert may_match(made, {"f": None}, {"name": {None}})
    assert not may_match(made, {"f": "a"}, {"name": {None}})
    in_r = spec_of(transforms.bucket("f", "id", 8), ROWS.schema, R)
    assert [b for b in range(8) if may_match(in_r, {"f": b}, {"id": {None}}, R)] == [0]


@pytest.mark.clause("AMB-53", "AMB-59", "AMB-66", "AMB-114")
def test_whatever_is_not_known_keeps_the_region() -> None:
    made = spec_of(transforms.bucket("f", "id", 8), ROWS.schema)
    own = abs(mmh3.hash((123).to_bytes(8, "little"))) % 8
    other = {"f": (own + 1) % 8}
    (known,) = made.fields
    assert not may_match(made, other, {"id": {123}})
    assert may_match(made, {}, {"id": {123}}), "the region's value is not known"
    assert may_match(made, {"f": "3"}, {"id": {123}}), "the region's value has another type"
    assert may_match(made, other, {}), "no constraint on the source"
    assert may_match(made, other, {"id": None}), "no constraint on the source"
    for literal in (123.5, "123", True, 2**70, b"{", datetime(2024, 1, 1), float("nan")):
        assert may_match(made, other, {"id": {literal}}), f"{literal!r} is not an int64"
    assert may_match(made, other, {"id": set(range(10_001))}), "too many values"
    unknown = [
        replace(known, transform="zorder"),
        replace(known, parameters=(("num_buckets", "8"),)),
        replace(known, parameters=(("hash", "spark"), ("num_buckets", "8"))),
        replace(known, source_ids=(FieldId(77),)),
        replace(known, transform=None, expression="sqrt(col0)"),
    ]
    for strange in unknown:
        assert may_match(spec(strange), other, {"id": {123}}), strange


def test_a_predicate_that_allows_no_value_excludes_every_region() -> None:
    made = spec_of(transforms.bucket("f", "id", 4), ROWS.schema)
    assert not any(may_match(made, {"f": b}, {"id": set()}) for b in (*range(4), None))


def test_in_lists_over_two_sources_are_combined() -> None:
    made = spec_of(transforms.bucket("f", ["id", "name"], 1_000_000), ROWS.schema)
    rows = pa.table({"id": pa.array([1, 1, 2, 2]), "name": ["x", "y", "x", "y"], "ts": pa.nulls(4, pa.timestamp("us"))})
    found = transforms.evaluate(made, rows, names_of(rows.schema), revision=B).column("f").to_pylist()
    assert len(set(found)) == 4
    for value, (number, text) in zip(found, itertools.product((1, 2), "xy"), strict=True):
        assert may_match(made, {"f": value}, {"id": {1, 2}, "name": {"x", "y"}})
        assert may_match(made, {"f": value}, {"id": {number}, "name": {text}})
        assert not may_match(made, {"f": value}, {"id": {3 - number}, "name": {text}})
