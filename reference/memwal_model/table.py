"""The steps of mergers, builders and collectors: what goes into the base table, and what nothing needs any more."""

from __future__ import annotations

from collections.abc import Callable

from .form import Changes, action, everywhere
from .state import (
    absence_needs_coverage,
    base,
    bottom,
    caught_up,
    collects_wal,
    contiguous_merge,
    cover,
    covered,
    credit_indexed_version,
    current,
    doomed,
    entry,
    files,
    first,
    flushing,
    has,
    kept,
    kept_from,
    listed,
    loaded,
    merging,
    newest,
    number,
    orphans_by_generation,
    progress,
    progress_in_conflict,
    rebase_index_fields,
    restored,
    retained,
    start,
    version,
    whole,
    written,
)
from .terms import FALSE, TRUE, Field, Term, forall, greatest, ite


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
