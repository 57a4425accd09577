"""The steps of mergers, builders and collectors: what goes into the base table, and what nothing needs any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .form import Changes, Update, action, everywhere
from .state import *
from .terms import FALSE, TRUE, Field, Sort, Term, forall, greatest, ite, variable

VERSIONED = (progress, base, covered, caught_up, *snapshot)
"""What each version of the base table has."""
_OVER = {Sort.KEY: "k", Sort.INDEX: "j", Sort.GENERATION: "h"}


def next_version(changed: Mapping[Field, Callable[..., Term]], like: Term = newest) -> Changes:
    """A commit to the base table: the next version is like ``like`` but for what is ``changed``."""
    new, updates = newest + 1, list[Update]()
    for field in VERSIONED:
        bound = tuple(variable(_OVER[sort]) for sort in field.over[1:])
        value = changed[field](*bound) if field in changed else field(like, *bound)
        updates.append(Update(field, (new, *bound), bound, value))
    return (newest, new), (retained(new), TRUE), *updates


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
        def row(p: Term) -> Term:
            return (first <= p) & (p < start) & (cover(p) == g) & (kept(p) > 0) & has(p, kept(p), k)

        found = greatest(lambda p: row(p) & (last_row_is_merged | forall(lambda q: row(q) >> (p <= q))))
        return ite(found >= 0, found, base(newest, k))

    return (
        (g > 0) & (follows | ~progress_in_conflict),
        *next_version({progress: lambda: g, base: of_key}),
        (merging(m), 0),
    )


@action
def load(b: Term) -> Changes:
    """A builder, of an index or of a region snapshot, loads the newest table version."""
    return TRUE, (loaded(b), newest), (gathered.current(b), 0)


@action
def gather(b: Term) -> Changes:
    """After that it reads the region manifest, for a snapshot."""
    return loaded(b) > 0, *seen(gathered, b)


@action
def commit_snapshot(b: Term) -> Changes:
    """Any commit that merges nothing: a region snapshot, never an older one; a compaction, rows of others."""
    fresh = (gathered.current(b) > 0) & (gathered.current(b) >= snapshot.current(newest))
    found = ite(rebase_index_fields, progress(newest), progress(loaded(b)))

    def newer(old: Field, new: Field) -> Callable[..., Term]:
        return lambda *g: ite(fresh, new(b, *g), old(newest, *g))

    changed = {old: newer(old, new) for old, new in zip(snapshot, gathered, strict=True)}
    return (loaded(b) > 0) & (loaded(b) >= restored), *next_version({progress: lambda: found, **changed})


@action
def catch_up(b: Term, i: Term) -> Changes:
    """An index is committed, and credited with the progress of the version that it was built from."""
    credit = progress(ite(credit_indexed_version, loaded(b), newest))

    def raised(field: Field, to: Term) -> Callable[[Term], Term]:
        return lambda j: ite((j == i) & (field(newest, j) < to), to, field(newest, j))

    changed = {covered: raised(covered, progress(loaded(b))), caught_up: raised(caught_up, credit)}
    return (loaded(b) > 0) & (loaded(b) >= restored), *next_version(changed)


@action
def restore(t: Term) -> Changes:
    """The newest version becomes like a retained one, progress and all."""
    free = (retained(t) | ~restore_of_retained) & (t >= 1) & (t < newest)
    return free, *next_version({}, like=t), (restored, newest + 1)


@action
def expire(t: Term) -> Changes:
    """A table version is no longer retained."""
    return retained(t) & (t < newest), (retained(t), FALSE)


# ---- What nothing needs is collected


@action
def doom(g: Term) -> Changes:
    """A collector finds a generation that every retained version has merged, and every maintained index covers."""
    said = forall(lambda i: (g <= caught_up(newest, i)) | (~absence_needs_coverage & (caught_up(newest, i) == 0)))
    merged = forall(lambda t: (retained(t) & (keep_for_retained | (t == newest))) >> (g <= progress(t)))
    return (g >= 1) & (g < current) & said & merged, (doomed(g), TRUE)


@action
def unlist(g: Term, h: Term) -> Changes:
    """It takes such generations, from g to h, out of the manifest, and touches no other field."""
    left = everywhere(lambda gg: (listed(gg), listed(gg) & ~(doomed(gg) & (g <= gg) & (gg <= h))))
    return doomed(g) & listed(g) & (g <= h), left, (version, version + 1)


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
    return lowest, (entry(p), FALSE), (written(p), 0), (bottom, p + 1)


@action
def delete_manifests(n: Term) -> Changes:
    """It deletes manifest versions below the newest one."""
    return (kept_from < n) & (n <= version), (kept_from, n)
