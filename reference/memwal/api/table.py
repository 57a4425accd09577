"""A table with MemWAL enabled, as its users see it: every method runs protocol coroutines to their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakSet

import pyarrow as pa

from ..codec.index_details import RegionSpec
from ..codec.marks import Mark
from ..errors import InvalidArgument
from ..ids import FieldId, Generation, Milliseconds, RegionId, SpecId, region_id
from ..index import drained, maintaining, regions, transforms
from ..index.opening import region_of
from ..index.snapshot import RegionRow
from ..index.transforms import SpecRequest
from ..invariants import Report
from ..jobs import collector, index_builder, marks, opening, spec_change
from ..jobs.merger import COMMIT_EVERY, Failure, Merged, merge_regions
from ..read import filters
from ..region import writer as writing
from ..region.limits import Limits
from ..region.sequences import LateRows, SequenceBy
from ..revisions import Revision
from ..table import coverage, write
from ..table.state import TableState
from .place import Place
from .queries import Queries
from .reports import CatchUpReport, GcReport, MergeReport, RegionInfo, first
from .verifying import RepairReport, repair_place, verify_place
from .writer import Writer

T = TypeVar("T")


class Table(Queries):
    """A Lance table with MemWAL enabled. Reads see the newest state unless the table was opened at a version."""

    def __init__(self, place: Place, current: TableState, *, pinned: bool = False) -> None:
        super().__init__(place, current, pinned=pinned)
        self._manual_writers: WeakSet[Writer] = WeakSet()
        """Open writers of manual regions, each of which `Writer.put` asks for the keys that it holds."""

    @property
    def field_ids(self) -> dict[str, FieldId]:
        """Id of each column, which region specs name their sources by."""
        return dict(self._state.field_ids)

    @property
    def revision(self) -> Revision:
        return self._state.revision

    @property
    def spec(self) -> RegionSpec | None:
        """The region spec that governs new writes; None if regions are manual."""
        return regions.active_spec(self._state.mem_wal)

    def regions(self) -> tuple[RegionInfo, ...]:
        """All regions, registered or found by listing, sorted by id."""
        self.refresh()
        details = self._state.mem_wal
        registered = {row.region_id: row for row in self._run(regions.known(self._io, self._state))}
        live = self._run(regions.discover(self._io, self.revision))
        found = []
        for region in sorted({*registered, *live}):
            row, manifest = registered.get(region), live.get(region)
            spec_id = row.spec_id if row else manifest.spec_id if manifest else SpecId(0)
            values = dict(row.values) if row else {}
            merged = details.progress(region)
            found.append(RegionInfo(region_id=region, spec_id=spec_id, values=values, manifest=manifest, merged=merged))
        return tuple(found)

    def register_region(self, values: Mapping[str, object] | None = None, *, beside_spec: bool = False) -> RegionId:
        """Get or create the region of ``values`` (by field id); None creates a new manual region, whatever there is.

        A table with several manual regions needs somebody who decides which key is in which, always the same one.
        ``beside_spec``: allow a manual region in a table that has a region spec (AMB-56).
        """
        return self.register_regions([values], beside_spec=beside_spec)[0]

    def register_regions(
        self, values: Sequence[Mapping[str, object] | None], *, beside_spec: bool = False
    ) -> tuple[RegionId, ...]:
        """Get or create the region of each of ``values``, in one commit; see `register_region`."""
        self._check_not_pinned()
        registered = self._run(regions.register_all(self._io, values, beside_spec=beside_spec))
        self._state = registered.state
        return registered.region_ids

    @property
    def specs(self) -> tuple[RegionSpec, ...]:
        """All region specs that the table lists, by id; the last one governs new writes."""
        return tuple(sorted(self._state.mem_wal.specs, key=lambda spec: spec.spec_id))

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

    def drain(self, region: str) -> MergeReport:
        """Flush what is in the region's WAL and merge all its generations; an open writer of the region is fenced."""
        self._check_not_pinned()
        row, _ = self._registered(region)
        opened = self._opened(row, Limits(), governed=False)
        with Writer(self._place, opened, durable=True, indexed=True, background=False) as writer:
            writer.flush()
        return self.merge(region)

    def region_values(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Region value of each row under the active spec: one column per region field, in row order."""
        if self.spec is None:
            raise InvalidArgument("the table has no region spec: regions are manual", clause="REGION-012")
        names = {i: n for n, i in self._state.field_ids.items()}
        return transforms.evaluate(self.spec, write.arrow(rows), names, revision=self.revision)

    def writer(
        self,
        region: str | None = None,
        *,
        values: Mapping[str, object] | None = None,
        durable: bool = True,
        indexed: bool = True,
        limits: Limits | None = None,
        memtable_rows: int | None = None,
        wal_buffer_rows: int | None = None,
        background: bool = True,
        sequence_by: str | None = None,
        late_rows: LateRows = "drop",
    ) -> Writer:
        """Claim a region and open its writer; any earlier writer of the region is fenced.

        Name the region by id, or by ``values`` of the active spec (registered if new). Neither is for tables without a
        spec: every writer that names none claims their one manual region, which is made on first use. Where there are
        several (see `register_region`), one has to be named. ``durable``, ``indexed``: defaults of `Writer.put`,
        independent of each other. ``limits``: when buffered rows are stored, when the MemTable is flushed, and when
        puts wait; ``memtable_rows`` and ``wal_buffer_rows`` change one limit each. ``background``: flush in a thread
        while puts go on; without it every flush happens in the call that makes it due. ``sequence_by``: the column by
        which rows of a key are ordered, whoever wrote them and when (AMB-148); a row that is not higher than what the
        region has stored for its key is late, and ``late_rows`` says what becomes of it: ``drop``, ``keep`` or
        ``fail``.
        """
        self._check_not_pinned()
        chosen = limits or Limits()
        if memtable_rows is not None:
            chosen = replace(chosen, memtable_rows=memtable_rows)
        if wal_buffer_rows is not None:
            chosen = replace(chosen, wal_rows=wal_buffer_rows)
        if region is not None and values is not None:
            raise InvalidArgument("name a region by id or by values, not by both")
        if region is None:
            region = self._manual_region() if values is None else self.register_region(values)
        row, registered = self._registered(region)
        if row.spec_id:
            spec_change.check_governed(row, self._state)
        sequence = None if sequence_by is None else SequenceBy(column=sequence_by, late_rows=late_rows)
        opened = self._opened(row, chosen, registered=registered, sequence=sequence)
        if row.spec_id:
            return Writer(self._place, opened, durable=durable, indexed=indexed, background=background)
        others = self._manual_writers
        writer = Writer(self._place, opened, durable=durable, indexed=indexed, background=background, others=others)
        others.add(writer)
        return writer

    def done(self, region: str) -> tuple[Mark, ...]:
        """Of each application the newest batch with finished tasks in ``region``, without a claim (AMB-149).

        What a live writer of the region finishes meanwhile may be missed: who has claimed it asks `Writer.done`.
        """
        row, _ = self._registered(region)
        return self._run(marks.done(self._io, region_of(self._io, self._state, row)))

    def _manual_region(self) -> RegionId:
        registered = self._run(regions.the_manual_region(self._io))
        self._state = registered.state
        return registered.region_id

    def _opened(
        self,
        row: RegionRow,
        limits: Limits,
        *,
        registered: bool = True,
        governed: bool = True,
        sequence: SequenceBy | None = None,
    ) -> writing.RegionWriter:
        opening_region = opening.open_region(
            self._io,
            self._state,
            row,
            limits=limits,
            registered=registered,
            governed=governed,
            sequence=sequence,
        )
        writer, self._state = self._run(opening_region)
        return writer

    def _registered(self, region: str) -> tuple[RegionRow, bool]:
        """The region of that id, and whether it is registered."""
        wanted = _parsed(region)
        self.refresh()
        for row in self._run(regions.known(self._io, self._state)):
            if row.region_id == wanted:
                return row, True
        if self.spec is None:
            return RegionRow(region_id=wanted, spec_id=SpecId(0), values=(), manifest=None), False
        if not self.revision.shard_fields:
            raise InvalidArgument(f"region {region} is not registered", clause="AMB-52")
        return self._unregistered_native(wanted), False

    def _unregistered_native(self, region: RegionId) -> RegionRow:
        """A shard that the native writer created: its manifest names the spec, and nobody registered it (R)."""
        manifest = self._run(regions.discover(self._io, self.revision)).get(region)
        if manifest is None:
            raise InvalidArgument(f"region {region} is not registered", clause="AMB-52")
        (row,) = self._run(regions.unregistered(self._io, self._state, {region: manifest}))
        return row

    def merge(
        self,
        region: str | Sequence[str] | None = None,
        *,
        until: int | None = None,
        commit_every: int = COMMIT_EVERY,
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

        No key may be in two manual regions, since the order of merging would decide which row wins: a merge that would
        replace a row of another manual region is `Unmergeable` too, and names both. Delete the row of the base that is
        not wanted, or say ``replace_rows_of_others`` if the rows of ``region`` are the newer ones.
        """
        if until is not None and (not isinstance(region, str) or until < 1):
            raise InvalidArgument(f"until={until} is to be a generation of one region, from 1 on")
        names, last = [region] if isinstance(region, str) else region, None if until is None else Generation(until)
        done, failed = self._merged(names, last, commit_every, replace_rows_of_others)
        if failed:
            raise first(failed.values())
        return MergeReport.of(done)

    def _merged(
        self, names: Sequence[str] | None, until: Generation | None, commit_every: int, replace_rows_of_others: bool
    ) -> tuple[tuple[Merged, ...], Mapping[RegionId, Failure]]:
        """As `merge`: the generations that were merged, and the regions that could not be merged to their end."""
        self._check_not_pinned()
        if commit_every < 1:
            raise InvalidArgument(f"commit_every={commit_every} is to be a number of regions, from 1 on")
        apart = self._io.interpretation.manual_regions_apart and not replace_rows_of_others
        io = replace(self._io, interpretation=replace(self._io.interpretation, manual_regions_apart=apart))
        wanted, beside = self._to_merge(names)
        done = self._run(merge_regions(io, wanted, until, beside, commit_every=commit_every))
        self.refresh()
        return done

    def _to_merge(self, names: Sequence[str] | None) -> tuple[list[RegionId], frozenset[RegionId]]:
        """The regions to merge, and those that are known to be manual because the table has no spec."""
        if names is None:
            found = self._run(regions.discover(self._io, self.revision))
            return sorted(found), frozenset(each for each, manifest in found.items() if not manifest.spec_id)
        listed = self._run(regions.folders(self._io)) if self.spec is None else ()
        return list(map(_parsed, names)), frozenset(listed)

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

    def snapshot(self, *, inline_most: int | None = None) -> int:
        """Rebuild the region snapshot that eventual reads use; returns the number of regions in it.

        ``inline_most``: most regions whose snapshot is kept inside the index; more go into a file (A, B). None: as
        the table says, 100 unless its config has ``memwal.inline_regions``.
        """
        self._check_not_pinned()
        self._state = self._run(regions.build_snapshot(self._io, inline_most=inline_most))
        return len(self._run(regions.known(self._io, self._state)))

    def gc(
        self,
        *,
        retain_versions: int | None = None,
        retain_age_ms: int | None = None,
        grace_ms: int = 0,
        retain_manifests: int = collector.RETAIN_MANIFESTS,
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
        unremembered = replace(self._place, io=replace(self._place.io, remembers=False))
        return verify_place(unremembered, None, fast=fast)

    def repair(self, *, dry_run: bool = False) -> RepairReport:
        """Repair what can be repaired without losing anything. See `memwal.repair`."""
        self._check_not_pinned()
        return repair_place(self._place, dry_run=dry_run)

    def append(self, rows: pa.Table) -> None:
        """Append to the base table directly, without looking at keys: they must be new."""
        self._check_not_pinned()
        self._state = self._run(write.append(self._io, rows))

    def delete(self, filter: Any) -> None:
        """Delete matching rows from the base table directly. Rows that are not merged yet are not touched."""
        self._check_not_pinned()
        mask = filters.mask(filter, self.schema)
        self._state = self._run(write.delete(self._io, mask, str(filter)))

    def _check_not_pinned(self) -> None:
        if self._pinned:
            raise InvalidArgument("a table opened at a version is read-only", clause="TXN-003")


def _parsed(region: str) -> RegionId:
    try:
        return region_id(region)
    except ValueError as error:
        raise InvalidArgument(f"not a region id: {region!r} ({error})", clause="AMB-36") from error
