"""Scenarios behind the gate: what they take, what makes them void, and planted bugs that they catch by clause."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memwal_conformance.places import SUITE
from memwal_conformance.protocol import REVISIONS, Json
from memwal_conformance.proving import broken_survey
from memwal_conformance.proving.broken import engine_with, planted
from memwal_conformance.running import addressing, crashing, racing, scenarios, testbed
from memwal_conformance.running.calls import Killed, PendingCall
from memwal_conformance.running.cases import Amount, CaseRunner
from memwal_conformance.running.scenarios import SuiteScenario
from memwal_conformance.vectors import BadCase
from memwal_conformance.verdicts import CaseResult, Verdict
from memwal_sim import bugs

GATE = SUITE / "scenarios" / "gate"
OPEN = {"actor": "one", "send": "writer.open", "with": {"table": "$table"}, "as": "first"}
CREATE = {
    "actor": "setup",
    "send": "table.create",
    "with": {"table": "$table", "rows": {"$rows": []}, "primary_key": ["id"]},
}
PUT = {
    "actor": "one",
    "send": "writer.put",
    "with": {"writer": "$first.writer", "rows": {"$rows": [[1, "a"], [2, "a"]]}, "durable": True},
}
CAUGHT = {
    "no_barrier": ("zombie_append", "FENCE-017"),
    "plain_wal_put": ("zombie_append", "WAL-001"),
    "barrier_over_an_entry": ("entry_before_the_barrier", "FENCE-016"),
    "unresolved_put": ("wal_put_lost", "WAL-005"),
    "plain_manifest_put": ("fenced_at_the_flush_commit", "MANIFEST-022"),
    "stale_commit": ("fenced_at_the_flush_commit", "FENCE-011"),
    "claim_by_equal_bytes": ("two_claims_of_one_version", "FENCE-008"),
    "claim_keeps_epoch": ("crash_in_a_claim", "FENCE-005"),
    "listed_before_written": ("crash_before_the_generation", "FLUSH-013"),
    "flush_listed_again": ("flush_commit_unknown_while_collected", "FLUSH-013"),
    "start_at_last_seen": ("recovery_after_a_snapshot", "WRITER-013"),
    "builder_undoes_a_claim": ("snapshot_beside_a_claim", "MANIFEST-007"),
    "merged_twice": ("two_mergers_of_one_generation", "MERGE-016"),
    "base_read_first": ("reader_between_merge_and_collection", "READ-008"),
    "torn_entry": ("crash_between_wal_put_and_answer", "WAL-027"),
    "builder_drops_new_regions": ("snapshot_beside_a_new_region", "REGION-002"),
    "cut_wal_tail": ("reader_beside_a_wal_collection", "READ-008"),
    "no_check_after_put": ("zombie_append_after_a_wal_collection", "WAL-001"),
    "builder_restores_progress": ("snapshot_beside_a_merge", "MERGE-018"),
    "flush_under_way": ("collector_beside_a_flush", "WAL-001"),
    "registered_on_old_details": ("two_creators_of_one_region", "REGION-002"),
    "snapshot_overwritten": ("crash_before_the_commit_of_a_snapshot", "READ-013"),
    "stale_copy_counts": ("late_claim_after_a_manifest_collection", "MANIFEST-020"),
    "released_before_the_commit": ("scan_beside_a_flush", "READ-001"),
}
"""Planted bug -> the scenario that catches it, and a clause that it names."""
SETTINGS = {
    "cut_wal_tail": {"wal_collection": "on"},
    "no_check_after_put": {"wal_collection": "on"},
    "snapshot_overwritten": {"inline_regions": "0"},
    "stale_copy_counts": {"manifest_collection": "on"},
}
"""Planted bug -> settings of the reference's adapter without which nothing comes of it."""


def made(*steps: dict[str, Any], rules: tuple[dict[str, Any], ...] = (), **more: Any) -> SuiteScenario:
    """A scenario of these steps."""
    described = json.loads((GATE / "zombie_append.json").read_text("utf-8"))
    described |= {"gate": {"rules": list(rules)}, "steps": list(steps), **more}
    return scenarios.made(described, Path("made.json"))


def broken(result: CaseResult) -> set[str]:
    """Clauses that are broken."""
    return {clause for found in result.findings if found.broken is not None for clause in found.clauses}


def rule(label: str, do: str, **more: Any) -> dict[str, Any]:
    """A rule about the first WAL put of the actor ``one``."""
    return {"label": label, "at": {"actor": "one", "class": "wal", "operation": "PUT"}, "do": do, **more}


