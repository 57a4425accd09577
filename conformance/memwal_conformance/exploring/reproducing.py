"""A finding as one file of Python that needs the package and the standard library, and nothing of ours."""

from __future__ import annotations

import pprint
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from ..adapters.versions import interpreter
from .findings import ForeignFinding

PACKAGE = "pylance"
"""The implementation that such a file can be made for."""
_PLACE = "FINDING: dict[str, Any] = {}"
_LIMIT_S = 120


def text_of(found: ForeignFinding, settings: Mapping[str, str]) -> str | None:
    """The file; None for an order of requests, which one process cannot be told, and for a recovery under other limits.

    ``settings``: of the adapter; its storage options are the package's.
    """
    plan = found.plan
    held = any(rule["do"] in ("delay", "hold_before") for rule in plan.get("rules", ()))
    if found.other_limits or "switches" in plan or "random" in plan or held:
        return None
    storage = {name.removeprefix("storage."): value for name, value in settings.items() if name.startswith("storage.")}
    about = {
        "sentence": found.sentence,
        "life": found.life,
        "plan": {"rules": plan.get("rules", [])},
        "crash": found.crash,
        "storage": storage,
    }
    whole = resources.files(__package__).joinpath("alone.py").read_text("utf-8")
    return whole.replace(_PLACE, f"FINDING: dict[str, Any] = {pprint.pformat(about, width=110, sort_dicts=False)}", 1)


LOOKED_FOR = ("rows", "structure", "recovery")
"""Oracles whose symptoms such a file may see: in rows, in generations, in what a new writer recovers."""


def write(found: ForeignFinding, folder: Path, settings: Mapping[str, str], version: str | None) -> str:
    """Write the file below ``folder`` and run it; whether it shows the finding, and if not, why.

    ``version``: of the package, in an environment of its own; None: the one of this interpreter.
    """
    text = text_of(found, settings)
    if text is None:
        return "there is none"
    file = folder / f"{found.number:02}.py"
    file.write_text(text, encoding="utf-8")
    python = sys.executable if version is None else str(interpreter(version))
    try:
        done = subprocess.run([python, str(file)], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"does not show it: it did not end in {_LIMIT_S} s"
    file.with_suffix(".txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return judged(found.oracle, done.returncode, done.stderr)


def judged(oracle: str, status: int, errors: str) -> str:
    """What a run of the file says about a finding of ``oracle``."""
    if "Traceback" in errors or status not in (0, 1):
        return f"does not show it: it ended with {(errors.splitlines() or [f'status {status}'])[-1]}"
    if status == 1:
        return "shows it"
    if oracle not in LOOKED_FOR:
        return f"does not show it: it looks for rows and generations, and this was seen by {oracle}"
    return "does not show it: it tried a few times, and timing differs from that of the gate"
