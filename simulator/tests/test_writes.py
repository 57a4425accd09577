from __future__ import annotations

from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st
from memwal.effects import Note
from memwal_sim.scenarios.writes import Write, Writes, explain, judge, observe_writes

V1, V2 = Write("w1", (("k", "v1"),)), Write("w2", (("k", "v2"),))
PAIR = Write("w3", (("k", "v3"), ("l", "v3")))


def ghosts(invoked: tuple[Write, ...], acknowledged: tuple[Write, ...] = (), *before: tuple[Write, Write]) -> Writes:
    return Writes(frozenset(invoked), frozenset(acknowledged), frozenset(before))


def broken(rows: dict[str, str], writes: Writes) -> str:
    found = judge(rows, writes)
    return "" if found is None else f"{found.clause}: {found.reason}"


def test_notes_of_clients_become_ghosts_in_real_time_order() -> None:
    value = Writes()
    for note in (
        Note("write_invoked", (("rows", (("k", "v1"),)), ("write", "w1"))),
        Note("claimed", (("epoch", 1),)),
        Note("write_acknowledged", (("write", "w1"),)),
        Note("write_invoked", (("rows", (("k", "v2"),)), ("write", "w2"))),
    ):
        value = observe_writes(value, "writer-1", note)
    assert value == ghosts((V1, V2), (V1,), (V1, V2))


def test_an_acknowledged_write_has_to_be_there() -> None:
    assert broken({"k": "v1"}, ghosts((V1,), (V1,))) == ""
    assert broken({}, ghosts((V1,), (V1,))) == "WAL-001: write w1 was acknowledged, and k holds nothing after the crash"


def test_an_unacknowledged_write_may_be_there_or_not() -> None:
    assert broken({"k": "v1"}, ghosts((V1,))) == ""
    assert broken({}, ghosts((V1,))) == ""


def test_a_write_that_was_never_invoked_may_not_be_there() -> None:
    assert broken({"k": "v2"}, ghosts((V1,))) == (
        "AMB-22: k=v2 is there after the crash, and no write that was invoked put it"
    )


def test_of_concurrent_acknowledged_writes_either_may_win() -> None:
    for value in ("v1", "v2"):
        assert broken({"k": value}, ghosts((V1, V2), (V1, V2))) == ""


def test_of_ordered_acknowledged_writes_the_later_has_to_win() -> None:
    ordered = ghosts((V1, V2), (V1, V2), (V1, V2))
    assert broken({"k": "v2"}, ordered) == ""
    assert broken({"k": "v1"}, ordered) == (
        "WAL-001: write w2 was acknowledged, and k holds the older v1 after the crash"
    )


def test_an_unacknowledged_later_write_leaves_the_earlier_or_replaces_it() -> None:
    ordered = ghosts((V1, V2), (V1,), (V1, V2))
    assert broken({"k": "v1"}, ordered) == ""
    assert broken({"k": "v2"}, ordered) == ""


def test_a_write_is_there_whole_or_not_at_all() -> None:
    assert broken({"k": "v3", "l": "v3"}, ghosts((PAIR,))) == ""
    assert broken({"k": "v3"}, ghosts((PAIR,))) == "AMB-22: write w3 left k and not l: it is there in part"
    assert broken({"l": "v3", "k": "v1"}, ghosts((V1, PAIR), (V1,), (V1, PAIR))) == (
        "WAL-019: no order of the writes explains the rows after the crash"
    )


def test_two_writes_cannot_each_come_before_the_other() -> None:
    one, two = Write("a", (("k", "a"), ("l", "a"))), Write("b", (("k", "b"), ("l", "b")))
    assert broken({"k": "a", "l": "b"}, ghosts((one, two), (one, two))) == (
        "WAL-019: no order of the writes explains the rows after the crash"
    )


def test_the_explanation_is_an_order_that_leaves_the_rows() -> None:
    assert explain({"k": "v1", "l": "v3"}, ghosts((V1, PAIR), (V1,))) == (PAIR, V1)


KEYS = ("k", "l")
shapes = st.lists(st.sampled_from([("k",), ("l",), ("k", "l")]), min_size=1, max_size=4)


def by_brute_force(rows: dict[str, str], writes: Writes) -> bool:
    """Whether some subset with all acknowledged writes, in some order that respects ``before``, leaves ``rows``."""
    optional = sorted(writes.invoked - writes.acknowledged)
    for count in range(len(optional) + 1):
        for some in combinations(optional, count):
            for order in permutations(sorted([*writes.acknowledged, *some])):
                if any((late, early) in writes.before for early, late in combinations(order, 2)):
                    continue
                left: dict[str, str] = {}
                for write in order:
                    left.update(write.rows)
                if left == rows:
                    return True
    return False


@given(shapes, st.data())
def test_the_verdict_is_that_of_trying_every_order(keys: list[tuple[str, ...]], data: st.DataObject) -> None:
    invoked = [Write(f"w{n}", tuple((key, f"v{n}") for key in each)) for n, each in enumerate(keys)]
    acknowledged = data.draw(st.sets(st.sampled_from(invoked)))
    # real time as intervals: write n is invoked at its number, and acknowledged at a later moment
    ends = [n + data.draw(st.integers(1, 4)) for n in range(len(invoked))]
    before = {
        (a, b) for n, a in enumerate(invoked) for m, b in enumerate(invoked) if a in acknowledged and ends[n] <= m
    }
    writes = Writes(frozenset(invoked), frozenset(acknowledged), frozenset(before))
    values = [f"v{n}" for n in range(len(invoked))]
    rows = {key: value for key in KEYS if (value := data.draw(st.none() | st.sampled_from(values))) is not None}
    assert (explain(rows, writes) is not None) == by_brute_force(rows, writes)
    assert (judge(rows, writes) is None) == by_brute_force(rows, writes)
