"""Reports of a run: the page, packed failures, run logs, and runs in several processes."""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from kit.browser import Tab, browsing, installed
from kit.runs import Run, changed_skeleton, run_suite
from memwal_conformance import vectors
from memwal_conformance.adapters.process import Exchange
from memwal_conformance.generated.clause_matrix import clauses_html
from memwal_conformance.protocol import Hello, Json
from memwal_conformance.proving.coverage import ClauseCoverage
from memwal_conformance.pytest_plugin.session import noted
from memwal_conformance.registry.clauses import clauses
from memwal_conformance.registry.levels import levels_of
from memwal_conformance.replaying import against
from memwal_conformance.reporting import Finished, failures, page, picture, report, write
from memwal_conformance.running import scenarios
from memwal_conformance.vectors import BadCase
from memwal_conformance.verdicts import CaseResult, Finding, Verdict

HERE = Path(__file__).resolve().parents[2]
HELLO = Hello(
    implementation="example <1>",
    version="7",
    revisions=("B",),
    roles=("writer", "reader"),
    capabilities=frozenset(),
)
FENCES = "scenarios/second_writer_fences_first.json::B"
TITLE = "A second writer fences the first one, and nothing that was acknowledged is lost."


def message(actor: str, name: str, params: Json, outcome: Json, **more: int) -> Json:
    return {"actor": actor, "message": name, "params": params, "outcome": outcome, "seconds": 0.0125, **more}


def request(order: int, actor: str, operation: str, name: str, status: int, fate: str, rule: str = "") -> Json:
    return {
        "order": order,
        "actor": actor,
        "class": "wal",
        "name": name,
        "key": f"table/{name}",
        "others": [],
        "operation": operation,
        "fate": fate,
        "status": status,
        "request_bytes": 310,
        "request_digest": "00",
        "reply_bytes": 0,
        "reply_digest": "00",
        "store": "00",
        "number": order,
        "rule": rule,
    }


ROWS = {"columns": [], "rows": [[], []]}
STEPS = (
    message("one", "configure", {"revision": "B"}, {"result": {}}),
    message("one", "writer.open", {}, {"result": {"writer": "w1", "epoch": "1"}}, requests=1),
    message("one", "writer.put", {"rows": ROWS, "durable": True}, {"result": {}}, requests=2),
    message("two", "writer.open", {}, {"result": {"writer": "w1", "epoch": "2"}}, requests=3),
    message("one", "writer.put", {"rows": ROWS, "durable": True}, {"error": {"kind": "fenced", "message": "no"}}),
    {"kill": "one", "died": True},
    message("two", "reader.scan", {}, {"result": {"rows": ROWS}}),
    {"check": "structure", "broken": None, "clauses": ["WAL-013"]},
    {"check": "structure", "broken": None, "clauses": ["WAL-015"]},
    {"check": "history", "broken": "the row {'id': 1} is missing", "clauses": ["FENCE-016"]},
)
REQUESTS = (
    request(1, "one", "CREATE", "manifest/@1", 200, "normal"),
    request(2, "one", "CREATE", "wal/@1", 200, "applied", "lose the answer"),
    request(3, "two", "CREATE", "manifest/@2", 200, "normal"),
)


def result(case: str, verdict: Verdict, *findings: Finding, **more: Any) -> CaseResult:
    revision = case.rpartition("::")[2] if case.startswith("scenarios") else case.split("/")[1]
    given: dict[str, Any] = {
        "case": case,
        "revision": revision,
        "area": "scenario" if case.startswith("scenarios") else case.split("/")[2],
        "title": "T.",
        "clauses": ("WAL-001",),
        "verdict": verdict,
        "findings": findings,
        "text": "",
        "command": f"pytest 'conformance/{case}'",
        **more,
    }
    return CaseResult(**given)


@pytest.fixture
def finished() -> Finished:
    """Three cases: one fails behind the gate, one passes, one is not supported."""
    why = "FAIL [FENCE-016] the row {'id': 1} is missing\nsteps:\n  one writer.open: done"
    lost = Finding(clauses=("FENCE-016",), broken="the row {'id': 1} is missing")
    held = Finding(clauses=("WAL-013", "WAL-015"), broken=None)
    results = (
        result(FENCES, Verdict.FAIL, held, lost, title=TITLE, clauses=("FENCE-016", "WAL-013"), text=why, steps=STEPS,
               requests=REQUESTS),
        result("vectors/B/hash/text/case.json::eval", Verdict.UNSUPPORTED, clauses=("REGION-035",), text="not claimed"),
        result("vectors/B/name/wal_entries/case.json::eval", Verdict.PASS, Finding(clauses=("WAL-013",), broken=None),
               clauses=("WAL-013",)),
    )  # fmt: skip
    return Finished(
        hello=HELLO,
        tallies=(report.tally("B", results, levels_of("B"), total=81),),
        results=results,
        files={r.case: HERE / r.case.partition("::")[0] for r in results},
    )


