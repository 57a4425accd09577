"""ForeignExploration of other implementations: what is planted is found, what is honest is not accused."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.adapters.harness import REFERENCE, Harness
from memwal_conformance.adapters.process import AdapterProcess
from memwal_conformance.exploring import (
    explorer,
    findings,
    judging,
    lives,
    living,
    orders,
    plans,
    reproducing,
    showing,
    starting,
)
from memwal_conformance.exploring.explorer import ForeignExploration
from memwal_conformance.exploring.judging import Recoverer, Symptom, look_of, of_run
from memwal_conformance.exploring.lives import ForeignLife
from memwal_conformance.exploring.orders import InOrder, Touched
from memwal_conformance.exploring.plans import Plan, crash_states
from memwal_conformance.exploring.shrinking import ShownRun
from memwal_conformance.gate import Address, Do, FaultRule, LogEntry, RequestFate
from memwal_conformance.judge.wire import DamagedBytes
from memwal_conformance.protocol import AdapterError, Hello

SHORT = ForeignLife(name="short", about="A put.", steps=lives.steps_of("w open, w put, w close", "short"))
TWO = ForeignLife(name="two", about="Two puts.", steps=lives.steps_of("a open, a put, b open, b put, a put", "two"))


def broken(*arguments: str) -> tuple[str, ...]:
    """Command of the reference with something planted."""
    return sys.executable, "-m", "memwal_conformance.proving.broken", *arguments


@pytest.fixture
def explored() -> Iterator[object]:
    """Explores an adapter with so many runs of one life."""
    open_: list[Harness] = []

    def explore(command: tuple[str, ...], life: ForeignLife, most: int, **more: Any) -> ForeignExploration:
        open_.append(Harness(command, 30.0, {}))
        made = ForeignExploration(harnesses=open_[-1:], revision="B", lives=[life], seconds=3600, most=most, **more)
        made.run()
        return made

    yield explore
    for harness in open_:
        harness.close()


def test_the_reference_is_accused_of_nothing(explored) -> None:
    found = explored(REFERENCE, TWO, 8)
    assert found.notebook.findings == []
    assert (found.begun, found.unconfirmed) == (8, 0)
    assert found.runs == 5  # alone and in order, then crashes of the first one, faults and preemptions in turn
    assert " of " in found.covered["two"]


def test_a_scan_through_the_memory_of_a_replaced_writer_is_told_by_its_own_clause(explored) -> None:
    steps = lives.steps_of("a open, b put, a scan", "stale")
    stale = ForeignLife(name="stale", about="A writer that is replaced reads.", steps=steps)
    (one,) = explored(broken("--bug", "memory_of_a_fenced_writer"), stale, 1, smaller=False).notebook.findings
    assert one.words == "a scan through the memory of a writer that another one has replaced lacks acknowledged rows"
    assert (one.oracle, one.clauses) == ("answer", ["READ-008"])


def test_a_table_that_cannot_be_read_is_as_bad_as_a_region_that_cannot(
    explored, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise DamagedBytes("pylance cannot read the table: t/data/a.lance was not found")

    monkeypatch.setattr(judging.judged, "read", unreadable)
    (one,) = explored(REFERENCE, SHORT, 1, smaller=False, enough=1).notebook.findings
    assert (one.oracle, one.severity, one.clauses) == ("recovery", "critical", ["WAL-001"])


def test_an_implementation_that_halves_puts_is_found_and_the_finding_is_kept(explored, tmp_path: Path) -> None:
    found = explored(broken("halves_puts"), SHORT, 100, enough=1)
    assert found.runs <= 3 + 2 * (1 + len(SHORT.steps))  # faults come beside crashes; the smaller lives, each twice
    (one,) = found.notebook.findings
    assert (one.oracle, one.severity, one.hit, one.cut) == ("rows", "critical", "no fault", False)
    assert one.words == "the row … is missing"
    assert one.life["steps"] == "w put"  # made small: a put opens the region by itself
    assert (one.after_runs, 0 < one.after_s < 3600) == (found.runs, True)
    assert f"{one.came}, seen in" in showing.listed([one], "x")[1]
    found.notebook.save(tmp_path, found.covered)
    whole = findings.load(tmp_path)
    assert whole["implementation"] == "broken (halves_puts)"
    assert [(each.words, each.told, len(each.log)) for each in whole["findings"]] == [
        (one.words, one.told, len(one.log))
    ]
    assert whole["findings"][0].decoded[0].startswith("manifest/@")
    text = showing.shown(one, whole, tmp_path)
    assert "w put: done" in text
    assert "WAL-001 (MUST): " in text
    assert "docs/src/format/table/mem_wal.md?plain=1#L" in text
    showing.write_logs(whole["findings"], tmp_path)
    assert (tmp_path / "01.log").read_text("utf-8") == showing.log_of(one)


def shown_by(command: tuple[str, ...], life: ForeignLife, plan: Plan, touched: Touched | None = None) -> list[Symptom]:
    """What one run under a plan shows."""
    harness = Harness(command, 30.0, {})
    start = starting.started(harness, "B", life)
    drive = living.in_order if plan.switches is None else InOrder(plan, touched)
    lived = living.live(harness, "B", life, start, plan.rules, drive)
    recoverer = Recoverer(harness, "B")
    found = [
        *of_run(lived, harness.hello()),
        *(each for state in crash_states(lived, plan) for each in recoverer.after(lived, state)),
    ]
    recoverer.close()
    harness.close()
    return found


LOST = FaultRule(at=Address(actor="w", class_="wal", operation="CREATE", occurrence=2), do=Do.LOSE)
WRITES = ForeignLife(name="writes", about="", steps=lives.steps_of("w open, w put, w put, w put, w close", "writes"))


def test_a_bug_that_needs_a_fault_shows_under_the_fault() -> None:
    lost = Plan(words="the first put is lost", hit="wal CREATE", rules=(LOST,))
    assert shown_by(REFERENCE, WRITES, lost) == []
    found = shown_by(broken("--bug", "unresolved_put"), WRITES, lost)
    assert found
    assert findings.heading(found).words.startswith("the row")


def test_a_bug_that_needs_an_order_shows_in_that_order() -> None:
    touched = Touched(*({"a": frozenset({kind}), "b": frozenset({kind})} for kind in ("manifest", "manifest", "none")))
    order = orders.plan_of({0: "b"})
    found = shown_by(broken("--bug", "plain_manifest_put"), TWO, order, touched)
    assert {each.oracle for each in found} >= {"machine"}
    assert shown_by(REFERENCE, TWO, order, touched) == []


def entry(order: int, operation: str, name: str, actor: str = "w") -> LogEntry:
    class_ = name.partition("/")[0]
    return LogEntry(order, actor, class_, name, name, (), operation, RequestFate.NORMAL, 200, 0, "", 0, "", "", order)


LOG = (
    entry(1, "GET", "hint"),
    entry(2, "CREATE", "manifest/@2"),
    entry(3, "CREATE", "wal/@1"),
    entry(4, "GET", "hint"),
)


def lived_of(actor: str) -> Any:
    """The run of one actor with `LOG`."""
    return SimpleNamespace(log=LOG, life=SimpleNamespace(actors=(actor,)), during=lambda _: "put")


def test_every_request_gets_every_fault_once_and_each_change_lasting_ones() -> None:
    found = plans.faults(lived_of("w"))
    single = [plan for plan in found if len(plan.rules) == 1 and plan.rules[0].at.occurrence is not None]
    by_do = [(plan.rules[0].do, plan.rules[0].status, str(plan.rules[0].at)) for plan in single]
    assert len(set(by_do)) == len(by_do)
    changes, reads = len(plans.CONDITIONAL), len(plans.READING)
    late_and_silent = 2
    assert len(single) == 2 * (changes + late_and_silent) + 2 * reads
    assert [plan for plan in found if len(plan.rules) == plans.A_WHILE]
    assert {plan.rules[0].do for plan in found if plan.waits} >= {Do.DELAY, Do.HOLD_BEFORE}
    assert plans.faults(lived_of("other")) == []
    assert {plan.kind.partition(":")[0] for plan in found} == {"put"}
    kinds = {plan.kind for plan in found if plan.rank == plans.COMMIT and not plan.waits}
    assert kinds == {f"put: CREATE of {each}, carried out and answered 500" for each in ("wal", "manifest")}


def test_what_is_looked_for_again_is_looked_for_near_the_request_that_showed_it() -> None:
    lived: Any = SimpleNamespace(log=LOG, states=[SimpleNamespace(order=n, index=n) for n in (0, 2, 3, 7, 9)])
    assert [state.order for state in plans.most_telling(lived, plans.ALONE)] == [3, 9, 0, 2, 7]
    assert [state.order for state in plans.most_telling(lived, plans.ALONE, 8)] == [7, 9, 3, 2, 0]


def test_only_requests_that_others_touch_are_moments_of_another_order() -> None:
    log = [entry(1, "CREATE", "wal/@1", "a"), entry(2, "CREATE", "wal/@2", "b"), entry(3, "GET", "hint", "a")]
    life = SimpleNamespace(actors=("a", "b"), steps=lives.steps_of("a put, b put", "puts"))
    lived: Any = SimpleNamespace(log=log, life=life, during=lambda _: "put")
    touched = orders.Touched.of(lived)
    assert touched.shared("a", {"release": "a", "operation": "CREATE", "name": "wal/@7"})
    assert touched.shared("b", {"release": "b", "operation": "GET", "name": "wal/@1"})
    assert not touched.shared("b", {"release": "b", "operation": "GET", "name": "wal/@2"})
    assert not touched.shared("a", {"release": "a", "operation": "PUT", "name": "hint"})


def test_an_operation_that_found_its_work_done_counts_as_the_others_of_its_verb() -> None:
    log = [entry(1, "CREATE", "versions/@4", "a"), entry(2, "GET", "versions/@4", "b"), entry(3, "PUT", "hint", "c")]
    steps = lives.steps_of("a merge, b merge, c open", "merges")
    life = SimpleNamespace(actors=("a", "b", "c"), steps=steps)
    verbs = {"a": "merge", "b": "merge", "c": "open"}
    lived: Any = SimpleNamespace(log=log, life=life, during=lambda entry: verbs[entry.actor])
    touched = orders.Touched.of(lived)
    assert touched.changed == {"a": {"versions"}, "b": {"versions"}, "c": {"hint"}}
    assert touched.shared("a", {"release": "a", "operation": "GET", "name": "versions/@4"})
    assert not touched.shared("a", {"release": "a", "operation": "GET", "name": "versions/@3"})


@pytest.mark.parametrize(("met", "worth"), [("", orders.FAR), ("manifest/@2", 0), ("wal/@1", 0)])
def test_an_order_is_worth_most_where_one_operation_commits_what_the_other_builds_upon(met: str, worth: int) -> None:
    steps = lives.steps_of("a merge, b put", "conflicts")
    log = [entry(1, "CREATE", "manifest/@2", "b"), entry(2, "CREATE", "versions/@4", "a"), entry(3, "GET", "hint", "b")]
    verbs = {1: "open", 2: "merge", 3: "put"}
    life = SimpleNamespace(actors=("a", "b"), steps=steps, of=lambda actor: ("ab".index(actor),))
    lived: Any = SimpleNamespace(log=log, life=life, during=lambda each: verbs[each.order])
    drive = InOrder(orders.plan_of({}), Touched.of(lived))
    drive._run = SimpleNamespace(life=life)  # type: ignore[assignment]
    requests: list[dict[str, str]] = [{"operation": "GET", "name": met}] if met else []
    for step in [{"go": "a"}, *({"release": "a", **each} for each in requests)]:
        drive._choose([step])
    commit = {"release": "a", "operation": "CREATE", "name": "versions/@4"}
    assert drive._rank(commit, "b") == plans.COMMIT + worth


def test_a_manifest_of_a_flush_that_runs_beside_other_work_is_late_before_other_changes_are() -> None:
    lived = lived_of("w")
    beside = next(
        plan for plan in plans.faults(lived) if plan.kind.startswith("put: CREATE of manifest, carried out late")
    )
    lived.during = lambda _: "flush"
    own = next(plan for plan in plans.faults(lived) if "CREATE of manifest, carried out late" in plan.kind)
    assert (beside.rank, own.rank) == (plans.HELD, plans.LATER + plans.COMMIT)


def test_what_befalls_a_commit_comes_before_what_befalls_any_other_change() -> None:
    log = [
        dataclasses.replace(entry(1, "CREATE", "data/*.lance"), class_="base"),
        dataclasses.replace(entry(2, "PUT", "versions/@4"), class_="base"),
        dataclasses.replace(entry(3, "CREATE", "gen/@1/x"), class_="generation"),
        entry(4, "GET", "manifest/@2"),
    ]
    lived: Any = SimpleNamespace(log=log, life=SimpleNamespace(actors=("w",)), during=lambda _: "merge")
    ranks = {plan.kind: plan.rank for plan in plans.faults(lived) if plan.rank < plans.LASTS}
    answered = [kind.partition(", carried out and answered 500") for kind in ranks]
    once = {before: ranks[before + words] for before, words, behind in answered if words and not behind}
    assert once == {"merge: CREATE of data": 0, "merge: PUT of versions": plans.COMMIT, "merge: CREATE of gen": 0}


def test_further_orders_differ_by_one_preemption_behind_the_last_within_the_bound() -> None:
    far = {"a": ("put", 3), "c": ("scan", 2)}
    decisions = [
        orders.OrderMoment("put: CREATE of wal", {"b": ("open", 0)}),
        orders.OrderMoment("open: GET of wal", far),
    ]
    first = list(orders.further(orders.plan_of({}), decisions, 1))
    assert [plan.switches for plan in first] == [{0: "b"}, {1: "a"}, {1: "c"}]
    assert [plan.rank for plan in first] == [0, 3, 2]
    assert first[2].kind == "open: GET of wal, and scan"
    assert list(orders.further(first[0], decisions, 1)) == []
    more = list(orders.further(first[0], decisions, 2))
    assert [plan.switches for plan in more] == [{0: "b", 1: "a"}, {0: "b", 1: "c"}]
    assert [plan.rank for plan in more] == [3 + orders.DEEPER, 2 + orders.DEEPER]
    assert list(orders.further(first[2], decisions, 2)) == []


IN_TURN = ForeignLife(
    name="in_turn", about="", steps=lives.steps_of("a put, b put, a flush, b flush, a put", "in_turn")
)
"""Of two actors that both change the manifest and the WAL."""


@pytest.mark.parametrize(
    ("switches", "order"),
    [
        ({}, ["a put", "b put", "a flush", "b flush", "a put"]),
        ({0: "b"}, ["a put", "b put", "b flush", "a flush", "a put"]),
        ({0: "b", 1: "a"}, ["a put", "b put", "a flush", "a put", "b flush"]),
    ],
)
def test_operations_begin_as_the_life_has_them_and_one_that_is_interrupted_waits(
    switches: dict[int, str], order: list[str]
) -> None:
    wal, none = frozenset({"wal"}), frozenset[str]()
    touched = Touched(*(dict.fromkeys("ab", wal) for _ in range(2)), {"a": none, "b": none}, {"put": wal})
    drive = InOrder(orders.plan_of(switches), touched)
    drive._run = SimpleNamespace(life=IN_TURN)  # type: ignore[assignment]
    held: dict[str, bool] = {"a": False, "b": False}
    begun: list[str] = []
    left = {actor: list(IN_TURN.of(actor)) for actor in "ab"}
    while any(left.values()) or any(held.values()):
        release = [{"release": each, "operation": "CREATE", "name": "wal/@1"} for each in "ab" if held[each]]
        go = [{"go": each} for each in "ab" if left[each] and not held[each]]
        step = drive._choose([*go, *release])
        actor = step.get("go") or step["release"]
        held[actor] = "go" in step
        if "go" in step:
            begun.append(str(IN_TURN.steps[left[actor].pop(0)]))
    assert begun == order
    if not switches:
        found = [(moment.before, dict(moment.others)) for moment in drive.decisions]
        assert found[0] == ("put: CREATE of wal", {"b": ("put", plans.COMMIT)})
        assert found[2] == ("flush: CREATE of wal", {"b": ("flush", plans.COMMIT + orders.FAR)})  # it commits no entry
        assert found[1] == ("put: CREATE of wal", {"a": ("flush", plans.COMMIT + orders.FAR)})
        assert found[3] == ("flush: CREATE of wal", {"a": ("put", plans.COMMIT)})


HELLO = Hello(
    implementation="x", version="1", revisions=("B",), roles=("writer",), capabilities=frozenset({"s3", "table.create"})
)


def test_the_lives_of_the_suite_are_read_and_say_what_they_need() -> None:
    found = lives.load()
    assert len(found) >= 10
    assert found["one_writer"].missing(HELLO) == []
    assert found["mergers"].missing(HELLO) == ["merge.run", "reader.open", "reader.scan"]
    folder = dataclasses.replace(HELLO, capabilities=frozenset())
    assert found["one_writer"].missing(folder) == ["table.create", "s3"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('about = "a"\nsteps = "w open, w swim"', "swim"),
        ('about = "a"\nsteps = "open"', "'open' is not an operation"),
        ('about = "a"\nsteps = "a put, b put, c put, d put"', "one to 3 actors, this one has 4"),
        ('about = "a"\nsteps = "w fill"', "fill needs memtable_rows"),
        ('about = "a"\nappend_only = true\nsteps = "w again"', "append-only"),
        ('about = "a"\nsteps = "w put"\nspeed = 3', "speed"),
    ],
)
def test_a_life_that_is_none_is_refused_with_its_place(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"[one]\n{text}\n", "utf-8")
    with pytest.raises(InvalidArgument, match=says) as refused:
        lives.load(file)
    assert "mine.toml, one" in str(refused.value)


def test_drawn_lives_are_the_same_for_one_seed() -> None:
    assert lives.drawn(3, 5) == lives.drawn(3, 5) != lives.drawn(3, 6)
    assert len(lives.drawn(3, 5)) == 3


def test_a_finding_without_an_order_becomes_one_file_that_needs_none_of_our_code() -> None:
    life = {"name": "short", "steps": "w put", "append_only": True}
    about = {"number": 1, "oracle": "rows", "words": "w", "hit": "no fault", "severity": "critical", "clauses": []}
    found = findings.ForeignFinding(
        **about,
        note=None,
        sentence="It's gone.",
        detail="d",
        where="",
        life=life,
        plan={"words": "x"},
        crash=-1,
        told=[],
        log=[],
    )
    text = reproducing.text_of(found, {"storage.timeout": "2s", "other": "x"})
    assert text is not None
    compile(text, "alone", "exec")
    assert "import memwal" not in text
    assert "from memwal" not in text
    assert "class StubStore" in text
    assert "'storage': {'timeout': '2s'}" in text
    assert "recovery_rows" not in text.partition("}\n")[0]
    found.other_limits = True
    assert "'recovery_rows': 2" in (reproducing.text_of(found, {}) or "")
    found.plan["switches"] = {}
    assert reproducing.text_of(found, {}) is None


@pytest.mark.parametrize(
    ("oracle", "status", "errors", "says"),
    [
        ("rows", 1, "", "shows it"),
        ("rows", 0, "", "does not show it: it tried a few times, and timing differs from that of the gate"),
        ("machine", 0, "", "does not show it: it tried a few times, and timing differs from that of the gate"),
        ("rows", 3, "", "does not show it, but something else that is wrong"),
        ("crash", -6, "", "shows it: the process ends by signal 6"),
        ("rows", 1, "Traceback\nKeyError: 'x'\n", "does not show it: it ended with KeyError: 'x'"),
        ("rows", -9, "", "does not show it: it ended with status -9"),
    ],
)
def test_a_finding_says_why_its_file_does_not_show_it(oracle: str, status: int, errors: str, says: str) -> None:
    found: Any = SimpleNamespace(oracle=oracle)
    assert reproducing.judged(found, status, errors) == says


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"format": 99})])
def test_what_is_no_findings_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / findings.FILE).write_text(text, "utf-8")
    with pytest.raises(InvalidArgument, match=r"findings\.json"):
        findings.load(tmp_path)


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What adapters were told so far: a clock that a loaded machine does not hurry."""
    told, call = [], AdapterProcess.call

    def noted(process: AdapterProcess, message: str, params: Any) -> Any:
        told.append(message)
        return call(process, message, params)

    monkeypatch.setattr(AdapterProcess, "call", noted)
    return told


