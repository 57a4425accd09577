"""The table of a soak: created with MemWAL enabled, its regions registered, half of its keys there, and an index."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import pyarrow as pa
from memwal import confirm
from memwal.codec.index_details import IndexDetails, RegionSpec
from memwal.codec.pb.lance import table_pb2, transaction_pb2
from memwal.effects import Io
from memwal.errors import EngineBug
from memwal.ids import FragmentId, Milliseconds, RegionId, SpecId
from memwal.index import maintaining, mem_wal, regions, transforms
from memwal.index.opening import region_of
from memwal.index.snapshot import RegionRow
from memwal.region.region import Region
from memwal.revisions import CONFIG_MANIFEST_COLLECTION, CONFIG_REVISION, CONFIG_WAL_COLLECTION
from memwal.table import schema as schemas
from memwal.table import write
from memwal.table.commit import commit
from memwal.table.mirror import Mirror, fill, index_folder
from memwal.table.state import TableState, latest

from .settings import SoakSettings

KEY, VALUE = "id", "value"
SCHEMA = schemas.with_primary_key(pa.schema([pa.field(KEY, pa.string()), pa.field(VALUE, pa.string())]), [KEY])
"""Rows: a text key and a text value."""
INDEX = "by_id"
"""The B-tree that a table with an index has, over the key."""
_FIELD = "bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Founded:
    """A table that is ready for writers."""

    state: TableState
    rows: tuple[RegionRow, ...]
    """Its regions, as registered, by id."""
    keys: dict[RegionId, tuple[str, ...]]
    """The keys that belong to each region."""


def table_of(rows: dict[str, str]) -> pa.Table:
    """``rows`` (key -> value) as clients pass them to a put."""
    return pa.table({KEY: list(rows), VALUE: list(rows.values())}, schema=SCHEMA)


def rows_of(found: pa.Table) -> dict[str, str]:
    """Key -> value of what a read returned; raises `EngineBug` if a key is there twice."""
    keys = found.column(KEY).to_pylist()
    if len(set(keys)) != len(keys):
        raise EngineBug(f"a merged read returned a key twice: {sorted(k for k in keys if keys.count(k) > 1)[:5]}")
    return dict(zip(keys, found.column(VALUE).to_pylist(), strict=True))


def all_keys(settings: SoakSettings) -> list[str]:
    """Every key of the table, sorted."""
    return [f"k{number:06d}" for number in range(settings.keys)]


async def found(settings: SoakSettings, rows: dict[str, str]) -> Founded:
    """Create the table with ``rows`` (key -> value) in its base, and register its regions."""
    io, revision = settings.table(), settings.revision_()
    config = {
        CONFIG_REVISION: revision.name,
        CONFIG_WAL_COLLECTION: "on" if settings.wal_collection else "off",
        CONFIG_MANIFEST_COLLECTION: "on" if settings.manifest_collection else "off",
    }
    created = await write.create(io, SCHEMA, table_of(rows) if rows else None, config)
    spec = None
    if settings.regions_by == "bucket":
        request = transforms.bucket(_FIELD, KEY, settings.regions)
        spec = transforms.resolve(request, SpecId(1), created.schema, created.field_ids, revision)
    details = IndexDetails(
        snapshot_ts_ms=Milliseconds(0),
        num_regions=0,
        inline_snapshots=None,
        specs=(spec,) if spec is not None else (),
    )
    await mem_wal.enable(io, created, details)
    wanted = [{_FIELD: bucket} if spec is not None else None for bucket in range(settings.regions)]
    registered = await regions.register_all(io, wanted)
    if settings.index_every_ms:
        await _index(io, await latest(io))
        await maintaining.maintain(io, [INDEX])
    state = await latest(io)
    rows_known = await regions.known(io, state)
    return Founded(state=state, rows=rows_known, keys=_placed(settings, state, registered.region_ids, spec))


def _placed(
    settings: SoakSettings, state: TableState, ids: tuple[RegionId, ...], spec: RegionSpec | None
) -> dict[RegionId, tuple[str, ...]]:
    """Keys by region: by the spec, or in turn."""
    keys = all_keys(settings)
    buckets = [number % len(ids) for number in range(len(keys))]
    if spec is not None:
        names = {number: name for name, number in state.field_ids.items()}
        rows = table_of(dict.fromkeys(keys, ""))
        buckets = transforms.evaluate(spec, rows, names, revision=state.revision).column(_FIELD).to_pylist()
    placed: dict[RegionId, list[str]] = {region: [] for region in ids}
    for key, bucket in zip(keys, buckets, strict=True):
        placed[ids[bucket]].append(key)
    return {region: tuple(own) for region, own in placed.items()}


def opened(io: Io, founded: Founded, row: RegionRow) -> Region:
    """The region of ``row`` as its writers open it."""
    return replace(region_of(io, founded.state, row), table=io)


async def _index(io: Io, state: TableState) -> None:
    """Build the index over the key with pylance, in a mirror of the table, and commit it under a drawn UUID."""
    import lance

    with Mirror() as mirror:
        numbers = [FragmentId(fragment.id) for fragment in state.fragments]
        await fill(io, state, mirror, fragments=numbers, indices=())
        lance.dataset(mirror.location).create_scalar_index(KEY, "BTREE", name=INDEX)
        (built,) = (entry for entry in mirror.newest().indices if entry.name == INDEX)
        entry = table_pb2.IndexMetadata()
        entry.CopyFrom(built)
        entry.uuid.uuid = uuid.UUID(hex=await io.random_hex(32), version=4).bytes
        entry.created_at = await io.now()
        source, target = index_folder(built.uuid.uuid), index_folder(entry.uuid.uuid)
        for name in mirror.files(source):
            await confirm.create(io, target + name.removeprefix(source), mirror.path(name).read_bytes())
    body = transaction_pb2.Transaction.CreateIndex(new_indices=[entry])
    await commit(io, state, transaction_pb2.Transaction(create_index=body))
