"""The state of the machine: what a store and its processes know, and what is assumed of the texts and the store."""

from __future__ import annotations

from .form import assumption, field
from .terms import Sort, Term, ite

# ---- What a table is like, and how the texts are read

first = field("first", "", Sort.POSITION, "position of the first WAL entry: 1 (A, R) or 0 (B)", 1, rigid=True)()
barrier_first = field("barrier_first", "", Sort.BOOL, "a region's first claim puts a barrier too (B)", rigid=True)()
collects_wal = field("collects_wal", "", Sort.BOOL, "WAL entries are collected; puts are verified", True, rigid=True)()
has = field("has", "pxk", Sort.BOOL, "the entry that epoch x puts at position p has a row of key k", rigid=True)

zero_by_generation = assumption("zero_by_generation", "AMB-07", "a pointer of 0 before the first flush covers nothing")
replay_from_pointer = assumption("replay_from_pointer", "AMB-09", "recovery starts behind the pointer, not at the hint")
conditional_wal_put = assumption("conditional_wal_put", "AMB-13", "a WAL entry is created, and never replaced")
stop_on_taken_position = assumption("stop_on_taken_position", "AMB-13", "a position that is taken stops the writer")
resolve_unknown_put = assumption("resolve_unknown_put", "AMB-14", "a put without an answer is resolved before the next")
claim_barrier = assumption("claim_barrier", "AMB-24", "recovery ends with an entry of its own, the barrier")
verify_after_put = assumption("verify_after_put", "AMB-25", "where entries are collected a put verifies its epoch")
stop_on_newer_epoch = assumption("stop_on_newer_epoch", "AMB-26", "an entry of a newer epoch ends recovery, as fenced")
own_claim_needs_confirmation = assumption("own_claim_needs_confirmation", "AMB-28", "an unanswered claim is another's")
reverify_each_attempt = assumption("reverify_each_attempt", "AMB-29", "each commit compares the epoch with its basis")
stored_epoch_is_kept = assumption("stored_epoch_is_kept", "AMB-33", "without a claim the stored epoch is written again")
guard_collected_versions = assumption("guard_collected_versions", "AMB-30", "a freed manifest number proves nothing")
list_when_hint_fails = assumption("list_when_hint_fails", "AMB-31", "a hint that fails does not mean: no region")
flush_in_order = assumption("flush_in_order", "AMB-41", "a generation begins where the one before it ends")
last_row_is_merged = assumption("last_row_is_merged", "AMB-46", "of a key's rows in a generation the last is merged")
rebase_index_fields = assumption("rebase_index_fields", "AMB-69", "a builder keeps the merge progress that it finds")
credit_indexed_version = assumption("credit_indexed_version", "AMB-70", "an index is credited with what it is of")
absence_needs_coverage = assumption("absence_needs_coverage", "AMB-71", "no catch-up entry: nothing is covered")
snapshot_uuid_per_build = assumption("snapshot_uuid_per_build", "AMB-76", "no build changes an earlier snapshot")
contiguous_merge = assumption("contiguous_merge", "AMB-81", "a merge takes the generation after the progress")
progress_in_conflict = assumption("progress_in_conflict", "AMB-84", "two merges of one region conflict")
restore_of_retained = assumption("restore_of_retained", "AMB-87", "only a retained version is restored")
keep_for_retained = assumption("keep_for_retained", "AMB-91", "what a retained version has not merged is kept")
orphans_by_generation = assumption("orphans_by_generation", "AMB-94", "a folder is left over if its number is used up")
skip_only_merged = assumption("skip_only_merged", "AMB-100", "a generation that is gone is skipped only if merged")
regions_before_base = assumption("regions_before_base", "AMB-101", "region state is read first, the base after it")
memory_of_the_owner = assumption("memory_of_the_owner", "AMB-140", "memory is believed of the newest epoch only")

atomic_create = assumption("atomic_create", "", "creating an object that exists is refused, for every caller")
nothing_lost = assumption("nothing_lost", "", "an object that was created is there until it is deleted")
lists_all = assumption("lists_all", "", "a listing has all that was created before it began")

# ---- The region manifest: the newest version

epoch = field("epoch", "", Sort.EPOCH, "writer epoch; 0: the region was never claimed")()
version = field("version", "", Sort.MANIFEST, "number of the newest version")()
kept_from = field("kept_from", "", Sort.MANIFEST, "lower versions may have been collected")()
pointer = field("pointer", "", Sort.POSITION, "replay pointer: the last position that a generation covers")()
hint = field("hint", "", Sort.POSITION, "last-seen hint")()
current = field("current", "", Sort.GENERATION, "number of the next generation", 1)()
listed = field("listed", "g", Sort.BOOL, "the manifest lists generation g")

# ---- Generations and the WAL

cover = field("cover", "p", Sort.GENERATION, "the generation that covers position p")
kept = field("kept", "p", Sort.EPOCH, "epoch of the entry at p whose rows that generation holds; 0: none")
files = field("files", "g", Sort.BOOL, "the files of generation g are whole")
doomed = field("doomed", "g", Sort.BOOL, "a collector has found that generation g may go")
entry = field("entry", "p", Sort.BOOL, "an entry stands at position p")
written = field("written", "p", Sort.EPOCH, "the epoch inside it")
bottom = field("bottom", "", Sort.POSITION, "entries below were collected (but for what a late put leaves there)", 1)()
acked = field("acked", "px", Sort.BOOL, "the entry that epoch x put at p was acknowledged")