LONG = ForeignLife(name="long", about="", steps=lives.steps_of("w put, w scan, w scan, w scan", "long"))
BUDGET, AT_MOST_LATE = 210, 12
"""Messages of what is under way when the time is over: an operation that opens the region, and one recovery."""


def test_a_budget_holds_where_a_finding_is_made_small_and_what_was_cut_short_is_said(messages: list[str]) -> None:
    harness = Harness(broken("halves_puts"), 60.0, {})
    made = ForeignExploration(
        harnesses=[harness], revision="B", lives=[LONG], seconds=BUDGET, clock=lambda: len(messages)
    )
    made.run()
    harness.close()
    (found,) = made.notebook.findings
    assert BUDGET <= len(messages) <= BUDGET + AT_MOST_LATE
    assert found.cut
    assert showing.CUT in showing.listed([found], "x")[1]


def test_what_cannot_be_seen_again_in_time_is_no_finding_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, said = Harness(REFERENCE, 30.0, {}), list[str]()
    made = ForeignExploration(harnesses=[harness], revision="B", lives=[SHORT], seconds=60, say=said.append)
    harness.close()
    head = Symptom(oracle="rows", words="a row is missing", detail="row 7 is missing", clauses=(), order=0)
    shown = ShownRun(plans.ALONE, SimpleNamespace(life=SHORT), [head])  # type: ignore[arg-type]
    monkeypatch.setattr(ForeignExploration, "_shown", lambda *_: dataclasses.replace(shown, symptoms=[], cut=True))
    made._noted(None, made.jobs[0], None, plans.ALONE, shown)  # type: ignore[arg-type]
    assert (made.notebook.findings, made.unconfirmed) == ([], 1)
    assert said == ["seen once, and its time was over before it was seen again: row 7 is missing (no fault)"]


