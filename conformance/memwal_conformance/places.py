"""Where the suite's data are: the folder ``conformance`` of the checkout, or the copy in an installed package."""

from __future__ import annotations

from pathlib import Path

from memwal.errors import InvalidArgument


def suite() -> Path:
    """The folder that holds ``vectors``, ``scenarios``, ``clauses`` and ``skeletons``.

    Raises `InvalidArgument` if there is neither.
    """
    here = Path(__file__).resolve().parent
    for folder in (here.parent, here / "suite"):
        if (folder / "vectors" / "bless.py").is_file():
            return folder
    raise InvalidArgument(f"no vectors beside {here}: they come with the project's sources and with its wheel")
