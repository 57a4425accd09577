"""What is looked at before a filter: it never leaves out a row that the filter keeps."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.read import filters, predicates
from memwal.read.likely import likely

from . import test_answers

DAY, MOMENT = date(2024, 2, 29), datetime(2024, 2, 29, 12, 30, 0, 5)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small": (pa.int8(), [None, -128, -1, 0, 3, 127]),
    "large": (pa.uint64(), [None, 0, 3, 1 << 63, (1 << 64) - 1]),
    "single": (pa.float32(), [None, -0.0, 0.0, 0.1, 2.5, float("nan"), float("inf")]),
    "exact": (pa.decimal128(10, 2), [None, Decimal("-1.50"), Decimal("0.00"), Decimal("2.50")]),
    "truth": (pa.bool_(), [None, True, False]),
    "text": (pa.string(), [None, "", "a", "ab", "b", "\u00e4", "\U0001f600"]),
    "data": (pa.binary(), [None, b"", b"a", b"\xff"]),
    "day": (pa.date32(), [None, DAY, DAY - timedelta(1), DAY + timedelta(1)]),
    "second": (pa.timestamp("s"), [None, MOMENT.replace(microsecond=0), MOMENT + timedelta(1)]),
    "zoned": (pa.timestamp("us", "UTC"), [None, MOMENT.replace(tzinfo=UTC), MOMENT.replace(tzinfo=UTC) + timedelta(1)]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
ASKED = [
    "small = 3", "small > 3.5", "small IN (0, 127, 300)", "large > 9223372036854775807", "large = 3",
    "single = 0.1", "single > 0.1", "single < 0.1", "single BETWEEN 0 AND 2.5", "single = -0.0", "single >= 2.5",
    "exact = 2.5", "exact > 0", "truth", "NOT truth", "truth IS NULL", "text >= 'ab'", "text BETWEEN 'a' AND 'b'",
    "text < '\u00e4'", "text LIKE 'a%'", "day = DATE '2024-02-29'", "day >= '2024-02-29'",
    "second = TIMESTAMP '2024-02-29 12:30:00'", "second > '2024-02-29'",
    "second < TIMESTAMP '2024-02-29 12:30:00.000005'",
    "zoned >= TIMESTAMP '2024-02-29 12:30:00.000005Z'",
    pc.field("large") > 3, pc.field("data") == b"a", pc.field("day") <= DAY, pc.field("single") == 0.1,
    pc.field("zoned") == pa.scalar(MOMENT.replace(tzinfo=UTC), pa.timestamp("us", "UTC")),
    pc.field("second") >= pa.scalar(MOMENT.replace(microsecond=0), pa.timestamp("s")),
]  # fmt: skip


def check(condition: Any, rows: pa.Table) -> int:
    """How many of ``rows`` are left out."""
    stage = likely(predicates.understood(condition, rows.schema), rows.schema)
    if stage is None:
        return 0
    staying, matching = stage.mask(rows.select(list(stage.columns))), filters.mask(condition, rows.schema)(rows)
    assert not (matching & ~staying).any(), condition
    assert filters.parse(condition, rows.schema).mask(rows).tolist() == matching.tolist(), condition
    return int((~staying).sum())


@pytest.mark.clause("PLAN-015", "AMB-99")
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_no_row_that_a_filter_keeps_is_unlikely(seed: int) -> None:
    drawn = random.Random(seed)
    values = [{name: drawn.choice(held) for name, (_, held) in COLUMNS.items()} for _ in range(30)]
    typed = pa.Table.from_pylist(values, schema=SCHEMA)
    for condition in drawn.sample(ASKED, 6):
        check(condition, typed)
    plain = test_answers.table_of(test_answers.row_of(number, drawn) for number in range(30))
    for condition in test_answers.conditions(drawn, 2):
        check(condition, plain)


def test_rows_are_left_out_by_comparisons_of_each_type_and_by_both_sides_of_an_or_only() -> None:
    values = [{name: held[at % len(held)] for name, (_, held) in COLUMNS.items()} for at in range(84)]
    rows = pa.Table.from_pylist(values, schema=SCHEMA)
    assert [str(each) for each in ASKED if not check(each, rows)] == [
        "small > 3.5", "small IN (0, 127, 300)", "exact = 2.5", "zoned >= TIMESTAMP '2024-02-29 12:30:00.000005Z'",
        "(large > 3)", "(single == 0.1)",
    ], "a literal of another type, and what an expression casts, is left to the filter"  # fmt: skip
    assert check("small = 3 OR text = 'b'", rows)
    assert not check("small = 3 OR small % 2 = 1", rows)
    assert check("small = 3 AND text || 'x' = 'bx'", rows)


PLAIN = [
    "small = 3", "-1 >= small OR small BETWEEN 3 AND 5", "small > 3 AND small < 0", "small IN (3, -1) AND small > 0",
    "large >= 1 AND (text IN ('a', 'b') OR small IN (3, 0))", "text > 'a' AND TEXT <= 'b'", "small = 3 OR small = 0",
]  # fmt: skip
NOT_PLAIN = [
    "small <> 3 OR text = 'b'", "large > -1", "large = 18446744073709551615", "text > 'a' AND small = 300",
    "NOT small = 3", "small NOT IN (3)", "small IN (3, NULL)", "text LIKE 'a'", "small = small", "single = 0",
    "exact > 0", "small = 2.5",
    "text < 'b' AND small", "small BETWEEN 0 AND 2.5", "small NOT BETWEEN 0 AND 3", "text = 3",
]  # fmt: skip


@pytest.mark.clause("PLAN-015")
def test_a_plain_text_keeps_the_rows_that_datafusion_keeps_and_any_other_text_is_left_to_it() -> None:
    values = [{name: held[at % len(held)] for name, (_, held) in COLUMNS.items()} for at in range(84)]
    rows = pa.Table.from_pylist(values, schema=SCHEMA)
    for condition in PLAIN:
        assert predicates.whole(condition, SCHEMA) is not None, condition
        check(condition, rows)
    assert [each for each in NOT_PLAIN if predicates.whole(each, SCHEMA) is not None] == []
