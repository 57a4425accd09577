"""Invariants of the MemWAL index: one version's details, and the step from a version to the next.

Source: MemWAL revisions A and B, "MemWAL Index Details" and "Region Spec"; AMB-05, 48, 54, 67, 69, 70, 80, 87.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ..codec.index_details import IndexDetails, RegionSpec
from ..errors import InvalidArgument
from ..ids import SpecId
from ..index import transforms
from ..table.state import TableState
from ..violations import Violation, objection
from ..words import counted
from .finding import invariant

_COMMIT = "Restore an older table version in which the index is right, and find out who committed this one."


@invariant(
    "INDEX-001",
    "AMB-05",
    about="index",
    remedy="Merge progress has forked. Stop writers and mergers, and drop the index that is behind.",
)
def one_mem_wal_index(state: TableState) -> Iterator[Violation]:
    """A table version has at most one MemWAL index."""
    found = [i.name for i in state.manifest.indices if i.index_details.type_url.endswith("MemWalIndexDetails")]
    if len(found) > 1:
        names = ", ".join(map(repr, found))
        yield objection(state.path, f"{len(found)} MemWAL indexes ({names}); a table has one")


@invariant("INDEX-010", "INDEX-018", "INDEX-019", "AMB-03", "AMB-04", about="index", remedy=_COMMIT)
def index_details_open(damaged: Iterable[Violation]) -> Iterator[Violation]:
    """The details of the MemWAL index of every retained version can be read."""
    yield from damaged


@invariant(
    "FORMAT-001",
    about="index",
    remedy="Without a key rows cannot be merged. Declare the key in the schema before the first write.",
)
def the_table_declares_a_key(state: TableState) -> Iterator[Violation]:
    """A table with MemWAL declares a primary key; only R allows tables that just grow."""
    if not state.primary_key and not state.revision.keyless:
        yield objection(state.path, "the schema declares no unenforced primary key")


@invariant(
    "AMB-48",
    "INDEX-016",
    about="index",
    remedy="Build the index again under its name, or take the name off the list; until then nothing is collected.",
)
def maintained_indexes_exist(state: TableState, details: IndexDetails) -> Iterator[Violation]:
    """Every maintained index exists on the base table."""
    names = {index.name for index in state.manifest.indices}
    for name in details.maintained_indexes:
        if name not in names:
            yield objection(state.path, f"index {name!r} is maintained, and the table has {sorted(names)}")


@invariant(
    "REGION-008",
    "REGION-010",
    "REGION-013",
    "REGION-014",
    "REGION-015",
    "AMB-55",
    "AMB-66",
    "AMB-67",
    about="index",
    remedy="Writers refuse the spec. Undo the change that made it unsound: a source column was dropped, retyped, or is "
    "no key column.",
)
def region_specs_are_sound(state: TableState, details: IndexDetails) -> Iterator[Violation]:
    """Every region spec has its own positive id and fields that can be computed from the key."""
    ids = [spec.spec_id for spec in details.specs]
    for spec in details.specs:
        if ids.count(spec.spec_id) > 1:
            yield objection(state.path, f"spec id {spec.spec_id} occurs {ids.count(spec.spec_id)} times")
            return
    names = {i: n for n, i in state.field_ids.items()}
    for spec in details.specs:
        try:
            transforms.check_spec(spec, state.schema, names, state.primary_key, state.revision)
        except InvalidArgument as error:
            yield objection(state.path, str(error), error.clause)


@invariant(
    "CATCHUP-001",
    "CATCHUP-007",
    "AMB-70",
    about="index",
    remedy="Indexed reads may miss rows that were merged later. Rebuild the index.",
)
def catch_up_is_not_ahead_of_merging(state: TableState, details: IndexDetails) -> Iterator[Violation]:
    """No index is caught up with a generation that is not merged."""
    for entry in details.catchup:
        for region, generation in entry.generations:
            if generation > details.progress(region):
                reason = f"index {entry.index_name!r} is caught up with generation {generation} of {region}"
                yield objection(state.path, f"{reason}, merge progress is {details.progress(region)}")


@invariant(
    "AMB-87",
    "INDEX-020",
    "FORMAT-002",
    about="index",
    remedy="Rows that were not merged are in no scan any more. Restore the table version before, and never overwrite a "
    "table with MemWAL.",
)
def the_mem_wal_index_stays(state: TableState) -> Iterator[Violation]:
    """Once enabled, MemWAL stays enabled in every later version."""
    yield objection(state.path, f"version {state.version} has no MemWAL index, and the version before had one")


@invariant(
    "AMB-87",
    "FORMAT-002",
    "INDEX-003",
    about="index",
    remedy="Rows in the regions are in no scan. Restore the table version that had the MemWAL index.",
)
def regions_need_a_mem_wal_index(
    state: TableState, regions: Collection[object], *, enabled: bool
) -> Iterator[Violation]:
    """A table with regions has a MemWAL index."""
    if regions and not enabled:
        yield objection(
            state.path, f"version {state.version} has no MemWAL index, beside {counted(len(regions), 'region')}"
        )


@invariant(
    "AMB-06",
    "INDEX-001",
    about="index",
    severity="warning",
    remedy="Creating the table, or enabling MemWAL on it, was cut short. Call `memwal.enable` with the region spec "
    "that was meant: it is recorded nowhere.",
)
def enabling_was_finished(state: TableState, *, configured: bool, enabled: bool) -> Iterator[Violation]:
    """A table that records a MemWAL revision has a MemWAL index."""
    if configured and not enabled:
        yield objection(state.path, "the table's config records a MemWAL revision, and there is no MemWAL index")


@invariant(
    "MERGE-018",
    "MERGE-001",
    "INDEX-020",
    "INDEX-021",
    "AMB-69",
    "AMB-80",
    about="index",
    remedy="Generations would be merged again, over newer rows. Stop mergers, and restore the version before.",
)
def merge_progress_never_goes_back(before: TableState, after: TableState) -> Iterator[Violation]:
    """Along the retained table versions merge progress of no region decreases, but by a Restore."""
    for region, generation in before.mem_wal.merged:
        progress = after.mem_wal.progress(region)
        if progress < generation:
            yield objection(after.path, f"progress of {region} goes from {generation} to {progress}")


@invariant(
    "AMB-70",
    "CATCHUP-008",
    "CATCHUP-009",
    about="index",
    severity="warning",
    remedy="More is read and retained than has to be. The next run of the catch-up job repairs it.",
)
def catch_up_never_goes_back(before: TableState, after: TableState) -> Iterator[Violation]:
    """Catch-up of an index that did not change never decreases, but by a Restore."""
    unchanged = {i.uuid.uuid for i in before.manifest.indices} & {i.uuid.uuid for i in after.manifest.indices}
    kept = {i.name for i in after.manifest.indices if i.uuid.uuid in unchanged}
    later = {entry.index_name: dict(entry.generations) for entry in after.mem_wal.catchup}
    for entry in before.mem_wal.catchup:
        for region, generation in entry.generations if entry.index_name in kept else ():
            now = later.get(entry.index_name, {}).get(region, 0)
            if now < generation:
                yield objection(after.path, f"index {entry.index_name!r} goes from {generation} to {now} for {region}")


@invariant(
    "REGION-009",
    "INDEX-003",
    "AMB-54",
    "AMB-61",
    about="index",
    remedy="Rows of one key may have gone to two regions. Drain all regions of the spec, and use a new id.",
)
def region_specs_never_change(known: Mapping[SpecId, RegionSpec], after: TableState) -> Iterator[Violation]:
    """A spec id has one definition in all retained versions, also after the spec was removed."""
    for spec in after.mem_wal.specs:
        if known.get(spec.spec_id, spec) != spec:
            yield objection(after.path, f"spec {spec.spec_id} is defined differently in version {after.version}")
