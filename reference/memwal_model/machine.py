"""The abstract machine of one region: what a store and its processes know, and the steps that change it.

It reads from top to bottom: the table's settings and the readings of the texts, the state, the steps in the order in
which a row goes through them. Names of variables say what they stand for: `w`, `v` writers, `p`, `q`, `c` positions,
`x`, `y` epochs, `g`, `h` generations, `t`, `u` table versions, `n` manifest versions, `k` keys, `m` mergers, `b`
index builders, `i` maintained indexes, `r` readers. There are any number of each. A step is atomic: it is one request
to the store, or what a process does with an answer. A request that is answered late, twice or never needs no steps of
its own: it is sent in one step and carried out in another, which may come at any time, or never.

Source: MemWAL revisions A and B; the readings are those of SPEC_NOTES, by their AMB numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .form import action, assumption, everywhere, field, without
from .terms import FALSE, TRUE, Field, Sort, Term, forall, greatest, ite

Changes = tuple[Any, ...]
"""When a step can happen, and what it changes: places and their new values."""

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
verify_after_put = assumption(
    "verify_after_put", "AMB-25", "where entries are collected the epoch is verified after a put"
)
stop_on_newer_epoch = assumption("stop_on_newer_epoch", "AMB-26", "an entry of a newer epoch ends recovery, as fenced")
own_claim_needs_confirmation = assumption("own_claim_needs_confirmation", "AMB-28", "an unanswered claim is another's")
reverify_each_attempt = assumption(
    "reverify_each_attempt", "AMB-29", "each commit compares the epoch with its own basis"
)
guard_collected_versions = assumption("guard_collected_versions", "AMB-30", "a freed manifest number proves nothing")
flush_in_order = assumption("flush_in_order", "AMB-41", "a generation begins where the one before it ends")
rebase_index_fields = assumption("rebase_index_fields", "AMB-69", "a builder keeps the merge progress that it finds")
credit_indexed_version = assumption(
    "credit_indexed_version", "AMB-70", "an index is credited with what it was built from"
)
absence_needs_coverage = assumption(
    "absence_needs_coverage", "AMB-71", "no catch-up entry means that nothing is covered"
)
contiguous_merge = assumption("contiguous_merge", "AMB-81", "a merge takes the generation after the progress")
progress_in_conflict = assumption("progress_in_conflict", "AMB-84", "two merges of one region conflict")
orphans_by_generation = assumption(
    "orphans_by_generation", "AMB-94", "a folder is left over once its number is used up"
)
skip_only_merged = assumption(
    "skip_only_merged", "AMB-100", "a generation that is gone is skipped only if it is merged"
)
regions_before_base = assumption("regions_before_base", "AMB-101", "region state is read first, the base after it")
memory_of_the_owner = assumption("memory_of_the_owner", "AMB-140", "memory is believed of the newest epoch only")

atomic_create = assumption("atomic_create", "", "creating an object that is there is refused, whoever asks")
nothing_lost = assumption("nothing_lost", "", "an object that was created is there until it is deleted")
lists_all = assumption("lists_all", "", "a listing has all that was created before it began")

# ---- The region manifest: the newest version

epoch = field("epoch", "", Sort.EPOCH, "writer epoch; 0: the region is not there yet")()
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
merging = field("merging", "m", Sort.GENERATION, "the generation that a merger has prepared; 0: none")
loaded = field("loaded", "b", Sort.TABLE, "the version that a builder has loaded; 0: none")

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


def confirmed(w: Term) -> Term:
    """After a put: the epoch is verified where entries are collected, since the position may have been freed."""
    return ~collects_wal | ~verify_after_put | (epoch == mine(w))


def stored(w: Term) -> Term:
    """The put of the next position is known to have been carried out."""
    return sent(w, at(w)) & entry(at(w)) & (written(at(w)) == mine(w))


def next_version(
    progress_is: Term | None = None,
    base_is: Callable[[Term], Term] | None = None,
    like: Term = newest,
    index_is: Callable[[Field, Term], Term] | None = None,
) -> Changes:
    """A commit to the base table: the next version is like ``like`` but for what is given."""
    new = newest + 1
    indexed = index_is or (lambda field, j: field(like, j))
    return (
        (newest, new),
        (retained(new), TRUE),
        (progress(new), progress(like) if progress_is is None else progress_is),
        everywhere(lambda k: (base(new, k), base(like, k) if base_is is None else base_is(k))),
        everywhere(lambda j: (covered(new, j), indexed(covered, j))),
        everywhere(lambda j: (caught_up(new, j), indexed(caught_up, j))),
    )


# ---- A writer claims the region


@action
def read_manifest(w: Term) -> Changes:
    """A writer reads the newest manifest, to claim the region."""
    return ~dead(w) & (mine(w) == 0), (read(w), TRUE), (basis(w), version), (basis_epoch(w), epoch)


def _owns(w: Term, claimed: Term) -> Changes:
    """A claim that creates the region begins at the first position, any other behind the replay pointer."""
    begin = ite(epoch == 0, first, start)
    after_hint = ite(epoch == 0, first, hint + 1)
    at_first = ite(replay_from_pointer, begin, after_hint)
    return (mine(w), claimed), (begins(w), begin), (number(w), current), (at(w), at_first)


@action
def claim(w: Term) -> Changes:
    """It creates the version after the one that it has read, under the next epoch: the region is its own."""
    free = ~dead(w) & (mine(w) == 0) & read(w) & (basis(w) == version)
    return free, (epoch, epoch + 1), (version, version + 1), *_owns(w, epoch + 1)


@action
def claim_of_nobody() -> Changes:
    """A claim is carried out whose sender has crashed or gets no answer: nobody takes it for its own."""
    return TRUE, (epoch, epoch + 1), (version, version + 1)


@without("own_claim_needs_confirmation")
def claim_recognised(w: Term) -> Changes:
    """A claim got no answer, and the next version is what was wanted: literally that means success."""
    alike = (version == basis(w) + 1) & (epoch == basis_epoch(w) + 1)
    return ~dead(w) & (mine(w) == 0) & read(w) & alike, *_owns(w, epoch)


@without("guard_collected_versions")
def claim_of_a_freed_number(w: Term) -> Changes:
    """The version after the one that was read was collected, and is created anew: literally that means success."""
    free = ~dead(w) & (mine(w) == 0) & read(w) & (basis(w) + 1 < kept_from)
    return free, *_owns(w, basis_epoch(w) + 1)


@without("atomic_create")
def claim_over_another(w: Term) -> Changes:
    """A claim replaces a version that another has created meanwhile."""
    claimed = basis_epoch(w) + 1
    return ~dead(w) & (mine(w) == 0) & read(w) & (basis(w) < version), *_owns(w, claimed), (epoch, claimed)


@action
def crash(w: Term) -> Changes:
    """A writer ends, for any reason and at any time. What it has sent may still be carried out."""
    return ~dead(w), (dead(w), TRUE)


# ---- It recovers


@action
def replay(w: Term) -> Changes:
    """It takes an entry of its own epoch or an older one into memory."""
    valid = entry(at(w)) & (written(at(w)) <= mine(w))
    return live(w) & ~opened(w) & valid, (holds(w, at(w)), written(at(w))), (at(w), at(w) + 1)


@action
def replay_meets_newer(w: Term) -> Changes:
    """An entry of a newer epoch: it was fenced."""
    return live(w) & ~opened(w) & entry(at(w)) & (written(at(w)) > mine(w)), (dead(w), TRUE)


@without("stop_on_newer_epoch")
def replay_skips_newer(w: Term) -> Changes:
    """An entry of a newer epoch is left out, literally."""
    return live(w) & ~opened(w) & entry(at(w)) & (written(at(w)) > mine(w)), (at(w), at(w) + 1)


@action
def send(w: Term) -> Changes:
    """It sends the put of the next position: the barrier that ends recovery, or rows."""
    return live(w), (sent(w, at(w)), TRUE)


@action
def carry_out(w: Term, p: Term) -> Changes:
    """The store carries out a put-if-not-exists that was sent: soon, late, or once more."""
    return sent(w, p) & (~entry(p) | ~conditional_wal_put), (entry(p), TRUE), (written(p), mine(w))


@action
def recover(w: Term) -> Changes:
    """The barrier stands at the end of the WAL: recovery is complete."""
    own = (holds(w, at(w)), mine(w)), (barrier(w), at(w)), (at(w), at(w) + 1)
    return live(w) & ~opened(w) & stored(w) & confirmed(w), (opened(w), TRUE), *own


@action
def open_without_barrier(w: Term) -> Changes:
    """Recovery ends where the WAL does: a first claim (A, R) has no predecessor. Literally every claim ends so."""
    free = ((mine(w) == 1) & ~barrier_first) | ~claim_barrier
    return live(w) & ~opened(w) & ~entry(at(w)) & free, (opened(w), TRUE), (barrier(w), at(w))


# ---- It writes


@action
def acknowledge(w: Term) -> Changes:
    """A put is known to be stored, and is acknowledged."""
    own = (acked(at(w), mine(w)), TRUE), (holds(w, at(w)), mine(w)), (at(w), at(w) + 1)
    return live(w) & opened(w) & stored(w) & confirmed(w), *own


@without("lists_all")
def acknowledge_unlisted(w: Term) -> Changes:
    """The listing by which the writer verifies its epoch leaves out the newest manifest."""
    return live(w) & opened(w) & stored(w), (acked(at(w), mine(w)), TRUE), (at(w), at(w) + 1)


@without("nothing_lost")
def lose_entry(p: Term) -> Changes:
    """The store loses an entry that it has acknowledged."""
    return entry(p), (entry(p), FALSE)


@action
def meet_taken(w: Term) -> Changes:
    """Somebody else's entry stands at the next position: the writer was fenced."""
    return live(w) & opened(w) & entry(at(w)) & (written(at(w)) != mine(w)), (dead(w), TRUE)


