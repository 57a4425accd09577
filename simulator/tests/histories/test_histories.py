from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from kit.commands import call
from kit.random_histories import bent, simulated
from memwal.errors import ArtifactError, InvalidArgument
from memwal_sim.histories.linearization import ObjectStep, linearization
from memwal_sim.histories.operations import Operation, Outcome, Value, dumps, parse
from memwal_sim.histories.verdicts import check_batches, check_history, check_registers, search_history
from memwal_sim.histories.zones import conflict_of


def write(value: Value, invoked: int, returned: int | None, outcome: Outcome = "ok", **more: str) -> Operation:
    fields = {"key": "k", "name": f"w{value}", **more}
    if returned is None:
        outcome = "unknown"
    return Operation(kind="write", value=value, invoked=invoked, returned=returned, outcome=outcome, **fields)


def read(value: Value, invoked: int, returned: int, **more: str) -> Operation:
    return Operation(
        kind="read", value=value, invoked=invoked, returned=returned, **{"key": "k", "name": f"r{invoked}", **more}
    )


def kind(*operations: Operation, initial: Value = None) -> str:
    """Kind of the conflict, the same by search as by zones except for its name; empty if there is none."""
    found, searched = check_history(operations, initial), search_history(operations, initial)
    assert (found is None) == (searched is None)
    return found.kind if found is not None else ""


def test_two_algorithms_agree_on_ten_thousand_random_histories() -> None:
    random, seen = Random(20261121), Counter[str]()
    for number in range(10_000):
        history = simulated(random, random.randint(2, 14), random.randint(1, 5))
        bends = number % 3
        for _ in range(bends):
            history = bent(random, history)
        zones, search = conflict_of(history), search_history(history)
        assert (zones is None) == (search is None), dumps(history)
        assert bends or zones is None, dumps(history)
        seen["possible" if zones is None else zones.kind] += 1
    assert seen["possible"] > 5_000
    assert min(seen[kind] for kind in ("overlapping", "inside", "refused", "early")) > 50


def test_search_agrees_with_trying_every_order() -> None:
    random, seen = Random(7), Counter[bool]()
    for _ in range(400):
        history = bent(random, simulated(random, 5, 3))
        counted = [op for op in history if op.counts]
        seen[_any_order(counted)] += 1
        assert (search_history(history) is None) == _any_order(counted), dumps(history)
    assert min(seen.values()) > 50


def _any_order(operations: list[Operation]) -> bool:
    optional = [op for op in operations if op.outcome == "unknown"]
    for chosen in range(1 << len(optional)):
        left_out = [op for at, op in enumerate(optional) if not chosen >> at & 1]
        for order in permutations([op for op in operations if op not in left_out]):
            if _allowed(order):
                return True
    return False


def _allowed(order: tuple[Operation, ...]) -> bool:
    held: Value = None
    for at, op in enumerate(order):
        if any(later.end < op.invoked for later in order[at + 1 :]):
            return False
        if op.kind == "write":
            held = op.value
        elif op.value != held:
            return False
    return True


def test_a_read_after_a_write_finds_it() -> None:
    assert kind(write("a", 0, 1), read("a", 2, 3)) == ""
    assert kind(write("a", 0, 1), read(None, 2, 3)) == "inside"
    assert kind(write("a", 0, 1), read(None, 1, 3)) == ""


def test_once_a_read_found_the_new_value_no_later_one_finds_the_old() -> None:
    concurrent = write("b", 2, 9)
    assert kind(write("a", 0, 1), concurrent, read("b", 3, 4), read("b", 5, 6)) == ""
    assert kind(write("a", 0, 1), concurrent, read("a", 3, 4), read("b", 5, 6)) == ""
    assert kind(write("a", 0, 1), concurrent, read("b", 3, 4), read("a", 5, 6)) == "inside"
    twice = (read("b", 1, 4), read("a", 5, 6), read("b", 7, 8))
    assert kind(write("a", 0, 2), write("b", 0, 9), *twice) == "overlapping"


def test_a_write_of_unknown_outcome_may_be_found_late_or_never() -> None:
    for unheard in (write("b", 2, None), write("b", 2, 3, "unknown")):
        assert kind(write("a", 0, 1), unheard, read("a", 4, 5)) == ""
        assert kind(write("a", 0, 1), unheard, read("a", 4, 5), read("b", 6, 7)) == ""
        assert kind(write("a", 0, 1), unheard, read("b", 4, 5), read("a", 6, 7)) == "inside"


