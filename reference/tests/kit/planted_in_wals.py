"""Damage to WALs, by the invariant that it breaks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from memwal.codec.wal import WalEntry
from memwal.ids import Epoch, Generation, RegionId

from .damaged_tables import Scene
from .planting import cuts, plants, put_or_drop

# WAL


@plants("wal_entries_open")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for position in (scene.positions[0], 3, 5, scene.positions[-1]):
        yield from cuts(scene, scene.wal_path(position))
    entry = scene.entry(scene.positions[-1])
    if scene.revision.wal_container == "arrow":
        for metadata in ({}, {b"writer_epoch": b"two"}, {b"writer_epoch": b"-1"}, {b"writer_epoch": b"02"}):
            damaged = scene.copy()
            sink = pa.BufferOutputStream()
            table = entry.rows.replace_schema_metadata(metadata)
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            path = scene.wal_path(scene.positions[-1])
            damaged.objects[path] = sink.getvalue().to_pybytes()
            yield damaged, path


@plants("the_wal_starts_where_its_revision_does")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    folder = f"t/_mem_wal/{uuid.UUID(int=7, version=4)}"
    fresh = scene.copy()
    fresh.regions = (RegionId(folder.rpartition("/")[2]),)
    wrong = 1 - scene.revision.first_position
    fresh.put_entry(wrong, WalEntry(epoch=Epoch(1), rows=scene.entry(scene.positions[-1]).rows))
    first = scene.manifest(1)
    fresh.objects[fresh.manifest_path(1)] = scene.objects[scene.manifest_path(1)]
    fresh.objects[fresh.manifest_path(1)] = _encoded(fresh, replace(first, region_id=fresh.regions[0]))
    yield fresh, f"{folder}/wal"


def _encoded(scene: Scene, manifest: Any) -> bytes:
    from memwal.codec import region_manifest

    return region_manifest.encode(manifest, scene.revision)


@plants("the_wal_has_no_hole")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    first = scene.manifest().position_replay_after + 1
    yield put_or_drop(scene.copy(), scene.wal_path(first), None), scene.wal_path(first)
    last = scene.positions[-1]
    for gap in (2, 1000):
        damaged = scene.copy()
        damaged.put_entry(last + gap, damaged.entry(last))
        yield damaged, scene.wal_path(last + 1)


@plants("the_wal_reaches_the_last_seen_entry")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    last = scene.positions[-1]
    assert scene.manifest().position_last_seen == last
    yield put_or_drop(scene.copy(), scene.wal_path(last), None), scene.wal_path(last)


@plants("flushed_entries_go_from_the_bottom")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for position in scene.positions:
        if position <= scene.manifest().position_replay_after:
            yield put_or_drop(scene.copy(), scene.wal_path(position), None), scene.wal_path(position)


@plants("wal_epochs_never_decrease")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    last = scene.positions[-1]
    for epoch in (1, 3, 99):
        damaged = scene.copy()
        yield damaged, damaged.put_entry(last, damaged.entry(last), epoch=Epoch(epoch))


@plants("wal_entries_have_one_suffix")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    other = {"lance": "arrow", "arrow": "lance"}[scene.revision.wal_suffix]
    for position in (scene.positions[0], scene.positions[-1], scene.positions[-1] + 1):
        path = f"{scene.wal_path(position).rpartition('.')[0]}.{other}"
        yield put_or_drop(scene.copy(), path, b"x"), path


@plants("unflushed_entries_fit_the_table")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    last = scene.positions[-1]
    entry = scene.entry(last)
    others = [
        entry.rows.drop_columns(["id"]),
        entry.rows.append_column("more", pa.nulls(entry.rows.num_rows, pa.int8())),
        entry.rows.set_column(2, "value", entry.rows.column("value").cast(pa.int64())),
    ]
    for rows_other in others:
        damaged = scene.copy()
        yield damaged, damaged.put_entry(last, entry, rows=rows_other)


@plants("each_claim_has_a_barrier")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    last = scene.positions[-1]
    damaged = scene.copy()
    damaged.add_manifest(epoch=Epoch(3))
    yield damaged, damaged.put_entry(last + 1, damaged.entry(last), epoch=Epoch(3))


@plants("wal_generations_never_decrease", "R")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    last = scene.positions[-1]
    damaged = scene.copy()
    yield damaged, damaged.put_entry(last + 1, damaged.entry(last), generation=Generation(3))
