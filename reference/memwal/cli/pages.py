"""Generated parts of documentation pages: written anew, or compared with what would be written."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from ..errors import InvalidArgument


def between(page: str, begin: str, end: str, part: str) -> str:
    """``page`` with ``part`` between the marks, which stay. Raises `InvalidArgument` if it has no such place."""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise InvalidArgument(f"the page has no lines {begin!r} and {end!r}")
    return f"{before}{begin}{part}{end}{after}"


def add_choice(parser: argparse.ArgumentParser) -> None:
    """``--write`` or ``--check``, one of which has to be said."""
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="write the page")
    choice.add_argument("--check", action="store_true", help="show the difference; status 1 if there is one")


def settle(path: Path, old: str, new: str, *, write: bool) -> int:
    """Write ``new`` to ``path``, or show how ``old`` differs from it; returns the exit status."""
    if write:
        path.parent.mkdir(exist_ok=True)
        path.write_text(new, "utf-8")
        return 0
    difference = difflib.unified_diff(old.splitlines(), new.splitlines(), path.name, "generated", lineterm="", n=0)
    sys.stdout.writelines(f"{line}\n" for line in difference)
    return int(old != new)
