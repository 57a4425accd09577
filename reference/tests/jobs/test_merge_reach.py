"""Which fragments of the base a merge reads for its keys where a btree over the key names those that may hold them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.ids import RegionId
from memwal.jobs.merger import merge_region
from memwal.read import fragments
from memwal.table import write
from memwal.table.compaction import compact

from ..kit.catch_up_scenes import interrupted, requests
from ..kit.ground import Ground
from ..kit.tables import IO, content, flush, newest

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), ("v", pa.string())])
BASE = dict.fromkeys(range(30), "base")
MERGED = {12: "merged", 40: "merged"}


def rows(values: dict[int, str]) -> pa.Table:
    return pa.table([pa.array(values.keys(), pa.int64()), pa.array(values.values(), pa.string())], schema=SCHEMA)


def append(place: Path, values: dict[int, str]) -> None:
    lance.write_dataset(rows(values), str(place), mode="append")


def update(place: Path) -> None:
    lance.dataset(str(place)).update({"v": "'updated'"}, where="id = 12 OR id = 13")


def delete(place: Path) -> None:
    lance.dataset(str(place)).delete("id = 12 OR id = 13")


def compacted(place: Path) -> None:
    lance.dataset(str(place)).optimize.compact_files(target_rows_per_fragment=100)


def replaced(place: Path) -> None:
    """The index is made anew over all, and what belongs to the one before is cleaned up."""
    lance.dataset(str(place)).create_scalar_index("id", "BTREE", name="by_id", replace=True)


def overwritten(place: Path) -> None:
    """The same rows from the last to the first; nothing may be left to merge, so the generation is flushed after it."""
    table = memwal.open(place)
    table.merge()
    memwal.base_table(place).overwrite(rows(dict(reversed(BASE.items()))))
    flush(memwal.open(place), rows(MERGED), region=table.regions()[0].region_id)


def with_spec(place: Path) -> None:
    """New writes go to other regions than the one that has the generation."""
    memwal.open(place).add_spec(memwal.bucket("b", "id", 2), beside_manual=True)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, RegionId]:
    """A base of three fragments with a btree over the key, and one generation of two keys, of which one is there."""
    monkeypatch.setattr(fragments, "ROWS_PER_KEY", 5)
    place = tmp_path / "t"
    for start in (0, 10, 20):
        own = {key: BASE[key] for key in range(start, start + 10)}
        mode = "append" if start else "create"
        lance.write_dataset(rows(own), str(place), mode=mode, data_storage_version="2.1")
    lance.dataset(str(place)).create_scalar_index("id", "BTREE", name="by_id")
    return place, flush(memwal.enable(place), rows(MERGED))


def merged(place: Path, region: RegionId) -> tuple[Ground, dict[int, str], set[int]]:
    """The store after a merge, its rows, and the ids of the fragments of before whose data files were asked for."""
    ground = Ground.of(place.parent)
    before = newest(ground)
    ground.run(merge_region(IO, region))
    asked = {request.path for request in ground.asked}
    read = {f.id for f in before.fragments if {f"t/data/{file.path}" for file in f.files} & asked}
    return ground, content(ground, newest(ground)), read


@pytest.mark.clause("MERGE-002", "PLAN-033")
def test_a_merge_reads_the_fragments_that_the_key_index_names_and_those_that_it_does_not_cover(
    scene: tuple[Path, RegionId],
) -> None:
    place, region = scene
    append(place, {50: "foreign"})
    _, found, read = merged(place, region)
    assert found == BASE | {50: "foreign"} | MERGED
    assert read == {1, 3}


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        (partial(append, values={40: "foreign", 41: "foreign"}), BASE | {41: "foreign"} | MERGED),
        (update, BASE | {13: "updated"} | MERGED),
        (delete, {key: v for key, v in BASE.items() if key != 13} | MERGED),
        (compacted, BASE | MERGED),
        (replaced, BASE | MERGED),
        (overwritten, BASE | MERGED),
        (with_spec, BASE | MERGED),
    ],
    ids=["append", "update", "delete", "compaction", "index made anew", "overwrite", "region spec"],
)
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.clause("MERGE-002", "PLAN-033")
def test_no_row_with_a_merged_key_stays_after_any_foreign_commit(
    scene: tuple[Path, RegionId], foreign: Callable[[Path], None], expected: dict[int, str], twice: bool
) -> None:
    place, region = scene
    foreign(place)
    if twice:
        compacted(place)
    assert merged(place, region)[1] == expected


@pytest.mark.clause("MERGE-002")
def test_a_damaged_key_index_is_not_believed_and_stops_no_merge(scene: tuple[Path, RegionId]) -> None:
    place, region = scene
    for file in place.glob("_indices/*/page_*.lance"):
        file.write_bytes(b"damaged" * 20)
    ground, found, read = merged(place, region)
    assert found == BASE | MERGED
    assert read == {0, 1, 2}
    assert len(ground.events("key_index_not_read")) == 1


@pytest.mark.clause("MERGE-002", "MERGE-012")
def test_rows_appended_or_moved_at_any_moment_of_a_merge_are_replaced_once(scene: tuple[Path, RegionId]) -> None:
    place, region = scene
    first = Ground.of(place.parent)
    met = 0
    for at in range(len(requests(first, merge_region(IO, region)))):
        ground = first.copy()
        expected = BASE | MERGED

        def meanwhile(ground: Ground = ground, expected: dict[int, str] = expected) -> None:
            nonlocal met
            if newest(ground).mem_wal.progress(region):
                return  # the merge is in, and an append of its key would be a second row
            met += 1
            ground.run(write.append(IO, rows({40: "foreign", 41: "foreign"})))
            ground.run(compact(IO))
            expected[41] = "foreign"

        interrupted(ground, merge_region(IO, region), at, meanwhile)
        assert content(ground, newest(ground)) == expected, at
    assert met > 10
