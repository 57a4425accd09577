"""The recorded faults of planted bugs: a shortest history of each, for people to replay and look at."""

from __future__ import annotations

from pathlib import Path

from memwal.errors import InvalidArgument

from .. import places
from ..bugs import Bug, load
from ..traces.trace import dumps, load_header

AREAS = {"spec": "region", "search": "read"}
"""Groups of bugs whose histories are in the folder of another name."""
WITHOUT = ("canary",)
"""Groups whose histories need not be seen."""


def wanted(folder: Path, about: str = "") -> dict[str, Path]:
    """Bug -> the file with its history: the one that has it below ``folder``, or the one that is to have it.

    ``about``: only of bugs whose file names this.
    """
    known: dict[str, Path] = {}
    for path in sorted((folder / "recorded").rglob("*.jsonl")):
        for name in load_header(path).bugs:
            known.setdefault(name, path)
    return {
        name: known.get(name, folder / "recorded" / AREAS.get(bug.group, bug.group) / f"{name}.jsonl")
        for name, bug in load(folder / "bugs", about).items()
        if bug.group not in WITHOUT
    }


def record(bug: Bug, path: Path) -> int:
    """Write a shortest history of ``bug`` to ``path``; returns its steps. Titles that are there stay.

    Raises `InvalidArgument` if the bug is not found by its oracle.
    """
    from ..traces.study import kill

    before = load_header(path) if path.exists() else None
    title, description = (bug.title, f"{bug.what} {bug.why}") if before is None else (before.title, before.description)
    trace = kill(bug, title=title, description=description).trace
    if trace is None:
        raise InvalidArgument(f"the planted bug {bug.name} is not found by the oracle {bug.oracle!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(trace), "utf-8")
    return len(trace.steps)


def record_named(name: str) -> int:
    """`record` for the bug ``name`` of the project."""
    folder = places.faults()
    return record(load()[name], wanted(folder)[name])
