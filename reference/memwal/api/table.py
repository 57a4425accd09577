"""A table with MemWAL enabled, as its users see it: every method runs protocol coroutines to their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..arguments import checked_methods
from ..codec.index_details import RegionSpec
from ..errors import InvalidArgument
from ..ids import Generation, Milliseconds, RegionId, SpecId
from ..index import backlog as waiting
from ..index import drained, maintaining, regions
from ..index.backlog import RegionBacklog
from ..index.transforms import SpecRequest
from ..jobs import collector, index_builder, merger, spec_change
from ..jobs.defaults import COMMIT_EVERY, COMPACT_OVER, RETAIN_MANIFESTS
from ..region.limits import Limits
from ..table import compaction, coverage, state
from ..table import history as commits
from ..table.history import TableCommit
from ..table.state import TableState
from .base import BaseTable
from .place import parsed_region
from .regions import Regions
from .reports import CatchUpReport, GcReport, MergeReport, ReportRows, first
from .writer import Writer

if TYPE_CHECKING:
    from ..invariants import Report
    from .verifying import RepairReport


@checked_methods
class Table(Regions):
    """A Lance table with MemWAL enabled. Reads see the newest state unless the table was opened at a version."""

    def backlog(self) -> ReportRows[RegionBacklog]:
        """What each region holds that the base table does not have yet: rows in its WAL, and generations to merge.

        `drain` brings all of it into the base table. Reads each WAL entry that no generation covers.
        """
        self.refresh()
        return ReportRows(self._run(waiting.backlog(self._io, self._state)))

    def history(self, most: int = 20) -> ReportRows[TableCommit]:
        """The ``most`` newest versions of the base table that are retained, newest first."""
        if most < 1:
            raise InvalidArgument(f"most={most} must be a number of versions, at least 1")
        return ReportRows(self._run(commits.history(self._io, most)))

    def add_spec(
        self,
        spec: SpecRequest,
        *,
        drain: bool = False,
        beside_manual: bool = False,
    ) -> RegionSpec:
        """Make ``spec`` govern new writes, after fencing every region of older specs and verifying that it is drained.

        ``drain``: flush and merge these regions first. ``beside_manual``: allow it on a table with manual regions,
        which stay as they are. Raises `InvalidArgument`, `memwal.jobs.spec_change.NotDrained` or ``ChangeLost``.
        """
        self._check_not_pinned()
        self.refresh()
        if drain:
            ids = [each.spec_id for each in self.specs]
            for region in self._run(drained.undrained(self._io, self._state, ids)):
                self.drain(region)
        changing = spec_change.add_spec(self._io, spec, beside_manual=beside_manual)
        changed = self._run(changing)
        self._state = changed.state
        return changed.spec

    def remove_spec(self, spec_id: int) -> None:
        """Remove a spec that no region names and that does not govern new writes; its id is never used again."""
        self._check_not_pinned()
        self._state = self._run(spec_change.remove_spec(self._io, SpecId(spec_id)))

    def drain(self, region: str | None = None) -> MergeReport:
        """Flush what is in the region's WAL and merge all its generations; None: of all regions.

        Open writers of these regions are fenced; those that `upsert` opened are closed first.
        """
        self._check_not_pinned()
        self.close()
        self.refresh()
        undrained = list(self._run(drained.undrained(self._io, self._state))) if region is None else [region]
        for each in undrained:
            row, _ = self._registered(each)
            opened = self._opened(row, Limits(), governed=False)
            with Writer(self._place, opened, durable=True, indexed=True, background=False) as writer:
                writer.flush()
        return self.merge(undrained)

    def merge(
        self,
        region: str | Sequence[str] | None = None,
        *,
        until: int | None = None,
        commit_every: int = COMMIT_EVERY,
        compact_over: int = COMPACT_OVER,
        defer_index_remap: bool = False,
        replace_rows_of_others: bool = False,
    ) -> MergeReport:
        """Merge flushed generations into the base table: of one region, of several, or of all.

        ``until``: the last generation of ``region`` to merge; None merges all that are listed. ``commit_every``: most
        regions that share a commit, each with its next generation; 1 commits each generation by itself. Any number of
        processes may merge at once. A call opens each fragment of the base once for its keys, as long as these are not
        more than `memwal.table.upsert.KEYS_BYTES` together; where a btree is over a key column, few keys open only
        fragments that have them or that it does not cover. What was merged stays merged if a later generation raises:
        `Unmergeable` for one that does not fit the table as it is now, `ArtifactError` for a damaged one. The other
        regions are merged before it is raised, with a note of each further failure.

        ``compact_over``: if the base then has more than so many small fragments of about one size, they are rewritten
        as one (`memwal.table.compaction.compact_small`); 0: never. Indexes lose such fragments: catch up afterwards, or
        say ``defer_index_remap`` (`BaseTable.compact`).

        No key may be in two manual regions, since the order of merging would decide which row wins: a merge that would
        replace a row of another manual region is `Unmergeable` too, and names both. Delete the row of the base that is
        not wanted, or say ``replace_rows_of_others`` if the rows of ``region`` are the newer ones.
        """
        if until is not None and (not isinstance(region, str) or until < 1):
            raise InvalidArgument(f"until={until} must be the number of a generation, at least 1, and needs one region")
        names, last = [region] if isinstance(region, str) else region, None if until is None else Generation(until)
        if compact_over < 0:
            raise InvalidArgument(f"compact_over={compact_over} must be a number of fragments, or 0 for never")
        done: list[merger.Merged] = []
        failed = self._merged(names, last, commit_every, replace_rows_of_others, done)
        compacted = self._compacted(compact_over, defer_index_remap) if done else 0
        if failed:
            raise first(failed.values())
        return MergeReport.of(done, compacted)

    def _compacted(self, over: int, defer: bool = False) -> int:
        """Rewrite small fragments of the base if there are more than ``over`` of one size; returns how many went."""
        before = coverage.fragment_ids(self._state)
        if over:
            self._state = self._run(compaction.compact_small(self._io, self._state, over, defer_index_remap=defer))
        return len(before - coverage.fragment_ids(self._state))

    def _merged(
        self,
        names: Sequence[str] | None,
        until: Generation | None,
        commit_every: int,
        replace_rows_of_others: bool,
        done: list[merger.Merged],
    ) -> Mapping[RegionId, merger.Failure]:
        """As `merge`: the regions that could not be merged to their end. What is committed is added to ``done``."""
        self._check_not_pinned()
        if commit_every < 1:
            raise InvalidArgument(f"commit_every={commit_every} must be a number of regions, at least 1")
        apart = self._io.interpretation.manual_regions_apart and not replace_rows_of_others
        io = replace(self._io, interpretation=replace(self._io.interpretation, manual_regions_apart=apart))
        wanted, beside = self._to_merge(names)
        _, failed = self._run(merger.merge_regions(io, wanted, until, beside, commit_every=commit_every, done=done))
        self.refresh()
        return failed

    def _to_merge(self, names: Sequence[str] | None) -> tuple[list[RegionId], frozenset[RegionId]]:
        """The regions to merge, and those that are known to be manual because the table has no spec."""
        if names is None:
            found = self._run(regions.discover(self._io, self.revision))
            return sorted(found), frozenset(each for each, manifest in found.items() if not manifest.spec_id)
        listed = self._run(regions.folders(self._io)) if self.spec is None else ()
        return list(map(parsed_region, names)), frozenset(listed)

    def catch_up(self, index: str | None = None) -> CatchUpReport:
        """Extend indexes of the base table over everything merged, and record how far each has caught up.

        ``index``: that one only; None takes all indexes over columns, one after the other. Vector indexes keep the
        centroids and the codebook that they have. Raises `InvalidArgument` for an index that is not there.
        """
        self._check_not_pinned()
        self.refresh()
        known = coverage.index_names(self._state)
        missing = [name for name in self._state.mem_wal.maintained_indexes if name not in known]
        if index is None and missing:
            reason = f"maintained indexes {missing} are not on the base table; there are {list(known)}"
            raise InvalidArgument(reason, clause="AMB-48")
        wanted = known if index is None else (index,)
        done = tuple(self._run(index_builder.catch_up(self._io, name)) for name in wanted)
        self.refresh()
        return CatchUpReport(indexes=done)

    def maintain(self, names: Sequence[str]) -> None:
        """Make ``names`` the indexes of the base table that MemTables and generations carry too, and no others.

        Open writers pick it up with their next MemTable. In revision R the native writer (pylance 14) opens no table
        that maintains a bitmap index. Raises `InvalidArgument` for an index that is not there or that a MemTable cannot
        carry.
        """
        self._check_not_pinned()
        self._state = self._run(maintaining.maintain(self._io, names))

    def snapshot(self, *, inline_most: int | None = None, whole: bool = False) -> int:
        """Rebuild the region snapshot that eventual reads use; returns the number of regions in it.

        Manifests that have not changed since the last snapshot are not read again, unless ``whole``: that repairs a
        snapshot that another program wrote wrongly.
        ``inline_most``: most regions whose snapshot is kept inside the index; more go into a file (A, B). None: as
        the table says, 100 unless its config has ``memwal.inline_regions``.
        """
        self._check_not_pinned()
        self._state = self._run(regions.build_snapshot(self._io, inline_most=inline_most, whole=whole))
        return len(self._run(regions.known(self._io, self._state)))

    def gc(
        self,
        *,
        retain_versions: int | None = None,
        retain_age_ms: int | None = None,
        grace_ms: int = 0,
        retain_manifests: int = RETAIN_MANIFESTS,
        orphan_age_ms: int = 0,
        time_travel: collector.TimeTravel = "progress",
        dry_run: bool = False,
        sizes: bool = False,
    ) -> GcReport:
        """Collect what no retained table version needs: generations, their WAL entries, left-overs, unused files.

        ``retain_versions``, ``retain_age_ms``: table versions to keep, by number and by age; tagged ones stay too.
        Neither keeps all, and then little can be collected. ``grace_ms``: how long operations may be under way; choose
        it longer than any commit takes on a table that is in use. ``dry_run`` says what would be done and changes
        nothing; ``sizes`` adds the bytes of what goes, for one request per object. The others: see
        `memwal.jobs.collector.Policy`.
        """
        self._check_not_pinned()
        policy = collector.Policy(
            retain_versions=retain_versions,
            retain_age_ms=Milliseconds(retain_age_ms) if retain_age_ms is not None else None,
            grace_ms=Milliseconds(grace_ms),
            retain_manifests=retain_manifests,
            orphan_age_ms=Milliseconds(orphan_age_ms),
            time_travel=time_travel,
        )
        collecting = collector.collect(self._io, policy, dry_run=dry_run, sizes=sizes)
        return GcReport(decisions=self._run(collecting), dry_run=dry_run)

    def verify(self, *, fast: bool = False) -> Report:
        """Run every invariant over all retained versions and all regions; read only. See `memwal.verify`.

        Every file is read anew.
        """
        from .verifying import verify_place

        unremembered = replace(self._place, io=replace(self._place.io, remembers=False))
        return verify_place(unremembered, None, fast=fast)

    def repair(self, *, dry_run: bool = False) -> RepairReport:
        """Repair what can be repaired without losing anything. See `memwal.repair`."""
        from .verifying import repair_place

        self._check_not_pinned()
        return repair_place(self._place, dry_run=dry_run)

    def to_lance(self, **options: Any) -> Any:
        """The base table, at the version that this object knows, as a pylance dataset; it has no rows of regions.

        ``options``: further ones of ``lance.dataset``, such as ``storage_options``. Raises `InvalidArgument` for a
        table in a store that pylance cannot open.
        """
        where = self._io.location
        if not where:
            raise InvalidArgument("pylance cannot open a table in memory or in a store that was passed as an object")
        import lance  # takes a second to load, and few ask for it

        return lance.dataset(where, version=self.version, **options)

    @property
    def base(self) -> BaseTable:
        """The base table as such, at its newest version: for changes that pass the regions by."""
        self._check_not_pinned()
        return BaseTable(self._place, self._run(state.latest(self._io)), self._set_state)

    def _set_state(self, newer: TableState) -> None:
        self._state = newer
