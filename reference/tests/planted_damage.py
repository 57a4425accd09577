"""For every invariant the damage that breaks it: each plant yields damaged scenes, and the path to be named in each."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from memwal.codec import bloom, data_file, deletion, key_index
from memwal.codec.index_details import IndexCatchup, IndexDetails
from memwal.codec.pb.lance import table_pb2
from memwal.codec.wal import WalEntry
from memwal.ids import Epoch, Generation, RegionId, SpecId, WalPosition
from memwal.index import snapshot_file
from memwal.region.rows import TOMBSTONE

from .damaged_tables import Scene, damages, rows

Plant = Callable[[Scene], Iterator[tuple[Scene, str]]]
"""A whole table -> damaged copies of it, and the object or folder that is to be named in each."""

ALL = ("A", "B", "R")


@dataclass(frozen=True)
class Planted:
    """One plant."""

    plant: Plant
    revisions: tuple[str, ...]


PLANTED: dict[str, Planted] = {}
"""Plants by the name of the invariant that they break."""


def plants(invariant: str, *revisions: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        assert invariant not in PLANTED
        PLANTED[invariant] = Planted(plant, revisions or ALL)
        return plant

    return register


def put_or_drop(scene: Scene, path: str, data: bytes | None) -> Scene:
    if data is None:
        del scene.objects[path]
    else:
        scene.objects[path] = data
    return scene


def cuts(scene: Scene, path: str) -> Iterator[tuple[Scene, str]]:
    """``path`` cut in every way, but not gone."""
    for data in damages(scene.objects[path]):
        if data is not None:
            yield put_or_drop(scene.copy(), path, data), path


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


@plants("named_files_are_there")
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


# Regions


@plants("region_folders_are_region_ids")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for folder in ("archive", scene.regions[0].upper(), str(uuid.uuid1()), scene.regions[0].replace("-", "")):
        path = f"t/_mem_wal/{folder}"
        yield put_or_drop(scene.copy(), f"{path}/manifest/version_hint.json", b"{}"), path


@plants("regions_hold_nothing_else")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for name in ("notes.txt", "backup/wal/x", "12345_gen_1/data/x"):
        path = f"{scene.region}/{name}"
        yield put_or_drop(scene.copy(), path, b"x"), f"{scene.region}/{name.partition('/')[0]}"


@plants("quarantines_are_empty")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    path = f"{scene.region}/quarantine/3-entry.arrow"
    yield put_or_drop(scene.copy(), path, b"x"), path


@plants("regions_with_data_have_a_manifest")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for kept in ("wal", "gen_", ""):
        damaged = scene.copy()
        for path in damaged.below(scene.region):
            if "/manifest/" in path or (kept and kept not in path.removeprefix(scene.region)):
                del damaged.objects[path]
        yield damaged, f"{scene.region}/manifest"


@plants("regions_have_a_manifest")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    folder = f"t/_mem_wal/{uuid.UUID(int=7, version=4)}/manifest"
    yield put_or_drop(scene.copy(), f"{folder}/version_hint.json", b'{"version": 1}'), folder


@plants("region_specs_are_listed")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    yield damaged, damaged.change_manifest(spec_id=SpecId(9))
    dropped = scene.copy()
    dropped.change_details(lambda details: replace(details, specs=(), inline_snapshots=None, num_regions=0), add=True)
    yield dropped, scene.manifest_path(scene.manifest_versions[-1])


@plants("regions_are_registered_under_their_spec")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    yield damaged, damaged.change_manifest(spec_id=SpecId(0))


@plants("regions_have_distinct_values")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    details = scene.details
    assert details.inline_snapshots is not None
    registered = snapshot_file.decode(details.inline_snapshots, details, scene.revision, "t")
    same = [replace(row, values=registered[0].values) for row in registered]
    data = snapshot_file.encode(same, details, scene.revision)
    damaged = scene.copy()
    damaged.change_details(lambda details: replace(details, inline_snapshots=data))
    yield damaged, f"t/_mem_wal/{max(scene.regions)}"


@plants("unmerged_generations_are_listed")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    flushed = scene.manifest().flushed
    for kept in ((), flushed[:1], flushed[2:]):
        damaged = scene.copy()
        yield damaged, damaged.add_manifest(flushed=kept)


@plants("merge_progress_is_below_the_current_generation")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    path = scene.manifest_path(scene.manifest_versions[-1])
    for progress in (4, 99):
        damaged = scene.copy()
        merged = ((scene.regions[0], Generation(progress)),)
        damaged.change_details(lambda details, merged=merged: replace(details, merged=merged))
        yield damaged, path


@plants("merged_regions_are_there")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    for path in damaged.below(scene.region):
        del damaged.objects[path]
    yield damaged, f"{scene.region}/manifest"


# Region manifests


@plants("region_manifests_open")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for version in (1, 4, 6):
        yield from cuts(scene, scene.manifest_path(version))
    flushed = scene.manifest().flushed
    for changes in (
        {"region_id": RegionId(str(uuid.UUID(int=7, version=4)))},
        {"flushed": (*flushed, flushed[-1])},
        {"flushed": (replace(flushed[0], path="elsewhere"), *flushed[1:])},
        {"generation_current": Generation(2)},
    ):
        damaged = scene.copy()
        yield damaged, damaged.change_manifest(**changes)
    renamed = scene.copy()
    renamed.objects[scene.manifest_path(7)] = scene.objects[scene.manifest_path(6)]
    yield renamed, scene.manifest_path(7)


@plants("manifest_versions_are_dense")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for version in scene.manifest_versions[1:-1]:
        yield put_or_drop(scene.copy(), scene.manifest_path(version), None), scene.manifest_path(version)


@plants("manifest_versions_go_with_consent")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    for version in scene.manifest_versions[:3]:
        del damaged.objects[scene.manifest_path(version)]
        yield damaged.copy(), scene.manifest_path(1)


@plants("the_hint_names_a_version")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    path = f"{scene.region}/manifest/version_hint.json"
    for data in (b"", b"{", b"[6]", b'{"version": 0}', b'{"version": "6"}', b'{"version": 6.0}'):
        yield put_or_drop(scene.copy(), path, data), path
    yield put_or_drop(scene.copy(), path, b'{"version": 7}'), scene.manifest_path(7)
    newest = scene.manifest_path(scene.manifest_versions[-1])
    yield put_or_drop(scene.copy(), newest, None), newest


@plants("manifests_never_go_back")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for changes in (
        {"epoch": Epoch(1)},
        {"position_replay_after": WalPosition(0)},
        {"generation_current": Generation(1), "flushed": ()},
        {"spec_id": SpecId(2)},
    ):
        damaged = scene.copy()
        yield damaged, damaged.add_manifest(**changes)


@plants("each_manifest_step_has_a_trigger")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    newest = scene.manifest()
    extra = replace(newest.flushed[-1], generation=Generation(4), path="00000000_gen_4")
    for changes in (
        {"epoch": Epoch(newest.epoch + 2)},
        {"epoch": Epoch(newest.epoch + 1), "flushed": newest.flushed[1:]},
        {"generation_current": Generation(newest.generation_current + 1)},
        {"position_replay_after": WalPosition(newest.position_replay_after + 1)},
        {"flushed": (*newest.flushed, extra), "generation_current": Generation(6)},
    ):
        damaged = scene.copy()
        yield damaged, damaged.add_manifest(**changes)


@plants("the_first_manifest_is_fresh")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for changes in (
        {"epoch": Epoch(5)},
        {"position_replay_after": WalPosition(10)},
        {"generation_current": Generation(8)},
    ):
        damaged = scene.copy()
        yield damaged, damaged.change_manifest(1, **changes)


@plants("epochs_do_not_exceed_versions")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    for version in (1, 6):
        damaged = scene.copy()
        yield damaged, damaged.change_manifest(version, epoch=Epoch(version + 1))


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
        entry.rows.drop_columns(["name"]),
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
    def renamed(message: Any, indices: list[Any]) -> None:
        message.fields[1].name = "title"

    def retyped(message: Any, indices: list[Any]) -> None:
        message.fields[2].logical_type = "int64"

    def rekeyed(message: Any, indices: list[Any]) -> None:
        message.fields[0].metadata.clear()
        message.fields[0].unenforced_primary_key = False

    for edit in (renamed, retyped, rekeyed):
        damaged = scene.copy()
        yield damaged, damaged.change_version(edit, 1, scene.generation(3))


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
    again.table.append(rows((100, "again", 1)))
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
