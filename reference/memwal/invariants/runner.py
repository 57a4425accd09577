"""Running every invariant over a table: read only, and to the end whatever is found.

Each damaged object becomes a finding, and looking goes on with the rest. A table that changed while it was looked at
is looked at again if something was found, since the two moments may not fit.
"""

from __future__ import annotations

from dataclasses import replace

from .. import paths
from ..effects import Commits, Io
from ..errors import NotFound
from ..region.rows import Rows
from ..revisions import REVISIONS, Revision
from ..table import versions as naming
from ..table.state import TableState
from ..violations import Violation, objection
from .base import Base, look_at_versions, newest_readable
from .contents import look_at_rows
from .finding import ABOUT, INVARIANTS, attempted
from .regions import load_regions, look_at_regions
from .report import FindingsLedger, Report
from .table import table_versions_open

FAST_VERSIONS = 100
"""Table versions, and manifest versions of each region, that a fast run reads: the newest ones."""
ATTEMPTS = 3
"""How often a table that keeps changing is looked at."""

Moment = tuple[object, ...]


async def verify(table: Io, *, revision: Revision | None = None, fast: bool = False) -> Report:
    """All invariants over the table at ``table``; nothing is written, and no finding ends the run.

    ``revision``: read the regions under this one, whatever the table says. ``fast``: leave out rows, and all but the
    newest `FAST_VERSIONS` versions and manifests. Raises `NotFound` if there is no trace of a table, and the store's
    own outcomes.

    Memory: names and a small record per object, one object's content, one generation's rows, and hashes of
    `keys.KEYS_PER_PASS` keys.
    """
    table = replace(table, commits=Commits.PUT, location="")
    for _ in range(ATTEMPTS):
        before = await _moment(table)
        report = await _look(table, revision, fast)
        if report.clean or await _moment(table) == before:
            return report
        await table.note("verifying", again="the table changed")
    return replace(report, moved=True)


async def _moment(table: Io) -> Moment:
    """What changes when the table or a region does, WAL puts excepted."""
    regions = []
    for folder in await table.list_folders(paths.MEM_WAL):
        names = await table.list(f"{paths.MEM_WAL}/{folder}/manifest")
        regions.append((folder, max((v for n in names if (v := paths.manifest_version(n)) is not None), default=0)))
    return (await naming.listing(table)).versions[-1:], tuple(regions)


async def _look(table: Io, wanted: Revision | None, fast: bool) -> Report:
    ledger = FindingsLedger()
    recent = FAST_VERSIONS if fast else None
    folders = await table.list_folders(paths.MEM_WAL)
    listed = (await naming.listing(table)).versions
    if not listed and not folders:
        raise NotFound(table.path(paths.VERSIONS))
    if not listed:
        missing = objection(table.path(paths.VERSIONS), "regions exist, and no table version does", "FORMAT-004")
        ledger.add(table_versions_open([missing]))
    state = await newest_readable(table)
    revision = wanted or await _revision(table, state, ledger)
    rows = _rows(state, revision)
    regions = await load_regions(table, folders, revision, rows, ledger, recent)
    base = await look_at_versions(table, regions, ledger, rows=not fast, recent=recent)
    await look_at_regions(table, regions, base, rows, ledger, fast=fast)
    if not fast and base.newest is not None and rows is not None:
        await look_at_rows(table, regions, base, rows, ledger)
    return _report(table, ledger, revision, base, fast)


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


def _report(table: Io, ledger: FindingsLedger, revision: Revision | None, base: Base, fast: bool) -> Report:
    about = {name: ABOUT.index(one.about) for name, one in INVARIANTS.items()}
    ordered = sorted(
        (replace(one, path=_relative(table, one.path)) for one in ledger.findings),
        key=lambda v: (v.severity, about[v.oracle], v.path, v.oracle),
    )
    return Report(
        revision=revision.name if revision is not None else None,
        version=base.newest.version if base.newest is not None else None,
        mem_wal=base.details is not None,
        fast=fast,
        findings=tuple(ordered),
        suppressed=tuple(sorted(ledger.suppressed.items())),
        looked_at=tuple(ledger.looked_at.items()),
        notes=tuple(note.replace(f"{table.root}/", "") if table.root else note for note in ledger.all_notes()),
    )


def _relative(table: Io, path: str) -> str:
    prefix = f"{table.root}/" if table.root else ""
    return path.removeprefix(prefix)
