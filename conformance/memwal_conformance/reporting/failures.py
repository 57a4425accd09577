"""Failures as one file each: what was run, what was seen, and every message, so that the case can be run again.

A packed failure is a JSON object:

- ``format``: ``memwal failure 1``;
- ``case``, ``revision``, ``verdict``, ``title``, ``clauses``, ``why``, ``command``;
- ``implementation``: the answer to ``hello``;
- ``scenario``: the scenario's own JSON, as in ``scenarios/*.json``; or
- ``vector``: ``case`` and ``expected`` (both files as JSON), ``input`` (file name -> base64) and ``direction``;
- ``steps`` and ``requests``: what was recorded, as `memwal_conformance.verdicts.CaseResult` describes them.

Everything above ``steps`` is enough to run the case against any adapter; the rest is what happened this time.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from memwal.words import reason

from .. import protocol
from ..protocol import Json
from ..vectors import BadCase
from ..verdicts import EXPLORATION, FAILING, CaseResult
from .finished import Finished, hello_json

FOLDER = "failures"
"""Name of the folder below that of the report."""
FORMAT = "memwal failure 1"
_MEMBERS = ("case", "revision", "verdict", "title", "clauses", "why", "command", "implementation", "steps", "requests")


def write(found: Finished, folder: Path) -> list[Path]:
    """Write one file for each failed case, and remove those of earlier runs."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    written = []
    for result in found.results:
        if result.verdict in FAILING and result.area != EXPLORATION:
            path = folder / f"{name(result)}.json"
            packed = pack(result, found.files[result.case], hello_json(found.hello))
            path.write_text(json.dumps(packed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            written.append(path)
    return written


def kept(result: CaseResult) -> str:
    """Where what was recorded of a failed case is, beside the page; empty if it did not fail."""
    if result.verdict not in FAILING:
        return ""
    if result.area == EXPLORATION:
        return f"{EXPLORATION}-{result.revision}/findings.json"
    return f"{FOLDER}/{name(result)}.json"


def name(result: CaseResult) -> str:
    """Name of the file of a failure, without its suffix; also the anchor of a case in the page."""
    return name_of(result.case)


def name_of(case: str) -> str:
    """`name`, of the case that a result is about."""
    file, _, what = case.partition("::")
    stem = file.removesuffix("/case.json").removesuffix(".json")
    return re.sub(r"[^A-Za-z0-9_]+", "-", f"{stem}-{what}")


def pack(result: CaseResult, file: Path, implementation: Json) -> Json:
    """A failed case as JSON; ``file`` describes it on disk."""
    described = json.loads(file.read_text("utf-8"))
    source: Json = {"scenario": result.scenario or described}
    if file.name == "case.json":
        source = {"vector": _vector(file, result, described)}
    return {
        "format": FORMAT,
        "case": result.case,
        "revision": result.revision,
        "verdict": result.verdict.value,
        "title": result.title,
        "clauses": list(result.clauses),
        "why": result.text,
        "command": result.command,
        "implementation": implementation,
        **source,
        "steps": list(result.steps),
        "requests": list(result.requests),
    }


def _vector(file: Path, result: CaseResult, described: Json) -> Json:
    folder = file.parent
    inputs = [path for path in sorted((folder / "input").rglob("*")) if path.is_file()]
    named = {path.relative_to(folder / "input").as_posix(): path.read_bytes() for path in inputs}
    return {
        "case": described,
        "expected": json.loads((folder / "expected.json").read_text("utf-8")),
        "input": {name_: base64.b64encode(data).decode() for name_, data in named.items()},
        "direction": result.case.partition("::")[2],
    }


def load(path: Path) -> Json:
    """A packed failure. Raises `BadCase` for a file that is none, or whose scenario or vector breaks its schema."""
    try:
        packed: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadCase(f"{path}: {reason(error)}") from error
    if not isinstance(packed, dict) or packed.get("format") != FORMAT:
        raise BadCase(f"{path} is not a packed failure: its member format is not {FORMAT!r}")
    if missing := [member for member in _MEMBERS if member not in packed]:
        raise BadCase(f"{path}: {missing[0]} is missing")
    if ("scenario" in packed) == ("vector" in packed):
        raise BadCase(f"{path} must have either scenario or vector")
    if "scenario" in packed:
        wrong = protocol.problem("urn:memwal:scenario#/$defs/scenario", packed["scenario"])
    elif not isinstance(packed["vector"], dict):
        wrong = "vector is not an object"
    else:
        wrong = protocol.problem("urn:memwal:case#/$defs/case", packed["vector"].get("case"))
    if wrong is not None:
        raise BadCase(f"{path}: {wrong}")
    return packed
