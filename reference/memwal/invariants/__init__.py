"""Named invariants over the artifacts of a table; each returns its counterexamples, never a boolean.

They read through the same requests as everything else, so that they run on a real store, on a simulated one at any
step, and on a folder that another implementation wrote. All are read-only.

`verify` runs all of them over a table and goes on whatever it finds. `check` runs those that a simulation can afford
in every state.
"""

from __future__ import annotations

from ..effects import Io
from ..errors import ArtifactError
from ..ids import region_id
from ..table.state import TableState, latest, load, versions
from .finding import ABOUT, INVARIANTS, Invariant, Violation
from .generations import listed_generations_open
from .index import merge_progress_never_goes_back
from .manifests import each_manifest_step_has_a_trigger, manifest_versions_are_dense, manifests_never_go_back
from .registration import regions_with_data_have_a_manifest
from .report import Report
from .runner import verify
from .seen import RegionView
from .view import view
from .wal import the_wal_has_no_hole, wal_epochs_never_decrease, wal_generations_never_decrease

__all__ = [
    "ABOUT",
    "INVARIANTS",
    "REGION_INVARIANTS",
    "Invariant",
    "RegionView",
    "Report",
    "Violation",
    "check",
    "merge_progress_never_goes_back",
    "verify",
    "view",
]

REGION_INVARIANTS: dict[str, Invariant] = {
    found.__name__: INVARIANTS[found.__name__]
    for found in (
        manifest_versions_are_dense,
        manifests_never_go_back,
        each_manifest_step_has_a_trigger,
        the_wal_has_no_hole,
        wal_epochs_never_decrease,
        wal_generations_never_decrease,
        listed_generations_open,
    )
}
"""The invariants of one region that `check` looks at, by name."""


async def check(table: Io) -> list[Violation]:
    """The structure of the table at ``table``: merge progress, manifests, WAL and generations; empty if all hold.

    Raises `ArtifactError` for the first damaged object. Reads no rows but those of the WAL.
    """
    state = await latest(table)
    found = await _progress(table)
    for folder in await table.list_folders("_mem_wal"):
        try:
            region = region_id(folder)
        except ValueError:
            continue
        seen = await view(table, region, state.revision)
        for damaged in (*seen.damaged_manifests, *seen.damaged_entries):
            raise ArtifactError(damaged.clause, damaged.path, damaged.reason, damaged.offset)
        for broken in regions_with_data_have_a_manifest(seen):
            raise ArtifactError(broken.clause, broken.path, broken.reason)
        every = [
            *manifest_versions_are_dense(seen, collected=state.collects_manifests),
            *seen.found_in_manifests,
            *the_wal_has_no_hole(seen),
            *wal_epochs_never_decrease(seen),
            *wal_generations_never_decrease(seen),
            *listed_generations_open(seen),
        ]
        found += [one for one in every if one.invariant in REGION_INVARIANTS]
    return found


async def _progress(table: Io) -> list[Violation]:
    """Merge progress along the retained table versions."""
    found: list[Violation] = []
    before: TableState | None = None
    for number in await versions(table):
        state = await load(table, number)
        if before is not None and before.mem_wal_entry is not None and state.mem_wal_entry is not None:
            found += merge_progress_never_goes_back(before, state)
        before = state
    return found
