"""WAL entries whose rows are in generations that were collected.

**Why this is safe.** Nothing at or above the position where replay starts is ever looked at twice, and the replay
pointer never goes back. Below it an entry's rows are in a flushed generation; it goes only when that generation was
collected, which means merged, caught up, and not needed by a retained version. In revision A generations name WAL
files as their fragments, and each one that is still listed is asked for the files that it names (GC-006); in B and R
it records the positions that it covers, and a native generation of R, which does not, is known by the number that
its entries carry. Entries go in ascending order and only from the bottom, so that what is left is one block.

Taking an entry away frees its position, and a fenced writer that was delayed before its put would succeed there. So
this is done only where the table's config says that writers verify their epoch after each put (AMB-25): the position
was freed by a flush under a higher epoch, which the verification finds, and the write is not acknowledged.

Source: MemWAL revisions A and B, "Garbage Collector" and appendix 1.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ... import paths
from ...clauses import implements
from ...codec import wal as codec
from ...codec.region_manifest import FlushedGeneration, RegionManifest
from ...effects import Io
from ...errors import ArtifactError, EngineBug, NotFound
from ...ids import Generation, WalPosition
from ...region import wal_folder
from ...region.generation_config import CONFIG_FIRST
from ...region.recovery import replay_start
from ...revisions import CONFIG_WAL_COLLECTION, Revision
from ...table import read
from ...table.state import TableState, latest
from .decision import Eligibility, KeepRule
from .ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottom:
    """What is known about the flushed part of a region's WAL."""

    allowed: bool
    """Whether the table's config allows to delete entries."""
    replay_start: WalPosition
    """First entry that no flush covers."""
    lost: Generation | None = None
    """A flushed generation that is neither listed nor merged: its rows may be in the WAL only."""
    needed: WalPosition | None = None
    """First entry that a listed generation covers, or may cover; None if no generation is listed."""
    needed_because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalFile:
    """One WAL entry."""

    position: WalPosition
    bottom: Bottom


@implements("GC-007", "AMB-95")
def _not_flushed(entry: WalFile) -> str:
    start = entry.bottom.replay_start
    return f"not flushed: replay starts at {start}" if entry.position >= start else ""


@implements("FENCE-018", "AMB-25")
def _not_allowed(entry: WalFile) -> str:
    return "" if entry.bottom.allowed else f"config {CONFIG_WAL_COLLECTION} is not on: writers do not verify their puts"


@implements("GC-007")
def _lost(entry: WalFile) -> str:
    number = entry.bottom.lost
    return "" if number is None else f"generation {number} was flushed, and is neither listed nor merged"


@implements("GC-005", "GC-006", "GC-012", "AMB-95")
def _needed(entry: WalFile) -> str:
    needed = entry.bottom.needed
    return entry.bottom.needed_because if needed is not None and entry.position >= needed else ""


RULES: Eligibility[WalFile] = Eligibility(
    kind="wal",
    what="WAL entries",
    rules=(
        KeepRule(name="flushed", stays="from the position on where replay starts", clauses=("GC-007", "AMB-95"),
             reason=_not_flushed),
        KeepRule(name="consent", stays=f"unless the table config has {CONFIG_WAL_COLLECTION} = on",
             clauses=("FENCE-018", "AMB-25"), reason=_not_allowed),
        KeepRule(name="lost", stays="if some flushed generation of the region is neither listed nor merged",
             clauses=("GC-007", "AMB-41"), reason=_lost),
        KeepRule(name="generation", stays="from the first entry on that a listed generation names (A) or covers (B, R)",
             clauses=("GC-005", "GC-006", "GC-012", "AMB-95"), reason=_needed),
    ),
)  # fmt: skip


