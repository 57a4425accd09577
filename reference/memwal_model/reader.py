"""The steps of a strong reader."""

from __future__ import annotations

from .form import Changes, action, everywhere
from .state import *
from .terms import TRUE, Term, forall, ite

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
        (ended(r), TRUE),
    )


@action
def read_regions(r: Term) -> Changes:
    """It reads the region manifest, and with it whether the memory that it has is the owner's."""
    owner = ~by_memory(r) | (memory_epoch(r) == epoch) | ~memory_of_the_owner
    return began(r) & ~has_regions(r) & owner, *seen(region, r), (next_entry(r), start)


@action
def read_base(r: Term) -> Changes:
    """It reads the newest table version: each generation has to be merged there, or listed."""
    whole_view = forall(lambda g: ((g > progress(newest)) & (g < region.current(r))) >> region.listed(r, g))
    ready = (has_regions(r) & whole_view) | ~regions_before_base
    return began(r) & ~has_base(r) & ready, (read_progress(r), progress(newest))


@action
def read_generation(r: Term, g: Term) -> Changes:
    """It reads a generation that the manifest listed."""
    return has_regions(r) & region.listed(r, g) & files(g), (took(r, g), TRUE)


@action
def read_entry(r: Term) -> Changes:
    """It reads the next WAL entry."""
    there = entry(next_entry(r)) & (written(next_entry(r)) <= region.epoch(r))
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
        needed = (read_progress(r) < g) & (g < region.current(r)) & region.listed(r, g)
        return needed >> (took(r, g) | (~skip_only_merged & ~files(g)))

    still = by_memory(r) | (region.start(r) == start)
    return has_regions(r) & has_base(r) & ended(r) & still & forall(taken), (done(r), TRUE)