@without("stop_on_taken_position")
def skip_taken(w: Term) -> Changes:
    """Literally the writer tries the position behind it."""
    return live(w) & opened(w) & entry(at(w)) & (written(at(w)) != mine(w)), (at(w), at(w) + 1)


@without("resolve_unknown_put")
def skip_unknown(w: Term) -> Changes:
    """A put got no answer, and the next one goes to the position behind it, literally."""
    return live(w) & opened(w) & sent(w, at(w)), (at(w), at(w) + 1)


# ---- It flushes


@action
def flush(w: Term, p: Term, q: Term) -> Changes:
    """It writes what it holds of positions p to q as a generation, which nothing lists yet."""
    ready = live(w) & opened(w) & ~flushing(w) & (begins(w) <= p) & (p <= q) & (q < at(w))
    own = (flushing(w), TRUE), (flush_from(w), p), (flush_to(w), q), (whole(w), TRUE)
    return ready & (~flush_in_order | (p == begins(w))), *own


@action
def list_generation(w: Term) -> Changes:
    """The manifest that lists it is created: soon, or late, when its writer may have ended."""
    free = flushing(w) & ((epoch == mine(w)) | ~reverify_each_attempt) & (current == number(w)) & (start == begins(w))
    return (
        free,
        (epoch, mine(w)),
        (version, version + 1),
        (listed(current), TRUE),
        (files(current), whole(w)),
        (current, current + 1),
        (pointer, flush_to(w)),
        (hint, ite(hint < flush_to(w), flush_to(w), hint)),
        everywhere(lambda p: (cover(p), ite((start <= p) & (p <= flush_to(w)), current, cover(p)))),
        everywhere(lambda p: (kept(p), ite((flush_from(w) <= p) & (p <= flush_to(w)), holds(w, p), kept(p)))),
    )