async def collect_wal(
    region: Io, manifest: RegionManifest, gone: Collection[str], newest: TableState, ledger: Ledger
) -> None:
    """Decide on every entry of the region at ``region``, and delete those that go, in ascending order.

    ``manifest``: read before; ``gone``: folders of the generations in it that are being collected.
    """
    revision = newest.revision
    positions = wal_folder.positions(await region.list("wal"), revision)
    if not positions:
        return
    bottom = await _bottom(region, positions, manifest, gone, newest)
    relative = paths.region(manifest.region_id)
    stays = ""
    for position in positions:
        name = paths.wal(position, revision.wal_suffix)
        why = f"below {bottom.needed}" if bottom.needed is not None else f"below {bottom.replay_start}"
        reason = f"{why}: its generation was collected"
        decision = RULES.decide(WalFile(position=position, bottom=bottom), f"{relative}/{name}", reason)
        # A hole would end replay for a reader that is still below it, and hide what is above.
        if decision.collected and stays:
            raise EngineBug(f"{name} is to be deleted, and {stays} below it stays")
        stays = stays or ("" if decision.collected else name)
        await ledger.carry_out(region, decision, (name,))


async def _bottom(
    region: Io,
    positions: Sequence[WalPosition],
    manifest: RegionManifest,
    gone: Collection[str],
    newest: TableState,
) -> Bottom:
    revision = newest.revision
    start = replay_start(manifest, revision)
    # Nothing goes, so that no generation is asked what it needs.
    if not newest.collects_wal or positions[0] >= start:
        return Bottom(allowed=newest.collects_wal, replay_start=start)
    remaining = sorted((g for g in manifest.flushed if g.path not in gone), key=lambda g: g.generation)
    needed, because = await _first_needed(region, positions, remaining, revision)
    return Bottom(
        allowed=True,
        replay_start=start,
        lost=next(manifest.unlisted(newest.mem_wal.progress(manifest.region_id)), None),
        needed=needed,
        needed_because=because,
    )


@implements("GC-005", "GC-006", "AMB-95")
async def _first_needed(
    region: Io, positions: Sequence[WalPosition], remaining: Sequence[FlushedGeneration], revision: Revision
) -> tuple[WalPosition | None, str]:
    """Lowest position that one of the generations ``remaining`` names or covers, and why it is needed."""
    lowest: tuple[WalPosition | None, str] = (None, "")
    for listed in remaining:
        found, because = await _first_of(region, positions, listed, revision)
        if lowest[0] is None or found < lowest[0]:
            lowest = found, because
    return lowest


async def _first_of(
    region: Io, positions: Sequence[WalPosition], listed: FlushedGeneration, revision: Revision
) -> tuple[WalPosition, str]:
    """The first position that a listed generation needs; the lowest there is where that cannot be told."""
    number, io = listed.generation, region.child(listed.path)
    try:
        state = await latest(io)
    except NotFound:
        return positions[0], f"generation {number} is listed, and cannot be asked what it covers"
    named = _named_entries(region, io, state, revision)
    if named:
        return min(named), f"generation {number} is listed and names entry {min(named)}"
    recorded = state.config.get(CONFIG_FIRST)
    if recorded is not None:
        if not recorded.isdecimal():
            raise ArtifactError("AMB-95", state.path, f"config {CONFIG_FIRST} is not a position: {recorded!r}")
        return WalPosition(int(recorded)), f"generation {number} is listed and covers entries from {recorded} on"
    if revision.entry_generation:
        first = await _first_entry_of(region, positions, number, revision)
        return first, f"generation {number} is listed, and entry {first} does not belong to one before it"
    return positions[0], f"generation {number} is listed and does not record which entries it covers"


@implements("GC-006")
def _named_entries(region: Io, io: Io, state: TableState, revision: Revision) -> set[WalPosition]:
    """Positions of the WAL files that a generation's fragments name through a base path (A)."""
    found = set()
    for fragment in state.fragments:
        for file in fragment.files:
            if file.HasField("base_id"):
                name = io.path(read.file_path(io, state, file))
                position = paths.wal_position(name, revision.wal_suffix)
                if position is not None and name.startswith(f"{region.path('wal')}/"):
                    found.add(position)
    return found


async def _first_entry_of(
    region: Io, positions: Sequence[WalPosition], generation: Generation, revision: Revision
) -> WalPosition:
    """The first entry that does not say that it belongs to a generation before ``generation`` (R).

    An entry may carry a later number than that of the generation it was flushed with, after a crash; never an earlier.
    """
    for position in positions:
        name = paths.wal(position, revision.wal_suffix)
        try:
            entry = codec.decode(await region.get(name), revision, region.path(name))
        except NotFound:
            continue  # another collector was faster
        if entry.generation is None or entry.generation >= generation:
            return position
    return WalPosition(positions[-1] + 1)
