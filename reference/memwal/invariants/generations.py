"""Invariants of listed generations that need no rows.

Source: MemWAL revisions A and B, "Flushed MemTable" and "MemTable Flush"; AMB-39, 40, 41, 47, 48, 50, 89, 95.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from .. import paths
from ..codec import key_index
from ..errors import ArtifactError, Unmergeable
from ..ids import Generation
from ..read.generation import mapped_columns
from ..region.generation_config import CONFIG_FIRST, CONFIG_LAST
from ..region.rows import TOMBSTONE, Rows
from ..table.read import file_path
from ..table.state import TableState
from ..violations import Violation, objection
from .finding import invariant
from .seen import GenerationView, RegionView

_RESTORE = "Restore the folder from a backup of the store. Merging stops at this generation until then."
_REBUILD = "No row is lost. Readers that use the file may miss rows or fail; merge the generation, then collect it."


@invariant("FLUSH-013", "GEN-001", "GEN-006", "GEN-008", "GEN-012", about="generation", remedy=_RESTORE)
def listed_generations_open(view: RegionView) -> Iterator[Violation]:
    """Each listed generation is a table whose newest version can be loaded."""
    for generation in view.generations:
        if generation.damaged is not None:
            reason = f"generation {generation.listed.generation}: {generation.damaged.reason}"
            yield objection(generation.damaged.path, reason, offset=generation.damaged.offset)


@invariant(
    "GEN-003",
    "GEN-007",
    "MERGE-001",
    "AMB-41",
    "AMB-81",
    about="generation",
    remedy="Restore the manifest that listed the missing generation, or its folder. Merging stops before the gap.",
)
def listed_generations_are_dense(view: RegionView) -> Iterator[Violation]:
    """Listed generations ascend without a gap up to the one before the current."""
    if view.newest is None:
        return
    numbers = [listed.generation for listed in view.newest.flushed]
    path = view.io.path(paths.manifest(view.newest.version))
    if numbers != sorted(numbers):
        yield objection(path, f"generations are listed in the order {numbers}")
    wanted = range(view.newest.generation_current - len(numbers), view.newest.generation_current)
    if sorted(numbers) != list(wanted):
        reason = f"generations {sorted(numbers)} are listed, and the current one is {view.newest.generation_current}"
        yield objection(path, reason)


def recorded_range(generation: GenerationView) -> tuple[int, int] | None:
    """First and last WAL position that the generation's table says it covers; None if it does not say (native R)."""
    if generation.state is None:
        return None
    config = generation.state.config
    try:
        return int(config[CONFIG_FIRST]), int(config[CONFIG_LAST])
    except (KeyError, ValueError):
        return None


@invariant(
    "FLUSH-009",
    "FLUSH-004",
    "MANIFEST-008",
    "AMB-41",
    "AMB-95",
    about="generation",
    remedy="Rows of the entries between two ranges are in no generation. Replay them by hand from the WAL if it is "
    "still there; otherwise they are lost.",
)
def generation_ranges_are_contiguous(view: RegionView) -> Iterator[Violation]:
    """The WAL range of a generation follows that of the one before, and the newest ends at the replay pointer."""
    before: tuple[Generation, int] | None = None
    for generation in sorted(view.generations, key=lambda g: g.listed.generation):
        number, found = generation.listed.generation, recorded_range(generation)
        if generation.state is None or found is None:
            before = None
            continue
        first, last = found
        if last < first:
            yield objection(generation.state.path, f"generation {number} covers entries {first} to {last}")
        if before is not None and before[0] + 1 == number and before[1] + 1 != first:
            reason = f"generation {before[0]} ends with entry {before[1]}, generation {number} begins with {first}"
            yield objection(generation.state.path, reason)
        before = number, last
    if view.newest is not None and before is not None and before[0] + 1 == view.newest.generation_current:
        pointer = view.newest.position_replay_after
        if before[1] != pointer:
            reason = f"generation {before[0]} ends with entry {before[1]}, the replay pointer is {pointer}"
            yield objection(view.io.path(paths.manifest(view.newest.version)), reason)


