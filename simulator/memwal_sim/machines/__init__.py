"""State machines that make up histories of the real engine, with Hypothesis; for users to extend.

Read `engine` first: what a machine can do to processes. Each other module is one machine: a run, and rules that start
its processes. ``docs/machines.md`` shows how to add to one. Needs the extra ``machines``.
"""

from __future__ import annotations

from ..profiles import LONG, SHORT, chosen
from .collecting import Collecting
from .committing import Committing
from .engine import BrokenError, EngineMachine
from .merging import Merging
from .region_life import RegionLife
from .routing import Routing
from .running import hunt, run

__all__ = [
    "LONG",
    "SHORT",
    "BrokenError",
    "Collecting",
    "Committing",
    "EngineMachine",
    "Merging",
    "RegionLife",
    "Routing",
    "chosen",
    "hunt",
    "run",
]