# ---- What each writer knows

read = field("read", "w", Sort.BOOL, "has read a manifest to claim with")
basis = field("basis", "w", Sort.MANIFEST, "its version")
basis_epoch = field("basis_epoch", "w", Sort.EPOCH, "its epoch")
mine = field("mine", "w", Sort.EPOCH, "epoch of the claim; 0: none")
begins = field("begins", "w", Sort.POSITION, "first position that no generation covered, as far as it knows")
number = field("number", "w", Sort.GENERATION, "the generation that it flushes next")
at = field("at", "w", Sort.POSITION, "next position to replay or to put")
opened = field("opened", "w", Sort.BOOL, "has recovered, and takes puts")
barrier = field("barrier", "w", Sort.POSITION, "position of its barrier")
holds = field("holds", "wp", Sort.EPOCH, "epoch of the entry at p that is in its memory; 0: none")
sent = field("sent", "wp", Sort.BOOL, "has sent a put of position p, which may be carried out at any time from then on")
dead = field("dead", "w", Sort.BOOL, "has crashed, was fenced, or stopped")
flushing = field("flushing", "w", Sort.BOOL, "a flush is under way")
flush_from = field("flush_from", "w", Sort.POSITION, "its first position")
flush_to = field("flush_to", "w", Sort.POSITION, "its last position")
whole = field("whole", "w", Sort.BOOL, "its files are there")

# ---- The base table: versions

newest = field("newest", "", Sort.TABLE, "number of the newest version", 1)()
restored = field("restored", "", Sort.TABLE, "the version that the last Restore made", 1)()
retained = field("retained", "t", Sort.BOOL, "version t can still be read and restored")
progress = field("progress", "t", Sort.GENERATION, "merge progress in version t")
base = field("base", "tk", Sort.POSITION, "position of the row of key k in version t; -1: none", -1)
covered = field("covered", "ti", Sort.GENERATION, "index i in version t covers what was merged up to here")
caught_up = field("caught_up", "ti", Sort.GENERATION, "its catch-up entry says so; 0: there is none")
snap_epoch = field("snap_epoch", "t", Sort.EPOCH, "the epoch in its region snapshot")
snap_from = field("snap_from", "t", Sort.POSITION, "where the WAL tail began then")
snap_current = field("snap_current", "t", Sort.GENERATION, "the next generation then; 0: there is no snapshot")
snap_listed = field("snap_listed", "tg", Sort.BOOL, "the snapshot in version t lists generation g")
merging = field("merging", "m", Sort.GENERATION, "the generation that a merger has prepared; 0: none")
loaded = field("loaded", "b", Sort.TABLE, "the version that a builder has loaded; 0: none")
gathered_epoch = field("gathered_epoch", "b", Sort.EPOCH, "the epoch that it has read of the region since")
gathered_from = field("gathered_from", "b", Sort.POSITION, "where the WAL tail began then")
gathered_current = field("gathered_current", "b", Sort.GENERATION, "the next generation then; 0: not read yet")
gathered_listed = field("gathered_listed", "bg", Sort.BOOL, "the generations listed then")

# ---- What each reader has read

began = field("began", "r", Sort.BOOL, "a strong read has begun")
before = field("before", "rpx", Sort.BOOL, "what was acknowledged when it began")
has_regions = field("has_regions", "r", Sort.BOOL, "has read the region manifest")
read_from = field("read_from", "r", Sort.POSITION, "where the WAL tail began then")
read_current = field("read_current", "r", Sort.GENERATION, "the next generation then")
read_epoch = field("read_epoch", "r", Sort.EPOCH, "the epoch then")
read_listed = field("read_listed", "rg", Sort.BOOL, "the generations listed then")
has_base = field("has_base", "r", Sort.BOOL, "has read the base table's newest version")
read_progress = field("read_progress", "r", Sort.GENERATION, "its merge progress")
took = field("took", "rg", Sort.BOOL, "has read the rows of generation g")
next_entry = field("next_entry", "r", Sort.POSITION, "the WAL entry that it reads next")
tail = field("tail", "rp", Sort.EPOCH, "epoch of the entry at p that it has seen, in the WAL or in memory; 0: none")
ended = field("ended", "r", Sort.BOOL, "has come to the end of the tail")
by_memory = field("by_memory", "r", Sort.BOOL, "took a writer's memory for the tail")
memory_epoch = field("memory_epoch", "r", Sort.EPOCH, "that writer's epoch")
done = field("done", "r", Sort.BOOL, "the read has succeeded")

# ---- Words

start = ite((current == 1) & zero_by_generation, first, pointer + 1)
"""Where replay starts: the first position that no generation covers."""


def live(w: Term) -> Term:
    """A writer that has claimed the region and has not stopped."""
    return ~dead(w) & (mine(w) > 0)


def claiming(w: Term) -> Term:
    """A writer that has read a manifest, to claim the region."""
    return ~dead(w) & (mine(w) == 0) & read(w)


def confirmed(w: Term) -> Term:
    """After a put: the epoch is verified where entries are collected, since the position may have been freed."""
    return ~collects_wal | ~verify_after_put | (epoch == mine(w))


def stored(w: Term) -> Term:
    """The put of the next position is known to have been carried out."""
    return sent(w, at(w)) & entry(at(w)) & (written(at(w)) == mine(w))
