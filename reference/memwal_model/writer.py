"""The steps of a writer: it claims the region, recovers, writes and flushes."""

from __future__ import annotations

from .form import Changes, action, everywhere, without
from .state import (
    acked,
    at,
    barrier,
    barrier_first,
    basis,
    basis_epoch,
    begins,
    claim_barrier,
    conditional_wal_put,
    confirmed,
    cover,
    current,
    dead,
    entry,
    epoch,
    files,
    first,
    flush_from,
    flush_in_order,
    flush_to,
    flushing,
    hint,
    holds,
    kept,
    kept_from,
    listed,
    live,
    mine,
    number,
    opened,
    pointer,
    read,
    replay_from_pointer,
    reverify_each_attempt,
    sent,
    start,
    stored,
    version,
    whole,
    written,
)
from .terms import FALSE, TRUE, Term, ite

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
def create_region() -> Changes:
    """The region is created under epoch 0, which belongs to no writer: its first claim makes the version after that."""
    return (epoch == 0) & (version == 0), (version, version + 1)


@action
def claim(w: Term) -> Changes:
    """It creates the version after the one that it has read, under the next epoch: the region is its own."""
    free = ~dead(w) & (mine(w) == 0) & read(w) & (basis(w) == version)
    return free, (epoch, epoch + 1), (version, version + 1), *_owns(w, epoch + 1)


@action
def claim_of_nobody() -> Changes:
    """A claim is carried out whose sender has crashed or gets no answer: no writer owns it."""
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
    return entry(p), (entry(p), FALSE), (written(p), 0)


@action
def meet_taken(w: Term) -> Changes:
    """Another process's entry stands at the next position: the writer was fenced."""
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


@without("stored_epoch_is_kept")
def raise_hint_on_old_manifest(w: Term, p: Term) -> Changes:
    """It writes the epoch of the manifest that it read first, not the stored one."""
    return read(w) & entry(p) & (hint < p), (hint, p), (version, version + 1), (epoch, basis_epoch(w))