# What a case says about a clause ----------------------------------------------------------------------------------


def test_a_case_gives_each_clause_the_most_severe_of_its_findings() -> None:
    found = result(
        "scenarios/x.json::B",
        Verdict.FAIL,
        Finding(clauses=("WAL-001", "WAL-016"), broken="x"),
        Finding(clauses=("WAL-001", "WAL-013"), broken=None),
        Finding(clauses=("FENCE-001",), broken="x", ambiguity="AMB-24"),
        Finding(clauses=(), broken="x", witness=True),
    )
    levels = {"WAL-001": "MUST", "WAL-016": "SHOULD", "WAL-013": "MUST", "FENCE-001": "MUST"}
    assert report.by_clause(found, levels) == {
        "WAL-001": Verdict.FAIL,
        "WAL-016": Verdict.WARN,
        "WAL-013": Verdict.PASS,
        "FENCE-001": Verdict.OBSERVED,
    }


def test_what_is_broken_or_open_comes_with_the_notes_that_it_may_be_about() -> None:
    broken = Finding(clauses=("MANIFEST-008",), broken="0 was taken for a position")
    open_to = Finding(clauses=("WAL-001",), broken="no rows", ambiguity="AMB-27")
    judged = partial(result, "scenarios/c.json::B", Verdict.FAIL)
    held, seen = Finding(clauses=("WAL-004",), broken=None), Finding(clauses=(), broken="x", witness=True)
    found = report.with_notes(judged(broken, open_to, held, seen, text="why\nsteps:\n  a put"))
    lines = found.text.splitlines()
    assert lines[:2] == ["why", "notes:"]
    assert lines[-2:] == ["steps:", "  a put"]
    assert [line.partition(" (")[0] for line in lines[2:-2]] == ["  AMB-07", "  AMB-41", "  AMB-27"]
    assert 'Zero means both "nothing flushed" and "entry 0 flushed" in B): ' in lines[2]
    assert report.with_notes(judged(held)).text == ""


def test_a_case_that_did_not_come_to_an_end_says_so_of_all_of_its_clauses() -> None:
    found = result("scenarios/x.json::B", Verdict.CRASH, Finding(clauses=("WAL-001",), broken=None), clauses=("WAL-001",
                   "WAL-013"))  # fmt: skip
    levels = {"WAL-001": "MUST", "WAL-013": "MUST"}
    assert report.by_clause(found, levels) == {"WAL-001": Verdict.CRASH, "WAL-013": Verdict.CRASH}


# The picture ------------------------------------------------------------------------------------------------------


def test_the_picture_has_a_lane_for_each_actor_and_the_requests_in_their_order() -> None:
    drawn = picture.draw(result(FENCES, Verdict.FAIL, steps=STEPS, requests=REQUESTS))
    assert drawn is not None
    assert [name for name, _, _ in drawn.actors] == ["one", "two"]
    assert [(row.kind, row.number, row.actor, row.words, row.answer) for row in drawn.rows] == [
        ("request", "#1", 0, "CREATE manifest/@1", "200"),
        ("message", "2", 0, "writer.open", "writer w1, epoch 1"),
        ("request", "#2", 0, "CREATE wal/@1", "200, applied"),
        ("message", "3", 0, "writer.put (2 rows, durable)", "done"),
        ("request", "#3", 1, "CREATE manifest/@2", "200"),
        ("message", "4", 1, "writer.open", "writer w1, epoch 2"),
        ("message", "5", 0, "writer.put (2 rows, durable)", "fenced"),
        ("kill", "6", 0, "SIGKILL one", ""),
        ("message", "7", 1, "reader.scan", "2 rows"),
        ("check", "8", None, "check structure", "holds, 2 times"),
        ("check", "10", None, "check history", "the row {'id': 1} is missing"),
    ]
    assert [row.number for row in drawn.rows if row.bad] == ["#2", "10"]