FLUSHES = ForeignLife(name="flushes", about="", steps=lives.steps_of("w put, w again, w flush, w put", "flushes"))


def test_equal_runs_have_equal_crash_states_and_other_rows_make_others() -> None:
    harness = Harness(REFERENCE, 60.0, {})
    start = starting.started(harness, "B", FLUSHES)
    one, two = (living.live(harness, "B", FLUSHES, start) for _ in range(2))
    harness.close()
    looks = [[look_of(run, state) for state in crash_states(run, plans.ALONE)] for run in (one, two)]
    assert looks[0] == looks[1]
    assert len(set(looks[0])) > 10
    last = one.states[-1]
    (rows,) = (name for name in last.contents.objects if "_gen_1/data/" in name)
    changed = last.contents.objects[rows].replace(b"w1", b"w7")
    other = dataclasses.replace(last, contents=last.contents.having(rows, changed))
    assert changed != last.contents.objects[rows]
    assert look_of(one, other) != look_of(one, last)


def test_an_exploration_continues_when_a_process_does_not_start(explored, tmp_path: Path) -> None:
    here = tmp_path / "started"
    once = (
        "import pathlib, sys, runpy; p = pathlib.Path(sys.argv.pop(1)); n = len(p.read_text()) if p.exists() else 0; "
    )
    once += "p.write_text('x' * (n + 1)); n == 1 and sys.exit(3); "
    once += "runpy.run_module('memwal_conformance.adapters.reference', run_name='__main__')"
    said: list[str] = []
    dies = dataclasses.replace(TWO, steps=TWO.steps[:3])  # the second actor is the second process
    found = explored((sys.executable, "-c", once, str(here)), dies, 3, say=said.append)
    assert found.notebook.findings == []
    assert [": not run: the adapter ended (exit status 3) during hello" in line for line in said] == [True]
    assert found.begun == 3


