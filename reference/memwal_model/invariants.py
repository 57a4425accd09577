"""What holds in every state of the machine, and what no step of it ever does.

The theorems are what users are promised. The other invariants say why they hold: together they are inductive, each step
keeps all of them, for any number of processes, entries, generations and versions.
"""

from __future__ import annotations

from .form import INVARIANTS, RULES, ManifestView, because, never, theorem
from .state import *
from .terms import Term, after, forall, ite, variable

__all__ = ["INVARIANTS", "RULES"]


def _flushed(p: Term) -> Term:
    return (first <= p) & (p < start)


def _exists(t: Term) -> Term:
    return (t >= 1) & (t <= newest)


def _stands(p: Term, x: Term) -> Term:
    return entry(p) & (written(p) == x)


def _owner(w: Term) -> Term:
    return (mine(w) > 0) & (mine(w) == epoch)


def _passed(w: Term, p: Term) -> Term:
    return (mine(w) > 0) & (p < at(w))


def _was_so(by: ManifestView, at: Term, g: Term, p: Term) -> Term:
    return (
        (by.epoch(at) <= epoch) & (by.start(at) <= start) & (by.current(at) <= current)
        & (by.listed(at, g) >> ((g >= 1) & (g < by.current(at))))
        & ((_flushed(p) & (p < by.start(at))) >> (cover(p) < by.current(at)))
    )  # fmt: skip


# ---- Theorems

theorem(
    "acknowledged_is_in_reach",
    "An acknowledged write is in the WAL tail, in a listed generation whose files are whole, or in the base table.",
    lambda p, x: acked(p, x) >> ite(
        p < start,
        (kept(p) == x) & ((listed(cover(p)) & files(cover(p))) | (cover(p) <= progress(newest))),
        _stands(p, x),
))  # fmt: skip
theorem("one_owner", "No two writers have claimed the same epoch.",
    lambda w, v: ((mine(w) == mine(v)) & (mine(w) > 0)) >> (w == v))  # fmt: skip
theorem("one_acknowledgement", "No two epochs have both got an acknowledgement for one position.",
    lambda p, x, y: (acked(p, x) & acked(p, y)) >> (x == y))  # fmt: skip
theorem("zombie_below_barrier", "A fenced writer's put is never acknowledged at its successor's barrier or behind it.",
    lambda w, p, x: (opened(w) & acked(p, x) & (x < mine(w))) >> (p < barrier(w)))  # fmt: skip
theorem("epochs_never_fall_in_wal", "Along the WAL epochs never fall.",
    lambda p, q: ((bottom <= p) & (p < q) & entry(q)) >> (written(p) <= written(q)))  # fmt: skip
theorem("wal_has_no_hole", "Below each entry stand entries, down to what was collected.",
    lambda p, q: (entry(q) & (bottom <= p) & (p < q)) >> entry(p))  # fmt: skip
theorem("listed_is_whole", "The files of a listed generation are whole.", lambda g: listed(g) >> files(g))
theorem("collected_is_merged", "What a collector may take is merged in every version that is retained.",
    lambda g, t: (doomed(g) & retained(t)) >> (g <= progress(t)))  # fmt: skip
theorem("credit_is_true", "No index is credited with more than it covers, and none covers more than is merged.",
    lambda t, i: _exists(t) >> (
        (caught_up(t, i) >= 0) & (caught_up(t, i) <= covered(t, i)) & (covered(t, i) <= progress(t))
))  # fmt: skip
theorem("base_has_newest", "In each table version a key has the newest of its rows that are merged there.",
    lambda t, k, p: (
        _exists(t) & _flushed(p) & (cover(p) <= progress(t)) & (kept(p) > 0) & has(p, kept(p), k)
    ) >> (p <= base(t, k)))  # fmt: skip
theorem("base_has_only_merged", "A row of the base table is one of a merged generation.",
    lambda t, k: _exists(t) >> ((base(t, k) >= -1) & ((base(t, k) >= 0) >> (
        _flushed(base(t, k)) & (cover(base(t, k)) <= progress(t)) & (kept(base(t, k)) > 0)
        & has(base(t, k), kept(base(t, k)), k)))))  # fmt: skip
theorem("snapshot_is_of_the_past", "No region snapshot is ahead of the manifest, and it lists what there was.",
    lambda t, g, p: _exists(t) >> _was_so(snapshot, t, g, p))  # fmt: skip
theorem("snapshot_can_be_read", "While a version is retained, each generation that its snapshot adds to it is whole.",
    lambda t, g: (retained(t) & snapshot.listed(t, g) & (progress(t) < g)) >> (listed(g) & files(g)))  # fmt: skip
