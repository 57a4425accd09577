"""What the suite found, as kept per version: ``python -m memwal_conformance.native.record REPORT [REPORT …] FOLDER``.

Takes the ``summary.json`` of a report, and writes a short one (per case its verdict, and why), ``fingerprint.json``
(what the implementation claims, and what it chose where the text leaves a choice), and in ``logs`` the requests of each
case that failed, if the table was behind the gate in one of the runs (``--memwal-gate``). Several reports about one
version are several runs: a case in which they disagree is INCONCLUSIVE.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memwal.words import counted, reason

from ..gate.log import LogEntry, text_of
from ..protocol import Hello
from ..registry.levels import levels_of
from ..reporting import failures, report
from ..verdicts import FAILING, CaseResult, Verdict, agreed

_CLAIMS = ("implementation", "version", "roles", "partial", "without", "helped", "capabilities")


def joined(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One summary of several runs of one version, added up anew; a case in which they disagree settles nothing.

    Raises `ValueError` if they are about different versions.
    """
    last = summaries[-1]
    if len({(summary["implementation"], summary["version"]) for summary in summaries}) > 1:
        raise ValueError("the reports are about different versions")
    cases: dict[str, CaseResult] = {}
    for case in (case for summary in summaries for case in summary["cases"]):
        found = report.from_text(json.dumps({**case, "steps": [], "requests": []}))
        cases[found.case] = agreed(cases[found.case], found) if found.case in cases else found
    results = [case for _, case in sorted(cases.items())]
    tallies = [
        report.tally(name, [r for r in results if r.revision == name], levels_of(name), said["total"])
        for name, said in last["revisions"].items()
    ]
    added = report.summary(Hello.of(last | {"revisions": list(last["revisions"])}), tallies, results)
    return added | {"runs": len(summaries)}


def short(summary: dict[str, Any]) -> dict[str, Any]:
    """Verdict of each case, with clauses and text where it is neither PASS nor UNSUPPORTED."""
    cases: dict[str, Any] = {}
    for case in summary["cases"]:
        told = case["verdict"] in ("PASS", "UNSUPPORTED")
        cases[case["case"]] = case["verdict"] if told else {name: case[name] for name in ("verdict", "clauses", "text")}
    runs = summary.get("runs", 1)
    of_runs = f"in {counted(runs, 'run')}: " if runs > 1 else ""
    sentences = [of_runs + revision["sentence"] for revision in summary["revisions"].values()]
    return {
        "implementation": summary["implementation"],
        "version": summary["version"],
        "says": sentences,
        "cases": cases,
    }


def fingerprint(summary: dict[str, Any], settings: Sequence[str] = ()) -> dict[str, Any]:
    """Claims, the settings of the adapter, open choices by ambiguity, and native texts without a kind."""
    chosen = [
        {
            "case": case["case"],
            "ambiguity": finding["ambiguity"],
            "clauses": finding["clauses"],
            "seen": finding["broken"],
        }
        for case in summary["cases"]
        for finding in case["findings"]
        if finding["broken"] is not None and finding["ambiguity"] is not None
    ]
    unmapped = sorted({text for case in summary["cases"] for text in case["unmapped"]})
    claims = {name: summary[name] for name in _CLAIMS}
    return {**claims, "settings": sorted(settings), "chosen": chosen, "unmapped": unmapped}


def logs(reports: Sequence[Path], summary: dict[str, Any]) -> dict[str, str]:
    """File name -> the log of the gate, of the cases of ``summary`` that a packed failure of a report has one for."""
    failing = {case["case"] for case in summary["cases"] if Verdict(case["verdict"]) in FAILING}
    found: dict[str, str] = {}
    for file in (file for folder in reports for file in sorted((folder / "failures").glob("*.json"))):
        packed = json.loads(file.read_text("utf-8"))
        if packed["case"] in failing and packed["requests"]:
            found[_log(packed["case"])] = text_of(map(LogEntry.from_json, packed["requests"]))
    return found


def _log(case: str) -> str:
    return f"{failures.name_of(case).removeprefix('scenarios-')}.log"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("reports", nargs="+", type=Path, help="folders of reports (--memwal-report) of one version")
    parser.add_argument("folder", type=Path, help="where the short form goes")
    parser.add_argument("--setting", action="append", default=[], help="NAME=VALUE that the adapter had in the runs")
    given = parser.parse_args(arguments)
    try:
        summary = joined([json.loads((found / "summary.json").read_text("utf-8")) for found in given.reports])
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"no usable report: {reason(error)}")
    given.folder.mkdir(parents=True, exist_ok=True)
    told = fingerprint(summary, given.setting)
    for name, content in (("summary.json", short(summary)), ("fingerprint.json", told)):
        (given.folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for case in summary["cases"]:
        (given.folder / "logs" / _log(case["case"])).unlink(missing_ok=True)
    for name, text in logs(given.reports, summary).items():
        (given.folder / "logs").mkdir(exist_ok=True)
        (given.folder / "logs" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