def test_a_fault_meets_an_order_and_what_was_paired_is_said(explored) -> None:
    said: list[Plan] = []
    shown = ForeignExploration._planned

    class Noted(ForeignExploration):
        def _planned(self, recoverer: Recoverer, job: Any, plan: Plan) -> None:
            said.append(plan)
            shown(self, recoverer, job, plan)

    harness = Harness(REFERENCE, 60.0, {})
    made = Noted(harnesses=[harness], revision="B", lives=[TWO], seconds=3600, most=3)
    made.run()
    (job,) = made.jobs
    pairs = [plan for found in job.agenda.waiting.values() for plan in found if plan.rules and plan.switches]
    assert len(pairs) == explorer.PAIRS < job.covered.both
    assert job.covered.both % len(job.single) == 0
    assert all(plan.hit.endswith(", order") for plan in pairs)
    recoverer = Recoverer(harness, "B")
    made._planned(recoverer, job, pairs[0])
    recoverer.close()
    harness.close()
    assert [plan.way for plan in said] == ["order", "crash", "fault order"]
    assert f"1 of {job.covered.both} pairs of a fault and a preemption" in made.covered["two"]
    assert made.notebook.findings == []


def test_a_state_is_recovered_under_other_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(REFERENCE, 60.0, {})
    start = starting.started(harness, "B", SHORT)
    lived = living.live(harness, "B", SHORT, start)
    recoverer = Recoverer(harness, "B")
    asked: list[object] = []
    told = AdapterProcess.call

    def call(process: AdapterProcess, message: str, params: Any) -> Any:
        if message == "writer.open":
            asked.append(params.get("memtable_rows"))
            if params.get("memtable_rows"):
                raise AdapterError("corrupt", f"several MemTables are too many for {params['table']}/x")
        return told(process, message, params)

    monkeypatch.setattr(AdapterProcess, "call", call)
    (found,) = recoverer.after(lived, lived.states[-1])
    recoverer.close()
    harness.close()
    assert asked == [None, 2]
    assert (found.oracle, found.other_limits) == ("recovery", True)
    assert found.words.endswith("several MemTables are too many for t/x")  # whatever folder it was recovered in
    assert found.detail.endswith("several MemTables are too many for t/x (recovered with a MemTable of 2 rows)")