def test_the_lane_of_an_actor_ends_where_it_was_killed_and_begins_anew_behind_that() -> None:
    steps = (
        message("one", "writer.open", {}, {"result": {}}),
        {"kill": "one", "died": True},
        message("two", "writer.open", {}, {"result": {}}),
        message("one", "reader.open", {}, {"result": {}}),
        message("one", "reader.scan", {}, {"result": {}}),
    )
    drawn = picture.draw(result(FENCES, Verdict.PASS, steps=steps))
    assert drawn is not None
    y = [row.y for row in drawn.rows]
    lives = sorted((life.actor, life.start, life.end) for life in drawn.lives)
    assert lives == [(0, y[0], y[1]), (0, y[3], y[4]), (1, y[2], y[2])]


def test_requests_that_no_step_counts_come_last() -> None:
    drawn = picture.draw(result(FENCES, Verdict.PASS, steps=STEPS[1:2], requests=REQUESTS))
    assert drawn is not None
    assert [row.number for row in drawn.rows] == ["#1", "1", "#2", "#3"]


def test_what_a_case_does_with_the_rules_of_the_gate_is_shown() -> None:
    steps = ({"rule": "late put", "what": "arm", "requests": 0}, message("one", "writer.open", {}, {"result": {}}))
    drawn = picture.draw(result(FENCES, Verdict.PASS, steps=steps))
    assert drawn is not None
    assert [(row.kind, row.words, row.actor) for row in drawn.rows] == [
        ("rule", "arm the rule late put", None),
        ("message", "writer.open", 0),
    ]


def test_the_second_run_of_a_case_is_behind_all_requests_of_the_first() -> None:
    first = message("one", "writer.open", {}, {"result": {}}, requests=1)
    again = ({"again": "FAIL"}, message("one", "writer.open", {}, {"broken": "no answer"}, requests=3))
    drawn = picture.draw(result(FENCES, Verdict.INCONCLUSIVE, steps=(first, *again), requests=REQUESTS))
    assert drawn is not None
    assert [row.kind for row in drawn.rows] == ["request", "message", "request", "request", "again", "message"]
    assert (drawn.rows[-1].answer, drawn.rows[-1].bad) == ("no answer", True)
    assert sorted(life.start for life in drawn.lives if life.actor == 0) == [drawn.rows[0].y, drawn.rows[5].y]


def test_a_vector_has_no_picture() -> None:
    steps = (message("vectors", "eval.name", {}, {"result": {"name": "0"}}),)
    assert picture.draw(result("vectors/B/name/wal_entries/case.json::eval", Verdict.PASS, steps=steps)) is None


# Packed failures --------------------------------------------------------------------------------------------------


def test_a_failure_is_packed_with_its_scenario_and_everything_that_was_recorded(
    finished: Finished, tmp_path: Path
) -> None:
    write(finished, tmp_path)
    (file,) = (tmp_path / "failures").iterdir()
    assert file.name == "scenarios-second_writer_fences_first-B.json"
    packed = failures.load(file)
    scenario = json.loads((HERE / "scenarios" / "second_writer_fences_first.json").read_text("utf-8"))
    assert packed["scenario"] == scenario
    assert (packed["case"], packed["revision"], packed["verdict"]) == (FENCES, "B", "FAIL")
    assert packed["steps"] == list(STEPS)
    assert packed["requests"] == list(REQUESTS)
    assert packed["implementation"]["implementation"] == "example <1>"


def test_the_scenario_in_a_packed_failure_is_a_scenario_of_the_suite(finished: Finished, tmp_path: Path) -> None:
    (file,) = failures.write(finished, tmp_path / "failures")
    taken = tmp_path / "taken.json"
    taken.write_text(json.dumps(failures.load(file)["scenario"]), "utf-8")
    assert scenarios.load(taken).title == TITLE


