"""Which regions comparisons leave out: never one that holds a matching row, and those that visibly hold none."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.ids import FieldId, SpecId
from memwal.index import transforms
from memwal.read import filters
from memwal.read.predicates import extract
from memwal.revisions import B

_NOON = datetime(2024, 2, 29, 12)
_DAYS = st.dates(date(1895, 1, 1), date(2030, 12, 31)) | st.sampled_from(
    [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(2024, 12, 31), date(2025, 1, 1)]
)
_TIMES = st.datetimes(datetime(1895, 1, 1), datetime(2030, 12, 31)) | st.sampled_from(
    [_NOON + timedelta(hours=hours) for hours in range(-30, 30, 3)]
    # Clocks in Berlin are put back, and forward, in these hours; and years and days begin.
    + [
        datetime(2024, 10, 27, 0, 30),
        datetime(2024, 10, 27, 1, 30),
        datetime(2024, 3, 31, 1),
        datetime(2024, 12, 31, 23),
    ]
)
_TEXTS = st.text("aAbBz~é\U0001f600", max_size=3)
_NUMBERS = st.integers(-25, 25)
_IN_TIME = ("identity", "year", "month", "day", "hour")
_IN_DAYS = ("year", "month", "day", "hour")
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], tuple[str, ...]]] = {
    "int32": (pa.int32(), _NUMBERS, ("identity", "truncate", "bucket")),
    "uint64": (pa.uint64(), st.integers(0, 30) | st.just(2**64 - 1), ("identity", "truncate")),
    "decimal": (pa.decimal128(6, 2), _NUMBERS.map(lambda n: Decimal(n) / 4), ("truncate",)),
    "text": (pa.string(), _TEXTS, ("identity", "truncate", "bucket")),
    "day": (pa.date32(), _DAYS, ("identity", *_IN_DAYS, "bucket")),
    "time": (pa.timestamp("us"), _TIMES, (*_IN_TIME, "bucket")),
    "time in s": (pa.timestamp("s"), _TIMES.map(lambda t: t.replace(microsecond=0)), _IN_TIME),
    "time in ns": (pa.timestamp("ns"), _TIMES, _IN_TIME),
    "time in ms": (pa.timestamp("ms"), _TIMES.map(lambda t: t.replace(microsecond=0)), _IN_TIME),
    "time in UTC": (pa.timestamp("us", "UTC"), _TIMES.map(lambda t: t.replace(tzinfo=UTC)), _IN_TIME),
    "time in Berlin": (pa.timestamp("us", "Europe/Berlin"), _TIMES.map(lambda t: t.replace(tzinfo=UTC)), _IN_TIME),
}
REQUESTS: dict[str, transforms.SpecRequest] = {
    "identity": transforms.identity("f", "c"),
    "truncate": transforms.truncate("f", "c", 3),
    "year": transforms.year("f", "c"),
    "month": transforms.month("f", "c"),
    "day": transforms.day("f", "c"),
    "hour": transforms.hour("f", "c"),
    "bucket": transforms.bucket("f", "c", 4),
}


def sql(value: Any) -> str:
    if isinstance(value, datetime):
        return f"'{value.isoformat()}'" if value.tzinfo else f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def conditions(values: st.SearchStrategy[Any], kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Filters of column ``c`` by what is compared with it, in both languages."""
    scalars = values.map(lambda value: pa.scalar(value, kind))
    field = pc.field("c")
    signs = {"<": field.__lt__, "<=": field.__le__, ">": field.__gt__, ">=": field.__ge__, "=": field.__eq__}
    one = st.tuples(st.sampled_from(sorted(signs)), values)
    said = one.map(lambda part: f"c {part[0]} {sql(part[1])}")
    turned = one.map(lambda part: f"{sql(part[1])} {part[0]} c")
    between = st.tuples(values, values).map(lambda ends: f"c BETWEEN {sql(ends[0])} AND {sql(ends[1])}")
    listed = st.lists(values, min_size=1, max_size=3).map(lambda each: f"c IN ({', '.join(map(sql, each))})")
    single = said | turned | between | listed | st.just("c IS NULL")
    joined = st.tuples(single, st.sampled_from(["AND", "OR"]), single).map(
        lambda each: f"({each[0]}) {each[1]} ({each[2]})"
    )
    compared = st.tuples(st.sampled_from(sorted(signs)), scalars).map(lambda part: signs[part[0]](part[1]))
    both = st.tuples(compared, compared, st.booleans()).map(lambda p: p[0] & p[1] if p[2] else p[0] | p[1])
    return single | joined | compared | both


@pytest.mark.clause("PLAN-005", "PLAN-006", "PLAN-007", "AMB-114")
@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_region_that_is_left_out_holds_no_row_that_matches(name: str, data: st.DataObject) -> None:
    kind, values, known = COLUMNS[name]
    rows = pa.table({"c": pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=12)), kind)})
    condition = data.draw(conditions(values, kind))
    fields = {FieldId(0): "c"}
    matching = filters.mask(condition, rows.schema)(rows)
    predicate = extract(condition, rows.schema)
    for transform in known:
        made = transforms.resolve(REQUESTS[transform], SpecId(1), rows.schema, {"c": FieldId(0)}, B)
        regions = transforms.evaluate(made, rows, fields, revision=B).to_pylist()
        for region, matches in zip(regions, matching, strict=True):
            if matches:
                kept = transforms.may_match(made, predicate, schema=rows.schema, fields=fields, revision=B)(region)
                assert kept, (transform, region, predicate)


