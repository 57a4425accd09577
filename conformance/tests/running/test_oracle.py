"""What the oracle accepts and refuses as the rows that a reader sees."""

from typing import Any

import pytest
from memwal_conformance.running.oracle import why_not, written
from memwal_sim.histories.history import History, Outcome

Rows = list[dict[str, Any]]


def row(key: int, value: str) -> dict[str, Any]:
    return {"id": key, "v": value}


KEY = ("id",)


def history(*writes: tuple[str, Outcome, Rows]) -> History:
    made = History()
    for writer, outcome, rows in writes:
        made = written(made, KEY, writer, rows, outcome)
    return made


def test_acknowledged_writes_are_there_and_the_last_one_wins() -> None:
    made = history(("w", "ok", [row(1, "a"), row(2, "a")]), ("w", "ok", [row(1, "b")]))
    assert why_not(made, KEY, [row(2, "a"), row(1, "b")]) is None
    assert (
        why_not(made, KEY, [row(2, "a"), row(1, "a")])
        == "the row is {'id': 1, 'v': 'a'} instead of {'id': 1, 'v': 'b'}"
    )
    assert why_not(made, KEY, [row(1, "b")]) == "the row {'id': 2, 'v': 'a'} is missing"


def test_a_row_that_nobody_wrote_is_refused() -> None:
    made = history(("w", "ok", [row(1, "a")]))
    assert why_not(made, KEY, [row(1, "a"), row(7, "x")]) == "the row {'id': 7, 'v': 'x'} should not be there"


def test_a_key_twice_is_refused_even_if_both_rows_were_written() -> None:
    made = history(("w", "ok", [row(1, "a")]), ("w", "ok", [row(1, "b")]))
    assert why_not(made, KEY, [row(1, "a"), row(1, "b")]) == "key (1,) is there twice"


def test_a_buffered_write_is_there_whole_or_not_at_all() -> None:
    made = history(("w", "ok", [row(1, "a")]), ("w", "buffered", [row(1, "b"), row(2, "b")]))
    assert why_not(made, KEY, [row(1, "a")]) is None
    assert why_not(made, KEY, [row(1, "b"), row(2, "b")]) is None
    assert why_not(made, KEY, [row(1, "b")]) is not None
    assert why_not(made, KEY, [row(1, "a"), row(2, "b")]) is not None


def test_of_buffered_writes_a_prefix_is_there() -> None:
    made = history(("w", "buffered", [row(1, "a")]), ("w", "buffered", [row(2, "a")]))
    assert why_not(made, KEY, []) is None
    assert why_not(made, KEY, [row(1, "a")]) is None
    assert why_not(made, KEY, [row(1, "a"), row(2, "a")]) is None
    assert why_not(made, KEY, [row(2, "a")]) is not None


def test_buffered_writes_of_two_writers_are_independent() -> None:
    made = history(("w", "buffered", [row(1, "a")]), ("x", "buffered", [row(2, "a")]))
    assert why_not(made, KEY, [row(2, "a")]) is None


def test_a_sync_acknowledges_what_its_own_writer_had_buffered() -> None:
    made = history(("w", "buffered", [row(1, "a")]), ("x", "buffered", [row(2, "a")]))
    made = made.synced("w")
    assert why_not(made, KEY, [row(1, "a")]) is None
    assert why_not(made, KEY, []) == "the row {'id': 1, 'v': 'a'} is missing"


def test_a_failed_write_may_surface_but_not_over_a_later_acknowledged_one() -> None:
    made = history(("w", "unknown", [row(1, "a"), row(2, "a")]), ("x", "ok", [row(1, "b")]))
    assert why_not(made, KEY, [row(1, "b")]) is None
    assert why_not(made, KEY, [row(1, "b"), row(2, "a")]) is None
    assert why_not(made, KEY, [row(1, "a"), row(2, "a")]) is not None


def test_a_delete_takes_the_row_away_until_it_is_written_again() -> None:
    made = history(("w", "ok", [row(1, "a"), row(2, "a")]))
    made = written(made, KEY, "w", [{"id": 1}], "ok", deletes=True)
    assert why_not(made, KEY, [row(2, "a")]) is None
    assert why_not(made, KEY, [row(1, "a"), row(2, "a")]) is not None
    made = written(made, KEY, "w", [row(1, "b")], "ok")
    assert why_not(made, KEY, [row(1, "b"), row(2, "a")]) is None


def test_of_a_key_that_one_write_has_twice_the_last_row_is_there() -> None:
    made = history(("w", "ok", [row(1, "a"), row(1, "b")]), ("w", "unknown", [row(2, "a"), row(2, "b")]))
    assert why_not(made, KEY, [row(1, "b"), row(2, "b")]) is None
    assert why_not(made, KEY, [row(1, "b")]) is None
    assert why_not(made, KEY, [row(1, "a")]) is not None
    assert why_not(made, KEY, [row(1, "b"), row(2, "a")]) is not None


def test_a_history_with_too_many_fates_is_refused_rather_than_judged_in_part() -> None:
    made = history(*[("w", "unknown", [row(k, "a")]) for k in range(13)])
    with pytest.raises(ValueError, match="8192 outcomes"):
        why_not(made, KEY, [])