@invariant(
    "GEN-011",
    "FLUSH-005",
    "AMB-39",
    "AMB-40",
    about="generation",
    remedy="The table was moved, or part of it copied. Move it back, or restore the region's folder beside the table.",
)
def base_paths_stay_inside(view: RegionView) -> Iterator[Violation]:
    """The files that a generation names through base paths are inside the table."""
    for generation in view.generations:
        if generation.state is None:
            continue
        for fragment in generation.state.fragments:
            for file in fragment.files:
                try:
                    inside = generation.io.path(file_path(generation.io, generation.state, file))
                except (ArtifactError, ValueError) as error:
                    reason = error.reason if isinstance(error, ArtifactError) else str(error)
                    yield objection(generation.state.path, reason)
                    continue
                if not inside.startswith(f"{view.io.root}/"):
                    yield objection(generation.state.path, f"{inside} lies outside the region")


@invariant(
    "GEN-010",
    "AMB-47",
    about="generation",
    remedy=_REBUILD,
)
def generations_have_their_filter(view: RegionView) -> Iterator[Violation]:
    """Each generation of a table with a key has its bloom filter."""
    for generation in view.generations:
        if generation.state is not None and generation.state.primary_key and paths.BLOOM_FILTER not in generation.names:
            yield objection(
                generation.io.path(paths.BLOOM_FILTER), f"generation {generation.listed.generation} lacks it"
            )


@invariant(
    "AMB-48",
    about="generation",
    remedy="Native scans fail on the generation; this engine does not need the index. Merge the generation, then "
    "collect it.",
)
def generations_have_their_key_index(view: RegionView) -> Iterator[Violation]:
    """In R each generation of a table with a key has the two files of its key index."""
    if not view.revision.key_index:
        return
    for generation in view.generations:
        if generation.state is None or not generation.state.primary_key:
            continue
        for name in (key_index.PAGE_DATA, key_index.PAGE_LOOKUP):
            if name not in generation.names:
                yield objection(generation.io.path(name), f"generation {generation.listed.generation} lacks it")


@invariant(
    "AMB-50",
    "AMB-89",
    "MERGE-002",
    about="generation",
    remedy="Merging refuses the generation. Undo the change of the table's schema, merge, then change it again.",
)
def unmerged_generations_fit_the_table(view: RegionView, base: TableState, progress: Generation) -> Iterator[Violation]:
    """Generations that are not merged have columns that can be mapped to those of the table, its key among them."""
    for generation in view.generations:
        state = generation.state
        if state is None or generation.listed.generation <= progress:
            continue
        try:
            held = mapped_columns(generation.io.root, state, base)
        except Unmergeable as error:
            yield objection(state.path, str(error.fields["reason"]), error.clause)
            continue
        forced = [field.name for field in base.schema if not field.nullable and field.name not in held]
        if forced and state.rows:
            yield objection(state.path, f"columns {forced} of the table have no NULLs, and the generation lacks them")


@invariant(
    "AMB-89",
    about="generation",
    remedy="Another implementation wrote deletes into a region of a revision without them. Its readers and this one "
    "disagree about the deleted rows; convert the table to revision R, or write the deletes to the base table.",
)
def tombstones_are_of_revision_r(view: RegionView, rows: Rows) -> Iterator[Violation]:
    """Only R has the tombstone column: bool, without NULL, last; A and B have no deletes."""
    if not view.revision.tombstones:
        if TOMBSTONE in rows.table.names:
            return
        for entry in view.entries:
            if entry.tombstones:
                yield objection(entry.path, f"entry {entry.position} has the column {TOMBSTONE}")
    for generation in view.generations:
        if generation.state is None:
            continue
        schema = generation.state.schema
        if view.revision.tombstones:
            last = schema.field(len(schema) - 1)
            if last.name != TOMBSTONE or last.type != pa.bool_() or last.nullable:
                yield objection(generation.state.path, f"the last column is {last}, not {TOMBSTONE}: bool not null")
        elif TOMBSTONE in schema.names:
            yield objection(generation.state.path, f"generation {generation.listed.generation} has {TOMBSTONE}")


@invariant(
    "FORMAT-017",
    "MANIFEST-016",
    about="generation",
    severity="warning",
    remedy="Nothing reads the number but schedulers and displays.",
)
def listed_row_counts_are_right(view: RegionView) -> Iterator[Violation]:
    """Where the region manifest counts a generation's rows (R), its table has as many."""
    for generation in view.generations:
        counted = generation.listed.physical_rows
        if generation.state is None or counted is None:
            continue
        stored = sum(fragment.physical_rows for fragment in generation.state.fragments)
        if stored != counted:
            reason = f"generation {generation.listed.generation} has {stored} rows, the region manifest says {counted}"
            yield objection(generation.state.path, reason)