def test_a_vector_is_packed_with_its_input(tmp_path: Path) -> None:
    case = "vectors/A/invalid/manifest_of_another_region/case.json::decode"
    failed = result(case, Verdict.FAIL, text="accepted")
    packed = failures.pack(failed, HERE / case.partition("::")[0], {})
    vector = vectors.load(HERE / case.partition("::")[0])
    assert packed["vector"]["direction"] == "decode"
    assert packed["vector"]["expected"] == vector.expected
    (data,) = packed["vector"]["input"].values()
    assert len(data) > 20
    file = tmp_path / "packed.json"
    file.write_text(json.dumps(packed), "utf-8")
    assert failures.load(file)["verdict"] == "FAIL"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": "other"}, "is not a packed failure"),
        ({"revision": None}, "revision is missing"),
        ({"vector": {}}, "must have either scenario or vector"),
        ({"scenario": {"title": 1}}, "clauses"),
        ({"scenario": None, "vector": 7}, "vector is not an object"),
    ],
)
def test_a_file_that_is_no_packed_failure_is_refused(
    finished: Finished, tmp_path: Path, change: Json, complaint: str
) -> None:
    (file,) = failures.write(finished, tmp_path / "failures")
    packed = {**json.loads(file.read_text("utf-8")), **change}
    file.write_text(json.dumps({name: value for name, value in packed.items() if value is not None}), "utf-8")
    with pytest.raises(BadCase, match=complaint):
        failures.load(file)


def test_failures_of_an_earlier_run_are_removed(finished: Finished, tmp_path: Path) -> None:
    folder = tmp_path / "failures"
    folder.mkdir()
    (folder / "scenarios-old-B.json").write_text("{}", "utf-8")
    assert [file.name for file in failures.write(finished, folder)] == [file.name for file in folder.iterdir()]


# The page ---------------------------------------------------------------------------------------------------------


def test_the_page_refers_to_nothing_outside_itself(finished: Finished) -> None:
    text = page.render(finished)
    assert "http" not in text.replace('http-equiv="Content-Security-Policy"', "")
    assert "src=" not in text
    assert "<link" not in text
    assert "url(" not in text


def test_what_an_implementation_says_is_shown_and_never_run(finished: Finished) -> None:
    text = page.render(finished)
    assert "example &lt;1&gt;" in text
    assert "example <1>" not in text


def test_the_page_has_a_line_for_each_clause_that_was_looked_at(finished: Finished) -> None:
    known = {clause.id: clause for clause in page.clauses()}
    lines = page.matrix(finished.results, ["B"], known)
    assert {line.clause.id: line.cells for line in lines} == {
        "REGION-035": (((Verdict.UNSUPPORTED, 1),),),
        "WAL-013": (((Verdict.PASS, 2),),),
        "WAL-015": (((Verdict.PASS, 1),),),
        "FENCE-016": (((Verdict.FAIL, 1),),),
    }


def test_the_page_begins_with_what_is_wrong_and_what_is_not_supported_is_folded_away(finished: Finished) -> None:
    again = result(
        "scenarios/other.json::B", Verdict.FAIL, Finding(clauses=("FENCE-016",), broken="the row {'id': 2} is missing")
    )
    open_ = result(
        "scenarios/open.json::B", Verdict.OBSERVED, Finding(clauses=("WAL-013",), broken="x", ambiguity="AMB-11")
    )
    held = result(
        "scenarios/held.json::B", Verdict.INCONCLUSIVE, Finding(clauses=("WAL-013",), broken="y", witness=True)
    )
    results = (*finished.results, again, open_, held)
    found = page.findings(results)
    assert [(each.verdict, each.sentence, each.clauses, len(each.cases)) for each in found] == [
        (Verdict.FAIL, "the row {'id': 1} is missing", ("FENCE-016",), 2),
        (Verdict.OBSERVED, "x", ("WAL-013",), 1),
    ]
    text = page.render(replace(finished, results=results))
    assert text.index('id="findings-title"') < text.index('id="areas-title"') < text.index('id="clauses-title"')
    assert f'href="#{failures.name_of("scenarios/other.json::B")}"' in text
    assert 'data-verdict="UNSUPPORTED" aria-pressed="false"' in text
    assert re.findall(r'<details class="case"[^>]*data-verdict="(\w+)"[^>]* hidden>', text) == ["UNSUPPORTED"]
    assert re.findall(r'<details class="group"( open)?>\s*<summary><b>(\w+)</b>', text) == [
        ("", "REGION"), (" open", "WAL"), (" open", "FENCE"),
    ]  # fmt: skip
    assert "findings-title" not in page.render(replace(finished, results=finished.results[1:]))


def test_a_case_about_a_note_that_no_clause_speaks_of_is_shown_with_the_words_of_the_note(finished: Finished) -> None:
    late = result("scenarios/a_late_row_is_left_out.json::B", Verdict.UNSUPPORTED, clauses=("AMB-148",))
    text = page.render(replace(finished, results=(late,)))
    assert '<a title="AMB-148 (Late rows of a later claim): ' in text


