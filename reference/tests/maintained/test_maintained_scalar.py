"""In-memory scalar indexes answer as a scan of the same rows does."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.maintained.base_index import MaintainedIndex
from memwal.maintained.memory import MemTableIndexes

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "uint64": (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    "bool": (pa.bool_(), [False, True]),
    "float64": (pa.float64(), [-math.inf, -1.5, 0.0, 5e-324, 1.0, math.inf]),
    "float16": (pa.float16(), [-2.0, 0.0, 0.5, 1.0]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")]),
    "text": (pa.string(), ["", "a", "ab", "b", "é", "\ufffd", "\U0001f600"]),
    "large text": (pa.large_string(), ["", "a", "z"]),
    "binary": (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
    "fixed binary": (pa.binary(2), [b"\x00\x00", b"ab", b"\xff\xff"]),
    "date": (pa.date32(), [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]),
    "time": (pa.time64("us"), [time(0), time(12, 30), time(23, 59, 59, 999999)]),
    "timestamp": (pa.timestamp("us"), [datetime(1960, 1, 1), datetime(1970, 1, 1), datetime(2030, 5, 5, 5, 5, 5, 5)]),
    "zoned": (pa.timestamp("ms", "UTC"), [datetime(1960, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)]),
    "duration": (pa.duration("ms"), [timedelta(milliseconds=-5), timedelta(0), timedelta(days=3)]),
}
"""By name: a type, and values of it in ascending order."""


def indexes(kind: str, arrow: pa.DataType, values: list[Any], cuts: tuple[int, ...] = ()) -> MemTableIndexes:
    """Indexes over one column, inserted in pieces; keys are unique."""
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("x", arrow)])
    index = MaintainedIndex(name="i", kind=kind, column="x", parts=("u",))  # type: ignore[arg-type]
    made = MemTableIndexes.empty([index], ["id"], schema)
    bounds = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    for low, high in zip(bounds, bounds[1:], strict=False):
        made.insert(pa.table([list(range(low, high)), pa.array(values[low:high], arrow, from_pandas=False)], schema))
    return made


@pytest.mark.clause("WRITER-022", "AMB-48")
@pytest.mark.parametrize("kind", ["btree", "bitmap"])
@pytest.mark.parametrize("which", VALUES)
@given(data=st.data())
@settings(max_examples=8)
def test_equality_ranges_and_null_find_the_rows_that_a_scan_finds(which: str, kind: str, data: st.DataObject) -> None:
    arrow, ordered = VALUES[which]
    places = data.draw(st.lists(st.none() | st.integers(0, len(ordered) - 1), max_size=30))
    cuts = data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30)))
    low, high = data.draw(st.tuples(st.integers(0, len(ordered) - 1), st.integers(0, len(ordered) - 1)))
    held = indexes(kind, arrow, [None if p is None else ordered[p] for p in places], cuts)
    assert held.equal("i", ordered[low]).tolist() == [row for row, p in enumerate(places) if p == low]
    assert held.equal("i", None).tolist() == [row for row, p in enumerate(places) if p is None]
    both = held.equal("i", ordered[low], ordered[high], ordered[low]).tolist()
    assert both == [row for row, p in enumerate(places) if p in (low, high)]
    there = [(row, p) for row, p in enumerate(places) if p is not None]
    assert held.between("i", ordered[low], ordered[high]).tolist() == [r for r, p in there if low <= p <= high]
    inner = held.between("i", ordered[low], ordered[high], with_lower=False, with_upper=False).tolist()
    assert inner == [r for r, p in there if low < p < high]
    assert held.between("i", lower=ordered[low]).tolist() == [r for r, p in there if p >= low]
    assert held.between("i", upper=ordered[high], with_upper=False).tolist() == [r for r, p in there if p < high]
    assert held.between("i").tolist() == [r for r, _ in there]


FLOATS = [1.0, NAN, -0.0, 0.0, None, 7.0, -NAN, math.inf]
QUESTIONS: dict[str, tuple[str, dict[str, Any] | tuple[Any, ...]]] = {
    "x = 0.0": ("equal", (0.0,)),
    "x = -0.0": ("equal", (-0.0,)),
    "x > 5": ("between", {"lower": 5.0, "with_lower": False}),
    "x < 1": ("between", {"upper": 1.0, "with_upper": False}),
    "x >= 0.0": ("between", {"lower": 0.0}),
    "x is null": ("equal", (None,)),
    "x = arrow_cast('NaN', 'Float64')": ("equal", (NAN,)),
}


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_nan_and_the_two_zeros_are_compared_as_pylance_does(tmp_path: Path, kind: str) -> None:
    table = pa.table({"id": range(len(FLOATS)), "x": pa.array(FLOATS, pa.float64(), from_pandas=False)})
    native = lance.write_dataset(table, str(tmp_path / "t"))
    native.create_scalar_index("x", kind.upper(), name="i")
    held = indexes(kind, pa.float64(), FLOATS)
    for condition, (method, arguments) in QUESTIONS.items():
        expected = sorted(native.to_table(filter=condition).column("id").to_pylist())
        if isinstance(arguments, dict):
            assert held.between("i", **arguments).tolist() == expected, condition
        else:
            assert held.equal("i", *arguments).tolist() == expected, (condition, method)


@pytest.mark.clause("AMB-109")
@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_a_row_that_was_written_again_is_found_by_its_newest_value_only(kind: str) -> None:
    held = indexes(kind, pa.string(), ["a", "b"])
    held.insert(pa.table([[0, 5], ["b", "a"]], held.schema))
    assert held.equal("i", "a").tolist() == [3]
    assert held.equal("i", "b").tolist() == [1, 2]
    assert held.between("i").tolist() == [1, 2, 3]


@pytest.mark.parametrize("value", ["1", 1.5, 2**63, date(2024, 1, 1), [1]])
def test_a_value_that_the_column_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(memwal.InvalidArgument, match="is not a value of a column of type int64"):
        indexes("btree", pa.int64(), [1]).equal("i", value)


def test_an_index_that_is_not_maintained_cannot_be_asked() -> None:
    with pytest.raises(memwal.InvalidArgument, match=r"no index 'j'; its indexes are \['i'\]"):
        indexes("btree", pa.int64(), [1]).equal("j", 1)
    with pytest.raises(memwal.InvalidArgument, match=r"no index 'i'; its indexes are \[\]"):
        indexes("btree", pa.int64(), [1]).nearest("i", [1.0], 1)


@given(sizes=st.lists(st.integers(0, 9), max_size=60))
@settings(max_examples=30)
def test_sorted_runs_stay_few_however_small_the_writes_are(sizes: list[int]) -> None:
    held = indexes("btree", pa.int64(), [])
    for size in sizes:
        held.insert(pa.table([[held.rows + i for i in range(size)], [7 - i for i in range(size)]], held.schema))
    (runs,) = held.scalars.values()
    lengths = [len(run) for run in runs.runs]  # type: ignore[attr-defined]
    assert sum(lengths) == sum(sizes)
    assert all(longer >= 2 * shorter for longer, shorter in zip(lengths, lengths[1:], strict=False))