def test_a_write_of_unknown_outcome_is_not_found_before_it_began() -> None:
    assert kind(read("a", 0, 1), write("a", 2, None)) == "early"


def test_a_write_that_failed_for_certain_is_never_found() -> None:
    assert kind(write("a", 0, 1, "failed"), read(None, 2, 3)) == ""
    assert kind(write("a", 0, 1, "failed"), read("a", 2, 3)) == "refused"


def test_a_value_that_nobody_wrote_is_never_found() -> None:
    assert kind(read("a", 0, 1)) == "unwritten"
    assert kind(read("a", 0, 1), initial="a") == ""


def test_the_initial_value_is_gone_after_the_first_write() -> None:
    assert kind(write("a", 2, 3), read("first", 0, 1), initial="first") == ""
    assert kind(write("a", 0, 1), read("first", 2, 3), initial="first") == "inside"


def test_reads_without_an_answer_say_nothing() -> None:
    lost = Operation(key="k", kind="read", value="never written", invoked=0, returned=None, outcome="unknown")
    assert kind(lost, write("a", 0, 1)) == ""


def test_deletes_and_repeated_values_are_searched() -> None:
    deleted = write(None, 2, 3)
    assert kind(write("a", 0, 1), deleted, read(None, 4, 5)) == ""
    assert kind(write("a", 0, 1), deleted, read("a", 4, 5)) == "unordered"
    assert kind(write("a", 0, 1), write("b", 2, 3), write("a", 4, 5), read("a", 6, 7)) == ""
    with pytest.raises(InvalidArgument, match="written once"):
        conflict_of([write("a", 0, 1), write("a", 2, 3)])


def test_a_conflict_is_the_few_operations_that_contradict_each_other() -> None:
    history = [write(f"v{n}", 10 * n, 10 * n + 1) for n in range(50)]
    history += [read(f"v{n}", 10 * n + 2, 10 * n + 3) for n in range(50)]
    stale = read("v20", 305, 306)
    found = check_history([*history, stale])
    assert found is not None
    assert found.kind == "inside"
    assert len(found.operations) == 3
    assert check_history(found.operations) is not None
    for left_out in found.operations:
        fewer = check_history([op for op in found.operations if op is not left_out])
        assert fewer is None or fewer.kind == "unwritten"
    assert found.reason == (
        "the register has to hold 'v20' from 201 (wv20 (write of k = 'v20') ended) to 305 (r305 (read of k = 'v20') "
        "began), and 'v21' came and was over between 210 (wv21 (write of k = 'v21') began) and 211 (wv21 (write of k = "
        "'v21') ended)"
    )


def test_registers_are_checked_key_by_key() -> None:
    fine = [write("a", 0, 1, key="fine"), read("a", 2, 3, key="fine")]
    stale = [write("a", 0, 1, key="stale"), read(None, 2, 3, key="stale")]
    assert list(check_registers([*fine, *stale])) == ["stale"]
    assert check_registers([read("x", 0, 1, key="fine")], {"fine": "x"}) == {}
    with pytest.raises(InvalidArgument, match="2 keys"):
        check_history([*fine, *stale])


def test_rows_of_one_batch_are_seen_together_or_not_at_all() -> None:
    both = [write("1", 0, 9, key=key, batch="w") for key in "ab"]
    assert check_batches([*both, *(read("1", 2, 3, key=key, batch="r") for key in "ab")]) is None
    torn = [read("1", 2, 3, key="a", batch="r"), read(None, 2, 3, key="b", batch="r")]
    assert check_registers([*both, *torn]) == {}
    found = check_batches([*both, *torn])
    assert found is not None
    assert len(found.operations) == 4


def test_reads_of_one_batch_are_of_one_moment() -> None:
    one, two = write("1", 0, 1, key="a"), write("2", 4, 5, key="b")
    before = [read(None, 2, 3, key="a", batch="r"), read(None, 2, 3, key="b", batch="r")]
    assert check_batches([one, two, *(read(v, 2, 6, key=k, batch="r") for k, v in (("a", "1"), ("b", "2")))]) is None
    assert check_batches([one, two, *before]) is not None


def test_a_batch_is_one_operation() -> None:
    with pytest.raises(InvalidArgument, match="not a single operation"):
        check_batches([write("1", 0, 9, key="a", batch="w"), write("1", 1, 9, key="b", batch="w")])


