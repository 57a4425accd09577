"""The few repairs that lose nothing readable: of a wrong version hint, and of WAL entries that cannot be read.

An entry that is whole, and holds values that their types do not have (a text that is not UTF-8), was acknowledged by a
writer that did not look. Its bytes are copied into the region's folder ``quarantine``, and its position keeps its other
rows, under the same epoch. What lies before and behind it stays, and can be read again.

An unreadable entry at the end of a WAL is another matter.

An unreadable entry is the end of a put on a store that does not create atomically, or damage. Its bytes are copied into
the region's folder ``quarantine`` and its position gets a data-less entry, so that recovery can continue. Before that
the region is claimed and a barrier is put behind the entry: from then on no earlier writer gets a put acknowledged, and
nothing that one got acknowledged lies behind it. What no tool can know, and the operator has to: that no process is
still writing the entry, and that its write was not acknowledged; if it was, its rows have to be written again.

Everything else stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .. import confirm, paths
from ..clauses import implements
from ..codec import hint, wal
from ..codec.region_manifest import RegionManifest
from ..codec.wal import WalEntry
from ..effects import Io
from ..errors import AlreadyExists, ArtifactError, Fenced, InvalidArgument, NotFound
from ..ids import Epoch, RegionId, WalPosition, region_id
from ..index.opening import region_of
from ..index.snapshot import RegionRow
from ..region import manifest as manifests
from ..region import wal_folder
from ..region.claim import claim, verify_epoch
from ..region.recovery import read_entry, replay_start
from ..region.region import Region
from ..revisions import CONFIG_REVISION
from ..table.state import TableState, latest

QUARANTINE = "quarantine"
"""Folder of a region for the bytes of entries that were moved aside."""
UNREADABLE = "AMB-15"
"""Clause by which an entry that is no whole file or stream is refused."""

Kind = Literal["hint", "entry", "left", "unfinished", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairStep:
    """What was done about one thing, or would be in a dry run, or why nothing was."""

    kind: Kind
    """``hint``: pointed at the newest version; ``entry``: moved aside; ``left``: harmless, stays; ``unfinished``: the
    operator has to finish it; ``refused``: no repair that loses nothing is known."""
    path: str
    reason: str

    @property
    def changes(self) -> bool:
        """Whether the step writes."""
        return self.kind in ("hint", "entry")


@implements("AMB-15", "AMB-31", "AMB-143")
async def repair(io: Io, *, dry_run: bool = False) -> tuple[RepairStep, ...]:
    """Repair what can be repaired without losing anything; returns what was done, or would be.

    Raises `NotFound` without a table, `ArtifactError` if its newest version cannot be read, and the store's outcomes.
    """
    state = await latest(io)
    if state.mem_wal_entry is None:
        return _without_mem_wal(state)
    steps: list[RepairStep] = []
    for folder in await io.list_folders(paths.MEM_WAL):
        try:
            region = region_id(folder)
        except ValueError:
            steps.append(RepairStep(kind="left", path=io.path(f"{paths.MEM_WAL}/{folder}"), reason="not a region"))
            continue  # what it is cannot be known, so that nothing in it is touched
        await io.note("repairing", region=region)
        steps += await _repair_region(io, region, state, dry_run)
    return tuple(steps)


def _without_mem_wal(state: TableState) -> tuple[RepairStep, ...]:
    if CONFIG_REVISION not in state.config:
        return ()
    reason = (
        f"revision {state.config[CONFIG_REVISION]} is recorded, and there is no MemWAL index: call memwal.enable with "
        "this revision and the region spec that was meant, which is recorded nowhere"
    )
    return (RepairStep(kind="unfinished", path=state.path, reason=reason),)


async def _repair_region(table: Io, region: RegionId, state: TableState, dry_run: bool) -> list[RepairStep]:
    io = manifests.folder(table, region)
    listed = await manifests.versions(io)
    path = io.path("manifest")
    if not listed:
        folders = await io.list_folders()
        if "wal" in folders or any(paths.generation_number(name) is not None for name in folders):
            return [
                RepairStep(
                    kind="refused", path=path, reason="the region has data and no manifest: restore its manifests"
                )
            ]
        return [
            RepairStep(
                kind="left", path=path, reason="the region was never claimed; its next writer makes its manifest"
            )
        ]
    if listed[-1] - listed[0] >= len(listed):
        reason = "manifest versions are missing between others: restore them; which state is the newest is not certain"
        return [RepairStep(kind="refused", path=path, reason=reason)]
    try:
        newest = await manifests.read(io, listed[-1], state.revision)
    except ArtifactError as error:
        reason = f"the newest manifest cannot be read, restore it: {error.reason}"
        return [RepairStep(kind="refused", path=error.path, reason=reason)]
    row = RegionRow(region_id=region, spec_id=newest.spec_id, values=(), manifest=newest)
    return [
        *await _repair_hint(io, newest, dry_run),
        *await _repair_values(region_of(table, state, row), newest, dry_run),
        *await _repair_tail(region_of(table, state, row), newest, dry_run),
    ]


async def _repair_hint(io: Io, newest: RegionManifest, dry_run: bool) -> list[RepairStep]:
    """Point a hint that cannot be read, or names no version, at the newest one. No hint, or an older one, is right."""
    name = paths.VERSION_HINT
    try:
        data = await io.get(name)
    except NotFound:
        return []
    named = hint.decode(data, io.path(name))
    if named is not None and named in await manifests.versions(io):
        return []
    if not dry_run:
        await confirm.create_unconditionally(io, name, hint.encode(newest.version))
    before = f"version {named}, which is not there" if named is not None else "nothing that can be read"
    return [
        RepairStep(kind="hint", path=io.path(name), reason=f"named {before}; the newest version is {newest.version}")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Salvaged:
    """An entry that is whole, and holds values that their types do not have."""

    position: WalPosition
    data: bytes
    entry: WalEntry
    """Its rows without such values."""
    others: int
    """How many other rows it has."""


async def _salvaged(region: Region, position: WalPosition) -> _Salvaged | None:
    """The entry that cannot be read as far as it can be; None if nothing is known of it."""
    name = _name(region, position)
    data = await region.io.get(name)
    try:
        entry, others = wal.salvage(data, region.revision, region.io.path(name))
    except ArtifactError:
        return None
    return _Salvaged(position=position, data=data, entry=entry, others=others)


async def _unreadable(region: Region, manifest: RegionManifest) -> tuple[list[_Salvaged], WalPosition | None]:
    """Entries with such values, and the position behind the last entry; None: entries are missing."""
    start = replay_start(manifest, region.revision)
    listed = [p for p in wal_folder.positions(await region.io.list("wal"), region.revision) if p >= start]
    found = []
    for position in listed:
        try:
            await read_entry(region.io, position, region.revision, region.rows.schema)
        except ArtifactError as error:
            salvaged = await _salvaged(region, position) if error.clause == UNREADABLE else None
            if salvaged is not None:
                found.append(salvaged)
    whole = listed == list(range(start, start + len(listed)))
    return found, WalPosition(start + len(listed)) if whole else None


async def _repair_values(region: Region, newest: RegionManifest, dry_run: bool) -> list[RepairStep]:
    """Set entries aside that hold values that their types do not have, and leave their other rows where they are.

    Writers of before there was a check of values were acknowledged for such entries, and for what lies behind them.
    """
    found, following = await _unreadable(region, newest)
    if not found:
        return []
    path = region.io.path(_name(region, found[0].position))
    if following is None:
        return [
            RepairStep(kind="refused", path=path, reason="entries are missing beside an unreadable one: restore them")
        ]
    if dry_run:
        return [
            RepairStep(
                kind="entry", path=region.io.path(_name(region, each.position)), reason=_said(each, "would stay")
            )
            for each in found
        ]
    try:
        return await _set_aside(region)
    except InvalidArgument as sealed:
        return [RepairStep(kind="refused", path=path, reason=str(sealed))]
    except Fenced as fenced:
        return [RepairStep(kind="refused", path=path, reason=f"another process claimed the region meanwhile: {fenced}")]


def _said(each: _Salvaged, stay: str) -> str:
    rows, kept = each.entry.rows.num_rows + each.others, each.entry.rows.num_rows
    return (
        f"entry {each.position} has values in {each.others} of its {rows} rows that their types do not have; the other "
        f"{kept} {stay} at its position"
    )


@implements("AMB-15", "AMB-24")
async def _set_aside(region: Region) -> list[RepairStep]:
    """Claim, put a barrier behind the last entry, and replace each such entry by its readable rows, its bytes kept.

    An entry keeps its epoch, its generation and its position. Cut short anywhere, it can be run again.
    """
    manifest = await claim(region)
    found, following = await _unreadable(region, manifest)
    barrier = _barrier(region, manifest)
    if following is None:
        raise InvalidArgument("entries are missing beside an unreadable one: restore them", clause="WAL-007")
    try:
        await confirm.create(region.io, _name(region, following), wal.encode(barrier, region.revision))
    except AlreadyExists:
        reason = f"entry {following} appeared meanwhile: a writer is still at work"
        raise InvalidArgument(reason, clause="AMB-24") from None
    await verify_epoch(region, manifest)
    steps = []
    for each in found:
        kept = await _quarantined(region, manifest, each.position, each.data)
        left = each.entry if each.entry.rows.num_rows else replace(barrier, epoch=each.entry.epoch)
        data = wal.encode(left, region.revision)
        await confirm.create_unconditionally(region.io, _name(region, each.position), data)
        reason = f"{_said(each, 'stay')}, and all {len(each.data)} bytes are in {region.io.path(kept)}"
        steps.append(RepairStep(kind="entry", path=region.io.path(_name(region, each.position)), reason=reason))
    return steps


def _barrier(region: Region, manifest: RegionManifest) -> WalEntry:
    return WalEntry(
        epoch=manifest.epoch,
        generation=manifest.generation_current,
        rows=region.rows.schema.empty_table(),
        barrier=True,
    )


async def _quarantined(region: Region, manifest: RegionManifest, position: WalPosition, data: bytes) -> str:
    """Keep the bytes of an entry elsewhere in the region; returns where."""
    kept = f"{QUARANTINE}/{manifest.epoch}-{_name(region, position).rpartition('/')[2]}"
    await confirm.create(region.io, kept, data)
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tail:
    """The unflushed part of a WAL that ends with an entry that cannot be read."""

    position: WalPosition
    """Of the unreadable entry."""
    data: bytes
    barriers: tuple[WalEntry, ...]
    """Data-less entries behind it, left by a repair that was cut short."""

    @property
    def following(self) -> WalPosition:
        """The first free position."""
        return WalPosition(self.position + 1 + len(self.barriers))


async def _repair_tail(region: Region, newest: RegionManifest, dry_run: bool) -> list[RepairStep]:
    found = await _tail(region, newest)
    if isinstance(found, RepairStep):
        return [found]
    if found is None:
        return []
    path = region.io.path(_name(region, found.position))
    if dry_run:
        return [
            RepairStep(
                kind="entry", path=path, reason=f"entry {found.position} cannot be read, and would be moved aside"
            )
        ]
    try:
        return [await _move_aside(region, found)]
    except InvalidArgument as sealed:
        return [RepairStep(kind="refused", path=path, reason=str(sealed))]
    except Fenced as fenced:
        return [RepairStep(kind="refused", path=path, reason=f"another process claimed the region meanwhile: {fenced}")]


def _name(region: Region, position: WalPosition) -> str:
    return paths.wal(position, region.revision.wal_suffix)


async def _tail(region: Region, manifest: RegionManifest) -> _Tail | RepairStep | None:
    """The tail if it can be repaired, why it cannot, or None if every entry can be read."""
    start = replay_start(manifest, region.revision)
    listed = [p for p in wal_folder.positions(await region.io.list("wal"), region.revision) if p >= start]
    broken: WalPosition | None = None
    barriers: list[WalEntry] = []
    for position in listed:
        try:
            entry = await read_entry(region.io, position, region.revision, region.rows.schema)
        except ArtifactError as error:
            salvaged = await _salvaged(region, position) if error.clause == UNREADABLE else None
            if error.clause != UNREADABLE or (broken is not None and salvaged is None):
                return RepairStep(
                    kind="refused", path=error.path, reason=f"not an unreadable last entry: {error.reason}"
                )
            if salvaged is None:
                broken = position
                continue  # what stands behind it decides whether it may go
            entry = salvaged.entry
        if broken is None:
            continue  # whole, and below what cannot be read: replay takes it as it is
        if entry.rows.num_rows:
            path = region.io.path(_name(region, broken))
            reason = f"entry {broken} cannot be read, and entry {position} behind it has rows: restore it from a backup"
            return RepairStep(kind="refused", path=path, reason=reason)
        barriers.append(entry)
    if broken is None:
        return None
    if listed != list(range(start, start + len(listed))):
        path = region.io.path("wal")
        return RepairStep(
            kind="refused", path=path, reason="entries are missing below the unreadable one: restore them"
        )
    data = await region.io.get(_name(region, broken))
    return _Tail(position=broken, data=data, barriers=tuple(barriers))


@implements("AMB-15", "AMB-24")
async def _move_aside(region: Region, seen: _Tail) -> RepairStep:
    """Claim, put a barrier behind the entry, keep its bytes elsewhere, and put a data-less entry in its place.

    Cut short anywhere, it can be run again.
    """
    path = region.io.path(_name(region, seen.position))
    manifest = await claim(region)
    found = await _tail(region, manifest)
    if not isinstance(found, _Tail) or (found.position, found.data) != (seen.position, seen.data):
        reason = f"entry {seen.position} or what is behind it changed while it was looked at: a writer is at work"
        return RepairStep(kind="refused", path=path, reason=reason)
    barrier = _barrier(region, manifest)
    try:
        await confirm.create(region.io, _name(region, found.following), wal.encode(barrier, region.revision))
    except AlreadyExists:
        reason = f"entry {found.following} appeared behind it: a writer is still at work"
        return RepairStep(kind="refused", path=path, reason=reason)
    await verify_epoch(region, manifest)
    kept = await _quarantined(region, manifest, found.position, found.data)
    # Epochs along the WAL never decrease, so that the filler takes that of the entry behind it.
    filler = replace(barrier, epoch=_epoch_behind(found, manifest))
    await confirm.create_unconditionally(region.io, _name(region, found.position), wal.encode(filler, region.revision))
    reason = f"entry {found.position} could not be read; its {len(found.data)} bytes are in {region.io.path(kept)}"
    return RepairStep(kind="entry", path=path, reason=reason)


def _epoch_behind(tail: _Tail, manifest: RegionManifest) -> Epoch:
    return tail.barriers[0].epoch if tail.barriers else manifest.epoch
