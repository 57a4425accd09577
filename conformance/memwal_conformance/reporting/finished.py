"""A finished run: all that a report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..protocol import Hello
from ..report import Tally
from ..verdicts import CaseResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """All that a report is made from."""

    hello: Hello
    """What the adapter said about itself."""
    tallies: tuple[Tally, ...]
    """One for each revision that was run."""
    results: tuple[CaseResult, ...]
    """By revision and name of the case."""
    files: Mapping[str, Path]
    """Case -> the file that describes it."""
