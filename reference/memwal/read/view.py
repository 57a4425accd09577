"""One consistent choice of sources, and reading again when the table moved meanwhile.

Source: MemWAL revisions A and B, "Reader Consistency"; AMB-92, 100, 101, 103, 115.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, Outcome
from ..ids import Generation, RegionId
from ..index import regions, snapshot
from ..revisions import STRICT, Interpretation
from ..table.state import TableState, latest, load

T = TypeVar("T")

ATTEMPTS = 20
"""How often a read starts again because the table moved under it."""


class ReadRaced(Outcome):
    """The table kept changing while it was read, more often than `ATTEMPTS` times."""


class Raced(Exception):
    """A source that the view needs is gone: the view is older than the table."""

    def __init__(self, path: str, *, generation: bool) -> None:
        self.path, self.generation = path, generation


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One consistent choice of sources: a base version, and the region states that fit it."""

    base: TableState
    manifests: Mapping[RegionId, RegionManifest]
    live: bool
    """Whether the states are the regions' newest, so that what is in their WAL or memory belongs to the view."""


@implements("READ-008", "AMB-101", "AMB-103")
async def strong_view(io: Io, interpretation: Interpretation = STRICT) -> View:
    """Region manifests first, the newest base version after them; validated, and loaded again until it holds.

    For each region every generation between the base's progress and the current one has to be listed. A merge and a
    collection between the two loads would break that, and a row would be in neither source.
    """
    for _ in range(ATTEMPTS):
        base = await latest(io)
        live = await regions.discover(io, base.revision, interpretation)
        if interpretation.regions_before_base:
            base = await latest(io)
        details = base.mem_wal
        if not interpretation.regions_before_base or all(_complete(m, details.progress(r)) for r, m in live.items()):
            return View(base=base, manifests=live, live=True)
        await io.note("read_again", reason="a generation is neither listed nor merged in the base version")
    raise ReadRaced(path=io.root, attempts=ATTEMPTS)


def _complete(manifest: RegionManifest, progress: Generation) -> bool:
    listed = {g.generation for g in manifest.flushed}
    return all(g in listed for g in range(progress + 1, manifest.generation_current))


@implements("READ-009", "READ-010", "READ-013", "AMB-115")
async def eventual_view(io: Io, base: TableState) -> View:
    """Base and region snapshot of one table version; repeatable for old versions.

    Raises `NotFound` for a version that was expired meanwhile.
    """
    try:
        rows = await snapshot.load(io, base)
    except ArtifactError:
        await _check_retained(io, base)
        raise
    known = {row.region_id: row.manifest for row in rows if row.manifest is not None}
    return View(base=base, manifests=known, live=False)


async def over(
    io: Io, version: TableState | None, interpretation: Interpretation, body: Callable[[View], Awaitable[T]]
) -> T:
    """What ``body`` reads from one view: the newest for ``version`` None, else that version's own.

    A generation that is gone is looked for in a newer state. One that this state lists too is lost and not collected,
    since a collector takes it from the manifest first: that is an `ArtifactError`. Raises `NotFound` for a version that
    was expired while it was read.
    """
    gone: set[str] = set()
    for _ in range(ATTEMPTS):
        view = await (strong_view(io, interpretation) if version is None else eventual_view(io, version))
        try:
            return await body(view)
        except Raced as raced:
            if version is not None:
                await _check_retained(io, version)
                raise ArtifactError("READ-012", raced.path, "the version's snapshot lists it, and it is gone") from None
            if raced.path in gone:
                reason = "the region manifest lists it, it is not merged, and it is gone"
                raise ArtifactError("READ-012", raced.path, reason) from None
            if raced.generation:
                gone.add(raced.path)
            await io.note("read_again", reason=f"{raced.path} was collected")
        except ArtifactError as absent:
            if version is not None:
                await _check_retained(io, version)
                raise
            if (await latest(io)).version == view.base.version:
                raise
            await io.note("read_again", reason=f"version {view.base.version} was replaced: {absent}")
    raise ReadRaced(path=io.root, attempts=ATTEMPTS)


@implements("AMB-92")
async def _check_retained(io: Io, version: TableState) -> None:
    """Raise `NotFound` if ``version`` was expired while it was read: then what it names may be collected."""
    await load(io, version.version)
