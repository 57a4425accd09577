"""Revisions of the specification, and readings of what it leaves open, as data.

`A` and `B` are the two MemWAL revisions; `R` is the layout that the released native implementation writes (region is
called shard there). Revision 0 is recognised and refused (AMB-04). No other module branches on a revision's name: it
asks for the property.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .ids import Epoch, Generation, WalPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What differs between revisions in bytes and rules."""

    name: Literal["A", "B", "R"]
    """Recorded with the table under the config key `CONFIG_REVISION` (AMB-06)."""
    first_position: WalPosition
    """Position of the first WAL entry: 1 in A and R, 0 in B (AMB-06)."""
    wal_container: Literal["lance", "arrow"]
    """Lance file (A) or Arrow IPC stream (B, R)."""
    wal_suffix: str
    """Suffix of WAL entries, without the dot (AMB-10)."""
    self_contained: bool
    """Generations hold their own data files (B, R) or refer to WAL files through base paths (A) (AMB-39)."""
    barrier_on_first_claim: bool
    """The claim that creates a region puts a barrier entry too: in B, so that position 0 holds no rows (AMB-07)."""
    overtaken_barriers: bool
    """A claim that was overtaken may leave its barrier behind entries of a higher epoch (R): the native writer puts it
    before it finds out. It has no rows, and so overrides none (AMB-27)."""
    entry_generation: bool
    """Entries carry their generation in schema metadata (R)."""
    tombstones: bool
    """Rows carry ``_tombstone`` and deletes are possible (R); A and B have no deletes (AMB-89)."""
    mask_older: bool
    """Older rows of a key inside a generation are hidden by a deletion file (R); A and B leave them (AMB-46)."""
    key_index: bool
    """Generations carry ``_pk_index/`` (R)."""
    base_field_ids: bool
    """A flush gives the columns of a generation the field ids of the base table (R, the native writer from 13.0
    on); A and B say nothing of that, and there only the engine's own generations are known to (AMB-50)."""
    shard_fields: bool
    """Region values are kept in the region manifest (R); A and B have them in the MemWAL index only (AMB-53)."""
    added_fields: bool
    """Messages have what R adds to them: region values, status and sizes of generations in region manifests, defaults
    of writers in the index details. To A and B these are unknown fields (AMB-03, AMB-53)."""
    keyless: bool
    """A table may be without a primary key, and then it just grows (R)."""
    bloom: Literal["self-describing", "split-block"]
    """Format of ``bloom_filter.bin`` (AMB-47)."""
    pointer_names: tuple[str, str]
    """Columns of the replay pointer and of the last-seen hint in region snapshots."""
    snapshot_files: bool
    """Region snapshots may be files of their own, and ``num_regions`` counts their rows (A, B). In R they are inline at
    any count, since native commits give the index a new UUID, and the number may be the configured one (AMB-75)."""
    hash_profile: Literal["textbook", "R"]
    """Which bytes go into Murmur3, and how a hash becomes a bucket (AMB-59)."""
    hash_recorded: bool
    """Each region field that hashes names its hash profile among its parameters (A, B) (AMB-59)."""
    expressions: bool
    """Region fields may be SQL expressions (A, B); R has transforms only (AMB-65)."""
    floating_sources: bool
    """Region fields may have floating sources (R); in A and B equal keys could differ in bits (AMB-64)."""
    values_outlive_promotion: bool
    """A region value stays when its source column is promoted (A, B); R does not promise it."""
    native_type_names: bool
    """Result types are spelled as the native implementation spells them (R) (AMB-68)."""
    null_bucket: bool
    """A NULL source goes to bucket 0 (R) rather than to a region of its own (AMB-57)."""
    epoch_first: Epoch = Epoch(1)
    generation_first: Generation = Generation(1)