@action
def learn_of_listing(w: Term) -> Changes:
    """The writer knows that its generation is listed."""
    known = live(w) & flushing(w) & (current > number(w)) & (epoch == mine(w))
    return known, (flushing(w), FALSE), (begins(w), flush_to(w) + 1), (number(w), number(w) + 1)


@action
def raise_hint(p: Term) -> Changes:
    """A reader or an index builder raises the last-seen hint, and changes nothing else."""
    return entry(p) & (hint < p), (hint, p), (version, version + 1)


# ---- Generations are merged


@action
def prepare_merge(m: Term, g: Term) -> Changes:
    """A merger reads the listed generation after the progress of the newest table version."""
    following = (g == progress(newest) + 1) | (~contiguous_merge & (g > progress(newest)))
    return listed(g) & files(g) & following, (merging(m), g)


@action
def merge(m: Term) -> Changes:
    """It commits its rows and the progress in one table version, unless the progress has changed."""
    follows = (merging(m) == progress(newest) + 1) | (~contiguous_merge & (merging(m) > progress(newest)))
    g = merging(m)

    def of_key(k: Term) -> Term:
        found = greatest(lambda p: (first <= p) & (p < start) & (cover(p) == g) & (kept(p) > 0) & has(p, kept(p), k))
        return ite(found >= 0, found, base(newest, k))

    return (g > 0) & (follows | ~progress_in_conflict), *next_version(progress_is=g, base_is=of_key), (merging(m), 0)


@action
def load(b: Term) -> Changes:
    """A builder, of an index or of a region snapshot, loads the newest table version."""
    return TRUE, (loaded(b), newest)


@action
def commit_snapshot(b: Term) -> Changes:
    """Any commit that merges nothing: a region snapshot, a compaction, rows of others."""
    found = ite(rebase_index_fields, progress(newest), progress(loaded(b)))
    return (loaded(b) > 0) & (loaded(b) >= restored), *next_version(progress_is=found), (loaded(b), 0)


@action
def catch_up(b: Term, i: Term) -> Changes:
    """An index is committed, and credited with the progress of the version that it was built from."""
    reached = {covered: progress(loaded(b)), caught_up: progress(ite(credit_indexed_version, loaded(b), newest))}

    def index_is(field: Field, other: Term) -> Term:
        more = (other == i) & (field(newest, other) < reached[field])
        return ite(more, reached[field], field(newest, other))

    return (loaded(b) > 0) & (loaded(b) >= restored), *next_version(index_is=index_is), (loaded(b), 0)


