"""Named invariants over the artifacts of a table; each returns its counterexamples, never a boolean.

They read through the same requests as everything else, so that they run on a real store, on a simulated one at any
step, and on a folder that another implementation wrote. All are read-only.

`verify` runs all of them over a table and continues whatever it finds. `check` runs those that a simulation can afford
in every state.
"""

from __future__ import annotations

from ..effects import Io
from ..errors import ArtifactError
from ..ids import region_id
from ..table.state import TableState, latest, load, versions
from ..violations import Violation
from .files import index_files_are_there, look_at_files, named_files_are_there
from .finding import ABOUT, INVARIANTS, StoreInvariant
from .generations import listed_generations_open, listed_row_counts_are_right
from .index import merge_progress_never_goes_back
from .manifests import (
    each_manifest_step_has_a_trigger,
    manifest_versions_are_dense,
    manifests_never_go_back,
    the_hint_is_never_ahead,
    the_last_seen_hint_never_falls,
)
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
    "TABLE_INVARIANTS",
    "RegionView",
    "Report",
    "StoreInvariant",
    "Violation",
    "check",
    "verify",
    "view",
]

REGION_INVARIANTS: dict[str, StoreInvariant] = {
    found.__name__: INVARIANTS[found.__name__]
    for found in (
        manifest_versions_are_dense,
        manifests_never_go_back,
        each_manifest_step_has_a_trigger,
        the_hint_is_never_ahead,
        the_last_seen_hint_never_falls,
        the_wal_has_no_hole,
        wal_epochs_never_decrease,
        wal_generations_never_decrease,
        listed_generations_open,
        listed_row_counts_are_right,
    )
}
"""The invariants of one region that `check` looks at, by name."""


TABLE_INVARIANTS: dict[str, StoreInvariant] = {
    found.__name__: INVARIANTS[found.__name__]
    for found in (merge_progress_never_goes_back, named_files_are_there, index_files_are_there)
}
"""The invariants of retained table versions that `check` looks at, by name."""


async def check(table: Io) -> list[Violation]:
    """The structure of the table at ``table``: versions, manifests, WAL and generations; empty if all hold.

    Raises `ArtifactError` for the first damaged object. Reads no rows but those of the WAL; of the files that versions
    name it sees that they are there.
    """
    state = await latest(table)
    found = await _retained(table)
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
            *the_hint_is_never_ahead(seen),
            *the_wal_has_no_hole(seen),
            *wal_epochs_never_decrease(seen),
            *wal_generations_never_decrease(seen),
            *listed_generations_open(seen),
            *listed_row_counts_are_right(seen),
        ]
        found += [one for one in every if one.oracle in REGION_INVARIANTS]
    return found


async def _retained(table: Io) -> list[Violation]:
    """Merge progress along the retained table versions, and the files that they name."""
    found: list[Violation] = []
    before: TableState | None = None
    seen: set[str] = set()
    for number in await versions(table):
        state = await load(table, number)
        files = await look_at_files(table, state, seen, rows=False)
        found += named_files_are_there(files) + index_files_are_there(files)
        if before is not None and before.mem_wal_entry is not None and state.mem_wal_entry is not None:
            found += merge_progress_never_goes_back(before, state)
        before = state
    return found
