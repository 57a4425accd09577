"""The public blocking API: tables and writers over a real store.

Everything here wraps `memwal.drive.drive` around the protocol coroutines; there is no protocol in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from .codec import key_index
from .codec.index_details import IndexDetails, RegionSpec
from .codec.region_manifest import RegionManifest
from .drive import Listener, _no_listener, drive
from .effects import Io, Protocol
from .errors import InvalidArgument, NotFound
from .ids import Epoch, Generation, RegionId, SpecId, TableVersion, WalPosition, region_id
from .index import mem_wal, regions, result_types, snapshot, transforms
from .index.snapshot import RegionRow
from .index.transforms import SpecRequest
from .jobs import collector, merger
from .jobs.collector import Decision
from .jobs.merger import Merged
from .keys import newest
from .read import filters
from .read import scan as reading
from .read.sources import MemoryView
from .region import writer as writing
from .region.rows import Rows
from .revisions import (
    CONFIG_REVISION,
    CONFIG_WAL_COLLECTION,
    PROFILES,
    REVISIONS,
    STRICT,
    Interpretation,
    Revision,
)
from .stores import open_store
from .stores.base import Store
from .table import read, state, write
from .table import schema as schemas
from .table.state import TableState

T = TypeVar("T")

WAL_BUFFER_ROWS = 100_000
"""Buffered rows at which a writer stores them as a WAL entry by itself."""
MEMTABLE_ROWS = 1_000_000
"""MemTable rows at which a writer flushes it by itself."""
MEMTABLE_ENTRIES = 10_000
"""WAL entries of a MemTable at which a writer flushes it by itself: a put copies the list of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionInfo:
    """One region, as registered and as its newest manifest says."""

    region_id: RegionId
    spec_id: SpecId
    values: dict[str, object]
    """Region value by field id; empty for manual regions and where unknown."""
    manifest: RegionManifest | None
    """Newest manifest; None for a region that no writer has claimed."""
    merged: Generation
    """Newest generation merged into the base table; 0 if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """What one call of `Table.merge` committed."""

    merged: tuple[tuple[RegionId, Generation], ...]
    rows: int
    """Rows upserted into the base table."""
    deleted: int
    """Keys deleted from it (R)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What one call of `Table.gc` deleted or kept, thing by thing."""

    decisions: tuple[Decision, ...]
    dry_run: bool

    @property
    def collected(self) -> tuple[Decision, ...]:
        """Decisions for deletion; in a dry run nothing was deleted."""
        return tuple(d for d in self.decisions if d.collected)


def _revision(name: str | Revision) -> Revision:
    if isinstance(name, Revision):
        return name
    if name not in REVISIONS:
        raise InvalidArgument(f"unknown revision {name!r}; known are {', '.join(REVISIONS)}", clause="AMB-01")
    return REVISIONS[name]


def _profile(name: str | Interpretation) -> Interpretation:
    if isinstance(name, Interpretation):
        return name
    if name not in PROFILES:
        raise InvalidArgument(f"unknown profile {name!r}; known are {', '.join(PROFILES)}")
    return PROFILES[name]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a table is."""

    store: Store
    io: Io
    location: str
    """Absolute name of the table for readers outside the engine; empty if there is none."""
    listener: Listener = _no_listener

    def run(self, coroutine: Protocol[T]) -> T:
        return drive(coroutine, self.store, self.listener)


def _place(
    url: str | Path, storage_options: Mapping[str, str] | None, store: Store | None, listener: Listener
) -> _Place:
    if store is not None:
        return _Place(store, Io(str(url)), "", listener)
    text = str(url)
    opened, root = open_store(text, storage_options)
    local = "://" not in text or text.startswith("file://")
    location = str(Path(text.removeprefix("file://")).absolute()) if local else text.rstrip("/")
    return _Place(opened, Io(root), "" if text.startswith("memory://") else location, listener)