def test_any_object_can_be_searched() -> None:
    def push(state: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*state, value)

    def pop(state: tuple[int, ...], value: int) -> tuple[int, ...] | None:
        return state[:-1] if state and state[-1] == value else None

    def step(name: str, apply: object, invoked: int, returned: int) -> ObjectStep[tuple[int, ...]]:
        return ObjectStep(name=name, invoked=invoked, returned=returned, apply=apply)  # type: ignore[arg-type]

    pushes = [step("push 1", lambda s: push(s, 1), 0, 5), step("push 2", lambda s: push(s, 2), 0, 5)]
    order = linearization([*pushes, step("pop 1", lambda s: pop(s, 1), 6, 7)], ())
    assert order is not None
    assert [each.name for each in order] == ["push 2", "push 1", "pop 1"]
    assert linearization([*pushes, step("pop 3", lambda s: pop(s, 3), 6, 7)], ()) is None


def test_a_history_survives_its_text_form() -> None:
    history = (*simulated(Random(3), 30, 4), write(7, 0, 1, batch="b"), write(None, 2, None))
    assert parse(dumps(history), "h") == history


LINE = {"key": "k", "kind": "write", "value": "v", "invoked": 0, "returned": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"key": "k", "key": "k"}', "a field is there twice"),
        (json.dumps({**LINE, "extra": 1}), "unknown field 'extra'"),
        (json.dumps({k: v for k, v in LINE.items() if k != "returned"}), "field 'returned' is missing"),
        (json.dumps({**LINE, "value": True}), "field 'value' cannot be true"),
        (json.dumps({**LINE, "invoked": 0.5}), "field 'invoked' cannot be 0.5"),
        (json.dumps({**LINE, "kind": "cas"}), "kind 'cas' must be one of write, read"),
        (json.dumps({**LINE, "outcome": "maybe"}), "outcome 'maybe' is none of ok, unknown, failed"),
        (json.dumps({**LINE, "returned": -1}), "before it was invoked"),
        (json.dumps({**LINE, "returned": None, "outcome": "ok"}), "never returned"),
        ("[" * 100_000, "nested deeper than 64 levels"),
    ],
)
def test_a_line_that_is_no_operation_is_refused_with_its_number(line: str, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason) as refused:
        parse(json.dumps(LINE) + "\n" + line + "\n", "h.jsonl")
    assert "h.jsonl, line 2" in str(refused.value)


def stored(folder: Path, *operations: Operation) -> str:
    path = folder / "history.jsonl"
    path.write_text(dumps(operations), "utf-8")
    return str(path)


def test_the_command_says_that_a_history_is_possible(tmp_path: Path) -> None:
    path = stored(tmp_path, write("a", 0, 1), read("a", 2, 3))
    assert call("check-history", path)[:2] == (0, "possible: 2 operations on 1 key\n")
    assert json.loads(call("check-history", path, "--json")[1]) == {"operations": 2, "keys": 1, "conflicts": []}


def test_the_command_shows_a_conflict_and_writes_it_as_a_history(tmp_path: Path) -> None:
    path = stored(tmp_path, write("a", 0, 1), read("a", 2, 3), read(None, 4, 5))
    code, out, _ = call("check-history", path, "--conflict", str(tmp_path / "conflict.jsonl"))
    assert code == 1
    assert "impossible: key k" in out
    assert parse((tmp_path / "conflict.jsonl").read_text("utf-8"), "c") == (read(None, 4, 5), write("a", 0, 1))
    (found,) = json.loads(call("check-history", path, "--json")[1])["conflicts"]
    assert (found["key"], found["kind"], len(found["operations"])) == ("k", "inside", 2)


def test_the_command_checks_batches_if_asked(tmp_path: Path) -> None:
    torn = [read("1", 2, 3, key="a", batch="r"), read(None, 2, 3, key="b", batch="r")]
    path = stored(tmp_path, *(write("1", 0, 9, key=key, batch="w") for key in "ab"), *torn)
    assert call("check-history", path)[0] == 0
    code, out, _ = call("check-history", path, "--batches")
    assert code == 1
    assert "impossible: all keys at once" in out


def test_the_command_takes_an_initial_value(tmp_path: Path) -> None:
    path = stored(tmp_path, read("first", 0, 1))
    assert call("check-history", path)[0] == 1
    assert call("check-history", path, "--initial", "first")[0] == 0


def test_the_command_refuses_what_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("{}\n", "utf-8")
    code, _, err = call("check-history", str(tmp_path / "no"))
    assert (code, "no, line 1" in err) == (2, True)
    code, _, err = call("check-history", str(tmp_path / "gone"))
    assert (code, "error:" in err) == (2, True)
    (tmp_path / "bytes").write_bytes(b"\xff\n")
    assert call("check-history", str(tmp_path / "bytes"))[0] == 2
