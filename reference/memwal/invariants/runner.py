"""Running every invariant over a table: read only, and to the end whatever is found.

Each damaged object becomes a finding, and the check continues with the rest. A table that changed while it was looked
at is looked at again if something was found, since the two moments may not fit.

The steps are `begin`, `look_at` for each region, and `finish`. A caller with several processes takes the regions side
by side, and gets the same report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from .. import paths
from ..effects import Commits, Io
from ..errors import NotFound
from ..ids import RegionId, SpecId
from ..index.transforms import RegionKey
from ..region.rows import Rows
from ..revisions import REVISIONS, Revision
from ..table import versions as naming
from ..table.state import TableState
from ..violations import Violation, objection
from .base import Base, known_of, look_at_versions, newest_readable
from .contents import look_at_keys, look_at_rows_of_region
from .finding import ABOUT, INVARIANTS, attempted
from .regions import look_at_all_regions, look_at_region, regions_of
from .registration import regions_have_distinct_values
from .report import FindingsLedger, Report
from .seen import RegionView
from .table import table_versions_open
from .view import view

FAST_VERSIONS = 100
"""Table versions, and manifest versions of each region, that a fast run reads: the newest ones."""
ATTEMPTS = 3
"""How often a table that keeps changing is looked at."""

Moment = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunReport:
    """What looking at a table begins with; the same for all of its regions."""

    moment: Moment
    """What the table looked like; see `unchanged`."""
    regions: tuple[RegionId, ...]
    """What `look_at` is called for, one by one or side by side; empty if the revision is not known."""
    revision: Revision | None
    base: Base
    """The newest version that can be read."""
    rows: Rows | None
    """How rows of the table look; None if no version can be read."""
    fast: bool
    ledger: FindingsLedger

    @property
    def recent(self) -> int | None:
        """How many of the newest versions and manifests are read; None: all."""
        return FAST_VERSIONS if self.fast else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionLooked:
    """What looking at one region ends with."""

    view: RegionView
    values: tuple[SpecId, RegionKey] | None
    """Its spec and region values, as its rows have them."""
    ledger: FindingsLedger


async def verify(table: Io, *, revision: Revision | None = None, fast: bool = False) -> Report:
    """All invariants over the table at ``table``; nothing is written, and no finding ends the run.

    ``revision``: read the regions under this one, whatever the table says. ``fast``: leave out rows, and all but the
    newest `FAST_VERSIONS` versions and manifests. Raises `NotFound` if there is no trace of a table, and the store's
    own outcomes.

    Memory: names and a small record per object, one object's content, one generation's rows, and hashes of
    `keys.KEYS_PER_PASS` keys.
    """
    for _ in range(ATTEMPTS):
        begun = await begin(table, revision=revision, fast=fast)
        report = await finish(table, begun, [await look_at(table, begun, region) for region in begun.regions])
        if report.clean or await unchanged(table, begun):
            return report
        await table.note("verifying", again="the table changed")
    return replace(report, moved=True)


async def begin(table: Io, *, revision: Revision | None, fast: bool) -> BegunReport:
    """Read what has to be known before a region is looked at. Raises as `verify` does."""
    table = _looked_through(table)
    moment = await _moment(table)
    ledger = FindingsLedger()
    folders = await table.list_folders(paths.MEM_WAL)
    listed = (await naming.listing(table)).versions
    if not listed and not folders:
        raise NotFound(table.path(paths.VERSIONS))
    if not listed:
        missing = objection(table.path(paths.VERSIONS), "regions exist, and no table version does", "FORMAT-004")
        ledger.add(table_versions_open([missing]))
    state = await newest_readable(table)
    known = revision or await _revision(table, state, ledger)
    regions = regions_of(table, folders, ledger)
    return BegunReport(
        moment=moment,
        regions=regions if known is not None else (),
        revision=known,
        base=await known_of(table, state),
        rows=_rows(state, known),
        fast=fast,
        ledger=ledger,
    )


async def look_at(table: Io, begun: BegunReport, region: RegionId) -> RegionLooked:
    """Look at one region, which needs none of the others."""
    table = _looked_through(table)
    assert begun.revision is not None, "regions are only looked at under a revision"
    await table.note("verifying", region=region)
    ledger = FindingsLedger()
    seen = await view(table, region, begun.revision, rows=begun.rows, recent=begun.recent)
    await look_at_region(seen, begun.base, begun.rows, ledger, fast=begun.fast)
    values = None
    if not begun.fast and begun.rows is not None:
        await table.note("verifying", rows_of=region)
        values = await look_at_rows_of_region(seen, begun.base, begun.rows, ledger)
    return RegionLooked(view=seen, values=values, ledger=ledger)


async def finish(
    table: Io, begun: BegunReport, looked: Sequence[RegionLooked], failed: Mapping[RegionId, str] = MappingProxyType({})
) -> Report:
    """Look at the base table and at the regions among each other; the report of all. ``looked``: in their order.

    ``failed``: regions that could not be looked at, and why. Of them nothing is found, and the report names them.
    """
    table = _looked_through(table)
    ledger = FindingsLedger()
    ledger.take(begun.ledger)
    for region in failed:
        ledger.note(f"region {region} beside the others: it could not be looked at")
    regions = {one.view.region_id: one.view for one in looked}
    await look_at_versions(table, regions, ledger, rows=not begun.fast, recent=begun.recent, unlooked=failed)
    for one in looked:
        ledger.take(one.ledger)
    look_at_all_regions(table, regions, begun.base, ledger, failed)
    values = {one.view.region_id: one.values for one in looked if one.values is not None}
    ledger.add(regions_have_distinct_values(values, table.path(paths.MEM_WAL)))
    if not begun.fast and begun.rows is not None:
        await look_at_keys(table, regions, begun.base, begun.rows, ledger)
    return _report(table, ledger, begun, tuple(failed.items()))


def without_base(
    table: Io, begun: BegunReport, looked: Sequence[RegionLooked], failed: Sequence[tuple[str, str]]
) -> Report:
    """The report of the regions alone, where `finish` failed. ``failed``: what could not be looked at, and why."""
    ledger = FindingsLedger()
    for each in (begun.ledger, *(one.ledger for one in looked)):
        ledger.take(each)
    ledger.note("the base table, and the regions among each other: that failed")
    return _report(table, ledger, begun, failed)


async def unchanged(table: Io, begun: BegunReport) -> bool:
    """Whether the table and its regions are what they were, WAL puts excepted."""
    return await _moment(_looked_through(table)) == begun.moment


def _looked_through(table: Io) -> Io:
    """``table`` as it lies in the store, whichever process decides about its commits."""
    return replace(table, commits=Commits.PUT, location="")


async def _moment(table: Io) -> Moment:
    regions = []
    for folder in await table.list_folders(paths.MEM_WAL):
        names = await table.list(f"{paths.MEM_WAL}/{folder}/manifest")
        regions.append((folder, tuple(v for n in names if (v := paths.manifest_version(n)) is not None)))
    # All of them, not the newest alone: a collector takes old ones between their listing and their reading.
    return (await naming.listing(table)).versions, tuple(regions)


async def _revision(table: Io, state: TableState | None, ledger: FindingsLedger) -> Revision | None:
    """The recorded revision, or what the WAL files of a table without a readable version show."""
    if state is not None:
        recorded = await attempted(_recorded(state), state.path)
        if not isinstance(recorded, Violation):
            return recorded
        ledger.add(table_versions_open([recorded]))
    names = [n for n in await table.list(paths.MEM_WAL) if "/wal/" in n]
    for revision in REVISIONS.values():
        suffix = revision.wal_suffix
        positions = {p for name in names if (p := paths.wal_position(name, suffix)) is not None}
        others = [r for r in REVISIONS.values() if r.wal_suffix == suffix and r is not revision]
        told_apart = all(other.first_position != revision.first_position for other in others)
        if positions and told_apart and (revision.first_position in positions) and (not others or 0 in positions):
            ledger.note(f"the revision is not recorded; regions were read as of revision {revision.name}")
            return revision
    if names:
        ledger.note("the revision is not known: regions were not read; name it with --revision")
    return None


async def _recorded(state: TableState) -> Revision:
    return state.revision


def _rows(state: TableState | None, revision: Revision | None) -> Rows | None:
    """How rows of the table look; None if no version can be read."""
    if state is None or revision is None:
        return None
    return Rows(table=state.schema, key=state.primary_key, revision=revision, field_ids=tuple(state.field_ids.items()))


def _report(table: Io, ledger: FindingsLedger, begun: BegunReport, failed: Sequence[tuple[str, str]]) -> Report:
    revision, base = begun.revision, begun.base
    about = {name: ABOUT.index(one.about) for name, one in INVARIANTS.items()}
    ordered = sorted(
        (replace(one, path=_relative(table, one.path)) for one in ledger.findings),
        key=lambda v: (v.severity, about[v.oracle], v.path, v.oracle),
    )
    return Report(
        revision=revision.name if revision is not None else None,
        version=base.newest.version if base.newest is not None else None,
        mem_wal=base.details is not None,
        fast=begun.fast,
        findings=tuple(ordered),
        suppressed=tuple(sorted(ledger.suppressed.items())),
        looked_at=tuple(ledger.looked_at.items()),
        notes=tuple(note.replace(f"{table.root}/", "") if table.root else note for note in ledger.all_notes()),
        unlooked=tuple(failed),
    )


def _relative(table: Io, path: str) -> str:
    prefix = f"{table.root}/" if table.root else ""
    return path.removeprefix(prefix)