@pytest.mark.parametrize("bug", CAUGHT)
def test_a_planted_bug_is_caught_for_its_clause(bug: str, cases: CaseRunner) -> None:
    name, clause = CAUGHT[bug]
    (planted,) = bugs.choose([bug])
    with engine_with(planted):
        result = replace(cases, settings=SETTINGS.get(bug, {})).run(scenarios.load(GATE / f"{name}.json"))
    assert result.verdict is Verdict.FAIL, result.text
    assert clause in broken(result), result.text


def test_a_message_that_begins_late_is_still_beside_what_is_held(
    cases: CaseRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = PendingCall._run

    def late(self: PendingCall) -> None:
        if self.message.startswith("reader."):
            time.sleep(0.1)
        run(self)

    monkeypatch.setattr(PendingCall, "_run", late)
    test_a_planted_bug_is_caught_for_its_clause("released_before_the_commit", cases)


@pytest.mark.parametrize("bug", SETTINGS)
def test_without_the_bug_its_scenario_passes_under_the_same_settings(bug: str, cases: CaseRunner) -> None:
    name, _ = CAUGHT[bug]
    result = replace(cases, settings=SETTINGS[bug]).run(scenarios.load(GATE / f"{name}.json"))
    assert result.verdict is Verdict.PASS, result.text


def test_a_collector_that_deletes_files_before_it_changes_the_list_is_observed(cases: CaseRunner) -> None:
    (planted,) = bugs.choose(["files_before_the_list"])
    with engine_with(planted):
        result = cases.run(scenarios.load(GATE / "crash_of_a_collection.json"))
    assert result.verdict is Verdict.OBSERVED, result.text
    assert broken(result) == {"GC-010"}


def test_a_writer_that_goes_on_after_a_failed_put_shows_rows_that_it_takes_back(cases: CaseRunner) -> None:
    (planted,) = bugs.choose(["goes_on_after_failure"])
    with engine_with(planted):
        result = cases.run(scenarios.load(GATE / "failed_put_is_not_shown.json"))
    assert result.verdict is Verdict.OBSERVED, result.text
    assert broken(result) == {"WAL-028"}


def test_a_rule_that_never_acted_makes_the_case_inconclusive(cases: CaseRunner) -> None:
    result = cases.run(made(CREATE, OPEN, rules=(rule("never", "lose", at={"actor": "nobody"}),)))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "rules that never acted: never" in result.text


def test_a_rule_that_is_asleep_counts_from_when_it_is_armed(cases: CaseRunner) -> None:
    asleep = rule("put", "fail", asleep=True)
    result = cases.run(made(CREATE, OPEN, {"arm": "put"}, {**PUT, "may_fail": ["storage"]}, rules=(asleep,)))
    assert result.verdict is Verdict.PASS, result.text
    met = [request["name"] for request in result.requests if request["rule"] == "put"]
    assert met == ["wal/@1"]  # the put of the barrier, wal/@0, came before


def test_waiting_for_a_rule_that_cannot_act_any_more_ends_at_once(cases: CaseRunner) -> None:
    idle = rule("held", "hold_before", asleep=True)
    result = cases.run(made(CREATE, {**OPEN, "meanwhile": True}, {"reached": "held"}, {"await": "one"}, rules=(idle,)))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "the rule 'held' never acted" in result.text


class Slow:
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def call(self, message: str, params: Json) -> Json:
        self.go.wait(60)
        return {}

    def kill(self) -> bool:
        return False


def test_a_rule_that_kills_before_its_message_is_noted_ends_the_message(tmp_path: Path) -> None:
    slow = Slow()
    with testbed.Testbed(tmp_path, ()) as bed:
        call = PendingCall(slow, "writer.put", {})
        bed.gate.call(lambda: bed._kill("one"))
        assert not call.over
        bed.sent("one", call)
        assert call.over
        with pytest.raises(Killed):
            call.result()
    slow.go.set()


def test_nothing_is_sent_to_an_actor_that_a_rule_has_killed(cases: CaseRunner) -> None:
    dead = rule("dead", "kill_before")
    result = cases.run(made(CREATE, OPEN, PUT, {"check": "entries", "is": 0}, rules=(dead,)))
    assert result.verdict is Verdict.PASS, result.text
    assert [request["name"] for request in result.requests if request["rule"]] == ["wal/@0"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"steps": [CREATE, {"arm": "no such"}]}, "there is no rule 'no such'"),
        ({"gate": {"rules": [rule("a", "lose"), rule("a", "fail")]}}, "two rules have one label"),
        ({"crash": {"actor": "one"}}, "afterwards belongs to one of crash and race"),
        ({"gate": {"rules": [rule("a", "explode")]}}, '"explode" is not one of'),
    ],
)
def test_a_scenario_that_does_not_fit_together_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadCase, match=reason):
        made(**{"steps": [CREATE], **change}) if "steps" not in change else scenarios.made(
            json.loads((GATE / "zombie_append.json").read_text("utf-8")) | change, Path("made.json")
        )


