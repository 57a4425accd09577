"""The state of the machine: what a store and its processes know, and what is assumed of the texts and the store."""

from __future__ import annotations

from .form import Changes, ManifestView, assumption, everywhere, field, view
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

basis = field("basis", "w", Sort.MANIFEST, "version of the manifest that it has read, to claim with; -1: none", -1)
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
snapshot = view("snap", "t", "its region snapshot")
merging = field("merging", "m", Sort.GENERATION, "the generation that a merger has prepared; 0: none")
loaded = field("loaded", "b", Sort.TABLE, "the version that a builder has loaded; 0: none")
gathered = view("gathered", "b", "what it has read of the region since")

# ---- What each reader has read

began = field("began", "r", Sort.BOOL, "a strong read has begun")
before = field("before", "rpx", Sort.BOOL, "what was acknowledged when it began")
region = view("read", "r", "what it has read of the region")
read_progress = field("read_progress", "r", Sort.GENERATION, "merge progress of its table version; -1: none read", -1)
took = field("took", "rg", Sort.BOOL, "has read the rows of generation g")
next_entry = field("next_entry", "r", Sort.POSITION, "the WAL entry that it reads next")
tail = field("tail", "rp", Sort.EPOCH, "epoch of the entry at p that it has seen, in the WAL or in memory; 0: none")
ended = field("ended", "r", Sort.BOOL, "has come to the end of the tail")
memory_epoch = field("memory_epoch", "r", Sort.EPOCH, "epoch of the writer whose memory it took for the tail; 0: none")
done = field("done", "r", Sort.BOOL, "the read has succeeded")

# ---- Words

start = ite((current == 1) & zero_by_generation, first, pointer + 1)
"""Where replay starts: the first position that no generation covers."""


def live(w: Term) -> Term:
    """A writer that has claimed the region and has not stopped."""
    return ~dead(w) & (mine(w) > 0)


def claiming(w: Term) -> Term:
    """A writer that has read a manifest, to claim the region."""
    return ~dead(w) & (mine(w) == 0) & (basis(w) >= 0)


def confirmed(w: Term) -> Term:
    """After a put: the epoch is verified where entries are collected, since the position may have been freed."""
    return ~collects_wal | ~verify_after_put | (epoch == mine(w))


def stored(w: Term) -> Term:
    """The put of the next position is known to have been carried out."""
    return sent(w, at(w)) & entry(at(w)) & (written(at(w)) == mine(w))


def has_regions(r: Term) -> Term:
    """A reader has read the region manifest."""
    return region.current(r) > 0


def has_base(r: Term) -> Term:
    """It has read the base table's newest version."""
    return read_progress(r) >= 0


def by_memory(r: Term) -> Term:
    """It took a writer's memory for the tail."""
    return memory_epoch(r) > 0


def seen(by: ManifestView, at: Term) -> Changes:
    """The region manifest is read."""
    whole = everywhere(lambda g: (by.listed(at, g), listed(g)))
    return (by.epoch(at), epoch), (by.start(at), start), (by.current(at), current), whole
