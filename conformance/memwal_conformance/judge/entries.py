"""Structural checks on WAL entries: their names, positions, epochs, generations, and the form that they have."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from .choice import Choice, Seen, breach
from .store import JudgedStore

WAL_COLLECTION = "memwal.wal_collection"
"""Config key of a table whose WAL entries may be collected: a stalled put may then fill one place below the pointer."""


_SUFFIX = {"A": "WAL-014", "B": "WAL-015", "R": "WAL-015"}


def wal_forms(store: JudgedStore) -> Seen:
    """Where the text leaves the form of a WAL entry open, it is the one that every reader takes."""
    for region in store.regions.values():
        for position, entry in region.wal.items():
            yield from (Choice(what=f"{region.region_id}: entry {position}: {f}", ambiguity=n) for f, n in entry.forms)
            yield None


def wal_names(store: JudgedStore) -> Seen:
    """WAL files are named by 64 binary digits, the lowest first, and the one suffix of the revision."""
    suffix = store.layout.container
    for region in store.regions.values():
        plain = [int(f"{position:064b}"[::-1], 2) for position in region.wal]
        if _dense(plain) and not _dense(region.wal):
            told = f"{region.region_id}: its {len(plain)} entries are numbered in binary with the highest digit first"
            yield breach(told, "WAL-013")
        for name in region.wal_names:
            stem, _, found = name.partition(".")
            digits = len(stem) == 64 and not set(stem) - {"0", "1"}
            clauses = [*([] if digits else ["WAL-013"]), *([] if found == suffix else [_SUFFIX[store.layout.revision]])]
            told = f"{region.region_id}/wal/{name} is not 64 binary digits and .{suffix}"
            yield breach(told, *clauses) if clauses else None


def _dense(numbers: Collection[int]) -> bool:
    return not numbers or max(numbers) - min(numbers) < len(numbers)


def wal_positions(store: JudgedStore) -> Seen:
    """Positions are contiguous from the first one; only collected entries below the replay pointer may be missing."""
    for region in store.regions.values():
        if not region.wal:
            continue
        positions = sorted(region.wal)
        start = region.first_unflushed(store.layout)
        collected = start if store.table.config.get(WAL_COLLECTION) == "on" else 0
        gaps = [a + 1 for a, b in pairwise(positions) if b != a + 1 and b > collected]
        yield f"{region.region_id}: no WAL entry at {gaps[0]}, but at {positions[-1]}" if gaps else None
        if positions[0] > max(start, store.layout.first_position):
            yield f"{region.region_id}: the WAL begins at {positions[0]}, replay at {start}"


def wal_epochs(store: JudgedStore) -> Seen:
    """Epochs along the WAL never decrease, and none is above the epoch that the manifest stores.

    Revision R has barriers of claims that were overtaken there. They have no rows, and so override nothing; each costs
    its owner one more put (AMB-27).
    """
    for region in store.regions.values():
        highest = 0
        for position, entry in region.wal.items():
            if entry.epoch < highest:
                told = f"{region.region_id}: entry {position} has epoch {entry.epoch} after an entry of epoch {highest}"
                empty = store.layout.overtaken_barriers and entry.rows.num_rows == 0
                barrier = Choice(what=f"{told}, and no rows", ambiguity="AMB-27")
                yield barrier if empty else breach(told, "FENCE-017")
            elif region.newest is None or entry.epoch > region.newest.epoch:
                stored = None if region.newest is None else region.newest.epoch
                told = f"{region.region_id}: entry {position} has epoch {entry.epoch}, the manifest {stored}"
                yield breach(told, "WAL-011")
            else:
                yield None
            highest = max(highest, entry.epoch)


def wal_of_claims(store: JudgedStore, written: Collection[tuple[str, int]]) -> Seen:
    """A region whose rows were acknowledged under an epoch has an entry of it; ``written``: region and epoch of each.

    Nothing is said where entries may have been collected: a late one may then stand at the first position alone.
    """
    if store.table.config.get(WAL_COLLECTION) == "on":
        return
    for region_id, epoch in sorted(written):
        region = store.regions.get(region_id)
        if region is None or store.layout.first_position not in region.wal or not _dense(region.wal):
            continue  # entries of it are gone, or it is, which other checks are about
        named = sorted({entry.epoch for entry in region.wal.values() if entry.rows.num_rows})
        told = f"{region_id}: rows were acknowledged under epoch {epoch}, and its entries with rows name {named}"
        yield None if epoch in named else told


def wal_generations(store: JudgedStore) -> Seen:
    """Generations along the WAL, where entries carry them, never decrease."""
    for region in store.regions.values():
        highest = 0
        for position, entry in region.wal.items():
            if entry.generation is not None:
                low = entry.generation < highest
                yield f"{region.region_id}: entry {position} goes back to {entry.generation}" if low else None
                highest = max(highest, entry.generation)
