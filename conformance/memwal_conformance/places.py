"""Where the suite's data are: the folder ``conformance`` of the checkout, or the copy in an installed package."""

from __future__ import annotations

from pathlib import Path

from memwal.errors import InvalidArgument


def _found() -> Path:
    """The folder that holds ``vectors``, ``scenarios``, ``clauses``, ``skeletons`` and ``subjects``.

    Raises `InvalidArgument` if there is neither.
    """
    here = Path(__file__).resolve().parent
    for folder in (here.parent, here / "suite"):
        if (folder / "vectors" / "bless.py").is_file():
            return folder
    raise InvalidArgument(f"no vectors beside {here}: reinstall the package, or run this in a checkout of the project")


SUITE = _found()
"""The folder of the suite's data."""
OBSERVED = SUITE / "observed"
"""What `memwal_conformance.native.record` keeps: a folder for each version. In a checkout only."""


def vector_files(suite: Path = SUITE) -> list[Path]:
    """``case.json`` of every vector."""
    return sorted((suite / "vectors").glob("*/*/*/case.json"))


def scenario_files(suite: Path = SUITE) -> list[Path]:
    """Every scenario; those of the folder ``gate`` have their table behind the gate."""
    folder = suite / "scenarios"
    return sorted([*folder.glob("*.json"), *folder.glob("gate/*.json")])
