"""What strategies have in common: the terms of a hunt, and a run for each seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..exploring.unfolding import Unfolding
from .walking import Walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all runs of a hunt share."""

    unfolding: Unfolding
    faults: int
    """Requests of one run that fail."""
    steps: int
    """Length of a run without mishaps: the steps among which faults, absences and changes of priority are spread."""
    depth: int
    """Ordering constraints of the bugs that `pct` is after."""


Run = Callable[[int], Walk]
"""The run of a seed: always the same one."""
Strategy = Callable[[Terms], Run]
