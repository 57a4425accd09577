"""A finding as one file of Python that needs the package and the standard library, and nothing of ours."""

from __future__ import annotations

import os
import pprint
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..adapters import versions
from ..adapters.harness import NOWHERE
from ..adapters.native_errors import KINDS
from . import showing
from .findings import NO_FILE, ForeignFinding, Notebook, matters
from .judging import OTHER_ROWS

PACKAGE = "pylance"
"""The implementation that such a file can be made for."""
_PLACE = "FINDING: dict[str, Any] = {}"
_OWN = re.compile(r"^from memwal_conformance\.exploring\.(\w+) import .*\n", re.MULTILINE)
"""Where such a file uses another one of ours, which becomes a part of it."""
_LIMIT_S = 90.0
"""A file stops trying after a minute."""
SHOWS, SHOWS_NOT = "shows", "does not show"
"""Beginnings of what is said of a file that was run."""
OTHER = 3
"""Exit status of a file that shows something else."""


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
        "oracle": found.oracle,
        "where": found.where,
        "life": found.life,
        "plan": {"rules": plan.get("rules", [])},
        "crash": found.crash,
        "storage": storage,
    }
    if found.oracle == "error":
        about["like"] = next(pattern for pattern, kind in KINDS if found.words.endswith(f": {kind}"))
    if found.other_limits:
        about["recovery_rows"] = OTHER_ROWS
    whole = _OWN.sub(lambda line: _OWN.sub("", _part(line[1])), _source("alone.py"))
    return whole.replace(_PLACE, f"FINDING: dict[str, Any] = {pprint.pformat(about, width=110, sort_dicts=False)}", 1)


def _part(name: str) -> str:
    """A module without what every file begins with."""
    return _source(f"{name}.py").partition("from __future__ import annotations\n")[2].lstrip("\n")


def _source(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


NOT_YET = "not run yet"
"""Beginning of what is said of a file that the time was not enough for."""
_LEAST_S = 5.0
"""In less time the package has hardly started."""


@dataclass(slots=True)
class Reproductions:
    """The files of an exploration's findings: each is written and run when its finding comes."""

    notebook: Notebook
    folder: Path
    settings: Mapping[str, str]
    """Of the adapter; its storage options are the package's."""
    version: str | None
    """Of the package, in an environment of its own; None: the one of this interpreter."""

    def shown(self, found: ForeignFinding, seconds: float) -> None:
        """Write the file of a finding and run it for so long at most; say in the finding whether it shows it.

        One that is most likely the same matter as another is not run if the file of that one shows it.
        """
        if self.notebook.implementation != PACKAGE:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        found.alone = self._written(found)
        if found.alone.startswith(NOT_YET) and seconds >= _LEAST_S:
            python = sys.executable if self.version is None else str(versions.interpreter(self.version))
            found.alone = run(found, self._file(found), python, min(seconds, _LIMIT_S))

    def _written(self, found: ForeignFinding) -> str:
        text = text_of(found, self.settings)
        if text is None:
            return NO_FILE
        self._file(found).write_text(text, encoding="utf-8")
        (matter,) = (each for each in matters(self.notebook.findings) if found in each)
        if other := next((each for each in matter if each.alone.startswith(SHOWS)), None):
            return f"not run: finding {other.number} is most likely the same matter, and its file shows it"
        return f"{NOT_YET}: its time was over, and `memwal conformance findings reproduce` runs it"

    def _file(self, found: ForeignFinding) -> Path:
        return self.folder / f"{found.number:02}.py"

    def keep(self, covered: dict[str, Any]) -> None:
        """Write ``findings.json`` and the logs, and the files that are not there. What is left of others goes."""
        self.notebook.save(self.folder, covered)
        showing.write_logs(self.notebook.findings, self.folder)
        for found in self.notebook.findings if self.notebook.implementation == PACKAGE else ():
            said = self._written(found)
            if not found.alone.startswith((SHOWS, SHOWS_NOT)):
                found.alone = said
        numbers = {f"{found.number:02}" for found in self.notebook.findings}
        for file in self.folder.glob("[0-9][0-9].*"):
            if file.stem not in numbers:
                file.unlink()
        self.notebook.save(self.folder, covered)


def run(found: ForeignFinding, file: Path, python: str, seconds: float = _LIMIT_S) -> str:
    """Run the file of a finding, for so long at most; what it prints is kept beside it.

    The interpreter ignores Python's settings in the environment and the folder of the file: it sees no code of ours.
    """
    try:
        done = subprocess.run(
            [python, "-I", str(file)],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **NOWHERE},
        )
    except subprocess.TimeoutExpired:
        return f"{SHOWS_NOT} it: it did not end in {seconds:.0f} s"
    file.with_suffix(".txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return judged(found, done.returncode, done.stderr)


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
    if said.startswith(SHOWS) and version not in found.versions:
        found.versions.append(version)
    return said


def judged(found: ForeignFinding, status: int, errors: str) -> str:
    """What a run of its file says about a finding."""
    if status < 0 and found.oracle == "crash":
        return f"{SHOWS} it: the process ends by signal {-status}"
    if "Traceback" in errors or status not in (0, 1, OTHER):
        return f"{SHOWS_NOT} it: it ended with {(errors.splitlines() or [f'status {status}'])[-1]}"
    if status == 1:
        return f"{SHOWS} it"
    if status == OTHER:
        return f"{SHOWS_NOT} it, but something else that is wrong"
    return f"{SHOWS_NOT} it: it tried a few times, and timing differs from that of the gate"
