"""Each invariant holds on what the engine writes, and names the counterexample when it is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
from memwal import invariants, paths
from memwal.codec import region_manifest
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.effects import Io
from memwal.ids import Epoch, Generation, ManifestVersion, WalPosition
from memwal.invariants.manifests import each_manifest_step_has_a_trigger
from memwal.revisions import REVISIONS, STRICT

from ..kit.folder import Folder
from ..kit.ground import manifest as region_manifest_at
from ..kit.tables import flush

ROW = pa.table(
    [pa.array([1], pa.int64()), pa.array(["x"])],
    schema=pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]),
)


@pytest.fixture(params=["A", "B", "R"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> memwal.Table:
    made = memwal.create(tmp_path / "t", ROW.schema, primary_key=["id"], revision=request.param)
    with made.writer() as writer:
        writer.put(ROW)
        writer.flush()
        writer.put(ROW)
    flush(made, ROW, region=writer.region_id)
    made.merge()
    made.snapshot()
    made.gc(retain_versions=1)
    return made


def broken(tmp_path: Path) -> list[str]:
    return [v.oracle for v in Folder(tmp_path).run(invariants.check(Io("t", interpretation=STRICT)))]


def rewrite(table: memwal.Table, tmp_path: Path, **changes: object) -> None:
    """Store one more manifest version with ``changes``."""
    newest: RegionManifest = table.regions()[0].manifest
    changed = replace(newest, version=ManifestVersion(newest.version + 1), **changes)
    target = tmp_path / "t" / paths.region(changed.region_id) / paths.manifest(changed.version)
    target.write_bytes(region_manifest.encode(changed, REVISIONS[table.revision.name]))


def test_everything_holds_on_a_table_of_the_engine(table: memwal.Table, tmp_path: Path) -> None:
    assert broken(tmp_path) == []


@pytest.mark.clause("MANIFEST-007")
def test_an_epoch_that_goes_back_is_found(table: memwal.Table, tmp_path: Path) -> None:
    rewrite(table, tmp_path, epoch=Epoch(1))
    assert "manifests_never_go_back" in broken(tmp_path)


@pytest.mark.clause("MANIFEST-020")
def test_a_missing_manifest_version_is_found(table: memwal.Table, tmp_path: Path) -> None:
    region = table.regions()[0].region_id
    (tmp_path / "t" / paths.region(region) / paths.manifest(ManifestVersion(2))).unlink()
    assert broken(tmp_path) == ["manifest_versions_are_dense"]


BEFORE = region_manifest_at(4, 2, after=9, seen=9, generation=3)
NEXT = FlushedGeneration(generation=Generation(3), path="00000003_gen_3")
LISTED, UNLISTED = (*BEFORE.flushed, NEXT), BEFORE.flushed[1:]


@pytest.mark.clause("MANIFEST-034", "MANIFEST-035", "MANIFEST-036", "MANIFEST-037", "MANIFEST-040", "AMB-34")
@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({"epoch": 3}, True),
        ({"epoch": 3, "position_last_seen": 12}, True),
        ({"epoch": 4}, False),
        ({"epoch": 3, "position_replay_after": 12}, False),
        ({"epoch": 3, "flushed": UNLISTED}, False),
        ({"position_replay_after": 12, "generation_current": 4, "flushed": LISTED}, True),
        ({"position_replay_after": 12, "generation_current": 4, "flushed": LISTED, "epoch": 3}, False),
        ({"position_replay_after": 12, "generation_current": 4}, False),
        ({"position_replay_after": 12, "flushed": LISTED}, False),
        ({"position_last_seen": 12}, True),
        ({"position_last_seen": 12, "position_replay_after": 12}, False),
        ({"position_last_seen": 12, "spec_id": 1}, False),
        ({"flushed": UNLISTED}, True),
        ({"flushed": UNLISTED, "generation_current": 4}, False),
        ({"flushed": UNLISTED, "position_replay_after": 12}, False),
    ],
)
def test_a_step_is_that_of_a_trigger_only_if_it_changes_the_fields_of_that_one_alone(
    changes: dict[str, Any], known: bool
) -> None:
    after = replace(BEFORE, version=ManifestVersion(5), **changes)
    assert (each_manifest_step_has_a_trigger(BEFORE, after, "x") == []) is known


@pytest.mark.clause("MANIFEST-034", "MANIFEST-040")
def test_a_step_that_mixes_two_triggers_is_found(table: memwal.Table, tmp_path: Path) -> None:
    newest = table.regions()[0].manifest
    rewrite(
        table, tmp_path, epoch=Epoch(newest.epoch + 1), generation_current=Generation(newest.generation_current + 1)
    )
    assert broken(tmp_path) == ["each_manifest_step_has_a_trigger"]


@pytest.mark.clause("WAL-004", "WAL-005", "WAL-007")
def test_a_hole_in_the_wal_is_found(table: memwal.Table, tmp_path: Path) -> None:
    with table.writer(table.regions()[0].region_id) as writer:
        writer.put(ROW)
        position = writer.position_next - 1
    name = paths.wal(WalPosition(position - 1), table.revision.wal_suffix)
    (tmp_path / "t" / paths.region(writer.region_id) / name).unlink()
    assert broken(tmp_path) == ["the_wal_has_no_hole"]


@pytest.mark.clause("WAL-011", "FENCE-015")
def test_an_entry_of_an_epoch_that_nobody_claimed_is_found(table: memwal.Table, tmp_path: Path) -> None:
    from memwal.codec import wal

    with table.writer(table.regions()[0].region_id) as writer:
        writer.put(ROW)
        position = writer.position_next - 1
    target = tmp_path / "t" / paths.region(writer.region_id) / paths.wal(position, table.revision.wal_suffix)
    entry = wal.decode(target.read_bytes(), table.revision, "entry")
    target.write_bytes(wal.encode(replace(entry, epoch=Epoch(99)), table.revision))
    assert broken(tmp_path) == ["wal_epochs_never_decrease"]


@pytest.mark.clause("AMB-27")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
@pytest.mark.parametrize("empty", [True, False])
def test_an_entry_behind_a_higher_epoch_is_found_but_for_barriers_in_r(
    empty: bool, revision: str, tmp_path: Path
) -> None:
    from memwal.codec import wal

    table = memwal.create(tmp_path / "t", ROW.schema, primary_key=["id"], revision=revision)
    first = table.writer()
    first.put(ROW)
    with table.writer(first.region_id) as second:
        second.put(ROW)
        position = second.position_next
    folder = tmp_path / "t" / paths.region(first.region_id)
    names = [folder / paths.wal(WalPosition(p), table.revision.wal_suffix) for p in (position - 1, position)]
    entry = wal.decode(names[0].read_bytes(), table.revision, "entry")
    rows = entry.rows.slice(0, 0) if empty else entry.rows
    names[1].write_bytes(wal.encode(replace(entry, epoch=Epoch(1), rows=rows), table.revision))
    assert broken(tmp_path) == ([] if empty and revision == "R" else ["wal_epochs_never_decrease"])


@pytest.mark.clause("FLUSH-013")
def test_a_listed_generation_without_a_table_is_found(table: memwal.Table, tmp_path: Path) -> None:
    with table.writer(table.regions()[0].region_id) as writer:
        writer.put(ROW)
        writer.flush()
    listed = table.regions()[0].manifest.flushed[-1]
    for manifest in (tmp_path / "t" / paths.region(writer.region_id) / listed.path / "_versions").iterdir():
        manifest.unlink()
    assert broken(tmp_path) == ["listed_generations_open"]


@pytest.mark.clause("MERGE-018")
def test_merge_progress_that_goes_back_is_found(table: memwal.Table, tmp_path: Path) -> None:
    from memwal.index import mem_wal

    async def forget(state: object, details: object) -> object:
        return replace(details, merged=())

    Folder(tmp_path).run(mem_wal.change(Io("t", interpretation=STRICT), forget))
    assert broken(tmp_path) == ["merge_progress_never_goes_back"]
