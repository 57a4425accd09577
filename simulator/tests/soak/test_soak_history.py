"""What the history of a soak takes for a broken promise, and what not."""

from __future__ import annotations

from memwal.violations import Violation
from memwal_sim.soak.history import SoakHistory


class Scene:
    """A history with writes by number, and reads judged at once."""

    def __init__(self) -> None:
        self.history = SoakHistory(4)

    def write(self, begun: float, done: float | None, *keys: str) -> str:
        number, value = self.history.begin("w", keys, begun)
        if done is not None:
            self.history.acknowledge(number, done)
        return value

    def read(self, start: float, end: float, **rows: str) -> Violation | None:
        return self.history.end_read(self.history.start_read(start), rows, end)


def test_an_acknowledged_write_has_to_be_read_by_whoever_begins_after_it() -> None:
    scene = Scene()
    value = scene.write(1, 2, "k")
    assert scene.read(3, 4, k=value) is None
    found = scene.read(3, 4)
    assert found is not None
    assert (found.clause, found.oracle) == ("WAL-001", "strong reads see acknowledged writes")
    assert scene.read(2, 4) is None


def test_a_value_is_stale_once_a_later_write_was_acknowledged_before_the_read() -> None:
    scene = Scene()
    old, new = scene.write(1, 2, "k"), scene.write(3, 6, "k")
    assert scene.read(5, 9, k=old) is None
    assert scene.read(7, 9, k=new) is None
    found = scene.read(7, 9, k=old)
    assert found is not None
    assert found.clause == "WAL-001"


def test_of_two_writes_under_way_at_once_either_may_be_the_last() -> None:
    scene = Scene()
    one, two = scene.write(1, 6, "k"), scene.write(2, 5, "k")
    assert scene.read(7, 8, k=one) is None
    assert scene.read(7, 8, k=two) is None


def test_a_write_that_was_not_acknowledged_may_appear_and_then_stays() -> None:
    scene = Scene()
    old, unsure = scene.write(1, 2, "k"), scene.write(3, None, "k")
    assert scene.read(10, 11, k=old) is None
    assert scene.read(12, 13, k=unsure) is None
    found = scene.read(14, 15, k=old)
    assert found is not None
    assert found.clause == "WAL-001"


def test_a_value_that_nobody_wrote_under_that_key_is_found() -> None:
    scene = Scene()
    value = scene.write(1, 2, "k")
    other = scene.read(3, 4, k=value, l=value)
    strange = scene.read(3, 4, k="zzzz")
    assert other is not None
    assert other.clause == "AMB-22"
    assert strange is not None
    assert strange.clause == "AMB-22"


def test_a_write_is_read_whole() -> None:
    whole, torn = Scene(), Scene()
    for scene in (whole, torn):
        before, after = scene.write(1, 2, "k", "l"), scene.write(3, None, "k", "l")
    assert whole.read(4, 5, k=after, l=after) is None
    found = torn.read(4, 5, k=after, l=before)
    assert found is not None
    assert (found.clause, found.reason) == ("AMB-22", "write 1 is there under k and not under l")


def test_an_eventual_read_may_lag_and_may_not_go_back() -> None:
    scene = Scene()
    old, new = scene.write(1, 2, "k"), scene.write(3, 4, "k")
    assert scene.history.went_back({"k": old}, {"k": old}) is None
    assert scene.history.went_back({"k": old}, {"k": new}) is None
    found = scene.history.went_back({"k": new}, {"k": old})
    gone = scene.history.went_back({"k": new}, {})
    assert found is not None
    assert gone is not None
    assert found.clause == gone.clause == "READ-009"


def test_what_is_forgotten_is_still_known_to_be_stale() -> None:
    scene = Scene()
    old, new = scene.write(1, 2, "k"), scene.write(3, 4, "k")
    scene.history.forget(10)
    assert scene.read(11, 12, k=new) is None
    found = scene.read(11, 12, k=old)
    assert found is not None
    assert (found.clause, found.reason) == ("WAL-001", "k holds '0.~~', which is long replaced")


def test_nothing_is_forgotten_that_a_read_under_way_may_return() -> None:
    scene = Scene()
    old = scene.write(1, 2, "k")
    handle = scene.history.start_read(3)
    scene.write(4, 5, "k")
    scene.history.forget(10)
    assert scene.history.end_read(handle, {"k": old}, 11) is None