def create(
    url: str | Path,
    data: pa.Schema | pa.Table,
    *,
    primary_key: Sequence[str],
    revision: str | Revision = "B",
    spec: SpecRequest | None = None,
    maintained_indexes: Sequence[str] = (),
    wal_collection: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    listener: Listener = _no_listener,
) -> Table:
    """Create a Lance table and enable MemWAL on it.

    ``data``: an Arrow schema, or a table with the first rows. ``primary_key``: columns without NULLs, neither floating
    nor nested. ``revision``: ``A``, ``B`` or ``R``. ``spec``: how rows map to regions; None leaves regions to the
    caller. ``wal_collection``: let the collector delete WAL files; each durable put then costs two more requests.
    Raises `InvalidArgument` or `AlreadyExists`; then no table was created.
    """
    place = _place(url, storage_options, store, listener)
    chosen = _revision(revision)
    schema = data if isinstance(data, pa.Schema) else data.schema
    keyed = schemas.with_primary_key(schema, primary_key)
    _check_key_index(keyed, primary_key, chosen)
    _check_maintained(maintained_indexes, [])
    ids = schemas.field_ids(schemas.to_fields(keyed))
    _resolved_spec(spec, keyed, ids, tuple(primary_key), chosen)
    rows = write.conform(data, keyed) if isinstance(data, pa.Table) and data.num_rows else None
    if rows is not None:
        _check_unique(rows, tuple(primary_key))
    config = {CONFIG_REVISION: chosen.name, CONFIG_WAL_COLLECTION: "on" if wal_collection else "off"}
    created = place.run(write.create(place.io, keyed, rows, config))
    return _enable(place, created, chosen, spec, maintained_indexes)


def enable(
    url: str | Path,
    *,
    revision: str | Revision = "B",
    spec: SpecRequest | None = None,
    maintained_indexes: Sequence[str] = (),
    wal_collection: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    listener: Listener = _no_listener,
) -> Table:
    """Enable MemWAL on a Lance table that is already there and whose schema declares a primary key.

    Its keys must be unique and not NULL (AMB-105). Arguments and errors as for `create`.
    """
    place = _place(url, storage_options, store, listener)
    current = _found(place, state.latest(place.io))
    chosen = _revision(revision)
    if current.mem_wal_entry is not None:
        raise InvalidArgument("MemWAL is already enabled on this table", clause="INDEX-001")
    key = current.primary_key
    schemas.with_primary_key(current.schema, key)
    _check_key_index(current.schema, key, chosen)
    _check_maintained(maintained_indexes, [index.name for index in current.manifest.indices])
    _resolved_spec(spec, current.schema, current.field_ids, key, chosen)
    _check_unique(place.run(read.scan(place.io, current, list(key))), key)
    config = {CONFIG_REVISION: chosen.name, CONFIG_WAL_COLLECTION: "on" if wal_collection else "off"}
    configured = place.run(write.set_config(place.io, config))
    return _enable(place, configured, chosen, spec, maintained_indexes)


def _found(place: _Place, loading: Protocol[TableState]) -> TableState:
    """Load a version; where there is none, the error names the whole place and not only the object in it."""
    try:
        return place.run(loading)
    except NotFound as missing:
        raise NotFound(f"{place.location}/{missing.path}" if place.location else missing.path) from None


def _check_maintained(maintained: Sequence[str], known: Sequence[str]) -> None:
    missing = [name for name in maintained if name not in known]
    if missing:
        raise InvalidArgument(f"no such indexes on the base table: {missing}; there are {known}", clause="AMB-48")


def _check_key_index(schema: pa.Schema, key: Sequence[str], revision: Revision) -> None:
    if revision.key_index:
        key_index.check(schema, key)


def _check_unique(rows: pa.Table, key: tuple[str, ...]) -> None:
    for name in key:
        if rows.column(name).null_count:
            raise InvalidArgument(f"the table has NULL in key column {name!r}", clause="AMB-136")
    distinct = len(newest(rows, key))
    if distinct != rows.num_rows:
        raise InvalidArgument(f"{rows.num_rows} rows have {distinct} distinct keys", clause="AMB-105")


def _resolved_spec(
    spec: SpecRequest | None,
    schema: pa.Schema,
    ids: Mapping[str, Any],
    key: tuple[str, ...],
    revision: Revision,
) -> tuple[RegionSpec, ...]:
    if spec is None:
        return ()
    resolved = transforms.resolve(spec, SpecId(1), schema, ids, revision)
    transforms.check_spec(resolved, schema, {i: n for n, i in ids.items()}, key, revision)
    return (resolved,)


def _enable(
    place: _Place,
    current: TableState,
    revision: Revision,
    spec: SpecRequest | None,
    maintained: Sequence[str],
) -> Table:
    specs = _resolved_spec(spec, current.schema, current.field_ids, current.primary_key, revision)
    details = IndexDetails(
        snapshot_ts_ms=place.run(place.io.now()),
        num_regions=0,
        inline_snapshots=None,
        specs=specs,
        maintained_indexes=tuple(maintained),
        merged=(),
        catchup=(),
    )
    return Table(place, place.run(mem_wal.enable(place.io, current, details)))


