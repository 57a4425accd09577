"""Workloads: worlds whose processes are given as data, so that one that is made up step by step can be replayed.

A workload knows the roles that processes can have, the table that they start on, and what must hold.
A trace that was recorded in one carries its actors, and ``memwal explore replay`` builds the same world again.
"""

from __future__ import annotations

from ..actor import Actor
from .workload import Workload, find, known, scenario_of

__all__ = ["Actor", "Workload", "find", "known", "scenario_of"]
