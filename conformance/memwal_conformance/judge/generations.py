"""Structural checks on generations: how they are listed, whether they open, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from . import content, table
from .artifacts import Manifest
from .choice import Seen, breach
from .store import JudgedRegion, JudgedStore, generation_number, replay_start
from .wire import DamagedBytes

POINTER = {"A": "MANIFEST-008", "B": "MANIFEST-038", "R": "MANIFEST-008"}
"""What the replay pointer says: the newest entry that a flushed MemTable has."""


def steps(store: JudgedStore) -> Iterator[tuple[JudgedRegion, Manifest, Manifest]]:
    """Each manifest version and the one before it, region by region."""
    for region in store.regions.values():
        known = list(region.manifests.values())
        yield from ((region, before, after) for before, after in pairwise(known))


def where(region: JudgedRegion, after: Manifest) -> str:
    """The version, for a message."""
    return f"{region.region_id} manifest {after.version}"


def trigger(before: Manifest, after: Manifest) -> str | None:
    """Which trigger of revision A, "Region Manifest", turns ``before`` into ``after``; None if none does."""
    raised = after.last_seen >= before.last_seen
    claimed = after.epoch == before.epoch + 1
    pointer = after.replay_after - before.replay_after
    counted = after.current_generation - before.current_generation
    numbers, now = ({g.number for g in m.generations} for m in (before, after))
    if after.epoch not in (before.epoch, before.epoch + 1) or not raised or after.spec_id != before.spec_id:
        return None
    if claimed:
        return "claim" if pointer == 0 and counted == 0 and numbers == now else None
    if pointer >= 0 and counted == 1 and now == numbers | {before.current_generation}:
        return "flush"
    if pointer or counted:
        return None
    if now < numbers:
        return "collection"
    return "hint" if now == numbers and after.last_seen > before.last_seen else None


def generation_list(store: JudgedStore) -> Seen:
    """Each generation is listed once, under a folder name of its own number that exists."""
    for region in store.regions.values():
        newest = region.newest
        if newest is None:
            continue
        numbers = [g.number for g in newest.generations]
        for generation in newest.generations:
            name = f"{region.region_id}: generation {generation.number} at {generation.path!r}"
            if numbers.count(generation.number) > 1:
                yield breach(f"{name} is listed {numbers.count(generation.number)} times", "GEN-013")
            elif "/" in generation.path:
                yield breach(f"{name}: the path is not the name of a folder of the region", "MANIFEST-017")
            elif generation_number(generation.path) != generation.number:
                yield breach(
                    f"{name}: the folder name is not eight hexadecimal digits, _gen_ and the number", "GEN-004"
                )
            elif generation.path not in region.generations:
                yield breach(f"{name} does not exist", "FLUSH-013")
            else:
                yield None


def generation_tables(store: JudgedStore) -> Seen:
    """A listed generation is a Lance table with V2 manifest names that pylance opens."""
    for region in store.regions.values():
        for generation in region.newest.generations if region.newest is not None else ():
            folder = region.folder / generation.path
            if not folder.is_dir():
                continue
            clause = "GEN-008"
            try:
                table.versions(folder)
                clause = "GEN-001"
                table.newest(folder)
                table.rows(folder, store.storage)
            except DamagedBytes as error:
                yield breach(f"{region.region_id}/{generation.path}: {error}", clause)
                continue
            yield None


def generation_content(store: JudgedStore) -> Seen:
    """A generation holds the last row of each key of exactly the WAL entries that its flush covered."""
    for region, before, after in steps(store):
        if trigger(before, after) != "flush":
            continue
        (path,) = (g.path for g in after.generations if g.number == before.current_generation)
        if region.newest is None or path not in {g.path for g in region.newest.generations}:
            continue  # collected meanwhile
        first, last = replay_start(before, store.layout), after.replay_after
        if (
            not (region.folder / path).is_dir()
            or not store.key
            or any(p not in region.wal for p in range(first, last + 1))
        ):
            continue
        try:
            found = content.fold(content.generation_rows(store, region, path), store.key)
        except DamagedBytes as error:
            yield breach(f"{where(region, after)}: {error}", "GEN-001")
            continue
        expected = content.fold(content.wal_rows(region, first, last), store.key)
        told = f"{where(region, after)}: {path} is not the rows of {first} to {last}"
        yield None if found == expected else breach(told, *_blamed(store, region, found, (first, last)))


def _blamed(store: JudgedStore, region: JudgedRegion, found: content.State, covered: tuple[int, int]) -> Iterator[str]:
    """What a generation breaks that is not the rows of the entries that the pointer says it covers."""
    first, last = covered
    expected = content.fold(content.wal_rows(region, first, last), store.key)
    ends = range(last + 1, max(region.wal, default=last) + 1)
    longer = any(found == content.fold(content.wal_rows(region, first, end), store.key) for end in ends)
    if longer or last < first:
        yield POINTER[store.layout.revision]  # nothing at or below the pointer is lost: it is behind the generation
        return
    if all(key in found and found[key] == row for key, row in expected.items()):
        yield "WAL-001"  # rows that were in no entry
        return
    yield "MANIFEST-009"
    if all(key in expected and expected[key] == row for key, row in found.items()):
        yield "FLUSH-013"  # a part of the rows
