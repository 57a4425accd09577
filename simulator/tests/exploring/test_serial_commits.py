"""Random transactions at once, in every interleaving of their requests: what commits is what some order would give."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import serial_orders as serial
from memwal_sim.exploring.exploration import Bounds
from memwal_sim.exploring.explorer import explore

NAMES = sorted(serial.OPERATIONS)


def several(count: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(NAMES), min_size=count, max_size=count, unique=True)


def few(examples: int) -> settings:
    return settings(max_examples=examples)


@few(20)
@given(names=several(2))
@pytest.mark.clause("TXN-002", "TXN-004", "TXN-012", "TXN-023", "TXN-047", "TXN-055")
def test_two_transactions_are_serial_in_every_interleaving_with_a_crash_anywhere(names: list[str]) -> None:
    found = explore(serial.world(names))
    assert found.complete, found.violation


@few(3)
@given(names=several(3))
@pytest.mark.clause("TXN-002", "TXN-012", "TXN-061")
def test_three_transactions_are_serial_in_every_interleaving_with_two_preemptions(names: list[str]) -> None:
    found = explore(serial.world(names), Bounds(preemptions=2))
    assert found.complete, found.violation


@pytest.mark.parametrize(
    "names",
    [
        ("delete 0", "delete 1"),
        ("delete 0", "update 1"),
        ("delete 0", "update a to b"),
        ("update a to b", "update b to a"),
        ("upsert 0 9", "upsert 2 9"),
        ("update 1", "compact"),
        ("delete 0 1", "delete 1"),
        ("restore 1", "delete 0"),
        ("add w", "append 7"),
    ],
)
@pytest.mark.clause("TXN-052", "TXN-053", "TXN-055", "TXN-057")
def test_pairs_that_meet_in_one_fragment_are_serial(names: tuple[str, str]) -> None:
    found = explore(serial.world(names))
    assert found.complete, found.violation


@pytest.mark.clause("TXN-002", "TXN-053", "TXN-061")
def test_merged_deletions_survive_a_request_that_is_not_answered() -> None:
    found = explore(serial.world(("delete 0", "delete 1")), Bounds(faults=1, preemptions=2))
    assert found.complete, found.violation


def test_a_history_that_no_order_explains_is_told_apart() -> None:
    both = serial.serial(("update a to b", "update b to a")).seen
    other = serial.serial(("update b to a", "update a to b")).seen
    assert both != other
    done = dict.fromkeys(("update a to b", "update b to a"), serial.DONE)
    assert serial.explained(list(done), done, both)
    assert not serial.explained(list(done), done, serial.serial(()).seen)
    assert serial.explained(list(done), {}, serial.serial(()).seen)
