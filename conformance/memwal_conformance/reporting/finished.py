"""A finished run: all that a report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ..protocol import Hello, Json
from ..verdicts import CaseResult
from .report import Tally


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


def hello_json(hello: Hello) -> Json:
    """What an adapter said, as the report of a test carries it."""
    return {**asdict(hello), "capabilities": sorted(hello.capabilities)}