def test_what_needs_the_gate_is_refused_without_one() -> None:
    described = json.loads((SUITE / "scenarios" / "smoke.json").read_text("utf-8"))
    with pytest.raises(BadCase, match="meanwhile needs a gate"):
        scenarios.made(described | {"steps": [{**described["steps"][1], "meanwhile": True}]}, Path("made.json"))


def test_crashes_go_by_class_and_number_of_the_changes_of_one_actor() -> None:
    def request(actor: str, operation: str, class_: str) -> dict[str, Any]:
        return {"actor": actor, "operation": operation, "class": class_}

    log = [
        request("one", "CREATE", "wal"),
        request("two", "CREATE", "wal"),
        request("one", "GET", "wal"),
        request("one", "PUT", "hint"),
        request("one", "PUT", "wal"),
        request("one", "DELETE", "wal"),
    ]
    assert crashing.points(log, "one") == [
        {"actor": "one", "class": "wal", "operation": "PUT", "occurrence": 1},
        {"actor": "one", "class": "hint", "operation": "PUT", "occurrence": 1},
        {"actor": "one", "class": "wal", "operation": "PUT", "occurrence": 2},
        {"actor": "one", "class": "wal", "operation": "DELETE", "occurrence": 1},
    ]


def test_a_crash_shows_a_generation_that_is_listed_before_it_is_written(cases: CaseRunner) -> None:
    (planted,) = bugs.choose(["listed_before_written"])
    life = scenarios.load(GATE / "crash_at_every_change.json")
    with engine_with(planted):
        point = {"actor": "one", "class": "generation", "operation": "PUT", "occurrence": 1}
        result = cases.once(crashing.crashed(life, point, "before"))
    assert result.verdict is Verdict.FAIL, result.text
    assert broken(result) >= {"FLUSH-013", "WAL-001"}


def test_a_slice_of_the_crashes_says_how_many_of_how_many(cases: CaseRunner) -> None:
    life = scenarios.load(GATE / "crash_at_every_change.json")
    result = cases.run(life, "after", Amount(every=9))
    assert result.verdict is Verdict.PASS, result.text
    assert {request["rule"] for request in result.requests if request["rule"]} != set()


def test_an_order_with_one_preemption_stops_an_actor_at_one_request() -> None:
    choose = racing.one_by_one(["one", "two"], 1)
    first, second = {"go": "one"}, {"go": "two"}
    held = {"release": "one", "operation": "PUT", "name": "wal/@0"}
    assert choose([first, second]) == first
    assert choose([second, held]) == held
    assert choose([second, held]) == second
    assert choose([held]) == held


def test_random_orders_of_one_seed_are_the_same() -> None:
    steps = [{"go": "one"}, {"go": "two"}, {"go": "three"}]
    orders = [[racing.at_random("7/1")(steps)["go"] for _ in range(5)] for _ in range(2)]
    assert orders[0] == orders[1]