theorem("eventual_read_sees_its_snapshot", "An eventual read has all that was flushed before its snapshot.",
    lambda t, p, x: (_exists(t) & acked(p, x) & (p < snapshot.start(t))) >> (
        (kept(p) == x) & ((cover(p) <= progress(t)) | snapshot.listed(t, cover(p)))
))  # fmt: skip
theorem("strong_read_sees_all", "A strong read that succeeds has seen all that was acknowledged when it began.",
    lambda r, p, x: (done(r) & before(r, p, x)) >> ite(
        p < region.start(r),
        (kept(p) == x) & ((cover(p) <= read_progress(r)) | took(r, cover(p))),
        tail(r, p) == x,
))  # fmt: skip

# ---- Why: the manifest and the WAL

because("counters", "Nothing is flushed before the first claim, nor collected before it is flushed.",
    lambda: (current >= 1) & ((epoch == 0) >> (current == 1)) & ((current == 1) >> (pointer == 0))
    & (first <= bottom) & (bottom <= start) & (~collects_wal >> (bottom == first)))  # fmt: skip
because("claims", "A writer's epoch was stored, and it knows of no more than has happened.",
    lambda w: (mine(w) >= 0) & (mine(w) <= epoch) & ((mine(w) > 0) >> (
        (first <= begins(w)) & (begins(w) <= at(w)) & (number(w) <= current))))  # fmt: skip
because("unclaimed", "Without a claim nothing is done.", lambda w: (mine(w) == 0) >> ~(opened(w) | flushing(w)))
because("sent_in_order", "A put is sent by a writer that has claimed, for a position up to the next one.",
    lambda w, p: sent(w, p) >> ((mine(w) > 0) & (first <= p) & (p <= at(w))))  # fmt: skip
because("entries", "An entry has the epoch of a claim.",
    lambda p: entry(p) >> ((written(p) >= 1) & (written(p) <= epoch)))  # fmt: skip
because("flushed_stands", "What was flushed and not collected stands, and the generation has its rows.",
    lambda p: ((bottom <= p) & (p < start)) >> (entry(p) & (kept(p) == written(p))))  # fmt: skip
because("passed", "A writer has gone past entries of its own epoch and older ones only.",
    lambda w, p: (_passed(w, p) & (bottom <= p)) >> (entry(p) & (written(p) <= mine(w))))  # fmt: skip
because("memory_is_stored", "What it holds is what stands there, as long as that was not collected.",
    lambda w, p: (_passed(w, p) & (begins(w) <= p) & (bottom <= p)) >> (holds(w, p) == written(p)))  # fmt: skip
because("owner_is_current", "The owner knows the current generation, or has not learned yet that its flush is listed.",
    lambda w: _owner(w) >> (
        ((begins(w) == start) & (number(w) == current))
        | (flushing(w) & (current == number(w) + 1) & (start == flush_to(w) + 1))
))  # fmt: skip
because("flushes", "A flush takes what its writer holds, from the first position that no generation covers.",
    lambda w: flushing(w) >> (
        (flush_from(w) == begins(w)) & (begins(w) <= flush_to(w)) & (flush_to(w) < at(w))))  # fmt: skip
because("flush_is_whole", "No process deletes the files of a generation that can still be listed.",
    lambda w: (flushing(w) & (number(w) == current)) >> whole(w))  # fmt: skip
because("barriers", "An open writer's barrier stands, if it was not collected.",
    lambda w: (opened(w) & (mine(w) > 1)) >> (
        (first <= barrier(w)) & (barrier(w) < at(w))
        & ((bottom <= barrier(w)) >> (written(barrier(w)) == mine(w)))))  # fmt: skip
because("acknowledged", "What is acknowledged was put under the epoch of a claim.",
    lambda p, x: acked(p, x) >> ((first <= p) & (x <= epoch)))  # fmt: skip
because("acknowledged_by_its_writer", "A writer has gone past what it acknowledged.",
    lambda w, p: ((mine(w) > 0) & acked(p, mine(w))) >> (p < at(w)))  # fmt: skip

# ---- Why: generations

because("covers", "What was flushed belongs to a generation that was listed.",
    lambda p: _flushed(p) >> ((cover(p) < current) & (kept(p) >= 1)))  # fmt: skip
because("covers_in_order", "Later positions are in later generations: a key's newest row is in the newest.",
    lambda p, q: ((first <= p) & (p < q) & (q < start)) >> (cover(p) <= cover(q)))  # fmt: skip
because("listed_or_doomed", "A generation is listed from its flush until nothing needs it.",
    lambda g: ((listed(g) | doomed(g)) >> ((g >= 1) & (g < current)))
    & (((g >= 1) & (g < current)) >> (listed(g) | doomed(g))))  # fmt: skip

# ---- Why: the base table

because("versions", "The newest version is retained, and progress is below the current generation.",
    lambda t: retained(newest) & (retained(t) >> (t >= 1)) & (_exists(t) >> (progress(t) < current)))  # fmt: skip
