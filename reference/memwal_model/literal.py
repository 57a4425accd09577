"""Steps of a literal reading of the texts, or of a store that keeps less than is assumed: none is of the machine.

Each can happen only without the assumption that it names, and `histories` tells what it breaks.
"""

from __future__ import annotations

from .form import Changes, without
from .state import *
from .terms import FALSE, TRUE, Term
from .writer import owns


@without("own_claim_needs_confirmation")
def claim_recognised(w: Term) -> Changes:
    """A claim got no answer, and the next version is what was wanted: literally that means success."""
    alike = (version == basis(w) + 1) & (epoch == basis_epoch(w) + 1)
    return claiming(w) & alike, *owns(w, epoch)


@without("guard_collected_versions")
def claim_of_a_freed_number(w: Term) -> Changes:
    """The version after the one that was read was collected, and is created anew: literally that means success."""
    free = claiming(w) & (basis(w) + 1 < kept_from)
    return free, *owns(w, basis_epoch(w) + 1)


@without("list_when_hint_fails")
def claim_as_new(w: Term) -> Changes:
    """The hint fails and the first version was collected: literally there is no region yet, and it is created."""
    new = (mine(w), 1), (begins(w), first), (number(w), 1), (at(w), first)
    return claiming(w) & (kept_from > 1), *new


@without("atomic_create")
def claim_over_another(w: Term) -> Changes:
    """A claim replaces a version that another has created meanwhile."""
    claimed = basis_epoch(w) + 1
    return claiming(w) & (basis(w) < version), *owns(w, claimed), (epoch, claimed)


@without("stop_on_newer_epoch")
def replay_skips_newer(w: Term) -> Changes:
    """An entry of a newer epoch is left out, literally."""
    return live(w) & ~opened(w) & entry(at(w)) & (written(at(w)) > mine(w)), (at(w), at(w) + 1)


@without("lists_all")
def acknowledge_unlisted(w: Term) -> Changes:
    """The listing by which the writer verifies its epoch leaves out the newest manifest."""
    return live(w) & opened(w) & stored(w), (acked(at(w), mine(w)), TRUE), (at(w), at(w) + 1)


@without("nothing_lost")
def lose_entry(p: Term) -> Changes:
    """The store loses an entry that it has acknowledged."""
    return entry(p), (entry(p), FALSE), (written(p), 0)


@without("stop_on_taken_position")
def skip_taken(w: Term) -> Changes:
    """Literally the writer tries the position behind it."""
    return live(w) & opened(w) & entry(at(w)) & (written(at(w)) != mine(w)), (at(w), at(w) + 1)


@without("resolve_unknown_put")
def skip_unknown(w: Term) -> Changes:
    """A put got no answer, and the next one goes to the position behind it, literally."""
    return live(w) & opened(w) & sent(w, at(w)), (at(w), at(w) + 1)


@without("stored_epoch_is_kept")
def raise_hint_on_old_manifest(w: Term, p: Term) -> Changes:
    """It writes the epoch of the manifest that it read first, not the stored one."""
    return (basis(w) >= 0) & entry(p) & (hint < p), (hint, p), (version, version + 1), (epoch, basis_epoch(w))


@without("snapshot_uuid_per_build")
def overwrite_snapshot(b: Term) -> Changes:
    """A build writes to the file that the newest version refers to."""
    return gathered.current(b) > 0, (snapshot.current(newest), gathered.current(b))
