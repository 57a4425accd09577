"""The steps of a writer: it claims the region, recovers, writes and flushes."""

from __future__ import annotations

from .form import Changes, action, everywhere
from .state import *
from .terms import FALSE, TRUE, Term, ite

# ---- A writer claims the region


@action
def read_manifest(w: Term) -> Changes:
    """A writer reads the newest manifest, to claim the region."""
    return ~dead(w) & (mine(w) == 0), (basis(w), version), (basis_epoch(w), epoch)


def owns(w: Term, claimed: Term) -> Changes:
    """A claim that creates the region begins at the first position, any other behind the replay pointer."""
    begin = ite(epoch == 0, first, start)
    after_hint = ite(epoch == 0, first, hint + 1)
    at_first = ite(replay_from_pointer, begin, after_hint)
    return (mine(w), claimed), (begins(w), begin), (number(w), current), (at(w), at_first)


@action
def create_region() -> Changes:
    """The region is created under epoch 0, which belongs to no writer: its first claim makes the version after that."""
    return (epoch == 0) & (version == 0), (version, version + 1)


@action
def claim(w: Term) -> Changes:
    """It creates the version after the one that it has read, under the next epoch: the region is its own."""
    free = claiming(w) & (basis(w) == version)
    return free, (epoch, epoch + 1), (version, version + 1), *owns(w, epoch + 1)


@action
def claim_of_nobody() -> Changes:
    """A claim is carried out whose sender has crashed or gets no answer: no writer owns it."""
    return TRUE, (epoch, epoch + 1), (version, version + 1)


@action
def crash(w: Term) -> Changes:
    """It ends: by a crash, or fenced, by a newer entry or a taken position. What it sent may still be done."""
    return ~dead(w), (dead(w), TRUE)


# ---- It recovers


@action
def replay(w: Term) -> Changes:
    """It takes an entry of its own epoch or an older one into memory."""
    valid = entry(at(w)) & (written(at(w)) <= mine(w))
    return live(w) & ~opened(w) & valid, (holds(w, at(w)), written(at(w))), (at(w), at(w) + 1)


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
