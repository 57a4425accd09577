"""Damage to table versions, the MemWAL index and region snapshots, by the invariant that it breaks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from memwal.codec.index_details import IndexCatchup, IndexDetails
from memwal.codec.pb.lance import table_pb2
from memwal.ids import Generation, SpecId

from .damaged_tables import Scene, damages
from .planting import cuts, plants, put_or_drop

# Table


@plants("table_versions_open")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for version in (1, 4, 8):
        yield from cuts(scene, scene.version_path(version))
    renamed = scene.copy()
    renamed.objects[scene.version_path(9)] = scene.objects[scene.version_path(8)]
    yield renamed, scene.version_path(9)


@plants("table_versions_are_dense")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for version in scene.versions()[2:-1]:
        yield put_or_drop(scene.copy(), scene.version_path(version), None), scene.version_path(version)


@plants("table_versions_have_one_naming_scheme")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for version in (1, 5, 8):
        mixed = scene.copy()
        mixed.objects[f"t/_versions/{version}.manifest"] = mixed.objects.pop(scene.version_path(version))
        yield mixed, "t/_versions"


@plants("transactions_are_there")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for path in scene.below("t/_transactions")[::3]:
        for data in damages(scene.objects[path]):
            yield put_or_drop(scene.copy(), path, data), path
    unnamed = scene.copy()
    yield unnamed, unnamed.change_version(lambda message, indices: message.ClearField("transaction_file"))


@plants("fragment_ids_are_unique")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def twice(message: Any, indices: list[Any]) -> None:
        message.fragments.add().CopyFrom(message.fragments[0])

    def below(message: Any, indices: list[Any]) -> None:
        message.max_fragment_id = 0
        message.fragments[0].id = 7

    for edit in (twice, below):
        damaged = scene.copy()
        yield damaged, damaged.change_version(edit)


@plants("data_files_have_one_version")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def one_file(message: Any, indices: list[Any]) -> None:
        message.fragments[0].files[0].file_minor_version = 0

    def all_files(message: Any, indices: list[Any]) -> None:
        message.data_format.version = "2.2"

    for edit in (one_file, all_files):
        damaged = scene.copy()
        yield damaged, damaged.change_version(edit)


@plants("deletion_files_are_announced")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for flags in ("reader_feature_flags", "writer_feature_flags"):
        damaged = scene.copy()

        def silent(message: Any, indices: list[Any], flags: str = flags) -> None:
            setattr(message, flags, getattr(message, flags) & ~1)

        yield damaged, damaged.change_version(silent)


@plants("tags_name_versions")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    path = "t/_refs/tags/other.json"
    for data in (b"", b"{", b"[]", b'{"version": "one"}', b'{"version": 99}', b'{"version": null}'):
        yield put_or_drop(scene.copy(), path, data), path


@plants("named_files_are_there", "A", "B", "R")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    folders = ["t/data", "t/_deletions", *(f"{scene.generation(g)}/data" for g in (1, 3))]
    for path in [name for folder in folders for name in scene.below(folder)]:
        yield put_or_drop(scene.copy(), path, None), path
        if path.endswith(".lance"):
            yield from cuts(scene, path)
    if not scene.revision.self_contained:
        yield put_or_drop(scene.copy(), scene.wal_path(2), None), scene.wal_path(2)


@plants("index_files_are_there")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    number = uuid.UUID(int=77)
    path = f"t/_indices/{number}/page_data.lance"
    name, size = b"page_data.lance", 5
    listed = bytes([10 << 3 | 2, len(name) + 4, 1 << 3 | 2, len(name)]) + name + bytes([2 << 3, size])

    def add(message: Any, indices: list[Any]) -> None:
        index = table_pb2.IndexMetadata.FromString(listed)
        index.name, index.uuid.uuid = "by_value", number.bytes
        indices.append(index)

    gone, short, right = scene.copy(), scene.copy(), scene.copy()
    short.objects[path], right.objects[path] = b"1234", b"12345"
    for damaged in (gone, short, right):
        damaged.change_version(add)
    assert right.verify(fast=True).clean
    yield gone, path
    yield short, path


# MemWAL index


@plants("one_mem_wal_index")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def twice(message: Any, indices: list[Any]) -> None:
        other = table_pb2.IndexMetadata()
        other.CopyFrom(next(i for i in indices if i.name == "__lance_mem_wal"))
        other.name = "another"
        indices.append(other)

    for version in (3, 8):
        damaged = scene.copy()
        yield damaged, damaged.change_version(twice, version)


@plants("index_details_open")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for data in (b"\xff\xff", b"\x10", b"\x0a\x05\x0a\x01a\x10\x01"):
        damaged = scene.copy()

        def garbage(message: Any, indices: list[Any], data: bytes = data) -> None:
            for index in indices:
                index.index_details.value = data

        yield damaged, damaged.change_version(garbage)


@plants("the_table_declares_a_key", "A", "B")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def without(message: Any, indices: list[Any]) -> None:
        for field in message.fields:
            field.metadata.clear()
            field.unenforced_primary_key = False

    damaged = scene.copy()
    yield damaged, damaged.change_version(without)


@plants("maintained_indexes_exist")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    yield damaged, damaged.change_details(lambda details: replace(details, maintained_indexes=("by_value",)))


@plants("region_specs_are_sound")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def with_field(**changes: Any) -> Callable[[IndexDetails], IndexDetails]:
        def change(details: IndexDetails) -> IndexDetails:
            (spec,) = details.specs
            return replace(details, specs=(replace(spec, fields=(replace(spec.fields[0], **changes),)),))

        return change

    changes = [
        with_field(source_ids=(99,)),
        with_field(source_ids=(1,)),
        with_field(transform=None),
        with_field(parameters=()),
        lambda details: replace(details, specs=(*details.specs, *details.specs)),
        lambda details: replace(details, specs=(replace(details.specs[0], spec_id=SpecId(0)),)),
    ]
    for change in changes:
        damaged = scene.copy()
        yield damaged, damaged.change_details(change)


@plants("catch_up_is_not_ahead_of_merging")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for region, generation in ((scene.regions[0], 2), (scene.regions[1], 1)):
        damaged = scene.copy()
        entry = IndexCatchup(index_name="by_value", generations=((region, Generation(generation)),))
        yield damaged, damaged.change_details(lambda details, entry=entry: replace(details, catchup=(entry,)))


def _without_index(message: Any, indices: list[Any]) -> None:
    indices[:] = [index for index in indices if index.name != "__lance_mem_wal"]


@plants("the_mem_wal_index_stays")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    yield damaged, damaged.change_version(_without_index, add=True)
    between = scene.copy()
    yield between, between.change_version(_without_index, 5)


@plants("regions_need_a_mem_wal_index")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    for version in scene.versions():
        path = damaged.change_version(_without_index, version)
    yield damaged, path


@plants("enabling_was_finished")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    for path in damaged.below("t/_mem_wal"):
        del damaged.objects[path]
    for version in scene.versions():
        path = damaged.change_version(_without_index, version)
    yield damaged, path


@plants("merge_progress_never_goes_back")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for merged in ((), ((scene.regions[0], Generation(0)),), ((scene.regions[1], Generation(1)),)):
        damaged = scene.copy()
        yield damaged, damaged.change_details(lambda details, m=merged: replace(details, merged=m), add=True)


@plants("catch_up_never_goes_back")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def caught_up(generation: int) -> Callable[[IndexDetails], IndexDetails]:
        entry = IndexCatchup(index_name="by_value", generations=((scene.regions[0], Generation(generation)),))
        return lambda details: replace(details, catchup=(entry,))

    def add(message: Any, indices: list[Any]) -> None:
        index = table_pb2.IndexMetadata(name="by_value")
        index.uuid.uuid = uuid.UUID(int=77).bytes
        indices.append(index)

    damaged = scene.copy()
    damaged.change_version(add)
    damaged.change_details(caught_up(1))
    yield damaged, damaged.change_details(caught_up(0), add=True)


@plants("region_specs_never_change")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    def other(details: IndexDetails) -> IndexDetails:
        (spec,) = details.specs
        parameters = tuple((k, "4" if k == "num_buckets" else v) for k, v in spec.fields[0].parameters)
        return replace(details, specs=(replace(spec, fields=(replace(spec.fields[0], parameters=parameters),)),))

    damaged = scene.copy()
    yield damaged, damaged.change_details(other, add=True)
    again = scene.copy()
    again.change_details(lambda details: replace(details, specs=()), add=True)
    again.change_details(lambda details: replace(details, specs=scene.details.specs), add=True)
    yield again, again.change_details(other)


# Snapshots


@plants("snapshots_open")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    inline = scene.details.inline_snapshots
    assert inline is not None
    for data in (inline[:-1], inline[: len(inline) // 2]):
        damaged = scene.copy()
        yield damaged, damaged.change_details(lambda details, data=data: replace(details, inline_snapshots=data))
    if not scene.revision.snapshot_files:
        return
    wrong = scene.copy()
    yield wrong, wrong.change_details(lambda details: replace(details, num_regions=3))
    index = next(i for i in scene.version().indices if i.name == "__lance_mem_wal")
    path = f"t/_indices/{uuid.UUID(bytes=index.uuid.uuid)}/index.lance"
    for cut in damages(inline):
        external = scene.copy()
        external.change_details(lambda details: replace(details, inline_snapshots=None))
        if cut is not None:
            external.objects[path] = cut
        yield external, path


@plants("snapshots_are_not_ahead")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    versions = scene.manifest_versions
    for first in range(1, len(versions)):
        damaged = scene.copy()
        for version in versions[first:]:
            del damaged.objects[scene.manifest_path(version)]
        yield damaged, scene.manifest_path(versions[-1])


@plants("snapshots_list_what_is_there")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for number in (1, 2, 3):
        damaged = scene.copy()
        for path in damaged.below(scene.generation(number)):
            del damaged.objects[path]
        yield damaged, scene.generation(number)
