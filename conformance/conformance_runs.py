"""Runs the suite as a user would, in a process of its own, and reads its reports."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the suite."""

    status: int
    text: str
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        """Content of ``summary.json``."""
        read: dict[str, Any] = json.loads((self.folder / "summary.json").read_text("utf-8"))
        return read


def run_suite(folder: Path, *arguments: str, limit_s: float = 120) -> Run:
    """Run pytest on the suite with a report in ``folder``."""
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "cases"), "--memwal-report", str(folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, *options],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return Run(done.returncode, done.stdout + done.stderr, folder)
