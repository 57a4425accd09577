"""Damage to generations, by the invariant that it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from memwal.codec import key_index
from memwal.ids import Generation, WalPosition
from memwal.region.rows import TOMBSTONE

from .damaged_tables import Scene
from .planting import cuts, plants, put_or_drop

# Generations


@plants("listed_generations_open")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for number in (1, 2, 3):
        folder = scene.generation(number)
        path = scene.version_path(1, folder)
        yield from cuts(scene, path)
        yield put_or_drop(scene.copy(), path, None), f"{folder}/_versions"


@plants("listed_generations_are_dense")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    flushed = scene.manifest().flushed
    for changes in (
        {"flushed": (flushed[1], flushed[0], flushed[2])},
        {"flushed": flushed[:2]},
        {"flushed": (flushed[0], flushed[2])},
        {"generation_current": Generation(6)},
    ):
        damaged = scene.copy()
        yield damaged, damaged.change_manifest(**changes)


def _configured(scene: Scene, number: int, **values: str) -> str:
    def edit(message: Any, indices: list[Any]) -> None:
        for key, value in values.items():
            message.config[f"memwal.{key}"] = value

    return scene.change_version(edit, 1, scene.generation(number))


@plants("generation_ranges_are_contiguous")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    newest = scene.manifest_path(scene.manifest_versions[-1])
    for number, values, named in (
        (2, {"wal_first": "1"}, None),
        (2, {"wal_first": "9", "wal_last": "8"}, None),
        (3, {"wal_last": "6"}, newest),
        (3, {"wal_last": "4"}, newest),
    ):
        damaged = scene.copy()
        path = _configured(damaged, number, **values)
        yield damaged, named or path
    moved = scene.copy()
    yield moved, moved.add_manifest(position_replay_after=WalPosition(6))


@plants("base_paths_stay_inside")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for base in ("/somewhere/else/wal", "../../wal", "../../../..", "s3://bucket/wal"):
        damaged = scene.copy()

        def outside(message: Any, indices: list[Any], base: str = base) -> None:
            del message.base_paths[:]
            message.base_paths.add(id=1, path=base)
            for fragment in message.fragments:
                fragment.files[0].base_id = 1

        yield damaged, damaged.change_version(outside, 1, scene.generation(3))


@plants("generations_have_their_filter")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for number in (1, 3):
        path = f"{scene.generation(number)}/bloom_filter.bin"
        yield put_or_drop(scene.copy(), path, None), path


@plants("generations_have_their_key_index", "R")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for name in (key_index.PAGE_DATA, key_index.PAGE_LOOKUP):
        path = f"{scene.generation(2)}/{name}"
        yield put_or_drop(scene.copy(), path, None), path


@plants("unmerged_generations_fit_the_table")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    folder = scene.generation(3)

    def retyped(message: Any, indices: list[Any]) -> None:
        message.fields[2].logical_type = "int64"

    def without_key(message: Any, indices: list[Any]) -> None:
        message.fields[0].name, message.fields[0].id = "other", 77

    def without_name(message: Any, indices: list[Any]) -> None:
        message.fields[1].name, message.fields[1].id = "other", 77

    def strict(message: Any, indices: list[Any]) -> None:
        message.fields[1].nullable = False

    for edit in (retyped, without_key):
        damaged = scene.copy()
        yield damaged, damaged.change_version(edit, 1, folder)
    added = scene.copy()
    path = added.change_version(without_name, 1, folder)
    assert path not in {f"t/{f.path}" for f in added.verify(fast=True).findings}
    added.change_version(strict)
    yield added, path


@plants("tombstones_are_of_revision_r")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def renamed(message: Any, indices: list[Any]) -> None:
        message.fields[-1].name = "_deleted" if scene.revision.tombstones else TOMBSTONE

    damaged = scene.copy()
    yield damaged, damaged.change_version(renamed, 1, scene.generation(3))
    if not scene.revision.tombstones:
        marked, last = scene.copy(), scene.positions[-1]
        entry = marked.entry(last)
        flags = pa.repeat(pa.scalar(False), entry.rows.num_rows)
        yield marked, marked.put_entry(last, entry, rows=entry.rows.append_column(TOMBSTONE, flags))


@plants("listed_row_counts_are_right", "R")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    flushed = scene.manifest().flushed
    damaged = scene.copy()
    damaged.change_manifest(flushed=(replace(flushed[0], physical_rows=99), *flushed[1:]))
    yield damaged, scene.version_path(1, scene.generation(1))
