"""Faults, schedules and crash states of the gate."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import obstore
import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.gate import (
    Address,
    Apply,
    Diverged,
    Do,
    FaultRule,
    Gate,
    GateLimits,
    GateRequest,
    Reply,
    RequestFate,
    Schedule,
    Stuck,
    Unanswered,
)
from memwal_conformance.gate.requests import class_of, name_of, region_of
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError
from obstore.store import S3Store

REGION = "t/_mem_wal/0a0b0c0d-0000-4000-8000-000000000001"
WAL_1 = f"{REGION}/wal/1{'0' * 63}.arrow"
WAL_2 = f"{REGION}/wal/01{'0' * 62}.arrow"
MANIFEST_3 = f"{REGION}/manifest/11{'0' * 62}.binpb"
HINT = f"{REGION}/manifest/version_hint.json"
BLOOM = f"{REGION}/0123abcd_gen_2/bloom_filter.bin"
VERSION_1 = "t/_versions/18446744073709551614.manifest"


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def client(gate: Gate, actor: str = "writer-1", retries: int = 0) -> S3Store:
    options = gate.storage_options(actor)
    return S3Store(gate.bucket, config=options, retry_config={"max_retries": retries})


def create(gate: Gate, path: str, data: bytes = b"x", actor: str = "writer-1", retries: int = 0) -> str:
    """What a conditional put shows its caller."""
    try:
        obstore.put(client(gate, actor, retries), path, data, mode="create")
    except AlreadyExistsError:
        return "already exists"
    except BaseError as error:
        return type(error).__name__
    return "created"


def background(function: Any, *arguments: Any) -> Future[Any]:
    done: Future[Any] = Future()
    threading.Thread(target=lambda: done.set_result(function(*arguments)), daemon=True).start()
    return done


def fates(gate: Gate) -> list[tuple[str, str]]:
    return [(entry.operation, entry.fate.value) for entry in gate.log]


# ---------------------------------------------------------------------------------------------------------------------
# Addresses


@pytest.mark.parametrize(
    ("path", "class_", "name"),
    [
        (WAL_2, "wal", "wal/@2"),
        (MANIFEST_3, "manifest", "manifest/@3"),
        (HINT, "hint", "hint"),
        (BLOOM, "generation", "gen/@2/bloom_filter.bin"),
        (f"{REGION}/0123abcd_gen_2/_versions/18446744073709551613.manifest", "generation", "gen/@2/versions/@2"),
        (f"{REGION}/0123abcd_gen_2/data/1f.lance", "generation", "gen/@2/data/*.lance"),
        (VERSION_1, "base", "versions/@1"),
        ("a/b/t/data/1f.lance", "base", "data/*.lance"),
        ("t/_versions/", "base", "_versions"),
        (f"{REGION}/manifest/", "manifest", "manifest"),
        (f"{REGION}/", "region", "region"),
        ("t/_mem_wal/", "region", "_mem_wal"),
    ],
)
def test_an_object_has_a_class_and_a_symbolic_name(path: str, class_: str, name: str) -> None:
    assert (class_of(path), name_of(path)) == (class_, name)


def test_the_region_of_an_object_is_known() -> None:
    assert (region_of(WAL_1), region_of(VERSION_1)) == ("0a0b0c0d-0000-4000-8000-000000000001", "")


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("wal/@1", WAL_1, True),
        ("wal/@1", WAL_2, False),
        ("wal/*", WAL_2, True),
        ("gen/@2/**", BLOOM, True),
        ("gen/*", BLOOM, False),
        ("**/bloom_filter.bin", BLOOM, True),
        ("**/versions/@1", VERSION_1, True),
        ("hint", HINT, True),
        ("hin?", HINT, False),
        ("data/*.lance", "t/data/1f.lance", True),
    ],
)
def test_a_pattern_is_about_whole_names(pattern: str, path: str, fits: bool) -> None:
    with Gate() as gate:
        obstore.put(client(gate), path, b"")
        found = [Address(name=pattern).describes(entry) for entry in gate.log]
    assert found == [fits]


@pytest.mark.parametrize(
    "fields",
    [{"class_": "wall"}, {"operation": "PATCH"}, {"occurrence": 0}],
)
def test_a_slip_in_an_address_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Address(**fields)


def test_faults_are_data() -> None:
    text = """[{"at": {"actor": "writer-1", "class": "wal", "operation": "PUT", "name": "wal/@3", "occurrence": 2},
                "do": "delay", "until": {"class": "hint"}, "label": "late"},
               {"at": {"operation": "LIST", "occurrence": null}, "do": "fail", "status": 500, "label": "no lists"}]"""
    rules = [FaultRule.from_json(each) for each in json.loads(text)]
    at = Address(actor="writer-1", class_="wal", operation="PUT", name="wal/@3", occurrence=2)
    assert rules[0] == FaultRule(at=at, do=Do.DELAY, until=Address(class_="hint"), label="late")
    assert [rule.to_json() for rule in rules] == json.loads(text)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"at": {}, "do": "explode"},
        {"at": {"who": "me"}, "do": "lose"},
        {"at": {"occurrence": "1"}, "do": "lose"},
        {"at": {}, "do": "lose", "status": 500},
        {"at": {}, "do": "fail", "status": 299},
        {"at": {}, "do": "refuse", "status": 503},
        {"at": {}, "do": "delay"},
        {"at": {}, "do": "lose", "until": {}},
        {"at": {}, "do": "lose", "extra": 1},
    ],
)
def test_what_is_no_fault_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        FaultRule.from_json(value)


# ---------------------------------------------------------------------------------------------------------------------
# Actions


@pytest.mark.parametrize(
    ("do", "status", "shown", "applied", "fate", "got"),
    [
        (Do.REFUSE, 0, "AlreadyExistsError", False, RequestFate.REFUSED, 409),
        (Do.REFUSE, 403, "PermissionDeniedError", False, RequestFate.REFUSED, 403),
        (Do.FAIL, 0, "GenericError", False, RequestFate.THROTTLED, 503),
        (Do.FAIL, 500, "GenericError", False, RequestFate.FAILED, 500),
        (Do.LOSE, 0, "GenericError", False, RequestFate.LOST, 0),
        (Do.APPLY_THEN_LOSE, 0, "GenericError", True, RequestFate.APPLIED, 0),
        (Do.APPLY_THEN_FAIL, 0, "GenericError", True, RequestFate.APPLIED, 500),
        (Do.HALF, 0, "GenericError", True, RequestFate.HALF, 200),
    ],
)
def test_a_fault_does_to_the_store_and_shows_the_client_what_it_says(
    do: Do, status: int, shown: str, applied: bool, fate: RequestFate, got: int
) -> None:
    rule = FaultRule(at=Address(class_="wal", operation="PUT"), do=do, status=status)
    with Gate(rules=[rule]) as gate:
        found = create(gate, WAL_1)
        assert found in (shown, "already exists") if do is Do.REFUSE and not status else found == shown
        assert (WAL_1 in gate.contents) is applied
        assert gate.log[0].fate is fate
        assert gate.log[0].rule == rule.label
        assert gate.log[0].got == got
        assert gate.matched() == {rule.label: (1,)}
        assert gate.inconclusive == ""
        assert create(gate, WAL_2) == "created"


def test_a_client_that_repeats_a_put_whose_answer_was_lost_loses_against_itself() -> None:
    rule = FaultRule(at=Address(class_="wal", operation="CREATE"), do=Do.APPLY_THEN_FAIL)
    with Gate(rules=[rule]) as gate:
        assert create(gate, WAL_1, retries=3) == "already exists"
        assert fates(gate) == [("CREATE", "applied"), ("CREATE", "normal")]
        assert [entry.status for entry in gate.log] == [200, 412]
        assert len(gate.prefixes) == 2


def test_half_of_a_reply_to_a_read_is_seen_as_an_error_by_the_client() -> None:
    rule = FaultRule(at=Address(operation="GET"), do=Do.HALF)
    with Gate(rules=[rule]) as gate:
        obstore.put(client(gate), WAL_1, b"x" * 1000)
        with pytest.raises(GenericError):
            obstore.get(client(gate), WAL_1).bytes()
        assert bytes(obstore.get(client(gate), WAL_1).bytes()) == b"x" * 1000


def test_a_request_that_is_held_before_is_carried_out_when_it_is_released() -> None:
    rule = FaultRule(at=Address(class_="wal"), do=Do.HOLD_BEFORE)
    with Gate(rules=[rule]) as gate:
        first = background(create, gate, WAL_1)
        gate.wait_held(rule)
        assert [str(request) for request in gate.held(rule)] == ["writer-1 CREATE wal/@1"]
        assert create(gate, WAL_1, b"other", "writer-2") == "created"
        gate.release(rule)
        assert first.result(10) == "already exists"
        assert [(entry.actor, entry.number) for entry in gate.log] == [("writer-2", 2), ("writer-1", 1)]


def test_a_request_that_is_held_after_has_been_carried_out_while_its_client_waits() -> None:
    rule = FaultRule(at=Address(class_="wal"), do=Do.HOLD_AFTER)
    with Gate(rules=[rule]) as gate:
        first = background(create, gate, WAL_1)
        gate.wait_held(rule)
        assert create(gate, WAL_1, b"other", "writer-2") == "already exists"
        assert not first.done()
        assert gate.log[0].fate is RequestFate.PENDING
        gate.release(rule)
        assert first.result(10) == "created"
        assert gate.log[0].fate is RequestFate.NORMAL


def test_a_delayed_request_comes_after_the_one_that_it_waits_for() -> None:
    until = Address(actor="writer-2", class_="hint", operation="PUT")
    rule = FaultRule(at=Address(class_="manifest"), do=Do.DELAY, until=until)
    with Gate(rules=[rule]) as gate:
        first = background(create, gate, MANIFEST_3)
        gate.wait_held(rule)
        obstore.put(client(gate, "writer-2"), HINT, b"{}")
        assert first.result(10) == "created"
        assert [entry.name for entry in gate.log] == ["hint", "manifest/@3"]


def test_a_request_whose_client_has_given_up_may_be_carried_out_late() -> None:
    rule = FaultRule(at=Address(class_="wal"), do=Do.HOLD_BEFORE)
    with Gate(rules=[rule]) as gate:
        options = gate.storage_options("writer-1", timeout="2s")
        impatient = S3Store(gate.bucket, config=options, retry_config={"max_retries": 0})
        with pytest.raises(BaseError):
            obstore.put(impatient, WAL_1, b"x", mode="create")
        gate.wait(lambda: not gate.connections)
        assert len(gate.contents) == 0
        gate.release(rule)
        gate.wait_for(Address(class_="wal"))
        assert gate.log[0].fate is RequestFate.LATE
        assert WAL_1 in gate.contents


def test_a_duplicate_is_carried_out_twice() -> None:
    rule = FaultRule(at=Address(class_="wal"), do=Do.DUPLICATE)
    with Gate(rules=[rule]) as gate:
        assert create(gate, WAL_1) == "already exists"
        assert [(e.status, e.fate) for e in gate.log] == [(200, RequestFate.NORMAL), (412, RequestFate.DUPLICATE)]


@pytest.mark.parametrize(("do", "applied"), [(Do.KILL_BEFORE, False), (Do.KILL_AFTER, True)])
def test_a_killed_actor_is_told_to_die_and_never_answered_again(do: Do, applied: bool) -> None:
    killed: list[str] = []
    with Gate(rules=[FaultRule(at=Address(class_="wal"), do=do)], kill=killed.append) as gate:
        first = background(create, gate, WAL_1)
        gate.wait(lambda: len(gate.log) == 1)
        assert killed == ["writer-1"]
        second = background(create, gate, WAL_2)
        gate.wait(lambda: len(gate.log) == 2)
        assert create(gate, HINT, actor="writer-2") == "created"
        assert not first.done()
        assert not second.done()
        assert (WAL_1 in gate.contents, WAL_2 in gate.contents) == (applied, False)
        assert gate.log[1].fate is RequestFate.SILENT
    assert first.result(10) == "GenericError"
    assert second.result(10) == "GenericError"


def test_a_rule_counts_its_occurrences_per_rule_and_acts_at_the_named_one() -> None:
    rule = FaultRule(at=Address(actor="writer-2", operation="CREATE", occurrence=2), do=Do.FAIL)
    with Gate(rules=[rule]) as gate:
        shown = [create(gate, f"k{n}", actor=f"writer-{1 + n % 2}") for n in range(6)]
    assert shown == ["created", "created", "created", "GenericError", "created", "created"]


def test_a_rule_is_about_every_object_of_a_request() -> None:
    rule = FaultRule(at=Address(operation="DELETE", name="wal/@2"), do=Do.REFUSE, status=403)
    with Gate(rules=[rule]) as gate:
        for path in (WAL_1, WAL_2):
            create(gate, path)
        with pytest.raises(BaseError):
            obstore.delete(client(gate), [WAL_1, WAL_2])
        assert len(gate.contents) == 2


def test_a_rule_that_never_matched_makes_the_run_inconclusive() -> None:
    rules = [
        FaultRule(at=Address(class_="wal"), do=Do.DUPLICATE),
        FaultRule(at=Address(name="wal/@9"), do=Do.LOSE, label="nine"),
    ]
    with Gate(rules=rules) as gate:
        create(gate, WAL_1)
        assert gate.inconclusive == "rules that never acted: nine"


def test_a_hook_may_answer_by_itself_or_leave_it_to_the_rules() -> None:
    async def hook(request: GateRequest, apply: Apply) -> Reply | Unanswered | None:
        if request.name == "wal/@1":
            return Unanswered.RESET
        return apply() if request.name == "wal/@2" else None

    with Gate(hook=hook, rules=[FaultRule(at=Address(class_="hint"), do=Do.FAIL)]) as gate:
        assert [create(gate, path) for path in (WAL_1, WAL_2, HINT)] == ["GenericError", "created", "GenericError"]
        assert [entry.fate for entry in gate.log] == [RequestFate.LOST, RequestFate.NORMAL, RequestFate.THROTTLED]


def test_a_hook_that_breaks_is_reported_where_the_gate_is_closed() -> None:
    def hook(_request: GateRequest, _apply: Apply) -> None:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"), Gate(hook=hook) as gate:
        assert create(gate, WAL_1) == "GenericError"


# ---------------------------------------------------------------------------------------------------------------------
# Crash states


def test_every_change_leaves_a_crash_state_with_what_was_promised_by_then() -> None:
    with Gate() as gate:
        assert create(gate, WAL_1, b"one") == "created"
        gate.acknowledge("writer-1", 1)
        assert create(gate, WAL_1, b"other") == "already exists"
        obstore.put(client(gate), WAL_2, b"two")
        gate.acknowledge("writer-1", 2)
        obstore.delete(client(gate), WAL_1)
        states = gate.prefixes
        expected: list[tuple[dict[str, bytes], list[object]]] = [
            ({}, []),
            ({WAL_1: b"one"}, [1]),
            ({WAL_1: b"one", WAL_2: b"two"}, [1, 2]),
            ({WAL_2: b"two"}, [1, 2]),
        ]
        assert [(dict(s.contents.objects), [a.what for a in s.acknowledged]) for s in states] == expected
        assert [states[n] for n in range(4)] == list(states)
        assert [s.order for s in states] == [0, 1, 3, 4]
        assert states[-1].contents == gate.contents
        with gate.reopen(states[1]) as copy:
            assert create(copy, WAL_1) == "already exists"
            assert create(copy, WAL_2) == "created"
        assert len(gate.contents) == 1
        with pytest.raises(IndexError):
            states[4]


def test_acknowledgements_are_drained_before_the_next_request_of_the_actor() -> None:
    waiting: list[int] = []

    def drain(actor: str) -> None:
        while waiting:
            gate.acknowledge(actor, waiting.pop(0))

    with Gate(drain=drain) as gate:
        create(gate, WAL_1)
        waiting.append(1)
        create(gate, WAL_2)
        assert [[a.what for a in state.acknowledged] for state in gate.prefixes] == [[], [1], [1]]


# ---------------------------------------------------------------------------------------------------------------------
# Schedules


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as opened:
        yield opened


def operations(gate: Gate) -> dict[str, list[Any]]:
    """Two actors; each creates two names that the other one wants too."""
    return {
        actor: [lambda actor=actor, path=path: create(gate, path, actor=actor) for path in (WAL_1, WAL_2)]
        for actor in ("a", "b")
    }


def outcome(gate: Gate, results: dict[str, list[Future[Any]]]) -> tuple[Any, ...]:
    order = [(entry.actor, entry.name, entry.status) for entry in gate.log]
    return order, {actor: [future.result(10) for future in all_] for actor, all_ in results.items()}


def test_nothing_of_what_is_held_is_carried_out_before_it_is_released(gate: Gate) -> None:
    schedule = Schedule(gate)
    first = schedule.go("a", lambda: create(gate, WAL_1, actor="a"))
    second = schedule.go("b", lambda: create(gate, WAL_1, actor="b"))
    assert [str(held.request) for held in schedule.waiting()] == ["a CREATE wal/@1", "b CREATE wal/@1"]
    assert gate.log == ()
    schedule.release("b")
    assert second.result(10) == "created"
    assert schedule.idle("b")
    assert not schedule.idle("a")
    schedule.release("a")
    assert first.result(10) == "already exists"
    assert schedule.steps == [
        {"go": "a"},
        {"go": "b"},
        {"release": "b", "operation": "CREATE", "name": "wal/@1"},
        {"release": "a", "operation": "CREATE", "name": "wal/@1"},
    ]


def test_requests_that_are_not_gated_run_free(gate: Gate) -> None:
    schedule = Schedule(gate, [Address(class_="wal")])
    assert schedule.go("a", lambda: create(gate, HINT, actor="a")).result(10) == "created"
    assert schedule.waiting() == ()
    schedule.go("a", lambda: create(gate, WAL_1, actor="a"))
    assert len(schedule.waiting("a")) == 1
    schedule.free()
    assert schedule.waiting() == ()


def test_a_saved_schedule_gives_the_same_history_again(gate: Gate) -> None:
    schedule = Schedule(gate)
    results = schedule.run(operations(gate), random.Random(7).choice)
    found = outcome(gate, results)
    assert sorted(found[1]["a"] + found[1]["b"]) == ["already exists", "already exists", "created", "created"]
    with Gate() as other:
        assert outcome(other, Schedule(other).follow(schedule.steps, operations(other))) == found


def test_different_choices_give_different_histories() -> None:
    winners = set()
    for choose in (lambda steps: steps[0], lambda steps: steps[-1]):
        with Gate() as gate:
            schedule = Schedule(gate)
            schedule.run(operations(gate), choose)
            winners.add(tuple(e.actor for e in gate.log))
    assert winners == {("a", "b", "a", "b"), ("b", "b", "a", "a")}


def test_a_schedule_that_is_not_possible_is_refused(gate: Gate) -> None:
    steps = [{"go": "a"}, {"release": "a", "operation": "CREATE", "name": "wal/@2"}]
    with pytest.raises(Diverged, match="step 2"):
        Schedule(gate).follow(steps, operations(gate))
    with pytest.raises(Diverged):
        Schedule(gate).release("b")


def test_a_crashed_actor_is_never_answered_and_the_others_go_on(gate: Gate) -> None:
    schedule = Schedule(gate)
    dead = schedule.go("a", lambda: create(gate, WAL_1, actor="a"))
    schedule.crash("a")
    other = schedule.go("b", lambda: create(gate, WAL_1, actor="b"))
    schedule.release("b")
    assert other.result(10) == "created"
    later = background(create, gate, WAL_2, b"x", "a")
    gate.wait_for(Address(actor="a", name="wal/@2"))
    assert [(e.name, e.fate) for e in gate.log if e.actor == "a"] == [("wal/@1", "silent"), ("wal/@2", "silent")]
    assert schedule.waiting() == ()
    assert not dead.done()
    gate.close()
    assert dead.result(10) == later.result(10) == "GenericError"


def test_a_request_may_be_answered_without_being_carried_out(gate: Gate) -> None:
    schedule = Schedule(gate)
    first = schedule.go("a", lambda: create(gate, WAL_1, actor="a"))
    schedule.release(schedule.waiting()[0], Unanswered.RESET)
    assert first.result(10) == "GenericError"
    assert fates(gate) == [("CREATE", "lost")]


def test_an_actor_that_does_nothing_for_too_long_is_reported(gate: Gate) -> None:
    never = threading.Event()
    schedule = Schedule(gate, limit_s=0.05)
    with pytest.raises(Stuck, match=r"a did not end its operation in 0\.05 s"):
        schedule.go("a", never.wait)
    never.set()


def test_a_rule_acts_when_the_schedule_lets_its_request_go() -> None:
    rule = FaultRule(at=Address(class_="wal"), do=Do.APPLY_THEN_LOSE)
    with Gate(rules=[rule]) as gate:
        schedule = Schedule(gate)
        first = schedule.go("a", lambda: create(gate, WAL_1, actor="a"))
        assert gate.matched()[rule.label] == ()
        schedule.release("a")
        assert first.result(10) == "GenericError"
        assert WAL_1 in gate.contents


def test_a_gate_that_ends_lets_go_of_everybody() -> None:
    rule = FaultRule(at=Address(class_="wal"), do=Do.HOLD_BEFORE)
    with Gate(rules=[rule], limits=GateLimits(life_s=60)) as gate:
        first = background(create, gate, WAL_1)
        gate.wait_held(rule)
    assert first.result(10) == "GenericError"
    assert not gate.running
