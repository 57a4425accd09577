"""Damage to regions and their manifests, by the invariant that it breaks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

from memwal.ids import Epoch, Generation, RegionId, SpecId, WalPosition
from memwal.index import snapshot_file

from .damaged_tables import Scene
from .planting import cuts, plants, put_or_drop

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
    collected = put_or_drop(scene.copy(), scene.manifest_path(1), None)
    yield put_or_drop(collected, path, b'{"version": 1}'), scene.manifest_path(1)


@plants("the_hint_is_never_ahead")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    path = f"{scene.region}/manifest/version_hint.json"
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


@plants("the_last_seen_hint_never_falls")
def _(scene: Scene) -> Iterator[tuple[Scene, str]]:
    damaged = scene.copy()
    yield damaged, damaged.change_manifest(position_last_seen=WalPosition(0))


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
