"""Filters of any size give a result or an `InvalidArgument`, in seconds and without a crash."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal.errors import InvalidArgument
from memwal.maintained.scalar import Between
from memwal.read import filters, predicates

ROWS = pa.table({"a": [1, 2, 5_000], "v": ["x", "y", "z"]})


def kept(condition: pc.Expression | str) -> list[int]:
    """Column ``a`` of the rows that are kept, after what a scan does with a condition."""
    keep = filters.parse(condition, ROWS.schema)
    predicates.extract(condition, ROWS.schema)
    found: list[int] = keep(ROWS).column("a").to_pylist()
    return found


def test_a_chain_of_a_thousand_comparisons_is_evaluated() -> None:
    assert kept(" OR ".join(f"a = {number}" for number in range(1_000))) == [1, 2]
    assert kept(" AND ".join(f"a <> {number}" for number in range(2, 400))) == [1, 5_000]


def test_a_chain_of_pyarrow_comparisons_costs_no_more_for_what_it_says_of_columns() -> None:
    few, many = (pc.field("a") == 0, pc.field("a") == 0)
    for number in range(1, 3):
        few = few | (pc.field("a") == number)
    for number in range(1, 300):
        many = many | (pc.field("a") == number)

    assert predicates.extract(few, ROWS.schema) == {"a": {0, 1, 2}}
    assert kept(many) == [1, 2]


@pytest.mark.parametrize(("levels", "found"), [(9, {"v": {"x"}, "a": Between(lower=8, with_lower=False)}), (10, {})])
def test_a_pyarrow_expression_of_nine_levels_is_looked_into_and_one_of_ten_excludes_nothing(
    levels: int, found: predicates.Predicate
) -> None:
    condition = pc.field("v") == "x"
    for number in range(levels):
        condition = condition & (pc.field("a") > number)
    assert predicates.extract(condition, ROWS.schema) == found


def test_a_list_of_many_values_is_no_large_filter() -> None:
    assert kept(f"a IN ({', '.join(map(str, range(-3_000, 3_000)))})") == [1, 2]


def test_a_filter_of_as_many_operators_as_are_read_is_evaluated_and_one_of_more_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filters, "OPERATORS_MOST", 3)
    assert kept("a = 1 OR a = 2") == [1, 2]
    with pytest.raises(InvalidArgument, match="more than 3 operators"):
        kept("a = 1 OR NOT a = 2")


def test_an_expression_that_gives_no_truth_values_is_no_filter() -> None:
    with pytest.raises(InvalidArgument, match="it gives int64, not true or false"):
        kept(pc.field("a") + 1)


@pytest.mark.parametrize(
    "condition",
    [
        " OR ".join(f"a = {number}" for number in range(50_000)),
        "a = " + " + ".join(["1"] * 50_000),
        "NOT " * 50_000 + "a = 1",
        "(" * 50_000 + "a = 1" + ")" * 50_000,
        "CASE WHEN a = 1 THEN " * 5_000 + "true" + " END" * 5_000,
        "a" + " IS NULL" * 50_000,
        "a" + "::int" * 50_000 + " = 1",
        "x" * 2_000_000,
    ],
    ids=lambda condition: condition[:12],
)
def test_a_filter_that_is_too_large_is_refused_in_a_short_sentence(condition: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        filters.parse(condition, ROWS.schema)

    assert len(str(refused.value)) < 1_000
