"""Looking at the regions of a table: each by itself, and all together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .. import paths
from ..effects import Io
from ..ids import RegionId, region_id
from ..region.rows import Rows
from ..revisions import CONFIG_REVISION
from . import generations, index, manifests, progress, registration
from .base import Base, add_files
from .contents import known_values
from .files import look_at_files
from .report import FindingsLedger
from .rows import registered_values
from .seen import RegionView
from .wal import look_at_wal


def regions_of(table: Io, folders: tuple[str, ...], ledger: FindingsLedger) -> tuple[RegionId, ...]:
    """The regions that have a folder, ascending."""
    ledger.add(registration.region_folders_are_region_ids(folders, table.path(paths.MEM_WAL)))
    found = []
    for folder in folders:
        try:
            found.append(region_id(folder))
        except ValueError:
            continue  # said above
    return tuple(sorted(found))


async def look_at_region(
    seen: RegionView, base: Base, rows: Rows | None, ledger: FindingsLedger, *, fast: bool
) -> None:
    """Judge a region by itself, and against the base table; rows are left to `contents`."""
    state, details = base.newest, base.details
    _count(seen, ledger)
    _look_at_manifests(seen, ledger, collected=state is not None and state.collects_manifests)
    ledger.add(look_at_wal(seen, collected=state is not None and state.collects_wal))
    _look_at_generations(seen, base, rows, ledger)
    seen_files: set[str] = set()
    for generation in seen.generations:
        if generation.state is not None:
            add_files(await look_at_files(generation.io, generation.state, seen_files, rows=not fast), ledger)
    if state is not None and details is not None:
        ledger.add(progress.unmerged_generations_are_listed(seen, state))
        ledger.add(progress.merge_progress_is_below_the_current_generation(seen, state))
        ledger.add(registration.region_specs_are_listed(seen, details))
        row = next((r for r in base.rows if r.region_id == seen.region_id), None)
        if row is not None:
            ledger.add(registration.regions_are_registered_under_their_spec(seen, row))


def look_at_all_regions(
    table: Io,
    regions: Mapping[RegionId, RegionView],
    base: Base,
    ledger: FindingsLedger,
    unlooked: Collection[RegionId] = (),
) -> None:
    """Judge the regions among each other, and what the base table says of all of them but of those ``unlooked`` at."""
    state, details = base.newest, base.details
    if state is not None and details is not None:
        ledger.add(index.the_table_declares_a_key(state))
        ledger.add(index.maintained_indexes_exist(state, details))
        ledger.add(index.region_specs_are_sound(state, details))
        ledger.add(progress.merged_regions_are_there(state, regions, unlooked))
    _look_at_values(table, regions, base, ledger)
    if state is not None:
        configured = CONFIG_REVISION in state.config
        ledger.add(index.regions_need_a_mem_wal_index(state, {*regions, *unlooked}, enabled=base.enabled))
        ledger.add(index.enabling_was_finished(state, configured=configured, enabled=base.enabled))


def _count(seen: RegionView, ledger: FindingsLedger) -> None:
    ledger.looked_at["regions"] += 1
    ledger.looked_at["region manifests"] += len(seen.numbers)
    ledger.looked_at["WAL entries"] += len(seen.entries)
    ledger.looked_at["generations"] += len(seen.generations)


def _look_at_manifests(seen: RegionView, ledger: FindingsLedger, *, collected: bool) -> None:
    ledger.add(registration.regions_with_data_have_a_manifest(seen))
    ledger.add(registration.regions_have_a_manifest(seen))
    ledger.add(registration.regions_hold_nothing_else(seen))
    ledger.add(registration.quarantines_are_empty(seen))
    ledger.add(manifests.region_manifests_open(seen))
    ledger.add(manifests.manifest_versions_are_dense(seen, collected=collected))
    ledger.add(manifests.manifest_versions_go_with_consent(seen, collected=collected))
    ledger.add(manifests.the_hint_names_a_version(seen))
    ledger.add(manifests.the_hint_is_never_ahead(seen))
    ledger.add(seen.found_in_manifests)


def _look_at_generations(seen: RegionView, base: Base, rows: Rows | None, ledger: FindingsLedger) -> None:
    ledger.add(generations.listed_generations_open(seen))
    ledger.add(generations.listed_generations_are_dense(seen))
    ledger.add(generations.generation_ranges_are_contiguous(seen))
    ledger.add(generations.base_paths_stay_inside(seen))
    ledger.add(generations.generations_have_their_filter(seen))
    ledger.add(generations.generations_have_their_key_index(seen))
    ledger.add(generations.listed_row_counts_are_right(seen))
    if rows is not None:
        ledger.add(generations.tombstones_are_of_revision_r(seen, rows))
    if base.newest is not None and base.details is not None:
        merged = base.details.progress(seen.region_id)
        ledger.add(generations.unmerged_generations_fit_the_table(seen, base.newest, merged))


def _look_at_values(table: Io, regions: Mapping[RegionId, RegionView], base: Base, ledger: FindingsLedger) -> None:
    """Regions with equal recorded values; registered ones count before they have a manifest."""
    specs = {spec.spec_id: spec for spec in base.details.specs} if base.details is not None else {}
    values = {}
    for row in base.rows:
        found = registered_values(row.values, specs.get(row.spec_id))
        if row.spec_id and found is not None:
            values[row.region_id] = row.spec_id, found
    for region, seen in regions.items():
        if seen.newest is None or not seen.newest.spec_id:
            continue
        found = known_values(seen, specs.get(seen.newest.spec_id), base.rows)
        if found is not None:
            values[region] = seen.newest.spec_id, found
    ledger.add(registration.regions_have_distinct_values(values, table.path(paths.MEM_WAL)))
