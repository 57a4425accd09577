"""Making a table that MemWAL is enabled on, and opening one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from ..arguments import checked
from ..codec.index_details import IndexDetails, RegionSpec
from ..drive import Listener
from ..effects import Commits
from ..errors import AlreadyExists, InvalidArgument
from ..ids import SpecId
from ..index import mem_wal, transforms
from ..index.transforms import SpecRequest
from ..keys import newest
from ..maintained import base_index
from ..revisions import CONFIG_COMMITS, CONFIG_MANIFEST_COLLECTION, CONFIG_REVISION, CONFIG_WAL_COLLECTION, Revision
from ..stores import ManifestStore
from ..stores.base import Store
from ..table import columns, door, read, state, time_travel, write
from ..table import schema as schemas
from ..table.fragments import arrow
from ..table.state import TableState
from ..words import counted
from .place import PROFILE, Place, Profile, Where, check_mechanism, find, found, named_revision, taken
from .table import Table


@checked
def create(
    url: Where,
    data: Any,
    *,
    primary_key: str | Sequence[str],
    revision: str | Revision = "B",
    spec: SpecRequest | None = None,
    maintained_indexes: Sequence[str] = (),
    wal_collection: bool = False,
    manifest_collection: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    manifest_store: ManifestStore | None = None,
    listener: Listener | None = None,
    profile: Profile = PROFILE,
) -> Table:
    """Create a Lance table and enable MemWAL on it.

    ``data``: an Arrow schema, or the first rows: a pyarrow Table, RecordBatch, RecordBatchReader or Dataset (a pylance
    one too), a frame of pandas or polars, a list of dicts by row, or a dict of lists by column. ``primary_key``: a
    column, or several, without NULLs, neither floating nor nested. ``revision``: ``A``, ``B`` or ``R``. ``spec``: how
    rows map to regions; None leaves regions to the caller. ``wal_collection``: let the collector delete WAL files; each
    durable put then costs one more request. ``manifest_collection``: let it delete old region manifest versions; each
    new one then costs one more, and writers rely on what they were opened with, so that neither can be changed later.
    ``manifest_store``: an external manifest store that creates the versions of the table, ``sqlite:PATH`` or an object
    (see `memwal.stores.ManifestStore`). The table records that there is one: opened without it, a table can be
    read and not committed to.
    Raises `InvalidArgument` or `AlreadyExists`; then no table was created.
    """
    place = find(url, storage_options, store, listener, profile, manifest_store)
    chosen = named_revision(revision)
    given = None if isinstance(data, pa.Schema) else arrow(data)
    schema = data if given is None else given.schema
    key = _columns(primary_key)
    door.check_schema(schema)
    keyed = schemas.with_primary_key(schema, key)
    door.check_key(keyed, key, chosen)
    if maintained_indexes:
        reason = f"no such indexes: a new table has none to maintain, and is to maintain {list(maintained_indexes)}"
        raise InvalidArgument(reason, clause="AMB-48")
    ids = schemas.field_ids(schemas.to_fields(keyed))
    _resolved_spec(spec, keyed, ids, key, chosen)
    rows = door.admitted(given, keyed) if given is not None and given.num_rows else None
    if rows is not None:
        _check_unique(rows, key)
    config = _config(place, chosen, wal_collection=wal_collection, manifest_collection=manifest_collection)
    try:
        created = place.run(write.create(place.io, keyed, rows, config))
    except AlreadyExists as there:
        raise taken(place, there) from None
    return _enable(place, created, chosen, spec, maintained_indexes)


@checked
def enable(
    url: Where,
    *,
    primary_key: str | Sequence[str] | None = None,
    revision: str | Revision = "B",
    spec: SpecRequest | None = None,
    maintained_indexes: Sequence[str] = (),
    wal_collection: bool = False,
    manifest_collection: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    manifest_store: ManifestStore | None = None,
    listener: Listener | None = None,
    profile: Profile = PROFILE,
) -> Table:
    """Enable MemWAL on a Lance table that is already there.

    ``primary_key``: declared by the table's schema from now on; None: the schema declares one already. Its keys must be
    unique and not NULL (AMB-105). Other arguments and errors as for `create`. With ``manifest_store`` the
    table is committed through it from now on: stop every process that commits without it first.
    """
    place = find(url, storage_options, store, listener, profile, manifest_store)
    current = found(place, state.latest(place.io))
    chosen = named_revision(revision)
    mem_wal.may_enable(current)
    key = _declared(current, primary_key)
    door.check_schema(current.schema)
    schemas.with_primary_key(current.schema, key)
    door.check_key(current.schema, key, chosen)
    place.run(base_index.load(place.io, current, maintained_indexes))
    _resolved_spec(spec, current.schema, current.field_ids, key, chosen)
    _check_unique(place.run(read.scan(place.io, current, list(key))), key)
    config = _config(place, chosen, wal_collection=wal_collection, manifest_collection=manifest_collection)
    if not current.primary_key:
        place.run(columns.declare_key(place.io, current, key))
    configured = place.run(write.set_config(place.io, config))
    return _enable(place, configured, chosen, spec, maintained_indexes)


def _declared(current: TableState, primary_key: str | Sequence[str] | None) -> tuple[str, ...]:
    """The key that the table declares, or is to declare."""
    declared = current.primary_key
    if primary_key is None:
        if not declared:
            raise InvalidArgument(
                "the table declares no primary key: name its columns in primary_key", clause="FORMAT-001"
            )
        return declared
    named = _columns(primary_key)
    if declared and set(named) != set(declared):
        raise InvalidArgument(
            f"the table declares the primary key {list(declared)}, not {list(named)}: leave out primary_key",
            clause="AMB-55",
        )
    return declared or named


def _columns(named: str | Sequence[str]) -> tuple[str, ...]:
    return (named,) if isinstance(named, str) else tuple(named)


def _config(place: Place, revision: Revision, *, wal_collection: bool, manifest_collection: bool) -> dict[str, str]:
    external = {CONFIG_COMMITS: Commits.EXTERNAL.value} if place.io.commits is Commits.EXTERNAL else {}
    return external | {
        CONFIG_REVISION: revision.name,
        CONFIG_WAL_COLLECTION: "on" if wal_collection else "off",
        CONFIG_MANIFEST_COLLECTION: "on" if manifest_collection else "off",
    }


def _check_unique(rows: pa.Table, key: tuple[str, ...]) -> None:
    for name in key:
        if rows.column(name).null_count:
            raise InvalidArgument(
                f"key column {name!r} of the table has NULLs: give these rows a key, or delete them", clause="AMB-136"
            )
    distinct = len(newest(rows, key))
    if distinct != rows.num_rows:
        raise InvalidArgument(
            f"{counted(rows.num_rows, 'row')} with {counted(distinct, 'distinct key')}: drop the duplicates",
            clause="AMB-105",
        )


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
    place: Place,
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


@checked
def open(  # noqa: A001 - the name that users of a storage library expect
    url: Where,
    *,
    version: int | None = None,
    timestamp: str | datetime | None = None,
    tag: str | None = None,
    revision: str | Revision | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    manifest_store: ManifestStore | None = None,
    listener: Listener | None = None,
    profile: Profile = PROFILE,
    remember_bytes: int | None = None,
) -> Table:
    """Open a table on which MemWAL is enabled; with one of the next three an older version of it, for eventual reads.

    ``version``: its number. ``timestamp``: the newest version at or before that moment, a datetime or a text in ISO
    8601, in UTC if it has no time zone, as far as clocks of committers agree. ``tag``: the version that it names.
    ``manifest_store``: the external manifest store that the table was created or enabled with; without it such a table
    is read, a version late at most, and not committed to. ``remember_bytes``: how many bytes this object keeps at most
    of what it worked out of files that do not change, so that the next read need not open them; 0 for none, None for
    512 MiB, or for none where ``store`` is handed over. Raises `NotFound`, `ArtifactError` for damaged bytes, and
    `InvalidArgument` when MemWAL is not enabled, the recorded revision is not ``revision``, the table records no
    external manifest store, or ``timestamp`` and ``tag`` say no version.
    """
    place = find(url, storage_options, store, listener, profile, manifest_store, remember_bytes)
    current = found(place, time_travel.chosen(place.io, version, timestamp, tag))
    _ = current.mem_wal
    check_mechanism(place, current)
    if revision is not None and named_revision(revision) != current.revision:
        asked = named_revision(revision).name
        raise InvalidArgument(f"{url}: the table has revision {current.revision.name}, not {asked}", clause="AMB-06")
    return Table(place, current, pinned=any(given is not None for given in (version, timestamp, tag)))