A = Revision(
    name="A",
    first_position=WalPosition(1),
    wal_container="lance",
    wal_suffix="lance",
    self_contained=False,
    barrier_on_first_claim=False,
    overtaken_barriers=False,
    entry_generation=False,
    tombstones=False,
    mask_older=False,
    key_index=False,
    base_field_ids=False,
    shard_fields=False,
    added_fields=False,
    keyless=False,
    bloom="self-describing",
    pointer_names=("replay_after_wal_id", "wal_id_last_seen"),
    snapshot_files=True,
    hash_profile="textbook",
    hash_recorded=True,
    expressions=True,
    floating_sources=False,
    values_outlive_promotion=True,
    native_type_names=False,
    null_bucket=False,
)

B = Revision(
    name="B",
    first_position=WalPosition(0),
    wal_container="arrow",
    wal_suffix="arrow",
    self_contained=True,
    barrier_on_first_claim=True,
    overtaken_barriers=False,
    entry_generation=False,
    tombstones=False,
    mask_older=False,
    key_index=False,
    base_field_ids=False,
    shard_fields=False,
    added_fields=False,
    keyless=False,
    bloom="self-describing",
    pointer_names=("replay_after_wal_entry_position", "wal_entry_position_last_seen"),
    snapshot_files=True,
    hash_profile="textbook",
    hash_recorded=True,
    expressions=True,
    floating_sources=False,
    values_outlive_promotion=True,
    native_type_names=False,
    null_bucket=False,
)

R = Revision(
    name="R",
    first_position=WalPosition(1),
    wal_container="arrow",
    wal_suffix="arrow",
    self_contained=True,
    barrier_on_first_claim=False,
    overtaken_barriers=True,
    entry_generation=True,
    tombstones=True,
    mask_older=True,
    key_index=True,
    base_field_ids=True,
    shard_fields=True,
    added_fields=True,
    keyless=True,
    bloom="split-block",
    pointer_names=("replay_after_wal_entry_position", "wal_entry_position_last_seen"),
    snapshot_files=False,
    hash_profile="R",
    hash_recorded=False,
    expressions=False,
    floating_sources=True,
    values_outlive_promotion=False,
    native_type_names=True,
    null_bucket=True,
)

REVISIONS: dict[str, Revision] = {r.name: r for r in (A, B, R)}