def finding(number: int, hit: str, words: str, *consequences: str, severity: str = "major") -> findings.ForeignFinding:
    """A finding of which only this matters."""
    of = {"oracle": "rows", "clauses": ["WAL-001"], "note": None, "sentence": "It is.", "detail": "", "where": ""}
    run = {"life": {}, "plan": {}, "crash": -1, "told": [], "log": [], "consequences": list(consequences)}
    run["versions"] = ["1"]
    return findings.ForeignFinding(number=number, hit=hit, words=words, severity=severity, **of, **run)


def test_findings_that_are_one_matter_stand_together_and_others_by_themselves() -> None:
    one = finding(1, "wal CREATE", "the pointer lags", "a key is twice")
    two = finding(2, "no fault", "a key is twice", severity="critical")
    three = finding(3, "hint GET", "the region does not open")
    four = finding(4, "manifest CREATE", "the pointer lags")
    assert findings.matters([one, two, three, four]) == [[two, one, four], [three]]
    lines = showing.listed([one, two, three, four], "x")
    assert [line[15:].startswith("  ") for line in lines[::2]] == [False, True, True, False]
    assert [int(line[:3]) for line in lines[::2]] == [2, 1, 4, 3]
    assert lines[1].strip() == "x 1; WAL-001; no fault; found after 0 s and 0 runs, seen in 1 run"


@pytest.mark.long
@pytest.mark.parametrize(
    ("bug", "life", "most", "words"),
    [
        ("merged_twice", "mergers", 20, "the base table has rows of one key twice"),
        ("flush_under_way", "collects", 40, ""),
    ],
)
def test_a_bug_that_needs_an_order_is_found_in_a_life_of_the_suite_after_few_plans(
    explored, bug: str, life: str, most: int, words: str
) -> None:
    found = explored(broken("--bug", bug), lives.load()[life], most, enough=1, smaller=False)
    (one,) = found.notebook.findings
    assert one.hit == "order"
    assert words in (one.words, "")
    assert found.begun <= most
