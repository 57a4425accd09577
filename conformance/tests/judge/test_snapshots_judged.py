"""What the judge says of region snapshots: their columns, and their rows beside the region manifests."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from lance.file import LanceFileWriter
from memwal_conformance.judge import snapshots, structure
from memwal_conformance.judge.artifacts import Generation, JudgedIndexDetails, Manifest
from memwal_conformance.judge.store import LAYOUTS, JudgedRegion, JudgedStore
from memwal_conformance.judge.table import JudgedTableManifest
from memwal_conformance.judge.wire import DamagedBytes

REGION = "0f8fad5b-d9cb-469f-a165-70867728950e"
LISTED = pa.list_(pa.struct([pa.field("generation", pa.uint64()), pa.field("path", pa.string())]))
GOOD = pa.table(
    {
        "region_id": pa.array([uuid.UUID(REGION).bytes], pa.binary(16)),
        "version": pa.array([3], pa.uint64()),
        "region_spec_id": pa.array([0], pa.uint32()),
        "writer_epoch": pa.array([2], pa.uint64()),
        "replay_after_wal_entry_position": pa.array([5], pa.uint64()),
        "wal_entry_position_last_seen": pa.array([5], pa.uint64()),
        "current_generation": pa.array([2], pa.uint64()),
        "flushed_generations": pa.array([[{"generation": 1, "path": "a1b2c3d4_gen_1"}]], LISTED),
    }
)
MANIFEST = Manifest(
    region_id=REGION,
    version=3,
    spec_id=0,
    epoch=2,
    replay_after=5,
    last_seen=5,
    current_generation=2,
    generations=(Generation(number=1, path="a1b2c3d4_gen_1"),),
    shard_fields=(),
    sealed=False,
)


def lance_file(rows: pa.Table) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index.lance"
        with LanceFileWriter(str(file), rows.schema) as writer:
            writer.write_batch(rows.combine_chunks().to_batches()[0])
        return file.read_bytes()


def stored(root: Path, inline: bytes | None, num_regions: int = 1, revision: str = "B") -> JudgedStore:
    details = JudgedIndexDetails(
        snapshot_ts_millis=0,
        num_regions=num_regions,
        inline_snapshots=inline,
        region_specs=(),
        maintained_indexes=(),
        merged=(),
        catchup=(),
    )
    region = JudgedRegion(
        region_id=REGION,
        folder=root / "_mem_wal" / REGION,
        manifests={3: MANIFEST},
        wal={},
        wal_names=(),
        generations=(),
        strangers=(),
        hint=None,
    )
    table = JudgedTableManifest(version=1, fragments=0, base_paths=(), memwal=(details,), config={})
    return JudgedStore(root=root, layout=LAYOUTS[revision], key=(), table=table, regions={REGION: region}, strangers=())


def faults(store: JudgedStore) -> list[str]:
    found = (check for check in structure.CHECKS if check.name.startswith("snapshot"))
    return [each for check in found for each in structure.result(check.name, (), check.look(store)).faults]


def changed(name: str, values: pa.Array, called: str | None = None) -> Callable[[], pa.Table]:
    return lambda: GOOD.set_column(GOOD.column_names.index(name), called or name, values)


def test_a_snapshot_that_is_like_the_manifest_is_in_order_inline_and_in_a_file(tmp_path: Path) -> None:
    assert faults(stored(tmp_path, lance_file(GOOD))) == []
    file = tmp_path / "_indices" / str(uuid.uuid4()) / "index.lance"
    file.parent.mkdir(parents=True)
    file.write_bytes(lance_file(GOOD))
    assert faults(stored(tmp_path, None)) == []


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(changed("wal_entry_position_last_seen", pa.array([9], pa.uint64())), id="later hint"),
        pytest.param(lambda: GOOD.append_column("region_field_b", pa.array([1], pa.int32())), id="region field"),
        pytest.param(lambda: GOOD.select(reversed(GOOD.column_names)), id="other order"),
        pytest.param(changed("version", pa.array([2], pa.uint64())), id="version that is gone"),
    ],
)
def test_what_the_text_leaves_open_is_in_order(rows: Callable[[], pa.Table], tmp_path: Path) -> None:
    assert faults(stored(tmp_path, lance_file(rows()))) == []


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            changed("wal_entry_position_last_seen", pa.array([5], pa.uint64()), "wal_id_last_seen"),
            "the column wal_entry_position_last_seen is None, and not uint64",
        ),
        (changed("current_generation", pa.array([2], pa.int64())), "the column current_generation is int64"),
        (changed("region_id", pa.array([uuid.UUID(REGION).bytes])), "the column region_id is binary"),
        (changed("region_id", pa.array([None], pa.binary(16))), "the column region_id has NULLs"),
        (changed("flushed_generations", pa.array([None], LISTED)), f"{REGION}, version 3: flushed_generations is []"),
        (
            changed("flushed_generations", pa.array([[1]])),
            "the column flushed_generations is list<item: int64>, and no list",
        ),
        (changed("writer_epoch", pa.array([3], pa.uint64())), f"{REGION}, version 3: writer_epoch is 3"),
        (changed("wal_entry_position_last_seen", pa.array([4], pa.uint64())), f"{REGION}, version 3: wal_entry_pos"),
        (changed("flushed_generations", pa.array([[]], LISTED)), f"{REGION}, version 3: flushed_generations is []"),
        (
            changed("version", pa.array([4], pa.uint64())),
            f"{REGION}: the snapshot was read from version 4, which there",
        ),
        (lambda: pa.concat_tables([GOOD, GOOD]), f"{REGION} has 2 rows in the snapshot"),
    ],
)
def test_what_is_wrong_with_a_snapshot_is_told(rows: Callable[[], pa.Table], told: str, tmp_path: Path) -> None:
    assert faults(stored(tmp_path, lance_file(rows())))[0].startswith(told)


@pytest.mark.parametrize("name", ["region_id", "wal_entry_position_last_seen"])
def test_hints_of_a_snapshot_that_does_not_say_them_are_damage(name: str, tmp_path: Path) -> None:
    assert snapshots.hints(stored(tmp_path, lance_file(GOOD))) == {REGION: 5}
    empty = changed(name, pa.nulls(1, GOOD.schema.field(name).type))
    for rows in (empty, changed(name, GOOD[name], "other")):
        with pytest.raises(DamagedBytes, match=f"a region snapshot: the column {name} "):
            snapshots.hints(stored(tmp_path, lance_file(rows())))


def test_a_snapshot_that_is_counted_and_not_there_is_told(tmp_path: Path) -> None:
    assert "there is no snapshot" in faults(stored(tmp_path, None))[0]
    assert faults(stored(tmp_path, None, num_regions=0)) == []
    assert faults(stored(tmp_path, b"", num_regions=0))[0].startswith("inline_snapshots is there and empty")
    assert faults(stored(tmp_path, lance_file(GOOD), num_regions=2)) == ["num_regions is 2, and the snapshot has 1"]


def test_a_column_is_of_its_own_clause(tmp_path: Path) -> None:
    results = structure.run(stored(tmp_path, lance_file(changed("current_generation", pa.array([2], pa.int64()))())))
    broken = [result.clauses for result in results if result.check.startswith("snapshot") and result.faults]
    assert broken == [("SNAP-008",)]


def test_a_region_of_a_spec_that_no_version_of_the_table_has_breaks_its_clause(tmp_path: Path) -> None:
    good = stored(tmp_path, None)
    strange = replace(good.regions[REGION], manifests={3: replace(MANIFEST, spec_id=7)})
    results = structure.run(replace(good, regions={REGION: strange}))
    (found,) = (result for result in results if result.check == "region specs")
    assert found.clauses == ("REGION-011",)
    assert found.faults == (f"{REGION}: region_spec_id is 7, and no region spec has that id",)
    assert "region specs" not in [result.check for result in structure.run(good) if result.faults]


def test_a_file_that_is_no_snapshot_is_told(tmp_path: Path) -> None:
    assert faults(stored(tmp_path, b"no Lance file"))[0].startswith("a region snapshot: not a Lance file")


def test_revision_a_has_names_of_its_own(tmp_path: Path) -> None:
    names = {
        "replay_after_wal_entry_position": "replay_after_wal_id",
        "wal_entry_position_last_seen": "wal_id_last_seen",
    }
    own = GOOD.rename_columns([names.get(name, name) for name in GOOD.column_names])
    assert faults(stored(tmp_path, lance_file(own), revision="A")) == []
    assert len(faults(stored(tmp_path, lance_file(GOOD), revision="A"))) == 2


def test_revision_r_is_not_held_to_them(tmp_path: Path) -> None:
    names = {result.check for result in structure.run(replace(stored(tmp_path, b"?"), layout=LAYOUTS["R"]))}
    assert not [name for name in names if name.startswith("snapshot")]
