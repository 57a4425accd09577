"""A finding as one file of Python that needs the package and the standard library, and nothing of ours."""

from __future__ import annotations

import os
import pprint
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from ..adapters import versions
from ..adapters.harness import NOWHERE
from . import showing
from .findings import NO_FILE, ForeignFinding, Notebook
from .judging import OTHER_ROWS

PACKAGE = "pylance"
"""The implementation that such a file can be made for."""
_PLACE = "FINDING: dict[str, Any] = {}"
_STUB = "from memwal_conformance.exploring.stub import BUCKET, StubStore, name_of\n"
_LIMIT_S = 120


def text_of(found: ForeignFinding, settings: Mapping[str, str]) -> str | None:
    """The file; None for an order of requests, which one process cannot be told.

    ``settings``: of the adapter; its storage options are the package's.
    """
    plan = found.plan
    held = any(rule["do"] in ("delay", "hold_before") for rule in plan.get("rules", ()))
    if "switches" in plan or "random" in plan or held:
        return None
    storage = {name.removeprefix("storage."): value for name, value in settings.items() if name.startswith("storage.")}
    about = {
        "sentence": found.sentence,
        "life": found.life,
        "plan": {"rules": plan.get("rules", [])},
        "crash": found.crash,
        "storage": storage,
    }
    if found.other_limits:
        about["recovery_rows"] = OTHER_ROWS
    stub = _source("stub.py").partition("from __future__ import annotations\n")[2].lstrip("\n")
    whole = _source("alone.py").replace(_STUB, stub, 1)
    return whole.replace(_PLACE, f"FINDING: dict[str, Any] = {pprint.pformat(about, width=110, sort_dicts=False)}", 1)


def _source(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


LOOKED_FOR = ("rows", "structure", "recovery", "machine")
"""Oracles whose symptoms such a file may see: in rows, generations, manifests, and what a new writer recovers."""


def keep(
    notebook: Notebook, folder: Path, covered: dict[str, Any], settings: Mapping[str, str], version: str | None
) -> None:
    """Write ``findings.json``, the logs, and, where they can be made, the files, which are run; see `write`.

    All that is known before the files run is written first.
    """
    notebook.save(folder, covered)
    showing.write_logs(notebook.findings, folder)
    if notebook.implementation == PACKAGE:
        for found in notebook.findings:
            found.alone = write(found, folder, settings, version)
        notebook.save(folder, covered)


def write(found: ForeignFinding, folder: Path, settings: Mapping[str, str], version: str | None) -> str:
    """Write the file below ``folder`` and run it; whether it shows the finding, and if not, why.

    ``version``: of the package, in an environment of its own; None: the one of this interpreter.
    """
    text = text_of(found, settings)
    if text is None:
        return NO_FILE
    file = folder / f"{found.number:02}.py"
    file.write_text(text, encoding="utf-8")
    return run(found, file, sys.executable if version is None else str(versions.interpreter(version)))


def run(found: ForeignFinding, file: Path, python: str) -> str:
    """Run the file of a finding; what it prints is kept beside it.

    The interpreter ignores Python's settings in the environment and the folder of the file: it sees no code of ours.
    """
    try:
        done = subprocess.run(
            [python, "-I", str(file)],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
            env={**os.environ, **NOWHERE},
        )
    except subprocess.TimeoutExpired:
        return f"does not show it: it did not end in {_LIMIT_S} s"
    file.with_suffix(".txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return judged(found.oracle, done.returncode, done.stderr)


@contextmanager
def environment(version: str) -> Iterator[str]:
    """The interpreter of a new virtual environment with the package of that version and what it needs, until the end.

    Raises `versions.NotInstalled`.
    """
    with tempfile.TemporaryDirectory(prefix="memwal-fresh-", ignore_cleanup_errors=True) as folder:
        yield str(versions.install(version, Path(folder) / "venv"))


def in_fresh_environment(found: ForeignFinding, folder: Path, version: str, python: str) -> str:
    """Run the file that `write` left, and note in the finding what it did, and that the version shows it if it does."""
    said = found.fresh[version] = run(found, folder / f"{found.number:02}.py", python)
    if said.startswith("shows") and version not in found.versions:
        found.versions.append(version)
    return said


def judged(oracle: str, status: int, errors: str) -> str:
    """What a run of the file says about a finding of ``oracle``."""
    if "Traceback" in errors or status not in (0, 1):
        return f"does not show it: it ended with {(errors.splitlines() or [f'status {status}'])[-1]}"
    if status == 1:
        return "shows it"
    if oracle not in LOOKED_FOR:
        return f"does not show it: it looks for rows, generations and manifests, and this was seen by {oracle}"
    return "does not show it: it tried a few times, and timing differs from that of the gate"
