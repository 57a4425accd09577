"""Structural checks on WAL entries: their names, positions, epochs, generations, and the form that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import pairwise

from . import content, table
from .choice import Breach, Choice, Seen, breach
from .store import JudgedRegion, JudgedStore

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


def wal_of_claims(store: JudgedStore, written: Collection[tuple[str, int, str]]) -> Seen:
    """A row that was acknowledged under an epoch is in an entry of it; ``written``: region, epoch and row of each.

    A row that is in no entry at all is for other checks. Nothing is said where entries may have been collected: a late
    one may then stand at the first position alone.
    """
    if store.table.config.get(WAL_COLLECTION) == "on":
        return
    named = {name: _epochs(region) for name, region in store.regions.items()}
    for region_id, epoch, row in sorted(written):
        region = store.regions.get(region_id)
        if region is None or store.layout.first_position not in region.wal or not _dense(region.wal):
            continue  # entries of it are gone, or it is, which other checks are about
        found = named[region_id].get(row, [epoch])
        told = f"{region_id}: the row {row} was acknowledged under epoch {epoch}, and its entries name {found}"
        yield None if epoch in found else told


def stored_once(store: JudgedStore, written: Mapping[str, int]) -> str | Breach | None:
    """What is wrong where a row is in more entries than it was ``written``, or more than one.

    That two entries of one epoch have it is for the caller to judge. An entry of another epoch has what a recovery
    found and the next flush stored again: it stored more than the fragments that no flush had covered (WAL-024).
    """
    for region in store.regions.values():
        for row, epochs in _epochs(region).items():
            allowed = max(written.get(row, 0), 1)
            told = f"{region.region_id}: the row {row} is in {len(epochs)} WAL entries"
            if max(Counter(epochs).values()) > allowed:
                return told
            if len(epochs) > allowed:
                return breach(f"{told}, written again under epoch {epochs[allowed]}", "WAL-024")
    return None


def _epochs(region: JudgedRegion) -> dict[str, list[int]]:
    """Of each row the epochs of the entries that have it, by their positions."""
    found: dict[str, list[int]] = {}
    for _, entry in sorted(region.wal.items()):
        for row in {content.shown(row) for row in table.plain(entry.rows)} if entry.rows.num_rows else ():
            found.setdefault(row, []).append(entry.epoch)
    return found


def wal_generations(store: JudgedStore) -> Seen:
    """Generations along the WAL, where entries carry them, never decrease."""
    for region in store.regions.values():
        highest = 0
        for position, entry in region.wal.items():
            if entry.generation is not None:
                low = entry.generation < highest
                yield f"{region.region_id}: entry {position} goes back to {entry.generation}" if low else None
                highest = max(highest, entry.generation)
