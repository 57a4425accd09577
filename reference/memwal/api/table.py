"""A table with MemWAL enabled, as its users see it: every method runs protocol coroutines to their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from ..codec.index_details import RegionSpec
from ..effects import Io, Protocol
from ..errors import InvalidArgument
from ..ids import RegionId, SpecId, TableVersion, region_id
from ..index import regions, result_types, snapshot, transforms
from ..index.snapshot import RegionRow
from ..jobs import collector, merger
from ..jobs.merger import Merged
from ..read import filters
from ..read import scan as reading
from ..region import region as region_context
from ..region import writer as writing
from ..region.rows import Rows
from ..revisions import CONFIG_WAL_COLLECTION, STRICT, Interpretation, Revision
from ..table import state, write
from ..table.state import TableState
from .place import Place, named_profile
from .reports import GcReport, MergeReport, RegionInfo
from .writer import MEMTABLE_ROWS, WAL_BUFFER_ROWS, Writer

T = TypeVar("T")


class Table:
    """A Lance table with MemWAL enabled. Reads see the newest state unless the table was opened at a version."""

    def __init__(self, place: Place, current: TableState, *, pinned: bool = False) -> None:
        self._place = place
        self._state = current
        self._pinned = pinned

    def __repr__(self) -> str:
        return f"<memwal.Table {self._place.location or self._place.io.root!r} version {self.version}>"

    @property
    def _io(self) -> Io:
        return self._place.io

    def _run(self, coroutine: Protocol[T]) -> T:
        return self._place.run(coroutine)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema; key columns carry Lance's primary key metadata."""
        return self._state.schema

    @property
    def version(self) -> TableVersion:
        """Version of the base table that this object knows; `refresh` looks for a newer one."""
        return self._state.version

    @property
    def primary_key(self) -> tuple[str, ...]:
        return self._state.primary_key

    @property
    def revision(self) -> Revision:
        return self._state.revision

    @property
    def spec(self) -> RegionSpec | None:
        """The region spec that governs new writes; None if regions are manual."""
        return regions.active_spec(self._state.mem_wal)

    def refresh(self) -> Table:
        """Load the newest version; returns this object. A table opened at a version stays there."""
        if not self._pinned:
            self._state = self._run(state.latest(self._io))
        return self

    def regions(self) -> tuple[RegionInfo, ...]:
        """All regions, registered or found by listing, sorted by id."""
        self.refresh()
        details = self._state.mem_wal
        registered = {row.region_id: row for row in self._run(snapshot.load(self._io, self._state))}
        live = self._run(regions.discover(self._io, self.revision))
        found = []
        for region in sorted({*registered, *live}):
            row, manifest = registered.get(region), live.get(region)
            spec_id = row.spec_id if row else manifest.spec_id if manifest else SpecId(0)
            values = dict(row.values) if row else {}
            progress = details.progress(region)
            found.append(
                RegionInfo(region_id=region, spec_id=spec_id, values=values, manifest=manifest, merged=progress)
            )
        return tuple(found)

    def register_region(self, values: Mapping[str, object] | None = None) -> RegionId:
        """Get or create the region of ``values`` (by field id); None creates a new manual region."""
        self._check_not_pinned()
        ordered = self._ordered(values) if values is not None else None
        registered = self._run(regions.register(self._io, ordered))
        self._state = registered.state
        return registered.region_id

    def _ordered(self, values: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
        names = [f.field_id for f in self.spec.fields] if self.spec else []
        if set(values) != set(names):
            raise InvalidArgument(f"region values {sorted(values)} do not match the spec {names}", clause="REGION-010")
        return tuple((name, values[name]) for name in names)

    def region_values(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Region value of each row under the active spec: one column per region field, in row order."""
        if self.spec is None:
            raise InvalidArgument("the table has no region spec: regions are manual", clause="REGION-012")
        names = {i: n for n, i in self._state.field_ids.items()}
        return transforms.evaluate(self.spec, rows, names, revision=self.revision)

    def writer(
        self,
        region: str | None = None,
        *,
        values: Mapping[str, object] | None = None,
        durable: bool = True,
        profile: str | Interpretation = STRICT,
        wal_buffer_rows: int = WAL_BUFFER_ROWS,
        memtable_rows: int = MEMTABLE_ROWS,
    ) -> Writer:
        """Claim a region and open its writer; any earlier writer of the region is fenced.

        Name the region by id, or by ``values`` of the active spec (registered if new); neither creates a manual
        region, which a table with a spec refuses. ``durable``: default of `Writer.put`.
        """
        self._check_not_pinned()
        if region is not None and values is not None:
            raise InvalidArgument("name a region by id or by values, not by both")
        if region is None:
            if values is None and self.spec is not None:
                raise InvalidArgument("the table has a region spec: name the region's values", clause="AMB-56")
            region = self.register_region(values)
        row = self._registered(region)
        opened = self._run(writing.open_writer(self._region(row, named_profile(profile))))
        return Writer(self, opened, durable, wal_buffer_rows, memtable_rows)

    def _registered(self, region: str) -> RegionRow:
        try:
            wanted = region_id(region)
        except ValueError as error:
            raise InvalidArgument(str(error), clause="AMB-36") from error
        self.refresh()
        for row in self._run(snapshot.load(self._io, self._state)):
            if row.region_id == wanted:
                return row
        if self.spec is None or not self.revision.shard_fields:
            if self.spec is not None:
                raise InvalidArgument(f"region {region} is not registered", clause="AMB-52")
            return RegionRow(region_id=wanted, spec_id=SpecId(0), values=(), manifest=None)
        return self._unregistered_native(wanted)

    def _unregistered_native(self, region: RegionId) -> RegionRow:
        """A shard that the native writer created: its manifest names the spec, and nobody registered it (R)."""
        manifest = self._run(regions.discover(self._io, self.revision)).get(region)
        if manifest is None:
            raise InvalidArgument(f"region {region} is not registered", clause="AMB-52")
        return RegionRow(region_id=region, spec_id=manifest.spec_id, values=(), manifest=manifest)

    def _region(self, row: RegionRow, interpretation: Interpretation) -> region_context.Region:
        current = self._state
        rows = Rows(
            table=current.schema,
            key=current.primary_key,
            revision=current.revision,
            field_ids=tuple(current.field_ids.items()),
            belongs=self._belongs(row),
        )
        fields: tuple[tuple[str, bytes], ...] = ()
        if current.revision.shard_fields and self.spec is not None and row.values:
            types = {f.field_id: result_types.parse(f.result_type) for f in self.spec.fields}
            fields = tuple((n, transforms.encode_scalar_r(pa.scalar(v, types[n]))) for n, v in row.values)
        location = f"{self._place.location}/_mem_wal/{row.region_id}" if self._place.location else ""
        return region_context.Region(
            io=self._io.child(f"_mem_wal/{row.region_id}"),
            location=location,
            region_id=row.region_id,
            revision=current.revision,
            rows=rows,
            spec_id=row.spec_id,
            shard_fields=fields,
            interpretation=interpretation,
            wal_collection=current.config.get(CONFIG_WAL_COLLECTION) == "on",
        )

    def _belongs(self, row: RegionRow) -> Callable[[pa.Table], None]:
        wanted = dict(row.values)

        def check(rows: pa.Table) -> None:
            if not wanted:
                return
            found = self.region_values(rows)
            for name, value in wanted.items():
                for at, other in enumerate(found.column(name).to_pylist()):
                    if other != value:
                        reason = f"row {at} has region value {name}={other!r}; this region's is {value!r}"
                        raise InvalidArgument(reason, clause="WRITER-015")

        return check

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        consistency: str = "strong",
        writers: Sequence[Writer] = (),
        profile: str | Interpretation = STRICT,
    ) -> pa.Table:
        """The merged rows, one per key, in no particular order.

        ``filter``: a pyarrow compute expression, or SQL text as in a WHERE clause. ``strong`` sees every acknowledged
        durable write, and with ``writers`` what those hold in memory; ``eventual`` reads the table version's own
        region snapshot. A table opened at a version reads eventually.
        """
        return self._read(columns, filter, consistency, writers, profile, None)

    def get(
        self,
        keys: pa.Table,
        columns: Sequence[str] | None = None,
        *,
        writers: Sequence[Writer] = (),
        profile: str | Interpretation = STRICT,
    ) -> pa.Table:
        """The rows of ``keys`` (a table of exactly the key columns), those that exist, in no particular order."""
        wanted = write.conform(keys, pa.schema([self.schema.field(name) for name in self.primary_key]))
        return self._read(columns, None, "eventual" if self._pinned else "strong", writers, profile, wanted)

    def _read(
        self,
        columns: Sequence[str] | None,
        condition: Any,
        consistency: str,
        writers: Sequence[Writer],
        profile: str | Interpretation,
        keys: pa.Table | None,
    ) -> pa.Table:
        if consistency not in ("strong", "eventual"):
            raise InvalidArgument(f"unknown consistency {consistency!r}; known are strong, eventual")
        if self._pinned and writers:
            raise InvalidArgument("a table opened at a version does not read writers", clause="AMB-115")
        eventual = self._pinned or consistency == "eventual"
        if eventual:
            self.refresh()
        return self._run(
            reading.scan(
                self._io,
                columns=columns,
                keep=filters.parse(condition, self.schema) if condition is not None else None,
                keys=keys,
                version=self._state if eventual else None,
                memory=[writer.memory() for writer in writers],
                interpretation=named_profile(profile),
            )
        )

    def merge(self, region: str | None = None, *, profile: str | Interpretation = STRICT) -> MergeReport:
        """Merge flushed generations into the base table: of one region, or of all, region by region."""
        self._check_not_pinned()
        if region is not None:
            wanted = [region_id(region)]
        else:
            wanted = sorted(self._run(regions.discover(self._io, self.revision)))
        done: list[Merged] = []
        for one in wanted:
            done += self._run(merger.merge_region(self._io, one, named_profile(profile)))
        self.refresh()
        return MergeReport(
            merged=tuple((m.region_id, m.generation) for m in done),
            rows=sum(m.rows for m in done),
            deleted=sum(m.deleted for m in done),
        )

    def snapshot(self) -> int:
        """Rebuild the region snapshot that eventual reads use; returns the number of regions in it."""
        self._check_not_pinned()
        self._state = self._run(regions.build_snapshot(self._io))
        return self._state.mem_wal.num_regions

    def gc(self, *, retain_versions: int | None = None, dry_run: bool = False) -> GcReport:
        """Collect what no retained table version needs: generations, their WAL entries, left-overs of failed flushes.

        ``retain_versions``: keep that many newest table versions and expire the others first, tagged ones excepted;
        None keeps all, and then little can be collected. ``dry_run`` says what would be done.
        """
        self._check_not_pinned()
        decisions = self._run(collector.collect(self._io, retain_versions=retain_versions, dry_run=dry_run))
        return GcReport(decisions=decisions, dry_run=dry_run)

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
