"""Damage to rows, by the invariant that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from memwal.codec import bloom, data_file, deletion, key_index

from .damaged_tables import Scene, damages, rows
from .planting import cuts, plants, put_or_drop

# Rows


def _rewritten(scene: Scene, path: str, change: Callable[[pa.Table], pa.Table]) -> str:
    """Replace the rows of a Lance file by as many others; table manifests that name it get its new size."""
    before = scene.objects[path]
    table = data_file.decode(before, path)
    scene.objects[path] = data_file.encode(change(table))
    after = len(scene.objects[path])
    for name in [n for n in scene.objects if n.endswith(".manifest") and "/_versions/" in n]:
        root = name.partition("/_versions/")[0]

        def resize(message: Any, indices: list[Any]) -> None:
            for fragment in message.fragments:
                for file in fragment.files:
                    if path.endswith(f"/{file.path}"):
                        file.file_size_bytes = after

        version = next(v for v in scene.versions(root) if scene.version_path(v, root) == name)
        scene.change_version(resize, version, root)
    return path


@plants("named_files_are_whole")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    data = scene.below("t/data")[0]
    shorter = scene.copy()
    yield shorter, _rewritten(shorter, data, lambda table: table.slice(1))
    (path,) = scene.below("t/_deletions")
    for cut in damages(scene.objects[path]):
        if cut is not None:
            yield put_or_drop(scene.copy(), path, cut), path
    for offsets in ([], [0, 1], [99]):
        other = scene.copy()
        other.objects[path] = deletion.encode(np.array(offsets, np.uint32))[1]
        yield other, path


def _data_of(scene: Scene, number: int) -> str:
    """The one data file of a generation; in A one of the WAL files that it names."""
    if scene.revision.self_contained:
        return scene.below(f"{scene.generation(number)}/data")[0]
    return scene.wal_path({1: 1, 2: 3, 3: 5}[number])


@plants("generations_equal_their_wal", "B", "R")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def other_value(table: pa.Table) -> pa.Table:
        return table.set_column(2, table.schema.field(2), pa.array([99] * table.num_rows, pa.int32()))

    def other_order(table: pa.Table) -> pa.Table:
        return table.take(list(reversed(range(table.num_rows))))

    for number in (1, 2, 3):
        for change in (other_value, other_order):
            damaged = scene.copy()
            _rewritten(damaged, _data_of(scene, number), change)
            yield damaged, scene.generation(number)
    position = scene.manifest().position_replay_after
    swapped = scene.copy()
    entry = swapped.entry(position)
    swapped.put_entry(position, entry, rows=entry.rows.slice(1))
    yield swapped, scene.generation(3)


@plants("filters_have_every_key")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    path = f"{scene.generation(2)}/bloom_filter.bin"
    yield from (cut for cut in cuts(scene, path) if scene.revision.bloom != "split-block" or _is_odd(*cut))
    other = scene.copy()
    other.objects[path] = bloom.encode(rows((-1, None, None)).select(["id"]), scene.revision)
    yield other, path
    empty = scene.copy()
    empty.objects[path] = bytes(len(scene.objects[path]))
    if scene.revision.bloom == "split-block":
        yield empty, path


def _is_odd(damaged: Scene, path: str) -> bool:
    return not damaged.objects[path] or len(damaged.objects[path]) % 32 > 0


@plants("key_indexes_have_every_key", "R")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for name in (key_index.PAGE_DATA, key_index.PAGE_LOOKUP):
        yield from cuts(scene, f"{scene.generation(2)}/{name}")
    path = f"{scene.generation(2)}/{key_index.PAGE_DATA}"

    def shorter(table: pa.Table) -> pa.Table:
        return table.slice(1)

    def shifted(table: pa.Table) -> pa.Table:
        ids = pa.array([(i + 1) % table.num_rows for i in table.column("ids").to_pylist()], pa.uint64())
        return table.set_column(1, table.schema.field(1), ids)

    for change in (shorter, shifted):
        damaged = scene.copy()
        damaged.objects[path] = data_file.encode(change(data_file.decode(scene.objects[path], path)))
        yield damaged, path


def _with_null_key(table: pa.Table) -> pa.Table:
    keys = pa.array([None, *table.column("id").to_pylist()[1:]], pa.int64())
    return table.set_column(0, pa.field("id", pa.int64()), keys)


@plants("keys_are_not_null")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    if scene.revision.self_contained:
        damaged = scene.copy()
        _rewritten(damaged, _data_of(scene, 3), _with_null_key)
        _nullable(damaged, scene.generation(3))
        yield damaged, scene.generation(3)
    tail = scene.copy()
    last = tail.positions[-1]
    entry = tail.entry(last)
    for root in ("t",):
        _nullable(tail, root)
    yield tail, tail.put_entry(last, entry, rows=_with_null_key(entry.rows))


def _nullable(scene: Scene, root: str) -> None:
    def edit(message: Any, indices: list[Any]) -> None:
        message.fields[0].nullable = True

    scene.change_version(edit, root=root)


@plants("older_rows_are_hidden", "R")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    folder = scene.generation(1)
    (path,) = scene.below(f"{folder}/_deletions")
    for offsets in ([0], [3]):
        damaged = scene.copy()
        damaged.objects[path] = deletion.encode(np.array(offsets, np.uint32))[1]
        yield damaged, folder

    def unmasked(message: Any, indices: list[Any]) -> None:
        message.fragments[0].ClearField("deletion_file")

    damaged = scene.copy()
    damaged.change_version(unmasked, 1, folder)
    yield damaged, folder


@plants("rows_belong_to_their_region")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    other = scene.copy()
    other.regions = (scene.regions[1],)
    foreign = other.entry(other.positions[-1])
    tail = scene.copy()
    last = tail.positions[-1]
    yield tail, tail.put_entry(last, tail.entry(last), rows=foreign.rows)
    mixed = scene.copy()
    entry = mixed.entry(last)
    yield mixed, mixed.put_entry(last, entry, rows=pa.concat_tables([entry.rows, foreign.rows]))


@plants("base_keys_are_unique")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    within = scene.copy()
    path = scene.below("t/data")[0]

    def twice(table: pa.Table) -> pa.Table:
        keys = table.column("id").to_pylist()
        return table.set_column(0, table.schema.field(0), pa.array([*keys[:-1], keys[-2]], pa.int64()))

    for path in scene.below("t/data"):
        if data_file.decode(scene.objects[path], path).num_rows > 3:
            yield within, _rewritten(within, path, twice)
            break
    again = scene.copy()
    again.table.base.append(rows((100, "again", 1)))
    yield again, min(p for p in again.below("t/data") if 100 in _ids(again, p))


def _ids(scene: Scene, path: str) -> list[int]:
    ids: list[int] = data_file.decode(scene.objects[path], path).column("id").to_pylist()
    return ids


@plants("base_keys_are_not_null")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    path = next(p for p in scene.below("t/data") if 100 in _ids(scene, p))
    _nullable(damaged, "t")
    yield damaged, _rewritten(damaged, path, _with_null_key)


@plants("keys_are_in_one_region")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    other = scene.copy()
    other.regions = (scene.regions[1],)
    for source in (3, 5, other.positions[-1]):
        damaged = scene.copy()
        last = damaged.positions[-1]
        path = damaged.put_entry(last, damaged.entry(last), rows=other.entry(source).rows)
        yield damaged, path
