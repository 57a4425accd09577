"""What a run of the suite found, as kept per version: ``python -m memwal_conformance.native_record REPORT FOLDER``.

Takes the ``summary.json`` of a report, and writes a short one (per case its verdict, and why) and ``fingerprint.json``
(what the implementation claims, and what it chose where the text leaves a choice).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_CLAIMS = ("implementation", "version", "roles", "partial", "without", "capabilities")


def short(summary: dict[str, Any]) -> dict[str, Any]:
    """Verdict of each case, with clauses and text where it is neither PASS nor UNSUPPORTED."""
    cases: dict[str, Any] = {}
    for case in summary["cases"]:
        told = case["verdict"] in ("PASS", "UNSUPPORTED")
        cases[case["case"]] = case["verdict"] if told else {name: case[name] for name in ("verdict", "clauses", "text")}
    sentences = [revision["sentence"] for revision in summary["revisions"].values()]
    return {
        "implementation": summary["implementation"],
        "version": summary["version"],
        "says": sentences,
        "cases": cases,
    }


def fingerprint(summary: dict[str, Any]) -> dict[str, Any]:
    """Claims, open choices by ambiguity, and native texts without a kind."""
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
    return {**{name: summary[name] for name in _CLAIMS}, "chosen": chosen, "unmapped": unmapped}


def main() -> None:
    """The command line."""
    report, folder = map(Path, sys.argv[1:])
    summary = json.loads((report / "summary.json").read_text("utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("summary.json", short(summary)), ("fingerprint.json", fingerprint(summary))):
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
