"""Small fragments that merges leave, rewritten as one in the same job: which, when, and beside other mergers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.cli.main import app
from memwal.effects import Protocol, PutIfAbsent, StoreRequest
from memwal.errors import InvalidArgument
from memwal.ids import RegionId
from memwal.jobs.merger import merge_regions
from memwal.table import compaction, write
from memwal.table.compaction import compact_small, small
from typer.testing import CliRunner

from ..kit.catch_up_scenes import interrupted, requests
from ..kit.ground import Ground
from ..kit.tables import IO, content, flush, newest

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
OVER = 3


def rows(*keys: int, v: str) -> pa.Table:
    return pa.table([pa.array(keys, pa.int64()), [v] * len(keys)], schema=SCHEMA)


def fragments(place: Path) -> list[int]:
    """Rows of each fragment, as the native reader counts them."""
    return [fragment.count_rows() for fragment in lance.dataset(str(place)).get_fragments()]


def fed(place: Path, generations: int, compact_over: int) -> list[memwal.MergeReport]:
    """A base of 1,000 rows into which so many generations of one new row and one old one each are merged."""
    table = memwal.create(place, rows(*range(1000), v="base"), primary_key=["id"])
    found, region = [], None
    for number in range(generations):
        region = flush(table, rows(number, 1000 + number, v="new"), region=region)
        found.append(table.merge(compact_over=compact_over))
    return found


def test_fragments_of_one_size_are_rewritten_as_one_when_they_are_more_than_allowed(tmp_path: Path) -> None:
    found = fed(tmp_path / "t", 20, OVER)
    expected = dict.fromkeys(range(1000), "base") | dict.fromkeys([*range(20), *range(1000, 1020)], "new")
    assert content(Ground.of(tmp_path), newest(Ground.of(tmp_path))) == expected
    # Four fragments of two rows are one of eight, four of those one of 32; the fourth comes and goes in one call.
    assert fragments(tmp_path / "t") == [980, 32, 8]
    assert [report.compacted for report in found] == [0, 0, 0, 4] * 3 + [0, 0, 0, 7] + [0, 0, 0, 4]
    assert found[3].summary.endswith("; 4 small fragments rewritten as fewer")


def test_zero_leaves_each_fragment_and_less_is_refused(tmp_path: Path) -> None:
    assert sum(report.compacted for report in fed(tmp_path / "t", 5, 0)) == 0
    assert fragments(tmp_path / "t") == [995, *[2] * 5]
    with pytest.raises(InvalidArgument, match="compact_over=-1"):
        memwal.open(tmp_path / "t").merge(compact_over=-1)
    assert memwal.open(tmp_path / "t").merge(compact_over=1).compacted == 0  # nothing was merged


def test_the_command_rewrites_too_and_says_so(tmp_path: Path) -> None:
    fed(tmp_path / "t", OVER, 0)
    flush(memwal.open(tmp_path / "t"), rows(7, v="last"), region=memwal.open(tmp_path / "t").regions()[0].region_id)
    words = ["table", "merge", str(tmp_path / "t"), "--compact-over", str(OVER - 1), "--json"]
    assert json.loads(CliRunner().invoke(app, words).stdout)["compacted"] == OVER + 1
    assert fragments(tmp_path / "t") == [996, 7]


def test_a_rewrite_takes_no_more_than_fits_into_one_fragment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fed(tmp_path / "t", 9, 0)
    state = newest(Ground.of(tmp_path))
    monkeypatch.setattr(compaction, "FRAGMENT_ROWS", 10)
    assert [len(small(state, over)) for over in (8, 9)] == [5, 0]
    monkeypatch.setattr(compaction, "FRAGMENT_ROWS", 7)
    assert small(state, 1) == []  # two rows are more than a quarter of seven
    monkeypatch.undo()
    monkeypatch.setattr(compaction, "FILE_BYTES", 1)
    assert small(state, 1) == []


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ground, RegionId, dict[int, str]]:
    """A base with four small fragments, and a generation with a row of one of them; the rows when it is merged."""
    place = tmp_path_factory.mktemp("scene")
    fed(place / "t", OVER + 1, 0)
    table = memwal.open(place / "t")
    region = flush(table, rows(1, 2000, v="last"), region=table.regions()[0].region_id)
    expected = dict.fromkeys(range(1000), "base") | dict.fromkeys([0, 1, 2, 3, *range(1000, 1004)], "new")
    return Ground.of(place), RegionId(region), expected | {1: "last", 2000: "last"}


@pytest.mark.clause("MERGE-006", "MERGE-012", "TXN-030")
@pytest.mark.parametrize("merge_first", [False, True])
def test_a_merge_at_any_moment_of_a_rewrite_and_a_rewrite_at_any_moment_of_a_merge_lose_no_row(
    scene: tuple[Ground, RegionId, dict[int, str]], merge_first: bool
) -> None:
    first, region, expected = scene

    def merging(_: Ground) -> Protocol[Any]:
        return merge_regions(IO, (region,))

    def rewriting(ground: Ground) -> Protocol[Any]:
        return compact_small(IO, newest(ground), OVER)

    one, other = (merging, rewriting) if merge_first else (rewriting, merging)
    count = len(requests(first, one(first)))
    assert count > 5
    for at in range(count):
        ground = first.copy()
        interrupted(ground, one(ground), at, lambda ground=ground: ground.run(other(ground)))  # type: ignore[misc]
        assert content(ground, newest(ground)) == expected, at
        assert not small(newest(ground), OVER), at
        assert newest(ground).mem_wal.progress(region) == OVER + 2


def test_a_rewrite_that_always_loses_is_left_to_the_next_call_with_a_note(
    scene: tuple[Ground, RegionId, dict[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "CONFLICT_ATTEMPTS", 2)
    ground = scene[0].copy()
    keys = [1000, 1001]

    def delete_from_what_is_rewritten(request: StoreRequest[Any]) -> None:
        if isinstance(request, PutIfAbsent) and "/data/" in request.path and keys:
            memwal.base_table("t", store=ground).delete(f"id = {keys.pop()}")

    ground.before = delete_from_what_is_rewritten
    ground.run(compact_small(IO, newest(ground), OVER))
    assert (keys, len(ground.events("compaction_lost"))) == ([], 1)
    assert set(content(ground, newest(ground))) == {*range(1000), 1002, 1003}
    ground.run(compact_small(IO, newest(ground), OVER))
    assert len(newest(ground).fragments) == 2
