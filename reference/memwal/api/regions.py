"""A table as far as rows are written to its regions: which there are, their writers, and rows of any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import pyarrow as pa

from ..arguments import checked_methods
from ..cellwise import converted
from ..codec.index_details import RegionSpec
from ..codec.marks import Mark
from ..errors import InvalidArgument
from ..ids import FieldId, RegionId, SpecId
from ..index import regions, transforms
from ..index.dividing import divided
from ..index.opening import region_of
from ..index.snapshot import RegionRow
from ..jobs import marks, opening, spec_change
from ..region import writer as writing
from ..region.limits import Limits
from ..region.rows import check_deletes
from ..region.sequences import LateRows, PutResult, SequenceBy
from ..revisions import Revision
from ..table.door import admitted
from ..table.fragments import arrow, check_names
from ..table.state import TableState
from .place import Place, parsed_region
from .queries import Queries
from .reports import RegionInfo, ReportRows
from .upserting import OpenWriters, Share
from .writer import Writer


@checked_methods
class Regions(Queries):
    """A table as a set of regions. A context manager that closes what `upsert` and `delete` have opened."""

    def __init__(self, place: Place, current: TableState, *, pinned: bool = False) -> None:
        super().__init__(place, current, pinned=pinned)
        self._manual_writers: WeakSet[Writer] = WeakSet()
        """Open writers of manual regions, each of which `Writer.put` asks for the keys that it holds."""
        self._kept = OpenWriters(self._claimed)

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

    @property
    def specs(self) -> tuple[RegionSpec, ...]:
        """All region specs that the table lists, by id; the last one governs new writes."""
        return tuple(sorted(self._state.mem_wal.specs, key=lambda spec: spec.spec_id))

    def regions(self) -> ReportRows[RegionInfo]:
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
        return ReportRows(found)

    def register_region(self, values: Mapping[str, object] | None = None, *, beside_spec: bool = False) -> RegionId:
        """Get or create the region of ``values`` (by field id); None creates a new manual region, whatever there is.

        In a table with several manual regions the caller decides which key is in which, always the same one.
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

    def region_values(self, rows: Any) -> pa.Table:
        """Region value of each row under the active spec: one column per region field, in row order."""
        if self.spec is None:
            raise InvalidArgument("the table has no region spec: regions are manual", clause="REGION-012")
        names = {i: n for n, i in self._state.field_ids.items()}
        return transforms.evaluate(self.spec, arrow(rows), names, revision=self.revision)

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
        while puts continue; without it every flush happens in the call that makes it due. ``sequence_by``: the column
        by which rows of a key are ordered, whichever process wrote them and when (AMB-148); a row that is not higher
        than what the region has stored for its key is late, and ``late_rows`` says what becomes of it: ``drop``,
        ``keep`` or ``fail``.
        """
        self._check_not_pinned()
        chosen = limits or Limits()
        if memtable_rows is not None:
            chosen = replace(chosen, memtable_rows=memtable_rows)
        if wal_buffer_rows is not None:
            chosen = replace(chosen, wal_rows=wal_buffer_rows)
        if region is not None and values is not None:
            raise InvalidArgument("name the region by its id or by its values, not by both")
        if region is None:
            region = self._manual_region() if values is None else self.register_region(values)
        row, registered = self._registered(region)
        order = _order(sequence_by, late_rows)
        return self._writer(row, registered, chosen, order, durable=durable, indexed=indexed, background=background)

    def done(self, region: str) -> tuple[Mark, ...]:
        """Of each application the newest batch with finished tasks in ``region``, without a claim (AMB-149).

        What a live writer of the region finishes meanwhile may be missed: after a claim, ask `Writer.done`.
        """
        row, _ = self._registered(region)
        return self._run(marks.done(self._io, region_of(self._io, self._state, row)))

    def upsert(self, rows: Any, *, sequence_by: str | None = None, late_rows: LateRows = "drop") -> PutResult:
        """Insert ``rows``, or replace those that have their keys; they are durable when this returns.

        ``rows``: whatever `memwal.create` takes, with the table's columns in any order; values are cast to the table's
        types where that changes none of them. The region spec says which region a row belongs to. Each region gets its
        rows as one atomic write, through a writer that stays open until `close`, or until the ``with`` block of this
        table ends. ``sequence_by``, ``late_rows``: as for `writer`.

        Raises `InvalidArgument` (nothing happened, unless a late row is refused), `Fenced` if another writer has
        claimed a region since, or the store's failure. A note says how many other regions have their rows. Call again
        with the same rows to claim the regions anew and write all of them.
        """
        return self._kept.write(self._shares(rows, self.schema.names), _order(sequence_by, late_rows), "put")

    def delete(self, keys: Any, *, sequence_by: str | None = None, late_rows: LateRows = "drop") -> PutResult:
        """Delete the rows with these keys, wherever they are; options, answer and errors as for `upsert`. Revision R.

        ``keys``: the key columns, and the column ``sequence_by`` if there is one.
        """
        given = self.primary_key if sequence_by is None else (*self.primary_key, sequence_by)
        check_deletes(self.revision, self.schema, given)
        return self._kept.write(self._shares(keys, given), _order(sequence_by, late_rows), "delete")

    def _shares(self, rows: Any, columns: Sequence[str]) -> list[Share]:
        """``rows``, with ``columns`` in the table's types, by region."""
        self._check_not_pinned()
        if not self._kept:
            self.refresh()
        given = arrow(rows)
        if not given.num_columns:
            return []
        check_names(given.schema.names, columns)
        schema = pa.schema([self.schema.field(name).remove_metadata() for name in columns])
        fitted = admitted(converted(given, schema), schema)
        if self.spec is None:
            return [((), None, fitted)] if fitted.num_rows else []
        return [(key, *share) for key, share in divided(fitted, self.region_values(fitted)).items()]

    def _claimed(self, values: Sequence[Mapping[str, object] | None], sequence: SequenceBy | None) -> Sequence[Writer]:
        """A writer of each region with these values; ``sequence``: what they order rows by."""
        if self.spec is None:
            found = [self._registered(self._manual_region())]
        else:
            chosen = self.register_regions(values)
            rows = {row.region_id: row for row in self._run(regions.known(self._io, self._state))}
            found = [(rows[region], True) for region in chosen]
        return [self._writer(row, registered, Limits(), sequence) for row, registered in found]

    def close(self) -> None:
        """Close the writers that `upsert` and `delete` have opened; the table can be used, and written to, again."""
        self._kept.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. A failure of that never takes the place of the error that ended the block: it becomes a note of it."""
        self._kept.closing().__exit__(kind, error, trace)

    def _writer(
        self,
        row: RegionRow,
        registered: bool,
        limits: Limits,
        sequence: SequenceBy | None,
        *,
        durable: bool = True,
        indexed: bool = True,
        background: bool = True,
    ) -> Writer:
        """Claim the region of ``row`` and open its writer; the options are those of `Writer`."""
        if row.spec_id:
            spec_change.check_governed(row, self._state)
        opened = self._opened(row, limits, registered=registered, sequence=sequence)
        if row.spec_id:
            return Writer(self._place, opened, durable=durable, indexed=indexed, background=background)
        others = self._manual_writers
        writer = Writer(self._place, opened, durable=durable, indexed=indexed, background=background, others=others)
        others.add(writer)
        return writer

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
        wanted = parsed_region(region)
        self.refresh()
        for row in self._run(regions.known(self._io, self._state)):
            if row.region_id == wanted:
                return row, True
        if self.spec is None:
            return RegionRow(region_id=wanted, spec_id=SpecId(0), values=(), manifest=None), False
        if not self.revision.shard_fields:
            raise InvalidArgument(
                f"the table has no region {region}: table.regions() lists its regions", clause="AMB-52"
            )
        return self._unregistered_native(wanted), False

    def _unregistered_native(self, region: RegionId) -> RegionRow:
        """A shard that the native writer created: its manifest names the spec, and it was never registered (R)."""
        manifest = self._run(regions.discover(self._io, self.revision, {region})).get(region)
        if manifest is None:
            raise InvalidArgument(
                f"the table has no region {region}: table.regions() lists its regions", clause="AMB-52"
            )
        (row,) = self._run(regions.unregistered(self._io, self._state, {region: manifest}))
        return row

    def _check_not_pinned(self) -> None:
        if self._pinned:
            raise InvalidArgument(
                "a table opened at a version is read-only: open it without version, timestamp or tag to write",
                clause="TXN-003",
            )


def _order(sequence_by: str | None, late_rows: LateRows) -> SequenceBy | None:
    """What a writer orders rows by; None: by when they come."""
    return None if sequence_by is None else SequenceBy(column=sequence_by, late_rows=late_rows)