def test_a_race_that_fails_is_saved_and_becomes_faults_by_name(
    cases: CaseRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(racing, "spread", lambda found, most: found[3:4])  # before the claim's manifest
    (planted,) = bugs.choose(["plain_manifest_put"])
    race = scenarios.load(GATE / "two_writers_in_any_order.json")
    with engine_with(planted):
        result = cases.run(race, amount=Amount(orders=1))
    assert result.verdict is Verdict.FAIL, result.text
    assert "FENCE-008" in broken(result)
    assert "the same faults by name fail too" in result.text
    assert result.scenario is not None
    assert [rule["do"] for rule in result.scenario["gate"]["rules"]] == ["hold_before"]
    (kept,) = (tmp_path / "kept").iterdir()
    assert {path.name for path in kept.iterdir()} == {"schedule.json", "requests.json", "scenario.json", "store"}
    again = scenarios.made(json.loads((kept / "scenario.json").read_text("utf-8")), Path("found.json"))
    with engine_with(planted):
        assert cases.once(again).verdict is Verdict.FAIL
    assert cases.once(again).verdict is Verdict.PASS


def test_a_schedule_becomes_holds_where_an_actor_stops_in_an_operation() -> None:
    race = json.loads((GATE / "two_writers_in_any_order.json").read_text("utf-8"))

    def step(actor: str, name: str) -> dict[str, str]:
        return {"release": actor, "operation": "CREATE", "name": name}

    found = addressing.addressed(
        race,
        [{"go": "one"}, step("one", "manifest/@1"), {"go": "two"}, step("two", "manifest/@2"), step("one", "wal/@0")],
    )
    assert found.rules is not None
    assert [(rule["at"], rule["do"]) for rule in found.rules] == [
        ({"actor": "one", "operation": "CREATE", "name": "wal/@0", "occurrence": 1}, "hold_before")
    ]
    words = [next(word for word in ("send", "reached", "release", "await") if word in s) for s in found.steps[3:8]]
    assert words == ["send", "reached", "send", "release", "await"]


def test_a_put_behind_a_full_memtable_is_looked_at_while_its_flush_stands_still(
    cases: CaseRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the verdict does not depend on what the flush has stored when its writer is killed."""
    monkeypatch.setattr(PendingCall, "ended", lambda *_: None)  # the thread of an actor in this process lives on
    result = cases.run(scenarios.load(GATE / "put_after_a_rotation_waits_for_its_entry.json"))
    assert result.verdict is Verdict.PASS, result.text
    stored = {r["actor"] for r in result.requests if r["name"] == "gen/@1/versions/@1" and r["operation"] == "CREATE"}
    assert stored == {"two"}


def test_an_actor_of_a_race_may_be_asked_for_two_things_at_once(cases: CaseRunner, tmp_path: Path) -> None:
    race = scenarios.load(GATE / "puts_and_a_flush_in_any_order.json")
    assert cases.run(race, amount=Amount(orders=3)).verdict is Verdict.PASS
    with bugs.replacing(planted("acknowledges_beside_another_put").replaced):
        result = cases.run(race, amount=Amount(orders=6))
    assert result.verdict is Verdict.FAIL, result.text
    assert broken(result) == {"WAL-001"}
    saved = [json.loads(file.read_text("utf-8")) for file in (tmp_path / "kept").glob("*/schedule.json")]
    assert any({"go": "one/put"} in steps and {"go": "one/flush"} in steps for steps in saved)
    assert not [*(tmp_path / "kept").glob("*/scenario.json")]  # no rule tells requests of one actor apart


AT_ONCE = [
    "scan_beside_a_put",
    "scan_beside_a_flush",
    "two_puts_at_once",
    "flush_beside_a_put",
    "close_beside_a_put",
    "merge_beside_a_put",
    "puts_and_a_flush_in_any_order",
]
HELD = rule("entry", "hold_before", asleep=True)
SECOND = {**PUT, "with": PUT["with"] | {"rows": {"$rows": [[3, "a"]]}}}
READ = {"include": "read", "with": {"actor": "two", "as": "seen", "clauses": ["READ-001"]}}


@pytest.mark.parametrize("name", AT_ONCE)
def test_an_adapter_without_concurrent_requests_is_not_asked_for_two_things_at_once(name: str) -> None:
    scenario = scenarios.load(GATE / f"{name}.json")
    hello = broken_survey.actor("B").hello
    assert hello is not None
    assert scenario.missing("B", hello) == []
    assert scenario.missing("B", replace(hello, capabilities=hello.capabilities - {"concurrent"})) == ["concurrent"]


def test_no_other_scenario_asks_an_actor_for_two_things_at_once() -> None:
    asked = {f.stem for f in GATE.glob("*.json") if any(scenarios.load(f).at_once(r) for r in REVISIONS)}
    assert asked == set(AT_ONCE)


def test_messages_to_one_actor_are_awaited_in_the_order_in_which_they_were_sent(cases: CaseRunner) -> None:
    reader = {"actor": "one", "send": "reader.open", "with": {"table": "$table", "consistency": "strong"}, "as": "r"}
    steps = [{"arm": "entry"}, {**PUT, "meanwhile": True}, {"reached": "entry"}, {**reader, "meanwhile": True}]
    let_go = [{"release": "entry"}, {"await": "one"}, {"check": "answered", "of": "r", "is": False}, {"await": "one"}]
    result = cases.run(made(CREATE, OPEN, *steps, *let_go, {"check": "answered", "of": "r"}, rules=(HELD,)))
    assert result.verdict is Verdict.PASS, result.text
    left = cases.run(made(CREATE, OPEN, *steps, *let_go[:2], rules=(HELD,)))
    assert left.verdict is Verdict.HARNESS_ERROR
    assert "no later step awaits one" in left.text


def test_what_was_under_way_when_its_process_was_killed_may_be_there(
    cases: CaseRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PendingCall, "ended", lambda *_: None)  # the thread of an actor in this process lives on
    held = rule("entry", "hold_after", asleep=True)
    steps = [{"arm": "entry"}, {**PUT, "meanwhile": True}, {"reached": "entry"}, {**SECOND, "meanwhile": True}]
    again = {**OPEN, "actor": "two", "with": {"table": "$table", "region_id": "$first.region_id"}}
    flush = {"actor": "two", "send": "writer.flush_memtable", "with": {"writer": "$first.writer"}}
    result = cases.run(made(CREATE, OPEN, *steps, {"kill": "one"}, again, flush, READ, rules=(held,)))
    assert result.verdict is Verdict.PASS, result.text
