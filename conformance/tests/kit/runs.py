"""Runs the suite as a user would, in a process of its own, and reads its reports."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


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


def changed_skeleton(folder: Path, *changes: tuple[str, str]) -> str:
    """Command of the smallest adapter with parts of its text replaced."""
    text = (ROOT / "conformance" / "memwal_conformance" / "adapters" / "skeleton.py").read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = folder / "adapter.py"
    file.write_text(text, encoding="utf-8")
    return f"{sys.executable} {file}"


def run_suite(folder: Path, *arguments: str, limit_s: float = 120, cache: bool = False) -> Run:
    """Run pytest on the suite with a report in ``folder``; ``cache``: pytest remembers earlier runs, also there."""
    kept = ("-o", f"cache_dir={folder / 'cache'}") if cache else ("-p", "no:cacheprovider")
    options = ["-q", *kept, "--basetemp", str(folder / "cases"), "--memwal-report", str(folder)]
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