CONFIG_REVISION = "memwal.revision"
"""Key of the table config that names the revision (AMB-06)."""
CONFIG_INLINE_REGIONS = "memwal.inline_regions"
"""Key of the table config: most regions whose snapshot is kept inside the index details; decimal (AMB-75)."""
CONFIG_WAL_COLLECTION = "memwal.wal_collection"
"""Key of the table config: ``on`` lets the collector delete WAL files and makes writers verify each put (AMB-25)."""
CONFIG_MANIFEST_COLLECTION = "memwal.manifest_collection"
"""Key of the table config: ``on`` lets the collector delete old region manifest versions and makes every process that
commits one confirm it (AMB-30)."""
CONFIG_COMMITS = "memwal.commits"
"""Key of the table config: ``external`` says that versions are created by an external manifest store. A caller that
does not name one may read and not commit (TXN-006)."""
CONFIG_COLLECTED = "memwal.collected."
"""Prefix of keys of the table config, followed by a region id: the last generation of the region that was collected
though a retained version is not merged up to it, decimal. No Restore may go below it (AMB-91)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """The reading chosen where a reading changes behaviour; one field per ambiguity, named by its number.

    The defaults are the strict profile. `LITERAL` does what the text says and exists so that a hazard can be shown.
    """

    conditional_wal_put: bool = True
    """AMB-13: WAL entries are created by put-if-not-exists (literal: plain put)."""
    resolve_unknown_put: bool = True
    """AMB-14: an unknown WAL put is repeated at the same position (literal: the next position is taken)."""
    stop_on_taken_position: bool = True
    """AMB-13: a position that is taken stops the writer, as fenced or, under its epoch, as damage (literal: the next
    position is taken, by any writer)."""
    claim_barrier: bool = True
    """AMB-24: a claim puts a data-less entry at the WAL tip before recovery counts as complete (literal: none)."""
    stop_on_newer_epoch: bool = True
    """AMB-26: an entry of a newer epoch aborts replay as fenced (literal: it is skipped)."""
    own_claim_needs_confirmation: bool = True
    """AMB-28: an unconfirmed claim is another's (literal: equal bytes mean success)."""
    reverify_each_attempt: bool = True
    """AMB-29: each attempt reads, verifies and derives anew (literal: only the version number is recomputed)."""
    list_wal_tail: bool = True
    """AMB-139: recovery lists the WAL once to report a hole that probing cannot see (literal: probing only)."""
    contiguous_merge: bool = True
    """AMB-81: a merge of g needs progress g-1 (literal: any lower progress)."""
    progress_in_conflict: bool = True
    """AMB-84: two merges of one region conflict (literal: only overlapping rows do)."""
    guard_collected_versions: bool = True
    """AMB-30: where manifest versions are collected, a commit is confirmed by a listing, and a reader asks for the
    version below the one it found (literal: a put that succeeds is a commit, the last version found is the newest)."""
    rebase_index_fields: bool = True
    """AMB-69, AMB-52: a change of the MemWAL index is derived again from the version that it is committed on (literal:
    the details that were loaded first are committed on whatever came since)."""
    snapshot_uuid_per_build: bool = True
    """AMB-76: an external snapshot is a new file under a new index UUID (literal: the file is replaced)."""
    drained_before_new_spec: bool = True
    """AMB-54: a new region spec needs all regions of older ones drained (literal: it governs at once)."""
    fence_before_new_spec: bool = True
    """AMB-142: a change of specs fences the writers of older regions first (literal: they continue with theirs)."""
    fence_before_new_columns: bool = True
    """AMB-50: adding or dropping columns fences all writers first (literal: they continue with the columns that they
    have read)."""
    list_when_hint_fails: bool = True
    """AMB-31: a hinted or first version that is missing makes readers list (literal: no region)."""
    filter_above_deduplication: bool = True
    """AMB-99: filters on other than key columns run above deduplication (literal: below it)."""
    skip_only_merged: bool = True
    """AMB-100: an absent generation is skipped only if the pinned base has merged it (literal: always)."""
    regions_before_base: bool = True
    """AMB-101: readers load region state first and the base after it, and validate (literal: base first)."""
    merged_out_of_resolution: bool = True
    """AMB-88: merged generations take no part in value resolution (literal: the highest generation wins)."""
    credit_indexed_version: bool = True
    """AMB-70: an index is credited with the progress of the version it was built from (literal: read after it)."""
    orphans_by_generation: bool = True
    """AMB-94: an unlisted folder is left over once its generation can no longer be committed (literal: at once)."""
    manual_regions_apart: bool = True
    """AMB-56: a merge that would replace a row that another manual region merged stops (literal: the last merge
    wins)."""
    absence_needs_coverage: bool = True
    """AMB-71: without a catch-up entry only an index that covers the base is caught up (literal: any index is)."""


STRICT = Interpretation()
LITERAL = Interpretation(
    conditional_wal_put=False,
    resolve_unknown_put=False,
    stop_on_taken_position=False,
    claim_barrier=False,
    stop_on_newer_epoch=False,
    own_claim_needs_confirmation=False,
    reverify_each_attempt=False,
    list_wal_tail=False,
    contiguous_merge=False,
    progress_in_conflict=False,
    guard_collected_versions=False,
    rebase_index_fields=False,
    snapshot_uuid_per_build=False,
    drained_before_new_spec=False,
    fence_before_new_spec=False,
    fence_before_new_columns=False,
    list_when_hint_fails=False,
    filter_above_deduplication=False,
    skip_only_merged=False,
    regions_before_base=False,
    merged_out_of_resolution=False,
    credit_indexed_version=False,
    orphans_by_generation=False,
    manual_regions_apart=False,
    absence_needs_coverage=False,
)
PROFILES: dict[str, Interpretation] = {"strict": STRICT, "literal": LITERAL}
