"""Runs every machine, as long as the profile says that `HYPOTHESIS_PROFILE` names."""

from __future__ import annotations

from . import Collecting, Committing, Merging, RegionLife, Routing, run

for machine in (RegionLife, Merging, Collecting, Routing, Committing):
    run(machine)