@pytest.mark.clause("PLAN-005", "AMB-114")
@settings(max_examples=25)
@given(pairs=st.lists(st.tuples(st.none() | _NUMBERS, _TEXTS), min_size=1, max_size=12), data=st.data())
def test_a_bucket_of_two_columns_is_left_out_only_if_both_are_told_and_none_of_its_rows_match(
    pairs: list[tuple[int | None, str]], data: st.DataObject
) -> None:
    rows = pa.table({"c": pa.array([c for c, _ in pairs], pa.int32()), "d": [d for _, d in pairs]})
    c, d = data.draw(st.sampled_from(pairs))
    first = "c IS NULL" if c is None else f"c IN ({c}, 3)"
    condition, told = data.draw(st.sampled_from([(f"{first} AND d = {sql(d)}", True), (first, False)]))
    made = transforms.resolve(
        transforms.bucket("f", ["c", "d"], 16), SpecId(1), rows.schema, {"c": FieldId(0), "d": FieldId(1)}, B
    )
    fields = {FieldId(0): "c", FieldId(1): "d"}
    predicate = extract(condition, rows.schema)
    kept = {
        bucket
        for bucket in range(16)
        if transforms.may_match(made, predicate, schema=rows.schema, fields=fields, revision=B)({"f": bucket})
    }
    buckets = transforms.evaluate(made, rows, fields, revision=B).column("f").to_pylist()
    matching = filters.mask(condition, rows.schema)(rows)
    assert {bucket for bucket, matches in zip(buckets, matching, strict=True) if matches} <= kept
    assert len(kept) <= 2 if told else len(kept) == 16


@pytest.mark.clause("PLAN-005")
def test_ends_of_a_range_decide_to_the_value() -> None:
    berlin = pa.timestamp("us", "Europe/Berlin")
    cases: list[tuple[pa.DataType, str, Any, list[Any], list[Any]]] = [
        (pa.int32(), "identity", "c > 5", [4, 5, 6, None], [6]),
        (pa.int32(), "identity", "c BETWEEN 5 AND 6", [4, 5, 6, 7], [5, 6]),
        (pa.int32(), "identity", "-1 >= c", [-2, -1, 0], [-2, -1]),
        (pa.int32(), "identity", "c < 2 OR c = 4", [1, 2, 4, 5], [1, 2, 4]),
        (pa.int32(), "truncate", "c < 6", [-3, 0, 3, 6, None], [-3, 0, 3]),
        (pa.int32(), "truncate", "c > -3", [-6, -3, 0, 3], [0, 3]),
        (pa.int32(), "truncate", "c >= -3", [-6, -3, 0, 3], [-3, 0, 3]),
        (pa.string(), "identity", "c >= 'B' AND c < 'b'", ["A", "B", "Z", "a", "b", "é"], ["B", "Z", "a"]),
        (pa.string(), "truncate", "c > 'abcd' AND c <= 'b'", ["abb", "abc", "abd", "b", "ba"], ["abc", "abd", "b"]),
        (pa.date32(), "year", "c >= '2024-06-01' AND c < DATE '2026-01-01'", [2023, 2024, 2025, 2026], [2024, 2025]),
        (pa.timestamp("us"), "year", pc.field("c") < datetime(2025, 1, 1), [2024, 2025, None], [2024]),
        (berlin, "year", "c < '2024-12-30T00:00:00Z'", [2024, 2025], [2024]),
        (berlin, "year", "c < '2024-12-31T23:59:00Z'", [2024, 2025], [2024, 2025]),
        (
            pa.date32(),
            "month",
            "c BETWEEN DATE '2024-11-15' AND DATE '2025-02-01'",
            [10, 11, 12, 1, 2, 3],
            [11, 12, 1, 2],
        ),
        (berlin, "month", "c BETWEEN '2024-06-05T00:00:00Z' AND '2024-06-09T00:00:00Z'", [5, 6, 7], [6]),
        (pa.date32(), "day", "c > DATE '2024-02-27' AND c <= DATE '2024-03-01'", [27, 28, 29, 1, 2], [28, 29, 1]),
        (
            pa.timestamp("ms"),
            "hour",
            "c >= TIMESTAMP '2024-01-01 22:30:00' AND c < TIMESTAMP '2024-01-02 01:00:00'",
            [21, 22, 23, 0, 1],
            [22, 23, 0],
        ),
        (pa.timestamp("ms"), "hour", "c >= TIMESTAMP '2024-01-01 22:30:00'", [0, 12, 23], [0, 12, 23]),
        (pa.date32(), "hour", "c >= DATE '2024-01-01'", [0, 1], [0]),
    ]
    for kind, transform, condition, regions, expected in cases:
        schema = pa.schema([("c", kind)])
        made = transforms.resolve(REQUESTS[transform], SpecId(1), schema, {"c": FieldId(0)}, B)
        predicate, fields = extract(condition, schema), {FieldId(0): "c"}
        kept = [
            value
            for value in regions
            if transforms.may_match(made, predicate, schema=schema, fields=fields, revision=B)({"f": value})
        ]
        assert kept == expected, (transform, str(condition))


def test_years_beyond_those_that_arrow_counts_are_years() -> None:
    days = pa.table({"c": pa.array([0, 24_107_400, -25_000_000], pa.int32()).cast(pa.date32())})
    made = transforms.resolve(REQUESTS["year"], SpecId(1), days.schema, {"c": FieldId(0)}, B)
    found = transforms.evaluate(made, days, {FieldId(0): "c"}, revision=B)
    assert found.column("f").to_pylist() == [1970, 67_973, -66_478]