def open(  # noqa: A001 - the name that users of a storage library expect
    url: str | Path,
    *,
    version: int | None = None,
    revision: str | Revision | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    listener: Listener = _no_listener,
) -> Table:
    """Open a table on which MemWAL is enabled; with ``version`` an older version of it, for eventual reads.

    Raises `NotFound`, `ArtifactError` for damaged bytes, and `InvalidArgument` when MemWAL is not enabled or the
    recorded revision is not ``revision``.
    """
    place = _place(url, storage_options, store, listener)
    current = _found(place, state.latest(place.io) if version is None else state.load(place.io, TableVersion(version)))
    _ = current.mem_wal
    if revision is not None and _revision(revision) != current.revision:
        asked = _revision(revision).name
        raise InvalidArgument(f"{url}: the table is of revision {current.revision.name}, not {asked}", clause="AMB-06")
    return Table(place, current, pinned=version is not None)


class Table:
    """A Lance table with MemWAL enabled. Reads see the newest state unless the table was opened at a version."""

    def __init__(self, place: _Place, current: TableState, *, pinned: bool = False) -> None:
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
        opened = self._run(writing.open_writer(self._region(row, _profile(profile))))
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

    def _region(self, row: RegionRow, interpretation: Interpretation) -> writing.Region:
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
        return writing.Region(
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
                interpretation=_profile(profile),
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
            done += self._run(merger.merge_region(self._io, one, _profile(profile)))
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


class Writer:
    """An open writer of one region; a context manager that closes it. Not safe to share between threads."""

    def __init__(
        self, table: Table, opened: writing.Writer, durable: bool, wal_buffer_rows: int, memtable_rows: int
    ) -> None:
        self._table, self._writer = table, opened
        self._durable = durable
        self._wal_buffer_rows, self._memtable_rows = wal_buffer_rows, memtable_rows

    def __repr__(self) -> str:
        return f"<memwal.Writer region {self.region_id} epoch {self.epoch}>"

    @property
    def region_id(self) -> RegionId:
        return self._writer.region.region_id

    @property
    def epoch(self) -> Epoch:
        """Epoch of this writer's claim."""
        return self._writer.epoch

    @property
    def position_next(self) -> WalPosition:
        """Position that the next WAL entry will take."""
        return self._writer.position_next

    @property
    def generation(self) -> Generation:
        """Generation of the active MemTable."""
        return self._writer.memtable.generation

    @property
    def rows(self) -> int:
        """Rows in the active MemTable, buffered ones included."""
        return self._writer.memtable.rows

    @property
    def buffered_rows(self) -> int:
        """Rows that are not in the WAL yet."""
        return self._writer.memtable.pending_rows

    def _run(self, coroutine: Protocol[T]) -> T:
        return self._table._run(coroutine)

    def put(self, rows: pa.Table | pa.RecordBatch, *, durable: bool | None = None) -> None:
        """Write rows as one atomic write; ``durable`` waits until they are in the WAL.

        Raises `InvalidArgument` (nothing happened), `Fenced` (another writer owns the region), or the store's failure,
        after which the writer is stopped: the write may or may not surface, whole (AMB-21, 22).
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        self._run(self._writer.put(table, durable=self._durable if durable is None else durable))
        self._flush_if_full()

    def delete(self, keys: pa.Table, *, durable: bool | None = None) -> None:
        """Delete rows by key (a table of exactly the key columns). Revision R only."""
        self._run(self._writer.delete(keys, durable=self._durable if durable is None else durable))
        self._flush_if_full()

    def _flush_if_full(self) -> None:
        if self.rows >= self._memtable_rows or len(self._writer.memtable.stored) >= MEMTABLE_ENTRIES:
            self.flush()
        elif self.buffered_rows >= self._wal_buffer_rows:
            self.flush_wal()

    def flush_wal(self) -> None:
        """Store buffered rows as one WAL entry."""
        self._run(self._writer.flush_wal())

    def flush(self) -> Generation | None:
        """Flush the MemTable into a new generation; None if it has no rows."""
        return self._run(self._writer.flush())

    def memory(self) -> MemoryView:
        """What strong readers in this process may use; rows that are buffered only are visible too (AMB-23)."""
        held = [*self._writer.frozen, self._writer.memtable]
        tables = tuple((m.generation, m.table()) for m in held)
        return MemoryView(self.region_id, self.epoch, tables)

    def close(self) -> None:
        """Store buffered rows and stop; rows that were not flushed stay in the WAL for the next writer."""
        self._run(self._writer.close())

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
