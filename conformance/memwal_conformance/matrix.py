"""Generated pages of the documentation: written anew, or checked for drift.

``python -m memwal_conformance.matrix PAGE --write`` writes a page: ``clauses`` is docs/clauses.md, ``planted`` is
docs/planted.md, ``notes`` fills the generated parts of SPEC_NOTES.md, ``native`` is docs/native_matrix.md.
``--check`` instead of ``--write`` writes nothing, shows the difference and ends with status 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memwal.cli.pages import add_choice, settle
from memwal.errors import InvalidArgument

from .generated import clause_matrix, native_matrix, notes, planted_page
from .registry.clauses import ambiguities, cited


@dataclass(frozen=True, slots=True)
class GeneratedPage:
    """A generated page."""

    path: Path
    current: Callable[[], str]
    """Its text as it should be now."""


def pages() -> dict[str, GeneratedPage]:
    """Name of a page -> the page."""
    return {
        "clauses": GeneratedPage(clause_matrix.PAGE, clause_matrix.current),
        "planted": GeneratedPage(planted_page.PAGE, planted_page.current),
        "notes": GeneratedPage(notes.PAGE, notes.current),
        "native": GeneratedPage(native_matrix.PAGE, native_matrix.current),
    }


def command(name: str) -> str:
    """What writes the page ``name``."""
    return f"python -m memwal_conformance.matrix {name} --write"


def out_of_date() -> list[str]:
    """Names of the pages that differ from what would be written."""
    return [name for name, page in pages().items() if _text(page) != page.current()]


def _text(page: GeneratedPage) -> str:
    return page.path.read_text("utf-8") if page.path.exists() else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status.

    0: done, or no difference; 1: a difference; 2: the registry is wrong, or the engine cannot be imported.
    """
    parser = argparse.ArgumentParser(prog="python -m memwal_conformance.matrix", description=__doc__)
    parser.add_argument("page", choices=tuple(pages()))
    add_choice(parser)
    options = parser.parse_args(arguments)
    page = pages()[options.page]
    try:
        new = page.current()
    except (InvalidArgument, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if options.page == "notes":
        for line in notes.undecided(ambiguities(), cited()):
            sys.stderr.write(f"named by code, not marked decided: {line}\n")
    return settle(page.path, _text(page), new, write=options.write)


if __name__ == "__main__":
    sys.exit(main())
