"""The report: when the verdict is ok, and what the page and the JSON hold."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

from memwal_spark import html, pictures, report, terminal
from memwal_spark.faults import Fault
from memwal_spark.oracle import Difference, Fingerprint, OracleComparison
from memwal_spark.proofs import Proof, TaskAttempt
from memwal_spark.report import (
    JobReport,
    JudgedPhase,
    MergerReport,
    Phase,
    RegionResult,
    VerifyResult,
    WriterReport,
)
from memwal_spark.timeline import Amplification, AttemptSpan, LagPoint, RegionEvent, Timeline
from memwal_spark.watching import HistoryReport
from rich.console import Console

SUM = Fingerprint(rows=3, keys=3, hash_sum=-5, hash_xor=7)
EQUAL = OracleComparison(name="base table", expected=SUM, actual=SUM, missing=0, extra=0, changed=0, duplicates=0)
CHANGED = replace(
    EQUAL,
    changed=1,
    differences=(
        Difference(
            kind="changed",
            key={"carrier": "B<6>", "flight": "27"},
            columns=("dep_delay",),
            expected={"dep_delay": "5"},
            actual={"dep_delay": None},
            history=({"carrier": "B<6>", "seq": "9"},),
            places=("wal        region 0f, epoch 2, position 7, job 0, task 2, attempt 1: seq 9",),
        ),
    ),
)
PROOF = Proof(
    fault=Fault(kind="task-error", job=0, partition=2, rows=30, puts=3, evidence="e"),
    attempts=(
        TaskAttempt(number=0, failed=True, seconds=1.0, reason="PlannedFault: planned"),
        TaskAttempt(number=1, failed=False, seconds=2.0, reason=""),
    ),
    generations=1,
    happened=True,
    facts=("attempt 0 failed (<planned>) and was retried",),
)
GOOD = JobReport(
    revision="B",
    seed=0,
    log="events",
    sequence="seq",
    keys=3,
    events=9,
    comparisons=(EQUAL,),
    phases=(Phase(name=report.WRITE, seconds=2.0, rows=9), Phase(name="start Spark", seconds=1.0)),
    faults=(PROOF,),
    regions=(
        RegionResult(
            region_id="0f", values={"bucket": "1"}, rows=9, puts=3, epoch=2, generations=4, merged=4, attempts=2
        ),
    ),
    timeline=Timeline(
        seconds=9.5,
        attempts=(
            AttemptSpan(region="0f", job=0, task=1, attempt=0, begun=0, ended=4, failed=True, reason="<killed>"),
            AttemptSpan(region="0f", job=0, task=1, attempt=1, begun=5, ended=9.5, failed=False, reason=""),
        ),
        events=tuple(
            RegionEvent(kind=kind, region="0f", at=float(at), number=at)
            for at, kind in enumerate(("claim", "flush", "merge"), 1)
        ),
        lag=(LagPoint(at=0, rows=0), LagPoint(at=2, rows=1500), LagPoint(at=9.5, rows=20)),
        bytes=Amplification(rows=100, wal=150, generations=120, base=200, beside=30),
    ),
    meanwhile=MergerReport(passes=5, generations=3, rows=6, conflicts=0),
    unmerged_scanned=1,
    peak_memory_bytes=2**30,
    versions={"Python": "3.11"},
)


def test_the_verdict_is_ok_when_all_is_equal_and_the_faults_happened() -> None:
    assert GOOD.verdict == "ok"
    assert GOOD.rates == ((report.WRITE, 4.5),)


def test_the_verdict_names_what_differs() -> None:
    bad = replace(GOOD, comparisons=(EQUAL, CHANGED))
    assert bad.verdict == "base table: 0 missing, 0 extra, 1 changed, 0 duplicated"


def test_equal_rows_with_unequal_fingerprints_are_not_ok() -> None:
    odd = replace(EQUAL, actual=replace(SUM, hash_xor=8))
    assert replace(GOOD, comparisons=(odd,)).verdict == "base table: fingerprints differ"


def test_a_planned_fault_that_did_not_happen_is_not_ok() -> None:
    attempts = (TaskAttempt(number=0, failed=False, seconds=1.0, reason=""),)
    unharmed = replace(PROOF, attempts=attempts, happened=False, facts=())
    expected = "planned fault (task-error, job 0, task 2, after 30 rows) did not happen: attempt 0 succeeded"
    found = replace(GOOD, faults=(unharmed,))
    assert (found.verdict, found.exit_code) == (expected, 4)
    assert replace(found, comparisons=(CHANGED,)).exit_code == 1
    put = replace(PROOF, violated=True, facts=("process 7 put 1.5 s after that, and was acknowledged",))
    assert (replace(GOOD, faults=(put,)).verdict, replace(GOOD, faults=(put,)).exit_code) == (put.summary, 1)
    assert "and was acknowledged" in put.summary


def test_a_run_without_merges_or_without_unmerged_generations_or_without_comparisons_is_not_ok() -> None:
    idle = replace(GOOD, meanwhile=MergerReport(passes=5, generations=0, rows=0, conflicts=0))
    assert idle.verdict == "no generation was merged while Spark wrote"
    assert replace(GOOD, unmerged_scanned=0).verdict == "the first scan met no unmerged generation"
    assert replace(GOOD, comparisons=()).verdict == "nothing was compared"


def test_findings_of_invariants_and_impossible_histories_are_not_ok() -> None:
    seen = (("regions", 2), ("table versions", 1), ("snapshots", 0))
    clean = VerifyResult(when="in the end", findings=(), looked_at=seen)
    assert clean.looked == "2 regions, 1 table version"
    history = HistoryReport(operations=9, keys=2, reads=4, overlapping=3)
    fine = replace(GOOD, verified=(clean,), history=history)
    assert fine.exit_code == 0
    bad = replace(fine, verified=(replace(clean, findings=("WAL-001 <hole>", "another")),))
    assert (bad.verdict, bad.exit_code) == ("in the end: 2 findings, WAL-001 <hole>", 1)
    assert "WAL-001 &lt;hole&gt;" in page(bad)[0]
    went_back = replace(fine, history=replace(history, conflicts=("key 1: stale",)))
    assert (went_back.verdict, went_back.exit_code) == ("impossible history: key 1: stale", 1)
    slow = replace(fine, history=replace(history, overlapping=0))
    assert (slow.verdict, slow.exit_code) == ("no watched key was read before its last row was durable", 4)


def test_the_json_starts_with_the_verdict_and_holds_the_figures(tmp_path: Path) -> None:
    report.write_json(GOOD, tmp_path / "out" / "report.json")
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    assert next(iter(content)) == "verdict"
    assert content["verdict"] == "ok"
    assert content["phases"][0] == {"name": report.WRITE, "seconds": 2.0, "rows": 9, "rows_per_second": 4.5}
    assert content["faults"][0]["happened"] is True
    assert content["comparisons"][0]["actual"]["hash_sum"] == -5
    assert content["generations"] == 4


class _Page(HTMLParser):
    """Collects the tags and attribute values of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.opened: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "data", "action")]
        if tag not in ("meta", "br", "rect"):
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag


def page(found: JobReport) -> tuple[str, _Page]:
    text = html.render(found)
    parsed = _Page()
    parsed.feed(text)
    assert parsed.opened == []
    return text, parsed


def test_the_page_refers_to_nothing_outside_itself_and_has_charts_and_both_colour_schemes() -> None:
    text, parsed = page(GOOD)
    assert parsed.references == []
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert parsed.tags.count("svg") == 4 + 2 * 5  # the signs; each picture for telephones, and for others
    assert "prefers-color-scheme: dark" in text


def test_the_page_shows_when_attempts_claims_flushes_merges_and_faults_were() -> None:
    text, _ = page(GOOD)
    assert "job 0, task 1, attempt 0, 0.0 to 4.0 s: &lt;killed&gt;" in text
    for told in ("1.0 s: claim of epoch 1", "2.0 s: flush of generation 2", "3.0 s: merge of generation 3"):
        assert text.count(told) == 2
    assert "at most 1,500 rows" in text
    assert "1.50 times" in text
    drawn = pictures.lanes_of(GOOD, 960)
    assert [(lane.label, lane.x) for lane in drawn.lanes] == [("bucket=1", 112.0)]
    second = [shape for shape in drawn.shapes if shape.kind == "attempt"]
    assert [(round(shape.x), round(shape.width)) for shape in second] == [(557, 393)]
    assert GOOD.timeline is not None
    assert [tick.text for tick in pictures.lag_of(GOOD.timeline, 360).ticks] == ["0 s", "2 s", "4 s", "6 s", "8 s"]


def test_another_implementation_is_told_with_what_was_found_of_it() -> None:
    told = JudgedPhase(when="in the end", findings=("WAL-001: <lost>",), choices=("AMB-11: no mark",), looked_at=1234)
    writer = WriterReport(name="pylance", version="14", command="cmd", helped=("merges",), phases=(told,))
    bad = replace(GOOD, writer=writer)
    assert (bad.exit_code, bad.verdict) == (1, "WAL-001: <lost>")
    assert "WAL-001: &lt;lost&gt;<br>" in page(bad)[0]
    assert "open in the texts: AMB-11: no mark" in page(bad)[0]
    output = StringIO()
    terminal.show(bad, Console(file=output, width=200))
    assert "BAD judged, in the end: 1 finding, 1,234 things looked at" in output.getvalue()
    assert json.loads(json.dumps(report.to_json(bad)))["writer"]["phases"][0]["findings"] == ["WAL-001: <lost>"]


def test_the_page_shows_differences_escaped_and_with_their_history() -> None:
    text, _ = page(replace(GOOD, comparisons=(CHANGED,)))
    assert "B&lt;6&gt; 27" in text
    assert "B<6>" not in text
    assert re.search(r"<td>dep_delay</td>\s*<td><mark>5</mark></td>\s*<td><mark>NULL</mark></td>", text)
    assert "epoch 2, position 7, job 0, task 2, attempt 1: seq 9" in text
    assert "not ok" in text


def test_the_page_of_a_mere_comparison_has_no_regions_and_no_faults() -> None:
    text, parsed = page(replace(GOOD, faults=(), regions=(), meanwhile=None, unmerged_scanned=None, timeline=None))
    assert "Planned faults" not in text
    assert parsed.tags.count("svg") == 2


def test_the_terminal_names_the_exact_row_that_differs() -> None:
    output = StringIO()
    terminal.show(replace(GOOD, comparisons=(CHANGED,)), Console(file=output, width=200))
    shown = output.getvalue()
    assert "changed B<6> 27: dep_delay 5 -> None" in shown
    assert "verdict: base table: 0 missing, 0 extra, 1 changed, 0 duplicated" in shown