def test_a_message_is_cut_where_it_is_too_long_for_the_page(finished: Finished) -> None:
    long = message("one", "writer.put", {"rows": "x" * 5000}, {"result": {}})
    (case,) = [page._case(result(FENCES, Verdict.PASS, steps=(long,)))]
    assert case.steps[0].params.endswith("characters more in run.jsonl)")
    assert len(case.steps[0].params) < 1_600


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = installed()
    if program is None:
        pytest.skip("no Chromium on this machine to open the page in")
    with browsing(program, tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture
def opened(tab: Tab, finished: Finished, tmp_path: Path) -> Iterator[Callable[..., Tab]]:
    """Opens the page; fails the test if the page complained or asked for anything else."""
    path = write(finished, tmp_path)

    def open_page(fragment: str = "", width: int = 1400, scheme: str = "light") -> Tab:
        tab.scheme(scheme)
        tab.size(width, 900)
        tab.open(path, fragment)
        return tab

    yield open_page
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
    assert tab.complaints == []
    assert [url.partition("#")[0].rpartition("/")[2] for url in tab.requests] == ["report.html"]


VISIBLE = "[...document.querySelectorAll('.case')].filter(e => !e.hidden).map(e => e.dataset.verdict)"
FOCUSED = "document.activeElement.closest('.case')?.dataset.verdict"


def test_cases_are_sorted_worst_first_and_keys_walk_through_them(opened: Callable[..., Tab]) -> None:
    tab = opened()
    assert tab.run(VISIBLE) == ["FAIL", "PASS"]  # what is not supported is folded away
    assert tab.run("document.getElementById('count').innerText") == "2 of 3"
    tab.press("a")
    assert tab.run(VISIBLE) == ["FAIL", "UNSUPPORTED", "PASS"]
    for key, verdict in (("j", "FAIL"), ("j", "UNSUPPORTED"), ("j", "PASS"), ("j", "PASS"), ("k", "UNSUPPORTED")):
        tab.press(key)
        assert tab.run(FOCUSED) == verdict


def test_a_case_opens_with_what_happened_and_the_command_that_runs_it_alone(opened: Callable[..., Tab]) -> None:
    tab = opened()
    tab.run("document.querySelector('.case summary').click()")
    seen = tab.run("document.querySelector('.case').innerText")
    assert f"pytest 'conformance/{FENCES}'" in seen
    assert "the row {'id': 1} is missing" in seen
    assert "failures/scenarios-second_writer_fences_first-B.json" in seen
    drawn = tab.run("[...document.querySelectorAll('.case .picture .head')].map(e => e.textContent)")
    assert drawn == ["one", "two", "store"]
    assert tab.run("document.querySelectorAll('.case .picture .cross').length") == 1


def test_words_and_verdicts_choose_cases(opened: Callable[..., Tab]) -> None:
    tab = opened()
    tab.press("/")
    tab.run("{const s = document.getElementById('search'); s.value = 'wal-013'; s.dispatchEvent(new Event('input'))}")
    assert tab.run(VISIBLE) == ["FAIL", "PASS"]
    assert tab.run("document.getElementById('count').innerText") == "2 of 3"
    tab.run("document.querySelector('.pick[data-verdict=FAIL]').click()")
    assert tab.run(VISIBLE) == ["PASS"]
    tab.run("document.getElementById('search').blur()")
    tab.press("a")
    assert tab.run(VISIBLE) == ["FAIL", "UNSUPPORTED", "PASS"]


def test_words_choose_clauses_on_the_page_of_all_clauses(tab: Tab, tmp_path: Path) -> None:
    known = [
        ClauseCoverage(clause=each, status=each.status)
        for each in clauses()
        if each.id in ("WAL-001", "WAL-002", "FENCE-001")
    ]
    page = tmp_path / "clauses.html"
    page.write_text(clauses_html(known), "utf-8")
    tab.size(420, 900)
    tab.open(page)
    shown = "[...document.querySelectorAll('tr[id]')].filter(row => row.offsetHeight > 0).map(row => row.id)"
    assert len(tab.run(shown)) == 3
    tab.run("{const s = document.getElementById('search'); s.value = 'fence-001'; s.dispatchEvent(new Event('input'))}")
    assert tab.run(shown) == ["FENCE-001"]
    assert tab.run("document.getElementById('found').innerText") == "1 of 3"
    assert (tab.run("document.documentElement.scrollWidth"), tab.complaints) == (420, [])


def test_a_clause_shows_its_cases(opened: Callable[..., Tab]) -> None:
    tab = opened()
    tab.run("document.querySelector('[data-clause=\"REGION-035\"]').click()")
    assert tab.run(VISIBLE) == ["UNSUPPORTED"]


def test_a_link_to_a_case_opens_it(opened: Callable[..., Tab]) -> None:
    tab = opened("#vectors-B-name-wal_entries-eval")
    assert tab.run("document.querySelector('.case[data-verdict=PASS]').open") is True


def test_dark_follows_the_system_and_the_key_turns_it_round(opened: Callable[..., Tab]) -> None:
    tab = opened(scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert tab.run(ground) == "rgb(20, 24, 28)"
    tab.press("t")
    assert tab.run(ground) == "rgb(255, 255, 255)"
    tab.press("t")
    assert tab.run(ground) == "rgb(20, 24, 28)"


@pytest.mark.parametrize("width", [1400, 360])
def test_nothing_sticks_out_of_the_window(opened: Callable[..., Tab], width: int) -> None:
    tab = opened(width=width)
    tab.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_everything_that_can_be_pressed_has_a_name(opened: Callable[..., Tab]) -> None:
    tab = opened()
    pressed = "[...document.querySelectorAll('button, input')]"
    assert tab.run(f"{pressed}.filter(e => !(e.getAttribute('aria-label') || e.textContent.trim())).length") == 0


# Whole runs -------------------------------------------------------------------------------------------------------

SKELETON = f"{sys.executable} {HERE / 'memwal_conformance' / 'adapters' / 'skeleton.py'}"
NAMES = "conformance/vectors/B/name"
HASH = "conformance/vectors/B/hash/text"


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("one")
    more = ("--memwal-adapter", SKELETON, "--junit-xml", str(folder / "junit.xml"))
    return run_suite(folder, NAMES, HASH, *more)


def test_junit_has_clauses_and_verdict_of_each_case(one_process: Run) -> None:
    cases = ElementTree.parse(one_process.folder / "junit.xml").getroot().iter("testcase")
    found = [{each.attrib["name"]: each.attrib["value"] for each in case.iter("property")} for case in cases]
    assert len(found) == 5
    assert {"memwal.verdict": "PASS", "memwal.revision": "B", "memwal.clauses": "MANIFEST-024"} in found
    assert found[-1] == {
        "memwal.verdict": "UNSUPPORTED",
        "memwal.revision": "B",
        "memwal.clauses": "REGION-035",
        "memwal.why": "not claimed: eval.hash",
    }


def logged(run: Run) -> list[Json]:
    return [json.loads(line) for line in (run.folder / "run.jsonl").read_text("utf-8").splitlines()]


def test_the_run_log_says_to_which_case_a_message_belongs(one_process: Run) -> None:
    lines = logged(one_process)
    assert (lines[0]["case"], lines[0]["message"]) == ("", "hello")
    asked = {line["case"] for line in lines if line["message"] == "eval.name"}
    assert asked == {
        f"vectors/B/name/{name}/case.json::eval [B]"
        for name in ("region_manifests", "table_manifests", "wal_entries", "wal_suffix")
    }


def test_the_summary_has_commands_and_no_messages(one_process: Run) -> None:
    (case,) = [case for case in one_process.summary["cases"] if "wal_entries" in case["case"]]
    assert case["command"].startswith("pytest conformance/vectors/B/name/wal_entries/case.json::eval --memwal-adapter ")
    assert not {"steps", "requests"} & set(case)


@pytest.mark.long
def test_workers_come_to_the_same_verdicts_in_one_report(one_process: Run, tmp_path: Path) -> None:
    for old in ("run.jsonl", "run.gw7.jsonl"):
        (tmp_path / old).write_text("of an earlier run", "utf-8")
    run = run_suite(tmp_path, NAMES, HASH, "--memwal-adapter", SKELETON, "-n", "2")
    assert run.status == 0, run.text
    assert run.summary["revisions"] == one_process.summary["revisions"]
    assert [case["verdict"] for case in run.summary["cases"]] == [
        case["verdict"] for case in one_process.summary["cases"]
    ]
    assert run.text.splitlines()[-2] == run.summary["revisions"]["B"]["sentence"]
    assert [file.name for file in tmp_path.glob("run*.jsonl")] == ["run.jsonl"]
    questions = [sum(line["message"] == "eval.name" for line in logged(each)) for each in (run, one_process)]
    assert questions[0] == questions[1] > 0
    assert "wal_entries" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.long
def test_workers_say_why_there_is_no_verdict(tmp_path: Path) -> None:
    silent = f'{sys.executable} -c "import sys; sys.exit(3)"'
    run = run_suite(tmp_path, NAMES, "--memwal-adapter", silent, "-n", "2")
    assert run.status == 1
    assert re.search("^no verdict: the adapter ended .exit status 3", run.text, re.MULTILINE), run.text


@pytest.mark.long
def test_no_worker_judges_a_revision_whose_smoke_stage_fails(tmp_path: Path) -> None:
    roles = ('"roles": [],', '"roles": ["writer", "reader"],')
    creates = ('"capabilities": ["eval.name"]', '"capabilities": ["eval.name", "table.create"]')
    adapter = changed_skeleton(tmp_path, roles, creates)
    cases = (NAMES, "conformance/scenarios/smoke.json")
    run = run_suite(tmp_path, *cases, "--memwal-adapter", adapter, "--memwal-revision", "B", "-n", "2")
    assert run.status == 1
    assert [case["verdict"] for case in run.summary["cases"]] == ["CRASH"]
    assert "1 failed, 4 skipped" in run.text


@pytest.mark.long
def test_steps_behind_the_gate_say_how_many_requests_there_had_been(tmp_path: Path) -> None:
    run = run_suite(tmp_path, "conformance/scenarios/gate/wal_put_answer_lost.json", "--memwal-revision", "B")
    assert run.status == 0, run.text
    lines = [line for line in logged(run) if line["case"].endswith("[B]")]
    counts = [line["requests"] for line in lines]
    assert counts == sorted(counts)
    assert counts[0] == 0 < counts[-1]
    assert {"arm"} <= {line["what"] for line in lines if "rule" in line}
    assert f">#{counts[-1]}<" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.long
def test_words_choose_cases_and_the_sentence_says_so(tmp_path: Path) -> None:
    run = run_suite(tmp_path, NAMES, "--memwal-adapter", SKELETON, "-k", "manifests")
    assert "2 passed, 2 deselected" in run.text
    assert re.search("; a selection: 2 of [0-9]+ cases ran", run.text), run.text


@pytest.mark.long
def test_cases_that_failed_last_time_run_alone_and_the_sentence_says_so(tmp_path: Path) -> None:
    adapter = changed_skeleton(
        tmp_path, ("    number = int(", '    assert params["kind"] != "wal", "boom"\n    number = int(')
    )
    first = run_suite(tmp_path, NAMES, "--memwal-adapter", adapter, cache=True)
    assert "2 failed, 2 passed" in first.text
    again = run_suite(tmp_path, NAMES, "--memwal-adapter", adapter, "--lf", cache=True)
    assert re.search("^2 failed(, 2 deselected)? in ", again.text, re.MULTILINE), again.text
    assert re.search(r", 2 crashed; a selection: 2 of [0-9]+ cases ran$", again.text, re.MULTILINE), again.text
    assert {case["verdict"] for case in again.summary["cases"]} == {"CRASH"}
    assert len(list((tmp_path / "failures").iterdir())) == 2


def test_a_packed_failure_of_a_run_has_the_messages_that_were_sent(tmp_path: Path) -> None:
    wrong = ('return {"name": f"{number', 'return {"name": f"x{number')
    adapter = changed_skeleton(tmp_path, wrong)
    run_suite(tmp_path, f"{NAMES}/wal_entries", "--memwal-adapter", adapter)
    (file,) = (tmp_path / "failures").iterdir()
    packed = failures.load(file)
    assert file.name == "vectors-B-name-wal_entries-eval.json"
    asked = json.loads(base64.b64decode(packed["vector"]["input"]["questions.json"]))
    sent = [step["params"] for step in packed["steps"] if step.get("message") == "eval.name"]
    assert sent == asked


# Requests that an adapter tells of ----------------------------------------------------------------------------------


@pytest.mark.long
def test_requests_that_adapters_tell_of_stand_in_the_report_as_those_of_a_gate(tmp_path: Path) -> None:
    broken = f"{sys.executable} -m memwal_conformance.proving.broken limits_first"
    case = "conformance/scenarios/a_limit_counts_newest_rows_only.json"
    run_suite(tmp_path, case, "--memwal-adapter", broken, "--memwal-revision", "B")
    (file,) = (tmp_path / "failures").iterdir()
    packed = json.loads(file.read_text("utf-8"))
    assert [r["order"] for r in packed["requests"]] == list(range(1, len(packed["requests"]) + 1))
    told = [(r["actor"], r["operation"], r["class"], r["name"], r["status"]) for r in packed["requests"]]
    assert ("one", "put_if_absent", "wal", "wal/@0", "ok") in told
    assert ("one", "put_if_absent", "manifest", "manifest/@1", "ok") in told
    opened = next(step for step in packed["steps"] if step.get("message") == "writer.open")
    assert 0 < opened["requests"] < len(packed["requests"])
    assert "Requests to the store" in (tmp_path / "report.html").read_text("utf-8")


def test_the_log_of_a_run_has_no_secret() -> None:
    storage = {"endpoint": "http://127.0.0.1:1", "region": "r", "access_key_id": "one", "secret_access_key": "hush"}
    exchange = Exchange(
        actor="one", message="configure", params={"storage": storage}, outcome={"result": {}}, seconds=0.1
    )
    step = noted(exchange)
    assert step["params"]["storage"] == storage | {"secret_access_key": "…"}
    assert "trace" not in step


# Every table behind the gate -----------------------------------------------------------------------------------------

BAD_ROWS = "conformance/scenarios/bad_rows_are_refused.json"


def requests_of(packed: Json) -> list[tuple[str, str, str]]:
    return [(request["actor"], request["operation"], request["name"]) for request in packed["requests"]]


def test_a_plain_case_that_fails_behind_the_gate_has_its_requests_and_says_how_it_was_run(tmp_path: Path) -> None:
    broken = f"{sys.executable} -m memwal_conformance.proving.broken --bug canary"
    run = run_suite(tmp_path, BAD_ROWS, "--memwal-adapter", broken, "--memwal-revision", "B", "--memwal-gate")
    assert [case["verdict"] for case in run.summary["cases"]] == ["FAIL"]
    assert run.summary["cases"][0]["command"].endswith(" --memwal-gate")
    (file,) = (tmp_path / "failures").iterdir()
    packed = failures.load(file)
    assert ("one", "CREATE", "manifest/@1") in requests_of(packed)
    assert packed["scenario"]["gate"] == {"rules": []}
    (again,) = against.replayed(file, (sys.executable, "-m", "memwal_conformance.adapters.reference"))
    assert again.verdict is Verdict.PASS


@pytest.mark.long
def test_a_table_of_a_vector_that_fails_behind_the_gate_has_its_requests(tmp_path: Path) -> None:
    broken = f"{sys.executable} -m memwal_conformance.proving.broken --bug replays_flushed_entries"
    case = "conformance/vectors/B/state"
    run = run_suite(tmp_path, case, "--memwal-adapter", broken, "--memwal-revision", "B", "--memwal-gate")
    plain = run_suite(tmp_path / "plain", case, "--memwal-adapter", broken, "--memwal-revision", "B")
    verdicts = [[(case["case"], case["verdict"]) for case in each.summary["cases"]] for each in (run, plain)]
    assert verdicts[0] == verdicts[1]
    packed = [failures.load(file) for file in (tmp_path / "failures").iterdir()]
    assert packed
    assert all(("vector", "GET", "wal/@0") in requests_of(each) for each in packed)


def test_behind_the_gate_an_adapter_that_cannot_go_there_is_not_run(tmp_path: Path) -> None:
    adapter = changed_skeleton(
        tmp_path,
        ('"roles": [],', '"roles": ["writer", "reader"],'),
        ('"capabilities": ["eval.name"]', '"capabilities": ["eval.name", "table.create"]'),
    )
    cases = (NAMES, "conformance/scenarios/smoke.json")
    run = run_suite(tmp_path, *cases, "--memwal-adapter", adapter, "--memwal-revision", "B", "--memwal-gate")
    assert [case["verdict"] for case in run.summary["cases"]] == ["UNSUPPORTED", *["PASS"] * 4]
    assert run.summary["cases"][0]["text"] == "not claimed: s3"