@action
def restore(t: Term) -> Changes:
    """The newest version becomes like a retained one, progress and all."""
    return retained(t) & (t < newest), *next_version(like=t), (restored, newest + 1)


@action
def expire(t: Term) -> Changes:
    """A table version is no longer retained."""
    return retained(t) & (t < newest), (retained(t), FALSE)


# ---- What nothing needs is collected


@action
def doom(g: Term) -> Changes:
    """A collector finds a generation that every retained version has merged, and every maintained index covers."""
    said = forall(lambda i: (g <= caught_up(newest, i)) | (~absence_needs_coverage & (caught_up(newest, i) == 0)))
    merged = forall(lambda t: retained(t) >> (g <= progress(t)))
    return (g >= 1) & (g < current) & said & merged, (doomed(g), TRUE)


@action
def unlist(g: Term) -> Changes:
    """It takes such a generation out of the manifest, and touches no other field."""
    return doomed(g) & listed(g), (listed(g), FALSE), (version, version + 1)


@action
def delete_files(g: Term) -> Changes:
    """It deletes the files of a generation that is listed no more."""
    return (g >= 1) & (g < current) & ~listed(g), (files(g), FALSE)


@action
def delete_orphan(w: Term) -> Changes:
    """It deletes an unlisted folder whose number is used up; literally any that is unlisted."""
    return flushing(w) & ((number(w) < current) | ~orphans_by_generation), (whole(w), FALSE)


@action
def delete_entry(p: Term) -> Changes:
    """It deletes the lowest WAL entry, if the generation that covers it is listed no more."""
    lowest = collects_wal & (p == bottom) & (p < start) & ~listed(cover(p))
    return lowest, (entry(p), FALSE), (bottom, p + 1)


@action
def delete_manifests(n: Term) -> Changes:
    """It deletes manifest versions below the newest one."""
    return (kept_from < n) & (n <= version), (kept_from, n)


# ---- A strong reader


@action
def begin_read(r: Term) -> Changes:
    """A strong read begins; what was acknowledged by now it has to see."""
    return ~began(r), (began(r), TRUE), everywhere(lambda p, x: (before(r, p, x), acked(p, x)))


@action
def read_memory(r: Term, w: Term) -> Changes:
    """It takes what an open writer of its choice holds in memory."""
    return (
        began(r) & ~has_regions(r) & ~ended(r) & live(w) & opened(w),
        everywhere(lambda p: (tail(r, p), ite((begins(w) <= p) & (p < at(w)), holds(w, p), 0))),
        (memory_epoch(r), mine(w)),
        (by_memory(r), TRUE),
        (ended(r), TRUE),
    )


@action
def read_regions(r: Term) -> Changes:
    """It reads the region manifest, and with it whether the memory that it has is the owner's."""
    owner = ~by_memory(r) | (memory_epoch(r) == epoch) | ~memory_of_the_owner
    return (
        began(r) & ~has_regions(r) & owner,
        (has_regions(r), TRUE),
        (read_from(r), start),
        (read_current(r), current),
        (read_epoch(r), epoch),
        (next_entry(r), start),
        everywhere(lambda g: (read_listed(r, g), listed(g))),
    )


@action
def read_base(r: Term) -> Changes:
    """It reads the newest table version: each generation has to be merged there, or listed."""
    whole_view = forall(lambda g: ((g > progress(newest)) & (g < read_current(r))) >> read_listed(r, g))
    ready = (has_regions(r) & whole_view) | ~regions_before_base
    return began(r) & ~has_base(r) & ready, (has_base(r), TRUE), (read_progress(r), progress(newest))


@action
def read_generation(r: Term, g: Term) -> Changes:
    """It reads a generation that the manifest listed."""
    return has_regions(r) & read_listed(r, g) & files(g), (took(r, g), TRUE)


@action
def read_entry(r: Term) -> Changes:
    """It reads the next WAL entry."""
    there = entry(next_entry(r)) & (written(next_entry(r)) <= read_epoch(r))
    seen = (tail(r, next_entry(r)), written(next_entry(r))), (next_entry(r), next_entry(r) + 1)
    return has_regions(r) & ~ended(r) & there, *seen


@action
def read_end(r: Term) -> Changes:
    """No entry stands at the next position: that is the end of the tail."""
    return has_regions(r) & ~ended(r) & ~entry(next_entry(r)), (ended(r), TRUE)


@action
def succeed(r: Term) -> Changes:
    """It has all generations above the base's progress, and the tail had not moved when it was read: it succeeds."""

    def taken(g: Term) -> Term:
        needed = (read_progress(r) < g) & (g < read_current(r)) & read_listed(r, g)
        return needed >> (took(r, g) | (~skip_only_merged & ~files(g)))

    still = by_memory(r) | (read_from(r) == start)
    return has_regions(r) & has_base(r) & ended(r) & still & forall(taken), (done(r), TRUE)
