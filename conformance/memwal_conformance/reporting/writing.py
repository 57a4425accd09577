"""Writes the folder of a report."""

from __future__ import annotations

import json
from pathlib import Path

from . import failures, page, report
from .finished import Finished


def write(found: Finished, folder: Path) -> Path:
    """Write the report of a run into the existing ``folder`` and give the path of its page.

    ``summary.json``, ``report.html`` and ``failures/`` are replaced. Run logs of workers (``run.<worker>.jsonl``)
    become part of ``run.jsonl``.
    """
    gather_logs(folder)
    text = json.dumps(report.summary(found.hello, found.tallies, found.results), indent=1)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    failures.write(found, folder / failures.FOLDER)
    path = folder / "report.html"
    path.write_text(page.render(found), encoding="utf-8")
    return path


def gather_logs(folder: Path) -> None:
    """Append the run logs of all workers to ``run.jsonl``, worker by worker, and remove them."""
    parts = sorted(folder.glob("run.*.jsonl"))
    if parts:
        with (folder / "run.jsonl").open("a", encoding="utf-8") as whole:
            for part in parts:
                whole.write(part.read_text("utf-8"))
                part.unlink()
