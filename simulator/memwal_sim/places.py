"""Where recorded faults, planted bugs and the schema of traces are: the folder ``faults``."""

from __future__ import annotations

from pathlib import Path

from memwal.errors import InvalidArgument


def faults() -> Path:
    """The folder ``faults`` of the checkout, or the copy of it that an installed package holds.

    Raises `InvalidArgument` if there is neither.
    """
    here = Path(__file__).resolve().parent
    for folder in (here.parents[1] / "faults", here / "faults"):
        if (folder / "schema").is_dir():
            return folder
    raise InvalidArgument(f"no folder of faults beside {here}: run this in a checkout of the project")