because("progress_rises", "Since the last Restore progress has not gone back.",
    lambda t, u: ((restored <= t) & (t <= u) & (u <= newest)) >> (progress(t) <= progress(u)))  # fmt: skip
because("prepared", "A merger prepares what was listed.", lambda m: merging(m) < current)
because("loads", "A builder has loaded a version that there is.", lambda b: loaded(b) <= newest)
because("snapshots_are_cuts", "A snapshot and its version have every generation below the one that was current.",
    lambda t, g: (_exists(t) & (g >= 1) & (g < snapshot.current(t))) >> (
        (g <= progress(t)) | snapshot.listed(t, g)))  # fmt: skip
because("gathers", "What a builder has read of the region was so.",
    lambda b, g, p: (gathered.current(b) > 0) >> _was_so(gathered, b, g, p))  # fmt: skip
because("gathers_all", "All that is not merged is in it.",
    lambda b, g: ((loaded(b) >= restored) & (g >= 1) & (g < gathered.current(b))) >> (
        (g <= progress(newest)) | gathered.listed(b, g)))  # fmt: skip

# ---- Why: readers

because("before_is_acknowledged", "What a read has to see was acknowledged.",
    lambda r, p, x: before(r, p, x) >> acked(p, x))  # fmt: skip
because("read_in_the_past", "What a reader knows of the region was so.",
    lambda r, g, p: has_regions(r) >> (_was_so(region, r, g, p) & (region.start(r) <= next_entry(r))))  # fmt: skip
because("read_in_order", "It begins, reads the region, then the base, and succeeds when the tail is at its end.",
    lambda r: (done(r) >> (has_base(r) & ended(r))) & ((has_base(r) | (ended(r) & ~by_memory(r))) >> has_regions(r))
    & (by_memory(r) >> (ended(r) & (memory_epoch(r) <= epoch)))
    & ((has_regions(r) | by_memory(r)) >> began(r)))  # fmt: skip
because("read_boundary", "Positions of its tail belong to no generation below the one that was current then.",
    lambda r, p: (has_regions(r) & (region.start(r) <= p) & (p < start)) >> (
        region.current(r) <= cover(p)))  # fmt: skip
because("read_whole_view", "Each generation that it needs was listed.",
    lambda r, g: (has_base(r) & (g > read_progress(r)) & (g < region.current(r))) >> region.listed(r, g))  # fmt: skip
because("read_tail", "What it has read of the tail stands there, as long as that was not collected.",
    lambda r, p: (
        has_regions(r) & ~by_memory(r) & (region.start(r) <= p) & (p < next_entry(r)) & (bottom <= p)
    ) >> (entry(p) & (tail(r, p) == written(p))))  # fmt: skip
because("read_tail_is_whole", "If the tail has not moved when its end is reached, all of it was read.",
    lambda r, p, x: (
        has_regions(r) & ~by_memory(r) & ended(r) & (region.start(r) == start) & (p >= start) & before(r, p, x)
    ) >> (tail(r, p) == x))  # fmt: skip
because("read_memory_is_whole", "The memory of the owner has the whole tail.",
    lambda r, p, x: (
        by_memory(r) & ~has_regions(r) & (memory_epoch(r) == epoch) & (p >= start) & before(r, p, x)
    ) >> (tail(r, p) == x))  # fmt: skip
because("read_memory_was_whole", "What was taken from the owner's memory is the whole tail, whatever comes later.",
    lambda r, p, x: (
        by_memory(r) & has_regions(r) & (p >= region.start(r)) & before(r, p, x)) >> (tail(r, p) == x))  # fmt: skip

# ---- What no step does

never("epoch_never_falls", "The stored epoch never falls.", epoch <= after(epoch))
never("pointer_never_falls", "The replay pointer never falls.", pointer <= after(pointer))
never("generation_never_falls", "The current generation never falls.", current <= after(current))
never("hint_never_falls", "The last-seen hint never falls.", hint <= after(hint))
never("progress_never_falls", "Merge progress never falls, but by a Restore.",
    progress(newest) <= after(progress(newest)), but="restore")  # fmt: skip
never("snapshot_stays", "The region snapshot of a table version never changes.",
    forall(lambda t: _exists(t) >> (after(snapshot.current(t)) == snapshot.current(t))))  # fmt: skip
never("snapshot_never_falls", "A newer version has no older snapshot, but by a Restore.",
    snapshot.current(newest) <= after(snapshot.current(newest)), but="restore")  # fmt: skip
never("merged_once_and_in_order", "A merge raises the progress by one generation.",
    after(progress(newest)) == progress(newest) + 1, only="merge")  # fmt: skip
never("collected_is_covered", "A generation is collected only if every maintained index covers it.",
    forall(lambda i: variable("g") <= covered(newest, i)), only="doom")  # fmt: skip
