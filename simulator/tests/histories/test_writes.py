from __future__ import annotations

from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st
from memwal.effects import Note
from memwal_sim.histories.history import Call, History, explanation
from memwal_sim.histories.notes import observe_condensed
from memwal_sim.scenarios.writes import judge

Rows = tuple[tuple[str, str | None], ...]


def write(name: str, rows: Rows, invoked: int = 0, returned: int | None = None) -> Call:
    """An acknowledged write, or without an end one that nobody heard of again."""
    return Call(
        name=name, rows=rows, invoked=invoked, returned=returned, outcome="unknown" if returned is None else "ok"
    )


V1, V2, V3 = (("k", "v1"),), (("k", "v2"),), (("k", "v3"), ("l", "v3"))


def broken(rows: dict[str, str], *writes: Call) -> str:
    found = judge(rows, History(writes))
    return "" if found is None else f"{found.clause}: {found.reason}"


def test_notes_of_clients_become_ghosts_in_real_time_order() -> None:
    value = History()
    for note in (
        Note("write_invoked", (("rows", (("k", "v1"),)), ("write", "w1"))),
        Note("claimed", (("epoch", 1),)),
        Note("write_acknowledged", (("write", "w1"),)),
        Note("write_invoked", (("rows", (("k", "v2"),)), ("write", "w2"))),
    ):
        value = observe_condensed(value, "writer-1", note)
    assert [(call.name, call.rows, call.invoked, call.returned) for call in value.calls] == [
        ("w1", V1, 0, 0),
        ("w2", V2, 1, None),
    ]
    assert {call.process for call in value.calls} == {"writer-1"}


def test_an_acknowledged_write_has_to_be_there() -> None:
    done = write("w1", V1, 0, 1)
    assert broken({"k": "v1"}, done) == ""
    assert broken({}, done) == "WAL-001: write w1 was acknowledged, and k holds nothing after the crash"


def test_an_unacknowledged_write_may_be_there_or_not() -> None:
    assert broken({"k": "v1"}, write("w1", V1)) == ""
    assert broken({}, write("w1", V1)) == ""


def test_a_write_that_was_never_invoked_may_not_be_there() -> None:
    assert broken({"k": "v2"}, write("w1", V1)) == (
        "AMB-22: k=v2 is there after the crash, and no write that was invoked put it"
    )


def test_of_concurrent_acknowledged_writes_either_may_win() -> None:
    for value in ("v1", "v2"):
        assert broken({"k": value}, write("w1", V1, 0, 0), write("w2", V2, 0, 0)) == ""


def test_of_ordered_acknowledged_writes_the_later_has_to_win() -> None:
    ordered = write("w1", V1, 0, 0), write("w2", V2, 1, 1)
    assert broken({"k": "v2"}, *ordered) == ""
    assert broken({"k": "v1"}, *ordered) == (
        "WAL-001: write w2 was acknowledged, and k holds the older v1 after the crash"
    )


def test_an_unacknowledged_later_write_leaves_the_earlier_or_replaces_it() -> None:
    ordered = write("w1", V1, 0, 0), write("w2", V2, 1)
    assert broken({"k": "v1"}, *ordered) == ""
    assert broken({"k": "v2"}, *ordered) == ""


def test_a_write_is_there_whole_or_not_at_all() -> None:
    pair = write("w3", V3)
    assert broken({"k": "v3", "l": "v3"}, pair) == ""
    assert broken({"k": "v3"}, pair) == "AMB-22: write w3 left k and not l: it is there in part"
    assert broken({"l": "v3", "k": "v1"}, write("w1", V1, 0, 0), write("w3", V3, 1)) == (
        "WAL-019: no order of the writes explains the rows after the crash"
    )


def test_two_writes_cannot_each_come_before_the_other() -> None:
    one, two = write("a", (("k", "a"), ("l", "a")), 0, 0), write("b", (("k", "b"), ("l", "b")), 0, 0)
    assert broken({"k": "a", "l": "b"}, one, two) == (
        "WAL-019: no order of the writes explains the rows after the crash"
    )


def test_a_delete_that_was_acknowledged_is_not_what_is_lost() -> None:
    put, gone, other = write("w9", V1, 0, 0), write("a", (("k", None),), 1, 1), write("w2", (("l", "v2"),), 2, 2)
    assert broken({"l": "v2"}, put, gone, other) == ""
    assert broken({}, put, gone, other) == ("WAL-001: write w2 was acknowledged, and l holds nothing after the crash")


def test_the_explanation_is_an_order_that_leaves_the_rows() -> None:
    one, pair = write("w1", V1, 0, 0), write("w3", V3)
    assert explanation({"k": "v1", "l": "v3"}, (one, pair)) == (pair, one)


KEYS = ("k", "l")
shapes = st.lists(st.sampled_from([("k",), ("l",), ("k", "l")]), min_size=1, max_size=4)


def by_brute_force(rows: dict[str, str], writes: tuple[Call, ...]) -> bool:
    """Whether some subset with all acknowledged writes, in some order that keeps to real time, leaves ``rows``."""
    acknowledged = [write for write in writes if write.outcome == "ok"]
    optional = [write for write in writes if write.outcome != "ok"]
    for count in range(len(optional) + 1):
        for some in combinations(optional, count):
            for order in permutations([*acknowledged, *some]):
                if any(
                    late.returned is not None and late.returned < early.invoked
                    for early, late in combinations(order, 2)
                ):
                    continue
                left: dict[str, str | None] = {}
                for each in order:
                    left.update(each.rows)
                if left == rows:
                    return True
    return False


@given(shapes, st.data())
def test_the_verdict_is_that_of_trying_every_order(keys: list[tuple[str, ...]], data: st.DataObject) -> None:
    # write n is invoked at its number, and acknowledged, if it is, at a later moment
    writes = tuple(
        write(f"w{n}", tuple((key, f"v{n}") for key in each), n, data.draw(st.none() | st.integers(n, n + 3)))
        for n, each in enumerate(keys)
    )
    values = [f"v{n}" for n in range(len(writes))]
    rows = {key: value for key in KEYS if (value := data.draw(st.none() | st.sampled_from(values))) is not None}
    assert (explanation(rows, writes) is not None) == by_brute_force(rows, writes)
    assert (judge(rows, History(writes)) is None) == by_brute_force(rows, writes)
